//! Swizzling as a translation: the link, the table of `simd` behind it, and the owners.

#![cfg(not(loom))]

use polder_format::{PageId, PageNo, SpaceId};

use super::links::{target, unswizzle_copy};
use super::owner::{Owner, OwnerCell};
use super::owners::{Owners, RootSwip, SwizzleDirectory};
use super::swip::Swip;
use super::swizzle::Swizzle;
use crate::error::PoolError;
use crate::frame::Frames;
use crate::latch::{FrameId, Optimistic, Resolved};
use crate::page::{LinkRef, PageKinds, PageRef};
use crate::translation::parts::by_frame::ByFrame;
use crate::translation::seam::{Leaving, PoolContext, ReadModes, Translation, TranslationConfig};
use crate::translation::simd::SimdTable;

impl Translation for Swizzle {
    const NAME: &'static str = "swizzle";
    const READ_MODES: ReadModes =
        ReadModes::no_copies("its links hold frames, which copies change");
    const SWIZZLES: bool = true;
    const LINKS_PIN: bool = true;
    type Words = ByFrame<SimdTable, RootSwip>;

    fn new(config: TranslationConfig) -> Result<Swizzle, PoolError> {
        let (words, owners) = (ByFrame::new(config.frames)?, Owners::new(config.frames)?);
        Ok(Swizzle { words, owners })
    }

    fn bytes_per_frame_beside() -> u64 {
        size_of::<OwnerCell>() as u64
    }

    fn bytes_beside(&self) -> u64 {
        self.owners.bytes()
    }

    fn words(&self) -> &Self::Words {
        &self.words
    }

    fn target(link: LinkRef<'_>, space: SpaceId) -> PageId {
        target(link, space)
    }

    #[inline(always)]
    fn prefetch<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p SwizzleDirectory,
        link: LinkRef<'_>,
    ) -> Option<PageRef<'p>> {
        let swip = match link {
            LinkRef::Root(page) => directory.beside.load(page),
            _ => Swip::new(link.load()),
        };
        let (page, frame) = swip.page_and_frame(directory.space, self.words.frames());
        self.words.prefetch(page, frame);
        frame.map(|frame| frames.page(frame))
    }

    /// 1. The link's 64 bits: a page id or, swizzled, the frame. That to the root is kept in the
    ///    directory.
    /// 2. Swizzled: the frame's word and tag, one load, beside the page's. If the tag is the page's
    ///    that is all.
    /// 3. Else the table. A link that owns its page then did not say where that is: `misplaced`, so that
    ///    it is swizzled.
    #[inline(always)]
    fn resolve<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p SwizzleDirectory,
        link: LinkRef<'_>,
    ) -> Option<Resolved<'p>> {
        let swip = match link {
            LinkRef::Root(page) => directory.beside.load(page),
            _ => Swip::new(link.load()),
        };
        let (page, frame) = swip.page_and_frame(directory.space, self.words.frames());
        if let Some(frame) = frame
            && let Some(found) = self.words.read(frame, page)
        {
            return Some(found.resolved(frames, false));
        }
        Some(self.words.find(page)?.resolved(frames, link.is_owning()))
    }

    fn resolve_elsewhere<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p SwizzleDirectory,
        page: PageNo,
    ) -> Option<Resolved<'p>> {
        Some(self.words.find(directory.id(page))?.resolved(frames, false))
    }

    /// A page comes into this frame, to which no link is swizzled yet (`SWIP-1`).
    fn before_publish(&self, frame: FrameId) {
        debug_assert!(!self.words.tagged(frame).cell().peek().is_readable(), "SWIP-1");
        self.owners.of(frame).set(Owner::None);
    }

    fn followed_unswizzled(
        &self,
        pool: &PoolContext<'_, Self>,
        directory: &SwizzleDirectory,
        link: LinkRef<'_>,
        parent: Option<&Optimistic<'_>>,
    ) {
        self.swizzle(pool, directory, link, parent);
    }

    fn before_cooling(
        &self,
        pool: &PoolContext<'_, Self>,
        frame: FrameId,
        urgent: bool,
    ) -> Option<FrameId> {
        if urgent { self.unswizzle_all(pool, frame) } else { self.unswizzle(pool, frame) }
    }

    fn before_leaving(
        &self,
        pool: &PoolContext<'_, Self>,
        page: PageRef<'_>,
        frame: FrameId,
        why: Leaving,
    ) -> bool {
        match why {
            Leaving::Evicted => self.may_leave(pool, page, frame),
            // No link to it is swizzled any more.
            Leaving::Freed => {
                self.owners.of(frame).take_surely();
                true
            }
        }
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

    fn check(&self, pool: &PoolContext<'_, Self>) -> Vec<String> {
        self.check_links(pool)
    }
}
