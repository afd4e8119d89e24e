//! Swizzled links over the array: the frame in a link is a hint, and no more.
//!
//! The word is the array's entry, which is loaded beside the page; if it names the frame of the link
//! the page is there already. There are no owners: a hint may be out of date for as long as it
//! likes, S1 and the store of S4 remain, and no eviction looks at links.

#![cfg(not(loom))]

use polder_format::{PageId, SpaceId};

use super::links::{target, unswizzle_copy};
use super::swip::Swip;
use super::swizzling::with_link_of;
use crate::latch::{FrameId, Optimistic};
use crate::page::{LinkRef, PageKinds, PageRef};
use crate::translation::array::Arrays;
use crate::translation::parts::predict::{Predict, Predicts};
use crate::translation::seam::{DirectoryOf, PoolContext, Translation, TranslationConfig, Words};

/// Array translation where a link says in which frame its page is, or was.
pub type ArraySwizzled = Arrays<Hints>;

/// The frame in the link.
#[derive(Debug)]
pub struct Hints {
    frames: u32,
}

impl Predict for Hints {
    const PREDICTS: Predicts = Predicts::ByLink;

    fn new(config: TranslationConfig) -> Hints {
        Hints { frames: config.frames }
    }

    fn target(link: LinkRef<'_>, space: SpaceId) -> PageId {
        target(link, space)
    }

    #[inline(always)]
    fn predict(&self, link: LinkRef<'_>, space: SpaceId) -> (PageId, Option<FrameId>) {
        Swip::new(link.load()).page_and_frame(space, self.frames)
    }

    fn followed_unswizzled<T: Translation>(
        translation: &T,
        pool: &PoolContext<'_, T>,
        directory: &DirectoryOf<T>,
        (link, space): (LinkRef<'_>, SpaceId),
        parent: Option<&Optimistic<'_>>,
    ) {
        let (LinkRef::InPage(page, at), Some(parent)) = (link, parent) else { return };
        let id = target(link, space);
        with_link_of(pool, (page, at), parent, |_, store| {
            let word = translation.words().state(directory, id.page()).map(|cell| cell.read());
            if let Some(word) = word.filter(|word| word.is_readable()) {
                store(Swip::swizzled(word.frame(), id));
            }
        });
    }

    fn copied_out(
        kinds: &PageKinds,
        page: PageRef<'_>,
        space: SpaceId,
        begin: usize,
        copy: &mut [u8],
    ) -> bool {
        unswizzle_copy(kinds, page, space, begin, copy)
    }
}
