//! Where the words of a group lie: in the array, or in a small table while few of its pages are
//! resident.
//!
//! A page of the array holds the words of 512 pages. Where only a few of those are resident the
//! array takes as much memory for one word as for 512 (calico-2026 4.3 leaves this open). So while
//! the array takes more than seven eighths of what the budget has set aside for it, words of pages
//! that come into an empty or sparse group go to a chained table, where each takes 32 to 64 bytes; a
//! group that gets dense (64 words) moves to the array. While it takes more than all of that, one that
//! gets sparse (48) moves to the table when something leaves it, or when a load comes by, and is punched
//! out.
//!
//! A reader looks into the array first, and into the table only if it finds zero there. Words move
//! under the group's lock, held exclusively, and stand in their new place before they go from the
//! old one. So a thread that looks with the group's lock finds a resident page; one that looks
//! without it may miss a page that is just moving, and finds it with the lock when it wants to
//! load it. Write-back, moving an extent and dropping a space, which must not miss a page, look
//! with the lock as well.
//!
//! * `ARRAY-2` A group is punched only by the holder of its lock, while no entry is nonzero
//!   (`POOL-6`).
//! * `ARRAY-3` A page's word is in the array or in the table for sparse groups; in both only while
//!   it moves, held exclusively, under its group's lock.

#![cfg(not(loom))]

use std::ptr;
use std::sync::Mutex;

use polder_format::{PageId, PageNo, SpaceId};

use super::chunk::{ArrayDirectory, CHUNKS, Chunk, Chunks, FIRST};
use super::group::{self, Group, LockedGroup};
use super::sparse::SparseTable;
use crate::error::PoolError;
use crate::latch::{FrameId, Latches, StateCell, StateWord};
use crate::machine::{OS_PAGE_BYTES, kernel_page_bytes, madvise};
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::lock;
use crate::translation::parts::chunks::chunk_first;
use crate::translation::seam::{Footprint, TranslationConfig, Words};

/// Groups that a load under pressure looks at to find one that can go to the table.
const LOOKED_AT: u64 = 16;

/// What the budget sets aside for a frame: six words, for one resident page in six neighbours; or
/// for all words in the table.
pub(super) const BYTES_PER_FRAME: u64 = 6 * size_of::<StateCell>() as u64;
/// Pages of a group from which on it belongs in the array even if that takes more than its share:
/// 64 bytes a page, as much as an entry in a table.
pub(super) const DENSE: u32 = 64;
/// And from which on it goes back to the table. Lower, so that a group does not go to and fro.
const SPARSE: u32 = 48;

/// The state words of all spaces, in arrays and in the table for sparse groups.
#[derive(Debug)]
pub struct ArrayWords {
    /// Bytes of a group of entries: what the kernel backs, and takes back, in one piece.
    group_bytes: usize,
    pub(super) sparse: SparseTable,
    /// Words of a group from which on it belongs in the array whatever that takes, and up to which
    /// it goes back: `DENSE` and `SPARSE` for groups of 512.
    dense: u32,
    sparse_below: u32,
    /// What words may take before sparse groups go to the table.
    share_bytes: u64,
    chunks: Mutex<Chunks>,
    /// Groups that are backed by memory.
    live_groups: AtomicU64,
    hole_punches: AtomicU64,
    /// Words that moved between the array and the table.
    pub(super) moved: AtomicU64,
}

impl ArrayWords {
    /// For so many frames.
    pub(super) fn new(config: TranslationConfig) -> Result<ArrayWords, PoolError> {
        Ok(ArrayWords {
            sparse: SparseTable::new(config.frames)?,
            dense: DENSE * (kernel_page_bytes() / OS_PAGE_BYTES) as u32,
            sparse_below: SPARSE * (kernel_page_bytes() / OS_PAGE_BYTES) as u32,
            share_bytes: u64::from(config.frames) * BYTES_PER_FRAME,
            group_bytes: kernel_page_bytes(),
            chunks: Mutex::default(),
            live_groups: AtomicU64::new(0),
            hole_punches: AtomicU64::new(0),
            moved: AtomicU64::new(0),
        })
    }

    /// The word of a page in the table, if it has one there.
    pub(super) fn find_sparse(
        &self,
        directory: &ArrayDirectory,
        page: PageNo,
    ) -> Option<(&StateCell, StateWord)> {
        if !directory.has_sparse.load(Ordering::Relaxed) {
            return None;
        }
        self.sparse.find(directory.id(page))
    }

