//! Threads that do transactions, timed together.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use polder::Store;

use super::tables::Tables;
use super::tally::Tally;
use super::transactions::Client;
use super::{Scale, TpccPlan};
use crate::counters::{Counters, Counts};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::meter::{self, Stop};
use crate::phase::Outcome;
use crate::random::Random;

/// Phases up to this length are shown in short intervals, longer ones in long ones.
const SHORT_SECONDS: f64 = 30.0;
const SHORT_INTERVAL: Duration = Duration::from_millis(100);
const LONG_INTERVAL: Duration = Duration::from_secs(1);

/// How long an interval of the throughput over time is, in a phase of this length.
pub(crate) fn interval(seconds: f64) -> Duration {
    if seconds <= SHORT_SECONDS { SHORT_INTERVAL } else { LONG_INTERVAL }
}

/// Where and how transactions run.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) store: &'a Store,
    pub(crate) tables: &'a Tables,
    pub(crate) scale: Scale,
    pub(crate) plan: TpccPlan,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
    pub(crate) counters: bool,
    pub(crate) interrupt: &'a Interrupt,
    /// Makes the input of this phase different from that of others.
    pub(crate) number: u64,
    pub(crate) seconds: f64,
    /// How long an interval of the throughput over time is.
    pub(crate) interval: Duration,
    /// Ends it before its time, once somebody sets it.
    pub(crate) until: Option<&'a AtomicBool>,
}

/// What came out of one thread.
struct Part {
    started: Instant,
    ended: Instant,
    tally: Tally,
    counts: Option<Counts>,
}

impl Run<'_> {
    /// Runs all threads for their time.
    pub(crate) fn run(&self) -> Result<Outcome, BenchError> {
        let stop = Stop { interrupt: self.interrupt, failed: AtomicBool::new(false) };
        let gate = Barrier::new(self.threads);
        let one = |thread: usize| {
            let part = self.one_thread(thread, &gate, &stop);
            if part.is_err() {
                stop.failed.store(true, Ordering::Relaxed);
            }
            part
        };
        let parts: Vec<_> = std::thread::scope(|scope| {
            let one = &one;
            let handles: Vec<_> =
                (0..self.threads).map(|thread| scope.spawn(move || one(thread))).collect();
            let join = |handle: std::thread::ScopedJoinHandle<'_, _>| match handle.join() {
                Ok(part) => part,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            handles.into_iter().map(join).collect()
        });
        self.interrupt.check()?;
        self.merge(parts)
    }

    fn one_thread(
        &self,
        thread: usize,
        gate: &Barrier,
        stop: &Stop<'_>,
    ) -> Result<Part, BenchError> {
        let random = Random::new(self.seed, (self.number << 16) | thread as u64);
        let warehouses = self.plan.warehouses;
        let mut client = Client::new(self.store, self.tables, self.scale, warehouses, random);
        let mut tally = Tally::new(self.seconds, self.interval);
        let homes = Homes::new(self.plan, thread, self.threads);
        let counters = if self.counters { Counters::open().ok() } else { None };
        gate.wait();
        let counting = counters.filter(|counters| counters.start().is_ok());
        let limit = Duration::from_secs_f64(self.seconds);
        let started = Instant::now();
        // One look at the clock for each: a transaction begins when the last has ended.
        let mut ended = started;
        let is_over =
            || stop.is_set() || self.until.is_some_and(|until| until.load(Ordering::Relaxed));
        while ended - started < limit && !is_over() {
            let transaction = self.plan.mix.draw(&mut client.random);
            let w = homes.draw(&mut client.random);
            let end = client.run(transaction, w)?;
            let now = Instant::now();
            let conflicts = std::mem::take(&mut client.conflicts);
            tally.count(transaction, end, conflicts, now - ended, now - started);
            ended = now;
        }
        let counts = counting.and_then(|counters| counters.stop().ok());
        tally.written_bytes = client.written_bytes;
        Ok(Part { started, ended, tally, counts })
    }

    /// All threads together; the first failure wins.
    fn merge(&self, parts: Vec<Result<Part, BenchError>>) -> Result<Outcome, BenchError> {
        let mut all = Tally::new(self.seconds, self.interval);
        let mut counts = Some(Counts::default());
        let mut span: Option<(Instant, Instant)> = None;
        for part in parts {
            let part = part?;
            let (first, last) = span.unwrap_or((part.started, part.ended));
            span = Some((first.min(part.started), last.max(part.ended)));
            all.add(&part.tally);
            counts = counts.zip(part.counts).map(|(mut sum, counts)| {
                sum.add(counts);
                sum
            });
        }
        let mut latencies = meter::new_histogram();
        for kind in &all.kinds {
            latencies.add(&kind.latencies).expect("all histograms have the same bounds");
        }
        Ok(Outcome {
            seconds: span.map_or(0.0, |(first, last)| (last - first).as_secs_f64()),
            ops: all.kinds.iter().map(|kind| kind.committed + kind.rolled_back).sum(),
            written: 0,
            latencies,
            counts,
            tpcc: Some(Box::new(all)),
        })
    }
}

/// The warehouses of a thread's terminals: all, or with `--affinity` every so many-th one. Where
/// there are more threads than warehouses, several have the same.
#[derive(Debug, Clone, Copy)]
struct Homes {
    first: u16,
    step: u16,
    count: u16,
}

impl Homes {
    fn new(plan: TpccPlan, thread: usize, threads: usize) -> Homes {
        let all = plan.warehouses;
        if !plan.affinity {
            return Homes { first: 1, step: 1, count: all };
        }
        let first = (thread % usize::from(all)) as u16 + 1;
        let step = threads.min(usize::from(all)) as u16;
        Homes { first, step, count: (all - first) / step + 1 }
    }

    fn draw(self, random: &mut Random) -> u16 {
        self.first + self.step * random.below(self.count.into()) as u16
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::Mix;
    use super::*;

    fn homes(warehouses: u16, affinity: bool, thread: usize, threads: usize) -> Vec<u16> {
        let plan = TpccPlan { warehouses, affinity, mix: Mix::Standard, check: true };
        let homes = Homes::new(plan, thread, threads);
        let mut random = Random::new(1, 1);
        let drawn: BTreeSet<u16> = (0..1000).map(|_| homes.draw(&mut random)).collect();
        drawn.into_iter().collect()
    }

    #[test]
    fn threads_share_the_warehouses_or_have_their_own() {
        assert_eq!(homes(3, false, 1, 2), [1, 2, 3]);
        assert_eq!(homes(5, true, 0, 2), [1, 3, 5]);
        assert_eq!(homes(5, true, 1, 2), [2, 4]);
        assert_eq!(homes(2, true, 0, 4), [1]);
        assert_eq!(homes(2, true, 3, 4), [2]);
        assert_eq!(homes(1, true, 1, 2), [1]);
    }

    #[test]
    fn long_phases_have_long_intervals() {
        assert_eq!(interval(30.0), SHORT_INTERVAL);
        assert_eq!(interval(31.0), LONG_INTERVAL);
    }
}
