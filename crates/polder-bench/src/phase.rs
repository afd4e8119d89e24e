//! One phase of a workload: threads that do the same thing to an engine, timed together.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::bench::{Bench, Mix};
use crate::counters::{Counters, Counts};
use crate::dist::Dist;
use crate::engine::{Access, Engine, Session};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::meter::{self, Meter, Reading, Stop, Timing};
use crate::plan::Plan;
use crate::records;
use crate::schedule::Schedule;
use crate::space::RecordSpace;
use crate::tpcc::Tally;

mod client;
mod reader;
#[cfg(test)]
mod tests;

use client::Client;
use reader::ScanReader;

/// Records that a loading thread takes at a time.
const RECORDS_PER_TURN: u64 = 1024;

/// What came out of a phase, of all threads together.
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
    /// Of TPC-C alone.
    pub(crate) tpcc: Option<Box<Tally>>,
}

/// Where and how a phase runs.
#[derive(Clone, Copy)]
pub(crate) struct Phase<'a> {
    pub(crate) name: &'static str,
    pub(crate) engine: &'a dyn Engine,
    pub(crate) plan: &'a Plan,
    pub(crate) interrupt: &'a Interrupt,
    /// Makes the requests of this phase different from those of others.
    pub(crate) number: u64,
    /// How long, where the phase is not a fixed amount of work.
    pub(crate) seconds: Option<f64>,
}

