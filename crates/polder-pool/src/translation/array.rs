//! Array translation (calico.txt, section 4): the page number indexes an array of state words.
//!
//! One load gives frame, version and latch; neighbouring pages have neighbouring words; there is
//! nothing to hash, chase or lock. The array is reserved address space in doubling chunks, backed
//! by memory only where pages are or were resident: the word of an evicted page is zero, and a
//! group of 512 words that are all zero is punched out.
//!
//! The load of the word and then that of the page are two cache misses one behind the other. So a
//! page prefers the frame that its number names (`preferred.rs`), and gets it if it is free when
//! the page is loaded: the processor predicts that the word says so, and begins to load from there
//! at the same time as the word (predictive-translation.txt, section 4, for a hash table). Where
//! that is wrong it costs a mispredicted branch. Pages that lie elsewhere move there in time
//! (`promote.rs`), if they are used often enough. [`ArrayPlain`] does without all of that.
//!
//! * `ARRAY-1` A chunk, once mapped, stays mapped until the pool is dropped (`POOL-2`). When its
//!   space is dropped it serves other spaces; what a stale reader sees there fails to validate
//!   (`POOL-3`).
//! * `ARRAY-2` A group is punched only by the holder of its lock, while no entry is nonzero
//!   (`POOL-6`).
//! * `ARRAY-3` A page's word is in the array or in the table for sparse groups (`sparse.rs`); in
//!   both only while it moves, held exclusively, under its group's lock.

mod sparse;

use std::ptr;
use std::sync::{Arc, Mutex};

use polder_format::{PageId, PageNo, SpaceId};
use rustix::mm::{Advice, madvise};

use super::chunks::{ChunkStore, chunk_count, chunk_first, chunk_len, chunk_of};
use super::group::Group;
use super::guess::{Blind, Guess, Settles};
use super::preferred::{Preference, speculate};
use super::swizzled::Hints;
use super::{Claim, Footprint, Placement};
use super::{Translation, TranslationConfig};
use crate::error::PoolError;
use crate::found::Resolved;
use crate::frames::Frames;
use crate::link::LinkRef;
use crate::memory::{OS_PAGE_BYTES, Reservation, kernel_page_bytes};
use crate::parking::ParkingLot;
use crate::state::{FrameId, StateCell, StateWord};
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};
use crate::sync::lock;
use sparse::{GroupWords, SparseTable};

/// The first chunk has 2^15 entries: 256 KiB of addresses, 128 MiB of data at 4 KiB pages.
const FIRST: u32 = 15;
const CHUNKS: usize = chunk_count(FIRST);
/// What the budget sets aside for a frame: six words, for one resident page in six neighbours; or
/// for all words in the table.
const BYTES_PER_FRAME: u64 = 6 * size_of::<StateCell>() as u64;
/// Pages of a group from which on it belongs in the array even if that takes more than its share:
/// 64 bytes a page, as much as an entry in a table.
const DENSE: u32 = 64;
/// And from which on it goes back to the table. Lower, so that a group does not go to and fro.
const SPARSE: u32 = 48;

/// Array translation, with preferred frames.
pub type Array = Arrays<Preference>;
/// Array translation without preferred frames: pages lie anywhere.
pub type ArrayPlain = Arrays<Blind>;
/// Array translation where a link says in which frame its page is, or was.
pub type ArraySwizzled = Arrays<Hints>;

/// Array translation.
#[derive(Debug)]
pub struct Arrays<G: Guess> {
    /// Bytes of a group of entries: what the kernel backs, and takes back, in one piece.
    group_bytes: usize,
    guess: G,
    sparse: SparseTable,
    /// Words of a group from which on it belongs in the array whatever that takes, and up to which
    /// it goes back: `DENSE` and `SPARSE` for groups of 512.
    dense: u32,
    sparse_below: u32,
    /// What words may take before sparse groups go to the table.
    share_bytes: u64,
    chunks: Mutex<ChunkStore<Chunk, CHUNKS>>,
    /// Groups that are backed by memory.
    live_groups: AtomicU64,
    hole_punches: AtomicU64,
    /// Words that moved between the array and the table.
    moved: AtomicU64,
}

