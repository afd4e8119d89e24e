//! Chains of entries behind buckets: the table of [`Hash`](super::Hash) and
//! [`Predictive`](super::Predictive) (predictive-translation.txt, section 4).
//!
//! `docs/protocols.md`, "Translations by table": `TABLE-1` to `TABLE-4`. What differs between the
//! steps of the paper are two types: the latch of a bucket, and whether the first entry lies in
//! the bucket.
//!
//! ```text
//!  bucket  | latch | next | first entry: page, word |   the entry is missing without the step
//!                     |
//!                     v
//!  slot    | entry: page, word | next | -> slot -> ... -> 0
//! ```
//!
//! * `ENTRY-1` A slot that is in no chain has no page and a word of 0.
//! * `ENTRY-2` Page ids and links change only under the bucket's latch.

use std::fmt::Debug;

use polder_format::PageId;

use crate::free_list::FreeList;
use crate::state::{FrameId, StateCell, StateWord};
use crate::sync::Backoff;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// What is known of a resident page: the header of its frame, in the table. All zero: no page.
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub struct Entry {
    page: AtomicU64,
    cell: StateCell,
}

impl Entry {
    /// Acquire: the word that is read next is not older than the page id.
    #[inline(always)]
    pub(crate) fn is(&self, page: PageId) -> bool {
        self.page.load(Ordering::Acquire) == page.to_bits()
    }

    pub(crate) fn page(&self) -> PageId {
        PageId::from_link(self.page.load(Ordering::Acquire))
    }

    pub(crate) fn cell(&self) -> &StateCell {
        &self.cell
    }
}

/// An entry outside of the buckets, and what comes behind it. All zero: unused.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Slot {
    entry: Entry,
    next: AtomicU32,
}

impl Slot {
    pub(crate) fn entry(&self) -> &Entry {
        &self.entry
    }
}

/// Head of a chain. All zero: empty and unlatched.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Bucket<L, F> {
    latch: L,
    next: AtomicU32,
    first: F,
}

impl<L, F: First> Bucket<L, F> {
    pub(crate) fn first(&self) -> Option<&Entry> {
        self.first.entry()
    }
}

/// The part of a bucket that holds its first entry, if it has one.
pub trait First: Debug + Default + Send + Sync + 'static {
    fn entry(&self) -> Option<&Entry>;
}

impl First for Entry {
    #[inline(always)]
    fn entry(&self) -> Option<&Entry> {
        Some(self)
    }
}

/// The bucket leads to its first entry.
#[derive(Debug, Default)]
pub struct Apart;

impl First for Apart {
    #[inline(always)]
    fn entry(&self) -> Option<&Entry> {
        None
    }
}

/// How a bucket's chain is kept consistent.
pub trait BucketLatch: Debug + Default + Send + Sync + 'static {
    /// Begins reading; waits while the chain is being changed.
    fn begin(&self) -> u64;
    /// Whether the chain is still as it was when `seen` was given.
    fn holds(&self, seen: u64) -> bool;
    /// Ends reading; whether all that was read is one state of the chain.
    fn end(&self, seen: u64) -> bool;
    /// Begins changing; waits for others.
    fn lock(&self);
    /// Ends changing.
    fn unlock(&self);
}

/// Readers count themselves in: the read-write spin latch of the traditional pool.
#[derive(Debug, Default)]
pub struct SpinLatch(AtomicU32);

/// Bit of the one who changes, above the count of readers.
const CHANGING: u32 = 1 << 31;

impl BucketLatch for SpinLatch {
    #[inline(always)]
    fn begin(&self) -> u64 {
        let mut backoff = Backoff::new();
        // Acquire pairs with the Release of `unlock`.
        while self.0.fetch_add(1, Ordering::Acquire) & CHANGING != 0 {
            self.0.fetch_sub(1, Ordering::Relaxed);
            while {
                backoff.wait();
                self.0.load(Ordering::Relaxed) & CHANGING != 0
            } {}
        }
        0
    }

    #[inline(always)]
    fn holds(&self, _: u64) -> bool {
        true
    }

