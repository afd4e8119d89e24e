//! The counter of a group of 512 translation entries (one 4 KiB page of them), by which a group
//! without pages is found and its memory given back.
//!
//! `docs/protocols.md`, "Group counter"; calico.txt 4.3 and 4.4, with its hole mended: the count
//! rises *before* an entry is claimed and falls after it is zero again (`POOL-6`).

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Backoff, seq_cst_under_loom};

const PUNCHING: u32 = 1 << 31;

/// Entries not zero, or about to be. Zeroed memory is a valid counter.
#[derive(Debug)]
#[repr(transparent)]
pub struct GroupCounter(AtomicU32);

impl Default for GroupCounter {
    fn default() -> GroupCounter {
        GroupCounter::new()
    }
}

impl GroupCounter {
    /// An empty group.
    pub fn new() -> GroupCounter {
        GroupCounter(AtomicU32::new(0))
    }

    /// How many are counted.
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst) & !PUNCHING
    }

    /// One more, before its entry is claimed; waits while the group is being punched. True if the
    /// group was empty. Acquire pairs with the Release that ends a punch.
    pub fn enter(&self) -> bool {
        let mut backoff = Backoff::new();
        loop {
            let now = self.0.load(Ordering::Relaxed);
            if now & PUNCHING != 0 {
                backoff.wait();
            } else if self
                .0
                .compare_exchange_weak(now, now + 1, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
            {
                seq_cst_under_loom();
                return now == 0;
            }
        }
    }

    /// One less, after its entry is zero. If none is left, and none comes before we have the
    /// group, calls `punch`. Release: the zero is there before the count falls; the Acquire of the
    /// one who punches pairs with it.
    pub fn leave(&self, punch: impl FnOnce()) {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert_ne!(before & !PUNCHING, 0, "POOL-6");
        if before == 1
            && self.0.compare_exchange(0, PUNCHING, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            punch();
            self.0.store(0, Ordering::Release);
        }
    }
}
