//! One phase of a workload: threads that do the same thing to an engine, timed together.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::bench::{Bench, Mix};
use crate::conditions::Conditions;
use crate::dist::Dist;
use crate::engine::{Access, Engine, EngineError, Named, Session};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::meter::{self, Meter, Stop, Timing};
use crate::plan::Plan;
use crate::records::{self, Key};
use crate::schedule::Schedule;
use crate::space::RecordSpace;
use crate::team::Outcome;

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
    pub(crate) named: &'a Named,
    pub(crate) engine: &'a dyn Engine,
    pub(crate) plan: &'a Plan,
    pub(crate) interrupt: &'a Interrupt,
    /// Makes the requests of this phase different from those of others.
    pub(crate) number: u64,
    /// How long, where the phase is not a fixed amount of work.
    pub(crate) seconds: Option<f64>,
}

impl Phase<'_> {
    /// An error of the engine, as one of the benchmark.
    fn failed(&self, error: EngineError) -> BenchError {
        BenchError::engine(self.named.kind.name)(error)
    }

    /// Bytes of a value.
    fn value_size(&self) -> usize {
        self.plan.conditions.value_size
    }

    /// Inserts all records in the order of their numbers, which is a random order of their keys.
    pub(crate) fn load(&self) -> Result<Outcome, BenchError> {
        let next = AtomicU64::new(0);
        self.on_threads(Access::Load, |_, session, meter| {
            let many = self.named.many().min(RECORDS_PER_TURN as usize);
            let mut entries = vec![(Key::default(), vec![0; self.value_size()]); many];
            while !meter.is_over() {
                let first = next.fetch_add(RECORDS_PER_TURN, Ordering::Relaxed);
                let end = (first + RECORDS_PER_TURN).min(self.plan.conditions.records);
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
                    put.map_err(|error| self.failed(error))?;
                }
                meter.wrote(end - first);
            }
            Ok(())
        })
    }

    /// Scans everything in key order, each thread its own part of the key space, again and again;
    /// without a limit of time, once.
    pub(crate) fn scan(&self, records: u64) -> Result<Outcome, BenchError> {
        // Entries of the first pass, and whether the time ended some of it.
        let (found, unfinished) = (AtomicU64::new(0), AtomicBool::new(false));
        let outcome = self.on_threads(Access::Read, |thread, session, meter| {
            let count = self.scan_part(thread, session, meter, records)?;
            found.fetch_add(count, Ordering::Relaxed);
            unfinished.fetch_or(meter.is_over(), Ordering::Relaxed);
            // An empty part has no entries at which the clock would be looked at.
            while self.seconds.is_some() && count > 0 && !meter.is_over() {
                self.scan_part(thread, session, meter, records)?;
            }
            Ok(())
        })?;
        let found = found.into_inner();
        if !unfinished.into_inner() && found != records {
            return Err(BenchError::Wrong(format!(
                "a full scan gave {found} entries of {records}"
            )));
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
        let border = |part: usize| ((part as u128) << 64) / self.plan.conditions.threads as u128;
        let (start, end) = (border(thread) as u64, border(thread + 1));
        let mut reader = ScanReader::new(start, self.value_size(), records);
        let scanned = session.scan(&start.to_be_bytes(), &mut |key, value| {
            if u64::from_be_bytes(key.try_into().unwrap_or_default()) as u128 >= end {
                return false;
            }
            meter.count();
            reader.take(key, value) && !meter.is_over()
        });
        scanned.map_err(|error| self.failed(error))?;
        reader.finish()
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
        outcome.ops *= self.plan.conditions.batch;
        Ok(outcome)
    }

    /// How a thread's operations are timed. Work that is done without a limit of time is done as
    /// fast as it goes, also where the workload has a rate.
    fn timing(&self, thread: usize) -> Timing {
        let Conditions { threads, batch, rate_per_s, .. } = self.plan.conditions;
        match (rate_per_s, self.seconds) {
            (Some(rate), Some(_)) => {
                Timing::Open(Schedule::new(rate as f64 / batch as f64, thread, threads))
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
        let session = |_| self.engine.session(access).map_err(|error| self.failed(error));
        let limit = self.seconds.map(Duration::from_secs_f64);
        let work = |thread: usize, mut session: Box<dyn Session + '_>, stop: &Stop<'_>| {
            let mut meter = Meter::start(limit, self.timing(thread), stop);
            work(thread, &mut *session, &mut meter)?;
            session.finish().map_err(|error| self.failed(error))?;
            Ok(meter.finish())
        };
        let done = self.plan.team(self.interrupt).run(session, work)?;
        let mut latencies = meter::new_histogram();
        done.readings.iter().for_each(|reading| latencies += &reading.latencies);
        Ok(Outcome {
            seconds: done.seconds,
            ops: done.readings.iter().map(|reading| reading.ops).sum(),
            written: done.readings.iter().map(|reading| reading.written).sum(),
            latencies,
            counts: done.counts,
        })
    }
}
