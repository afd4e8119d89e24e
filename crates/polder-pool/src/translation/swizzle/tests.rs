#![cfg(not(loom))]

use polder_format::{PageHeader, PageId, PageNo, header_at};
use tempfile::TempDir;

use super::links::{swizzled_links, unswizzle_copy};
use super::owner::Owner;
use super::{Swip, Swizzle};
use crate::latch::{FrameId, Pin};
use crate::page::{LinkRef, PageRef};
use crate::paging::pages_of::PagesOf;
use crate::replacement::{Pages, ReplacementKind};
use crate::shared::Shared;
use crate::testing::{LINKS, LINKS_AT, create, pool_with};
use crate::tier::TierNo;
use crate::translation::{Leaving, Translation, Words};
use crate::{AccessHint, Pool, Space};

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
            let mut parent = space.shared().latch_resident(space.space_core(), pair[0]).unwrap();
            parent.page_mut().set_u64(LINKS_AT + 8, link);
            parent.set_unlogged();
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

    /// What the pool does when the page in this frame is to cool, or must go.
    fn unswizzle(&self, frame: FrameId, urgent: bool) -> Option<FrameId> {
        let shared = self.shared();
        shared.translation.before_cooling(&shared.context(), frame, urgent)
    }

    fn frame(&self, level: usize) -> FrameId {
        let directory = &self.space.space_core().directory;
        self.shared().translation.words.state(directory, self.pages[level]).unwrap().read().frame()
    }

    fn owner(&self, level: usize) -> Owner {
        self.shared().translation.owners.of(self.frame(level)).get()
    }

    /// Whether the link to it is swizzled, and leads to its frame. The owner must agree.
    fn is_swizzled(&self, level: usize) -> bool {
        let Some(above) = level.checked_sub(1) else { return self.owner(0) == Owner::Root };
        let page = self.shared().core.frames.memory.page(self.frame(above));
        let id = PageId::new(self.space.id(), self.pages[level]);
        let swip = Swip::new(page.u64(LINKS_AT + 8));
        let hot = swip == Swip::swizzled(self.frame(level), id);
        assert!(hot || swip.bits() == id.to_bits(), "{swip:?}");
        let owner = if hot { Owner::Parent(self.frame(above)) } else { Owner::None };
        assert_eq!(self.owner(level), owner, "of level {level}");
        hot
    }

    fn hot(&self) -> Vec<bool> {
        (0..self.pages.len()).map(|level| self.is_swizzled(level)).collect()
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
        .run(AccessHint::Normal, |attempt| chain.space.page(attempt, chain.pages[2])?.validate())
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
                .words
                .state(&chain.space.space_core().directory, chain.pages[level])
                .unwrap()
                .read()
                .is_marked()
        );
    }
    // Used again, the link to it is swizzled again, and the links above it.
    chain.walk(AccessHint::Normal);
    assert_eq!(chain.hot(), [true; 4]);
    // As a last resort a page unswizzles its links to all its children, and may leave.
    assert_eq!(chain.unswizzle(chain.frame(1), true), Some(chain.frame(1)));
    assert_eq!(chain.hot(), [true, false, false, true]);
}

#[test]
fn who_is_linked_hot_or_links_so_does_not_leave() {
    let chain = Chain::new(3);
    chain.walk(AccessHint::Normal);
    let may_leave = |level: usize| {
        let (shared, core) = (chain.shared(), chain.space.space_core());
        let held = shared.latch_resident(core, chain.pages[level]).unwrap();
        let (pool, why) = (shared.context(), Leaving::Evicted);
        shared.translation.before_leaving(&pool, held.page(), held.frame(), why)
    };
    assert!((0..3).all(|level| !may_leave(level)));
    // The link to it is unswizzled, but it holds one that is not.
    assert!(chain.shared().translation.unswizzle_link(
        &chain.shared().context(),
        chain.frame(1),
        0
    ));
    assert!(!may_leave(1) && !may_leave(2));
    assert_eq!(chain.unswizzle(chain.frame(1), false), Some(chain.frame(2)));
    assert!(may_leave(2) && may_leave(1) && !may_leave(0));
    // They did not, but the links to them are not swizzled any more.
    assert_eq!([chain.owner(1), chain.owner(2)], [Owner::Busy; 2]);
    chain.walk(AccessHint::Normal);
    assert_eq!([chain.owner(1), chain.owner(2)], [Owner::Busy; 2]);
}