    /// Memory of words: groups of the array, and the table.
    fn word_bytes(&self) -> u64 {
        self.live_groups.load(Ordering::Relaxed) * self.group_bytes as u64 + self.sparse.bytes()
    }

    /// Whether words take more memory than their share.
    fn is_pressed(&self) -> bool {
        self.word_bytes() > self.share_bytes
    }

    /// Whether a sparse group may be in the array: clearly below the share. Else the one that has gone
    /// to the table last would make room for another to come, and each load would move a group.
    fn has_room(&self) -> bool {
        self.word_bytes() <= self.share_bytes - self.share_bytes / 8
    }

    /// Gives the memory of the group of this entry back.
    fn punch(&self, cell: &StateCell) {
        let base = ptr::from_ref(cell).map_addr(|at| at & !(self.group_bytes - 1));
        // SAFETY: the group of this cell: entries that are all zero and stay so while we have the
        // lock (ARRAY-2), and just what the kernel takes back in one piece. Readers find zeros
        // before and after.
        let punched =
            unsafe { madvise(base.cast_mut().cast(), self.group_bytes, libc::MADV_DONTNEED) };
        self.live_groups.fetch_sub(1, Ordering::Relaxed);
        if punched.is_ok() {
            self.hole_punches.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Moves a sparse group of the chunk to the table, the next one from where the last was found:
    /// groups in which nothing comes or goes would stay for ever. Called under pressure, beside the
    /// loading of a page.
    #[cold]
    fn relieve(&self, latches: &Latches, directory: &ArrayDirectory, chunk: &Chunk) {
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
                    let words = GroupWords { arrays: self, directory, chunk, entry, latches };
                    return self.scatter(&words, group);
                }
            }
        }
    }

    /// Moves words of a group that got dense to the array.
    #[cold]
    fn gather(&self, words: &GroupWords<'_, '_>, group: &mut LockedGroup<'_>) {
        self.moved.fetch_add(group.gather(words, words.pages()), Ordering::Relaxed);
    }

    /// Moves words of a group that got sparse to the table.
    #[cold]
    fn scatter(&self, words: &GroupWords<'_, '_>, group: &mut LockedGroup<'_>) {
        words.directory.has_sparse.store(true, Ordering::SeqCst);
        self.moved.fetch_add(group.scatter(words, words.pages()), Ordering::Relaxed);
    }
}

impl Words for ArrayWords {
    type Directory = ArrayDirectory;

    fn bytes_per_frame() -> u64 {
        BYTES_PER_FRAME
    }

    fn open(&self, space: SpaceId) -> ArrayDirectory {
        ArrayDirectory::new(space)
    }

    fn close(&self, directory: &ArrayDirectory) {
        directory.close(&self.chunks);
    }

    fn make_room(&self, directory: &ArrayDirectory, page: PageNo) -> Result<(), PoolError> {
        match directory.cell(page) {
            Some(_) => Ok(()),
            None => directory.make_room(&self.chunks, page, self.group_bytes),
        }
    }

    fn state<'p>(&'p self, directory: &'p ArrayDirectory, page: PageNo) -> Option<&'p StateCell> {
        // Behind a flag that somebody set: `Words` says why.
        fence(Ordering::SeqCst);
        let (chunk, entry) = directory.chunk(page)?;
        let cell = chunk.cell(entry);
        if !cell.read_after_flag().is_evicted() {
            return Some(cell);
        }
        if !directory.has_sparse.load(Ordering::SeqCst) {
            return None;
        }
        // With the lock, so that a word that moves is not missed.
        let _locked = chunk.group(entry).lock();
        if !cell.read_after_flag().is_evicted() {
            return Some(cell);
        }
        Some(self.sparse.find(directory.id(page))?.0)
    }

