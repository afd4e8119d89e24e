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

use polder_pool::replacement::ReplacementKind;

use crate::ladder::prelude::*;

/// The data by the budget.
const TIMES: u64 = 5;
/// Exponents; 0 is uniform.
const SKEWS: [f64; 9] = [0.0, 0.5, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0];
/// Those at which shares are compared: in the paper most happens between 1.5 and 1.7.
const COOLING_SKEWS: [f64; 7] = [0.0, 1.0, 1.4, 1.5, 1.6, 1.7, 1.8];
/// Pages that cool, in percent.
const SHARES: [u8; 6] = [1, 2, 5, 10, 20, 50];
/// The share by which others are given.
const USUAL_SHARE: u8 = 10;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let stored = Stored::find(setup, setup.scale.records)?;
    let mut measured = Measured::default();
    for step in by_skew::<T>(setup, &stored, &SKEWS)? {
        measured.push_driven("lookups", step.skew, &step.driven);
        measured.push("lookups: pages read", step.skew, step.faults);
    }
    Ok(measured)
}

/// By shares of cooling pages, and by second chance beside them.
pub(crate) fn run_cooling<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let stored = Stored::find(setup, setup.scale.records)?;
    let cooling = |percent| ReplacementKind::Cooling { percent };
    let mut policies = vec![ReplacementKind::Clock];
    policies.extend(SHARES.map(cooling));
    let mut steps = Vec::new();
    for turn in turns(setup.round as usize, policies.len()) {
        let replacement = policies[turn];
        let setup = setup.on(Side { replacement, ..setup.side });
        steps.push((replacement, by_skew::<T>(&setup, &stored, &COOLING_SKEWS)?));
    }
    let usual = steps.iter().find(|(policy, _)| *policy == cooling(USUAL_SHARE));
    let usual: Vec<f64> = usual.iter().flat_map(|(_, steps)| steps).map(Step::rate).collect();
    let mut measured = Measured::default();
    for (policy, steps) in &steps {
        let name = policy.to_string();
        for (step, usual) in steps.iter().zip(&usual) {
            measured.push(&name, step.skew, step.rate() / usual);
            measured.push(format!("{name}: lookups"), step.skew, step.rate());
            measured.push(format!("{name}: pages read"), step.skew, step.faults);
        }
    }
    Ok(measured)
}

/// What lookups of one skew did.
struct Step {
    skew: f64,
    driven: Driven,
    /// A lookup.
    faults: f64,
}

impl Step {
    /// Lookups a second.
    fn rate(&self) -> f64 {
        self.driven.ops as f64 / self.driven.seconds.max(1e-9)
    }
}

/// Lookups of each of these skews, one after the other, in a pool of their own.
fn by_skew<T: Translation>(
    setup: &Setup<'_>,
    stored: &Stored,
    skews: &[f64],
) -> Result<Vec<Step>, BenchError> {
    let subject = stored.open::<T>(setup, stored.bytes / TIMES)?;
    subject.touch(0..stored.records / TIMES)?;
    skews.iter().map(|&skew| step(&subject, skew)).collect()
}

fn step<T: Translation>(subject: &Subject<'_, T>, skew: f64) -> Result<Step, BenchError> {
    let Subject { setup, pool, keys: Keys { records, .. }, .. } = subject;
    (setup.tell)(&format!("skew {skew}, {}", setup.side.replacement));
    let most = setup.most_threads();
    let chooser = Chooser::skewed(skew, *records);
    let worker = |_| subject.reader_of(chooser.clone(), *records);
    setup.drive(most, worker)?;
    let before = pool.stats().faults;
    let driven = setup.drive(most, worker)?;
    let faults = (pool.stats().faults - before) as f64 / driven.ops.max(1) as f64;
    Ok(Step { skew, driven, faults })
}

#[cfg(test)]
mod tests {
    use polder_pool::Swizzle;

    use super::*;
    use crate::ladder::setup::testing::run;

    #[test]
    fn the_more_skewed_lookups_are_the_fewer_pages_they_read() {
        run(|setup| {
            let stored = Stored::find(setup, 200_000).unwrap();
            let steps = by_skew::<Swizzle>(setup, &stored, &SKEWS).unwrap();
            let faults: Vec<f64> = steps.iter().map(|step| step.faults).collect();
            // Of five times the budget, a fifth is there at most.
            assert!(faults[0] > 0.7 && faults[SKEWS.len() - 1] < 0.05, "{faults:?}");
            assert!(faults[3] < 0.9 * faults[0] && faults[5] < 0.7 * faults[3], "{faults:?}");
        });
    }

    #[test]
    fn shares_of_cooling_pages_are_given_by_the_usual_one() {
        run(|setup| {
            let setup = Setup { round: 2, ..*setup };
            let measured = run_cooling::<Swizzle>(&setup).unwrap();
            let of = |metric| measured.of(metric);
            assert_eq!(of("cooling:10"), [1.0; COOLING_SKEWS.len()]);
            for (i, share) in of("clock").into_iter().enumerate() {
                let rate = of("clock: lookups")[i] / of("cooling:10: lookups")[i];
                assert!((share / rate - 1.0).abs() < 1e-9);
            }
            assert_eq!(of("cooling:50: pages read").len(), COOLING_SKEWS.len());
        });
    }
}
