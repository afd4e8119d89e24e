//! Tiers of memory: frames in fast memory, frames in slower memory, and then the device
//! (vmcache-n-2026, 2; Spitfire, SIGMOD 2021).
//!
//! The frames of a tier are a run of frame numbers, and a partition with free frames of its own
//! (`frame/partitions.rs`). The first tier is the fastest. A page lies in one tier at a time. It
//! *migrates*: it is *promoted* to the next faster tier, or *demoted* to the next slower one, by a copy
//! and one store of its word, without the kernel, its page tables and its shootdowns (`paging/migrate.rs`).
//! Where a page has one address (`vm`) it keeps that, and the kernel moves the memory behind it, a batch
//! of pages by one call (`paging/migration_batch.rs`). From each tier pages are evicted to the device.
//!
//! Each tier has a replacement policy of its own, for its frames. What goes where is drawn, with four
//! probabilities ([`Migration`]): whether a page that comes from the device goes to the slower tier
//! (Rr), whether one that makes room in its tier is demoted or leaves memory (Rw), and whether an
//! access (Dr) or a change (Dw) that finds a page in a slower tier has it promoted. They are given, or
//! the pool tunes them (`tuner.rs`). What a scan has loaded and nobody used is never demoted.
//!
//! * `TIER-1` All pages of a slower tier bear the mark in their word, from the store that brings them
//!   there on, whatever the tier's policy wants; what that wants is in `OneTier::marks`. So the pool
//!   hears of each access to a slower tier, and of none to the first one that it would not hear of
//!   without tiers, but for a few observed pages (`TUNE-3`): a lookup in the first tier costs what
//!   it costs in a pool of one tier. (A mark that
//!   is missing all the same only lets an access go unheard.)
//! * `TIER-2` A thread that accesses a page moves none. It notes that the page is wanted; the page
//!   provider, which makes room in each tier, promotes what was noted, in batches, as long as the
//!   faster tier has more free frames than its low watermark: what is loaded next shall find some. So
//!   all migrations but demotions by a thread that finds no free frame are made by one thread, which
//!   holds nothing.
//! * `TIER-3` A frame of tier t is made free by eviction, by promotion to t - 1, or by demotion to
//!   t + 1 if that has a free frame at once: nobody waits for a frame of one tier while it holds one of
//!   another. The last tier only evicts, so that a chain of demotions ends.

#![cfg(not(loom))]

pub(crate) mod config;
mod costs;
mod observed;
pub(crate) mod tiered;
mod trial;
mod tuner;

/// A tier, counted from 0, the fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TierNo(usize);

impl TierNo {
    /// Where there is one, it is this.
    pub(crate) const FIRST: TierNo = TierNo(0);

    pub(crate) fn new(number: usize) -> TierNo {
        TierNo(number)
    }

    pub(crate) fn index(self) -> usize {
        self.0
    }

    /// The next faster one.
    pub(crate) fn faster(self) -> Option<TierNo> {
        self.0.checked_sub(1).map(TierNo)
    }
}

pub(crate) use tiered::Tiered;

pub(crate) use config::MOST_TIERS;
pub use config::{Migration, Tier, TierConfig};
