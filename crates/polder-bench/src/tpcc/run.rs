//! Threads that do transactions, timed together.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_executor::LocalExecutor;
use futures_lite::future::{block_on, yield_now};
use polder::Store;

use super::TpccPlan;
use super::data::{Scale, Tables};
use super::tally::Tally;
use super::transactions::Client;
use crate::error::BenchError;
use crate::meter::{self, Stop};
use crate::random::{RngExt, stream};
use crate::team::{Outcome, Team};

/// How long an interval of the throughput over time is, in a phase of this length.
pub(crate) fn interval(seconds: f64) -> Duration {
    Duration::from_millis(if seconds <= 30.0 { 100 } else { 1000 })
}

/// Where and how transactions run.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) store: &'a Store,
    pub(crate) tables: &'a Tables,
    pub(crate) scale: Scale,
    pub(crate) plan: TpccPlan,
    pub(crate) team: Team<'a>,
    pub(crate) seed: u64,
    /// Makes the input of this phase different from that of others.
    pub(crate) number: u64,
    pub(crate) seconds: f64,
    /// How long an interval of the throughput over time is.
    pub(crate) interval: Duration,
    /// Ends it before its time, once somebody sets it.
    pub(crate) until: Option<&'a AtomicBool>,
    /// Whether a transaction looks up together what it is going to read one by one.
    pub(crate) many: bool,
    /// Terminals that a thread serves at once, by futures. Without it a thread does one transaction after
    /// the other, by calls.
    pub(crate) tasks: Option<usize>,
}

impl Run<'_> {
    /// Runs all threads for their time.
    pub(crate) fn run(&self) -> Result<(Outcome, Tally), BenchError> {
        let work = |thread, (), stop: &Stop<'_>| match self.tasks {
            Some(tasks) => self.work::<true>(tasks, thread, stop),
            None => self.work::<false>(1, thread, stop),
        };
        let done = self.team.run(|_| Ok(()), work)?;
        let mut all = Tally::new(self.seconds, self.interval);
        done.readings.iter().for_each(|tally| all.add(tally));
        let mut latencies = meter::new_histogram();
        all.latencies.iter().for_each(|of_kind| latencies += of_kind);
        let (seconds, counts) = (done.seconds, done.counts);
        Ok((Outcome { seconds, ops: latencies.len(), written: 0, latencies, counts }, all))
    }

    /// What one thread does: it serves its terminals, and goes on with another one where a transaction
    /// waits.
    fn work<const AWAITS: bool>(
        &self,
        tasks: usize,
        thread: usize,
        stop: &Stop<'_>,
    ) -> Result<Tally, BenchError> {
        let homes = homes_of(self.plan, thread, self.team.threads);
        let (tally, started) =
            (RefCell::new(Tally::new(self.seconds, self.interval)), Instant::now());
        let executor = LocalExecutor::new();
        let terminals: Vec<_> = (0..tasks)
            .map(|task| {
                let number = (self.number << 32) | (task << 16 | thread) as u64;
                let Run { store, tables, scale, plan, many, .. } = *self;
                let random = stream(self.seed, number);
                let client =
                    Client::<AWAITS>::new(store, tables, scale, plan.warehouses, many, random);
                let served = self.serve(client, &homes, &tally, started, stop);
                // Its error is found when the terminals before it have ended.
                executor.spawn(async { served.await.inspect_err(|_| stop.set()) })
            })
            .collect();
        block_on(executor.run(async {
            for terminal in terminals {
                terminal.await?;
            }
            Ok::<_, BenchError>(())
        }))?;
        drop(executor);
        Ok(tally.into_inner())
    }

    /// What a terminal has done.
    async fn serve<const AWAITS: bool>(
        &self,
        mut client: Client<'_, AWAITS>,
        homes: &[u16],
        tally: &RefCell<Tally>,
        started: Instant,
        stop: &Stop<'_>,
    ) -> Result<(), BenchError> {
        let limit = Duration::from_secs_f64(self.seconds);
        // One look at the clock for each: a transaction begins when the last has ended.
        let mut ended = started;
        let is_over =
            || stop.is_set() || self.until.is_some_and(|until| until.load(Ordering::Relaxed));
        while ended - started < limit && !is_over() {
            let transaction = self.plan.mix.draw(&mut client.random);
            let w = homes[client.random.random_range(..homes.len())];
            client.run(transaction, w).await?;
            let now = Instant::now();
            tally.borrow_mut().count(transaction, now - ended, now - started);
            ended = now;
            if AWAITS {
                // Transactions that wait for nothing keep others from their turn.
                yield_now().await;
            }
        }
        let mut tally = tally.borrow_mut();
        tally.rolled_back += client.rolled_back;
        tally.conflicts += client.conflicts;
        tally.written_bytes += client.written_bytes;
        Ok(())
    }
}

/// The warehouses of a thread's terminals: all, or with `--affinity` every so many-th one. Where
/// there are more threads than warehouses, several have the same.
fn homes_of(plan: TpccPlan, thread: usize, threads: usize) -> Vec<u16> {
    let all = 1..=plan.warehouses;
    if !plan.affinity {
        return all.collect();
    }
    let warehouses = usize::from(plan.warehouses);
    all.skip(thread % warehouses).step_by(threads.min(warehouses)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Mix;
    use super::*;

    fn homes(warehouses: u16, affinity: bool, thread: usize, threads: usize) -> Vec<u16> {
        homes_of(
            TpccPlan { warehouses, affinity, mix: Mix::Standard, check: true },
            thread,
            threads,
        )
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
        assert_eq!(interval(30.0), Duration::from_millis(100));
        assert_eq!(interval(31.0), Duration::from_secs(1));
    }
}
