//! Groups with few resident pages, whose words lie in a small table instead of the array.
//!
//! A page of the array holds the words of 512 pages. Where only a few of those are resident the
//! array takes as much memory for one word as for 512 (calico.txt 4.3 leaves this open). So while
//! the array takes more than the budget has set aside for it, words of pages that come into an
//! empty or sparse group go to a chained table, where each takes 32 to 64 bytes; a group that gets
//! dense moves to the array, and one that gets sparse moves to the table, and is punched out.
//!
//! A reader looks into the array first, and into the table only if it finds zero there. Words move
//! under the group's lock, held exclusively, and stand in their new place before they go from the
//! old one. So who looks with the group's lock finds a resident page; who looks without it may miss
//! one that is just moving, and finds it with the lock when it wants to load it.

use crate::sync::atomic::{AtomicU64, Ordering};

use polder_format::{PageId, PageNo, SpaceId};

use crate::error::PoolError;
use crate::frames::Frames;
use crate::memory::OS_PAGE_BYTES;
use crate::state::{StateCell, StateWord};
use crate::translation::chain::{Entry, VersionLatch};
use crate::translation::chained::ChainTable;
use crate::translation::page_hash::PageHash;

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
        self.table.chains().find(self.table.bucket(PageHash::of(page)), page)
    }

    /// `None` if the page has an entry.
    pub(super) fn claim(&self, page: PageId) -> Option<&StateCell> {
        self.count(self.table.chains().claim(self.table.bucket(PageHash::of(page)), page))
    }

    /// Takes a page out; `end` makes its word 0.
    pub(super) fn remove(&self, page: PageId, end: impl FnOnce(&StateCell)) {
        self.table.chains().remove(self.table.bucket(PageHash::of(page)), page, end);
        self.entries.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn for_each_present(&self, space: SpaceId, visit: &mut dyn FnMut(PageNo)) {
        self.table.for_each_present(space, visit);
    }

    /// An entry for a word that is moving here from the array, which its holder has exclusively.
    pub(super) fn receive(&self, page: PageId, held: StateWord) -> Option<&StateCell> {
        self.count(self.table.chains().receive(self.table.bucket(PageHash::of(page)), page, held))
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

/// Takes a word exclusively to move it, if nobody holds it and no pin names its page: who made the
/// page comes back to the very word.
pub(super) fn seize(cell: &StateCell, frames: &Frames) -> Option<StateWord> {
    let word = cell.read();
    let held = word.is_free().then(|| cell.upgrade(word)).flatten()?;
    if frames.meta(held.frame()).is_pinned() {
        cell.put_back(held);
        return None;
    }
    Some(held)
}
