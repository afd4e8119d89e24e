//! A table of chains in memory of its own: what `hash`, the steps of `predictive`, and the sparse
//! groups of `array` keep their state words in.

#![cfg(not(loom))]

use std::marker::PhantomData;
use std::num::NonZeroU32;

use polder_format::{PageId, PageNo, SpaceId};

use super::bucket_latch::BucketLatch;
use super::chain::{Bucket, Chains, Entry, First, Slot};
use super::directory::TableDirectory;
use super::page_hash::PageHash;
use crate::error::PoolError;
use crate::frame::FreeList;
use crate::latch::{FrameId, Latches, StateCell, StateWord};
use crate::machine::{HUGE_PAGE_BYTES, Table, Zeroed};
use crate::page::bytes::prefetch_line;
use crate::sync::atomic::{Ordering, fence};
use crate::translation::seam::{Footprint, Words};

/// Buckets a frame, where the pages of a pool are in a table.
const BUCKETS_A_FRAME: u32 = 2;

/// The memory of a chained table: addresses, of which only what is used costs something.
#[derive(Debug)]
pub struct ChainTable<L, F> {
    buckets: Table<Bucket<L, F>>,
    slots: Table<Slot>,
    spare: FreeList,
    kind: PhantomData<(L, F)>,
}

// SAFETY: all zero is an empty bucket that is not latched, and it is atomics throughout.
unsafe impl<L: BucketLatch, F: First> Zeroed for Bucket<L, F> {}
// SAFETY: all zero is an unused slot, and it is atomics throughout.
unsafe impl Zeroed for Slot {}

impl<L: BucketLatch, F: First> ChainTable<L, F> {
    /// So many buckets for so many frames.
    pub(crate) fn new(buckets: u32, frames: u32) -> Result<ChainTable<L, F>, PoolError> {
        Ok(ChainTable {
            buckets: Table::new("buckets", buckets as usize, HUGE_PAGE_BYTES)?,
            slots: Table::new("entries", frames as usize + 1, HUGE_PAGE_BYTES)?,
            spare: FreeList::full(frames),
            kind: PhantomData,
        })
    }

    /// For the pages of a pool of so many frames, touched all over.
    pub(crate) fn of_frames(frames: u32) -> Result<ChainTable<L, F>, PoolError> {
        let table = ChainTable::new(frames * BUCKETS_A_FRAME, frames)?;
        table.buckets.memory().prefer_huge_pages();
        table.slots.memory().prefer_huge_pages();
        Ok(table)
    }

    /// For a table that may stay nearly empty.
    pub(crate) fn prefer_small_pages(&self) {
        self.buckets.memory().prefer_small_pages();
        self.slots.memory().prefer_small_pages();
    }

    #[inline(always)]
    fn chains(&self) -> Chains<'_, L, F> {
        Chains { buckets: self.buckets.all(), slots: self.slots.all(), spare: &self.spare }
    }

    #[inline(always)]
    fn bucket(&self, hash: PageHash) -> usize {
        hash.below(self.buckets.len() as u32) as usize
    }

    /// The page's state, and what its word was; `hash` is the page's.
    #[inline(always)]
    pub(crate) fn find(&self, hash: PageHash, page: PageId) -> Option<(&StateCell, StateWord)> {
        self.chains().find(self.bucket(hash), page)
    }

    /// Asks the processor for the bucket in which a search for this hash begins.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: PageHash) {
        prefetch_line(&self.buckets.all()[self.bucket(hash)]);
    }

    /// An entry for a page, whose word is claimed. `None` if the page has one.
    pub(crate) fn enter(&self, page: PageId) -> Option<&StateCell> {
        self.chains().claim(self.bucket(PageHash::of(page)), page)
    }

    /// An entry for a page whose word is `held` elsewhere, by the thread that moves it here.
    pub(crate) fn receive(&self, page: PageId, held: StateWord) -> Option<&StateCell> {
        self.chains().receive(self.bucket(PageHash::of(page)), page, held)
    }

    /// Takes a page's entry out; `end` makes its word 0.
    pub(crate) fn take_out(&self, page: PageId, end: impl FnOnce(&StateCell)) {
        self.chains().remove(self.bucket(PageHash::of(page)), page, end);
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        let first = self.buckets.all().iter().filter_map(Bucket::first);
        first.chain(self.slots.all().iter().map(Slot::entry))
    }

    /// Calls `visit` for each page of the space that has an entry.
    pub(crate) fn for_each_in(&self, space: SpaceId, visit: &mut dyn FnMut(PageNo)) {
        fence(Ordering::SeqCst);
        for entry in self.entries() {
            let page = entry.page();
            if page.space() == space && !entry.cell().read_after_flag().is_evicted() {
                visit(page.page());
            }
        }
    }

    /// How many chains have how many entries in a table that has so many buckets: element 0 counts the
    /// empty ones (predictive-2026, figure 10).
    pub(crate) fn chain_lengths(&self, buckets: NonZeroU32) -> Vec<u64> {
        let mut lengths = vec![0; buckets.get() as usize];
        for page in self.entries().map(Entry::page).filter(|page| !page.is_null()) {
            lengths[PageHash::of(page).below(buckets.get()) as usize] += 1;
        }
        histogram(lengths)
    }

    /// Memory of the buckets, and of the slots in use (the lowest go first).
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let slots = (self.slots.len() as u64 - 1).saturating_sub(self.spare.len() as u64);
        (self.buckets.memory().len() as u64, slots * size_of::<Slot>() as u64)
    }
}

impl<L: BucketLatch, F: First> Words for ChainTable<L, F> {
    type Directory = TableDirectory;

    fn bytes_per_frame() -> u64 {
        let buckets = size_of::<Bucket<L, F>>() as u64 * u64::from(BUCKETS_A_FRAME);
        buckets + size_of::<Slot>() as u64 + 1
    }

    fn footprint(&self) -> Footprint {
        let (buckets, slots) = self.bytes();
        Footprint::on_huge_pages(buckets + slots)
    }

    fn open(&self, space: SpaceId) -> TableDirectory {
        TableDirectory::new(space)
    }

    fn for_each_present(&self, directory: &TableDirectory, visit: &mut dyn FnMut(PageNo)) {
        self.for_each_in(directory.space, visit);
    }

    fn present(&self, directory: &TableDirectory) -> u64 {
        directory.present()
    }

    fn state<'p>(&'p self, directory: &'p TableDirectory, page: PageNo) -> Option<&'p StateCell> {
        // Behind a flag that somebody set: "Two threads that must see each other".
        fence(Ordering::SeqCst);
        let page = directory.id(page);
        Some(self.find(PageHash::of(page), page)?.0)
    }

    fn claim<'p>(
        &'p self,
        _: &Latches,
        directory: &'p TableDirectory,
        page: PageNo,
        _: FrameId,
    ) -> Result<Option<&'p StateCell>, PoolError> {
        directory.enter();
        let claimed = self.enter(directory.id(page));
        fence(Ordering::SeqCst);
        if claimed.is_none() {
            directory.leave();
        }
        Ok(claimed)
    }

    fn remove(
        &self,
        _: &Latches,
        directory: &TableDirectory,
        page: PageNo,
        _: FrameId,
        end: impl FnOnce(&StateCell),
    ) {
        self.take_out(directory.id(page), end);
        directory.leave();
    }
}

/// How often each length is there, from 0 on.
fn histogram(lengths: impl IntoIterator<Item = usize>) -> Vec<u64> {
    let mut counts = Vec::new();
    for length in lengths {
        if counts.len() <= length {
            counts.resize(length + 1, 0);
        }
        counts[length] += 1;
    }
    counts
}
