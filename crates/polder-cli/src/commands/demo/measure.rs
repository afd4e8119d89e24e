//! Does something on several threads for a while, and says how fast it went.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use polder::{Stats, Store};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::progress::{Progress, Unit};
use crate::units::per_second;

/// How often the clock and Ctrl-C are looked at.
const GLANCE: Duration = Duration::from_millis(20);

/// What came of a part.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    pub threads: usize,
    pub operations: u64,
    pub time: Duration,
    pub hits: u64,
    pub faults: u64,
    pub device_reads: u64,
    pub device_writes: u64,
}

impl Measured {
    /// Operations in a second.
    pub fn rate(&self) -> f64 {
        per_second(self.operations, self.time)
    }

    /// Of the pages that were needed, the share that was in memory.
    pub fn hit_ratio(&self) -> f64 {
        let needed = self.hits + self.faults;
        if needed == 0 { 1.0 } else { 1.0 - self.faults as f64 / needed as f64 }
    }

    /// Reads from the device in a second.
    pub fn device_reads_rate(&self) -> f64 {
        per_second(self.device_reads, self.time)
    }

    /// Writes to the device in a second.
    pub fn device_writes_rate(&self) -> f64 {
        per_second(self.device_writes, self.time)
    }

    fn new(threads: usize, operations: u64, time: Duration, from: &Stats, to: &Stats) -> Measured {
        Measured {
            threads,
            operations,
            time,
            hits: to.pool.hits.saturating_sub(from.pool.hits),
            faults: to.pool.faults.saturating_sub(from.pool.faults),
            device_reads: to.pool.device_reads.saturating_sub(from.pool.device_reads),
            device_writes: to.pool.device_writes.saturating_sub(from.pool.device_writes),
        }
    }
}

/// For how long, on how many threads, under what name.
pub struct Part<'a> {
    pub label: &'a str,
    pub threads: usize,
    pub time: Duration,
    pub stop: &'a Interrupt,
}

impl Part<'_> {
    /// Calls `once` over and over on each thread; it returns how many operations it did. The first
    /// failure ends the part.
    pub fn run(
        &self,
        store: &Store,
        once: impl Fn(&mut Rng) -> Result<u64, Failure> + Sync,
    ) -> Result<Measured, Failure> {
        let over = AtomicBool::new(false);
        let worker = |seed: usize| {
            let mut random = Rng::with_seed(seed as u64);
            let mut operations = 0;
            while !over.load(Relaxed) {
                match once(&mut random) {
                    Ok(done) => operations += done,
                    Err(failure) => {
                        over.store(true, Relaxed);
                        return Err(failure);
                    }
                }
            }
            Ok(operations)
        };
        let before = store.stats();
        let begun = Instant::now();
        let outcomes: Vec<Result<u64, Failure>> = thread::scope(|scope| {
            let worker = &worker;
            let start = |seed| {
                let started = thread::Builder::new().spawn_scoped(scope, move || worker(seed));
                started.map_err(Failure::io("cannot start a thread"))
            };
            let threads: Vec<_> = (0..self.threads).map(start).collect();
            if threads.iter().all(Result::is_ok) {
                self.wait(begun, &over);
            }
            over.store(true, Relaxed);
            threads.into_iter().map(|thread| joined(thread?.join())).collect()
        });
        let time = begun.elapsed();
        let operations = outcomes.into_iter().sum::<Result<u64, Failure>>()?;
        self.stop.check()?;
        Ok(Measured::new(self.threads, operations, time, &before, &store.stats()))
    }

    fn wait(&self, begun: Instant, over: &AtomicBool) {
        let whole = self.time.as_millis() as u64;
        let progress = Progress::new(self.label, Unit::Milliseconds, Some(whole));
        while begun.elapsed() < self.time && !over.load(Relaxed) && !self.stop.requested() {
            progress.at(begun.elapsed().as_millis() as u64);
            thread::sleep(GLANCE.min(self.time));
        }
        drop(progress);
    }
}

/// A panic of a thread goes on in the thread that waits for it.
pub fn joined<T>(outcome: thread::Result<T>) -> T {
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