/// Entries and their group counters.
#[derive(Debug)]
pub struct Chunk {
    memory: Reservation,
    /// Beside the entries, not behind them: those of a small space must not cost it a page of the
    /// kernel's.
    counters: Box<[Group]>,
    entries: u64,
    /// Entries in a group.
    group_len: u64,
    /// Which of a space's chunks it is.
    k: usize,
    index: usize,
    /// The space that has it, plus one, or 0 while it is idle. Looked at under a group's lock: while
    /// it is ours, the words of the group are.
    owner: AtomicU64,
    /// Where `relieve` goes on, in groups.
    hand: AtomicU64,
    /// A bit for each page table that the kernel had to make.
    tables: Box<[AtomicU64]>,
}

impl Chunk {
    fn new(k: usize, index: usize, group_bytes: usize) -> Result<Chunk, PoolError> {
        let entries = chunk_len(FIRST, k);
        let group_len = (group_bytes / size_of::<StateCell>()) as u64;
        let bytes = entries as usize * size_of::<StateCell>();
        let memory = Reservation::new("a translation array", bytes, group_bytes)?;
        memory.prefer_small_pages();
        let counters = Box::new_zeroed_slice((entries / group_len) as usize);
        // SAFETY: zeroed memory is an empty group.
        let counters = unsafe { counters.assume_init() };
        let mut chunk = Chunk {
            memory,
            counters,
            entries,
            group_len,
            k,
            index,
            owner: AtomicU64::new(0),
            hand: AtomicU64::new(0),
            tables: Box::default(),
        };
        let tables = entries.div_ceil(chunk.table_len() * 64);
        chunk.tables = (0..tables).map(|_| AtomicU64::new(0)).collect();
        Ok(chunk)
    }

    /// Entries whose page table is one page: as many groups as words in a page.
    fn table_len(&self) -> u64 {
        self.group_len * self.group_len
    }

    /// The first entry of each group.
    fn groups(&self) -> impl Iterator<Item = u64> + use<> {
        (0..self.entries).step_by(self.group_len as usize)
    }

    fn cells(&self) -> *mut StateCell {
        self.memory.base().as_ptr().cast()
    }

    fn is_of(&self, directory: &ArrayDirectory) -> bool {
        self.owner.load(Ordering::Acquire) == u64::from(directory.space.get()) + 1
    }

    fn cell(&self, entry: u64) -> &StateCell {
        debug_assert!(entry < self.entries);
        // SAFETY: the entries lie at the beginning, and zeroed memory is a valid one.
        unsafe { &*self.cells().add(entry as usize) }
    }

    fn group(&self, entry: u64) -> &Group {
        debug_assert!(entry < self.entries);
        &self.counters[(entry / self.group_len) as usize]
    }

    fn note_page_table(&self, entry: u64) {
        let table = entry / self.table_len();
        self.tables[(table / 64) as usize].fetch_or(1 << (table % 64), Ordering::Relaxed);
    }
}

/// Where the chunks of one space are.
#[derive(Debug)]
pub struct ArrayDirectory {
    space: SpaceId,
    /// Address of the entry that page 0 would have, for each chunk (so that a page number is added
    /// as it is); null if there is no such chunk.
    origins: [AtomicPtr<StateCell>; CHUNKS],
    chunks: [AtomicPtr<Chunk>; CHUNKS],
    /// Some page has been in the table for sparse groups.
    has_sparse: AtomicBool,
    closed: Mutex<bool>,
}

impl ArrayDirectory {
    fn id(&self, page: PageNo) -> PageId {
        PageId::new(self.space, page)
    }

    #[inline(always)]
    fn cell(&self, page: PageNo) -> Option<&StateCell> {
        let page = page.get();
        let origin = self.origins[chunk_of(FIRST, page)].load(Ordering::Acquire);
        if origin.is_null() {
            return None;
        }
        // SAFETY: chunk_of says that `page` has its entry in this chunk, which stays mapped
        // (ARRAY-1), and `origin` is as many entries before the chunk as its first page's number.
        Some(unsafe { &*origin.wrapping_add(page as usize) })
    }

    fn chunk(&self, page: PageNo) -> Option<(&Chunk, u64)> {
        let k = chunk_of(FIRST, page.get());
        let chunk = self.chunks[k].load(Ordering::Acquire);
        // SAFETY: null, or a box in `Array::chunks`, which is never dropped before the pool.
        Some((unsafe { chunk.as_ref() }?, page.get() - chunk_first(FIRST, k)))
    }
}

impl<G: Guess> Arrays<G> {
    /// Memory of words: groups of the array, and the table.
    fn word_bytes(&self) -> u64 {
        self.live_groups.load(Ordering::Relaxed) * self.group_bytes as u64 + self.sparse.bytes()
    }

