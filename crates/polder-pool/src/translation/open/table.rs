//! Entries of page id and frame, found by linear probing, in partitions with a latch each.
//!
//! What such a table does best: one entry of 16 bytes a page, neighbours in one cache line, no
//! link to follow, and no tombstones, because an entry that goes is filled up from behind.
//!
//! * `OPEN-1` All entries of a page's probe sequence lie in one partition; entries change only
//!   under its latch held exclusively, and are read only under it held shared.
//! * `OPEN-2` Between where an entry belongs and where it is there is no empty one.

use polder_format::PageId;

use crate::error::PoolError;
use crate::latch::FrameId;
use crate::machine::{HUGE_PAGE_BYTES, Table, Zeroed};
use crate::page::bytes::prefetch_line;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::translation::parts::bucket_latch::{BucketLatch, SpinLatch};
use crate::translation::parts::by_frame::{FrameTable, Inserted};
use crate::translation::parts::page_hash::PageHash;

/// Entries for each frame: 5/8 of the table are full when all frames hold pages.
const ENTRIES: (usize, usize) = (8, 5);
/// Frames to a partition, at least: so many that no partition is ever full. With 4096 on average
/// there is room for 6553, which is 38 standard deviations away.
const PARTITION_FRAMES: u32 = 4096;
const MOST_PARTITIONS: u32 = 1024;

/// All zero: empty.
#[derive(Debug, Default)]
#[repr(C)]
struct Entry {
    page: AtomicU64,
    frame: AtomicU32,
}

// SAFETY: all zero is an empty entry, and it is atomics throughout.
unsafe impl Zeroed for Entry {}

/// A latch on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Partition(SpinLatch);

/// The partitioned table.
#[derive(Debug)]
pub struct OpenTable {
    entries: Table<Entry>,
    partitions: Box<[Partition]>,
    /// Entries in a partition.
    len: usize,
}

impl OpenTable {
    #[inline(always)]
    fn partition(&self, hash: PageHash) -> usize {
        hash.below(self.partitions.len() as u32) as usize
    }

    #[inline(always)]
    fn home(&self, hash: PageHash) -> usize {
        hash.also_below(self.len as u32) as usize
    }

    #[inline(always)]
    fn entry(&self, partition: usize, at: usize) -> &Entry {
        debug_assert!(partition < self.partitions.len() && at < self.len);
        // SAFETY: there are `len` for each partition.
        unsafe { self.entries.get_unchecked(partition * self.len + at) }
    }

    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.len { 0 } else { at + 1 }
    }

    /// Where the page's entry is, or the empty one that ends the search. The caller has the latch of
    /// the partition, in which the whole search stays (`OPEN-1`).
    #[inline(always)]
    fn probe(&self, partition: usize, hash: PageHash, page: PageId) -> Option<(usize, bool)> {
        let mut at = self.home(hash);
        for _ in 0..self.len {
            let found = self.entry(partition, at).page.load(Ordering::Relaxed);
            if found == page.to_bits() || found == 0 {
                return Some((at, found != 0));
            }
            at = self.after(at);
        }
        None
    }

    /// Fills the hole at `hole` from behind (`OPEN-2`): Knuth's algorithm 6.4 R.
    fn close_up(&self, partition: usize, mut hole: usize) {
        let mut at = hole;
        for _ in 1..self.len {
            at = self.after(at);
            let page = self.entry(partition, at).page.load(Ordering::Relaxed);
            if page == 0 {
                break;
            }
            let home = self.home(PageHash::of(PageId::from_link(page)));
            // Whether the hole lies between its home and where it is, round the end.
            let distance = |from: usize, to: usize| (to + self.len - from) % self.len;
            if distance(home, at) >= distance(hole, at) {
                let frame = self.entry(partition, at).frame.load(Ordering::Relaxed);
                self.entry(partition, hole).page.store(page, Ordering::Relaxed);
                self.entry(partition, hole).frame.store(frame, Ordering::Relaxed);
                hole = at;
            }
        }
        self.entry(partition, hole).page.store(0, Ordering::Relaxed);
    }
}

impl FrameTable for OpenTable {
    fn new(frames: u32) -> Result<OpenTable, PoolError> {
        let partitions = (frames / PARTITION_FRAMES).clamp(1, MOST_PARTITIONS);
        // The one partition of a small pool has room for all pages.
        let len = (frames as usize).div_ceil(partitions as usize) * ENTRIES.0 / ENTRIES.1 + 1;
        let entries = Table::new("hash table", partitions as usize * len, HUGE_PAGE_BYTES)?;
        entries.memory().prefer_huge_pages();
        let partitions = (0..partitions).map(|_| Partition::default()).collect();
        Ok(OpenTable { entries, partitions, len })
    }

    fn bytes_per_frame() -> u64 {
        (size_of::<Entry>() * ENTRIES.0).div_ceil(ENTRIES.1) as u64 + 1
    }

    fn bytes(&self) -> u64 {
        (self.entries.memory().len() + size_of_val(&*self.partitions)) as u64
    }

    #[inline(always)]
    fn prefetch(&self, hash: PageHash) {
        let partition = self.partition(hash);
        prefetch_line(&self.partitions[partition]);
        prefetch_line(self.entry(partition, self.home(hash)));
    }

    #[inline(always)]
    fn find<R>(
        &self,
        hash: PageHash,
        page: PageId,
        mut accept: impl FnMut(FrameId) -> Option<R>,
    ) -> Option<R> {
        let partition = self.partition(hash);
        let latch = &self.partitions[partition].0;
        let seen = latch.begin();
        let found = self.probe(partition, hash, page).filter(|(_, there)| *there);
        let frame = found.map(|(at, _)| self.entry(partition, at).frame.load(Ordering::Relaxed));
        latch.end(seen);
        accept(FrameId::new(frame?))
    }

    fn find_surely(
        &self,
        hash: PageHash,
        page: PageId,
        _: impl Fn(FrameId) -> bool,
    ) -> Option<FrameId> {
        self.find(hash, page, Some)
    }

    fn insert(
        &self,
        hash: PageHash,
        page: PageId,
        frame: FrameId,
        _: impl Fn(FrameId) -> bool,
    ) -> Inserted {
        let partition = self.partition(hash);
        let latch = &self.partitions[partition].0;
        latch.lock();
        let inserted = match self.probe(partition, hash, page) {
            Some((at, false)) => {
                self.entry(partition, at).frame.store(frame.get(), Ordering::Relaxed);
                self.entry(partition, at).page.store(page.to_bits(), Ordering::Relaxed);
                Inserted::Entered
            }
            Some((_, true)) => Inserted::Known,
            None => Inserted::Full,
        };
        latch.unlock();
        inserted
    }

    fn remove(&self, hash: PageHash, page: PageId, _: FrameId) {
        let partition = self.partition(hash);
        let latch = &self.partitions[partition].0;
        latch.lock();
        match self.probe(partition, hash, page) {
            Some((at, true)) => self.close_up(partition, at),
            _ => debug_assert!(false, "TABLE-1: {page} has no entry"),
        }
        latch.unlock();
    }

    fn replace(&self, hash: PageHash, page: PageId, _: FrameId, to: FrameId) {
        let partition = self.partition(hash);
        let latch = &self.partitions[partition].0;
        latch.lock();
        match self.probe(partition, hash, page) {
            Some((at, true)) => {
                self.entry(partition, at).frame.store(to.get(), Ordering::Relaxed);
            }
            _ => debug_assert!(false, "TABLE-1: {page} has no entry"),
        }
        latch.unlock();
    }
}
