//! Swizzling: links get the frames of their pages (leanstore.txt III-A, IV-B, IV-E).
//!
//! A link that is followed often holds the frame of its page. Nobody who reads believes it: the tag
//! in the frame tells. So links change under a shared latch, no reader restarts for it, and what is
//! kept here serves speed, and decides which pages go: those to which no link is hot.
//! `docs/protocols.md`, "Swizzled links": S1 to S4, U1 to U6.

use polder_format::PageId;

use crate::attempt::Step;
use crate::bytes::PageRef;
use crate::dice;
use crate::link::LinkRef;
use crate::pool::Pool;
use crate::shared::{Shared, View};
use crate::state::FrameId;
use crate::swip::Swip;
use crate::sync::{Backoff, aside};
use crate::translation::{Owner, Translation};

/// Levels that a search for a page without hot links goes down. A circle ends here too.
const MAX_LEVELS: usize = 40;
/// How often `check_links` looks at a link that somebody may be changing.
const LOOKS: usize = 1000;

impl<'p, T: Translation> View<'p, T> {
    /// S1 to S4, behind an access by a link that did not say where its page is.
    pub(crate) fn swizzle(self, step: Step<'p>) {
        aside(|| self.make_hot(step));
    }

    fn make_hot(self, step: Step<'p>) {
        let (link, parent) = (step.link(), step.parent);
        let id = link.target(self.space.id);
        match link {
            LinkRef::InPage(page, at) => {
                let Some(parent) = parent else { return };
                if parent.cell().try_share().is_none() {
                    return;
                }
                // Whoever calls `follow` may be wrong about where the link stands.
                let stands = page.as_ptr() == parent.page().as_ptr()
                    && self.shared.core.kinds.owned_links(page, 0).any(|(_, owned)| owned == at);
                if parent.validate().is_ok() && stands {
                    // SAFETY: the page is held shared (SWIP-5), as it was when the link was found in
                    // it; where there are owners, who has the one of the link's page is the only one
                    // to write it, and where there are none all write the same.
                    let store = |swip: Swip| unsafe { page.set_link(at, swip.bits()) };
                    self.heat(id, Owner::Parent(parent.frame()), store);
                }
                parent.cell().unshare();
            }
            LinkRef::Root(_) => {
                let Some(root) = T::root_swip(&self.space.directory) else { return };
                self.heat(id, Owner::Root, |swip| root.store(swip));
            }
            LinkRef::Id(_) => {}
        }
    }

    /// S2 to S4.
    fn heat(self, id: PageId, owner: Owner, store: impl FnOnce(Swip)) {
        let translation = &self.shared.translation;
        let Some(cell) = translation.state(&self.space.directory, id.page()) else { return };
        let word = cell.read();
        let frame = word.frame();
        if !word.is_readable() {
            return;
        }
        let Some(owners) = translation.owners() else {
            store(Swip::hot(frame, id));
            return;
        };
        let is_here =
            || self.shared.core.frames.meta(frame).page() == id && cell.read().is_readable();
        owners.of(frame).heat(owner, is_here, || store(Swip::hot(frame, id)));
    }
}

impl<T: Translation> Shared<T> {
    /// A page comes into this frame, to which no link is hot yet.
    pub(crate) fn disown(&self, frame: FrameId) {
        if let Some(owners) = self.translation.owners() {
            owners.of(frame).set(Owner::None);
        }
    }

    /// The page in this frame, which is held exclusively, goes at once, and no link to it becomes
    /// hot any more.
    pub(crate) fn seize_link(&self, frame: FrameId) {
        if let Some(owners) = self.translation.owners() {
            owners.of(frame).take_surely();
        }
    }

