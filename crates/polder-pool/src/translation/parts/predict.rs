//! Where a page is predicted to lie before anything is asked: nowhere, where its number says
//! (`preferred.rs`), or where the link says that leads to it (`swizzle/hints.rs`).
//!
//! The page's word, or the tag beside it, tells whether the prediction is right; so it may be
//! wrong, and nobody keeps it right for the sake of reads. The processor goes on with it
//! meanwhile.

#![cfg(not(loom))]

use std::fmt::Debug;

use polder_format::{PageId, SpaceId};

use crate::latch::{FrameId, Optimistic};
use crate::page::{LinkRef, PageKinds, PageRef};
use crate::translation::seam::{DirectoryOf, PoolContext, Translation, TranslationConfig};

/// What a prediction follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predicts {
    /// There is none.
    Nothing,
    /// The page's number: a page that is found elsewhere moves to the frame that it prefers.
    ByNumber,
    /// The link: one that led to a page elsewhere gets its frame.
    ByLink,
}

/// A way to predict the frame of a page, of a translation that looks there first.
pub trait Predict: Debug + Sized + Send + Sync + 'static {
    /// What the prediction follows from.
    const PREDICTS: Predicts;

    /// A prediction for a pool of so many frames.
    fn new(config: TranslationConfig) -> Self;

    /// [`Translation::target`].
    #[inline(always)]
    fn target(link: LinkRef<'_>, _space: SpaceId) -> PageId {
        PageId::from_link(link.load())
    }

    /// The page that a link in this space leads to, and where it may be: a frame that there is.
    fn predict(&self, link: LinkRef<'_>, space: SpaceId) -> (PageId, Option<FrameId>);

    /// The frame that the page prefers.
    #[inline(always)]
    fn preferred(&self, _page: PageId) -> Option<FrameId> {
        None
    }

    /// The event [`Translation::followed_unswizzled`], of a link in a page of this space.
    fn followed_unswizzled<T: Translation>(
        _translation: &T,
        _pool: &PoolContext<'_, T>,
        _directory: &DirectoryOf<T>,
        _link: (LinkRef<'_>, SpaceId),
        _parent: Option<&Optimistic<'_>>,
    ) {
    }

    /// The event [`Translation::copied_out`].
    fn copied_out(
        _kinds: &PageKinds,
        _page: PageRef<'_>,
        _space: SpaceId,
        _begin: usize,
        _copy: &mut [u8],
    ) -> bool {
        false
    }
}

/// No prediction at all.
#[derive(Debug)]
pub struct Blind;

impl Predict for Blind {
    const PREDICTS: Predicts = Predicts::Nothing;

    fn new(_: TranslationConfig) -> Blind {
        Blind
    }

    #[inline(always)]
    fn predict(&self, link: LinkRef<'_>, _: SpaceId) -> (PageId, Option<FrameId>) {
        (PageId::from_link(link.load()), None)
    }
}
