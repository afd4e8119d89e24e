//! Translation by the page table of the operating system (vmcache; vmcache-n-tier.txt, 2).
//!
//! Every page has an address of its own, which follows from its number by an addition; whether
//! memory stands behind the address is the kernel's table's business, and the processor looks
//! there by itself. What is left to keep is a state word for each page. The price: a page is
//! evicted by a system call that makes all processors forget addresses (one for a batch of pages,
//! where the kernel can), entries of the kernel's table are never smaller than a page, and addresses
//! must be had for all that may ever be used.
//!
//! The state word's frame is a number in the pool's accounts (metadata, versions, the clock's
//! round: vmcache's resident set), not a place.
//!
//! The small chunks of all spaces are cut from common arenas, so that a small space costs no page of
//! words, no entry among the kernel's mappings and no page table of its own.
//!
//! * `VM-1` Arenas of words and pages, once mapped, stay mapped until the pool is dropped
//!   (`POOL-2`); chunks of a dropped space serve others.
//! * `VM-2` Memory behind a page is given back only while its word is held exclusively. Readers
//!   who come too late read zeros and do not validate.

use std::array;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex};

use polder_format::{PageId, PageNo, PageSize, SpaceId};

use super::chunks::{ChunkStore, chunk_count, chunk_first, chunk_len, chunk_of};
use super::{Claim, Footprint, Placement, Translation, TranslationConfig};
use crate::bytes::{OVERRUN_BYTES, PageRef};
use crate::error::PoolError;
use crate::found::Resolved;
use crate::frames::Frames;
use crate::link::LinkRef;
use crate::memory::{HUGE_PAGE_BYTES, OS_PAGE_BYTES, Reservation, give_back, kernel_page_bytes};
use crate::parking::ParkingLot;
use crate::state::{FrameId, StateCell, StateWord};
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use crate::sync::lock;

/// The first chunk of a space has 2 pages.
const FIRST: u32 = 1;
const CHUNKS: usize = chunk_count(FIRST);
/// Pages of a common arena, in bytes. Chunks of half as much or more have arenas of their own.
const ARENA_BYTES: u64 = 32 << 20;

/// What stands behind the pages.
pub trait Backing: Debug + Send + Sync + 'static {
    /// What users call a pool with it.
    const NAME: &'static str;
    /// Whether pages can be given back one by one.
    const EVICTS: bool;
}

/// The kernel's smallest pages: each can go by itself.
#[derive(Debug)]
pub struct SmallPages;

/// Pages of 2 MiB: fewer misses of the TLB, but no single page can go.
#[derive(Debug)]
pub struct HugePages;

impl Backing for SmallPages {
    const NAME: &'static str = "vm";
    const EVICTS: bool = true;
}

impl Backing for HugePages {
    const NAME: &'static str = "vm-huge";
    const EVICTS: bool = false;
}

/// Translation by the operating system's page table.
pub type Vm = VirtualMemory<SmallPages>;
/// The same on pages of 2 MiB, for data that stays resident.
pub type VmHuge = VirtualMemory<HugePages>;

/// Translation by the operating system's page table.
#[derive(Debug)]
pub struct VirtualMemory<B: Backing> {
    page_size: PageSize,
    memory: Mutex<Memory>,
    /// System calls that gave memory back; each interrupts all processors on which we run.
    give_backs: AtomicU64,
    backing: PhantomData<B>,
}

/// All arenas, and how they are cut into chunks.
#[derive(Debug, Default)]
struct Memory {
    chunks: ChunkStore<Chunk, CHUNKS>,
    arenas: Vec<Arc<Arena>>,
    /// The arena from which small chunks are cut, and how many of its pages are given out.
    common: Option<(Arc<Arena>, u64)>,
}

/// Addresses of words and pages.
#[derive(Debug)]
struct Arena {
    words: Reservation,
    pages: Reservation,
    /// A bit for each huge page's worth of pages that was ever used: the kernel's tables stay.
    touched: Box<[AtomicU64]>,
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
    /// Address of the word that page 0 would have, for each chunk; null if there is none.
    words: [AtomicPtr<StateCell>; CHUNKS],
    /// Address that page 0 would have.
    pages: [AtomicPtr<u8>; CHUNKS],
    chunks: [AtomicPtr<Chunk>; CHUNKS],
    /// Pages that are resident, in flight, or about to be.
    present: AtomicU64,
    closed: Mutex<bool>,
}

