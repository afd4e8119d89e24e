//! Memory in tiers: lookups and TPC-C on data of four times the first tier, by the size of the second
//! (vmcache-n-2026 4, figure 2), and by what goes where.
//!
//! Where the machine has two nodes of memory the tiers are those. Else the second one is simulated: each
//! access there waits as long as four cache lines would take that are so much slower ([`SLOWER`]). Under
//! `vm` pages then change their tier in the pool's accounts alone. The budget is the first tier, and pays
//! for what is known of the pages of both, so that it has fewer frames the larger the second one is.
//!
//! A store is empty when it begins, and is measured in steps from then on: the last one is the figure.

use std::fs;
use std::time::Duration;

use polder_pool::{Migration, Tier, TierConfig};

use crate::ladder::prelude::*;

/// Data by the first tier: 130 GB by 32 in the paper.
const TIMES: u64 = 4;
/// The second tier by the first.
const SIZES: [f64; 5] = [0.0, 0.25, 1.0, 2.0, 4.0];
/// A first tier in which there is room for what must be known of four times as many pages.
const LEAST_FIRST: u64 = 2 << 20;
/// How much longer a cache line of a simulated tier takes.
const SLOWER: Duration = Duration::from_nanos(300);
/// Steps in which a store is measured from its beginning.
const STEPS: u32 = 5;
/// Seconds of an interval of TPC-C.
const STEP_S: f64 = 0.5;

const LOOKUPS: [(&str, Dist); 2] = [("zipfian", Dist::Zipfian), ("uniform", Dist::Uniform)];

/// What goes where, if it is given, and what that is called. By the paper's notation: Dr, Dw, Rr, Rw.
const POLICIES: [(&str, Option<Migration>); 6] = [
    // As the pool finds out.
    ("tuned", None),
    ("often", of(0.1, 0.1, 0.0, 1.0)),
    // As in the paper for TPC-C.
    ("all 1", of(1.0, 1.0, 1.0, 1.0)),
    // As in the paper for lookups.
    ("all 0.1", of(0.1, 0.1, 0.1, 0.1)),
    // Spitfire's lazy policy.
    ("lazy", of(0.01, 0.01, 1.0, 1.0)),
    ("no promotion", of(0.0, 0.0, 0.0, 1.0)),
];

const fn of(dr: f64, dw: f64, rr: f64, rw: f64) -> Option<Migration> {
    Some(Migration {
        read_promotes: dr,
        write_promotes: dw,
        loads_to_slower: rr,
        evicts_to_slower: rw,
    })
}

/// A second tier of so many bytes, none if there are none, and what goes where.
pub(super) fn tiers(second: u64, migration: Option<Migration>) -> TierConfig {
    let nodes = second_node().map(|second| (0, second));
    let slower = match nodes {
        _ if second == 0 => None,
        Some((_, node)) => Some(Tier::new(second).on_node(node)),
        None => Some(Tier::new(second).simulated(SLOWER)),
    };
    let first_node = nodes.map(|(first, _)| first);
    TierConfig { first_node, slower: slower.into_iter().collect(), migration, ..Default::default() }
}

/// The second node that has memory, where the first one is 0 and there are several.
pub(super) fn second_node() -> Option<u16> {
    let nodes = fs::read_to_string("/sys/devices/system/node/has_memory").ok()?;
    second_of(nodes.trim())
}

/// The second number of a list as `0-1` or `0,2-3`.
fn second_of(list: &str) -> Option<u16> {
    let (_, rest) = list.split_once(['-', ',']).filter(|(first, _)| *first == "0")?;
    match list.strip_prefix("0-") {
        Some(_) => Some(1),
        None => rest.split(['-', ',']).next()?.parse().ok(),
    }
}

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let stored = Stored::find(setup, setup.scale.growing_records)?;
    let mut measured = Measured::default();
    for size in SIZES {
        for (name, dist) in LOOKUPS {
            let rates = lookups::<T>(setup, &stored, dist, (size, None))?;
            for (rate, number) in rates.iter().zip(1..) {
                let at = f64::from(number) * setup.seconds;
                measured.push(format!("{name} over time, {size} times"), at, *rate);
            }
            measured.push(name, size, rates.last().copied().unwrap_or(0.0));
        }
    }
    Ok(measured)
}

/// With a second tier as large as the first: [`POLICIES`], by the best of them in each round.
pub(crate) fn run_policies<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let stored = Stored::find(setup, setup.scale.growing_records)?;
    let mut measured = Measured::default();
    for (workload, dist) in LOOKUPS {
        let mut rates = [0.0; POLICIES.len()];
        for turn in turns(setup.round as usize, POLICIES.len()) {
            let steps = lookups::<T>(setup, &stored, dist, (1.0, POLICIES[turn].1))?;
            rates[turn] = steps.last().copied().unwrap_or(0.0);
        }
        push_by_best(workload, rates, &mut measured);
    }
    Ok(measured)
}