    fn claim<'p>(
        &'p self,
        latches: &Latches,
        directory: &'p ArrayDirectory,
        page: PageNo,
        _: FrameId,
    ) -> Result<Option<&'p StateCell>, PoolError> {
        let Some((chunk, entry)) = directory.chunk(page) else {
            return Err(PoolError::Dropped { space: directory.space });
        };
        if self.is_pressed() {
            self.relieve(latches, directory, chunk);
        }
        let words = GroupWords { arrays: self, directory, chunk, entry, latches };
        let group = &mut chunk.group(entry).lock();
        if !chunk.is_of(directory) {
            return Err(PoolError::Dropped { space: directory.space });
        }
        if group.has(&words, page) {
            return Ok(None);
        }
        let total = group.array + group.sparse;
        if group.array == 0 && total < self.dense && !self.has_room() {
            directory.has_sparse.store(true, Ordering::SeqCst);
            return Ok(group.claim_in_table(&words, page));
        }
        if group.sparse > 0 && (group.array == 0 || total.is_multiple_of(16)) {
            self.gather(&words, group);
        }
        Ok(group.claim_in_array(&words, page))
    }

    fn remove(
        &self,
        latches: &Latches,
        directory: &ArrayDirectory,
        page: PageNo,
        _: FrameId,
        end: impl FnOnce(&StateCell),
    ) {
        let Some((chunk, entry)) = directory.chunk(page) else { return };
        let words = GroupWords { arrays: self, directory, chunk, entry, latches };
        let group = &mut chunk.group(entry).lock();
        group.take_out(&words, page, end);
        // Not each time: what is held or pinned stays, and is looked at again for nothing.
        let total = group.array + group.sparse;
        if group.array > 0
            && total <= self.sparse_below
            && (total < 8 || total.is_multiple_of(8))
            && self.is_pressed()
        {
            self.scatter(&words, group);
        }
    }

    /// Moves no word: the chunk may be another space's by now.
    fn abandon(
        &self,
        latches: &Latches,
        directory: &ArrayDirectory,
        page: PageNo,
        _: FrameId,
        (_, end): (&StateCell, impl FnOnce(&StateCell)),
    ) {
        if let Some((chunk, entry)) = directory.claimed(page) {
            let words = GroupWords { arrays: self, directory, chunk, entry, latches };
            chunk.group(entry).lock().take_out(&words, page, end);
        }
    }

    fn for_each_present(&self, directory: &ArrayDirectory, visit: &mut dyn FnMut(PageNo)) {
        for chunk in (0..CHUNKS).filter_map(|k| directory.chunk_at(k)) {
            for group in chunk.groups().filter(|group| chunk.group(*group).in_array() > 0) {
                for (page, cell) in chunk.group_of(group) {
                    if !cell.read_after_flag().is_evicted() {
                        visit(page);
                    }
                }
            }
        }
        if directory.has_sparse.load(Ordering::SeqCst) {
            self.sparse.for_each_present(directory.space, visit);
        }
    }

    fn present(&self, directory: &ArrayDirectory) -> u64 {
        fence(Ordering::SeqCst);
        let chunks = (0..CHUNKS).filter_map(|k| directory.chunk_at(k));
        let counts = chunks
            .flat_map(|chunk| chunk.groups().map(|entry| u64::from(chunk.group(entry).count())));
        counts.sum()
    }

    fn footprint(&self) -> Footprint {
        let chunks = lock(&self.chunks);
        let (mut counters, mut tables) = (0, 0);
        for chunk in chunks.iter() {
            // The counters of a chunk are small and scattered: all of them are taken as touched.
            counters += chunk.entries / chunk.group_len * size_of::<Group>() as u64;
            let touched = chunk.tables.iter();
            tables +=
                touched.map(|t| u64::from(t.load(Ordering::Relaxed).count_ones())).sum::<u64>();
        }
        Footprint {
            translation_bytes: self.word_bytes() + counters,
            page_table_bytes: tables * self.group_bytes as u64,
            hole_punches: self.hole_punches.load(Ordering::Relaxed),
            ..Footprint::default()
        }
    }
}

/// The words of one group's pages.
struct GroupWords<'a, 'f> {
    arrays: &'a ArrayWords,
    directory: &'a ArrayDirectory,
    chunk: &'a Chunk,
    /// An entry of the group.
    entry: u64,
    latches: &'f Latches,
}

impl GroupWords<'_, '_> {
    fn pages(&self) -> impl Iterator<Item = PageNo> {
        self.chunk.group_of(self.entry).map(|(page, _)| page)
    }

    fn id(&self, page: PageNo) -> PageId {
        self.directory.id(page)
    }
}

impl<'a> group::Words<'a> for GroupWords<'a, '_> {
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
        let held = word.is_free().then(|| cell.upgrade(word)).flatten()?;
        if self.latches.meta(held.frame()).is_pinned() {
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
        debug_assert!(
            self.chunk.group_of(self.entry).all(|(_, word)| word.peek().is_evicted()),
            "ARRAY-2: a group goes in which a word is not zero"
        );
        self.arrays.punch(self.chunk.cell(self.entry));
    }
}
