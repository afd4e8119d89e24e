//! Memory in tiers: lookups and TPC-C on data of four times the first tier, by the size of the second
//! (vmcache-n-2026 4, figure 2), and by what goes where.
//!
//! Where the machine has two nodes of memory the tiers are those. Else the second one is simulated: each
//! access there waits as long as four cache lines would take that are so much slower ([`SLOWER`]). Under
//! `vm` pages then change their tier in the pool's accounts alone. The budget is the first tier, and pays
//! for what is known of the pages of both, so that it has fewer frames the larger the second one is.
//!
//! Memory is empty when a store is opened, and is measured when the store has run for some time.

use std::time::Duration;

use polder_pool::{Migration, Tier, TierConfig};

use super::migration::second_node;
use crate::ladder::prelude::*;

/// Data by the first tier: 130 GB by 32 in the paper.
const TIMES: u64 = 4;
/// A first tier in which there is room for what must be known of four times as many pages.
const LEAST_FIRST: u64 = 2 << 20;
/// How much longer a cache line of a simulated tier takes.
const SLOWER: Duration = Duration::from_nanos(300);
/// Measurements from an empty pool on, of which the last one counts; all of them are throughput over time.
const STEPS: usize = 5;

const LOOKUPS: [(&str, Dist); 2] = [("zipfian", Dist::Zipfian), ("uniform", Dist::Uniform)];

/// One measurement of a workload: what follows the workload's name, the second tier by the first,
/// and what goes where, if it is not as the pool finds out.
type Case = (&'static str, f64, Option<Migration>);

/// By the size of the second tier.
const SIZES: &[Case] =
    &[("", 0.0, None), ("", 0.25, None), ("", 1.0, None), ("", 2.0, None), ("", 4.0, None)];

/// By what goes where, in the paper's notation: Dr, Dw, Rr, Rw.
const POLICIES: &[Case] = &[
    (", tuned", 1.0, None),
    (", often", 1.0, of(0.1, 0.1, 0.0, 1.0)),
    // As in the paper for TPC-C.
    (", all 1", 1.0, of(1.0, 1.0, 1.0, 1.0)),
    // As in the paper for lookups.
    (", all 0.1", 1.0, of(0.1, 0.1, 0.1, 0.1)),
    // Spitfire's lazy policy.
    (", lazy", 1.0, of(0.01, 0.01, 1.0, 1.0)),
    (", no promotion", 1.0, of(0.0, 0.0, 0.0, 1.0)),
];

const fn of(
    read_promotes: f64,
    write_promotes: f64,
    loads_to_slower: f64,
    evicts_to_slower: f64,
) -> Option<Migration> {
    Some(Migration { read_promotes, write_promotes, loads_to_slower, evicts_to_slower })
}

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    lookups::<T>(setup, SIZES)
}

pub(crate) fn run_policies<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    lookups::<T>(setup, POLICIES)
}

pub(crate) fn run_tpcc(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    transactions(setup, SIZES)
}

pub(crate) fn run_tpcc_policies(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    transactions(setup, POLICIES)
}

/// Adds the figures of a workload, and the best of the policies that are given. `rates` gives, of each
/// step with such a second tier and policy, operations a second and pages that each of them read.
fn push(
    setup: &Setup<'_>,
    workload: &str,
    cases: &[Case],
    measured: &mut Measured,
    rates: impl Fn(f64, Option<Migration>) -> Result<[(f64, f64); STEPS], BenchError>,
) -> Result<(), BenchError> {
    let mut best_given = 0.0f64;
    for turn in turns(setup.round as usize, cases.len()) {
        let (name, second, migration) = cases[turn];
        let steps = rates(second, migration)?;
        for ((per_s, _), step) in steps.iter().zip(1u8..) {
            let ended_at = f64::from(step) * setup.seconds;
            measured.push(format!("{workload}{name} over time, {second} times"), ended_at, *per_s);
        }
        let (per_s, pages_read) = steps[STEPS - 1];
        measured.push(format!("{workload}{name}"), second, per_s);
        measured.push(format!("{workload}{name}: pages read"), second, pages_read);
        best_given = best_given.max(migration.map_or(0.0, |_| per_s));
    }
    if best_given > 0.0 {
        measured.push(format!("{workload}, best given"), 1.0, best_given);
    }
    Ok(())
}

