//! The seam: how a link becomes a frame.
//!
//! A translation owns the map and the memory of the state words. It resolves a link *in its place*
//! (a page and the offset in it), not a page id by value, so that one which writes into links can
//! stand beside the tables. The rest of the pool speaks to the state word alone.
//!
//! | name | from | in one line |
//! |---|---|---|
//! | [`Array`] | calico.txt | an array of state words indexed by page number, hole-punched; the default |
//! | [`Direct`] | the limit | the page number is the frame; nothing is ever evicted; the yardstick |
//!
//! `hash`, `predictive`, `simd`, `vm` and `swizzle` will be files beside these.

mod array;
mod chunks;
mod direct;
mod group;

use std::fmt::Debug;
use std::sync::Arc;

use polder_format::{PageId, PageNo, SpaceId};

use crate::bytes::PageRef;
use crate::error::PoolError;
use crate::parking::ParkingLot;
use crate::state::{FrameId, StateCell, StateWord};

pub use array::Array;
pub use direct::Direct;
pub use group::GroupCounter;

/// A reference to a page, where it stands.
#[derive(Debug, Clone, Copy)]
pub enum LinkRef<'a> {
    /// At this offset (a multiple of 8) in this page.
    InPage(PageRef<'a>, usize),
    /// In memory, by value: the root of a structure.
    Root(PageId),
}

impl LinkRef<'_> {
    /// The 64 bits of the link.
    #[inline(always)]
    pub fn load(self) -> u64 {
        match self {
            LinkRef::InPage(page, at) => page.u64(at),
            LinkRef::Root(page) => page.to_bits(),
        }
    }
}

/// What a link leads to. The word was read before the frame (a frame read before the word may
/// belong to the page's last life).
#[derive(Debug, Clone, Copy)]
pub struct Resolved<'p> {
    /// The page's state.
    pub cell: &'p StateCell,
    /// What it was. Only if it is readable does the frame mean something.
    pub word: StateWord,
    /// Where the page is.
    pub frame: FrameId,
}

/// A page that is being loaded or made, by the one who holds this.
#[derive(Debug)]
pub struct Claim<'p> {
    /// Its state.
    pub cell: &'p StateCell,
    /// Where it is counted, if the translation counts.
    group: Option<&'p GroupCounter>,
}

/// Where a page wants to lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Here if the frame is free, else anywhere.
    Prefer(FrameId),
    /// Nowhere but here.
    Fixed(FrameId),
}

/// Memory of a translation in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Footprint {
    /// The map itself.
    pub translation_bytes: u64,
    /// Page tables that the kernel needs for the map.
    pub page_table_bytes: u64,
    /// Hole punches so far.
    pub hole_punches: u64,
}

/// What the pool tells a translation at the beginning.
#[derive(Debug, Clone, Copy)]
pub struct TranslationConfig {
    /// Frames that the budget pays for.
    pub frames: u32,
}

/// A way from a link to a frame.
pub trait Translation: Debug + Sized + Send + Sync + 'static {
    /// What users call it.
    const NAME: &'static str;
    /// Whether pages can be evicted.
    const EVICTS: bool;
    /// What the handle of an open space carries, so that no prefix needs to be looked up.
    type Directory: Debug + Send + Sync + 'static;

    /// A translation for this many frames.
    fn new(config: TranslationConfig) -> Result<Self, PoolError>;

    /// How many frames there must be (addresses, not memory).
    fn frame_range(config: TranslationConfig) -> u32 {
        config.frames
    }

    /// A directory for a space that has none.
    fn open(&self, space: SpaceId) -> Result<Arc<Self::Directory>, PoolError>;

    /// The hot path: where a link leads. `None` if no page near there was ever resident.
    fn resolve<'p>(
        &'p self,
        directory: &'p Self::Directory,
        link: LinkRef<'_>,
    ) -> Option<Resolved<'p>>;

    /// The state of a page, if there is a word for it.
    fn state<'p>(&'p self, directory: &'p Self::Directory, page: PageNo) -> Option<&'p StateCell>;

    /// The frame of a page whose resident word was read.
    fn frame(&self, directory: &Self::Directory, page: PageNo, word: StateWord) -> FrameId;

    /// Where the page wants to lie; makes room for its word.
    fn place(&self, directory: &Self::Directory, page: PageNo) -> Result<Placement, PoolError>;

    /// F4 and F5: claims the page for the caller. `None` if it is resident or in flight.
    fn claim<'p>(
        &'p self,
        directory: &'p Self::Directory,
        page: PageNo,
    ) -> Result<Option<Claim<'p>>, PoolError>;

    /// Ends a claim without a page.
    fn abandon(&self, claim: Claim<'_>, lot: &ParkingLot);

    /// E7 and E8: the page, held exclusively, is no longer resident.
    fn retire(&self, directory: &Self::Directory, page: PageNo);

    /// Calls `visit` for each page of the space whose word is not zero.
    fn for_each_present(
        &self,
        directory: &Self::Directory,
        visit: &mut dyn FnMut(PageNo, &StateCell),
    );

    /// Whether no page of the space is resident, in flight or about to be.
    fn is_quiet(&self, directory: &Self::Directory) -> bool;

    /// The space is gone and quiet: its memory can serve others.
    fn close(&self, directory: &Self::Directory);

    /// Frames from here on hold no page.
    fn frames_in_use(&self) -> u32 {
        u32::MAX
    }

    /// Memory used.
    fn footprint(&self) -> Footprint;
}
