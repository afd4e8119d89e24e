//! Counts the operations of one thread and times a sample of them, or all.
//!
//! Reading the clock twice costs tens of nanoseconds, which is much beside a read of 500. So one
//! operation in [`SPARSE`] is timed; where operations take longer than [`SLOW_NS`] on average, the
//! clock costs nothing beside them and each is timed, so that a tail is seen in a short run as
//! well. A timed operation stands in the histogram for as many as it was chosen from. The clock is
//! also what ends a phase: it is looked at with each sample.
//!
//! In an open loop ([`Timing::Open`]) operations have times at which they should begin. The meter
//! waits for them, times each operation, and counts its latency from that time on. Operations whose
//! time came before the phase was over, and that did not begin, are not counted as operations; but
//! their latencies are in the histogram, as long as they had waited by then. Else an engine that
//! cannot keep up would look better the later it is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::interrupt::Interrupt;
use crate::schedule::Schedule;

/// One operation of so many is timed while operations are fast.
const SPARSE: u64 = 16;
/// Operations are slow from this average on, in nanoseconds.
const SLOW_NS: u64 = 10_000;
/// Entries between two looks at the clock where single ones are not timed.
const ENTRIES_PER_LOOK: u64 = 1024;
/// The longest latency that the histogram tells apart: a minute.
const LONGEST_NS: u64 = 60_000_000_000;
/// Decimal digits that the histogram keeps of a latency.
const DIGITS: u8 = 3;
/// A thread that waits for a time sleeps until so long before it, and yields from there on: the
/// kernel may wake it too late, by about as much, which would count as latency.
const WAKE_EARLY: Duration = Duration::from_micros(80);
/// How long a thread that waits may not notice that it should stop.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);

/// An empty histogram of latencies in nanoseconds.
pub(crate) fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are valid constants")
}

/// What ends the work of all threads: an interrupt, an error in one of them, or the end of the time.
#[derive(Debug)]
pub(crate) struct Stop<'a> {
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) over: AtomicBool,
}

impl<'a> Stop<'a> {
    /// Nothing of it has come.
    pub(crate) fn new(interrupt: &'a Interrupt) -> Stop<'a> {
        Stop { interrupt, over: AtomicBool::new(false) }
    }

    /// Ends it.
    pub(crate) fn set(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether it has come.
    pub(crate) fn is_set(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.interrupt.is_set()
    }
}

/// Which operations are timed, and from when.
#[derive(Debug)]
pub(crate) enum Timing {
    /// A sample, each from its begin.
    Sampled,
    /// Each, from its begin.
    Each,
    /// Each, from the time at which it should begin.
    Open(Schedule),
}

/// What a meter has counted.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) ops: u64,
    /// Records written.
    pub(crate) written: u64,
    /// In nanoseconds.
    pub(crate) latencies: Histogram<u64>,
}

/// One thread's meter.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    stop: &'a Stop<'a>,
    started: Instant,
    limit: Option<Duration>,
    timing: Timing,
    over: bool,
    stride: u64,
    until_sample: u64,
    reading: Reading,
}

impl<'a> Meter<'a> {
    /// Begins now; `limit` is how long the phase may take, where it is not a fixed amount of work.
    pub(crate) fn start(limit: Option<Duration>, timing: Timing, stop: &'a Stop<'a>) -> Meter<'a> {
        let stride = if matches!(timing, Timing::Sampled) { SPARSE } else { 1 };
        let reading = Reading { ops: 0, written: 0, latencies: new_histogram() };
        // A slow open loop may have nothing for this thread to do.
        let over = match (&timing, limit) {
            (Timing::Open(schedule), Some(limit)) => schedule.due() >= limit,
            _ => false,
        };
        let started = Instant::now();
        Meter { stop, started, limit, timing, over, stride, until_sample: stride, reading }
    }

    /// Does one operation, counted, and timed if it is its turn.
    #[inline]
    pub(crate) fn time<R>(&mut self, operation: impl FnOnce() -> R) -> R {
        self.reading.ops += 1;
        self.until_sample -= 1;
        if self.until_sample > 0 {
            return operation();
        }
        let before = self.begin();
        let result = operation();
        self.sample(before);
        result
    }

    /// Does so many operations by one call, which each of them lasts. Each call is timed.
    pub(crate) fn time_many<R>(&mut self, operations: u64, call: impl FnOnce() -> R) -> R {
        let before = Instant::now();
        let result = call();
        let after = Instant::now();
        self.reading.ops += operations;
        record(&mut self.reading.latencies, after - before, operations);
        self.look(after);
        result
    }

    /// Counts one entry that costs too little to be timed.
    #[inline]
    pub(crate) fn count(&mut self) {
        self.reading.ops += 1;
        if self.reading.ops.is_multiple_of(ENTRIES_PER_LOOK) {
            self.look(Instant::now());
        }
    }

    /// Counts records that were written.
    #[inline]
    pub(crate) fn wrote(&mut self, records: u64) {
        self.reading.written += records;
    }

    /// Whether the phase should end.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// When the phase began.
    #[cfg(test)]
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// What was counted. An open loop lasts until its limit, and takes in what did not begin.
    pub(crate) fn finish(mut self) -> Reading {
        if let (Some(limit), Timing::Open(schedule)) = (self.limit, &mut self.timing) {
            wait_until(self.started + limit, self.stop);
            let elapsed = self.started.elapsed();
            while schedule.due() < limit.min(elapsed) {
                record(&mut self.reading.latencies, elapsed - schedule.due(), 1);
                schedule.advance();
            }
        }
        self.reading
    }

    /// From when on the latency of the operation that follows counts.
    #[inline]
    fn begin(&mut self) -> Instant {
        match &mut self.timing {
            Timing::Sampled | Timing::Each => Instant::now(),
            Timing::Open(schedule) => {
                let due = self.started + schedule.due();
                schedule.advance();
                wait_until(due, self.stop);
                due
            }
        }
    }

    #[cold]
    fn sample(&mut self, before: Instant) {
        let after = Instant::now();
        record(&mut self.reading.latencies, after - before, self.stride);
        if matches!(self.timing, Timing::Sampled) {
            let slow_ns = u128::from(self.reading.ops) * u128::from(SLOW_NS);
            let is_slow = (after - self.started).as_nanos() > slow_ns;
            self.stride = if is_slow { 1 } else { SPARSE };
        }
        self.until_sample = self.stride;
        self.look(after);
    }

    fn look(&mut self, now: Instant) {
        let next = match &self.timing {
            Timing::Open(schedule) => schedule.due().max(now - self.started),
            _ => now - self.started,
        };
        let late = self.limit.is_some_and(|limit| next >= limit);
        self.over = late || self.stop.is_set();
    }
}

/// Counts a latency so many times.
pub(crate) fn record(latencies: &mut Histogram<u64>, latency: Duration, count: u64) {
    let ns = u64::try_from(latency.as_nanos()).unwrap_or(LONGEST_NS);
    latencies.saturating_record_n(ns.max(1), count);
}

/// Returns at this time, or soon after somebody said to stop.
pub(crate) fn wait_until(time: Instant, stop: &Stop<'_>) {
    loop {
        let left = time.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.is_set() {
            return;
        }
        match left.checked_sub(WAKE_EARLY) {
            Some(idle) if !idle.is_zero() => std::thread::sleep(idle.min(PATIENCE)),
            _ => std::thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests;
