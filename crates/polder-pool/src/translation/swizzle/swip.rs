//! The 64 bits of a link as they are in memory (a *swip*: leanstore-2018 IV-B).

#![cfg(not(loom))]

use polder_format::{PageId, SpaceId};

use crate::latch::FrameId;

/// Tag of a link that holds a frame.
const SWIZZLED: u64 = 1 << 62;
const TAG: u64 = 3 << 62;
const FRAME_SHIFT: u32 = 34;

/// A link: the id of a page, or *swizzled*, `1:2 | frame:28 | page:34`. A swizzled one leads to
/// the same page of the space in which it stands, and says in which frame it is, or was.
///
/// A structure whose pages own others reads the links in a page by this, where it does not follow
/// them:
///
/// ```
/// use polder_format::{PageId, PageNo, SpaceId};
/// use polder_pool::Swip;
///
/// let (space, page) = (SpaceId::CATALOGUE, PageNo::new(7).unwrap());
/// let id = PageId::new(space, page);
/// // What a link to page 7 holds while the page is in frame 5, and what it holds on the device.
/// let in_memory = Swip::new(1 << 62 | 5 << 34 | 7);
/// assert!(in_memory.is_swizzled());
/// assert_eq!(in_memory.page(space), id);
/// assert_eq!(in_memory.unswizzled(space), id.to_bits());
/// assert!(Swip::new(id.to_bits()).is_unswizzled());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swip(u64);

impl Swip {
    /// The link with these 64 bits, as they stand in a page. Nothing is checked.
    #[inline(always)]
    pub fn new(bits: u64) -> Swip {
        Swip(bits)
    }

    /// A swizzled link to this page.
    pub(crate) fn swizzled(frame: FrameId, page: PageId) -> Swip {
        Swip(SWIZZLED | u64::from(frame.get()) << FRAME_SHIFT | page.page().get())
    }

    /// The 64 bits.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Whether this is a swizzled link: one that holds a frame.
    #[inline(always)]
    pub fn is_swizzled(self) -> bool {
        self.0 & TAG == SWIZZLED
    }

    /// Whether this can be a link on the device: a page id, whose tag is 0.
    pub fn is_unswizzled(self) -> bool {
        self.0 & TAG == 0
    }

    /// The frame in a swizzled link, if there are so many: torn, or long out of date, it may be
    /// any.
    #[inline(always)]
    pub(crate) fn frame(self, frames: u32) -> Option<FrameId> {
        // Any other tag makes a number that no frame has.
        let frame = (self.0 ^ SWIZZLED) >> FRAME_SHIFT;
        (frame <= u64::from(frames)).then(|| FrameId::new(frame as u32))
    }

    /// The page that a link in a page of this space leads to.
    #[inline(always)]
    pub fn page(self, space: SpaceId) -> PageId {
        match self.is_swizzled() {
            true => PageId::new(space, PageId::from_link(self.0).page()),
            false => PageId::from_link(self.0),
        }
    }

    /// The page that a link in this space leads to, and the frame that it names, if there are so
    /// many.
    #[inline(always)]
    pub(super) fn page_and_frame(self, space: SpaceId, frames: u32) -> (PageId, Option<FrameId>) {
        match self.frame(frames) {
            Some(frame) => (PageId::new(space, PageId::from_link(self.0).page()), Some(frame)),
            None => (self.page(space), None),
        }
    }

    /// The 64 bits of the link, in a page of this space, as they may leave the frame: the id of its
    /// page, 0 for none.
    #[inline]
    pub fn unswizzled(self, space: SpaceId) -> u64 {
        if self.is_swizzled() { self.page(space).to_bits() } else { self.0 }
    }
}

#[cfg(test)]
mod tests {
    use polder_format::PageNo;

    use super::*;

    #[test]
    fn a_hot_link_has_frame_and_page() {
        let space = SpaceId::MAX;
        for (frame, number) in [(1, 1), (FrameId::MAX.get(), PageNo::MAX.get()), (77, 0)] {
            let page = PageId::new(space, PageNo::new(number).unwrap());
            let hot = Swip::swizzled(FrameId::new(frame), page);
            assert!(hot.is_swizzled() && !hot.is_unswizzled());
            assert_eq!(hot.frame(frame), Some(FrameId::new(frame)));
            assert_eq!(hot.frame(frame - 1), None);
            assert_eq!((hot.page(space), hot.unswizzled(space)), (page, page.to_bits()));
            let plain = Swip::new(page.to_bits());
            assert!(plain.is_unswizzled() && plain.frame(FrameId::MAX.get()).is_none());
            assert_eq!(
                (plain.page(SpaceId::FILE), plain.unswizzled(SpaceId::FILE)),
                (page, page.to_bits())
            );
        }
    }
}
