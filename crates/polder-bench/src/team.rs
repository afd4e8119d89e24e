//! Threads that do the same thing at once, timed together.
//!
//! Nobody begins before all are prepared. Timed is the span from the begin of the first thread to
//! the end of the last. What the system counts is read while all wait to begin, and after the last
//! has ended.

use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::counters::{Counters, Counts};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::meter::{Stop, wait_until};
use crate::usage::{cpu_seconds, shootdowns};

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
    pub(crate) counts: Counts,
}

/// The threads that work, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Team<'a> {
    pub(crate) threads: usize,
    /// Count what the processor does in the threads, where the kernel permits it.
    pub(crate) counts: bool,
    /// Tell the threads to stop after this time; without it, they know by themselves.
    pub(crate) limit: Option<Duration>,
    pub(crate) interrupt: &'a Interrupt,
}

/// What all threads of a team have done.
#[derive(Debug)]
pub(crate) struct Done<R> {
    pub(crate) seconds: f64,
    pub(crate) counts: Counts,
    /// Of each thread.
    pub(crate) readings: Vec<R>,
    /// Processor time of the whole process, its background threads too.
    pub(crate) cpu_s: f64,
    /// Interrupts that made a processor forget addresses, of the whole system: the kernel does not
    /// say for which process. `None` where it does not say at all.
    pub(crate) shootdowns: Option<u64>,
}

/// What one thread has done.
struct Part<R> {
    counts: Counts,
    ended: Instant,
    reading: R,
}

impl Team<'_> {
    /// Has all threads `work` at once, each with what it has prepared. The first failure stops all,
    /// and is what is given.
    pub(crate) fn run<S, R: Send>(
        &self,
        prepare: impl Fn(usize) -> Result<S, BenchError> + Sync,
        work: impl Fn(usize, S, &Stop<'_>) -> Result<R, BenchError> + Sync,
    ) -> Result<Done<R>, BenchError> {
        let stop = Stop::new(self.interrupt);
        // Whether to begin, once that is known.
        let gate = OnceLock::new();
        let one = |thread: usize, ready: mpsc::Sender<()>| -> Result<Part<R>, BenchError> {
            let prepared = prepare(thread);
            // Nothing of it is timed. To wait is no work in user mode.
            let counters = self.counts.then(Counters::start).and_then(Result::ok);
            let _ = ready.send(());
            // The end of all senders tells that no more will be ready.
            drop(ready);
            if !gate.wait() {
                return Err(BenchError::Interrupted);
            }
            let reading = prepared.and_then(|prepared| work(thread, prepared, &stop));
            let reading = reading.inspect_err(|_| stop.set())?;
            let ended = Instant::now();
            let counts = counters.and_then(|counters| counters.stop().ok()).unwrap_or_default();
            Ok(Part { counts, ended, reading })
        };
        let (parts, started, cpu_before, flushed) = thread::scope(|scope| {
            let (one, mut workers) = (&one, Vec::new());
            let (sender, ready) = mpsc::channel();
            for thread in 0..self.threads {
                let sender = sender.clone();
                let spawned =
                    thread::Builder::new().spawn_scoped(scope, move || one(thread, sender));
                workers.push(spawned.map_err(|source| {
                    // Those that wait end.
                    let _ = gate.set(false);
                    BenchError::Threads { started: thread, wanted: self.threads, source }
                })?);
            }
            drop(sender);
            // A thread that is never ready has panicked: it is joined below.
            let all_ready = ready.iter().count() == self.threads;
            let (cpu_before, flushed, started) = (cpu_seconds(), shootdowns(), Instant::now());
            let _ = gate.set(all_ready);
            if let Some(limit) = self.limit.filter(|_| all_ready) {
                wait_until(started + limit, &stop);
                stop.set();
            }
            let join = |worker: thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            let parts: Vec<Result<Part<R>, BenchError>> = workers.into_iter().map(join).collect();
            Ok::<_, BenchError>((parts, started, cpu_before, flushed))
        })?;
        self.interrupt.check()?;
        let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut counts = Counts::new();
        for (name, count) in parts.iter().flat_map(|part| &part.counts) {
            *counts.entry(name).or_default() += count;
        }
        let last = parts.iter().map(|part| part.ended).max();
        Ok(Done {
            seconds: last.map_or(0.0, |last| (last - started).as_secs_f64()),
            counts,
            cpu_s: cpu_seconds() - cpu_before,
            shootdowns: shootdowns().zip(flushed).map(|(now, before)| now.saturating_sub(before)),
            readings: parts.into_iter().map(|part| part.reading).collect(),
        })
    }
}
