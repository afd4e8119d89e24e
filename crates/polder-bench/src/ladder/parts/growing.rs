//! YCSB-C on a tree of four times the budget: first only records of half the budget are asked for,
//! then more and more, until all are (predictive-2026 6.3, figure 8, with TPC-C); then all are
//! asked for by one thread and by more; and how long the chains of a hash table are then, by how full it is (6.6, figure 10).
//!
//! The axis is data by the budget, not by frames: each side is asked for the same data at each step,
//! and pays for its translation and metadata out of what is left for frames.
//!
//! Records whose keys are neighbours lie in one leaf, so that the first tenth of the records is a
//! tenth of the leaves. Before a step of at most the budget is measured its leaves are loaded, and
//! each step runs unmeasured for as long as it is measured then, by other requests.

use std::num::NonZeroU32;

use crate::ladder::prelude::*;

/// The data by the budget.
const TIMES: f64 = 4.0;
/// What is asked for, by the budget.
const STEPS: [f64; 6] = [0.5, 0.75, 1.0, 1.5, 2.0, TIMES];
/// Entries for each bucket at which chains are looked at.
const FILLS: [f64; 4] = [0.25, 0.5, 0.75, 1.0];
/// Chains this long and longer are counted together.
const LONGEST: usize = 4;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let stored = Stored::find(setup, &[setup.scale.records])?;
    let subject = stored.open::<T>(setup, (stored.bytes as f64 / TIMES) as u64)?;
    let budget = subject.pool.stats().memory_budget_bytes as f64;
    let mut measured = Measured::default();
    for step in STEPS {
        (setup.tell)(&format!("{step} times the budget"));
        let share = (step * budget / stored.bytes as f64).min(1.0);
        let among = ((stored.records as f64 * share) as u64).max(1);
        if step <= 1.0 {
            subject.touch(among)?;
        }
        let worker = |_| subject.reader_among(among, Dist::Zipfian, YCSB_THETA);
        setup.drive(setup.most_threads(), worker)?;
        let driven = setup.drive(setup.most_threads(), worker)?;
        measured.push_driven("lookups", step, &driven);
    }
    for &threads in setup.threads {
        (setup.tell)(&format!("out of memory, {threads} threads"));
        let before = subject.pool.stats().give_backs;
        let driven = subject.lookups(threads, Dist::Zipfian)?;
        measured.push_driven("out of memory", threads as f64, &driven);
        let give_backs = subject.pool.stats().give_backs - before;
        let an_op = driven.an_op(give_backs as f64);
        measured.push("out of memory: give-backs", threads as f64, an_op);
    }
    push_chains(&subject.pool, &mut measured);
    Ok(measured)
}

/// Adds which share of the chains that are not empty has which length, if the pages that are
/// resident were in tables of several sizes.
fn push_chains<T: Translation>(pool: &Pool<T>, measured: &mut Measured) {
    let pages = pool.stats().resident_pages as f64;
    for fill in FILLS {
        let buckets = NonZeroU32::new((pages / fill) as u32);
        let Some(counts) = buckets.and_then(|buckets| pool.chain_lengths(buckets)) else {
            return;
        };
        let chains = counts.iter().skip(1).sum::<u64>().max(1) as f64;
        for length in 1..=LONGEST {
            let lengths = if length < LONGEST { 1 } else { usize::MAX };
            let count: u64 = counts.iter().skip(length).take(lengths).sum();
            measured.push(format!("chains at fill {fill}"), length as f64, count as f64 / chains);
        }
    }
}

#[cfg(test)]
mod tests {
    use polder_pool::{Array, Hash};

    use super::*;
    use crate::ladder::setup::testing::run;

    /// Hashed pages are in buckets as if by chance, so that a bucket of a table with `fill` entries
    /// for each has k of them as Poisson's law says.
    #[test]
    fn chains_are_as_long_as_chance_has_them() {
        run(|setup| {
            let mut measured = Measured::default();
            push_chains(&Subject::<Array>::resident(setup, 1).unwrap().pool, &mut measured);
            assert_eq!(measured, Measured::default(), "an array has no chains");
            push_chains(&Subject::<Hash>::resident(setup, 600_000).unwrap().pool, &mut measured);
            for fill in FILLS {
                let shares = measured.of(&format!("chains at fill {fill}"));
                let empty = (-fill).exp();
                let one = fill * empty / (1.0 - empty);
                assert!((shares[0] - one).abs() < 0.02, "{fill}: {shares:?}, expected {one}");
                assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
        });
    }
}