    /// Release pairs with the Acquire of `lock`: what was read stays before what changes.
    #[inline(always)]
    fn end(&self, _: u64) -> bool {
        self.0.fetch_sub(1, Ordering::Release);
        true
    }

    /// Readers that come now go away again; those that are there are waited for.
    fn lock(&self) {
        let mut backoff = Backoff::new();
        while self.0.fetch_or(CHANGING, Ordering::Acquire) & CHANGING != 0 {
            backoff.wait();
        }
        while self.0.load(Ordering::Acquire) != CHANGING {
            backoff.wait();
        }
    }

    fn unlock(&self) {
        self.0.fetch_and(!CHANGING, Ordering::Release);
    }
}

/// Readers store nothing: the version is odd while the chain is being changed, and they look at it
/// before and after (predictive-translation.txt 4.2). 64 bits do not come round.
#[derive(Debug, Default)]
pub struct VersionLatch(AtomicU64);

impl BucketLatch for VersionLatch {
    /// Acquire pairs with the Release of `unlock`.
    #[inline(always)]
    fn begin(&self) -> u64 {
        let seen = self.0.load(Ordering::Acquire);
        if seen & 1 == 0 { seen } else { self.await_even() }
    }

    #[inline(always)]
    fn holds(&self, seen: u64) -> bool {
        self.end(seen)
    }

    /// The fence keeps what was read before the second look; it pairs with the one in `lock`.
    #[inline(always)]
    fn end(&self, seen: u64) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == seen
    }

    fn lock(&self) {
        let mut backoff = Backoff::new();
        while self.0.fetch_or(1, Ordering::Acquire) & 1 != 0 {
            backoff.wait();
        }
        // The odd version is visible before any change: an Acquire alone would let changes
        // overtake it.
        fence(Ordering::Release);
    }

    fn unlock(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl VersionLatch {
    #[cold]
    fn await_even(&self) -> u64 {
        let mut backoff = Backoff::new();
        loop {
            backoff.wait();
            let seen = self.0.load(Ordering::Acquire);
            if seen & 1 == 0 {
                return seen;
            }
        }
    }
}

/// A bucket locked; unlocks when it goes.
struct Locked<'a, L: BucketLatch>(&'a L);

impl<'a, L: BucketLatch> Locked<'a, L> {
    fn new(latch: &'a L) -> Locked<'a, L> {
        latch.lock();
        Locked(latch)
    }
}

impl<L: BucketLatch> Drop for Locked<'_, L> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

/// A whole table, borrowed from where it lies. Slot 0 is none; `spare` are the unused ones.
#[derive(Debug)]
pub struct Chains<'a, L, F> {
    pub(crate) buckets: &'a [Bucket<L, F>],
    pub(crate) slots: &'a [Slot],
    pub(crate) spare: &'a FreeList,
}

impl<'a, L: BucketLatch, F: First> Chains<'a, L, F> {
    /// The page's state and what its word was; `bucket` is that of its hash.
    #[inline(always)]
    pub(crate) fn find(&self, bucket: usize, page: PageId) -> Option<(&'a StateCell, StateWord)> {
        let bucket = &self.buckets[bucket];
        loop {
            let seen = bucket.latch.begin();
            if let Some(first) = bucket.first.entry()
                && first.is(page)
            {
                let word = first.cell.read();
                if bucket.latch.end(seen) {
                    return Some((&first.cell, word));
                }
                continue;
            }
            let found = self.walk(bucket, seen, page);
            if bucket.latch.end(seen) {
                return found;
            }
        }
    }

    /// Looks for the page behind a bucket. Each step ends the walk if the chain has changed: a
    /// slot that was taken out may lead anywhere by now.
    #[inline(always)]
    fn walk(
        &self,
        bucket: &Bucket<L, F>,
        seen: u64,
        page: PageId,
    ) -> Option<(&'a StateCell, StateWord)> {
        let mut next = bucket.next.load(Ordering::Acquire);
        while next != 0 && bucket.latch.holds(seen) {
            let slot = &self.slots[next as usize];
            if slot.entry.is(page) {
                return Some((&slot.entry.cell, slot.entry.cell.read()));
            }
            next = slot.next.load(Ordering::Acquire);
        }
        None
    }

