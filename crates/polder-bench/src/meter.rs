//! Counts the operations of one thread and times a sample of them.
//!
//! Reading the clock twice costs tens of nanoseconds, which is much beside a read of 500. So one
//! operation in [`SPARSE`] is timed; where operations take longer than [`SLOW_NS`] on average, the
//! clock costs nothing beside them and each is timed, so that a tail is seen in a short run as
//! well. A timed operation stands in the histogram for as many as it was chosen from. The clock is
//! also what ends a phase: it is looked at with each sample.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::interrupt::Interrupt;

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

/// An empty histogram of latencies in nanoseconds.
pub(crate) fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are valid constants")
}

/// What ends a phase before its time: an interrupt, or an error in another thread.
#[derive(Debug)]
pub(crate) struct Stop<'a> {
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) failed: AtomicBool,
}

impl Stop<'_> {
    fn is_set(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || self.interrupt.is_set()
    }
}

/// One thread's meter.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    stop: &'a Stop<'a>,
    started: Instant,
    limit: Option<Duration>,
    over: bool,
    ops: u64,
    stride: u64,
    until_sample: u64,
    latencies: Histogram<u64>,
}

impl<'a> Meter<'a> {
    /// Begins now; `limit` is how long the phase may take, where it is not a fixed amount of work.
    pub(crate) fn start(limit: Option<Duration>, stop: &'a Stop<'a>) -> Meter<'a> {
        Meter {
            latencies: new_histogram(),
            stop,
            limit,
            over: false,
            ops: 0,
            stride: SPARSE,
            until_sample: SPARSE,
            started: Instant::now(),
        }
    }

    /// Does one operation, counted, and timed if it is its turn.
    #[inline]
    pub(crate) fn time<R>(&mut self, operation: impl FnOnce() -> R) -> R {
        self.ops += 1;
        self.until_sample -= 1;
        if self.until_sample > 0 {
            return operation();
        }
        let before = Instant::now();
        let result = operation();
        self.sample(before);
        result
    }

    /// Counts one entry that costs too little to be timed.
    #[inline]
    pub(crate) fn count(&mut self) {
        self.ops += 1;
        if self.ops.is_multiple_of(ENTRIES_PER_LOOK) {
            self.look(Instant::now());
        }
    }

    /// Whether the phase should end.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// When the phase began.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Operations and their latencies.
    pub(crate) fn into_parts(self) -> (u64, Histogram<u64>) {
        (self.ops, self.latencies)
    }

    #[cold]
    fn sample(&mut self, before: Instant) {
        let after = Instant::now();
        let ns = u64::try_from((after - before).as_nanos()).unwrap_or(LONGEST_NS);
        self.latencies.saturating_record_n(ns.max(1), self.stride);
        let slow_ns = u128::from(self.ops) * u128::from(SLOW_NS);
        let is_slow = (after - self.started).as_nanos() > slow_ns;
        self.stride = if is_slow { 1 } else { SPARSE };
        self.until_sample = self.stride;
        self.look(after);
    }

    fn look(&mut self, now: Instant) {
        let late = self.limit.is_some_and(|limit| now - self.started >= limit);
        self.over = late || self.stop.is_set();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(interrupt: &Interrupt) -> Stop<'_> {
        Stop { interrupt, failed: AtomicBool::new(false) }
    }

    #[test]
    fn fast_operations_are_sampled_and_weighted() {
        let never = Interrupt::silent();
        let stop = stop(&never);
        let mut meter = Meter::start(None, &stop);
        for _ in 0..1600 {
            meter.time(|| ());
        }
        assert!(!meter.is_over());
        let (ops, latencies) = meter.into_parts();
        // The last operations may still wait for their sample; each before is stood for.
        assert_eq!(ops, 1600);
        assert!((ops - SPARSE + 1..=ops).contains(&latencies.len()));
    }

    #[test]
    fn slow_operations_are_timed_each_and_the_limit_ends_the_phase() {
        let never = Interrupt::silent();
        let stop = stop(&never);
        let mut meter = Meter::start(Some(Duration::from_millis(30)), &stop);
        while !meter.is_over() {
            meter.time(|| std::thread::sleep(Duration::from_micros(200)));
        }
        let elapsed = meter.started().elapsed();
        assert!(elapsed >= Duration::from_millis(30));
        let (ops, latencies) = meter.into_parts();
        assert_eq!(latencies.len(), ops);
        assert!(latencies.min() >= 200_000);
    }

    #[test]
    fn an_error_elsewhere_ends_the_phase() {
        let never = Interrupt::silent();
        let stop = stop(&never);
        stop.failed.store(true, Ordering::Relaxed);
        let mut meter = Meter::start(None, &stop);
        for _ in 0..SPARSE {
            meter.time(|| ());
        }
        assert!(meter.is_over());
        let mut meter = Meter::start(None, &stop);
        (0..ENTRIES_PER_LOOK).for_each(|_| meter.count());
        assert!(meter.is_over());
    }
}