/// Lookups from an empty pool on.
fn lookups<T: Translation>(setup: &Setup<'_>, cases: &[Case]) -> Result<Measured, BenchError> {
    let stored = Stored::find(setup, &[setup.scale.growing_records])?;
    let first = stored.bytes / TIMES;
    let mut measured = Measured::default();
    for (name, dist) in LOOKUPS {
        push(setup, name, cases, &mut measured, |second, migration| {
            (setup.tell)(&format!("{dist}, a second tier of {second} times the first"));
            let tiers = tiers(first, second, migration);
            let subject = stored.open_in::<T>(setup, first, tiers)?;
            let mut steps = [(0.0, 0.0); STEPS];
            for step in &mut steps {
                let threads = setup.most_threads();
                let (driven, pages_read) = subject.drive(threads, |_| subject.reader(dist))?;
                *step = (driven.per_s(), pages_read);
            }
            Ok(steps)
        })?;
    }
    Ok(measured)
}

/// TPC-C from an empty pool on.
fn transactions(setup: &Setup<'_>, cases: &[Case]) -> Result<Measured, BenchError> {
    let loaded = Loaded::find(setup, setup.scale.larger_warehouses, None)?;
    let first = loaded.budget(1.0 / TIMES as f64).max(LEAST_FIRST);
    let mut measured = Measured::default();
    push(setup, "transactions", cases, &mut measured, |second, migration| {
        let TierConfig { first_node, slower, .. } = tiers(first, second, migration);
        let mut fast = Tier::new(first);
        fast.node = first_node;
        let store = loaded.copy(setup)?.open_with(setup, first, |options| {
            let options = options.tiers([fast].into_iter().chain(slower));
            match migration {
                Some(migration) => options.migration(migration),
                None => options,
            }
        })?;
        let mut steps = [(0.0, 0.0); STEPS];
        for step in &mut steps {
            let ran = store.run(setup.most_threads())?;
            *step = (ran.per_s, ran.pages_read);
        }
        Ok(steps)
    })?;
    Ok(measured)
}

/// A second tier of so many times the first, none at 0, and what goes where.
fn tiers(first: u64, second: f64, migration: Option<Migration>) -> TierConfig {
    let (bytes, node) = ((first as f64 * second) as u64, second_node());
    let slower = match node {
        _ if bytes == 0 => None,
        Some(node) => Some(Tier::new(bytes).on_node(node)),
        None => Some(Tier::new(bytes).simulated(SLOWER)),
    };
    let first_node = node.map(|_| 0);
    TierConfig { first_node, slower: slower.into_iter().collect(), migration, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use polder_pool::{Array, Vm};

    use super::*;
    use crate::ladder::setup::testing;

    #[test]
    fn a_second_tier_of_any_size_is_measured() {
        testing::run(|setup| {
            let measured = run::<Array>(setup).unwrap();
            for (name, _) in LOOKUPS {
                let rates = measured.of(name);
                assert!(rates.len() == SIZES.len() && rates.iter().all(|rate| *rate > 0.0));
                let over_time = measured.of(&format!("{name} over time, 0.25 times"));
                assert_eq!(over_time.last(), rates.get(1));
            }
        });
    }

    #[test]
    fn the_best_of_the_policies_that_are_given_is_told() {
        testing::run(|setup| {
            let measured = run_policies::<Vm>(setup).unwrap();
            let of = |name: &str| measured.of(&format!("uniform{name}"))[0];
            assert!(of(", tuned") > 0.0);
            let best = POLICIES[1..].iter().map(|(name, ..)| of(name)).fold(0.0, f64::max);
            assert_eq!(of(", best given"), best);
        });
    }

    #[test]
    fn more_memory_makes_transactions_read_fewer_pages() {
        testing::run(|setup| {
            let measured = run_tpcc(&Setup { seconds: 0.2, ..*setup }).unwrap();
            let pages = measured.of("transactions: pages read");
            assert!(pages[0] > pages[SIZES.len() - 1], "{pages:?}");
        });
    }
}
