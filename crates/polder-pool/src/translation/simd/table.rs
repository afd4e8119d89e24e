//! The table: buckets of 16 entries whose fingerprints one instruction compares.
//!
//! ```text
//!  bucket   | 16 fingerprints | latch | next | 8 frames |   one cache line
//!           | 8 frames                       |          |   the one behind it
//! ```
//!
//! A lookup takes no lock: it compares the fingerprints, and looks at the tag of each frame whose
//! fingerprint is the page's (`TABLE-4`; one in 32 lookups meets a frame that is another page's).
//! The paper keeps the page id in the entry too; the tag that is looked at afterwards anyway says
//! the same, so that an entry here is 5 bytes and a bucket two lines instead of five. Entries fill
//! a bucket from the front, so that mostly the first line is enough.
//!
//! The paper has a bucket for two frames, so that one in nine entries is used. Here it is one for
//! eight frames: half full on average, and one bucket in 250 has an overflow bucket.
//!
//! * `SIMD-1` Entries change only under the latch of the chain's first bucket.
//! * `SIMD-2` Only the last bucket of a chain has unused entries, and they are its last ones. So
//!   no more overflow buckets are in use than one for 16 frames: so many are set aside, and they
//!   cannot run out.

#[cfg_attr(target_arch = "x86_64", path = "compare/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "compare/aarch64.rs")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "compare/portable.rs")]
mod compare;
#[cfg(test)]
#[path = "compare/portable.rs"]
mod reference;

use polder_format::PageId;

use crate::error::PoolError;
use crate::frame::FreeList;
use crate::latch::FrameId;
use crate::machine::{HUGE_PAGE_BYTES, Table, Zeroed};
use crate::page::bytes::prefetch_line;
use crate::sync::Backoff;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::translation::parts::bucket_latch::{BucketLatch, SpinLatch};
use crate::translation::parts::by_frame::{FrameTable, Inserted};
use crate::translation::parts::page_hash::PageHash;

const ENTRIES: usize = 16;
/// Frames for one bucket of the table.
const FRAMES_A_BUCKET: u32 = 8;

/// Sixteen entries. All zero: empty.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Bucket {
    /// A byte for each entry, 0 if it is not used.
    fingerprints: [AtomicU64; 2],
    latch: SpinLatch,
    /// Number of the overflow bucket behind this one, or 0.
    next: AtomicU32,
    frames: [AtomicU32; ENTRIES],
}

// SAFETY: all zero is an empty bucket that is not latched, and it is atomics throughout.
unsafe impl Zeroed for Bucket {}

impl Bucket {
    /// A bit for each entry with this fingerprint.
    #[inline(always)]
    fn matches(&self, fingerprint: u8) -> u32 {
        compare::equal(self.fingerprints(), fingerprint)
    }

    #[inline(always)]
    fn fingerprints(&self) -> [u64; 2] {
        // Acquire pairs with the Release of `set`: the frame is as new as its fingerprint.
        [0, 1].map(|half| self.fingerprints[half].load(Ordering::Acquire))
    }

    #[inline(always)]
    fn frame(&self, at: usize) -> FrameId {
        FrameId::new(self.frames[at].load(Ordering::Relaxed))
    }

    fn len(&self) -> usize {
        ENTRIES - compare::equal(self.fingerprints(), 0).count_ones() as usize
    }

    fn entry(&self, at: usize) -> (u8, FrameId) {
        let half = self.fingerprints[at / 8].load(Ordering::Relaxed);
        ((half >> (at % 8 * 8)) as u8, self.frame(at))
    }

    /// The frame before its fingerprint. The caller has the chain's latch (`SIMD-1`).
    fn set(&self, at: usize, (fingerprint, frame): (u8, FrameId)) {
        self.frames[at].store(frame.get(), Ordering::Relaxed);
        self.set_fingerprint(at, fingerprint);
    }

    fn set_fingerprint(&self, at: usize, fingerprint: u8) {
        let (half, shift) = (&self.fingerprints[at / 8], at % 8 * 8);
        let others = half.load(Ordering::Relaxed) & !(0xFF << shift);
        half.store(others | (u64::from(fingerprint) << shift), Ordering::Release);
    }
}

/// The entries whose bits are set.
#[inline(always)]
fn bits(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(at)
    })
}

/// A table of fingerprint buckets.
#[derive(Debug)]
pub struct SimdTable {
    buckets: Table<Bucket>,
    /// How many of them are used: all.
    count: u32,
    /// Overflow buckets; number 0 is none.
    overflow: Table<Bucket>,
    overflow_count: u32,
    spare: FreeList,
}

impl SimdTable {
    #[inline(always)]
    fn bucket(&self, hash: PageHash) -> &Bucket {
        &self.buckets.all()[hash.below(self.count) as usize]
    }

    #[inline(always)]
    fn overflow(&self, number: u32) -> Option<&Bucket> {
        if number == 0 { None } else { self.overflow.all().get(number as usize) }
    }

