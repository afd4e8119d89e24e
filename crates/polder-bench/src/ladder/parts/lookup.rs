//! Point lookups in a tree that is all resident: uniform (predictive-2026 6.1, 6.4) and
//! zipfian (YCSB-C), what the processor counts of them (6.5), and how long chains are (6.6).
//! calico-2026 3.2, table 3, has YCSB-C and does not say with which distribution.
//!
//! Timed is [`Tree::get_with`](polder_tree::Tree::get_with), from key to one word of the value.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::counters::{Counters, Event};
use crate::ladder::prelude::*;

/// Chains this long and longer are counted together.
const LONGEST: usize = 4;
/// Entries for each bucket at which chains are looked at.
const FILLS: [f64; 4] = [0.25, 0.5, 0.75, 1.0];

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let records = setup.scale.records;
    let subject = Subject::<T>::resident(setup, records)?;
    let mut measured = Measured::default();
    // The word of each value that is read has a line for itself.
    measured.push_touched(records);
    for (metric, dist) in [("uniform", Dist::Uniform), ("zipfian", Dist::Zipfian)] {
        (setup.tell)(metric);
        subject.settle(dist)?;
        if let Some(share) = in_place(subject.tree.space())? {
            measured.push(format!("{metric}: in place"), 0.0, share);
        }
        for &threads in setup.threads {
            let driven = subject.lookups(threads, dist)?;
            measured.push_driven(metric, threads as f64, &driven);
        }
        counted(setup, metric, subject.reader(dist, records), &mut measured)?;
    }
    chains(&subject.pool, &mut measured);
    Ok(measured)
}

/// What the processor counts while one thread does turns of lookups, for each of them; nothing
/// where it does not count, or the kernel does not let us ask.
fn counted(
    setup: &Setup<'_>,
    metric: &str,
    mut turn: impl FnMut() -> Result<u64, BenchError>,
    measured: &mut Measured,
) -> Result<(), BenchError> {
    let Ok(counters) = Counters::open().and_then(Counters::start) else { return Ok(()) };
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(setup.seconds));
    let mut lookups = 0;
    while began.elapsed() < limit {
        setup.interrupt.check()?;
        lookups += turn()?;
    }
    let Ok(counts) = counters.stop() else { return Ok(()) };
    let each = |event| counts.of(event).map(|count| count / lookups.max(1) as f64);
    for event in Event::ALL {
        if let Some(count) = each(event) {
            measured.push(format!("{metric}: {}", event.name()), 1.0, count);
        }
    }
    if let Some((instructions, cycles)) = each(Event::Instructions).zip(each(Event::Cycles)) {
        measured.push(format!("{metric}: instructions a cycle"), 1.0, instructions / cycles);
    }
    Ok(())
}

/// Which share of the chains that are not empty has which length: in the pool as it is, and in
/// tables of other sizes.
pub(super) fn chains<T: Translation>(pool: &Pool<T>, measured: &mut Measured) {
    let Some(lengths) = pool.chain_lengths() else { return };
    push_chains("chains", &lengths, measured);
    for fill in FILLS {
        let buckets = NonZeroU32::new((pages_in(&lengths) as f64 / fill) as u32);
        if let Some(lengths) = buckets.and_then(|buckets| pool.chain_lengths_among(buckets)) {
            push_chains(&format!("chains at fill {fill}"), &lengths, measured);
        }
    }
}

/// The pages in chains of these lengths.
fn pages_in(lengths: &[u64]) -> u64 {
    lengths.iter().zip(0..).map(|(count, length)| count * length).sum()
}

fn push_chains(metric: &str, lengths: &[u64], measured: &mut Measured) {
    let all: u64 = lengths.iter().skip(1).sum();
    let mut shares = [0; LONGEST];
    for (length, count) in lengths.iter().enumerate().skip(1) {
        shares[length.min(LONGEST) - 1] += count;
    }
    for (i, count) in shares.into_iter().enumerate() {
        measured.push(metric, i as f64 + 1.0, count as f64 / all.max(1) as f64);
    }
}

#[cfg(test)]
mod tests {
    use polder_pool::Hash;

    use super::*;
    use crate::ladder::setup::testing::run;

    /// Hashed pages are in buckets as if by chance, so that a bucket of a table with `fill` entries
    /// for each has k of them as Poisson's law says.
    #[test]
    fn chains_are_as_long_as_chance_has_them() {
        run(|setup| {
            let pool = Subject::<Hash>::resident(setup, 600_000).unwrap().pool;
            let mut measured = Measured::default();
            chains(&pool, &mut measured);
            let among = pool.chain_lengths_among(NonZeroU32::new(77).unwrap()).unwrap();
            assert_eq!(pages_in(&among), pages_in(&pool.chain_lengths().unwrap()));
            for fill in FILLS {
                let shares = measured.of(&format!("chains at fill {fill}"));
                let empty = (-fill).exp();
                let one = fill * empty / (1.0 - empty);
                assert!((shares[0] - one).abs() < 0.02, "{fill}: {shares:?}, expected {one}");
                assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
        });
    }

    #[test]
    fn what_is_counted_is_counted_for_each_lookup() {
        run(|setup| {
            let mut measured = Measured::default();
            let turn = || {
                std::hint::black_box((0..64_000u64).map(std::hint::black_box).sum::<u64>());
                Ok(64)
            };
            counted(setup, "uniform", turn, &mut measured).unwrap();
            match measured.of("uniform: instructions").first() {
                Some(instructions) => assert!((1000.0..100_000.0).contains(instructions)),
                None => eprintln!("skipped, no counters here"),
            }
        });
    }
}