    /// Whether words take more memory than their share.
    fn is_pressed(&self) -> bool {
        self.word_bytes() > self.share_bytes
    }

    /// Gives the memory of the group of this entry back.
    fn punch(&self, cell: &StateCell) {
        let base = ptr::from_ref(cell).map_addr(|at| at & !(self.group_bytes - 1));
        // SAFETY: the group of this cell: entries that are all zero and stay so while we have the
        // lock (ARRAY-2), and just what the kernel takes back in one piece. Readers find zeros
        // before and after.
        let punched =
            unsafe { madvise(base.cast_mut().cast(), self.group_bytes, Advice::LinuxDontNeed) };
        self.live_groups.fetch_sub(1, Ordering::Relaxed);
        if punched.is_ok() {
            self.hole_punches.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<G: Guess> Translation for Arrays<G> {
    const NAME: &'static str = match G::SETTLES {
        Settles::Not => "array-plain",
        Settles::Page => "array",
        Settles::Link => "array-swizzled",
    };
    const EVICTS: bool = true;
    const SETTLES: Settles = G::SETTLES;
    const NOT_BY_COPY: Option<&'static str> = match G::SETTLES {
        Settles::Link => Some("its links hold frames, which copies change"),
        _ => None,
    };
    type Directory = ArrayDirectory;

    fn new(config: TranslationConfig) -> Result<Self, PoolError> {
        Ok(Arrays {
            guess: G::new(config.frames)?,
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

    fn bytes_per_frame() -> u64 {
        BYTES_PER_FRAME
    }

    fn open(&self, space: SpaceId) -> Result<Arc<ArrayDirectory>, PoolError> {
        Ok(Arc::new(ArrayDirectory {
            space,
            origins: Default::default(),
            chunks: Default::default(),
            has_sparse: AtomicBool::new(false),
            closed: Mutex::new(false),
        }))
    }

    #[inline(always)]
    fn resolve<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p ArrayDirectory,
        link: LinkRef<'_>,
    ) -> Option<Resolved<'p>> {
        let swip = self.guess.swip(link, None);
        let (page, guess) = self.guess.guess(swip, directory.space);
        let cell = directory.cell(page.page())?;
        let word = cell.read();
        let (frame, astray) = match guess {
            Some(guess) => speculate(word, guess),
            None => (word.frame(), G::SETTLES == Settles::Link && link.is_in_page()),
        };
        Some(Resolved { cell, word, frame, page: frames.page(frame), astray })
    }

    fn resolve_elsewhere<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p ArrayDirectory,
        page: PageNo,
    ) -> Option<Resolved<'p>> {
        if !directory.has_sparse.load(Ordering::Relaxed) {
            return None;
        }
        let (cell, word) = self.sparse.find(directory.id(page))?;
        let frame = word.frame();
        Some(Resolved { cell, word, frame, page: frames.page(frame), astray: false })
    }

