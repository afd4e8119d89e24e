//! Version words for records: a number that no other write of this store ever had.
//!
//! Threads take numbers in blocks, so that writers share nothing. Numbers are unique, not in the
//! order of writes.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers that a thread takes at a time.
const BLOCK: u64 = 1024;

/// Where a store's version words come from.
#[derive(Debug)]
pub(crate) struct Stamps {
    id: u64,
    next: AtomicU64,
}

/// Stores that a thread can write in turn without giving up what is left of its blocks, if they were
/// opened one after the other.
const STORES: usize = 8;

thread_local! {
    /// A store whose block this thread has, the next number and the end of the block, by the store's id.
    static BLOCKS_LEFT: [Cell<(u64, u64, u64)>; STORES] = const { [const { Cell::new((0, 0, 0)) }; STORES] };
}

impl Stamps {
    /// Numbers from `next` on are unused.
    pub(crate) fn new(next: u64) -> Stamps {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        Stamps { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), next: AtomicU64::new(next) }
    }

    /// The numbers of a later incarnation of a store, whose log tells that those below `next` were
    /// used. It does not tell of all: of those in a bulk load, or in what a crash cut off.
    pub(crate) fn of_life(incarnation: u32, next: u64) -> Stamps {
        Stamps::new(next.max(u64::from(incarnation) << 32))
    }

    /// A number that was never given out.
    pub(crate) fn take(&self) -> u64 {
        BLOCKS_LEFT.with(|left| {
            let left = &left[self.id as usize % STORES];
            let (id, next, end) = left.get();
            if id == self.id && next < end {
                left.set((id, next + 1, end));
                return next;
            }
            let first = self.next.fetch_add(BLOCK, Ordering::Relaxed);
            left.set((self.id, first + 1, first + BLOCK));
            first
        })
    }

    /// Numbers from here on are unused.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_comes_twice() {
        let (a, b) = (Stamps::new(1), Stamps::new(1));
        let mut seen = std::collections::HashSet::new();
        for i in 0..5000 {
            assert!(seen.insert(a.take()));
            if i % 10 == 0 {
                b.take();
            }
        }
        assert!(seen.iter().all(|n| *n < a.next()));
    }

    /// There are no more than 2^32 numbers for one life of a store.
    #[test]
    fn stores_that_are_written_in_turn_waste_no_numbers() {
        // Ids that no store of another test has.
        let ids = (1 << 40..).take(STORES);
        let stores: Vec<Stamps> = ids.map(|id| Stamps { id, next: AtomicU64::new(1) }).collect();
        for _ in 0..3000 {
            stores.iter().for_each(|store| _ = store.take());
        }
        stores.iter().for_each(|store| assert!(store.next() <= 1 + 3 * BLOCK));
    }
}
