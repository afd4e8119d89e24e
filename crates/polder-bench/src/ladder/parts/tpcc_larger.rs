//! TPC-C on data of four times the budget (predictive-translation.txt 6.2, figure 6;
//! leanstore.txt VI-A): by threads, and over time by the most of them, so that stalls show; and what
//! the device has to do for it (predictive-translation.txt, figure 7).
//!
//! The log is as long as by default, and checkpoints come as they do in any store.

use polder::Stats;

use crate::error::BenchError;
use crate::ladder::measured::Measured;
use crate::ladder::setup::Setup;
use crate::ladder::stores::{Checkpoints, Loaded, TpccStore};
use crate::ladder::watched::{self, Sample};

/// Budget by data.
const BUDGET: f64 = 0.25;
/// Measured whatever the threads of the other parts are.
const THREADS: [usize; 3] = [1, 2, MOST];
/// Threads whose throughput is shown over time.
const MOST: usize = 8;
/// How long one measurement is, in those of other parts: a checkpoint may come every few seconds.
const LENGTH: f64 = 5.0;
/// How long the run before is that fills the pool.
const WARM_UP: f64 = 2.0;
/// Seconds of an interval: short enough for stalls that people notice.
const STEP_S: f64 = 0.5;

pub(crate) fn run(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let loaded = Loaded::find(setup, setup.scale.warehouses, Checkpoints::AsUsual)?;
    let store = loaded.copy(setup)?.open(setup, loaded.budget(BUDGET), false)?;
    store.run(MOST, WARM_UP * setup.seconds, STEP_S, None)?;
    let mut measured = Measured::default();
    for threads in setup.threads_and(&THREADS) {
        let (before, look) = (io(&store), || Ok(io(&store)));
        let times = (LENGTH * setup.seconds, STEP_S);
        let (ran, samples) = watched::run(&store, threads, times, look, |_| false)?;
        measured.push("transactions", threads as f64, ran.per_s);
        measured.push("conflicts", threads as f64, ran.conflicts);
        let rates = rates(before, &samples);
        for (i, metric) in IO.into_iter().enumerate() {
            if let Some(last) = samples.last() {
                measured.push(metric, threads as f64, (last.seen[i] - before[i]) / last.at_s);
            }
        }
        if threads == MOST {
            ran.push_over_time("transactions over time", &mut measured);
            for (rates, number) in rates.iter().zip(1..) {
                for (metric, rate) in IO.into_iter().zip(rates) {
                    measured.push(format!("{metric} over time"), ran.ended_at(number), *rate);
                }
            }
            if let Some((lowest, median)) = ran.lowest_and_median() {
                measured.push("lowest interval", 0.0, lowest);
                measured.push("median interval", 0.0, median);
            }
        }
    }
    Ok(measured)
}

/// What the device did, or does in a second.
const IO: [&str; 2] = ["bytes read", "bytes written"];

/// Since the store was opened, of the data file.
fn io(store: &TpccStore<'_>) -> [f64; 2] {
    let Stats { device_read_bytes, device_written_bytes, .. } = store.stats();
    [device_read_bytes, device_written_bytes].map(|bytes| bytes as f64)
}

/// A second, from each sample to the next.
fn rates(before: [f64; 2], samples: &[Sample<[f64; 2]>]) -> Vec<[f64; 2]> {
    let mut last = Sample { at_s: 0.0, seen: before };
    let rate = |now: &Sample<[f64; 2]>| {
        let seconds = (now.at_s - last.at_s).max(1e-9);
        let rate = [0, 1].map(|i| (now.seen[i] - last.seen[i]) / seconds);
        last = *now;
        rate
    };
    samples.iter().map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::setup::testing;

    #[test]
    fn rates_are_by_the_time_that_was_between_two_looks() {
        let sample = |at_s, seen| Sample { at_s, seen };
        let samples = [sample(0.5, [100.0, 20.0]), sample(1.5, [150.0, 20.0])];
        assert_eq!(rates([100.0, 10.0], &samples), [[0.0, 20.0], [50.0, 0.0]]);
    }

    #[test]
    fn data_larger_than_the_budget_are_read_and_written() {
        testing::run(|setup| {
            let measured = run(&Setup { threads: &[2], seconds: 0.1, ..*setup }).unwrap();
            assert!(measured.of("bytes read").iter().all(|rate| *rate > 0.0));
            assert!(measured.of("bytes written").iter().any(|rate| *rate > 0.0));
            assert!(measured.of("bytes read over time").len() > 1);
        });
    }
}
