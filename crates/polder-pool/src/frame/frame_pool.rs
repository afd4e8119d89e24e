//! The frames of a pool, and which threads may have them.

#![cfg(not(loom))]

use std::sync::Arc;

use crate::frame::admission::Admission;
use crate::frame::frames::Frames;
use crate::frame::moves::Moves;
use crate::frame::partitions::{PartitionNo, Partitions};
use crate::frame::retired::Retired;
use crate::frame::waiters::Waiters;
use crate::latch::FrameId;
use crate::machine::Nodes;
use crate::sync::CachePadded;
use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::tier::{MOST_TIERS, TierNo, Tiered};

/// The frames of a pool.
#[derive(Debug)]
pub(crate) struct FramePool {
    /// Their bytes.
    pub(crate) memory: Frames,
    /// Those without a page, by the node on which their memory is.
    pub(crate) free: Partitions,
    /// Those of the partitions, in their order.
    pub(crate) nodes: Nodes,
    /// The tiers, if there are several: the partitions are theirs then.
    pub(crate) tiered: Option<Arc<Tiered>>,
    /// Frames that the budget pays for.
    pub(crate) budget_frames: u32,
    /// Frames that pages decided on themselves (`direct`).
    pub(crate) fixed: Fixed,
    /// Frames that their pages left for a copy.
    pub(crate) retired: Retired,
    /// Whether pages may change their frames.
    pub(crate) moves: Moves,
    /// Which threads may go on while frames are short.
    pub(crate) admission: Admission,
    /// Those that found no free frame, while the page provider makes some.
    pub(crate) waiters: Waiters,
    /// How many frames of each tier were taken while the page provider made one sweep, of late.
    pub(crate) demand: [AtomicUsize; MOST_TIERS],
}

impl FramePool {
    /// The partition of the node on which the calling thread was running a moment ago.
    pub(crate) fn here(&self) -> PartitionNo {
        match self.is_cut_by_nodes() {
            true => PartitionNo::new(self.nodes.here()),
            false => PartitionNo::FIRST,
        }
    }

    /// The partition for a page that comes from the device.
    pub(crate) fn for_load(&self) -> PartitionNo {
        self.tiers().map_or_else(|| self.here(), |tiers| part_of(tiers.draw_for_load()))
    }

    /// The tiers, if there are several.
    #[inline(always)]
    pub(crate) fn tiers(&self) -> Option<&Tiered> {
        // Where a pool cannot have any the compiler leaves out what is done with them.
        if cfg!(feature = "tiers") { self.tiered.as_deref() } else { None }
    }

    /// How many tiers there are.
    pub(crate) fn tier_count(&self) -> usize {
        self.tiers().map_or(1, |tiers| tiers.count())
    }

    /// How many frames of a tier are free; of all where there is one.
    pub(crate) fn free_in(&self, tier: TierNo) -> usize {
        if self.tiers().is_some() { self.free.len_of(part_of(tier)) } else { self.free.len() }
    }

    /// Whether the partitions are those of nodes.
    pub(crate) fn is_cut_by_nodes(&self) -> bool {
        self.free.is_cut() && self.tiers().is_none()
    }

    /// This very frame, if it is free, for a page that prefers it; where there are tiers, only if the
    /// page is to go to its tier.
    pub(crate) fn take_preferred(&self, frame: FrameId, near: PartitionNo) -> bool {
        let may = self.tiers().is_none_or(|tiers| part_of(tiers.of(frame)) == near);
        may && self.free.take_this(frame)
    }

    /// A free frame of this tier for a page: the one that it prefers, if that is there.
    pub(crate) fn take_in(&self, tier: TierNo, preferred: Option<FrameId>) -> Option<FrameId> {
        let part = part_of(tier);
        let preferred = preferred.filter(|frame| self.free.of(*frame) == part);
        let free = preferred.filter(|frame| self.free.take_this(*frame));
        free.or_else(|| self.free.take_in(part, preferred))
    }
}

/// The partition of a tier's frames, where there are tiers.
pub(crate) fn part_of(tier: TierNo) -> PartitionNo {
    PartitionNo::new(tier.index())
}

/// Frames in use of which pages decide themselves: addresses, of which there are more than memory.
#[derive(Debug, Default)]
pub(crate) struct Fixed {
    in_use: CachePadded<AtomicU32>,
    highest: AtomicU32,
}

impl Fixed {
    /// Takes this frame, if no more than `most` are in use then.
    pub(crate) fn take(&self, frame: FrameId, most: u32) -> bool {
        let more = |n: u32| (n < most).then_some(n + 1);
        let taken = self.in_use.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if taken {
            self.highest.fetch_max(frame.get(), Ordering::Relaxed);
        }
        taken
    }

    /// How many of `most` are left.
    pub(crate) fn left(&self, most: u32) -> usize {
        most.saturating_sub(self.in_use.load(Ordering::Relaxed)) as usize
    }

    /// Gives one back.
    pub(crate) fn give_back(&self) {
        self.in_use.fetch_sub(1, Ordering::Relaxed);
    }

    /// The highest one that was ever taken.
    pub(crate) fn highest(&self) -> u32 {
        self.highest.load(Ordering::Relaxed)
    }
}
