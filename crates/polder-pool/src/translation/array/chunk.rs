//! The arrays of one space: chunks of state words, and a counter beside each group of them.
//!
//! * `ARRAY-1` A chunk, once mapped, stays mapped until the pool is dropped (`POOL-2`). When its
//!   space is dropped it serves other spaces; what a stale reader sees there fails to validate
//!   (`POOL-3`).

#![cfg(not(loom))]

use std::ptr;
use std::sync::Mutex;

use polder_format::{PageId, PageNo, SpaceId};

use super::group::Group;
use crate::error::PoolError;
use crate::latch::StateCell;
use crate::machine::Mapping;
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};
use crate::sync::lock;
use crate::translation::parts::chunks::{
    ChunkStore, chunk_count, chunk_first, chunk_len, chunk_of,
};

/// The first chunk has 2^15 entries: 256 KiB of addresses, 128 MiB of data at 4 KiB pages.
pub(super) const FIRST: u32 = 15;
pub(super) const CHUNKS: usize = chunk_count(FIRST);
/// The chunks of all spaces.
pub(super) type Chunks = ChunkStore<Chunk, CHUNKS>;

/// Entries and their group counters.
#[derive(Debug)]
pub struct Chunk {
    pub(super) memory: Mapping,
    /// Beside the entries, not behind them: those of a small space must not cost it a page of the
    /// kernel's.
    pub(super) counters: Box<[Group]>,
    pub(super) entries: u64,
    /// Entries in a group.
    pub(super) group_len: u64,
    /// Which of a space's chunks it is.
    pub(super) k: usize,
    pub(super) index: usize,
    /// The space that has it, plus one, or 0 while it is idle. Looked at under a group's lock: while
    /// it is ours, the words of the group are.
    pub(super) owner: AtomicU64,
    /// Where `relieve` goes on, in groups.
    pub(super) hand: AtomicU64,
    /// A bit for each page table that the kernel had to make.
    pub(super) tables: Box<[AtomicU64]>,
}

impl Chunk {
    pub(super) fn new(k: usize, index: usize, group_bytes: usize) -> Result<Chunk, PoolError> {
        let entries = chunk_len(FIRST, k);
        let group_len = (group_bytes / size_of::<StateCell>()) as u64;
        let bytes = entries as usize * size_of::<StateCell>();
        let memory = Mapping::new("a translation array", bytes, group_bytes)?;
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
    pub(super) fn table_len(&self) -> u64 {
        self.group_len * self.group_len
    }

    /// The first entry of each group.
    pub(super) fn groups(&self) -> impl Iterator<Item = u64> + use<> {
        (0..self.entries).step_by(self.group_len as usize)
    }

    pub(super) fn cells(&self) -> *mut StateCell {
        self.memory.base().as_ptr().cast()
    }

    pub(super) fn is_of(&self, directory: &ArrayDirectory) -> bool {
        self.owner.load(Ordering::Acquire) == u64::from(directory.space.get()) + 1
    }

    pub(super) fn cell(&self, entry: u64) -> &StateCell {
        debug_assert!(entry < self.entries);
        // SAFETY: the entries lie at the beginning, and zeroed memory is a valid one.
        unsafe { &*self.cells().add(entry as usize) }
    }

    pub(super) fn group(&self, entry: u64) -> &Group {
        debug_assert!(entry < self.entries);
        &self.counters[(entry / self.group_len) as usize]
    }

    /// The pages of an entry's group, with their words in the array.
    pub(super) fn group_of(&self, entry: u64) -> impl Iterator<Item = (PageNo, &StateCell)> {
        let first = entry - entry % self.group_len;
        let number = chunk_first(FIRST, self.k);
        (first..first + self.group_len)
            .filter_map(move |at| Some((PageNo::new(number + at)?, self.cell(at))))
    }

    pub(super) fn note_page_table(&self, entry: u64) {
        let table = entry / self.table_len();
        self.tables[(table / 64) as usize].fetch_or(1 << (table % 64), Ordering::Relaxed);
    }
}

/// Where the chunks of one space are.
#[derive(Debug)]
pub struct ArrayDirectory {
    pub(super) space: SpaceId,
    /// Address of the entry that page 0 would have, for each chunk (so that a page number is added
    /// as it is); null if there is no such chunk.
    pub(super) origins: [AtomicPtr<StateCell>; CHUNKS],
    pub(super) chunks: [AtomicPtr<Chunk>; CHUNKS],
    /// Some page has been in the table for sparse groups.
    pub(super) has_sparse: AtomicBool,
    pub(super) closed: Mutex<bool>,
    /// The same, for a look without the lock. Then the chunks serve others; they stay here for
    /// claims that are still to be abandoned.
    is_closed: AtomicBool,
}

impl ArrayDirectory {
    /// Of a space without pages.
    pub(super) fn new(space: SpaceId) -> ArrayDirectory {
        ArrayDirectory {
            space,
            origins: Default::default(),
            chunks: Default::default(),
            has_sparse: AtomicBool::new(false),
            closed: Mutex::new(false),
            is_closed: AtomicBool::new(false),
        }
    }

