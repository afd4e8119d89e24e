//! Per-group pins: for each group of cores an array of slices, one for each frame.
//!
//! What a slice means and how holds and exclusive latches keep out of each other's way is in
//! `slice.rs`; here is the memory, and which slice a thread takes. The slices of one group lie
//! together (scalecache-2025 3.1), two bytes a frame: a slice of its own cache line for each frame
//! and group would take thirty times as much, and neighbours in a line share it only among cores
//! that share a cache anyway.
//!
//! * `PINS-1` Arrays of two groups have no cache line in common, nor a pair of lines that is
//!   fetched together.

#![cfg(not(loom))]

use crate::error::PoolError;
use crate::latch::state::{FrameId, StateCell, StateWord};
use crate::machine::{GroupNo, Grouping, Groups, Mapping, OS_PAGE_BYTES};
use crate::read_mode::ReadMode;

use super::slice::{Slice, all_free, all_left};

/// `PINS-1`: two cache lines, which many processors fetch as one.
const APART_BYTES: usize = 128;
const SLICE_BYTES: usize = size_of::<Slice>();

/// How cores are grouped in this read mode; none if readers do not count themselves by cores.
pub(crate) fn grouping(hold: ReadMode) -> Option<Grouping> {
    match hold {
        ReadMode::Optimistic | ReadMode::Shared => None,
        ReadMode::Group | ReadMode::Copy => Some(Grouping::ByCache),
        ReadMode::GroupOf(size) | ReadMode::CopyOf(size) => {
            Some(Grouping::AtMost(size.cores().into()))
        }
        ReadMode::Core => Some(Grouping::AtMost(1)),
    }
}

/// The holders of each frame, counted by groups of cores.
#[derive(Debug)]
pub(crate) struct GroupPins {
    slices: Mapping,
    /// Bytes from one group's array to the next.
    stride: usize,
    frames: u32,
    groups: Groups,
}

/// A frame whose page is held: to be given to [`GroupPins::release`], once.
#[derive(Debug)]
#[must_use = "a page that is never released is held for ever"]
pub(crate) struct Held {
    frame: FrameId,
    /// `HOLD-3`.
    group: GroupNo,
}

impl GroupPins {
    /// For frames 1 to `frames`, none held.
    ///
    /// # Errors
    /// [`PoolError::Memory`] if the kernel gives no addresses.
    pub(crate) fn new(frames: u32, groups: Groups) -> Result<GroupPins, PoolError> {
        let stride = ((frames as usize + 1) * SLICE_BYTES).next_multiple_of(APART_BYTES);
        let bytes = stride * groups.count();
        let slices = Mapping::new("pins by groups of cores", bytes, OS_PAGE_BYTES)?;
        Ok(GroupPins { slices, stride, frames, groups })
    }

    /// Bytes that each frame costs with these groups.
    pub(crate) fn bytes_with(groups: &Groups) -> u64 {
        (SLICE_BYTES * groups.count()) as u64
    }

    /// The groups of cores.
    #[cfg(test)]
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    #[inline(always)]
    fn slice(&self, group: GroupNo, frame: FrameId) -> &Slice {
        debug_assert!(frame.get() <= self.frames && group.index() < self.groups.count());
        let at = group.index() * self.stride + frame.get() as usize * SLICE_BYTES;
        // SAFETY: there are `count` arrays of `stride` bytes, each with a slice for every frame of
        // the pool and frame 0. Zeroed memory is a valid slice, two bytes at an even address, and
        // lives as long as `self`.
        unsafe { self.slices.base().add(at).cast::<Slice>().as_ref() }
    }

    /// Holds the page of `cell`, which was `seen` and is in `frame`: until it is released nobody
    /// gets it exclusively. `None` if it is not readable, or no longer as it was seen, or is held
    /// from here by too many; waits for nothing.
    ///
    /// A caller that does not know when `seen` was read compares the pool's wrap count afterwards,
    /// as one that upgrades does. A holder that wants the page exclusively must release it first.
    #[inline(always)]
    pub(crate) fn hold(&self, frame: FrameId, cell: &StateCell, seen: StateWord) -> Option<Held> {
        self.hold_in(self.groups.here(), frame, cell, seen)
    }

    #[inline(always)]
    fn hold_in(
        &self,
        group: GroupNo,
        frame: FrameId,
        cell: &StateCell,
        seen: StateWord,
    ) -> Option<Held> {
        let held = seen.can_be_held() && self.slice(group, frame).hold(cell, seen);
        held.then_some(Held { frame, group })
    }

    /// Ends a hold.
    #[inline(always)]
    pub(crate) fn release(&self, held: Held) {
        self.slice(held.group, held.frame).release();
    }

    /// Whether nobody holds the page in this frame. For a caller that has its word exclusive
    /// (`HOLD-2`): true once is true until it releases the word; a caller that gets false looks
    /// again, or puts the word back unchanged.
    #[inline]
    pub(crate) fn is_free(&self, frame: FrameId) -> bool {
        all_free(self.groups.all().map(|group| self.slice(group, frame)))
    }

    /// Whether nobody holds this frame, which was retired (`COW-3`).
    pub(crate) fn is_left(&self, frame: FrameId) -> bool {
        all_left(self.groups.all().map(|group| self.slice(group, frame)))
    }
}

#[cfg(test)]
mod tests;
