//! The frames of a pool, and which threads may have them.

#![cfg(not(loom))]

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

/// The frames of a pool.
#[derive(Debug)]
pub(crate) struct FramePool {
    /// Their bytes.
    pub(crate) memory: Frames,
    /// Those without a page, by the node on which their memory is.
    pub(crate) free: Partitions,
    /// Those of the partitions, in their order.
    pub(crate) nodes: Nodes,
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
    /// How many frames were taken while the page provider made one sweep, of late.
    pub(crate) demand: AtomicUsize,
}

impl FramePool {
    /// The partition of the node on which the calling thread was running a moment ago.
    pub(crate) fn here(&self) -> PartitionNo {
        match self.free.is_cut() {
            true => PartitionNo::new(self.nodes.here()),
            false => PartitionNo::FIRST,
        }
    }
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
