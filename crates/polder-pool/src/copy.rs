//! Copy-on-write latches: a page is changed in another frame while others go on reading it
//! (scalecache.txt 3.2).
//!
//! Who descends by [`Space::snapshot`](crate::Space::snapshot) holds one page at a time, by the slice of its group of cores
//! (`pins.rs`), and reads it as it was at some moment: no node is validated, and a change keeps
//! nobody waiting. Who changes a page by [`Space::shadow`](crate::Space::shadow) copies it to a *spare* frame, works there,
//! and lets the page's word lead there when all is done. The old frame is *retired*: it can be a
//! spare again when nobody holds it any more. What a snapshot says may be out of date, so that this
//! is for pages whose readers find out where they went astray: nodes with fences and right links.
//! `docs/protocols.md`, "Copies of nodes": `COW-1` to `COW-5`, N1 to N5, C1 to C8.
//!
//! Different from the paper: its frames have an indirection of their own, between a page's metadata
//! and its bytes; ours have none, and the page changes its frame, as in a promotion. It keeps extra
//! frames for copies; we take free ones of the pool. Its readers wait while a page is latched to be
//! copied; ours need not, since nothing is written to what they read.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use polder_format::PageId;

use crate::attempt::Attempt;
use crate::counters::Counter;
use crate::error::PoolError;
use crate::guard::{Exclusive, Optimistic, Restart};
use crate::link::LinkRef;
use crate::shared::{Shared, View};
use crate::state::FrameId;
use crate::sync::atomic::{Ordering, fence};
use crate::sync::{Backoff, RwLockReadGuard};
use crate::translation::Translation;

/// Retired frames that are kept for the next copies, and which part of the pool at most; more go back
/// to all others.
const MOST_RETIRED: usize = 64;
const RETIRED_PART: usize = 64;
/// Instead of which frame spares are taken: one for all, so that they lie together, where pages lie that
/// cannot have their own, and far from where the next new pages want to lie.
const SPARES: FrameId = FrameId::FIRST;
/// How often a page may turn out to have changed between its word and its hold before the reader
/// starts over, so that it is not overtaken for ever.
const OVERTAKEN: u32 = 1000;

impl<'p, T: Translation> View<'p, T> {
    /// As [`Space::snapshot`](crate::Space::snapshot).
    pub(crate) fn snapshot(
        self,
        attempt: &mut Attempt<'p>,
        link: LinkRef<'p>,
        from: Option<&Optimistic<'p>>,
    ) -> Result<Optimistic<'p>, Restart> {
        debug_assert!(attempt.takes_snapshots());
        let core = &self.shared.core;
        let target = PageId::from_link(link.load());
        if target.space() != self.space.id || target.is_null() {
            let page = from.map_or(target, Optimistic::id);
            let what = "a link leads to another space";
            return Err(attempt.fail(PoolError::Broken { page, what }));
        }
        attempt.let_go(); // N1
        let discarded = || self.space.discarded.load(Ordering::Acquire);
        if from.is_none() {
            attempt.begin_snapshots(discarded());
        }
        let (mut backoff, mut overtaken) = (Backoff::new(), 0);
        while overtaken < OVERTAKEN {
            let wraps = core.latches.wraps.get();
            let Some(found) = self.find(target) else {
                // N5: a link that is out of date leads to no miss.
                let is_so = from.is_none_or(Optimistic::stands);
                return Err(if is_so { attempt.miss(target, from) } else { Restart });
            };
            // N2 and N3. The wrap count: the word may have come round between the look and the hold.
            if found.word.can_be_held()
                && attempt.hold_this(&found)
                && core.latches.wraps.get() == wraps
            {
                self.check_own(attempt)?;
                // N4: COW-5
                let same = || attempt.began_snapshots_at(discarded());
                if !from.is_none_or(Optimistic::stands) && !same() {
                    return Err(Restart);
                }
                found.page.prefetch(0);
                if found.word.is_marked() {
                    attempt.access(found.cell, found.word);
                }
                let held = Optimistic::held(&core.latches, found, wraps);
                if found.astray {
                    self.maybe_promote(target);
                }
                return Ok(held);
            }
            attempt.let_go();
            overtaken += u32::from(found.word.can_be_held());
            backoff.wait();
        }
        Err(Restart)
    }

    /// C1 to C4.
    pub(crate) fn shadow(self, page: Optimistic<'p>) -> Result<Shadow<'p, T>, Restart> {
        let spare = self.may_copy().and_then(|no_sweep| {
            self.shared.spare_for_copy(self, &page).map(|to| Spare { view: self, to, no_sweep })
        });
        let Some(spare) = spare else { return page.try_upgrade().map(Shadow::from) };
        let (shared, to) = (self.shared, spare.to);
        let put_back = |_: &Restart| shared.core.retired.put_first(to);
        let copied = page.try_copy().inspect_err(put_back)?;
        if copied.must_stay() {
            shared.core.retired.put_first(to);
            return copied.seal().map(Shadow::from);
        }
        Ok(spare.begin(copied))
    }

    /// Moves a page to the frame that it prefers, if that is free: a change by a copy that changes
    /// nothing, so that readers are not disturbed by that either.
    #[cold]
    #[inline(never)]
    pub(crate) fn go_home(self, page: Optimistic<'p>, home: FrameId) {
        let core = &self.shared.core;
        let Some(no_sweep) = self.may_copy() else { return };
        if !core.free.take_this(home) {
            return;
        }
        match page.try_copy() {
            Ok(copied) if !copied.must_stay() => {
                let mut shadow = Spare { view: self, to: home, no_sweep }.begin(copied);
                shadow.goes_home = true;
                core.counters.add(Counter::Promotions, 1);
            }
            _ => self.shared.give_frame(home),
        }
    }

    /// C1: dirty pages may move (P1).
    fn may_copy(self) -> Option<RwLockReadGuard<'p, ()>> {
        let moves = &self.shared.core.moves;
        moves.enter().filter(|_| !moves.is_sweep_under_way())
    }
}

