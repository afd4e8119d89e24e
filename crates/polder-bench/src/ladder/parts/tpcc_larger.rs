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
    let mut counts: Vec<usize> = THREADS.iter().chain(setup.threads).copied().collect();
    counts.sort_unstable();
    counts.dedup();
    let mut measured = Measured::default();
    for threads in counts {
        let (before, sample) = (Io::of(&store), || Ok(Io::of(&store)));
        let seconds = LENGTH * setup.seconds;
        let (ran, samples) = store.run_watched(threads, seconds, STEP_S, sample, |_| false)?;
        measured.push("transactions", threads as f64, ran.per_s);
        measured.push("conflicts", threads as f64, ran.conflicts);
        let rates = Io::rates(before, &samples, ran.interval_s);
        for (metric, of) in IO {
            let mean = rates.iter().map(of).sum::<f64>() / rates.len().max(1) as f64;
            measured.push(metric, threads as f64, mean);
        }
        if threads == MOST {
            ran.push_over_time("transactions over time", &mut measured);
            for (rates, number) in rates.iter().zip(1..) {
                for (metric, of) in IO {
                    measured.push(format!("{metric} over time"), ran.ended_at(number), of(rates));
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
#[derive(Debug, Clone, Copy, PartialEq)]
struct Io {
    read_bytes: f64,
    written_bytes: f64,
}

/// Its parts.
const IO: [(&str, fn(&Io) -> f64); 2] =
    [("bytes read", |io| io.read_bytes), ("bytes written", |io| io.written_bytes)];

impl Io {
    /// Since the store was opened: of the data file.
    fn of(store: &TpccStore<'_>) -> Io {
        let Stats { device_read_bytes, device_written_bytes, .. } = store.stats();
        Io { read_bytes: device_read_bytes as f64, written_bytes: device_written_bytes as f64 }
    }

    /// A second, in each interval.
    fn rates(before: Io, samples: &[Io], interval_s: f64) -> Vec<Io> {
        let earlier = std::iter::once(&before).chain(samples);
        let rate = |(from, to): (&Io, &Io)| Io {
            read_bytes: (to.read_bytes - from.read_bytes) / interval_s,
            written_bytes: (to.written_bytes - from.written_bytes) / interval_s,
        };
        earlier.zip(samples).map(rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::setup::testing;

    #[test]
    fn rates_are_of_intervals() {
        let io = |read_bytes, written_bytes| Io { read_bytes, written_bytes };
        let rates = Io::rates(io(100.0, 10.0), &[io(100.0, 20.0), io(150.0, 20.0)], 0.5);
        assert_eq!(rates, [io(0.0, 20.0), io(100.0, 0.0)]);
    }

    #[test]
    fn data_larger_than_the_budget_are_read_and_written() {
        testing::run(|setup| {
            let measured = run(&Setup { threads: &[2], seconds: 0.1, ..*setup }).unwrap();
            assert!(measured.of("bytes read").iter().all(|rate| *rate > 0.0));
            assert!(measured.of("bytes written").iter().any(|rate| *rate > 0.0));
            let intervals = measured.of("transactions over time").len();
            assert!(measured.of("bytes read over time").len() + 1 >= intervals && intervals > 1);
        });
    }
}
