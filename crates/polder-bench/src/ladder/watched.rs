//! TPC-C beside which somebody looks at the store, again and again.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use super::stores::{Ran, TpccStore, interval};
use crate::error::BenchError;

/// How often the watching thread looks for the end.
const PATIENCE: Duration = Duration::from_millis(20);

/// What was seen, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample<S> {
    /// Since transactions began: the end of an interval, or a little later.
    pub(crate) at_s: f64,
    pub(crate) seen: S,
}

/// Has threads do transactions as [`TpccStore::run`], and looks at the end of each interval;
/// `enough` of what is seen ends the run.
pub(crate) fn run<S: Send>(
    store: &TpccStore<'_>,
    threads: usize,
    (seconds, step_s): (f64, f64),
    look: impl Fn() -> Result<S, BenchError> + Sync,
    enough: impl Fn(&S) -> bool + Sync,
) -> Result<(Ran, Vec<Sample<S>>), BenchError> {
    let (until, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let step = interval(seconds, step_s);
    let watch = || -> Result<Vec<Sample<S>>, BenchError> {
        let (started, mut samples) = (Instant::now(), Vec::new());
        while !is_over.load(Relaxed) {
            let next = step * (samples.len() as u32 + 1);
            let left = next.saturating_sub(started.elapsed());
            if !left.is_zero() {
                thread::sleep(left.min(PATIENCE));
                continue;
            }
            let seen = look()?;
            until.fetch_or(enough(&seen), Relaxed);
            samples.push(Sample { at_s: started.elapsed().as_secs_f64(), seen });
        }
        Ok(samples)
    };
    thread::scope(|scope| {
        let watcher = scope.spawn(watch);
        let ran = store.run(threads, seconds, step_s, Some(&until));
        is_over.store(true, Relaxed);
        let samples = watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((ran?, samples?))
    })
}
