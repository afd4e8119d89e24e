//! Which records there are, while threads insert more.
//!
//! A thread that is about to insert reserves the next number, and acknowledges it when the insert
//! is done. Readers ask for records below [`RecordSpace::readable`], which never passes a record
//! whose insert is still under way.
//!
//! Invariant: before `next` rises above a number that is not inserted yet, the slot of the thread
//! that reserves it holds that number or a lower one. `SeqCst` on both sides: a reader loads
//! `next` first and the slots after it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Nothing is under way in a thread.
const IDLE: u64 = u64::MAX;

/// A slot on a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Slot(AtomicU64);

/// The records of a store.
#[derive(Debug)]
pub(crate) struct RecordSpace {
    next: AtomicU64,
    /// For each thread, a number at or below the one it is inserting, or `IDLE`.
    under_way: Vec<Slot>,
}

impl RecordSpace {
    /// So many records are there; so many threads may insert more.
    pub(crate) fn new(records: u64, threads: usize) -> RecordSpace {
        RecordSpace {
            next: AtomicU64::new(records),
            under_way: (0..threads).map(|_| Slot(AtomicU64::new(IDLE))).collect(),
        }
    }

    /// The number of the record that this thread inserts next.
    pub(crate) fn reserve(&self, thread: usize) -> u64 {
        let slot = &self.under_way[thread].0;
        slot.store(self.next.load(Ordering::SeqCst), Ordering::SeqCst);
        let record = self.next.fetch_add(1, Ordering::SeqCst);
        slot.store(record, Ordering::SeqCst);
        record
    }

    /// The insert of this thread is done.
    pub(crate) fn acknowledge(&self, thread: usize) {
        self.under_way[thread].0.store(IDLE, Ordering::SeqCst);
    }

    /// All records below this number are there.
    pub(crate) fn readable(&self) -> u64 {
        let next = self.next.load(Ordering::SeqCst);
        let slots = self.under_way.iter().map(|slot| slot.0.load(Ordering::SeqCst));
        slots.fold(next, u64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn records_under_way_are_not_readable() {
        let space = RecordSpace::new(10, 2);
        assert_eq!(space.readable(), 10);
        assert_eq!(space.reserve(0), 10);
        assert_eq!(space.reserve(1), 11);
        space.acknowledge(1);
        assert_eq!(space.readable(), 10);
        space.acknowledge(0);
        assert_eq!(space.readable(), 12);
    }

    #[test]
    fn threads_never_read_what_is_not_inserted() {
        const INSERTS: usize = 20_000;
        let space = RecordSpace::new(0, 2);
        let there: Vec<_> = (0..2 * INSERTS).map(|_| Mutex::new(false)).collect();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (space, there) = (&space, &there);
                scope.spawn(move || {
                    for _ in 0..INSERTS {
                        let record = space.reserve(thread);
                        *there[record as usize].lock().unwrap() = true;
                        space.acknowledge(thread);
                        if let Some(last) = space.readable().checked_sub(1) {
                            assert!(*there[last as usize].lock().unwrap());
                        }
                    }
                });
            }
        });
        assert_eq!(space.readable(), 2 * INSERTS as u64);
    }
}
