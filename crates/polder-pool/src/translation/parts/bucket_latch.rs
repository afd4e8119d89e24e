//! How the chain behind a bucket, or a partition of a table, is kept consistent: by readers that
//! count themselves in, or by a version that they look at twice.

use std::fmt::Debug;

use crate::sync::Backoff;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// How a bucket's chain is kept consistent.
pub trait BucketLatch: Debug + Default + Send + Sync + 'static {
    /// Begins reading; waits while the chain is being changed.
    fn begin(&self) -> u64;
    /// Whether the chain is still as it was when `seen` was given.
    fn holds(&self, seen: u64) -> bool;
    /// Ends reading; whether all that was read is one state of the chain.
    fn end(&self, seen: u64) -> bool;
    /// Begins changing; waits for others.
    fn lock(&self);
    /// Ends changing.
    fn unlock(&self);
}

/// Readers count themselves in: the read-write spin latch of the traditional pool.
#[derive(Debug, Default)]
pub struct SpinLatch(AtomicU32);

/// Bit of the thread that changes the chain, above the count of readers.
const CHANGING: u32 = 1 << 31;

impl BucketLatch for SpinLatch {
    #[inline(always)]
    fn begin(&self) -> u64 {
        let mut backoff = Backoff::new();
        // Acquire pairs with the Release of `unlock`.
        while self.0.fetch_add(1, Ordering::Acquire) & CHANGING != 0 {
            self.0.fetch_sub(1, Ordering::Relaxed);
            while {
                backoff.wait();
                self.0.load(Ordering::Relaxed) & CHANGING != 0
            } {}
        }
        0
    }

    #[inline(always)]
    fn holds(&self, _: u64) -> bool {
        true
    }

    /// Release pairs with the Acquire of `lock`: what was read stays before what changes.
    #[inline(always)]
    fn end(&self, _: u64) -> bool {
        self.0.fetch_sub(1, Ordering::Release);
        true
    }

    /// Readers that come now go away again; those that are there are waited for.
    fn lock(&self) {
        let mut backoff = Backoff::new();
        while self.0.fetch_or(CHANGING, Ordering::Acquire) & CHANGING != 0 {
            backoff.wait();
        }
        while self.0.load(Ordering::Acquire) != CHANGING {
            backoff.wait();
        }
    }

    fn unlock(&self) {
        self.0.fetch_and(!CHANGING, Ordering::Release);
    }
}

/// Readers store nothing: the version is odd while the chain is being changed, and they look at it
/// before and after (predictive-2026 4.2). 64 bits do not come round.
#[derive(Debug, Default)]
pub struct VersionLatch(AtomicU64);

impl BucketLatch for VersionLatch {
    /// Acquire pairs with the Release of `unlock`.
    #[inline(always)]
    fn begin(&self) -> u64 {
        let seen = self.0.load(Ordering::Acquire);
        if seen & 1 == 0 { seen } else { self.await_even() }
    }

    #[inline(always)]
    fn holds(&self, seen: u64) -> bool {
        self.end(seen)
    }

    /// The fence keeps what was read before the second look; it pairs with the one in `lock`.
    #[inline(always)]
    fn end(&self, seen: u64) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == seen
    }

    fn lock(&self) {
        let mut backoff = Backoff::new();
        while self.0.fetch_or(1, Ordering::Acquire) & 1 != 0 {
            backoff.wait();
        }
        // The odd version is visible before any change: an Acquire alone would let changes
        // overtake it.
        fence(Ordering::Release);
    }

    fn unlock(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl VersionLatch {
    #[cold]
    fn await_even(&self) -> u64 {
        let mut backoff = Backoff::new();
        loop {
            backoff.wait();
            let seen = self.0.load(Ordering::Acquire);
            if seen & 1 == 0 {
                return seen;
            }
        }
    }
}

/// A bucket locked; unlocks when it goes.
pub(crate) struct Locked<'a, L: BucketLatch>(&'a L);

impl<'a, L: BucketLatch> Locked<'a, L> {
    pub(crate) fn new(latch: &'a L) -> Locked<'a, L> {
        latch.lock();
        Locked(latch)
    }
}

impl<L: BucketLatch> Drop for Locked<'_, L> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}
