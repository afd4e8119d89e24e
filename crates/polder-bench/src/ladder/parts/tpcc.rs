//! TPC-C that is all resident: what translations make of whole transactions
//! (predictive-translation.txt 6.1, figure 5; leanstore.txt V-B, figures 1 and 8), and what each of
//! LeanStore's features does (figure 7).
//!
//! Everything is touched before, and there is a run that is not measured. Nothing waits for the
//! log, no checkpoint comes, and it is an error if a page is evicted or written. The data grow from
//! one number of threads to the next, by all sides alike.

use crate::error::BenchError;
use crate::ladder::measured::Measured;
use crate::ladder::setup::Setup;
use crate::ladder::stores::{Checkpoints, Loaded, growth_bytes};

/// Budget by data: the pool is half full, as in the other resident parts.
const AMPLE: f64 = 2.0;
/// Threads of the run that is not measured.
const WARMING_THREADS: usize = 1;

pub(crate) fn run(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let threads = WARMING_THREADS + setup.threads.iter().sum::<usize>();
    let thread_seconds = threads as f64 * setup.seconds;
    let checkpoints = Checkpoints::not_for(thread_seconds);
    let loaded = Loaded::find(setup, setup.scale.warehouses, checkpoints)?;
    let budget = loaded.budget(AMPLE) + growth_bytes(thread_seconds);
    let store = loaded.copy(setup)?.open(setup, budget, true)?;
    store.touch()?;
    store.run(WARMING_THREADS, setup.seconds, setup.seconds, None)?;
    let mut measured = Measured::default();
    for &threads in setup.threads {
        let ran = store.run(threads, setup.seconds, setup.seconds, None)?;
        measured.push("transactions", threads as f64, ran.per_s);
        measured.push("conflicts", threads as f64, ran.conflicts);
    }
    store.check_resident()?;
    Ok(measured)
}
