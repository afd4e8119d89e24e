//! The traditional buffer pool: a chained hash table with a latch on each bucket. The baseline.
//!
//! 1. The page id's hash names a bucket (two for each frame).
//! 2. The bucket's read-write spin latch is taken shared: a locked instruction.
//! 3. The chain is walked from header to header until one has the page id.
//! 4. The header's state word says in which frame the page is; the latch is released.
//!
//! A lookup makes three loads that depend on each other (bucket, header, page) and two locked
//! instructions. `predictive` takes this apart, step by step.

#![cfg(not(loom))]

use std::num::NonZeroU32;

use polder_format::PageId;

use super::parts::bucket_latch::SpinLatch;
use super::parts::chain::Apart;
use super::parts::chain_table::ChainTable;
use super::parts::directory::TableDirectory;
use super::parts::page_hash::PageHash;
use super::seam::{Translation, TranslationConfig};
use crate::error::PoolError;
use crate::frame::Frames;
use crate::latch::Resolved;
use crate::page::{LinkRef, PageRef};

/// The traditional pool: a chained table with a latch on each bucket.
#[derive(Debug)]
pub struct Hash {
    table: ChainTable<SpinLatch, Apart>,
}

impl Hash {
    /// How many chains of a table with so many buckets would have how many entries: element `n` is the number
    /// of chains with `n` entries.
    pub fn chain_lengths(&self, buckets: NonZeroU32) -> Vec<u64> {
        self.table.chain_lengths(buckets)
    }
}

impl Translation for Hash {
    const NAME: &'static str = "hash";
    type Words = ChainTable<SpinLatch, Apart>;

    fn new(config: TranslationConfig) -> Result<Hash, PoolError> {
        Ok(Hash { table: ChainTable::of_frames(config.frames)? })
    }

    fn words(&self) -> &Self::Words {
        &self.table
    }

    #[inline(always)]
    fn prefetch<'p>(
        &'p self,
        _: &'p Frames,
        _: &'p TableDirectory,
        link: LinkRef<'_>,
    ) -> Option<PageRef<'p>> {
        self.table.prefetch(PageHash::of(PageId::from_link(link.load())));
        None
    }

    /// Steps 1 to 4.
    #[inline(always)]
    fn resolve<'p>(
        &'p self,
        frames: &'p Frames,
        _: &'p TableDirectory,
        link: LinkRef<'_>,
    ) -> Option<Resolved<'p>> {
        let page = PageId::from_link(link.load());
        let (cell, word) = self.table.find(PageHash::of(page), page)?;
        let frame = word.frame();
        Some(Resolved { cell, word, frame, page: frames.page(frame), misplaced: false })
    }
}
