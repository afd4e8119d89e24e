//! Lookups by Zipf's law on a tree of five times the budget: from uniform to so skewed that all
//! that is asked for stays (leanstore-2018 VI-B, figure 10), and what the share of cooling pages
//! does (figure 11).
//!
//! Popular records are scattered over the leaves by a hash, so that a hot key makes a hot leaf. The
//! paper does not say how its keys lie; its hit ratios fit popular keys that share leaves (see
//! `replay/zipf.rs`). So our working sets have more pages at the same skew.
//!
//! The skew grows in one pool, which is filled before. What is popular is the same at each, so
//! that pages that a step needs are there from those before; besides, each runs unmeasured for as
//! long as it is measured then.

use polder_pool::replacement::ReplacementKind::{self, Clock, Cooling};

use crate::ladder::prelude::*;

/// The data by the budget.
const TIMES: u64 = 5;
/// Exponents; 0 is uniform.
const SKEWS: [f64; 9] = [0.0, 0.5, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0];
/// Those at which shares are compared: in the paper most happens between 1.5 and 1.7.
const COOLING_SKEWS: [f64; 7] = [0.0, 1.0, 1.4, 1.5, 1.6, 1.7, 1.8];
/// Shares of cooling pages, and second chance.
const POLICIES: [ReplacementKind; 7] = [
    Cooling { percent: 1 },
    Cooling { percent: 2 },
    Cooling { percent: 5 },
    Cooling { percent: 10 },
    Cooling { percent: 20 },
    Cooling { percent: 50 },
    Clock,
];
/// Of these, the one by which the others are given.
const USUAL: usize = 3;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let mut measured = Measured::default();
    push_lookups::<T>(setup, "lookups", &SKEWS, &mut measured)?;
    Ok(measured)
}

/// By [`POLICIES`].
pub(crate) fn run_cooling<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let mut measured = Measured::default();
    let mut rates = [const { Vec::new() }; POLICIES.len()];
    for turn in turns(setup.round as usize, POLICIES.len()) {
        let replacement = POLICIES[turn];
        let setup = Setup { side: Side { replacement, ..setup.side }, ..*setup };
        let metric = format!("{replacement}: lookups");
        rates[turn] = push_lookups::<T>(&setup, &metric, &COOLING_SKEWS, &mut measured)?;
    }
    for (policy, rates_of_it) in POLICIES.iter().zip(&rates) {
        for ((skew, rate), usual) in COOLING_SKEWS.iter().zip(rates_of_it).zip(&rates[USUAL]) {
            measured.push(policy.to_string(), *skew, rate / usual);
        }
    }
    Ok(measured)
}

/// Adds lookups of each of these skews, one after the other, in a pool of their own. Gives how many
/// there were in a second.
fn push_lookups<T: Translation>(
    setup: &Setup<'_>,
    metric: &str,
    skews: &[f64],
    measured: &mut Measured,
) -> Result<Vec<f64>, BenchError> {
    let stored = Stored::find(setup, &[setup.scale.records])?;
    let subject = stored.open::<T>(setup, stored.bytes / TIMES)?;
    subject.touch(stored.records / TIMES)?;
    let mut rates = Vec::new();
    for &skew in skews {
        (setup.tell)(&format!("skew {skew}, {}", setup.side.replacement));
        let dist = if skew > 0.0 { Dist::Zipfian } else { Dist::Uniform };
        let worker = |_| subject.reader_among(stored.records, dist, skew);
        setup.drive(setup.most_threads(), worker)?;
        let (driven, pages_read) = subject.drive(setup.most_threads(), worker)?;
        measured.push_driven(metric, skew, &driven);
        measured.push(format!("{metric}: pages read"), skew, pages_read);
        rates.push(driven.per_s());
    }
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use polder_pool::Swizzle;

    use super::*;
    use crate::ladder::plan::Scale;
    use crate::ladder::setup::testing::run;

    #[test]
    fn the_more_skewed_lookups_are_the_fewer_pages_they_read() {
        run(|setup| {
            let scale = Scale { records: 200_000, ..setup.scale };
            let measured = super::run::<Swizzle>(&Setup { scale, ..*setup }).unwrap();
            let pages = measured.of("lookups: pages read");
            // Of five times the budget, a fifth is there at most.
            assert!(pages[0] > 0.7 && pages[SKEWS.len() - 1] < 0.05, "{pages:?}");
            assert!(pages[3] < 0.9 * pages[0] && pages[5] < 0.7 * pages[3], "{pages:?}");
        });
    }

    #[test]
    fn shares_of_cooling_pages_are_given_by_the_usual_one() {
        run(|setup| {
            let measured = run_cooling::<Swizzle>(&Setup { round: 2, ..*setup }).unwrap();
            let of = |metric| measured.of(metric);
            assert_eq!(of("cooling:10"), [1.0; COOLING_SKEWS.len()]);
            for (i, share) in of("clock").into_iter().enumerate() {
                let rate = of("clock: lookups")[i] / of("cooling:10: lookups")[i];
                assert!((share / rate - 1.0).abs() < 1e-9);
            }
            assert_eq!(of("cooling:50: lookups: pages read").len(), COOLING_SKEWS.len());
        });
    }
}