impl<T: Translation> Shared<T> {
    /// C1: a frame that nobody reads: the one that the page prefers, one that was retired, or any.
    fn spare_for_copy(&self, view: View<'_, T>, page: &Optimistic<'_>) -> Option<FrameId> {
        let core = &self.core;
        let number = page.id().page();
        let preferred = self.translation.preferred(&view.space.directory, number);
        let pins = core.latches.pins.as_ref()?;
        let free = preferred.filter(|frame| core.free.take_this(*frame));
        free.or_else(|| core.retired.take(preferred, pins))
            .or_else(|| core.free.take_instead_of(SPARES, core.free.of(page.frame())))
    }

    /// Gives retired frames that nobody holds to all others, but for `most`.
    pub(crate) fn reclaim_retired(&self, most: usize) {
        if let Some(pins) = &self.core.latches.pins {
            let reclaimed = self.core.retired.drain(pins, most);
            reclaimed.into_iter().for_each(|frame| self.give_frame(frame));
        }
    }

    /// C6 to C8: the page is in the frame of its copy from now on.
    fn publish_copy(&self, page: Exclusive<'_>, view: View<'_, T>, to: FrameId) {
        let core = &self.core;
        page.check_logged();
        let (meta, old) = (core.latches.meta(to), page.meta());
        let (id, from) = (old.page(), page.frame());
        meta.assign_from(old, !page.is_changed() && !old.is_dirty(page.held()));
        core.replacement.relocate(from, to);
        if page.is_changed() {
            core.latches.note_write(to);
        }
        let (cell, held) = (page.cell(), page.held());
        let _ = page.into_frame();
        let (directory, new) = (&view.space.directory, (to, meta.version()));
        self.translation.relocate(directory, id.page(), (cell, held), new);
        // Behind it: as long as the word names the old frame, that has its page.
        let (left_at, _) = core.latches.wraps.next(held.version());
        old.vacate(left_at);
        core.counters.add(Counter::Copies, 1);
        // Its home stays free for it, so that it can go back.
        let is_home = self.translation.preferred(directory, id.page()) == Some(from);
        if is_home && core.latches.pins.as_ref().is_some_and(|pins| pins.is_left(from)) {
            self.give_frame(from);
        } else {
            core.retired.put(from);
        }
        self.reclaim_retired(MOST_RETIRED.min(core.budget_frames as usize / RETIRED_PART));
    }
}

/// A page that this thread alone may change, as [`Exclusive`], to which it derefs. Where the pool's
/// readers take snapshots the change is made in a copy, and seen when this goes. (What it derefs to
/// belongs to it, and is not to be swapped with another.)
pub struct Shadow<'p, T: Translation> {
    page: ManuallyDrop<Exclusive<'p>>,
    /// Where it is changed, and will lie; none for one that is changed in its place.
    copy: Option<Spare<'p, T>>,
    /// Published though nothing was changed.
    goes_home: bool,
}

