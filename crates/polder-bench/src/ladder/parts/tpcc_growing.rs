//! TPC-C whose data begin with half of the budget and grow beyond it, because orders are inserted
//! for ever (leanstore-2018 VI-A, figure 9; predictive-2026 6.3, figure 8).
//!
//! A run ends when the data are half as much again as the budget, or after some time. Data are the
//! length of the data file. No checkpoint comes: what is written beside the log is what has to go
//! from memory, as in the papers, which have no log.
//!
//! What the translation takes meanwhile is by the budget, too: the map and the kernel's page tables
//! (calico-2026 6.5, figure 10).
//!
//! The side that is swapped has a budget in which everything fits, and a control group whose limit
//! is the budget of the others: what is more is up to the kernel.

use std::collections::BTreeMap;

use polder::Stats;

use crate::ladder::memory_group::enter;
use crate::ladder::prelude::*;

/// Budget by data at the beginning.
const BUDGET: f64 = 2.0;
/// Data by budget at the end.
const END: f64 = 1.5;
/// How long a run is at most, in measurements of other parts.
const LENGTH: f64 = 30.0;
/// The data by which the run that is not measured ends, however fast they grow.
const WARM: f64 = 0.55;
/// Seconds of an interval.
const STEP_S: f64 = 0.25;
/// Of data by budget, how much is shown as one.
const DATA_STEP: f64 = 0.05;

pub(crate) fn run(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let threads = setup.most_threads();
    let thread_seconds = threads as f64 * (1.0 + LENGTH) * setup.seconds;
    let log_limit = Some(ample_log(thread_seconds));
    let loaded = Loaded::find(setup, setup.scale.growing_warehouses, log_limit)?;
    let (copy, budget) = (loaded.copy(setup)?, loaded.budget(BUDGET));
    let store = match setup.group {
        Some(group) => {
            enter(group, budget)?;
            copy.open(setup, loaded.budget(2.0 * BUDGET) + growth_bytes(thread_seconds), false)?
        }
        None => copy.open(setup, budget, false)?,
    };
    store.touch()?;
    let has_grown_to =
        |times: f64| move |stats: &Stats| stats.pool.file_bytes >= (times * budget as f64) as u64;
    store.run_watched(threads, setup.seconds, STEP_S, has_grown_to(WARM))?;
    let (ran, stats) =
        store.run_watched(threads, LENGTH * setup.seconds, STEP_S, has_grown_to(END))?;
    let by_budget = |bytes: fn(&Stats) -> u64| -> Vec<f64> {
        stats.iter().map(|stats| bytes(stats) as f64 / budget as f64).collect()
    };
    let data = by_budget(|stats| stats.pool.file_bytes);
    let translation = by_budget(|stats| stats.pool.translation_bytes + stats.pool.page_table_bytes);
    let mut measured = Measured::default();
    ran.push_over_time("transactions over time", &mut measured);
    for (data, number) in data.iter().zip(1..) {
        measured.push("data over time", ran.ended_at(number), *data);
    }
    for (metric, values) in
        [("transactions", &ran.over_time), ("translation and page tables", &translation)]
    {
        for (data, value) in by_data(&data, values) {
            measured.push(metric, data, value);
        }
    }
    Ok(measured)
}

/// A figure by data, the mean of what belongs to each step; ascending.
fn by_data(data: &[f64], values: &[f64]) -> Vec<(f64, f64)> {
    let mut steps: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (data, value) in data.iter().zip(values) {
        steps.entry((data / DATA_STEP).round() as u32).or_default().push(*value);
    }
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    // So that all rounds have the same places.
    let place = |step: u32| (f64::from(step) * DATA_STEP * 100.0).round() / 100.0;
    steps.into_iter().map(|(step, all)| (place(step), mean(&all))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::setup::testing::run;

    #[test]
    fn throughput_by_data_is_that_of_all_intervals_there() {
        let found = by_data(&[0.50, 0.52, 0.58, 0.61, 1.48], &[4.0, 2.0, 7.0, 9.0, 1.0]);
        assert_eq!(found, [(0.5, 3.0), (0.6, 8.0), (1.5, 1.0)]);
        assert_eq!(by_data(&[0.5], &[]), []);
    }

    #[test]
    fn a_run_ends_when_there_are_enough_data() {
        run(|setup| {
            let loaded = Loaded::find(setup, 1, Some(ample_log(1.0))).unwrap();
            let budget = loaded.budget(1.0) + growth_bytes(1.0);
            let store = loaded.copy(setup).unwrap().open(setup, budget, false).unwrap();
            let began = store.stats().pool.file_bytes;
            let has_grown = |stats: &Stats| stats.pool.file_bytes > began;
            let (ran, stats) = store.run_watched(2, 600.0, STEP_S, has_grown).unwrap();
            let (last, before) = stats.split_last().unwrap();
            assert!(has_grown(last) && !before.iter().any(has_grown));
            assert!(last.pool.translation_bytes > 0);
            assert!(ran.over_time.len() >= stats.len() - 1, "{ran:?}");
        });
    }
}
