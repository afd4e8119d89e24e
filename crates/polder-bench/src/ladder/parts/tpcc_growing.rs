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

use crate::ladder::memory_group::enter;
use crate::ladder::prelude::*;
use crate::ladder::watched;

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
    let (files, budget) = (loaded.copy(setup)?, loaded.budget(BUDGET));
    let store = match setup.group {
        Some(group) => {
            enter(group, budget)?;
            files.open(setup, loaded.budget(2.0 * BUDGET) + growth_bytes(thread_seconds), false)?
        }
        None => files.open(setup, budget, false)?,
    };
    store.touch()?;
    let bytes = |times: f64| (times * budget as f64) as u64;
    grow(&store, threads, setup.seconds, bytes(WARM))?;
    let (ran, samples) = grow(&store, threads, LENGTH * setup.seconds, bytes(END))?;
    let mut measured = Measured::default();
    ran.push_over_time("transactions over time", &mut measured);
    let by_budget = |bytes: u64| bytes as f64 / budget as f64;
    let data: Vec<f64> = samples.iter().map(|sample| by_budget(sample.data_bytes)).collect();
    for (data, number) in data.iter().zip(1..) {
        measured.push("data over time", ran.ended_at(number), *data);
    }
    for (data, per_s) in by_data(&data, &ran.over_time) {
        measured.push("transactions", data, per_s);
    }
    let translation: Vec<f64> =
        samples.iter().map(|sample| by_budget(sample.translation_bytes)).collect();
    for (data, translation) in by_data(&data, &translation) {
        measured.push("translation and page tables", data, translation);
    }
    Ok(measured)
}

/// What is looked at while data grow.
#[derive(Debug, Clone, Copy)]
struct Seen {
    data_bytes: u64,
    /// Of the map and of the kernel's page tables.
    translation_bytes: u64,
}

/// Has transactions run until the data have so many bytes, and gives what was there at the end of
/// each interval.
fn grow(
    store: &TpccStore<'_>,
    threads: usize,
    seconds: f64,
    end_bytes: u64,
) -> Result<(Ran, Vec<Seen>), BenchError> {
    let look = || {
        let PoolStats { translation_bytes, page_table_bytes, .. } = store.stats().pool;
        let translation_bytes = translation_bytes + page_table_bytes;
        Ok(Seen { data_bytes: store.data_bytes()?, translation_bytes })
    };
    let enough = |seen: &Seen| seen.data_bytes >= end_bytes;
    let (ran, samples) = watched::run(store, threads, (seconds, STEP_S), look, enough)?;
    Ok((ran, samples.into_iter().map(|sample| sample.seen).collect()))
}

/// A figure by data, the mean of what belongs to each step; ascending.
fn by_data(data: &[f64], values: &[f64]) -> Vec<(f64, f64)> {
    let mut steps: Vec<(u32, Vec<f64>)> = Vec::new();
    for (data, value) in data.iter().zip(values) {
        let step = (data / DATA_STEP).round() as u32;
        match steps.iter_mut().find(|(of, _)| *of == step) {
            Some((_, all)) => all.push(*value),
            None => steps.push((step, vec![*value])),
        }
    }
    steps.sort_by_key(|(step, _)| *step);
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
            let began = store.data_bytes().unwrap();
            let (ran, data) = grow(&store, 2, 600.0, began + 1).unwrap();
            let (last, before) = data.split_last().unwrap();
            let has_grown = |seen: &Seen| seen.data_bytes > began;
            assert!(has_grown(last) && !before.iter().any(has_grown), "{data:?}");
            assert!(last.translation_bytes > 0);
            assert!(ran.over_time.len() >= data.len() - 1, "{ran:?}");
        });
    }
}