impl VmDirectory {
    #[inline(always)]
    fn cell(&self, page: PageNo) -> Option<&StateCell> {
        let page = page.get();
        let origin = self.words[chunk_of(FIRST, page)].load(Ordering::Acquire);
        if origin.is_null() {
            return None;
        }
        // SAFETY: chunk_of says that `page` has its word in this chunk, which stays mapped (VM-1),
        // and `origin` is as many words before the chunk as its first page's number.
        Some(unsafe { &*origin.wrapping_add(page as usize) })
    }

    fn chunk(&self, page: PageNo) -> Option<(&Chunk, u64)> {
        let k = chunk_of(FIRST, page.get());
        let chunk = self.chunks[k].load(Ordering::Acquire);
        // SAFETY: null, or a box in `Memory::chunks`, which is never dropped before the pool.
        Some((unsafe { chunk.as_ref() }?, page.get() - chunk_first(FIRST, k)))
    }
}

impl<B: Backing> VirtualMemory<B> {
    /// The address of a page in a chunk that there is.
    #[inline(always)]
    fn address(&self, directory: &VmDirectory, page: PageNo) -> NonNull<u8> {
        let origin = directory.pages[chunk_of(FIRST, page.get())].load(Ordering::Relaxed);
        let at = origin.wrapping_add((page.get() as usize) << self.page_size.shift());
        NonNull::new(at).unwrap_or(NonNull::dangling())
    }

    fn new_arena(&self, pages: u64, huge: bool) -> Result<Arc<Arena>, PoolError> {
        let bytes = ((pages as usize) << self.page_size.shift()) + OVERRUN_BYTES;
        let words = pages as usize * size_of::<StateCell>();
        let pages = Reservation::new("addresses for every page", bytes, HUGE_PAGE_BYTES)?;
        match huge {
            true => pages.prefer_huge_pages(),
            false => pages.prefer_small_pages(),
        }
        let words = Reservation::new("state words", words, OS_PAGE_BYTES)?;
        let touched = bytes.div_ceil(HUGE_PAGE_BYTES * 64);
        let touched = (0..touched).map(|_| AtomicU64::new(0)).collect();
        Ok(Arc::new(Arena { words, pages, touched }))
    }

    /// A chunk for the place `k` of the directory of this space.
    fn take_chunk<'m>(
        &self,
        memory: &'m mut Memory,
        space: SpaceId,
        k: usize,
    ) -> Result<&'m Chunk, PoolError> {
        let Memory { chunks, arenas, common } = memory;
        let (len, shift) = (chunk_len(FIRST, k), self.page_size.shift());
        chunks.take(k, |index| {
            if len << shift >= ARENA_BYTES / 2 {
                // Space 0 has its pages where the file has maps: few, and far from each other.
                let huge = !B::EVICTS && space != SpaceId::FILE;
                let arena = self.new_arena(len, huge)?;
                arenas.push(Arc::clone(&arena));
                return Ok(Chunk { arena, first: 0, index });
            }
            let room = ARENA_BYTES >> shift;
            let (arena, first) = match common.take_if(|(_, used)| *used + len <= room) {
                Some(common) => common,
                None => {
                    let arena = self.new_arena(room, false)?;
                    arenas.push(Arc::clone(&arena));
                    (arena, 0)
                }
            };
            *common = Some((Arc::clone(&arena), first + len));
            Ok(Chunk { arena, first, index })
        })
    }

    /// Gives small pages back. A part of a huge one cannot go without cutting it into small ones.
    fn give_back_runs(&self, pages: &mut [NonNull<u8>]) {
        if !B::EVICTS {
            return;
        }
        let size = self.page_size.bytes();
        pages.sort_unstable();
        let runs: Vec<libc::iovec> = pages
            .chunk_by(|a, b| a.addr().get() + size == b.addr().get())
            .map(|run| libc::iovec { iov_base: run[0].as_ptr().cast(), iov_len: run.len() * size })
            .collect();
        // SAFETY: pages in our own chunks, whose words are held exclusively or in flight (VM-2).
        let calls = unsafe { give_back(&runs) };
        self.give_backs.fetch_add(calls, Ordering::Relaxed);
    }

    /// Pages whose addresses share a page table.
    fn pages_a_region(&self) -> u64 {
        (HUGE_PAGE_BYTES >> self.page_size.shift()) as u64
    }

    fn note_touched(&self, chunk: &Chunk, entry: u64) {
        let region = ((chunk.first + entry) / self.pages_a_region()) as usize;
        let (bits, bit) = (&chunk.arena.touched[region / 64], 1 << (region % 64));
        if bits.load(Ordering::Relaxed) & bit == 0 {
            bits.fetch_or(bit, Ordering::Relaxed);
        }
    }
}

