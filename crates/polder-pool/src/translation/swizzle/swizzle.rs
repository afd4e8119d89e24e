//! What swizzling keeps beside the links: state words by frame with the table of `simd`, and owners.

#![cfg(not(loom))]

use polder_format::PageId;

use super::owners::Owners;
use crate::latch::state::{FrameId, StateCell};
use crate::translation::parts::by_frame::ByFrame;
use crate::translation::simd::SimdTable;

/// Pointer swizzling: a hot page is found by the link that leads to it, and only others by a table.
#[derive(Debug)]
pub struct Swizzle {
    pub(super) words: ByFrame<SimdTable>,
    pub(super) owners: Owners,
}

impl Swizzle {
    /// The frame that holds a page, and its state, by the table.
    pub(super) fn frame_of(&self, page: PageId) -> Option<(&StateCell, FrameId)> {
        let cell = self.words.state(page)?;
        let word = cell.read();
        word.is_readable().then(|| (cell, word.frame()))
    }
}
