//! TPC-C on a store that was just opened: everything fits into memory and nothing is there yet
//! (leanstore-2018 VI-A, "rampup time").
//!
//! The curve begins with the first transactions, when the store is open and its tables are found;
//! the time until throughput is nine tenths of what it settles at has the opening in it.

use crate::ladder::prelude::*;

/// How long a run is, in measurements of other parts.
const LENGTH: f64 = 10.0;
/// Seconds of an interval.
const STEP_S: f64 = 0.1;

pub(crate) fn run(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let threads = setup.most_threads();
    let thread_seconds = threads as f64 * LENGTH * setup.seconds;
    let (loaded, budget) = Loaded::resident(setup, thread_seconds)?;
    let files = loaded.copy(setup)?;
    let began = Instant::now();
    let store = files.open(setup, budget, false)?;
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