    /// How many entries a chain has; for statistics, beside whatever others do to it.
    pub(crate) fn length(&self, bucket: &Bucket<L, F>) -> usize {
        let mut length = usize::from(bucket.first().is_some_and(|first| !first.page().is_null()));
        let seen = bucket.latch.begin();
        let mut next = bucket.next.load(Ordering::Acquire);
        while next != 0 && bucket.latch.holds(seen) {
            length += 1;
            next = self.slots[next as usize].next.load(Ordering::Acquire);
        }
        bucket.latch.end(seen);
        length
    }

    /// F5: an entry for the page, claimed. `None` if it has one.
    pub(crate) fn claim(&self, bucket: usize, page: PageId) -> Option<&'a StateCell> {
        self.add(bucket, page, StateCell::claim)
    }

    /// An entry for a page whose word moves here, held exclusively. `None` if it has one.
    pub(crate) fn receive(
        &self,
        bucket: usize,
        page: PageId,
        held: StateWord,
    ) -> Option<&'a StateCell> {
        self.add(bucket, page, |cell| cell.receive(held))
    }

    fn add(
        &self,
        bucket: usize,
        page: PageId,
        begin: impl FnOnce(&StateCell) -> bool,
    ) -> Option<&'a StateCell> {
        let bucket = &self.buckets[bucket];
        let _locked = Locked::new(&bucket.latch);
        let known = bucket.first.entry().is_some_and(|first| first.is(page));
        if known || self.find_link(bucket, page).is_some() {
            return None;
        }
        if let Some(first) = bucket.first.entry().filter(|first| first.page().is_null()) {
            return first.take(page, begin);
        }
        // TABLE-3: there is a slot for each frame, though a look can miss one that comes back just now.
        let mut backoff = Backoff::new();
        let index = loop {
            match self.spare.take() {
                Some(index) => break index,
                None => backoff.wait(),
            }
        };
        let slot = &self.slots[index.get() as usize];
        let taken = slot.entry.take(page, begin);
        slot.next.store(bucket.next.load(Ordering::Relaxed), Ordering::Relaxed);
        // Release pairs with the Acquire of `walk`.
        bucket.next.store(index.get(), Ordering::Release);
        taken
    }

    /// The link that leads to the page's slot. The caller has the bucket locked, so that the answer
    /// stays true (`ENTRY-2`).
    fn find_link(&self, bucket: &'a Bucket<L, F>, page: PageId) -> Option<&'a AtomicU32> {
        let mut link = &bucket.next;
        loop {
            let at = link.load(Ordering::Relaxed);
            if at == 0 {
                return None;
            }
            let slot = &self.slots[at as usize];
            if slot.entry.is(page) {
                return Some(link);
            }
            link = &slot.next;
        }
    }

    /// Ends the entry of a page: `end` makes its word 0.
    pub(crate) fn remove(&self, bucket: usize, page: PageId, end: impl FnOnce(&StateCell)) {
        let bucket = &self.buckets[bucket];
        let locked = Locked::new(&bucket.latch);
        if let Some(first) = bucket.first.entry().filter(|first| first.is(page)) {
            first.leave(end);
            return;
        }
        let Some(link) = self.find_link(bucket, page) else {
            debug_assert!(false, "TABLE-1: {page} has no entry");
            return;
        };
        let at = link.load(Ordering::Relaxed);
        let slot = &self.slots[at as usize];
        slot.entry.leave(end);
        link.store(slot.next.load(Ordering::Relaxed), Ordering::Release);
        drop(locked);
        self.spare.put(FrameId::new(at));
    }
}

impl Entry {
    /// The page id before the word: who sees the word in flight sees whose it is.
    fn take(&self, page: PageId, begin: impl FnOnce(&StateCell) -> bool) -> Option<&StateCell> {
        self.page.store(page.to_bits(), Ordering::Release);
        let begun = begin(&self.cell);
        debug_assert!(begun, "ENTRY-1: {page} got an entry in use");
        begun.then_some(&self.cell)
    }

    fn leave(&self, end: impl FnOnce(&StateCell)) {
        end(&self.cell);
        debug_assert!(self.cell.peek().is_evicted());
        self.page.store(0, Ordering::Release);
    }
}
