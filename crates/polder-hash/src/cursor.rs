//! Going through all entries, in the order of their hashes: in no order that means anything.
//!
//! A cursor holds no latch and no pin between steps. It keeps a copy of one bucket, taken as one state
//! of it, and gives out its entries from there; then it goes on to the bucket for the first hash
//! behind, whatever has been split or joined meanwhile. So:
//!
//! * `HCURSOR-1` Each key that is there all the time is given exactly once.
//! * `HCURSOR-2` Keys that come or go while the cursor is on its way are given or not; what is given was
//!   there, with that value, at some time since the cursor was made.

use std::fmt;

use polder_pool::bytes::PageBuf;
use polder_pool::{AccessHint, Translation};
use polder_structure::page::fail;

use crate::bucket::{BucketRef, Run};
use crate::chain::validate_all;
use crate::error::HashError;
use crate::handle::HashIndex;
use crate::hash::KeyHash;

/// Buckets that a cursor reads before it counts as a scan.
const SCAN_FROM: u32 = 4;

/// A way through all entries.
pub struct Cursor<T: Translation> {
    index: HashIndex<T>,
    /// The pages of the bucket, one if it has no chain.
    pages: Vec<PageBuf>,
    /// How many of them there are; the others are room for more.
    used: usize,
    /// The page and the entry that come next.
    page: usize,
    entry: usize,
    /// Entries below this hash were given before (`HCURSOR-1`): the bucket has been joined with another
    /// since.
    from: KeyHash,
    /// Where the bucket behind begins; `None` at the end.
    next: Option<KeyHash>,
    buckets: u32,
}

impl<T: Translation> fmt::Debug for Cursor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cursor({:?}, {:.1}%)", self.index, 100.0 * self.progress())
    }
}

/// An entry that a cursor lends until its next step.
pub type Entry<'c> = (&'c [u8], &'c [u8]);

impl<T: Translation> HashIndex<T> {
    /// A cursor in front of all entries, which come in no order. It reads nothing yet.
    pub fn cursor(&self) -> Cursor<T> {
        Cursor {
            index: self.clone(),
            pages: Vec::new(),
            used: 0,
            page: 0,
            entry: 0,
            from: KeyHash::new(0),
            next: Some(KeyHash::new(0)),
            buckets: 0,
        }
    }
}

impl<T: Translation> Cursor<T> {
    /// The next entry; `None` behind the last one. A step reads at most the pages of one bucket that is
    /// not empty, and all empty ones before it.
    ///
    /// # Errors
    /// Those of loading pages. The cursor stays where it is then.
    #[expect(clippy::should_implement_trait, reason = "it lends what it gives, and it can fail")]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, HashError> {
        while !self.stands() {
            let Some(from) = self.next else { return Ok(None) };
            self.load(from)?;
        }
        let entry = self.entry;
        self.entry += 1;
        let (bucket, bytes) = (self.bucket(), self.pages[self.page].bytes());
        let bytes = |run: Run| bytes.get(run.at..run.at + run.len).unwrap_or_default();
        Ok(Some((bytes(bucket.key(entry)), bytes(bucket.value(entry)))))
    }

    /// The share of the entries that have been given, about: 0 at the beginning, 1 at the end.
    pub fn progress(&self) -> f64 {
        self.next.map_or(1.0, |next| next.bits() as f64 / 2f64.powi(64))
    }

    fn bucket(&self) -> BucketRef<'_> {
        BucketRef::new(self.pages[self.page].page())
    }

    /// Goes to the next entry of the copy that was not given before. False if there is none.
    fn stands(&mut self) -> bool {
        let mut key = Vec::new();
        while self.page < self.used {
            let bucket = self.bucket();
            let known = bucket.prefix().first() >= self.from;
            let mut rest = self.entry..bucket.count();
            if let Some(entry) =
                rest.find(|entry| known || bucket.hash(*entry, &mut key) >= self.from)
            {
                self.entry = entry;
                return true;
            }
            self.page += 1;
            self.entry = 0;
        }
        false
    }

    /// Copies the bucket for a hash.
    fn load(&mut self, from: KeyHash) -> Result<(), HashError> {
        let hint = if self.buckets < SCAN_FROM { AccessHint::Normal } else { AccessHint::Scan };
        let (index, copies) = (&self.index, &mut self.pages);
        let (used, prefix) = index.space.run(hint, |attempt| {
            let pages = index.chain(attempt, from)?;
            while copies.len() < pages.len() {
                copies.push(PageBuf::new(index.space.page_size()));
            }
            for (copy, page) in copies.iter_mut().zip(&pages) {
                copy.copy_from(page.page());
            }
            let (first, prefix) = (pages[0], BucketRef::new(pages[0].page()).prefix());
            validate_all(&pages)?;
            if !prefix.covers(from) {
                return Err(fail(attempt, first.id(), "a bucket is not where its hashes are"));
            }
            Ok((pages.len(), prefix))
        })?;
        (self.used, self.page, self.entry) = (used, 0, 0);
        (self.from, self.next) = (from, prefix.end());
        self.buckets = self.buckets.saturating_add(1);
        Ok(())
    }
}
