//! What is found where a link leads.

#![cfg(not(loom))]

use crate::latch::state::{FrameId, StateCell, StateWord};
use crate::page::PageRef;

/// What a link leads to: the answer of [`Translation::resolve`](crate::Translation::resolve). The
/// word was read before the frame (a frame read before the word may belong to the page's last
/// life).
#[derive(Debug, Clone, Copy)]
pub struct Resolved<'p> {
    /// The page's state word, where it lies.
    pub cell: &'p StateCell,
    /// What the state word was when it was read. Only if it is readable does the frame mean
    /// something.
    pub word: StateWord,
    /// The frame that holds the page.
    pub frame: FrameId,
    /// The page's bytes.
    pub page: PageRef<'p>,
    /// Whether the page is in another frame than it prefers, or its link says.
    pub misplaced: bool,
}
