//! The table in which the words of sparse groups lie, of all spaces.

#![cfg(not(loom))]

use polder_format::{PageId, PageNo, SpaceId};

use crate::error::PoolError;
use crate::latch::{StateCell, StateWord};
use crate::machine::OS_PAGE_BYTES;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::translation::parts::bucket_latch::VersionLatch;
use crate::translation::parts::chain::Entry;
use crate::translation::parts::chain_table::ChainTable;
use crate::translation::parts::page_hash::PageHash;

/// The words of sparse groups, of all spaces.
#[derive(Debug)]
pub(super) struct SparseTable {
    table: ChainTable<VersionLatch, Entry>,
    /// Entries now, and the most that there were.
    entries: AtomicU64,
    most: AtomicU64,
}

impl SparseTable {
    /// One bucket for each frame: all pages may be scattered.
    pub(super) fn new(frames: u32) -> Result<SparseTable, PoolError> {
        let table = ChainTable::new(frames, frames)?;
        table.prefer_small_pages();
        Ok(SparseTable { table, entries: AtomicU64::new(0), most: AtomicU64::new(0) })
    }

    #[inline(always)]
    pub(super) fn find(&self, page: PageId) -> Option<(&StateCell, StateWord)> {
        self.table.find(PageHash::of(page), page)
    }

    /// `None` if the page has an entry.
    pub(super) fn claim(&self, page: PageId) -> Option<&StateCell> {
        self.count(self.table.enter(page))
    }

    /// Takes a page out; `end` makes its word 0.
    pub(super) fn remove(&self, page: PageId, end: impl FnOnce(&StateCell)) {
        self.table.take_out(page, end);
        self.entries.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn for_each_present(&self, space: SpaceId, visit: &mut dyn FnMut(PageNo)) {
        self.table.for_each_in(space, visit);
    }

    /// An entry for a word that is moving here from the array, which its holder has exclusively.
    pub(super) fn receive(&self, page: PageId, held: StateWord) -> Option<&StateCell> {
        self.count(self.table.receive(page, held))
    }

    /// Memory: buckets that were ever touched, each of which is taken to lie in a page of the
    /// kernel's of its own until all are, and slots in use.
    pub(super) fn bytes(&self) -> u64 {
        let (buckets, slots) = self.table.bytes();
        buckets.min(self.most.load(Ordering::Relaxed) * OS_PAGE_BYTES as u64) + slots
    }

    fn count<'a>(&self, entered: Option<&'a StateCell>) -> Option<&'a StateCell> {
        if entered.is_some() {
            let entries = self.entries.fetch_add(1, Ordering::Relaxed) + 1;
            if entries > self.most.load(Ordering::Relaxed) {
                self.most.fetch_max(entries, Ordering::Relaxed);
            }
        }
        entered
    }
}
