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
//! | [`type@Hash`] | the traditional pool | a chained table, a latch on each bucket, dependent loads; the baseline |
//! | [`Open`] | calico.txt, 3 | open addressing, a latch on each partition; the other baseline |
//! | [`Predictive`] | predictive-translation.txt | first entry in the bucket, no latch for readers, preferred frames |
//! | [`Simd`] | scalecache.txt, 3.3 | buckets of 16 fingerprints, compared at once; readers take no latch, and look first where the page prefers to lie |
//! | [`Vm`] | vmcache-n-tier.txt | the operating system's page table translates; 8 bytes of state for a page |
//! | [`Swizzle`] | leanstore.txt | a hot link holds the frame of its page; a table for the others |
//!
//! Between [`type@Hash`] and [`Predictive`] lie types with some of its steps (`chained.rs`);
//! [`ArraySwizzled`] is [`ArrayPlain`] with the frame in the link as a hint, and [`VmHuge`] is [`Vm`]
//! on huge pages, without eviction.

mod array;
mod chain;
mod chained;
mod chunks;
mod direct;
mod framed;
mod group;
mod guess;
mod open;
mod owner;
mod page_hash;
mod preferred;
mod simd;
mod swizzled;
mod tagged;
mod vm;

use std::fmt::Debug;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::Arc;

use polder_format::{PageId, PageNo, PageSize, SpaceId};

use crate::error::PoolError;
use crate::frames::Frames;
use crate::link::LinkRef;
use crate::memory::{HUGE_PAGE_BYTES, OS_PAGE_BYTES};
use crate::parking::ParkingLot;
use crate::state::{FrameId, StateCell, StateWord, Version};
use crate::swip::Swip;

pub use crate::found::Resolved;
pub use array::{Array, ArrayPlain, ArraySwizzled, Arrays};
pub use chained::{
    Chained, Hash, HashInlined, HashOptimistic, HashOptimisticInlined, HashPreferred, Predictive,
    PredictiveHashed,
};
pub use direct::Direct;
pub use framed::Framed;
pub use guess::Settles;
pub use open::Open;
pub(crate) use owner::Owner;
pub use simd::{Simd, SimdPlain};
pub use swizzled::Swizzle;
pub(crate) use swizzled::{Owners, RootSwip};
pub use vm::{VirtualMemory, Vm, VmHuge};

impl LinkRef<'_> {
    /// The page that it leads to, if it stands in this space. It may be hot ([`Swip`]).
    pub(crate) fn target(self, space: SpaceId) -> PageId {
        Swip::new(self.load()).page(space)
    }
}

/// A page that is being loaded or made, by the one who holds this.
#[derive(Debug)]
pub struct Claim<'p> {
    /// Its state.
    pub cell: &'p StateCell,
    /// The frame that the claimer has for it.
    frame: FrameId,
    /// Where the array counts it: chunk and entry.
    place: Option<(&'p array::Chunk, u64)>,
}

/// Where a page wants to lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Wherever there is a frame.
    Anywhere,
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
    /// System calls so far that gave memory of evicted pages back to the kernel.
    pub give_backs: u64,
}

impl Footprint {
    /// Of tables on huge pages, which need a page table for each of those.
    fn on_huge_pages(bytes: u64) -> Footprint {
        Footprint {
            translation_bytes: bytes,
            page_table_bytes: bytes.div_ceil(HUGE_PAGE_BYTES as u64) * OS_PAGE_BYTES as u64,
            ..Footprint::default()
        }
    }
}

/// What the pool tells a translation at the beginning.
#[derive(Debug, Clone, Copy)]
pub struct TranslationConfig {
    /// Frames that the budget pays for.
    pub frames: u32,
    /// Size of all pages.
    pub page_size: PageSize,
}

