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

use polder_format::{PageId, PageNo, SpaceId};

use super::super::guess::Guess;
use super::{ArrayDirectory, Arrays, Chunk, FIRST};
use crate::error::PoolError;
use crate::frames::Frames;
use crate::memory::OS_PAGE_BYTES;
use crate::state::{StateCell, StateWord};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::translation::chain::{Entry, VersionLatch};
use crate::translation::chained::ChainTable;
use crate::translation::chunks::chunk_first;
use crate::translation::group::{LockedGroup, Words};
use crate::translation::page_hash::PageHash;

/// Groups that a load under pressure looks at to find one that can go to the table.
const LOOKED_AT: u64 = 16;

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

impl<G: Guess> Arrays<G> {
    /// The pages of an entry's group, with their words in the array.
    pub(super) fn group_of(
        chunk: &Chunk,
        entry: u64,
    ) -> impl Iterator<Item = (PageNo, &StateCell)> {
        let first = entry - entry % chunk.group_len;
        let number = chunk_first(FIRST, chunk.k);
        (first..first + chunk.group_len)
            .filter_map(move |at| Some((PageNo::new(number + at)?, chunk.cell(at))))
    }

    /// Moves a sparse group of the chunk to the table, the next one from where the last was found:
    /// groups in which nothing comes or goes would stay for ever. Called under pressure, beside the
    /// loading of a page.
    #[cold]
    pub(super) fn relieve(&self, frames: &Frames, directory: &ArrayDirectory, chunk: &Chunk) {
        let groups = chunk.entries / chunk.group_len;
        let from = chunk.hand.fetch_add(LOOKED_AT, Ordering::Relaxed);
        for at in from..from + LOOKED_AT {
            let entry = at % groups * chunk.group_len;
            let group = chunk.group(entry);
            if (1..=self.sparse_below).contains(&group.in_array()) {
                let group = &mut group.lock();
                if chunk.is_of(directory)
                    && group.array > 0
                    && group.array + group.sparse <= self.sparse_below
                {
                    let words = GroupWords::new(self, directory, (chunk, entry), Some(frames));
                    return self.scatter(&words, group);
                }
            }
        }
    }
}

/// The words of one group's pages.
pub(super) struct GroupWords<'a, 'f, G: Guess> {
    arrays: &'a Arrays<G>,
    directory: &'a ArrayDirectory,
    chunk: &'a Chunk,
    /// An entry of the group.
    entry: u64,
    /// None where no word will be moved.
    frames: Option<&'f Frames>,
}

impl<'a, 'f, G: Guess> GroupWords<'a, 'f, G> {
    pub(super) fn new(
        arrays: &'a Arrays<G>,
        directory: &'a ArrayDirectory,
        (chunk, entry): (&'a Chunk, u64),
        frames: Option<&'f Frames>,
    ) -> GroupWords<'a, 'f, G> {
        GroupWords { arrays, directory, chunk, entry, frames }
    }

    fn pages(&self) -> impl Iterator<Item = PageNo> {
        Arrays::<G>::group_of(self.chunk, self.entry).map(|(page, _)| page)
    }

    fn id(&self, page: PageNo) -> PageId {
        self.directory.id(page)
    }
}

impl<'a, G: Guess> Words<'a> for GroupWords<'a, '_, G> {
    type Page = PageNo;

    fn in_array(&self, page: PageNo) -> &'a StateCell {
        self.chunk.cell(page.get() - chunk_first(FIRST, self.chunk.k))
    }

    fn in_table(&self, page: PageNo) -> Option<&'a StateCell> {
        self.arrays.sparse.find(self.id(page)).map(|(word, _)| word)
    }

    fn claim_in_table(&self, page: PageNo) -> Option<&'a StateCell> {
        self.arrays.sparse.claim(self.id(page))
    }

    fn receive_in_table(&self, page: PageNo, held: StateWord) -> Option<&'a StateCell> {
        self.arrays.sparse.receive(self.id(page), held)
    }

    fn remove_from_table(&self, page: PageNo, end: impl FnOnce(&StateCell)) {
        self.arrays.sparse.remove(self.id(page), end);
    }

    fn seize(&self, cell: &StateCell) -> Option<StateWord> {
        let word = cell.read();
        let frames = self.frames?;
        let held = word.is_free().then(|| cell.upgrade(word)).flatten()?;
        if frames.meta(held.frame()).is_pinned() {
            cell.put_back(held);
            return None;
        }
        Some(held)
    }

    fn begin_array(&self) {
        self.arrays.live_groups.fetch_add(1, Ordering::Relaxed);
        self.chunk.note_page_table(self.entry);
    }

    fn end_array(&self) {
        self.arrays.punch(self.chunk.cell(self.entry));
    }
}

impl<G: Guess> Arrays<G> {
    /// Moves words of a group that got dense to the array.
    #[cold]
    pub(super) fn gather(&self, words: &GroupWords<'_, '_, G>, group: &mut LockedGroup<'_>) {
        self.moved.fetch_add(group.gather(words, words.pages()), Ordering::Relaxed);
    }

    /// Moves words of a group that got sparse to the table.
    #[cold]
    pub(super) fn scatter(&self, words: &GroupWords<'_, '_, G>, group: &mut LockedGroup<'_>) {
        words.directory.has_sparse.store(true, Ordering::SeqCst);
        self.moved.fetch_add(group.scatter(words, words.pages()), Ordering::Relaxed);
    }
}
