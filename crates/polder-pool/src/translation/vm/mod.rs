//! Translation by the page table of the operating system (vmcache; vmcache-n-2026, 2).
//!
//! 1. Every page has an address of its own, which follows from its number by an addition. The
//!    kernel's page table says whether memory stands behind it, and the processor looks there by
//!    itself.
//! 2. Beside it a state word for each page says whether it is resident, latched, and which version.
//! 3. A page that is loaded is read to its address; the kernel gives it memory.
//! 4. A page that is evicted gives the memory back (`madvise`, one call for a batch of pages where
//!    the kernel can): a system call that makes all processors forget addresses.
//! 5. Where memory is in tiers on several nodes (`tier/`), a page that is promoted or demoted, or was
//!    loaded into a slower tier, keeps its address: the kernel moves the memory behind it, that of a batch
//!    of pages by one system call (`nodes.rs`, `paging/migration_batch.rs`).
//!
//! The price is step 4, that entries of the kernel's table are never smaller than a page, and that
//! addresses must be had for all that may ever be used (`arena.rs`).
//!
//! The state word's frame is a number in the pool's accounts (metadata, versions, the clock's
//! round: vmcache's resident set), not an address.
//!
//! * `VM-2` Memory behind a page is given back only while its word is held exclusively. Readers
//!   that come too late read zeros and do not validate.

#![cfg(not(loom))]

mod arena;
mod nodes;

use std::fmt::Debug;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Mutex;

use polder_format::{PageId, PageNo, PageSize, SpaceId};

use super::seam::{Footprint, PageMemory, ReadModes, Translation, TranslationConfig, Words};
use crate::error::PoolError;
use crate::frame::Frames;
use crate::latch::{FrameId, Latches, Resolved, StateCell};
use crate::machine::{Moved, NodeId, OS_PAGE_BYTES, check_may_move, give_back, kernel_page_bytes};
use crate::page::bytes::prefetch_line;
use crate::page::{LinkRef, PageRef};
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::lock;
use arena::{Memory, VmDirectory, pages_a_region};
use nodes::Placer;

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

/// Translation by the operating system's page table, on the kernel's smallest pages.
pub type Vm = VirtualMemory<SmallPages>;
/// The same on pages of 2 MiB, for data that stays resident.
pub type VmHuge = VirtualMemory<HugePages>;

/// Translation by the operating system's page table: [`Vm`] or [`VmHuge`].
#[derive(Debug)]
pub struct VirtualMemory<B: Backing> {
    page_size: PageSize,
    memory: Mutex<Memory>,
    /// System calls that gave memory back; each interrupts all processors on which we run.
    give_backs: AtomicU64,
    placer: Placer,
    backing: PhantomData<B>,
}

impl<B: Backing> Words for VirtualMemory<B> {
    type Directory = VmDirectory;

    /// A word and an entry of the kernel's table for a page, if neighbours are resident too; for
    /// each page that was ever used, resident or not, the same again (not counted here).
    fn bytes_per_frame() -> u64 {
        2 * size_of::<StateCell>() as u64
    }

    fn footprint(&self) -> Footprint {
        let memory = lock(&self.memory);
        let regions = memory.regions();
        let words = regions * pages_a_region(self.page_size);
        Footprint {
            translation_bytes: words * size_of::<StateCell>() as u64,
            page_table_bytes: if B::EVICTS { regions * OS_PAGE_BYTES as u64 } else { 0 },
            hole_punches: 0,
            give_backs: self.give_backs.load(Ordering::Relaxed),
            page_moves: self.placer.calls(),
            huge_page_bytes: Some(memory.huge_bytes()),
        }
    }

    fn open(&self, space: SpaceId) -> VmDirectory {
        VmDirectory::new(space, self.page_size)
    }

    fn close(&self, directory: &VmDirectory) {
        directory.close(&self.memory);
    }

    fn for_each_present(&self, directory: &VmDirectory, visit: &mut dyn FnMut(PageNo)) {
        directory.for_each_present(visit);
    }

    fn present(&self, directory: &VmDirectory) -> u64 {
        directory.present.load(Ordering::SeqCst)
    }

    fn state<'p>(&'p self, directory: &'p VmDirectory, page: PageNo) -> Option<&'p StateCell> {
        fence(Ordering::SeqCst);
        directory.cell(page).filter(|cell| !cell.read_after_flag().is_evicted())
    }

    fn make_room(&self, directory: &VmDirectory, page: PageNo) -> Result<(), PoolError> {
        match directory.cell(page) {
            Some(_) => Ok(()),
            None => directory.make_room(&self.memory, page),
        }
    }

