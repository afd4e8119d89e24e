//! What is counted while transactions run: by kind, and over time.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::transactions::{End, Transaction};
use crate::meter;

/// Of one kind of transaction.
#[derive(Debug)]
pub(super) struct KindTally {
    pub(super) committed: u64,
    pub(super) rolled_back: u64,
    /// Tries that another transaction was faster than.
    pub(super) conflicts: u64,
    /// In nanoseconds, of transactions with all their tries.
    pub(super) latencies: Histogram<u64>,
}

/// Of one thread, or of all.
#[derive(Debug)]
pub(crate) struct Tally {
    /// In the order of [`Transaction`].
    pub(super) kinds: [KindTally; 5],
    /// Transactions that ended in each interval since the start.
    pub(super) over_time: Vec<u64>,
    pub(super) interval: Duration,
    pub(crate) written_bytes: u64,
}

impl Tally {
    /// For a phase of this length.
    pub(super) fn new(seconds: f64, interval: Duration) -> Tally {
        // The last interval counts if it is complete; rounding must not lose it.
        let intervals = (seconds / interval.as_secs_f64() + 1e-6) as usize;
        let none = |_| KindTally {
            committed: 0,
            rolled_back: 0,
            conflicts: 0,
            latencies: meter::new_histogram(),
        };
        Tally {
            kinds: std::array::from_fn(none),
            over_time: vec![0; intervals],
            interval,
            written_bytes: 0,
        }
    }

    /// A transaction has ended, so long after the start, and after so many vain tries.
    pub(super) fn count(
        &mut self,
        transaction: Transaction,
        end: End,
        conflicts: u64,
        latency: Duration,
        since_start: Duration,
    ) {
        let kind = &mut self.kinds[transaction as usize];
        match end {
            End::Committed => kind.committed += 1,
            End::RolledBack => kind.rolled_back += 1,
        }
        kind.conflicts += conflicts;
        meter::record(&mut kind.latencies, latency, 1);
        let interval = (since_start.as_nanos() / self.interval.as_nanos().max(1)) as usize;
        if let Some(count) = self.over_time.get_mut(interval) {
            *count += 1;
        }
    }

    /// Takes in those of another thread.
    pub(super) fn add(&mut self, other: &Tally) {
        for (kind, more) in self.kinds.iter_mut().zip(&other.kinds) {
            kind.committed += more.committed;
            kind.rolled_back += more.rolled_back;
            kind.conflicts += more.conflicts;
            kind.latencies.add(&more.latencies).expect("all histograms have the same bounds");
        }
        for (count, more) in self.over_time.iter_mut().zip(&other.over_time) {
            *count += more;
        }
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
        one.count(Transaction::NewOrder, End::Committed, 2, ms(1), ms(99));
        one.count(Transaction::NewOrder, End::RolledBack, 0, ms(1), ms(100));
        // Behind the last complete interval.
        one.count(Transaction::Delivery, End::Committed, 0, ms(9), ms(301));
        one.written_bytes = 7;
        all.add(&one);
        all.add(&one);
        let new_orders = &all.kinds[Transaction::NewOrder as usize];
        assert_eq!((new_orders.committed, new_orders.rolled_back), (2, 2));
        assert_eq!((new_orders.conflicts, new_orders.latencies.len()), (4, 4));
        assert_eq!(all.kinds[Transaction::Delivery as usize].committed, 2);
        assert_eq!((&all.over_time[..], all.written_bytes), (&[2, 2, 0][..], 14));
    }
}
