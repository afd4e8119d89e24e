//! Where a page is guessed to lie before anything is asked: nowhere, where its number says
//! (`preferred.rs`), or where the link says that leads to it (`swizzled.rs`).
//!
//! The page's word, or the tag beside it, tells whether the guess is right; so it may be wrong, and
//! nobody keeps it right for the sake of reads. The processor goes on with it meanwhile.

use std::fmt::Debug;

use polder_format::{PageId, SpaceId};

use super::swizzled::{Owners, RootSwip};
use crate::error::PoolError;
use crate::link::LinkRef;
use crate::state::FrameId;
use crate::swip::Swip;

/// What becomes of a page that was found elsewhere than it was guessed to lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settles {
    /// Nothing.
    Not,
    /// It moves to the frame that it prefers (`promote.rs`).
    Page,
    /// The link that led to it gets its frame (`swizzle.rs`).
    Link,
}

/// A way to guess.
pub trait Guess: Debug + Sized + Send + Sync + 'static {
    /// What happens where the guess was wrong.
    const SETTLES: Settles;

    /// For this many frames.
    fn new(frames: u32) -> Result<Self, PoolError>;

    /// Memory for one frame.
    fn bytes_per_frame() -> u64 {
        0
    }

    /// Memory in bytes.
    fn bytes(&self) -> u64 {
        0
    }

    /// The bits of a link in this space, whose root is kept here.
    #[inline(always)]
    fn swip(&self, link: LinkRef<'_>, root: Option<&RootSwip>) -> Swip {
        match (Self::SETTLES, link, root) {
            (Settles::Link, LinkRef::Root(page), Some(root)) => root.load(page),
            _ => Swip::new(link.load()),
        }
    }

    /// The page that they lead to, and where it may be: a frame that there is.
    fn guess(&self, swip: Swip, space: SpaceId) -> (PageId, Option<FrameId>);

    /// The frame that the page prefers.
    #[inline(always)]
    fn preferred(&self, _page: PageId) -> Option<FrameId> {
        None
    }

    /// Whose links are hot, where that must be known.
    fn owners(&self) -> Option<&Owners> {
        None
    }
}

/// No guess at all.
#[derive(Debug)]
pub struct Blind;

impl Guess for Blind {
    const SETTLES: Settles = Settles::Not;

    fn new(_: u32) -> Result<Blind, PoolError> {
        Ok(Blind)
    }

    #[inline(always)]
    fn guess(&self, swip: Swip, _: SpaceId) -> (PageId, Option<FrameId>) {
        (PageId::from_link(swip.bits()), None)
    }
}
