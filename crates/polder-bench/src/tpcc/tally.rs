//! What is counted while transactions run: by kind, and over time.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::transactions::Transaction;
use crate::meter;

/// Of one thread, or of all.
#[derive(Debug)]
pub(crate) struct Tally {
    /// In nanoseconds, of each transaction that has ended with all its tries; by kind, in the order
    /// of [`Transaction`].
    pub(super) latencies: [Histogram<u64>; 5],
    /// Transactions that ended in each interval since the start.
    pub(super) over_time: Vec<u64>,
    pub(super) interval: Duration,
    /// New orders that asked for an item that there is not.
    pub(super) rolled_back: u64,
    /// Tries that another transaction was faster than.
    pub(super) conflicts: u64,
    pub(crate) written_bytes: u64,
}

impl Tally {
    /// For a phase of this length.
    pub(super) fn new(seconds: f64, interval: Duration) -> Tally {
        // The last interval counts if it is complete; rounding must not lose it.
        let intervals = (seconds / interval.as_secs_f64() + 1e-6) as usize;
        Tally {
            latencies: std::array::from_fn(|_| meter::new_histogram()),
            over_time: vec![0; intervals],
            interval,
            rolled_back: 0,
            conflicts: 0,
            written_bytes: 0,
        }
    }

    /// A transaction has ended, so long after the start.
    pub(super) fn count(&mut self, of: Transaction, latency: Duration, since_start: Duration) {
        meter::record(&mut self.latencies[of as usize], latency, 1);
        let interval = (since_start.as_nanos() / self.interval.as_nanos().max(1)) as usize;
        if let Some(count) = self.over_time.get_mut(interval) {
            *count += 1;
        }
    }

    /// Takes in those of another thread.
    pub(super) fn add(&mut self, other: &Tally) {
        for (latencies, more) in self.latencies.iter_mut().zip(&other.latencies) {
            *latencies += more;
        }
        for (count, more) in self.over_time.iter_mut().zip(&other.over_time) {
            *count += more;
        }
        self.rolled_back += other.rolled_back;
        self.conflicts += other.conflicts;
        self.written_bytes += other.written_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_counted_by_kind_and_interval() {
        let ms = Duration::from_millis;
        let new = || Tally::new(0.3, ms(100));
        let (mut all, mut one) = (new(), new());
        assert_eq!(one.over_time.len(), 3);
        one.count(Transaction::NewOrder, ms(1), ms(99));
        one.count(Transaction::NewOrder, ms(1), ms(100));
        // Behind the last complete interval.
        one.count(Transaction::Delivery, ms(9), ms(301));
        let one = Tally { rolled_back: 1, conflicts: 2, written_bytes: 7, ..one };
        all.add(&one);
        all.add(&one);
        let of = |transaction| all.latencies[transaction as usize].len();
        assert_eq!((of(Transaction::NewOrder), of(Transaction::Delivery)), (4, 2));
        assert_eq!((all.rolled_back, all.conflicts, all.written_bytes), (2, 4, 14));
        assert_eq!(all.over_time, [2, 2, 0]);
    }
}
