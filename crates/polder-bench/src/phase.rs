//! One phase of a workload: threads that do the same thing to an engine, timed together.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::bench::{Bench, Mix};
use crate::dist::Dist;
use crate::engine::{Access, Engine, Session};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::meter::{self, Meter, Stop, Timing};
use crate::plan::Plan;
use crate::records::{self, Key};
use crate::schedule::Schedule;
use crate::space::RecordSpace;
use crate::team::{Outcome, Team};

mod client;
mod reader;
#[cfg(test)]
mod tests;

use client::Client;
use reader::ScanReader;

/// Records that a loading thread takes at a time.
const RECORDS_PER_TURN: u64 = 1024;

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
    /// Operations of one kind that are made by one call.
    pub(crate) many: usize,
    /// Whether values are read where they lie.
    pub(crate) lends: bool,
}

impl Phase<'_> {
    /// Inserts all records in the order of their numbers, which is a random order of their keys.
    pub(crate) fn load(&self) -> Result<Outcome, BenchError> {
        let next = AtomicU64::new(0);
        self.on_threads(Access::Load, |_, session, meter| {
            let many = self.many.min(RECORDS_PER_TURN as usize);
            let mut entries = vec![(Key::default(), vec![0; self.plan.value_size]); many];
            while !meter.is_over() {
                let first = next.fetch_add(RECORDS_PER_TURN, Ordering::Relaxed);
                let end = (first + RECORDS_PER_TURN).min(self.plan.records);
                if first >= end {
                    break;
                }
                for begin in (first..end).step_by(many) {
                    let entries = &mut entries[..many.min((end - begin) as usize)];
                    for ((key, value), record) in entries.iter_mut().zip(begin..) {
                        *key = records::key(record);
                        records::fill(*key, 0, value);
                    }
                    let put = match &*entries {
                        [(key, value)] => meter.time(|| session.put(key, value)),
                        many => meter.time_many(many.len() as u64, || session.put_many(many)),
                    };
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
        let session = |_| self.engine.session(access).map_err(BenchError::engine(self.name));
        let limit = self.seconds.map(Duration::from_secs_f64);
        let work = |thread: usize, mut session: Box<dyn Session + '_>, stop: &Stop<'_>| {
            let mut meter = Meter::start(limit, self.timing(thread), stop);
            work(thread, &mut *session, &mut meter)?;
            session.finish().map_err(BenchError::engine(self.name))?;
            Ok(meter.finish())
        };
        let team = Team {
            threads: self.plan.threads,
            counters: self.plan.counters,
            limit: None,
            interrupt: self.interrupt,
        };
        let done = team.run(session, work)?;
        let mut latencies = meter::new_histogram();
        for reading in &done.readings {
            latencies.add(&reading.latencies).expect("all histograms have the same bounds");
        }
        Ok(Outcome {
            seconds: done.seconds,
            ops: done.readings.iter().map(|reading| reading.ops).sum(),
            written: done.readings.iter().map(|reading| reading.written).sum(),
            latencies,
            counts: done.counts,
        })
    }
}
