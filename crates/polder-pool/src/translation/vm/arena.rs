//! The addresses of all pages: arenas, cut into the chunks of spaces.
//!
//! The small chunks of all spaces are cut from common arenas, so that a small space costs no page of
//! words, no entry among the kernel's mappings and no page table of its own.
//!
//! * `VM-1` Arenas of words and pages, once mapped, stay mapped until the pool is dropped
//!   (`POOL-2`); chunks of a dropped space serve others.

use std::array;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex};

use polder_format::{PageNo, PageSize, SpaceId};

use crate::error::PoolError;
use crate::latch::StateCell;
use crate::machine::{HUGE_PAGE_BYTES, Mapping, NodeId, OS_PAGE_BYTES};
use crate::page::OVERRUN_BYTES;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use crate::sync::lock;
use crate::translation::parts::chunks::{
    ChunkStore, chunk_count, chunk_first, chunk_len, chunk_of,
};

/// The first chunk of a space has 2 pages.
const FIRST: u32 = 1;
const CHUNKS: usize = chunk_count(FIRST);
/// Pages of a common arena, in bytes. Chunks of half as much or more have arenas of their own.
const ARENA_BYTES: u64 = 32 << 20;

/// All arenas, and how they are cut into chunks.
#[derive(Debug)]
pub(super) struct Memory {
    page_size: PageSize,
    /// Whether large chunks are on huge pages.
    huge: bool,
    /// Of which pages have memory, if one was named.
    node: Option<NodeId>,
    chunks: ChunkStore<Chunk, CHUNKS>,
    arenas: Vec<Arc<Arena>>,
    /// The arena from which small chunks are cut, and how many of its pages are given out.
    common: Option<(Arc<Arena>, u64)>,
}

/// Addresses of words and pages.
#[derive(Debug)]
struct Arena {
    words: Mapping,
    pages: Mapping,
    /// A bit for each huge page's worth of pages that was ever used: the kernel's tables stay.
    touched: Box<[AtomicU64]>,
}

impl Arena {
    /// `node`: of which its pages are to have memory, unless they are moved. So the kernel does not move
    /// them after the threads that use them either (automatic NUMA balancing).
    fn new(
        pages: u64,
        page_size: PageSize,
        huge: bool,
        node: Option<NodeId>,
    ) -> Result<Arc<Arena>, PoolError> {
        let bytes = ((pages as usize) << page_size.shift()) + OVERRUN_BYTES;
        let words = pages as usize * size_of::<StateCell>();
        let pages = Mapping::new("addresses for every page", bytes, HUGE_PAGE_BYTES)?;
        match huge {
            true => pages.prefer_huge_pages(),
            false => pages.prefer_small_pages(),
        }
        if let Some(node) = node {
            pages.prefer_node(0, pages.len(), node)?;
        }
        let words = Mapping::new("state words", words, OS_PAGE_BYTES)?;
        let touched = bytes.div_ceil(HUGE_PAGE_BYTES * 64);
        let touched = (0..touched).map(|_| AtomicU64::new(0)).collect();
        Ok(Arc::new(Arena { words, pages, touched }))
    }
}

impl Memory {
    /// None yet, of pages of this size.
    pub(super) fn new(page_size: PageSize, huge: bool, node: Option<NodeId>) -> Memory {
        let (chunks, arenas) = Default::default();
        Memory { page_size, huge, node, chunks, arenas, common: None }
    }

    /// A chunk for the place `k` of the directory of this space.
    fn take_chunk(&mut self, space: SpaceId, k: usize) -> Result<&Chunk, PoolError> {
        let Memory { page_size, huge, node, chunks, arenas, common } = self;
        let (len, size, node) = (chunk_len(FIRST, k), *page_size, *node);
        chunks.take(k, |index| {
            if len << size.shift() >= ARENA_BYTES / 2 {
                // Space 0 has its pages where the file has maps: few, and far from each other.
                let arena = Arena::new(len, size, *huge && space != SpaceId::FILE, node)?;
                arenas.push(Arc::clone(&arena));
                return Ok(Chunk { arena, first: 0, index });
            }
            let room = ARENA_BYTES >> size.shift();
            let (arena, first) = match common.take_if(|(_, used)| *used + len <= room) {
                Some(common) => common,
                None => {
                    let arena = Arena::new(room, size, false, node)?;
                    arenas.push(Arc::clone(&arena));
                    (arena, 0)
                }
            };
            *common = Some((Arc::clone(&arena), first + len));
            Ok(Chunk { arena, first, index })
        })
    }

    /// Huge pages' worth of pages that were ever used.
    pub(super) fn regions(&self) -> u64 {
        let touched = self.arenas.iter().flat_map(|arena| &arena.touched);
        touched.map(|bits| u64::from(bits.load(Ordering::Relaxed).count_ones())).sum()
    }

    /// Bytes of pages that huge pages back.
    pub(super) fn huge_bytes(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.pages.huge_bytes()).sum()
    }
}

/// Pages whose addresses share a page table.
pub(super) fn pages_a_region(page_size: PageSize) -> u64 {
    (HUGE_PAGE_BYTES >> page_size.shift()) as u64
}

/// Words and pages of a run of page numbers.
#[derive(Debug)]
struct Chunk {
    arena: Arc<Arena>,
    /// Where it begins in the arena, in pages.
    first: u64,
    index: usize,
}

impl Chunk {
    fn words(&self) -> *mut StateCell {
        let words = self.arena.words.base().as_ptr().cast::<StateCell>();
        words.wrapping_add(self.first as usize)
    }

    fn pages(&self, size: PageSize) -> *mut u8 {
        let pages = self.arena.pages.base().as_ptr();
        pages.wrapping_add((self.first as usize) << size.shift())
    }
}

