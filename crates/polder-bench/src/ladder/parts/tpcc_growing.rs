//! TPC-C whose data begin with half of the budget and grow beyond it, because orders are inserted
//! for ever (leanstore.txt VI-A, figure 9; predictive-translation.txt 6.3, figure 8).
//!
//! A run ends when the data are half as much again as the budget, or after some time. Data are the
//! length of the data file. No checkpoint comes: what is written beside the log is what has to go
//! from memory, as in the papers, which have no log.
//!
//! The side that is swapped has a budget in which everything fits, and a control group whose limit
//! is the budget of the others: what is more is up to the kernel.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::ladder::measured::Measured;
use crate::ladder::memory_group::enter;
use crate::ladder::setup::Setup;
use crate::ladder::stores::{Checkpoints, Loaded, Ran, TpccStore, growth_bytes, interval};

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
/// How often the one who looks at the data looks for the end.
const PATIENCE: Duration = Duration::from_millis(20);

pub(crate) fn run(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let threads = setup.threads.iter().copied().max().unwrap_or(1);
    let thread_seconds = threads as f64 * (1.0 + LENGTH) * setup.seconds;
    let checkpoints = Checkpoints::not_for(thread_seconds);
    let loaded = Loaded::find(setup, setup.scale.growing_warehouses, checkpoints)?;
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
    let (ran, data) = grow(&store, threads, LENGTH * setup.seconds, bytes(END))?;
    let mut measured = Measured::default();
    ran.push_over_time("transactions over time", &mut measured);
    let data: Vec<f64> = data.into_iter().map(|bytes| bytes as f64 / budget as f64).collect();
    for (data, number) in data.iter().zip(1..) {
        measured.push("data over time", ran.ended_at(number), *data);
    }
    for (data, per_s) in by_data(&data, &ran.over_time) {
        measured.push("transactions", data, per_s);
    }
    Ok(measured)
}

/// Has transactions run until the data have so many bytes, and gives these at the end of each
/// interval.
fn grow(
    store: &TpccStore<'_>,
    threads: usize,
    seconds: f64,
    end_bytes: u64,
) -> Result<(Ran, Vec<u64>), BenchError> {
    let (enough, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let step = interval(seconds, STEP_S);
    let watch = || -> Result<Vec<u64>, BenchError> {
        let (started, mut data) = (Instant::now(), Vec::new());
        while !is_over.load(Ordering::Relaxed) {
            let next = step * (data.len() as u32 + 1);
            let left = next.saturating_sub(started.elapsed());
            if !left.is_zero() {
                thread::sleep(left.min(PATIENCE));
                continue;
            }
            let bytes = store.data_bytes()?;
            data.push(bytes);
            enough.fetch_or(bytes >= end_bytes, Ordering::Relaxed);
        }
        Ok(data)
    };
    thread::scope(|scope| {
        let watcher = scope.spawn(watch);
        let ran = store.run(threads, seconds, STEP_S, Some(&enough));
        is_over.store(true, Ordering::Relaxed);
        let data = watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((ran?, data?))
    })
}

/// Transactions a second by data, the mean of what belongs to each step; ascending.
fn by_data(data: &[f64], per_s: &[f64]) -> Vec<(f64, f64)> {
    let mut steps: Vec<(u32, Vec<f64>)> = Vec::new();
    for (data, per_s) in data.iter().zip(per_s) {
        let step = (data / DATA_STEP).round() as u32;
        match steps.iter_mut().find(|(of, _)| *of == step) {
            Some((_, all)) => all.push(*per_s),
            None => steps.push((step, vec![*per_s])),
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
            let loaded = Loaded::find(setup, 1, Checkpoints::not_for(1.0)).unwrap();
            let budget = loaded.budget(1.0) + growth_bytes(1.0);
            let store = loaded.copy(setup).unwrap().open(setup, budget, false).unwrap();
            let began = store.data_bytes().unwrap();
            let (ran, data) = grow(&store, 2, 600.0, began + 1).unwrap();
            let (last, before) = data.split_last().unwrap();
            assert!(*last > began && before.iter().all(|bytes| *bytes == began), "{data:?}");
            assert!(ran.over_time.len() >= data.len() - 1, "{ran:?}");
        });
    }
}