    /// U1 to U4: makes the link plain that leads to the page in this frame or, where that page holds
    /// hot links itself, to one below it. Gives the frame of the page to which no link is hot now.
    pub(crate) fn make_plain(&self, frame: FrameId) -> Option<FrameId> {
        let Some(owners) = self.translation.owners() else { return Some(frame) };
        let (mut number, mut frame) = (0, frame);
        for _ in 0..MAX_LEVELS {
            match self.hot_children(frame).next() {
                Some(child) => (number, frame) = child,
                None => return self.let_go(frame, owners.of(frame).get(), number).then_some(frame),
            }
        }
        None
    }

    /// The same with all that the page itself is a parent of, instead of one of them.
    pub(crate) fn make_all_plain(&self, frame: FrameId) -> Option<FrameId> {
        let Some(owners) = self.translation.owners() else { return Some(frame) };
        let let_go = |frame, number| self.let_go(frame, owners.of(frame).get(), number);
        let children = self.hot_children(frame).all(|(number, child)| let_go(child, number));
        (children && let_go(frame, 0)).then_some(frame)
    }

    /// U1: the pages to which links in the page in this frame are hot, and the links' numbers, from one
    /// of them on that is drawn. An advice, from a page that may be changing.
    fn hot_children(&self, parent: FrameId) -> impl Iterator<Item = (u32, FrameId)> {
        let meta = self.core.frames.meta(parent);
        let id = meta.page();
        let space = (!id.is_null()).then(|| self.space(id.space())).flatten();
        let page = space.map(|space| self.page_in(&space, id.page(), parent));
        let links = page.into_iter().flat_map(|page| self.core.kinds.hot_links(page, dice::draw()));
        links.filter_map(move |(number, _, swip)| {
            let child = swip.frame(self.core.frames.count())?;
            let owners = self.translation.owners()?;
            (owners.of(child).get() == Owner::Parent(parent)).then_some((number, child))
        })
    }

    /// U2 to U4. Whether no link to the page in this frame is hot. The one that is has this number in
    /// its page, or another one.
    fn let_go(&self, frame: FrameId, owner: Owner, number: u32) -> bool {
        match owner {
            Owner::None => true,
            Owner::Busy => false,
            Owner::Root => self.take_link(frame, owner, |page, hot| {
                let space = self.space(page.space());
                let root = space.as_ref().and_then(|space| T::root_swip(&space.directory));
                root.into_iter().for_each(|root| root.cool(hot));
                true
            }),
            Owner::Parent(parent) => {
                let held = self.hold(parent, |bytes, id| {
                    self.take_link(frame, owner, |page, hot| {
                        let mut links = self.core.kinds.hot_links(bytes, number);
                        if id.space() == page.space()
                            && let Some((_, at, _)) = links.find(|(_, _, swip)| *swip == hot)
                        {
                            // SAFETY: held shared (SWIP-5), and we have the owner.
                            unsafe { bytes.set_link(at, page.to_bits()) };
                        }
                        true
                    })
                });
                // A frame without a page is nobody's parent.
                let gone = || self.core.frames.meta(parent).page().is_null();
                held.unwrap_or_else(|| gone() && self.take_link(frame, owner, |_, _| gone()))
            }
        }
    }

    /// U3 and U4: with the frame's owner busy, `cool` makes the link plain that is hot; the owner is
    /// none then, or what it was.
    fn take_link(
        &self,
        frame: FrameId,
        owner: Owner,
        cool: impl FnOnce(PageId, Swip) -> bool,
    ) -> bool {
        let Some(owners) = self.translation.owners() else { return true };
        owners.of(frame).cool(owner, || {
            let page = self.core.frames.meta(frame).page();
            cool(page, Swip::hot(frame, page))
        })
    }