impl Phase<'_> {
    /// Inserts all records in the order of their numbers, which is a random order of their keys.
    pub(crate) fn load(&self) -> Result<Outcome, BenchError> {
        let next = AtomicU64::new(0);
        self.on_threads(Access::Load, |_, session, meter| {
            let mut value = vec![0; self.plan.value_size];
            while !meter.is_over() {
                let first = next.fetch_add(RECORDS_PER_TURN, Ordering::Relaxed);
                let end = (first + RECORDS_PER_TURN).min(self.plan.records);
                if first >= end {
                    break;
                }
                for record in first..end {
                    let key = records::key(record);
                    records::fill(key, 0, &mut value);
                    let put = meter.time(|| session.put(&key, &value));
                    put.map_err(BenchError::engine(self.name))?;
                }
                meter.wrote(end - first);
            }
            Ok(())
        })
    }

    /// Scans everything in key order, each thread its own part of the key space, again and again;
    /// without a limit of time, once.
    pub(crate) fn scan(&self, records: u64) -> Result<Outcome, BenchError> {
        let found = AtomicU64::new(0);
        let unfinished = AtomicBool::new(false);
        let outcome = self.on_threads(Access::Read, |thread, session, meter| {
            let mut first_pass = true;
            while !meter.is_over() {
                let count = self.scan_part(thread, session, meter, records)?;
                if first_pass && !meter.is_over() {
                    found.fetch_add(count, Ordering::Relaxed);
                } else if first_pass {
                    unfinished.store(true, Ordering::Relaxed);
                }
                first_pass = false;
                // An empty part has no entries at which the clock would be looked at.
                if self.seconds.is_none() || count == 0 {
                    break;
                }
            }
            Ok(())
        })?;
        let found = found.into_inner();
        if !unfinished.into_inner() && found != records {
            return Err(BenchError::WrongCount { found, expected: records });
        }
        Ok(outcome)
    }

    /// One pass over the thread's part of the keys.
    fn scan_part(
        &self,
        thread: usize,
        session: &mut dyn Session,
        meter: &mut Meter<'_>,
        records: u64,
    ) -> Result<u64, BenchError> {
        let border = |part: usize| ((part as u128) << 64) / self.plan.threads as u128;
        let (start, end) = (border(thread) as u64, border(thread + 1));
        let mut reader = ScanReader::new(start, self.plan.value_size, records);
        let mut error = None;
        let scanned = session.scan(&start.to_be_bytes(), &mut |key, value| {
            let at = reader.key_of(key);
            if at.is_ok_and(|at| u128::from(at) >= end) {
                return false;
            }
            meter.count();
            match reader.take(key, value) {
                Ok(()) => !meter.is_over(),
                Err(wrong) => {
                    error = Some(wrong);
                    false
                }
            }
        });
        scanned.map_err(BenchError::engine(self.name))?;
        error.map_or(Ok(reader.count), Err)
    }

    /// A mix of operations on records that the distribution chooses.
    pub(crate) fn mixed(
        &self,
        mix: Mix,
        dist: Dist,
        space: &RecordSpace,
    ) -> Result<Outcome, BenchError> {
        let access = if mix.is_read_only() { Access::Read } else { Access::Mixed };
        let records = space.readable();
        let mut outcome = self.on_threads(access, |thread, session, meter| {
            let mut client = Client::new(self, thread, session, mix, dist, space, records);
            while !meter.is_over() {
                client.operate(meter)?;
            }
            Ok(())
        })?;
        outcome.ops *= self.plan.batch;
        Ok(outcome)
    }

    /// How a thread's operations are timed. Work that is done without a limit of time is done as
    /// fast as it goes, also where the workload has a rate.
    fn timing(&self, thread: usize) -> Timing {
        match (self.plan.rate, self.seconds) {
            (Some(rate), Some(_)) => {
                let calls_per_s = rate as f64 / self.plan.batch as f64;
                Timing::Open(Schedule::new(calls_per_s, thread, self.plan.threads))
            }
            (None, Some(_)) if self.plan.bench == Bench::Commit => Timing::Each,
            _ => Timing::Sampled,
        }
    }

    /// Runs `work` in all threads at once, each with a session and a meter of its own.
    fn on_threads(
        &self,
        access: Access,
        work: impl Fn(usize, &mut dyn Session, &mut Meter<'_>) -> Result<(), BenchError> + Sync,
    ) -> Result<Outcome, BenchError> {
        let stop = Stop { interrupt: self.interrupt, failed: AtomicBool::new(false) };
        let gate = Barrier::new(self.plan.threads);
        let one = |thread: usize| {
            let timing = self.timing(thread);
            let part = self.one_thread(access, timing, &gate, &stop, |session, meter| {
                work(thread, session, meter)
            });
            if part.is_err() {
                stop.failed.store(true, Ordering::Relaxed);
            }
            part
        };
        let parts: Vec<_> = std::thread::scope(|scope| {
            let one = &one;
            let handles: Vec<_> =
                (0..self.plan.threads).map(|thread| scope.spawn(move || one(thread))).collect();
            let join = |handle: std::thread::ScopedJoinHandle<'_, _>| match handle.join() {
                Ok(part) => part,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            handles.into_iter().map(join).collect()
        });
        self.interrupt.check()?;
        merge(parts)
    }

    fn one_thread(
        &self,
        access: Access,
        timing: Timing,
        gate: &Barrier,
        stop: &Stop<'_>,
        work: impl FnOnce(&mut dyn Session, &mut Meter<'_>) -> Result<(), BenchError>,
    ) -> Result<Part, BenchError> {
        let session = self.engine.session(access);
        let counters = if self.plan.counters { Counters::open().ok() } else { None };
        // Everybody comes here, also with a failure, or the others would wait for ever.
        gate.wait();
        let mut session = session.map_err(BenchError::engine(self.name))?;
        let counting = counters.filter(|counters| counters.start().is_ok());
        let mut meter = Meter::start(self.seconds.map(Duration::from_secs_f64), timing, stop);
        work(&mut *session, &mut meter)?;
        session.finish().map_err(BenchError::engine(self.name))?;
        let counts = counting.and_then(|counters| counters.stop().ok());
        let started = meter.started();
        let reading = meter.finish();
        Ok(Part { started, ended: Instant::now(), reading, counts })
    }
}

/// What came out of one thread.
struct Part {
    started: Instant,
    ended: Instant,
    reading: Reading,
    counts: Option<Counts>,
}

/// All threads together; the first failure wins.
fn merge(parts: Vec<Result<Part, BenchError>>) -> Result<Outcome, BenchError> {
    let mut outcome = Outcome {
        seconds: 0.0,
        ops: 0,
        written: 0,
        latencies: meter::new_histogram(),
        counts: Some(Counts::default()),
        tpcc: None,
    };
    let mut span: Option<(Instant, Instant)> = None;
    for part in parts {
        let part = part?;
        let (first, last) = span.unwrap_or((part.started, part.ended));
        span = Some((first.min(part.started), last.max(part.ended)));
        let Reading { ops, written, latencies } = part.reading;
        outcome.ops += ops;
        outcome.written += written;
        outcome.latencies.add(&latencies).expect("all histograms have the same bounds");
        outcome.counts = outcome.counts.zip(part.counts).map(|(mut sum, counts)| {
            sum.add(counts);
            sum
        });
    }
    if let Some((first, last)) = span {
        outcome.seconds = (last - first).as_secs_f64();
    }
    Ok(outcome)
}