/// [`POLICIES`] by the best of them, and the best of those that are given.
fn push_by_best(workload: &str, rates: [f64; POLICIES.len()], measured: &mut Measured) {
    let best = rates.into_iter().fold(0.0, f64::max);
    let mut best_given: f64 = 0.0;
    for ((name, given), rate) in POLICIES.into_iter().zip(rates) {
        measured.push(format!("{workload}: {name}"), 0.0, rate);
        measured.push(format!("{workload} by the best, {name}"), 0.0, rate / best);
        best_given = best_given.max(if given.is_some() { rate } else { 0.0 });
    }
    measured.push(format!("{workload}: best given"), 0.0, best_given);
}

/// Lookups a second in each step, from an empty pool on. `second` is by the first tier.
fn lookups<T: Translation>(
    setup: &Setup<'_>,
    stored: &Stored,
    dist: Dist,
    (second, migration): (f64, Option<Migration>),
) -> Result<Vec<f64>, BenchError> {
    (setup.tell)(&format!("{dist}, a second tier of {second} times the first"));
    let first = stored.bytes / TIMES;
    let tiers = tiers((first as f64 * second) as u64, migration);
    let subject = stored.open_in::<T>(setup, first, tiers)?;
    let step = |_| {
        let driven = subject.lookups(setup.most_threads(), dist)?;
        Ok(driven.ops as f64 / driven.seconds.max(1e-9))
    };
    (0..STEPS).map(step).collect()
}

/// TPC-C by the size of the second tier, and over time.
pub(crate) fn run_tpcc(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let loaded = Loaded::find(setup, setup.scale.larger_warehouses, None)?;
    let mut measured = Measured::default();
    for size in SIZES {
        let [over_time, ran] = transactions(setup, &loaded, (size, None))?;
        over_time.push_over_time(&format!("transactions over time, {size} times"), &mut measured);
        measured.push("transactions", size, ran.per_s);
        measured.push("pages read", size, ran.pages_read);
    }
    Ok(measured)
}

/// TPC-C with a second tier as large as the first: [`POLICIES`], by the best of them in each round.
pub(crate) fn run_tpcc_policies(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let loaded = Loaded::find(setup, setup.scale.larger_warehouses, None)?;
    let mut rates = [0.0; POLICIES.len()];
    for turn in turns(setup.round as usize, POLICIES.len()) {
        let [_, ran] = transactions(setup, &loaded, (1.0, POLICIES[turn].1))?;
        rates[turn] = ran.per_s;
    }
    let mut measured = Measured::default();
    push_by_best("transactions", rates, &mut measured);
    Ok(measured)
}

/// Transactions from an empty pool on, and behind that. `second` is by the first tier.
fn transactions(
    setup: &Setup<'_>,
    loaded: &Loaded,
    (second, migration): (f64, Option<Migration>),
) -> Result<[Ran; 2], BenchError> {
    let first = loaded.budget(1.0 / TIMES as f64).max(LEAST_FIRST);
    let tiers = tiers((first as f64 * second) as u64, migration);
    let files = loaded.copy(setup)?;
    let mut fast = Tier::new(first);
    fast.node = tiers.first_node;
    let all = [fast].into_iter().chain(tiers.slower);
    let store = files.open_with(setup, first, |options| {
        let options = options.tiers(all);
        match tiers.migration {
            Some(migration) => options.migration(migration),
            None => options,
        }
    })?;
    let threads = setup.most_threads();
    let over_time = store.run(threads, f64::from(STEPS) * setup.seconds, STEP_S, None)?;
    let ran = store.run(threads, setup.seconds, STEP_S, None)?;
    drop(store);
    files.remove()?;
    Ok([over_time, ran])
}

#[cfg(test)]
mod tests {
    use polder_pool::{Array, Vm};

    use super::*;
    use crate::ladder::setup::testing;

    #[test]
    fn the_second_node_is_found_where_there_is_one() {
        let lists = ["0", "0-1", "0,2-3", "0,4", "1-2", ""].map(second_of);
        assert_eq!(lists, [None, Some(1), Some(2), Some(4), None, None]);
    }

    #[test]
    fn a_second_tier_of_any_size_is_measured() {
        testing::run(|setup| {
            let measured = run::<Array>(setup).unwrap();
            for (name, _) in LOOKUPS {
                let rates = measured.of(name);
                assert!(rates.len() == SIZES.len() && rates.iter().all(|rate| *rate > 0.0));
                let over_time = measured.of(&format!("{name} over time, 0.25 times"));
                assert_eq!(over_time.len(), STEPS as usize);
            }
        });
    }

    #[test]
    fn policies_are_given_by_the_best_of_them() {
        testing::run(|setup| {
            let measured = run_policies::<Vm>(setup).unwrap();
            let shares =
                POLICIES.map(|(name, _)| measured.of(&format!("uniform by the best, {name}")));
            assert!(shares.iter().flatten().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
            assert!(shares.contains(&vec![1.0]), "{shares:?}");
            let [tuned, given] =
                ["uniform: tuned", "uniform: best given"].map(|name| measured.of(name)[0]);
            assert!((tuned / given - shares[0][0]).abs() < 1e-9 || shares[0] == [1.0]);
        });
    }

    #[test]
    fn more_memory_makes_transactions_read_fewer_pages() {
        testing::run(|setup| {
            let measured = run_tpcc(&Setup { seconds: 0.2, ..*setup }).unwrap();
            let pages = measured.of("pages read");
            assert!(pages[0] > pages[SIZES.len() - 1], "{pages:?}");
        });
    }
}