    /// With the page in a frame held shared; tried.
    fn hold<R>(&self, frame: FrameId, then: impl FnOnce(PageRef<'_>, PageId) -> R) -> Option<R> {
        let meta = self.core.frames.meta(frame);
        let id = meta.page();
        let space = (!id.is_null()).then(|| self.space(id.space())).flatten()?;
        let cell = self.translation.state(&space.directory, id.page())?;
        let word = cell.try_share()?;
        let here = word.frame() == frame && meta.page() == id;
        let result = here.then(|| then(self.page_in(&space, id.page(), frame), id));
        cell.unshare();
        result
    }

    /// U6: whether the page, which is held exclusively, may leave its frame: no link to it is hot, and
    /// it holds none (`SWIP-3`). Then nobody makes one until the frame has a page again.
    pub(crate) fn may_leave(&self, page: PageRef<'_>, frame: FrameId) -> bool {
        let Some(owners) = self.translation.owners() else { return true };
        let is_child = |(_, _, swip): (u32, usize, Swip)| {
            let child = swip.frame(self.core.frames.count());
            child.is_some_and(|child| match owners.of(child).get() {
                Owner::Busy => !self.core.frames.meta(child).page().is_null(),
                owner => owner == Owner::Parent(frame),
            })
        };
        owners.of(frame).may_leave(|| self.core.kinds.hot_links(page, 0).any(is_child))
    }
}

impl<T: Translation> Pool<T> {
    /// Whether each hot link leads to a page that is there and whose owner is the page in which the
    /// link stands (`SWIP-2`). Gives each one that does not as a sentence. Means something while
    /// nobody but the pool's own threads uses the pool.
    pub fn check_links(&self) -> Vec<String> {
        let shared = self.shared();
        let Some(owners) = shared.translation.owners() else { return Vec::new() };
        let frames = &shared.core.frames;
        let mut faults = Vec::new();
        for parent in frames.ids() {
            shared.hold(parent, |page, id| {
                let links = || shared.core.kinds.hot_links(page, 0);
                let is_sound = |at, swip: Swip, child: FrameId| {
                    let mut backoff = Backoff::new();
                    for _ in 0..LOOKS {
                        let owner = owners.of(child).get();
                        let is_right = owner == Owner::Parent(parent)
                            && frames.meta(child).page() == swip.page(id.space());
                        let is_there = links().any(|(_, now_at, now)| (now_at, now) == (at, swip));
                        if is_right || !is_there {
                            return true;
                        }
                        if owner != Owner::Busy {
                            return false;
                        }
                        // The writer makes it plain (U3), or the link leads to an empty frame.
                        backoff.wait();
                    }
                    false
                };
                for (_, at, swip) in links() {
                    let child = swip.frame(frames.count());
                    if !child.is_some_and(|child| is_sound(at, swip, child)) {
                        let target = swip.page(id.space());
                        faults.push(format!(
                            "{id}: the link at byte {at} to {target} is hot and not its owner's"
                        ));
                    }
                }
            });
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use polder_format::{PageHeader, PageNo, header_at};
    use tempfile::TempDir;

    use super::*;
    use crate::evict::PagesOf;
    use crate::guard::Pin;
    use crate::replacement::{Pages, ReplacementKind};
    use crate::testing::{LINKS, LINKS_AT, create, pool_with};
    use crate::{AccessHint, Pool, Space, Swizzle};

    /// A root, and below it in turn a page, a page below that, and so on.
    struct Chain {
        space: Space<Swizzle>,
        pages: Vec<PageNo>,
        pool: Pool<Swizzle>,
        _dir: TempDir,
    }

    impl Chain {
        fn new(levels: usize) -> Chain {
            Chain::under(levels, ReplacementKind::default())
        }

        fn under(levels: usize, replacement: ReplacementKind) -> Chain {
            let (dir, pool) = pool_with::<Swizzle>(4 << 20, replacement);
            let space = pool.create_space().unwrap();
            let pages: Vec<PageNo> = (0..levels).map(|_| create(&space)).collect();
            for pair in pages.windows(2) {
                let link = PageId::new(space.id(), pair[1]).to_bits();
                let mut parent =
                    space.shared().latch_resident(space.space_core(), pair[0]).unwrap();
                parent.page_mut().set_u64(LINKS_AT + 8, link);
                parent.excuse();
            }
            Chain { space, pages, pool, _dir: dir }
        }

        /// Goes down all of it.
        fn walk(&self, hint: AccessHint) {
            let walked = self.space.run(hint, |attempt| {
                let mut page = self.space.root(attempt, self.pages[0])?;
                for _ in 1..self.pages.len() {
                    let link = LinkRef::InPage(page.page(), LINKS_AT + 8);
                    page = self.space.follow(attempt, link, Some(&page))?;
                }
                let id = PageId::from_link(page.page().u64(header_at::PAGE_ID));
                page.validate().map(|()| id.page())
            });
            assert_eq!(walked.unwrap(), *self.pages.last().unwrap());
        }

        fn shared(&self) -> &Shared<Swizzle> {
            self.space.shared()
        }

        fn frame(&self, level: usize) -> FrameId {
            let directory = &self.space.space_core().directory;
            self.shared().translation.state(directory, self.pages[level]).unwrap().read().frame()
        }

        fn owner(&self, level: usize) -> Owner {
            self.shared().translation.owners().unwrap().of(self.frame(level)).get()
        }

        /// Whether the link to it is hot, and leads to its frame. The owner must agree.
        fn is_hot(&self, level: usize) -> bool {
            let Some(above) = level.checked_sub(1) else { return self.owner(0) == Owner::Root };
            let page = self.shared().core.frames.page(self.frame(above));
            let id = PageId::new(self.space.id(), self.pages[level]);
            let swip = Swip::new(page.u64(LINKS_AT + 8));
            let hot = swip == Swip::hot(self.frame(level), id);
            assert!(hot || swip.bits() == id.to_bits(), "{swip:?}");
            let owner = if hot { Owner::Parent(self.frame(above)) } else { Owner::None };
            assert_eq!(self.owner(level), owner, "of level {level}");
            hot
        }

        fn hot(&self) -> Vec<bool> {
            (0..self.pages.len()).map(|level| self.is_hot(level)).collect()
        }

        fn by_table(&self) -> u64 {
            self.pool.stats().pages_by_table
        }
    }

    #[test]
    fn links_that_are_followed_get_hot_and_are_followed_without_the_table() {
        let chain = Chain::new(4);
        let before = chain.by_table();
        chain.walk(AccessHint::Scan);
        assert_eq!((chain.hot(), chain.by_table() - before), (vec![false; 4], 4), "by a scan");
        chain.walk(AccessHint::Normal);
        assert_eq!((chain.hot(), chain.by_table() - before), (vec![true; 4], 8));
        chain.walk(AccessHint::Normal);
        chain.walk(AccessHint::Scan);
        assert_eq!(chain.by_table() - before, 8, "pages were asked of the table that are hot");
        chain
            .space
            .run(AccessHint::Normal, |attempt| {
                chain.space.page(attempt, chain.pages[2])?.validate()
            })
            .unwrap();
        assert_eq!(chain.by_table() - before, 9, "by number");
    }

    #[test]
    fn the_last_below_cools_before_those_above_it() {
        let chain = Chain::new(4);
        chain.walk(AccessHint::Normal);
        let pages = PagesOf::new(chain.shared());
        for level in (0..4).rev() {
            assert_eq!(pages.mark(chain.frame(0)), chain.frame(level));
            let hot: Vec<bool> = (0..4).map(|other| other < level).collect();
            assert_eq!(chain.hot(), hot);
            assert!(
                chain
                    .shared()
                    .translation
                    .state(&chain.space.space_core().directory, chain.pages[level])
                    .unwrap()
                    .read()
                    .is_marked()
            );
        }
        // Used again, it is hot again, and those above it.
        chain.walk(AccessHint::Normal);
        assert_eq!(chain.hot(), [true; 4]);
        // In need, a page lets go of all below it, and may leave.
        assert_eq!(chain.shared().make_all_plain(chain.frame(1)), Some(chain.frame(1)));
        assert_eq!(chain.hot(), [true, false, false, true]);
    }

    #[test]
    fn who_is_linked_hot_or_links_so_does_not_leave() {
        let chain = Chain::new(3);
        chain.walk(AccessHint::Normal);
        let may_leave = |level: usize| {
            let (shared, core) = (chain.shared(), chain.space.space_core());
            let held = shared.latch_resident(core, chain.pages[level]).unwrap();
            shared.may_leave(held.page(), held.frame())
        };
        assert!((0..3).all(|level| !may_leave(level)));
        // The link to it is plain, but it holds one that is not.
        let owners = chain.shared().translation.owners().unwrap();
        assert!(chain.shared().let_go(chain.frame(1), owners.of(chain.frame(1)).get(), 0));
        assert!(!may_leave(1) && !may_leave(2));
        assert_eq!(chain.shared().make_plain(chain.frame(1)), Some(chain.frame(2)));
        assert!(may_leave(2) && may_leave(1) && !may_leave(0));
        // They did not, but nobody makes them hot any more.
        assert_eq!([chain.owner(1), chain.owner(2)], [Owner::Busy; 2]);
        chain.walk(AccessHint::Normal);
        assert_eq!([chain.owner(1), chain.owner(2)], [Owner::Busy; 2]);
    }

    /// Those that cannot go do not hold the one above them, whatever the policy names.
    #[test]
    fn in_need_the_parent_of_what_is_pinned_leaves() {
        for kind in ReplacementKind::ALL {
            let chain = Chain::under(1, kind);
            let shared = chain.shared();
            let children: Vec<PageNo> = (0..LINKS).map(|_| create(&chain.space)).collect();
            let core = chain.space.space_core();
            let mut root = shared.latch_resident(core, chain.pages[0]).unwrap();
            for (i, child) in children.iter().enumerate() {
                let link = PageId::new(chain.space.id(), *child).to_bits();
                root.page_mut().set_u64(LINKS_AT + 8 * i, link);
            }
            root.excuse();
            drop(root);
            let pins: Vec<Pin<'_>> = (0..LINKS)
                .map(|i| {
                    let followed = chain.space.run(AccessHint::Normal, |attempt| {
                        let root = chain.space.root(attempt, chain.pages[0])?;
                        let link = LinkRef::InPage(root.page(), LINKS_AT + 8 * i);
                        chain.space.follow(attempt, link, Some(&root)).map(|child| child.frame())
                    });
                    Pin::new(shared.core.frames.meta(followed.unwrap()))
                })
                .collect();
            let hot = shared.core.kinds.hot_links(shared.core.frames.page(chain.frame(0)), 0);
            assert_eq!(hot.count(), LINKS);
            for _ in 0..4 {
                shared.sweep(100);
            }
            assert!(!chain.space.is_resident(chain.pages[0]), "{kind}");
            assert!(children.iter().all(|child| chain.space.is_resident(*child)));
            drop(pins);
        }
    }

    /// Only links that the kind owns get hot, and only in the page that was validated.
    #[test]
    fn what_is_no_link_of_its_parent_is_not_written() {
        let chain = Chain::new(2);
        let child = PageId::new(chain.space.id(), chain.pages[1]).to_bits();
        let neighbour = LINKS_AT + 8 * LINKS;
        let core = chain.space.space_core();
        let mut root = chain.shared().latch_resident(core, chain.pages[0]).unwrap();
        root.page_mut().set_u64(neighbour, child);
        root.excuse();
        drop(root);
        let mut other = chain.shared().latch_resident(core, chain.pages[1]).unwrap();
        other.page_mut().set_u64(LINKS_AT, child);
        other.excuse();
        drop(other);
        let other = chain.shared().core.frames.page(chain.frame(1));
        let bytes = chain.shared().core.frames.page(chain.frame(0));
        for (page, at) in [(bytes, neighbour), (other, LINKS_AT)] {
            let before = page.u64(at);
            let followed = chain.space.run(AccessHint::Normal, |attempt| {
                let root = chain.space.root(attempt, chain.pages[0])?;
                chain.space.follow(attempt, LinkRef::InPage(page, at), Some(&root))?.validate()
            });
            followed.unwrap();
            assert_eq!(page.u64(at), before);
            assert_eq!(chain.owner(1), Owner::None);
        }
    }

    /// What another page left in the link, or in the frame's owner, stops nobody.
    #[test]
    fn what_was_left_behind_is_put_right() {
        let chain = Chain::new(3);
        chain.walk(AccessHint::Normal);
        let owners = chain.shared().translation.owners().unwrap();
        // A parent was built anew: its link is plain, and its child still names it.
        let parent = chain.frame(0);
        let plain = PageId::new(chain.space.id(), chain.pages[1]).to_bits();
        let bytes = chain.shared().core.frames.page(parent);
        // SAFETY: nobody else is here.
        unsafe { bytes.set_link(LINKS_AT + 8, plain) };
        assert_eq!(chain.shared().make_plain(chain.frame(2)), Some(chain.frame(2)));
        assert_eq!(chain.shared().make_plain(chain.frame(1)), Some(chain.frame(1)));
        assert_eq!(owners.of(chain.frame(1)).get(), Owner::None);
        // A hot link to a frame that holds another page, or that there is not.
        for frame in [chain.frame(2), FrameId::MAX] {
            let stale = Swip::hot(frame, PageId::new(chain.space.id(), chain.pages[1]));
            // SAFETY: as above.
            unsafe { bytes.set_link(LINKS_AT + 8, stale.bits()) };
            chain.walk(AccessHint::Normal);
            assert_eq!(chain.hot(), [true; 3]);
            assert_eq!(chain.shared().make_all_plain(parent), Some(parent));
        }
    }

    #[test]
    fn no_hot_link_is_written() {
        let chain = Chain::new(3);
        chain.walk(AccessHint::Normal);
        let core = &chain.shared().core;
        for level in 0..2 {
            let bytes = core.frames.page(chain.frame(level));
            let mut copy = vec![0; bytes.size()];
            bytes.copy_to(0, &mut copy);
            core.kinds.make_plain(bytes, chain.space.id(), 0, &mut copy);
            let expected = PageId::new(chain.space.id(), chain.pages[level + 1]).to_bits();
            assert_eq!(copy[LINKS_AT + 8..][..8], expected.to_le_bytes());
            // A part of the page, as in an image with a hole.
            let mut part = copy[LINKS_AT + 8..].to_vec();
            part[..8].fill(0xFF);
            core.kinds.make_plain(bytes, chain.space.id(), LINKS_AT + 8, &mut part);
            assert_eq!(part[..8], expected.to_le_bytes());
        }
        let bytes = core.frames.page(chain.frame(0));
        let header = PageHeader::decode(&copy_of(bytes)).unwrap();
        let refused = core.kinds.check(&header, bytes).unwrap_err().to_string();
        assert!(refused.contains("tag"), "{refused}");
    }

    fn copy_of(page: PageRef<'_>) -> Vec<u8> {
        let mut copy = vec![0; page.size()];
        page.copy_to(0, &mut copy);
        copy
    }

    #[test]
    fn a_page_that_is_freed_has_no_owner() {
        let chain = Chain::new(2);
        chain.walk(AccessHint::Normal);
        let (shared, frame) = (chain.shared(), chain.frame(1));
        let held = shared.latch_resident(chain.space.space_core(), chain.pages[1]).unwrap();
        shared.discard(chain.space.space_core(), held);
        assert_eq!(shared.translation.owners().unwrap().of(frame).get(), Owner::Busy);
    }
}
