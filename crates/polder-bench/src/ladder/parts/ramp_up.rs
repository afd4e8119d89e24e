//! TPC-C on a store that was just opened: everything fits into memory and nothing is there yet
//! (leanstore-2018 VI-A, "rampup time"); and, when the store is opened again, with the list of the
//! pages that were in memory when it was closed, which a thread of it loads meanwhile (IV-I there).
//!
//! The curve begins with the first transactions, when the store is open and its tables are found;
//! the time until throughput is nine tenths of what it settles at has the opening in it.

use crate::ladder::prelude::*;

/// How long a run is, in measurements of other parts.
const LENGTH: f64 = 10.0;
/// What is said of the metrics of each opening: there is no list at the first.
const OPENINGS: [&str; 2] = ["", ", warm"];
/// Seconds of an interval.
const STEP_S: f64 = 0.1;

pub(crate) fn run(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let threads = setup.most_threads();
    let thread_seconds = OPENINGS.len() as f64 * threads as f64 * LENGTH * setup.seconds;
    let (loaded, budget) = Loaded::resident(setup, thread_seconds)?;
    let files = loaded.copy(setup)?;
    let mut measured = Measured::default();
    for warm in OPENINGS {
        let began = Instant::now();
        let store = files.open(setup, budget, false)?;
        let opening_s = began.elapsed().as_secs_f64();
        let ran = store.run_for(threads, LENGTH * setup.seconds, STEP_S, None)?;
        store.check_resident()?;
        store.close()?;
        ran.push_over_time(&format!("transactions over time{warm}"), &mut measured);
        measured.push(format!("opening{warm}"), 0.0, opening_s);
        if let Some(seconds) = ran.ramp_up_s() {
            measured.push(format!("ramp-up{warm}"), 0.0, opening_s + seconds);
        }
    }
    Ok(measured)
}
