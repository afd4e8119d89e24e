//! What swizzling keeps beside the links: state words by frame with the table of `simd`, and owners.

#![cfg(not(loom))]

use super::owners::{Owners, RootSwip};
use crate::translation::parts::by_frame::ByFrame;
use crate::translation::simd::SimdTable;

/// Pointer swizzling: a hot page is found by the link that leads to it, and only others by a table.
#[derive(Debug)]
pub struct Swizzle {
    pub(super) words: ByFrame<SimdTable, RootSwip>,
    pub(super) owners: Owners,
}
