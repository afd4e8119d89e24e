//! The extent-move gate, between write-backs and an extent that moves while the file is made
//! shorter.

#![cfg(not(loom))]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use polder_format::PhysicalPageNo;

use crate::sync::lock;

/// The extent that moves, if there is one.
#[derive(Debug, Default)]
pub(crate) struct ExtentMoves(RwLock<Option<Arc<Moving>>>);

impl ExtentMoves {
    /// Held by a write-back from W2 to W7: the extent does not move meanwhile.
    pub(crate) fn enter(&self) -> RwLockReadGuard<'_, Option<Arc<Moving>>> {
        self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits until no write-back is under way, and holds up those to come: to announce an extent, and
    /// to switch it to its new physical page numbers (M3).
    pub(crate) fn close(&self) -> RwLockWriteGuard<'_, Option<Arc<Moving>>> {
        self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// An extent that is being moved: which of its pages were written at its old physical page
/// numbers.
#[derive(Debug)]
pub(crate) struct Moving {
    pub(crate) from: PhysicalPageNo,
    pub(crate) pages: u64,
    pub(crate) noted: Mutex<BTreeSet<u64>>,
}

impl Moving {
    /// A page was written to `physical`. Called while the extent-move gate is held shared, after
    /// the write.
    pub(crate) fn note(&self, physical: PhysicalPageNo) {
        if let Some(page) = physical.get().checked_sub(self.from.get()).filter(|p| *p < self.pages)
        {
            lock(&self.noted).insert(page);
        }
    }
}
