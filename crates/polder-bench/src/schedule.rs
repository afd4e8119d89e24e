//! When the operations of an open loop should begin.
//!
//! The times follow from the rate alone. An operation that could not begin at its time, since one
//! before it took too long, has waited from that time on, and its latency says so: a stall counts
//! against all operations that it kept waiting, not only against the one that stalled.

use std::time::Duration;

/// One thread's part of a rate: threads take turns, evenly spaced.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    /// Operations a second of all threads together.
    per_second: f64,
    threads: u64,
    /// Which of the operations of all threads is this thread's next.
    next: u64,
}

impl Schedule {
    /// For thread number `thread` of so many.
    pub(crate) fn new(per_second: f64, thread: usize, threads: usize) -> Schedule {
        Schedule { per_second, threads: threads as u64, next: thread as u64 }
    }

    /// When the next operation should begin, counted from the start.
    pub(crate) fn due(&self) -> Duration {
        // From the number of the operation, not from the last time: rounding does not add up.
        Duration::try_from_secs_f64(self.next as f64 / self.per_second).unwrap_or(Duration::MAX)
    }

    /// The next operation has begun.
    pub(crate) fn advance(&mut self) {
        self.next += self.threads;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_the_rate_evenly() {
        let times = |thread| {
            let mut schedule = Schedule::new(1000.0, thread, 2);
            std::array::from_fn::<u128, 3, _>(|_| {
                let due = schedule.due();
                schedule.advance();
                due.as_millis()
            })
        };
        assert_eq!(times(0), [0, 2, 4]);
        assert_eq!(times(1), [1, 3, 5]);
    }

    #[test]
    fn times_do_not_drift() {
        let mut schedule = Schedule::new(30_000.0, 0, 1);
        (0..3_000_000).for_each(|_| schedule.advance());
        assert_eq!(schedule.due(), Duration::from_secs(100));
    }
}
