//! Counters that cost the hot path nothing: each thread has its own, summed on demand.
//!
//! A thread registers with a pool when it first counts something there, and gives its slot free
//! for others when it ends; what it counted stays. The pool's number is never reused, so that a
//! thread's memory of a slot cannot be taken for one of another pool.

#![cfg(not(loom))]

use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::{Arc, Mutex};

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::lock;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Counter {
    PagesRead,
    Faults,
    Prewarmed,
    FramesTaken,
    FramesNear,
    FramesFar,
    Evictions,
    ForegroundEvictions,
    FrameWaits,
    WriteBacks,
    FailedWrites,
    Restarts,
    Promotions,
    MovedBytes,
    PagesByTable,
    Copies,
    DeviceReads,
    DeviceWrites,
    DeviceReadBytes,
    DeviceWrittenBytes,
    CheckpointPageBytes,
    EvictedPageBytes,
    MapPageBytes,
    SecondTierAccesses,
    ThirdTierAccesses,
    FourthTierAccesses,
    SecondTierLoads,
    ThirdTierLoads,
    FourthTierLoads,
    TierPromotions,
    TierDemotions,
    MigrationNanos,
    TimedLoads,
    LoadNanos,
}

const COUNTERS: usize = Counter::LoadNanos as usize + 1;

/// One thread's counters, alone on its cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Slot {
    counts: [AtomicU64; COUNTERS],
}

impl Default for Slot {
    fn default() -> Slot {
        Slot { counts: [const { AtomicU64::new(0) }; COUNTERS] }
    }
}

impl Slot {
    /// Only the slot's thread adds, so that a load and a store do.
    #[inline(always)]
    fn add(&self, counter: Counter, n: u64) {
        let count = &self.counts[counter as usize];
        count.store(count.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Slots {
    pool: u64,
    list: Mutex<SlotList>,
    /// For threads that are ending and can no longer register: counted with atomic additions.
    late: Slot,
}

#[derive(Debug, Default)]
struct SlotList {
    /// Boxed, so that a thread can keep the address of its own.
    #[allow(clippy::vec_box)]
    all: Vec<Box<Slot>>,
    idle: Vec<usize>,
}

/// All counters of one pool. A clone counts in the same.
#[derive(Debug, Clone)]
pub(crate) struct Counters {
    slots: Arc<Slots>,
}

/// A thread's registrations; ending the thread frees the slots.
struct Registrations(Vec<(Arc<Slots>, usize)>);

impl Drop for Registrations {
    fn drop(&mut self) {
        CURRENT.set((0, ptr::null()));
        for (slots, index) in self.0.drain(..) {
            lock(&slots.list).idle.push(index);
        }
    }
}

thread_local! {
    /// The pool used last, and our slot there.
    static CURRENT: Cell<(u64, *const Slot)> = const { Cell::new((0, ptr::null())) };
    static REGISTRATIONS: RefCell<Registrations> = const { RefCell::new(Registrations(Vec::new())) };
}

impl Counters {
    pub(crate) fn new() -> Counters {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let pool = NEXT.fetch_add(1, Ordering::Relaxed);
        let slots = Slots { pool, list: Mutex::default(), late: Slot::default() };
        Counters { slots: Arc::new(slots) }
    }

    /// Adds to this thread's counter.
    #[inline(always)]
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        let (pool, slot) = CURRENT.get();
        if pool == self.slots.pool {
            // SAFETY: the number is this pool's, whose slots are boxed and live as long as it.
            unsafe { &*slot }.add(counter, n);
        } else {
            self.add_elsewhere(counter, n);
        }
    }

    #[cold]
    fn add_elsewhere(&self, counter: Counter, n: u64) {
        let slot = REGISTRATIONS.try_with(|registrations| {
            let mut registrations = registrations.borrow_mut();
            let known = registrations.0.iter().find(|(slots, _)| Arc::ptr_eq(slots, &self.slots));
            let index = known.map(|(_, index)| *index);
            let mut list = lock(&self.slots.list);
            let index = index.unwrap_or_else(|| {
                let index = list.idle.pop().unwrap_or_else(|| {
                    list.all.push(Box::default());
                    list.all.len() - 1
                });
                // Pools that are gone need no registration any more.
                registrations.0.retain(|(slots, _)| Arc::strong_count(slots) > 1);
                registrations.0.push((Arc::clone(&self.slots), index));
                index
            });
            let slot: *const Slot = &*list.all[index];
            CURRENT.set((self.slots.pool, slot));
            slot
        });
        match slot {
            // SAFETY: a box in our own list.
            Ok(slot) => unsafe { &*slot }.add(counter, n),
            Err(_) => {
                self.slots.late.counts[counter as usize].fetch_add(n, Ordering::Relaxed);
            }
        }
    }

    /// This thread's part of it.
    pub(crate) fn of_this_thread(&self, counter: Counter) -> u64 {
        self.add(counter, 0);
        let (pool, slot) = CURRENT.get();
        // SAFETY: the number is this pool's, whose slots are boxed and live as long as it.
        let slot = (pool == self.slots.pool).then(|| unsafe { &*slot });
        slot.map_or(0, |slot| slot.counts[counter as usize].load(Ordering::Relaxed))
    }

    /// The sum over all threads that are or were.
    pub(crate) fn sum(&self, counter: Counter) -> u64 {
        let list = lock(&self.slots.list);
        let slots = list.all.iter().map(|slot| &**slot).chain([&self.slots.late]);
        slots.map(|slot| slot.counts[counter as usize].load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_by_themselves_and_leave_their_slot() {
        let (a, b) = (Counters::new(), Counters::new());
        for _ in 0..3 {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..100 {
                        a.add(Counter::Faults, 1);
                        b.add(Counter::Faults, 2);
                    }
                });
            });
        }
        assert_eq!((a.sum(Counter::Faults), b.sum(Counter::Faults)), (300, 600));
        assert_eq!(a.sum(Counter::Evictions), 0);
        // Scoped threads may still be ending when the scope is left; most have given their slot.
        assert!(lock(&a.slots.list).all.len() <= 3);
    }
}
