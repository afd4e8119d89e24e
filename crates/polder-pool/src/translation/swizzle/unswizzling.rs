//! Links get the ids of their pages back, so that those can go (leanstore-2018 IV-B, IV-E): U1 to
//! U6.
//!
//! ```text
//! U1  frame f is to cool, or to go. If its page holds a swizzled link: one of those children,
//!     drawn at random, is taken for it, and so on downwards. Without a latch: an advice
//! U2  owner(f): none: it is unswizzled. busy: give up.  P: share the page in frame P, tried
//! U3  owner(f): CAS P -> busy
//! U4  the page in f is C: P's link swizzled(f, C) := C, if there is one;  owner := none;  P
//!     unshared (no page in frame P: it is nobody's parent; looked at again behind U3)
//! U5  the mark is set (the page cools), or E4 follows (it goes; E3 comes before U1)
//!
//! U6  (behind E5, under the exclusive latch) owner: CAS none -> busy; no link in the page is
//!     swizzled to a page that it owns; else owner := none, released unchanged
//! ```
//!
//! Between U4 and U5, or after it, C may be swizzled again; U6 sees it. U4 reads the page of the
//! frame only when the owner is busy; it may be another one than U2 saw, with the same parent. P
//! shared keeps P's links where they are, keeps P from being evicted, and keeps a structure from
//! moving a link while it is swizzled. Where all else was tried (the last round of a sweep), a page
//! unswizzles its links to all its children at once, so that a few pages that cannot go do not hold
//! all above them.

#![cfg(not(loom))]

use polder_format::PageId;

use super::links::swizzled_links;
use super::owner::Owner;
use super::swip::Swip;
use super::swizzle::Swizzle;
use crate::latch::FrameId;
use crate::page::PageRef;
use crate::thread::dice;
use crate::translation::seam::PoolContext;

/// Levels that a search for a page without swizzled links goes down. A circle ends here too.
const MAX_LEVELS: usize = 40;

impl Swizzle {
    /// U1 to U4: unswizzles the link that leads to the page in this frame or, where that page holds
    /// swizzled links itself, one below it. Gives the frame of the page to which no link is
    /// swizzled now.
    pub(super) fn unswizzle(
        &self,
        pool: &PoolContext<'_, Swizzle>,
        frame: FrameId,
    ) -> Option<FrameId> {
        let (mut number, mut frame) = (0, frame);
        for _ in 0..MAX_LEVELS {
            match self.swizzled_children(pool, frame).next() {
                Some(child) => (number, frame) = child,
                None => return self.unswizzle_link(pool, frame, number).then_some(frame),
            }
        }
        None
    }

    /// The same with all that the page itself is a parent of, instead of one of them.
    pub(super) fn unswizzle_all(
        &self,
        pool: &PoolContext<'_, Swizzle>,
        frame: FrameId,
    ) -> Option<FrameId> {
        let unswizzled = self
            .swizzled_children(pool, frame)
            .all(|(number, child)| self.unswizzle_link(pool, child, number));
        (unswizzled && self.unswizzle_link(pool, frame, 0)).then_some(frame)
    }

    /// U1: the pages to which links in the page in this frame are swizzled, and the links' numbers,
    /// from one of them on that is drawn. An advice, from a page that may be changing.
    fn swizzled_children(
        &self,
        pool: &PoolContext<'_, Swizzle>,
        parent: FrameId,
    ) -> impl Iterator<Item = (u32, FrameId)> {
        let has_page = !pool.latches.meta(parent).page().is_null();
        let page = has_page.then(|| pool.frames.page(parent));
        let links =
            page.into_iter().flat_map(|page| swizzled_links(pool.kinds, page, dice::draw()));
        links.filter_map(move |(number, _, swip)| {
            let child = swip.frame(self.words.frames())?;
            (self.owners.of(child).get() == Owner::Parent(parent)).then_some((number, child))
        })
    }

    /// U2 to U4. Whether no link to the page in this frame is swizzled. The one that is has this
    /// number in its page, or another one.
    pub(super) fn unswizzle_link(
        &self,
        pool: &PoolContext<'_, Swizzle>,
        frame: FrameId,
        number: u32,
    ) -> bool {
        let owner = self.owners.of(frame).get();
        match owner {
            Owner::None => true,
            Owner::Busy => false,
            Owner::Root => self.take_link(pool, frame, owner, |page, swizzled| {
                let directory = pool.spaces.directory(page.space());
                directory.into_iter().for_each(|directory| directory.beside.unswizzle(swizzled));
                true
            }),
            Owner::Parent(parent) => {
                let held = pool.with_page_in(self, parent, |bytes, id| {
                    self.take_link(pool, frame, owner, |page, swizzled| {
                        let mut links = swizzled_links(pool.kinds, bytes, number);
                        if id.space() == page.space()
                            && let Some((_, at, _)) = links.find(|(_, _, swip)| *swip == swizzled)
                        {
                            // SAFETY: held shared (SWIP-5), and we have the owner.
                            unsafe { bytes.set_link(at, page.to_bits()) };
                        }
                        true
                    })
                });
                // A frame without a page is nobody's parent.
                let gone = || pool.latches.meta(parent).page().is_null();
                held.unwrap_or_else(|| gone() && self.take_link(pool, frame, owner, |_, _| gone()))
            }
        }
    }

    /// U3 and U4: with the frame's owner busy, `unswizzle` writes the link that is swizzled; the
    /// owner is none then, or what it was.
    fn take_link(
        &self,
        pool: &PoolContext<'_, Swizzle>,
        frame: FrameId,
        owner: Owner,
        unswizzle: impl FnOnce(PageId, Swip) -> bool,
    ) -> bool {
        self.owners.of(frame).unswizzle(owner, || {
            let page = pool.latches.meta(frame).page();
            unswizzle(page, Swip::swizzled(frame, page))
        })
    }

    /// U6: whether the page, which is held exclusively, may leave its frame: no link to it is
    /// swizzled, and it holds none (`SWIP-3`). Then nobody makes one until the frame has a page
    /// again.
    pub(super) fn may_leave(
        &self,
        pool: &PoolContext<'_, Swizzle>,
        page: PageRef<'_>,
        frame: FrameId,
    ) -> bool {
        let is_child = |(_, _, swip): (u32, usize, Swip)| {
            let child = swip.frame(self.words.frames());
            child.is_some_and(|child| match self.owners.of(child).get() {
                Owner::Busy => !pool.latches.meta(child).page().is_null(),
                owner => owner == Owner::Parent(frame),
            })
        };
        self.owners.of(frame).may_leave(|| swizzled_links(pool.kinds, page, 0).any(is_child))
    }
}