    pub(super) fn id(&self, page: PageNo) -> PageId {
        PageId::new(self.space, page)
    }

    #[inline(always)]
    pub(super) fn cell(&self, page: PageNo) -> Option<&StateCell> {
        let page = page.get();
        let origin = self.origins[chunk_of(FIRST, page)].load(Ordering::Acquire);
        if origin.is_null() {
            return None;
        }
        // SAFETY: chunk_of says that `page` has its entry in this chunk, which stays mapped
        // (ARRAY-1), and `origin` is as many entries before the chunk as its first page's number.
        Some(unsafe { &*origin.wrapping_add(page as usize) })
    }

    pub(super) fn chunk(&self, page: PageNo) -> Option<(&Chunk, u64)> {
        let k = chunk_of(FIRST, page.get());
        Some((self.chunk_at(k)?, page.get() - chunk_first(FIRST, k)))
    }

    /// The chunk with this number, if there is one and the space was not closed.
    pub(super) fn chunk_at(&self, k: usize) -> Option<&Chunk> {
        if self.is_closed.load(Ordering::Acquire) { None } else { self.chunk_of_claim(k) }
    }

    /// The same for a thread that has claimed a page in it, though the space may have been closed
    /// since: its claim is in there.
    fn chunk_of_claim(&self, k: usize) -> Option<&Chunk> {
        // SAFETY: null, or a box in `ArrayWords::chunks`, which is never dropped before the pool.
        unsafe { self.chunks[k].load(Ordering::Acquire).as_ref() }
    }

    /// The chunk and the entry of a page that the caller has claimed.
    pub(super) fn claimed(&self, page: PageNo) -> Option<(&Chunk, u64)> {
        let k = chunk_of(FIRST, page.get());
        Some((self.chunk_of_claim(k)?, page.get() - chunk_first(FIRST, k)))
    }

    /// Makes sure that there is a chunk for the page.
    pub(super) fn make_room(
        &self,
        chunks: &Mutex<Chunks>,
        page: PageNo,
        group_bytes: usize,
    ) -> Result<(), PoolError> {
        let closed = lock(&self.closed);
        if *closed {
            return Err(PoolError::Dropped { space: self.space });
        }
        if self.cell(page).is_none() {
            let k = chunk_of(FIRST, page.get());
            let mut chunks = lock(chunks);
            let chunk = chunks.take(k, |index| Chunk::new(k, index, group_bytes))?;
            chunk.owner.store(u64::from(self.space.get()) + 1, Ordering::Release);
            let origin = chunk.cells().wrapping_sub(chunk_first(FIRST, k) as usize);
            self.chunks[k].store(ptr::from_ref(chunk).cast_mut(), Ordering::Release);
            self.origins[k].store(origin, Ordering::Release);
            // Before the claimer looks at flags: pairs with the fence of `present` and `state`.
            fence(Ordering::SeqCst);
        }
        Ok(())
    }

    /// The space is gone: its chunks serve others.
    pub(super) fn close(&self, chunks: &Mutex<Chunks>) {
        if std::mem::replace(&mut *lock(&self.closed), true) {
            return;
        }
        self.is_closed.store(true, Ordering::Release);
        let mut chunks = lock(chunks);
        for k in 0..CHUNKS {
            self.origins[k].store(ptr::null_mut(), Ordering::Release);
            if let Some(chunk) = self.chunk_of_claim(k) {
                chunk.owner.store(0, Ordering::Release);
                chunks.give_back(k, chunk.index);
            }
        }
    }
}