/// A way from a link to a frame.
pub trait Translation: Debug + Sized + Send + Sync + 'static {
    /// What users call it.
    const NAME: &'static str;
    /// Whether pages can be evicted.
    const EVICTS: bool;
    /// Whether the page alone decides on its frame. Then frames are addresses, more than the budget
    /// pays for, and those in use are counted.
    const FIXED_FRAMES: bool = false;
    /// Whether the bytes of pages lie in the translation's memory and not in the frames.
    const OWNS_PAGES: bool = false;
    /// Whether the memory of a page that leaves goes back to the kernel.
    const GIVES_BACK: bool = false;
    /// What becomes of a page that is found astray.
    const SETTLES: Settles = Settles::Not;
    /// Why readers cannot hold pages by slices here, if they cannot.
    const NOT_BY_SLICES: Option<&'static str> = None;
    /// Why pages cannot be changed in copies here, which readers hold by slices, if they cannot.
    const NOT_BY_COPY: Option<&'static str> = Self::NOT_BY_SLICES;
    /// What the handle of an open space carries, so that no prefix needs to be looked up.
    type Directory: Debug + Send + Sync + 'static;

    /// A translation for this many frames.
    fn new(config: TranslationConfig) -> Result<Self, PoolError>;

    /// How many frames there must be (addresses, not memory).
    fn frame_range(config: TranslationConfig) -> u32 {
        config.frames
    }

    /// Memory that the translation takes for a resident page, as the budget reckons it.
    fn bytes_per_frame() -> u64;

    /// A directory for a space that has none.
    fn open(&self, space: SpaceId) -> Result<Arc<Self::Directory>, PoolError>;

    /// The hot path: where a link leads. `None`, or a word of 0, if the page is not where it mostly
    /// is.
    fn resolve<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p Self::Directory,
        link: LinkRef<'_>,
    ) -> Option<Resolved<'p>>;

    /// Where a page is that `resolve` did not find where it looks first, for translations that keep
    /// some elsewhere.
    fn resolve_elsewhere<'p>(
        &'p self,
        _frames: &'p Frames,
        _directory: &'p Self::Directory,
        _page: PageNo,
    ) -> Option<Resolved<'p>> {
        None
    }

    /// The state of a page that is resident, in flight or about to be; `None` if it is not. The
    /// word may be another page's, or have moved, by the time it is looked at (`TABLE-2`).
    fn state<'p>(&'p self, directory: &'p Self::Directory, page: PageNo) -> Option<&'p StateCell>;

    /// Where the bytes of a page are that is in this frame.
    fn page_address(
        &self,
        frames: &Frames,
        _directory: &Self::Directory,
        _page: PageNo,
        frame: FrameId,
    ) -> NonNull<u8> {
        frames.address(frame)
    }

    /// Where the page wants to lie; makes room for its word.
    fn place(
        &self,
        frames: &Frames,
        directory: &Self::Directory,
        page: PageNo,
    ) -> Result<Placement, PoolError>;

    /// The frame that the page prefers, if it has one.
    fn preferred(&self, _directory: &Self::Directory, _page: PageNo) -> Option<FrameId> {
        None
    }

    /// F4 and F5: claims the page for the caller, who has this frame for it. `None` if it is
    /// resident or in flight.
    fn claim<'p>(
        &'p self,
        frames: &Frames,
        directory: &'p Self::Directory,
        page: PageNo,
        frame: FrameId,
    ) -> Result<Option<Claim<'p>>, PoolError>;

    /// Ends a claim without a page.
    fn abandon(
        &self,
        directory: &Self::Directory,
        page: PageNo,
        claim: Claim<'_>,
        lot: &ParkingLot,
    );

    /// E7 and E8: the page in this frame, held exclusively, is no longer resident.
    fn retire(&self, frames: &Frames, directory: &Self::Directory, page: PageNo, frame: FrameId);

    /// P5: the page, held exclusively, is in frame `to` from now on, which has this version, and
    /// nobody holds it. `to` is the caller's, and held no page.
    fn relocate(
        &self,
        _directory: &Self::Directory,
        _page: PageNo,
        (cell, held): (&StateCell, StateWord),
        (to, version): (FrameId, Version),
    ) {
        cell.release_moved(held, to, version);
    }

    /// Gives the memory behind these pages, which are held exclusively and about to be retired,
    /// back to the kernel, with as few calls as their neighbourhood allows.
    fn give_back(&self, _frames: &Frames, _pages: &mut [NonNull<u8>]) {}

    /// Calls `visit` for each page of the space whose word is not zero.
    fn for_each_present(&self, directory: &Self::Directory, visit: &mut dyn FnMut(PageNo));

    /// Whether no page of the space is resident, in flight or about to be.
    fn is_quiet(&self, directory: &Self::Directory) -> bool;

    /// The space is gone and quiet: its memory can serve others.
    fn close(&self, directory: &Self::Directory);

    /// Frames from here on hold no page.
    fn frames_in_use(&self) -> u32 {
        u32::MAX
    }

    /// Whose links are hot, where a page must not go while one is.
    fn owners(&self) -> Option<&Owners> {
        None
    }

    /// The link of a space to its root, where that can be hot.
    fn root_swip(_: &Self::Directory) -> Option<&RootSwip> {
        None
    }

    /// How many chains have how many entries, where there are chains: element 0 counts the empty
    /// ones (predictive-translation.txt, figure 10). With `buckets` they are those of a table that
    /// had so many.
    fn chain_lengths(&self, _buckets: Option<NonZeroU32>) -> Option<Vec<u64>> {
        None
    }

    /// Memory used.
    fn footprint(&self) -> Footprint;

    /// Bytes of pages that huge pages back.
    fn huge_bytes(&self, frames: &Frames) -> u64 {
        frames.huge_bytes()
    }
}