/// Where the chunks of one space are.
#[derive(Debug)]
pub struct VmDirectory {
    space: SpaceId,
    page_size: PageSize,
    /// Address of the word that page 0 would have, for each chunk; null if there is none.
    words: [AtomicPtr<StateCell>; CHUNKS],
    /// Address that page 0 would have.
    pages: [AtomicPtr<u8>; CHUNKS],
    chunks: [AtomicPtr<Chunk>; CHUNKS],
    /// Pages that are resident, in flight, or about to be.
    pub(super) present: AtomicU64,
    closed: Mutex<bool>,
}

impl VmDirectory {
    /// Of a space without pages.
    pub(super) fn new(space: SpaceId, page_size: PageSize) -> VmDirectory {
        VmDirectory {
            space,
            page_size,
            words: array::from_fn(|_| AtomicPtr::default()),
            pages: array::from_fn(|_| AtomicPtr::default()),
            chunks: array::from_fn(|_| AtomicPtr::default()),
            present: AtomicU64::new(0),
            closed: Mutex::new(false),
        }
    }

    pub(super) fn space(&self) -> SpaceId {
        self.space
    }

    #[inline(always)]
    pub(super) fn cell(&self, page: PageNo) -> Option<&StateCell> {
        let page = page.get();
        let origin = self.words[chunk_of(FIRST, page)].load(Ordering::Acquire);
        if origin.is_null() {
            return None;
        }
        // SAFETY: chunk_of says that `page` has its word in this chunk, which stays mapped (VM-1),
        // and `origin` is as many words before the chunk as its first page's number.
        Some(unsafe { &*origin.wrapping_add(page as usize) })
    }

    /// The address of a page in a chunk that there is.
    #[inline(always)]
    pub(super) fn address(&self, page: PageNo, page_size: PageSize) -> NonNull<u8> {
        let origin = self.pages[chunk_of(FIRST, page.get())].load(Ordering::Relaxed);
        let at = origin.wrapping_add((page.get() as usize) << page_size.shift());
        NonNull::new(at).unwrap_or(NonNull::dangling())
    }

    fn chunk(&self, k: usize) -> Option<&Chunk> {
        // SAFETY: null, or a box in `Memory::chunks`, which is never dropped before the pool.
        unsafe { self.chunks[k].load(Ordering::Acquire).as_ref() }
    }

    /// Makes sure that there is a chunk for the page.
    pub(super) fn make_room(&self, memory: &Mutex<Memory>, page: PageNo) -> Result<(), PoolError> {
        let closed = lock(&self.closed);
        if *closed {
            return Err(PoolError::Dropped { space: self.space });
        }
        if self.cell(page).is_none() {
            let k = chunk_of(FIRST, page.get());
            let mut memory = lock(memory);
            let chunk = memory.take_chunk(self.space, k)?;
            let first = chunk_first(FIRST, k) as usize;
            let pages = chunk.pages(self.page_size).wrapping_sub(first << self.page_size.shift());
            let words = chunk.words().wrapping_sub(first);
            self.pages[k].store(pages, Ordering::Relaxed);
            self.chunks[k].store(ptr::from_ref(chunk).cast_mut(), Ordering::Release);
            // Release: a thread that sees the address of words sees that of pages.
            self.words[k].store(words, Ordering::Release);
            // Before the claimer looks at flags: pairs with the fence of `present` and `state`.
            fence(Ordering::SeqCst);
        }
        Ok(())
    }

    /// The page was used: the kernel has a page table for it from now on.
    pub(super) fn note_touched(&self, page: PageNo) {
        let k = chunk_of(FIRST, page.get());
        let Some(chunk) = self.chunk(k) else { return };
        let entry = chunk.first + page.get() - chunk_first(FIRST, k);
        let region = (entry / pages_a_region(self.page_size)) as usize;
        let (bits, bit) = (&chunk.arena.touched[region / 64], 1 << (region % 64));
        if bits.load(Ordering::Relaxed) & bit == 0 {
            bits.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Calls `visit` for each page whose word is not zero.
    pub(super) fn for_each_present(&self, visit: &mut dyn FnMut(PageNo)) {
        let per_region = pages_a_region(self.page_size);
        for k in 0..CHUNKS {
            let Some(chunk) = self.chunk(k) else { continue };
            // Only where pages were ever used, or reading would make the kernel map all words.
            let (first, len) = (chunk_first(FIRST, k), chunk_len(FIRST, k));
            let mut from = 0;
            while from < len {
                let region = (chunk.first + from) / per_region;
                let end = len.min((region + 1) * per_region - chunk.first);
                let bits = chunk.arena.touched[(region / 64) as usize].load(Ordering::SeqCst);
                let pages = if bits >> (region % 64) & 1 == 0 { end..end } else { from..end };
                for page in pages.map_while(|entry| PageNo::new(first + entry)) {
                    if let Some(cell) = self.cell(page)
                        && !cell.read_after_flag().is_evicted()
                    {
                        visit(page);
                    }
                }
                from = end;
            }
        }
    }

    /// The space is gone: its chunks serve others.
    pub(super) fn close(&self, memory: &Mutex<Memory>) {
        *lock(&self.closed) = true;
        let chunks = &mut lock(memory).chunks;
        for k in 0..CHUNKS {
            self.words[k].store(ptr::null_mut(), Ordering::Release);
            let chunk = self.chunks[k].swap(ptr::null_mut(), Ordering::AcqRel);
            // SAFETY: null, or a box in `chunks`.
            if let Some(chunk) = unsafe { chunk.as_ref() } {
                chunks.give_back(k, chunk.index);
            }
        }
    }
}