impl<B: Backing> Translation for VirtualMemory<B> {
    const NAME: &'static str = B::NAME;
    const EVICTS: bool = B::EVICTS;
    const OWNS_PAGES: bool = true;
    const GIVES_BACK: bool = true;
    const NOT_BY_SLICES: Option<&'static str> = if B::EVICTS {
        None
    } else {
        Some("nothing is ever evicted, so that no page needs to be held resident")
    };
    const NOT_BY_COPY: Option<&'static str> = Some("a page has one address");
    type Directory = VmDirectory;

    fn new(config: TranslationConfig) -> Result<VirtualMemory<B>, PoolError> {
        if config.page_size.bytes() < kernel_page_bytes() {
            return Err(PoolError::PageTooSmall {
                page_bytes: config.page_size.bytes() as u64,
                kernel_bytes: kernel_page_bytes() as u64,
                translation: Self::NAME,
            });
        }
        Ok(VirtualMemory {
            page_size: config.page_size,
            memory: Mutex::default(),
            give_backs: AtomicU64::new(0),
            backing: PhantomData,
        })
    }

    /// A word and an entry of the kernel's table for a page, if neighbours are resident too; for
    /// each page that was ever used, resident or not, the same again (not counted here).
    fn bytes_per_frame() -> u64 {
        2 * size_of::<StateCell>() as u64
    }

    fn open(&self, space: SpaceId) -> Result<Arc<VmDirectory>, PoolError> {
        Ok(Arc::new(VmDirectory {
            space,
            words: array::from_fn(|_| AtomicPtr::default()),
            pages: array::from_fn(|_| AtomicPtr::default()),
            chunks: array::from_fn(|_| AtomicPtr::default()),
            present: AtomicU64::new(0),
            closed: Mutex::new(false),
        }))
    }

    #[inline(always)]
    fn resolve<'p>(
        &'p self,
        _: &'p Frames,
        directory: &'p VmDirectory,
        link: LinkRef<'_>,
    ) -> Option<Resolved<'p>> {
        let page = PageId::from_link(link.load()).page();
        let cell = directory.cell(page)?;
        let word = cell.read();
        // SAFETY: the chunk is there, so that the page's addresses and the overrun are mapped
        // (VM-1), aligned, and written by `bytes` and the device alone.
        let at = unsafe { PageRef::new(self.address(directory, page), self.page_size) };
        Some(Resolved { cell, word, frame: word.frame(), page: at, astray: false })
    }

    fn state<'p>(&'p self, directory: &'p VmDirectory, page: PageNo) -> Option<&'p StateCell> {
        fence(Ordering::SeqCst);
        directory.cell(page).filter(|cell| !cell.read_after_flag().is_evicted())
    }

    fn page_address(
        &self,
        _: &Frames,
        directory: &VmDirectory,
        page: PageNo,
        _: FrameId,
    ) -> NonNull<u8> {
        self.address(directory, page)
    }

    fn place(
        &self,
        _: &Frames,
        directory: &VmDirectory,
        page: PageNo,
    ) -> Result<Placement, PoolError> {
        if directory.cell(page).is_some() {
            return Ok(Placement::Anywhere);
        }
        let closed = lock(&directory.closed);
        if *closed {
            return Err(PoolError::Dropped { space: directory.space });
        }
        if directory.cell(page).is_none() {
            let k = chunk_of(FIRST, page.get());
            let mut memory = lock(&self.memory);
            let chunk = self.take_chunk(&mut memory, directory.space, k)?;
            let first = chunk_first(FIRST, k) as usize;
            let pages = chunk.pages(self.page_size).wrapping_sub(first << self.page_size.shift());
            let words = chunk.words().wrapping_sub(first);
            directory.pages[k].store(pages, Ordering::Relaxed);
            directory.chunks[k].store(ptr::from_ref(chunk).cast_mut(), Ordering::Release);
            // Release: who sees the word's address sees the page's.
            directory.words[k].store(words, Ordering::Release);
            // Before the claimer looks at flags: pairs with the fence of `is_quiet` and `state`.
            fence(Ordering::SeqCst);
        }
        Ok(Placement::Anywhere)
    }

    fn claim<'p>(
        &'p self,
        _: &Frames,
        directory: &'p VmDirectory,
        page: PageNo,
        frame: FrameId,
    ) -> Result<Option<Claim<'p>>, PoolError> {
        let Some((chunk, entry)) = directory.chunk(page) else {
            return Err(PoolError::Dropped { space: directory.space });
        };
        // SAFETY: `entry` is below the number of words in this chunk.
        let cell = unsafe { &*chunk.words().add(entry as usize) };
        directory.present.fetch_add(1, Ordering::SeqCst);
        if cell.claim() {
            self.note_touched(chunk, entry);
            return Ok(Some(Claim { cell, frame, place: None }));
        }
        directory.present.fetch_sub(1, Ordering::SeqCst);
        Ok(None)
    }

    fn abandon(&self, directory: &VmDirectory, page: PageNo, claim: Claim<'_>, lot: &ParkingLot) {
        self.give_back_runs(&mut [self.address(directory, page)]);
        claim.cell.publish(StateWord::EVICTED, lot);
        directory.present.fetch_sub(1, Ordering::SeqCst);
    }

    fn retire(&self, _: &Frames, directory: &VmDirectory, page: PageNo, _: FrameId) {
        if let Some(cell) = directory.cell(page) {
            cell.clear();
            directory.present.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn give_back(&self, _: &Frames, pages: &mut [NonNull<u8>]) {
        self.give_back_runs(pages);
    }

    fn for_each_present(&self, directory: &VmDirectory, visit: &mut dyn FnMut(PageNo)) {
        for k in 0..CHUNKS {
            let first = chunk_first(FIRST, k);
            let Some((chunk, _)) = PageNo::new(first).and_then(|page| directory.chunk(page)) else {
                continue;
            };
            // Only where pages were ever used, or reading would make the kernel map all words.
            let (len, per_region) = (chunk_len(FIRST, k), self.pages_a_region());
            let mut from = 0;
            while from < len {
                let region = (chunk.first + from) / per_region;
                let end = len.min((region + 1) * per_region - chunk.first);
                let bits = chunk.arena.touched[(region / 64) as usize].load(Ordering::SeqCst);
                let pages = if bits >> (region % 64) & 1 == 0 { end..end } else { from..end };
                for page in pages.map_while(|entry| PageNo::new(first + entry)) {
                    if let Some(cell) = directory.cell(page)
                        && !cell.read_after_flag().is_evicted()
                    {
                        visit(page);
                    }
                }
                from = end;
            }
        }
    }

    fn is_quiet(&self, directory: &VmDirectory) -> bool {
        directory.present.load(Ordering::SeqCst) == 0
    }

    fn close(&self, directory: &VmDirectory) {
        *lock(&directory.closed) = true;
        let chunks = &mut lock(&self.memory).chunks;
        for k in 0..CHUNKS {
            directory.words[k].store(ptr::null_mut(), Ordering::Release);
            let chunk = directory.chunks[k].swap(ptr::null_mut(), Ordering::AcqRel);
            // SAFETY: null, or a box in `chunks`.
            if let Some(chunk) = unsafe { chunk.as_ref() } {
                chunks.give_back(k, chunk.index);
            }
        }
    }

    fn footprint(&self) -> Footprint {
        let regions: u64 = lock(&self.memory)
            .arenas
            .iter()
            .flat_map(|arena| &arena.touched)
            .map(|bits| u64::from(bits.load(Ordering::Relaxed).count_ones()))
            .sum();
        let tables = if B::EVICTS { regions * OS_PAGE_BYTES as u64 } else { 0 };
        Footprint {
            translation_bytes: regions * self.pages_a_region() * size_of::<StateCell>() as u64,
            page_table_bytes: tables,
            give_backs: self.give_backs.load(Ordering::Relaxed),
            hole_punches: 0,
        }
    }

    fn huge_bytes(&self, _: &Frames) -> u64 {
        lock(&self.memory).arenas.iter().map(|arena| arena.pages.huge_bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last page of a space needs more addresses than there are: refused, and others go on.
    #[test]
    fn what_the_address_space_cannot_cover_is_refused() {
        let config = TranslationConfig { frames: 128, page_size: PageSize::MAX };
        let vm = Vm::new(config).unwrap();
        let frames = Frames::new(128, PageSize::MAX, false, true).unwrap();
        let directory = vm.open(SpaceId::CATALOGUE).unwrap();
        let refused = vm.place(&frames, &directory, PageNo::MAX);
        assert!(matches!(refused, Err(PoolError::Memory { .. })), "{refused:?}");
        let first = PageNo::new(0).unwrap();
        assert_eq!(vm.place(&frames, &directory, first).unwrap(), Placement::Anywhere);
        assert!(vm.state(&directory, first).is_none() && vm.is_quiet(&directory));
    }
}
