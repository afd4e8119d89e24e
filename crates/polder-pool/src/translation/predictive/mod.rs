//! Predictive translation (predictive-2026): the hash table of the traditional pool, laid
//! out so that the processor predicts where a page is, and reads it while it still looks it up.
//!
//! 1. The page id says which frame the page *prefers*: that is where it lies if it can (section 3).
//! 2. The id's hash names a bucket, whose version is read; no latch is taken (4.2).
//! 3. The first entry of the chain lies in the bucket itself, and mostly is the page's (4.1); else
//!    the chain is walked. The version is read again: if it has changed, from 2 once more.
//! 4. If the entry's word names the preferred frame, code goes on with the number of step 1 behind
//!    a predicted branch: so the load of the page began beside that of the bucket. If not, with the
//!    frame in the word: a mispredicted branch.
//! 5. A page that is found elsewhere moves to its preferred frame now and then (3.2, 5.1;
//!    `promote.rs`), and a page that is loaded gets it if it is free.
//!
//! Steps can be left out, to measure what each is worth: `steps.rs`.

#![cfg(not(loom))]

mod steps;

use std::marker::PhantomData;
use std::num::NonZeroU32;

use polder_format::{PageId, PageNo};

use super::parts::chain_table::ChainTable;
use super::parts::directory::TableDirectory;
use super::parts::page_hash::PageHash;
use super::parts::preferred::{Preference, speculate};
use super::seam::{ReadModes, Translation, TranslationConfig};
use crate::error::PoolError;
use crate::frame::Frames;
use crate::latch::{FrameId, Resolved};
use crate::page::{LinkRef, PageRef};

pub use steps::{
    HashInlined, HashOptimistic, HashOptimisticInlined, HashPreferred, Predictive, PredictiveHashed,
};
use steps::{Prefers, Steps};

/// Translation by a chained hash table with some steps of predictive-2026, or all: [`Predictive`],
/// and the types between [`type@Hash`](crate::Hash) and it.
#[derive(Debug)]
pub struct Predicting<S: Steps> {
    table: ChainTable<S::Latch, S::First>,
    /// Those that pages may prefer.
    frames: u32,
    preference: Preference,
    steps: PhantomData<S>,
}

impl<S: Steps> Predicting<S> {
    /// Step 1.
    #[inline(always)]
    fn preferred_by(&self, page: PageId, hash: PageHash) -> FrameId {
        match S::PREFERS {
            Prefers::ByRemainder => self.preference.of_page(page),
            Prefers::Nothing | Prefers::ByHash => FrameId::new(hash.also_below(self.frames) + 1),
        }
    }

    /// How many chains of a table with so many buckets would have how many entries: element `n` is the number
    /// of chains with `n` entries (figure 10).
    pub fn chain_lengths(&self, buckets: NonZeroU32) -> Vec<u64> {
        self.table.chain_lengths(buckets)
    }
}

impl<S: Steps> Translation for Predicting<S> {
    const NAME: &'static str = S::NAME;
    const READ_MODES: ReadModes = if S::PREDICTS {
        ReadModes::no_slices(
            "the locked instruction of a hold stands between the guess where a page is and the page, \
             and keeps the processor from reading ahead",
        )
    } else {
        ReadModes::ALL
    };
    type Words = ChainTable<S::Latch, S::First>;

    fn new(config: TranslationConfig) -> Result<Predicting<S>, PoolError> {
        let frames = config.first_frames;
        let table = ChainTable::of_frames(config.frames)?;
        let preference = Preference::of(frames);
        Ok(Predicting { table, frames, preference, steps: PhantomData })
    }

    fn words(&self) -> &Self::Words {
        &self.table
    }

    #[inline(always)]
    fn prefetch<'p>(
        &'p self,
        frames: &'p Frames,
        _: &'p TableDirectory,
        link: LinkRef<'_>,
    ) -> Option<PageRef<'p>> {
        let page = PageId::from_link(link.load());
        let hash = PageHash::of(page);
        self.table.prefetch(hash);
        S::PREDICTS.then(|| frames.page(self.preferred_by(page, hash)))
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
        let hash = PageHash::of(page);
        let (cell, word) = self.table.find(hash, page)?;
        let (frame, misplaced) = match S::PREDICTS {
            true => speculate(word, self.preferred_by(page, hash)),
            false => (word.frame(), false),
        };
        Some(Resolved { cell, word, frame, page: frames.page(frame), misplaced })
    }

    #[inline(always)]
    fn preferred(&self, directory: &TableDirectory, page: PageNo) -> Option<FrameId> {
        let page = directory.id(page);
        S::PREDICTS.then(|| self.preferred_by(page, PageHash::of(page)))
    }
}
