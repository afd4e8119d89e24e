//! TPC-C on data of four times the budget (predictive-translation.txt 6.2, figure 6;
//! leanstore.txt VI-A): by threads, and over time by the most of them, so that stalls show.
//!
//! The log is as long as by default, and checkpoints come as they do in any store.

use crate::error::BenchError;
use crate::ladder::measured::Measured;
use crate::ladder::setup::Setup;
use crate::ladder::stores::{Checkpoints, Loaded};

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
        let ran = store.run(threads, LENGTH * setup.seconds, STEP_S, None)?;
        measured.push("transactions", threads as f64, ran.per_s);
        measured.push("conflicts", threads as f64, ran.conflicts);
        if threads == MOST {
            ran.push_over_time("transactions over time", &mut measured);
            if let Some((lowest, median)) = ran.lowest_and_median() {
                measured.push("lowest interval", 0.0, lowest);
                measured.push("median interval", 0.0, median);
            }
        }
    }
    Ok(measured)
}