    fn last<'a>(&'a self, first: &'a Bucket) -> (&'a Bucket, &'a AtomicU32) {
        let (mut last, mut link) = (first, &first.next);
        while let Some(next) = self.overflow(last.next.load(Ordering::Relaxed)) {
            (link, last) = (&last.next, next);
        }
        (last, link)
    }

    /// The entry of a page in a chain whose latch the caller has, so that the answer stays true
    /// (`SIMD-1`).
    fn locate<'a>(
        &'a self,
        first: &'a Bucket,
        fingerprint: u8,
        is_it: impl Fn(FrameId) -> bool,
    ) -> Option<(&'a Bucket, usize)> {
        let mut bucket = Some(first);
        while let Some(here) = bucket {
            if let Some(at) = bits(here.matches(fingerprint)).find(|at| is_it(here.frame(*at))) {
                return Some((here, at));
            }
            bucket = self.overflow(here.next.load(Ordering::Relaxed));
        }
        None
    }

    fn enter(&self, first: &Bucket, entry: (u8, FrameId)) {
        let (last, _) = self.last(first);
        let len = last.len();
        if len < ENTRIES {
            last.set(len, entry);
            return;
        }
        // SIMD-2: there is one, though a look can miss one that comes back just now.
        let mut backoff = Backoff::new();
        let number = loop {
            match self.spare.take() {
                Some(number) => break number,
                None => backoff.wait(),
            }
        };
        if let Some(fresh) = self.overflow(number.get()) {
            fresh.set(0, entry);
        }
        // Release pairs with the Acquire of `find`.
        last.next.store(number.get(), Ordering::Release);
    }
}

impl FrameTable for SimdTable {
    fn new(frames: u32) -> Result<Self, PoolError> {
        let count = frames.div_ceil(FRAMES_A_BUCKET);
        let overflow_count = frames.div_ceil(ENTRIES as u32);
        let reserve = |what, count: u32| {
            let table = Table::new(what, count as usize, HUGE_PAGE_BYTES)?;
            table.memory().prefer_huge_pages();
            Ok(table)
        };
        Ok(SimdTable {
            buckets: reserve("buckets", count)?,
            count,
            overflow: reserve("overflow buckets", overflow_count + 1)?,
            overflow_count,
            spare: FreeList::full(overflow_count),
        })
    }

    fn bytes_per_frame() -> u64 {
        let bucket = size_of::<Bucket>() as u64;
        bucket / u64::from(FRAMES_A_BUCKET) + bucket / ENTRIES as u64
    }

    fn bytes(&self) -> u64 {
        let used = self.overflow_count - self.spare.len().min(self.overflow_count as usize) as u32;
        self.buckets.memory().len() as u64 + u64::from(used) * size_of::<Bucket>() as u64
    }

    #[inline(always)]
    fn prefetch(&self, hash: PageHash) {
        let bucket = self.bucket(hash);
        prefetch_line(bucket);
        prefetch_line(&bucket.frames[ENTRIES / 2]);
    }

    #[inline(always)]
    fn find<R>(
        &self,
        hash: PageHash,
        _: PageId,
        mut accept: impl FnMut(FrameId) -> Option<R>,
    ) -> Option<R> {
        let fingerprint = hash.fingerprint();
        let mut bucket = self.bucket(hash);
        // TABLE-4: a chain that changes under us may lead into others, but not for ever.
        for _ in 0..=self.overflow_count {
            let mut matches = bucket.matches(fingerprint);
            while matches != 0 {
                if let Some(found) = accept(bucket.frame(matches.trailing_zeros() as usize)) {
                    return Some(found);
                }
                matches &= matches - 1;
            }
            bucket = self.overflow(bucket.next.load(Ordering::Acquire))?;
        }
        None
    }

    fn find_surely(
        &self,
        hash: PageHash,
        _: PageId,
        holds: impl Fn(FrameId) -> bool,
    ) -> Option<FrameId> {
        let first = self.bucket(hash);
        first.latch.lock();
        let found = self.locate(first, hash.fingerprint(), holds);
        let frame = found.map(|(bucket, at)| bucket.frame(at));
        first.latch.unlock();
        frame
    }

    fn insert(
        &self,
        hash: PageHash,
        _: PageId,
        frame: FrameId,
        holds: impl Fn(FrameId) -> bool,
    ) -> Inserted {
        let (first, fingerprint) = (self.bucket(hash), hash.fingerprint());
        first.latch.lock();
        let is_new = self.locate(first, fingerprint, holds).is_none();
        if is_new {
            self.enter(first, (fingerprint, frame));
        }
        first.latch.unlock();
        if is_new { Inserted::Entered } else { Inserted::Known }
    }

    /// The chain's last entry takes the place of the one that goes (`SIMD-2`).
    fn remove(&self, hash: PageHash, page: PageId, frame: FrameId) {
        let (first, fingerprint) = (self.bucket(hash), hash.fingerprint());
        first.latch.lock();
        let found = self.locate(first, fingerprint, |found| found == frame);
        debug_assert!(found.is_some(), "TABLE-1: {page} has no entry");
        let mut emptied = 0;
        if let Some((bucket, at)) = found {
            let (last, link) = self.last(first);
            let end = last.len() - 1;
            bucket.set(at, last.entry(end));
            last.set_fingerprint(end, 0);
            if end == 0 && !std::ptr::eq(last, first) {
                emptied = link.swap(0, Ordering::Relaxed);
            }
        }
        // Before others can need one more bucket: so SIMD-2 holds at each moment.
        if emptied != 0 {
            self.spare.put(FrameId::new(emptied));
        }
        first.latch.unlock();
    }

    fn replace(&self, hash: PageHash, page: PageId, frame: FrameId, to: FrameId) {
        let (first, fingerprint) = (self.bucket(hash), hash.fingerprint());
        first.latch.lock();
        let found = self.locate(first, fingerprint, |found| found == frame);
        debug_assert!(found.is_some(), "TABLE-1: {page} has no entry");
        if let Some((bucket, at)) = found {
            bucket.set(at, (fingerprint, to));
        }
        first.latch.unlock();
    }
}

#[cfg(test)]
mod tests;
