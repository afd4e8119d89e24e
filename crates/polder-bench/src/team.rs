//! Threads that do the same thing at once, timed together.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use hdrhistogram::Histogram;

use crate::counters::{Counters, Counts};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::meter::Stop;

/// What came out of a phase of a workload, of all threads together.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) seconds: f64,
    /// Operations; where they come in batches, each record of a batch is one.
    pub(crate) ops: u64,
    /// Records written; TPC-C, whose rows have many sizes, counts bytes in its tally.
    pub(crate) written: u64,
    /// In nanoseconds, of calls: a batch is one. Empty where single calls are not timed.
    pub(crate) latencies: Histogram<u64>,
    pub(crate) counts: Option<Counts>,
}

/// What all threads of a team have done.
#[derive(Debug)]
pub(crate) struct Done<R> {
    /// From the begin of the first thread to the end of the last.
    pub(crate) seconds: f64,
    /// `None` where nothing was counted, or not in all threads.
    pub(crate) counts: Option<Counts>,
    /// Of each thread.
    pub(crate) readings: Vec<R>,
}

/// What one thread has done.
struct Part<R> {
    started: Instant,
    ended: Instant,
    counts: Option<Counts>,
    reading: R,
}

/// Has `threads` threads `work` at once, each with what it has prepared, and counts what the
/// processor does in them if that is wanted. Nobody begins before all are prepared; the first
/// failure stops all, and is what is given.
pub(crate) fn run<S, R: Send>(
    threads: usize,
    counters: bool,
    interrupt: &Interrupt,
    prepare: impl Fn(usize) -> Result<S, BenchError> + Sync,
    work: impl Fn(usize, S, &Stop<'_>) -> Result<R, BenchError> + Sync,
) -> Result<Done<R>, BenchError> {
    let stop = Stop { interrupt, failed: AtomicBool::new(false) };
    let gate = Barrier::new(threads);
    let one = |thread: usize| -> Result<Part<R>, BenchError> {
        let prepared = prepare(thread);
        let counters = if counters { Counters::open().ok() } else { None };
        // A thread comes here also with a failure, or the others would wait for ever.
        gate.wait();
        let counting = counters.filter(|counters| counters.start().is_ok());
        let started = Instant::now();
        let reading = prepared.and_then(|prepared| work(thread, prepared, &stop));
        let counts = counting.and_then(|counters| counters.stop().ok());
        stop.failed.fetch_or(reading.is_err(), Ordering::Relaxed);
        Ok(Part { started, ended: Instant::now(), counts, reading: reading? })
    };
    let parts: Vec<_> = thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
        let join = |thread: ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    interrupt.check()?;
    let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
    let first = parts.iter().map(|part| part.started).min();
    let last = parts.iter().map(|part| part.ended).max();
    Ok(Done {
        seconds: first.zip(last).map_or(0.0, |(first, last)| (last - first).as_secs_f64()),
        counts: parts.iter().map(|part| part.counts).collect::<Option<Vec<_>>>().map(Counts::sum),
        readings: parts.into_iter().map(|part| part.reading).collect(),
    })
}
