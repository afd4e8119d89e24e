//! What a table keeps of one space: everything else is in the table.

#![cfg(not(loom))]

use polder_format::{PageId, PageNo, SpaceId};

use crate::sync::atomic::{AtomicU64, Ordering};

/// What is known of one space, and what a design keeps beside it.
/// Its count changes with each page that comes or goes: not beside what others read.
#[derive(Debug)]
#[repr(align(64))]
pub struct TableDirectory<B = ()> {
    pub(crate) space: SpaceId,
    /// Pages that have an entry, or are about to.
    present: AtomicU64,
    pub(crate) beside: B,
}

impl<B: Default> TableDirectory<B> {
    /// Of a space without pages.
    pub(crate) fn new(space: SpaceId) -> TableDirectory<B> {
        TableDirectory { space, present: AtomicU64::new(0), beside: B::default() }
    }

    #[inline(always)]
    pub(crate) fn id(&self, page: PageNo) -> PageId {
        PageId::new(self.space, page)
    }

    /// A page is about to have an entry. SeqCst: before the entry, so that `present` misses none.
    pub(crate) fn enter(&self) {
        self.present.fetch_add(1, Ordering::SeqCst);
    }

    /// A page has no entry any more, or did not get one.
    pub(crate) fn leave(&self) {
        self.present.fetch_sub(1, Ordering::SeqCst);
    }

    /// How many pages have an entry, or are about to.
    pub(crate) fn present(&self) -> u64 {
        self.present.load(Ordering::SeqCst)
    }
}
