//! Chains of entries behind buckets: the table of `hash` and `predictive`
//! (predictive-2026, section 4), and of sparse groups of `array`.
//!
//! The rules are `TABLE-1` to `TABLE-4` (`parts/mod.rs`). What differs between the
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

use super::bucket_latch::{BucketLatch, Locked};
use crate::frame::FreeList;
use crate::latch::{FrameId, StateCell, StateWord};
use crate::sync::Backoff;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

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
        // TABLE-3: there is a slot for each frame, though a look can miss one that comes back just
        // now.
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
    /// The page id before the word: a thread that sees the word in flight sees whose it is.
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
