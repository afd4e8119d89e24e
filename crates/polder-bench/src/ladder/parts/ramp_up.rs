//! TPC-C on a store that was just opened: everything fits into memory and nothing is there yet
//! (leanstore.txt VI-A, "rampup time").
//!
//! The curve begins with the first transactions, when the store is open and its tables are found;
//! the time until throughput is nine tenths of what it settles at has the opening in it.

use std::time::Instant;

use crate::error::BenchError;
use crate::ladder::measured::Measured;
use crate::ladder::setup::Setup;
use crate::ladder::stores::{Checkpoints, Loaded, growth_bytes};

/// Budget by data.
const AMPLE: f64 = 2.0;
/// How long a run is, in measurements of other parts.
const LENGTH: f64 = 10.0;
/// Seconds of an interval.
const STEP_S: f64 = 0.1;

pub(crate) fn run(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let threads = setup.threads.iter().copied().max().unwrap_or(1);
    let thread_seconds = threads as f64 * LENGTH * setup.seconds;
    let checkpoints = Checkpoints::not_for(thread_seconds);
    let loaded = Loaded::find(setup, setup.scale.warehouses, checkpoints)?;
    let (files, budget) = (loaded.copy(setup)?, loaded.budget(AMPLE));
    let began = Instant::now();
    let store = files.open(setup, budget + growth_bytes(thread_seconds), false)?;
    let opening_s = began.elapsed().as_secs_f64();
    let ran = store.run(threads, LENGTH * setup.seconds, STEP_S, None)?;
    store.check_resident()?;
    let mut measured = Measured::default();
    ran.push_over_time("transactions over time", &mut measured);
    measured.push("opening", 0.0, opening_s);
    if let Some(seconds) = ran.ramp_up_s() {
        measured.push("ramp-up", 0.0, opening_s + seconds);
    }
    Ok(measured)
}
