//! Where threads sleep until a page has come from the device.
//!
//! A small fixed number of mutexes with condition variables, chosen by the address of the state
//! word. No wake-up is lost: the sleeper asks for it (marks the word *awaited*) and begins to wait
//! under the mutex, and the waker, which has seen that mark in the word that it replaced, takes
//! the same mutex before it wakes.

use crate::sync::{Condvar, Mutex, lock};

#[cfg(not(loom))]
const BUCKETS: usize = 64;
#[cfg(loom)]
const BUCKETS: usize = 1;

/// Where the readers of pages in flight sleep.
#[derive(Debug)]
pub struct ParkingLot {
    buckets: Vec<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    mutex: Mutex<()>,
    condition: Condvar,
}

impl Default for ParkingLot {
    fn default() -> ParkingLot {
        ParkingLot::new()
    }
}

impl ParkingLot {
    /// A lot where nobody sleeps.
    pub fn new() -> ParkingLot {
        let bucket = |_| Bucket { mutex: Mutex::new(()), condition: Condvar::new() };
        ParkingLot { buckets: (0..BUCKETS).map(bucket).collect() }
    }

    fn bucket(&self, address: usize) -> &Bucket {
        let hash = (address >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.buckets[hash % self.buckets.len()]
    }

    /// Sleeps as long as `must_sleep`, which is asked under the mutex, says so.
    pub(crate) fn sleep(&self, address: usize, must_sleep: impl Fn() -> bool) {
        let bucket = self.bucket(address);
        let mut guard = lock(&bucket.mutex);
        while must_sleep() {
            guard = bucket.condition.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Wakes all threads that sleep at this address (and some others, which look and go on
    /// sleeping).
    pub(crate) fn wake(&self, address: usize) {
        let bucket = self.bucket(address);
        drop(lock(&bucket.mutex));
        bucket.condition.notify_all();
    }
}
