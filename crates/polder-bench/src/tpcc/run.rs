//! Threads that do transactions, timed together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use polder::Store;

use super::TpccPlan;
use super::data::{Scale, Tables};
use super::tally::Tally;
use super::transactions::Client;
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::meter::{self, Stop};
use crate::random::{Random, RngExt, stream};
use crate::team::{Outcome, Team};

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
    /// Whether the rows that a transaction reads are looked up together.
    pub(crate) many: bool,
}

impl Run<'_> {
    /// Runs all threads for their time.
    pub(crate) fn run(&self) -> Result<(Outcome, Tally), BenchError> {
        let client = |thread: usize| {
            let random = stream(self.seed, (self.number << 16) | thread as u64);
            let warehouses = self.plan.warehouses;
            Ok(Client::new(self.store, self.tables, self.scale, warehouses, random, self.many))
        };
        let work = |thread, client, stop: &Stop<'_>| self.one_thread(thread, client, stop);
        let Run { threads, counters, interrupt, .. } = *self;
        let done = Team { threads, counters, limit: None, interrupt }.run(client, work)?;
        let mut all = Tally::new(self.seconds, self.interval);
        done.readings.iter().for_each(|tally| all.add(tally));
        let mut latencies = meter::new_histogram();
        for kind in &all.kinds {
            latencies.add(&kind.latencies).expect("all histograms have the same bounds");
        }
        let ops = all.kinds.iter().map(|kind| kind.committed + kind.rolled_back).sum();
        let (seconds, counts) = (done.seconds, done.counts);
        Ok((Outcome { seconds, ops, written: 0, latencies, counts }, all))
    }

    fn one_thread(
        &self,
        thread: usize,
        mut client: Client<'_>,
        stop: &Stop<'_>,
    ) -> Result<Tally, BenchError> {
        let mut tally = Tally::new(self.seconds, self.interval);
        let homes = Homes::new(self.plan, thread, self.threads);
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
        tally.written_bytes = client.written_bytes;
        Ok(tally)
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
        self.first + self.step * random.random_range(..self.count)
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
        let mut random = stream(1, 1);
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
