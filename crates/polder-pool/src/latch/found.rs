//! What is found where a link leads.

#![cfg(not(loom))]

use crate::latch::state::{FrameId, StateCell, StateWord};
use crate::page::PageRef;

/// What a link leads to. The word was read before the frame (a frame read before the word may
/// belong to the page's last life).
#[derive(Debug, Clone, Copy)]
pub struct Resolved<'p> {
    /// The page's state.
    pub cell: &'p StateCell,
    /// What it was. Only if it is readable does the frame mean something.
    pub word: StateWord,
    /// The frame that holds the page.
    pub frame: FrameId,
    /// The page's bytes.
    pub page: PageRef<'p>,
    /// Whether the page is in another frame than it prefers, or its link says.
    pub misplaced: bool,
}