    fn state<'p>(&'p self, directory: &'p ArrayDirectory, page: PageNo) -> Option<&'p StateCell> {
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

    fn place(
        &self,
        _: &Frames,
        directory: &ArrayDirectory,
        page: PageNo,
    ) -> Result<Placement, PoolError> {
        let preferred =
            self.preferred(directory, page).map_or(Placement::Anywhere, Placement::Prefer);
        if directory.cell(page).is_some() {
            return Ok(preferred);
        }
        let closed = lock(&directory.closed);
        if *closed {
            return Err(PoolError::Dropped { space: directory.space });
        }
        if directory.cell(page).is_none() {
            let k = chunk_of(FIRST, page.get());
            let mut chunks = lock(&self.chunks);
            let chunk = chunks.take(k, |index| Chunk::new(k, index, self.group_bytes))?;
            chunk.owner.store(u64::from(directory.space.get()) + 1, Ordering::Release);
            let origin = chunk.cells().wrapping_sub(chunk_first(FIRST, k) as usize);
            directory.chunks[k].store(ptr::from_ref(chunk).cast_mut(), Ordering::Release);
            directory.origins[k].store(origin, Ordering::Release);
            // Before the claimer looks at flags: pairs with the fence of `is_quiet` and `state`.
            fence(Ordering::SeqCst);
        }
        Ok(preferred)
    }

    fn preferred(&self, directory: &ArrayDirectory, page: PageNo) -> Option<FrameId> {
        self.guess.preferred(directory.id(page))
    }

    fn claim<'p>(
        &'p self,
        frames: &Frames,
        directory: &'p ArrayDirectory,
        page: PageNo,
        frame: FrameId,
    ) -> Result<Option<Claim<'p>>, PoolError> {
        let Some((chunk, entry)) = directory.chunk(page) else {
            return Err(PoolError::Dropped { space: directory.space });
        };
        if self.is_pressed() {
            self.relieve(frames, directory, chunk);
        }
        let words = GroupWords::new(self, directory, (chunk, entry), Some(frames));
        let group = &mut chunk.group(entry).lock();
        if !chunk.is_of(directory) {
            return Err(PoolError::Dropped { space: directory.space });
        }
        if group.has(&words, page) {
            return Ok(None);
        }
        let total = group.array + group.sparse;
        let cell = if group.array == 0 && total < self.dense && self.is_pressed() {
            directory.has_sparse.store(true, Ordering::SeqCst);
            group.claim_in_table(&words, page)
        } else {
            if group.sparse > 0 && (group.array == 0 || total.is_multiple_of(16)) {
                self.gather(&words, group);
            }
            group.claim_in_array(&words, page)
        };
        Ok(cell.map(|cell| Claim { cell, frame, place: Some((chunk, entry)) }))
    }

    fn abandon(
        &self,
        directory: &ArrayDirectory,
        page: PageNo,
        claim: Claim<'_>,
        lot: &ParkingLot,
    ) {
        if let Some((chunk, entry)) = claim.place {
            let words = GroupWords::new(self, directory, (chunk, entry), None);
            let end = |cell: &StateCell| cell.publish(StateWord::EVICTED, lot);
            chunk.group(entry).lock().take_out(&words, page, end);
        }
    }

    fn retire(&self, frames: &Frames, directory: &ArrayDirectory, page: PageNo, _: FrameId) {
        let Some((chunk, entry)) = directory.chunk(page) else { return };
        let words = GroupWords::new(self, directory, (chunk, entry), Some(frames));
        let group = &mut chunk.group(entry).lock();
        group.take_out(&words, page, StateCell::clear);
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

    fn for_each_present(&self, directory: &ArrayDirectory, visit: &mut dyn FnMut(PageNo)) {
        for k in 0..CHUNKS {
            let first = chunk_first(FIRST, k);
            let Some((chunk, _)) = PageNo::new(first).and_then(|page| directory.chunk(page)) else {
                continue;
            };
            for group in chunk.groups() {
                if chunk.group(group).in_array() == 0 {
                    continue;
                }
                for (page, cell) in Self::group_of(chunk, group) {
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

    fn is_quiet(&self, directory: &ArrayDirectory) -> bool {
        fence(Ordering::SeqCst);
        (0..CHUNKS)
            .filter_map(|k| directory.chunk(PageNo::new(chunk_first(FIRST, k))?))
            .all(|(chunk, _)| chunk.groups().all(|entry| chunk.group(entry).is_empty()))
    }

    fn close(&self, directory: &ArrayDirectory) {
        *lock(&directory.closed) = true;
        let mut chunks = lock(&self.chunks);
        for k in 0..CHUNKS {
            directory.origins[k].store(ptr::null_mut(), Ordering::Release);
            let chunk = directory.chunks[k].swap(ptr::null_mut(), Ordering::AcqRel);
            // SAFETY: null, or a box in `chunks`.
            if let Some(chunk) = unsafe { chunk.as_ref() } {
                chunk.owner.store(0, Ordering::Release);
                chunks.give_back(k, chunk.index);
            }
        }
    }

    fn footprint(&self) -> Footprint {
        let chunks = lock(&self.chunks);
        let (mut counters, mut tables) = (0, 0);
        for chunk in chunks.iter() {
            // The counters of a chunk are small and scattered: all of them are taken as touched.
            counters += chunk.entries / chunk.group_len * size_of::<Group>() as u64;
            tables += chunk
                .tables
                .iter()
                .map(|t| u64::from(t.load(Ordering::Relaxed).count_ones()))
                .sum::<u64>();
        }
        Footprint {
            translation_bytes: self.word_bytes() + counters,
            page_table_bytes: tables * self.group_bytes as u64,
            hole_punches: self.hole_punches.load(Ordering::Relaxed),
            give_backs: 0,
        }
    }
}

#[cfg(test)]
mod tests;
