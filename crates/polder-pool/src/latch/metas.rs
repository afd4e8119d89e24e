//! The metadata of all frames of a pool.

#![cfg(not(loom))]

use crate::error::PoolError;
use crate::latch::meta::FrameMeta;
use crate::latch::state::FrameId;
use crate::machine::{OS_PAGE_BYTES, Table, Zeroed};

/// What is known of each frame; frame 0 does not exist.
#[derive(Debug)]
pub(crate) struct Metas(Table<FrameMeta>);

// SAFETY: all zero is a frame without a page, and it is atomics throughout.
unsafe impl Zeroed for FrameMeta {}

impl Metas {
    /// For so many frames, none of which holds a page.
    pub(crate) fn new(count: u32) -> Result<Metas, PoolError> {
        Ok(Metas(Table::new("frame metadata", count as usize + 1, OS_PAGE_BYTES)?))
    }

    #[inline(always)]
    pub(crate) fn of(&self, frame: FrameId) -> &FrameMeta {
        // SAFETY: there is one for each frame and one more, and words only ever bear frames of
        // this pool: those that the free list gave.
        unsafe { self.0.get_unchecked(frame.get() as usize) }
    }
}