/// A frame that nobody reads.
struct Spare<'p, T: Translation> {
    view: View<'p, T>,
    to: FrameId,
    /// No sweep begins meanwhile (P1).
    no_sweep: RwLockReadGuard<'p, ()>,
}

impl<'p, T: Translation> Spare<'p, T> {
    /// C4: the page, which is held for copying, is worked on in the copy from now on.
    fn begin(self, mut page: Exclusive<'p>) -> Shadow<'p, T> {
        let shared = self.view.shared;
        // The former word of that frame is gone, visibly, before any byte changes there: pairs with
        // the Acquire fence of validation, as behind a claim.
        fence(Ordering::Release);
        let bytes = shared.page_in(self.view.space, page.id().page(), self.to);
        // SAFETY: the frame is ours, and holds no page; nobody holds it by a slice (COW-3); stale
        // readers of its former page read it by `bytes` and will not validate.
        let mut copy = unsafe { bytes.to_write() };
        let size = copy.size();
        copy.copy_from(page.page(), 0, 0, size);
        page.work_in(bytes);
        shared.core.counters.add(Counter::MovedBytes, size as u64);
        Shadow { page: ManuallyDrop::new(page), copy: Some(self), goes_home: false }
    }
}

impl<T: Translation> fmt::Debug for Shadow<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shadow({:?} in {:?})", *self.page, self.copy.as_ref().map(|copy| copy.to))
    }
}

impl<'p, T: Translation> From<Exclusive<'p>> for Shadow<'p, T> {
    /// A page that is changed in its place.
    fn from(page: Exclusive<'p>) -> Shadow<'p, T> {
        Shadow { page: ManuallyDrop::new(page), copy: None, goes_home: false }
    }
}

impl<'p, T: Translation> Deref for Shadow<'p, T> {
    type Target = Exclusive<'p>;
    fn deref(&self) -> &Exclusive<'p> {
        &self.page
    }
}

impl<'p, T: Translation> DerefMut for Shadow<'p, T> {
    fn deref_mut(&mut self) -> &mut Exclusive<'p> {
        &mut self.page
    }
}

impl<T: Translation> Drop for Shadow<'_, T> {
    fn drop(&mut self) {
        // SAFETY: `page` is not touched again: this is its end.
        let page = unsafe { ManuallyDrop::take(&mut self.page) };
        let Some(Spare { view, to, no_sweep }) = self.copy.take() else { return drop(page) };
        if self.goes_home || page.is_changed() {
            view.shared.publish_copy(page, view, to);
        } else {
            drop(page);
            view.shared.core.retired.put_first(to);
        }
        drop(no_sweep);
    }
}

#[cfg(test)]
mod tests {
    use polder_format::PageNo;

    use super::*;
    use crate::testing::{LINKS_AT, create, pool_held};
    use crate::{AccessHint, Array, Hold, Space};

    fn id_of(space: &Space<Array>, page: PageNo) -> PageId {
        PageId::new(space.id(), page)
    }

    /// Writes the link of `parent` to `child`, in a copy.
    fn link(space: &Space<Array>, parent: PageNo, child: u64) {
        let linked = space.run(AccessHint::Normal, |attempt| {
            let page = space.page(attempt, parent)?;
            let mut page = space.shadow(attempt, page)?;
            page.page_mut().set_u64(LINKS_AT, child);
            page.excuse();
            Ok(())
        });
        linked.unwrap();
    }

    /// A reader holds a parent while its child is taken out of it; then it goes on to the child, which
    /// is loaded again as it was on the device, or is something else by now.
    #[test]
    fn a_page_that_was_discarded_is_not_reached_by_an_old_link() {
        let (_dir, pool) = pool_held::<Array>(4 << 20, Hold::Copy);
        let space = pool.create_space().unwrap();
        let (parent, child) = (create(&space), create(&space));
        link(&space, parent, id_of(&space, child).to_bits());
        pool.flush().unwrap();
        let mut tries = 0;
        let steps = space.run(AccessHint::Normal, |attempt| {
            tries += 1;
            let root = LinkRef::Id(id_of(&space, parent));
            let above = space.snapshot(attempt, root, None)?;
            if tries > 1 {
                return Ok(above.page().u64(LINKS_AT));
            }
            link(&space, parent, 0);
            let (shared, core) = (space.shared(), space.space_core());
            let held = shared.latch_resident(core, child).unwrap();
            space.discard(held);
            drop(shared.fault(core, child, AccessHint::Normal).unwrap());
            let old = LinkRef::InPage(above.page(), LINKS_AT);
            assert!(space.is_resident(child) && old.load() == id_of(&space, child).to_bits());
            assert!(space.snapshot(attempt, old, Some(&above)).is_err());
            Err(Restart)
        });
        assert_eq!((steps.unwrap(), tries), (0, 2));
    }

