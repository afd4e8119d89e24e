//! A group of 512 translation entries (one 4 KiB page of them): where the state words of its pages
//! lie, and how many there are.
//!
//! `docs/protocols.md`, "Groups of the array"; calico.txt 4.3 and 4.4. What comes and goes in a
//! group does so under its lock, which is held for a moment beside a read from the device. So the
//! hole of the paper is closed by construction: a group is given back to the kernel under the lock
//! that a claim needs, and only if no word in it is not zero (`POOL-6`).

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Backoff, seq_cst_under_loom};

const LOCKED: u32 = 1 << 31;
const COUNT: u32 = (1 << 15) - 1;
const SPARSE: u32 = 15;

/// How many words of a group are not zero, and a lock. Zeroed memory is an empty group.
///
/// `POOL-6`: while nobody has the lock, the counts are those of the words that are not zero: in
/// the array, and in the table for sparse groups.
#[derive(Debug)]
#[repr(transparent)]
pub struct Group(AtomicU32);

impl Default for Group {
    fn default() -> Group {
        Group::new()
    }
}

impl Group {
    /// An empty group.
    pub fn new() -> Group {
        Group(AtomicU32::new(0))
    }

    /// Whether no page of the group is resident, in flight or about to be. SeqCst: who claims
    /// takes the lock first and looks at *dropped* afterwards; who drops does it the other way.
    pub fn is_empty(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }

    /// How many words of the group are in the array, a moment ago.
    pub fn in_array(&self) -> u32 {
        self.0.load(Ordering::Acquire) & COUNT
    }

    /// Waits for the lock. Acquire pairs with the Release of unlocking.
    pub fn lock(&self) -> LockedGroup<'_> {
        let mut backoff = Backoff::new();
        loop {
            let now = self.0.load(Ordering::Relaxed);
            if now & LOCKED != 0 {
                backoff.wait();
            } else if self
                .0
                .compare_exchange_weak(now, now | LOCKED, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
            {
                seq_cst_under_loom();
                let (array, sparse) = (now & COUNT, now >> SPARSE & COUNT);
                return LockedGroup { group: self, array, sparse };
            }
        }
    }
}

/// A group that nobody else changes. The counts are stored when it goes.
#[derive(Debug)]
pub struct LockedGroup<'a> {
    group: &'a Group,
    /// Words in the array.
    pub array: u32,
    /// Words in the table for sparse groups.
    pub sparse: u32,
}

impl Drop for LockedGroup<'_> {
    fn drop(&mut self) {
        debug_assert!(self.array <= COUNT && self.sparse <= COUNT, "POOL-6");
        self.group.0.store(self.array | self.sparse << SPARSE, Ordering::Release);
    }
}
