//! How many entries a table has: a number that threads change without sharing a cache line.
//!
//! The thread that changes it first has a line of its own. Lines for the others come when there is
//! a second one, so that one of many small tables does not cost as much as a page.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use crate::quiesce::{STRIPES, stripe};

/// The number, as the sum of its lines.
#[derive(Debug, Default)]
pub(crate) struct EntryCount {
    /// Read by all: it must not go with each change.
    owner: AtomicU8,
    others: OnceLock<Box<[Line; STRIPES]>>,
    owners: Line,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicI64);

impl EntryCount {
    pub(crate) fn new(entries: u64) -> EntryCount {
        EntryCount { owners: Line(AtomicI64::new(entries as i64)), ..EntryCount::default() }
    }

    pub(crate) fn add(&self, change: i64) {
        self.line(stripe()).0.fetch_add(change, Ordering::Relaxed);
    }

    /// The line of the threads with this number.
    fn line(&self, stripe: usize) -> &Line {
        // The line is theirs for ever, so that no order is needed.
        let mine = stripe as u8 + 1;
        let owner = match self.owner.load(Ordering::Relaxed) {
            0 => self.claim(mine),
            owner => owner,
        };
        if owner == mine { &self.owners } else { &self.others.get_or_init(Box::default)[stripe] }
    }

    #[cold]
    fn claim(&self, mine: u8) -> u8 {
        let claimed = self.owner.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed);
        claimed.map_or_else(|owner| owner, |_| mine)
    }

    pub(crate) fn get(&self) -> u64 {
        let others = self.others.get().into_iter().flat_map(|lines| lines.iter());
        let lines = others.chain([&self.owners]);
        let sum: i64 = lines.map(|line| line.0.load(Ordering::Relaxed)).sum();
        sum.max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_add_up_and_come_with_the_second_thread() {
        let count = EntryCount::new(7);
        let add = |stripe, change| count.line(stripe).0.fetch_add(change, Ordering::Relaxed);
        (0..3).for_each(|_| _ = add(5, 1));
        assert_eq!((count.get(), count.others.get().is_none()), (10, true));
        (0..STRIPES).for_each(|stripe| _ = add(stripe, 2));
        assert_eq!((count.get(), count.others.get().is_none()), (10 + 32, false));
        (0..STRIPES).for_each(|stripe| _ = add(stripe, -100));
        assert_eq!(count.get(), 0);
    }
}