    /// What is held stays as it was, and validates, while the page goes on in another frame; who holds
    /// nothing finds out that it has changed.
    #[test]
    fn a_snapshot_stays() {
        let (_dir, pool) = pool_held::<Array>(4 << 20, Hold::Copy);
        let space = pool.create_space().unwrap();
        let page = create(&space);
        link(&space, page, 1);
        let read = space.run(AccessHint::Normal, |attempt| {
            let optimistic = space.page(attempt, page)?;
            let held = space.snapshot(attempt, LinkRef::Id(id_of(&space, page)), None)?;
            let copied = space.run(AccessHint::Normal, |other| {
                let now = space.page(other, page)?;
                let mut copy = space.shadow(other, now)?;
                copy.page_mut().set_u64(LINKS_AT, 2);
                copy.excuse();
                // Nothing is seen yet; but who believes one page by another must not go on.
                assert!(optimistic.validate().is_err());
                Ok(held.page().u64(LINKS_AT))
            });
            for _ in 0..3 {
                link(&space, page, 3);
            }
            assert!(optimistic.validate().is_err());
            Ok((copied.unwrap(), held.page().u64(LINKS_AT)))
        });
        assert_eq!(read.unwrap(), (1, 1));
        let now = space.run(AccessHint::Normal, |attempt| {
            let page = space.page(attempt, page)?;
            let now = page.page().u64(LINKS_AT);
            page.validate().map(|()| now)
        });
        assert_eq!(now.unwrap(), 3);
        // A node that goes home is copied as well.
        let stats = pool.stats();
        assert_eq!(stats.copies - stats.promotions, 5);
    }

    /// A sweep would not find a page that it has not come to in a frame that it has been to.
    #[test]
    fn nothing_moves_while_a_sweep_is_under_way() {
        let (_dir, pool) = pool_held::<Array>(4 << 20, Hold::Copy);
        let space = pool.create_space().unwrap();
        let page = create(&space);
        link(&space, page, 1);
        let before = (pool.stats().copies, pool.stats().promotions);
        let mut value = 1;
        pool.sweep(&mut |_, _| {
            value += 1;
            link(&space, page, value);
        })
        .unwrap();
        assert!(value > 1);
        assert_eq!((pool.stats().copies, pool.stats().promotions), before);
        link(&space, page, 0);
        assert_eq!(pool.stats().copies, before.0 + 1);
    }

    /// A page that a change took away from the frame that it prefers goes back there by the way, and
    /// is no dirtier for it.
    #[test]
    fn a_node_goes_home() {
        let (_dir, pool) = pool_held::<Array>(4 << 20, Hold::Copy);
        let space = pool.create_space().unwrap();
        let page = create(&space);
        assert_eq!(space.is_in_preferred_frame(page), Some(true));
        link(&space, page, 1);
        assert_eq!(space.is_in_preferred_frame(page), Some(false));
        pool.flush().unwrap();
        for _ in 0..2000 {
            let read = space.run(AccessHint::Normal, |attempt| {
                let held = space.snapshot(attempt, LinkRef::Id(id_of(&space, page)), None)?;
                Ok(held.page().u64(LINKS_AT))
            });
            assert_eq!(read.unwrap(), 1);
        }
        assert_eq!(space.is_in_preferred_frame(page), Some(true));
        let stats = pool.stats();
        assert_eq!((stats.dirty_pages, stats.promotions, stats.restarts), (0, 1, 0));
    }

    /// A page that is held by a slice can be read though somebody asks for it exclusively.
    #[test]
    fn who_is_asked_for_is_valid() {
        let (_dir, pool) = pool_held::<Array>(4 << 20, Hold::Copy);
        let space = pool.create_space().unwrap();
        let page = create(&space);
        let asked = space.run(AccessHint::Normal, |attempt| {
            let held = space.snapshot(attempt, LinkRef::Id(id_of(&space, page)), None)?;
            let word = held.cell().read();
            let exclusive = held.cell().upgrade(word).unwrap();
            let meanwhile = (held.validate(), held.let_go().validate());
            held.cell().put_back(exclusive);
            Ok((meanwhile, held.validate()))
        });
        assert_eq!(asked.unwrap(), ((Ok(()), Err(Restart)), Ok(())));
    }
}