/// Those that cannot go do not hold the one above them, whatever the policy names.
#[test]
fn in_need_the_parent_of_what_is_pinned_leaves() {
    for kind in ReplacementKind::ALL.iter().copied() {
        let chain = Chain::under(1, kind);
        let shared = chain.shared();
        let children: Vec<PageNo> = (0..LINKS).map(|_| create(&chain.space)).collect();
        let core = chain.space.space_core();
        let mut root = shared.latch_resident(core, chain.pages[0]).unwrap();
        for (i, child) in children.iter().enumerate() {
            let link = PageId::new(chain.space.id(), *child).to_bits();
            root.page_mut().set_u64(LINKS_AT + 8 * i, link);
        }
        root.set_unlogged();
        drop(root);
        let pins: Vec<Pin<'_>> = (0..LINKS)
            .map(|i| {
                let followed = chain.space.run(AccessHint::Normal, |attempt| {
                    let root = chain.space.root(attempt, chain.pages[0])?;
                    let link = LinkRef::InPage(root.page(), LINKS_AT + 8 * i);
                    chain.space.follow(attempt, link, Some(&root)).map(|child| child.frame())
                });
                Pin::new(shared.core.latches.meta(followed.unwrap()))
            })
            .collect();
        let hot =
            swizzled_links(&shared.core.kinds, shared.core.frames.memory.page(chain.frame(0)), 0);
        assert_eq!(hot.count(), LINKS);
        for _ in 0..4 {
            shared.sweep(TierNo::FIRST, 100);
        }
        assert!(!chain.space.is_resident(chain.pages[0]), "{kind}");
        assert!(children.iter().all(|child| chain.space.is_resident(*child)));
        drop(pins);
    }
}

/// Only links that the kind owns are swizzled, and only in the page that was validated.
#[test]
fn what_is_no_link_of_its_parent_is_not_written() {
    let chain = Chain::new(2);
    let child = PageId::new(chain.space.id(), chain.pages[1]).to_bits();
    let neighbour = LINKS_AT + 8 * LINKS;
    let core = chain.space.space_core();
    let mut root = chain.shared().latch_resident(core, chain.pages[0]).unwrap();
    root.page_mut().set_u64(neighbour, child);
    root.set_unlogged();
    drop(root);
    let mut other = chain.shared().latch_resident(core, chain.pages[1]).unwrap();
    other.page_mut().set_u64(LINKS_AT, child);
    other.set_unlogged();
    drop(other);
    let other = chain.shared().core.frames.memory.page(chain.frame(1));
    let bytes = chain.shared().core.frames.memory.page(chain.frame(0));
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
    let owners = &chain.shared().translation.owners;
    // A parent was built anew: its link is unswizzled, and its child still names it.
    let parent = chain.frame(0);
    let plain = PageId::new(chain.space.id(), chain.pages[1]).to_bits();
    let bytes = chain.shared().core.frames.memory.page(parent);
    // SAFETY: nobody else is here.
    unsafe { bytes.set_link(LINKS_AT + 8, plain) };
    assert_eq!(chain.unswizzle(chain.frame(2), false), Some(chain.frame(2)));
    assert_eq!(chain.unswizzle(chain.frame(1), false), Some(chain.frame(1)));
    assert_eq!(owners.of(chain.frame(1)).get(), Owner::None);
    // A swizzled link to a frame that holds another page, or that does not exist.
    for frame in [chain.frame(2), FrameId::MAX] {
        let stale = Swip::swizzled(frame, PageId::new(chain.space.id(), chain.pages[1]));
        // SAFETY: as above.
        unsafe { bytes.set_link(LINKS_AT + 8, stale.bits()) };
        chain.walk(AccessHint::Normal);
        assert_eq!(chain.hot(), [true; 3]);
        assert_eq!(chain.unswizzle(parent, true), Some(parent));
    }
}

#[test]
fn no_hot_link_is_written() {
    let chain = Chain::new(3);
    chain.walk(AccessHint::Normal);
    let core = &chain.shared().core;
    for level in 0..2 {
        let bytes = core.frames.memory.page(chain.frame(level));
        let mut copy = vec![0; bytes.size()];
        bytes.copy_to(0, &mut copy);
        unswizzle_copy(&core.kinds, bytes, chain.space.id(), 0, &mut copy);
        let expected = PageId::new(chain.space.id(), chain.pages[level + 1]).to_bits();
        assert_eq!(copy[LINKS_AT + 8..][..8], expected.to_le_bytes());
        // A part of the page, as in a full-page image with a hole.
        let mut part = copy[LINKS_AT + 8..].to_vec();
        part[..8].fill(0xFF);
        unswizzle_copy(&core.kinds, bytes, chain.space.id(), LINKS_AT + 8, &mut part);
        assert_eq!(part[..8], expected.to_le_bytes());
    }
    let bytes = core.frames.memory.page(chain.frame(0));
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
    assert_eq!(shared.translation.owners.of(frame).get(), Owner::Busy);
}