    fn claim<'p>(
        &'p self,
        _: &Latches,
        directory: &'p VmDirectory,
        page: PageNo,
        _: FrameId,
    ) -> Result<Option<&'p StateCell>, PoolError> {
        let Some(cell) = directory.cell(page) else {
            return Err(PoolError::Dropped { space: directory.space() });
        };
        // SeqCst: before the word, so that `present` misses none.
        directory.present.fetch_add(1, Ordering::SeqCst);
        if cell.claim() {
            directory.note_touched(page);
            return Ok(Some(cell));
        }
        directory.present.fetch_sub(1, Ordering::SeqCst);
        Ok(None)
    }

    fn remove(
        &self,
        _: &Latches,
        directory: &VmDirectory,
        page: PageNo,
        _: FrameId,
        end: impl FnOnce(&StateCell),
    ) {
        if let Some(cell) = directory.cell(page) {
            end(cell);
            directory.present.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn abandon(
        &self,
        _: &Latches,
        directory: &VmDirectory,
        _: PageNo,
        _: FrameId,
        (claim, end): (&StateCell, impl FnOnce(&StateCell)),
    ) {
        end(claim);
        directory.present.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<B: Backing> Translation for VirtualMemory<B> {
    const NAME: &'static str = B::NAME;
    const EVICTS: bool = B::EVICTS;
    const MEMORY: PageMemory = PageMemory::Addresses;
    const READ_MODES: ReadModes = if B::EVICTS {
        ReadModes::no_copies("a page has one address")
    } else {
        let no_slices = Some("nothing is ever evicted, so that no page needs to be held resident");
        ReadModes { no_slices, no_copies: Some("a page has one address") }
    };
    type Words = VirtualMemory<B>;

    fn new(config: TranslationConfig) -> Result<VirtualMemory<B>, PoolError> {
        let page_size = config.page_size;
        if page_size.bytes() < kernel_page_bytes() {
            return Err(PoolError::PageTooSmall {
                page_bytes: page_size.bytes() as u64,
                kernel_bytes: kernel_page_bytes() as u64,
                translation: Self::NAME,
            });
        }
        if config.first_node.is_some() {
            check_may_move().map_err(|error| PoolError::Tiers {
                what: format!("the kernel does not let this process move pages: {error}"),
            })?;
        }
        Ok(VirtualMemory {
            page_size,
            memory: Mutex::new(Memory::new(page_size, !B::EVICTS, config.first_node)),
            give_backs: AtomicU64::new(0),
            placer: Placer::new(&config),
            backing: PhantomData,
        })
    }

    fn words(&self) -> &VirtualMemory<B> {
        self
    }

    /// Steps 1 and 2.
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
        let at = unsafe { PageRef::new(directory.address(page, self.page_size), self.page_size) };
        Some(Resolved { cell, word, frame: word.frame(), page: at, misplaced: false })
    }

    #[inline(always)]
    fn prefetch<'p>(
        &'p self,
        _: &'p Frames,
        directory: &'p VmDirectory,
        link: LinkRef<'_>,
    ) -> Option<PageRef<'p>> {
        let page = PageId::from_link(link.load()).page();
        prefetch_line(directory.cell(page)?);
        // SAFETY: as in `resolve`.
        Some(unsafe { PageRef::new(directory.address(page, self.page_size), self.page_size) })
    }

    fn page_address(
        &self,
        _: &Frames,
        directory: &VmDirectory,
        page: PageNo,
        _: FrameId,
    ) -> NonNull<u8> {
        directory.address(page, self.page_size)
    }

    /// Step 4, for small pages. A part of a huge one cannot go without cutting it into small ones.
    fn give_back(&self, _: &Frames, pages: &mut [NonNull<u8>]) {
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

    /// Step 5.
    fn move_to_node(&self, pages: &[NonNull<u8>], node: NodeId) -> Vec<Moved> {
        // SAFETY: pages in our own chunks.
        unsafe { self.placer.move_to(pages, node) }
    }
}

#[cfg(test)]
impl<B: Backing> VirtualMemory<B> {
    /// From now on of each batch every so many-th page meets with this instead of being moved.
    pub(crate) fn refuse_to_move(&self, each: usize, with: Moved) {
        self.placer.refuse(each, with);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translation::Placement;

    /// The last page of a space needs more addresses than there are: refused, and others go on.
    #[test]
    fn what_the_address_space_cannot_cover_is_refused() {
        let config = TranslationConfig::of(128, PageSize::MAX);
        let vm = Vm::new(config).unwrap();
        let frames = Frames::new(128, PageSize::MAX, false, true).unwrap();
        let directory = vm.open(SpaceId::CATALOGUE);
        let refused = vm.place(&frames, &directory, PageNo::MAX);
        assert!(matches!(refused, Err(PoolError::Memory { .. })), "{refused:?}");
        let first = PageNo::new(0).unwrap();
        assert_eq!(vm.place(&frames, &directory, first).unwrap(), Placement::Anywhere);
        assert!(vm.state(&directory, first).is_none() && vm.present(&directory) == 0);
    }
}
