//! The metadata of all frames of a pool.

use crate::error::PoolError;
use crate::memory::{OS_PAGE_BYTES, Reservation};
use crate::meta::{FRAME_META_BYTES, FrameMeta};
use crate::state::FrameId;

/// What is known of each frame; frame 0 does not exist.
#[derive(Debug)]
pub(crate) struct Metas {
    memory: Reservation,
    count: u32,
}

impl Metas {
    /// For so many frames, none of which holds a page.
    pub(crate) fn new(count: u32) -> Result<Metas, PoolError> {
        let bytes = (count as usize + 1) * FRAME_META_BYTES;
        Ok(Metas { memory: Reservation::new("frame metadata", bytes, OS_PAGE_BYTES)?, count })
    }

    #[inline(always)]
    pub(crate) fn of(&self, frame: FrameId) -> &FrameMeta {
        debug_assert!(frame.get() <= self.count);
        // SAFETY: `count + 1` metas were reserved, zeroed memory is a valid one, and they live as
        // long as `self`.
        unsafe { self.memory.base().cast::<FrameMeta>().add(frame.get() as usize).as_ref() }
    }
}
