//! Migration: a page goes to a frame of another tier (vmcache-n-2026, 2.3, without the kernel).
//!
//! ```text
//! T1  by a migrator that holds nothing: the wrap count; the page-move gate, shared, tried
//!     (`frame/moves.rs`)
//! T2  the page in the old frame and its word, seen free; unpinned, not lent, not being written, held
//!     by no slice; clean, if a sweep of a checkpoint is under way; where links hold frames, U1 to U4;
//!     then a free frame of the target tier
//! T3  fence Release (no former word of the new frame stands any more); copy the page, as an optimistic
//!     reader: nobody is held up. fence Acquire
//! T4  CAS the very word seen -> exclusive, and the wrap count as it was at T1: the copy is the page
//! T5  T2 again, under the latch, and U6; else the word as it was, and the new frame is free again
//! T6  metadata of the new frame: page, physical page number, written, imaged; the tiers' policies; the
//!     old frame: page := none, version + 1; word := (new frame, its version), with the mark if that is
//!     in a slower tier                                                             (POOL-3, TIER-1)
//! T7  the old frame is free
//! ```
//!
//! A reader that began before T4 and validates after T6 finds another frame in the word, and begins
//! again; the old frame's bytes are changed only by a thread that takes it, behind its own fence. Where
//! links hold frames (`swizzle`, `array-swizzled`), readers write them into pages under a shared hold and
//! without a new version, and a write-back takes the lines that have changed since the last one as it
//! leaves the page: a copy would not see either come and go. There T3 follows T5. Where a page has one
//! address (`vm`), T3 follows T5 as well, and is the kernel's (`migration_batch.rs`).

#![cfg(not(loom))]

use polder_format::PageId;

use crate::latch::{Exclusive, FrameId, StateCell, StateWord};
use crate::paging::pages_of::PagesOf;
use crate::shared::{Shared, SpaceCore};
use crate::sync::atomic::{Ordering, fence};
use crate::tier::TierNo;
use crate::translation::{Leaving, Translation};

/// Why a page did not migrate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stays {
    /// There is no free frame in the other tier, or no room on its node (`KERNEL-2`).
    NoFrame,
    /// It is dirty, and the sweep of a checkpoint is under way.
    Dirty,
    /// It is pinned, held, lent, being written, or was used meanwhile.
    Busy,
}

impl<T: Translation> Shared<T> {
    /// T1 to T7: the page in this frame goes to a frame of another tier. `urgent`: where links hold
    /// frames, all those in the page are unswizzled if need be.
    pub(crate) fn migrate(
        &self,
        pages: &PagesOf<'_, T>,
        frame: FrameId,
        target: TierNo,
        urgent: bool,
    ) -> Result<(), Stays> {
        let frames = &self.core.frames;
        // T1
        let wraps = self.core.latches.wraps.get();
        let _moves = frames.moves.enter().ok_or(Stays::Busy)?;
        let may_move = |word: StateWord| match word.is_free() {
            true => self.check_may_move(frame, word),
            false => Err(Stays::Busy),
        };
        // T2
        if T::LINKS_PIN {
            pages.with(frame, |_, _, _, word| may_move(word)).unwrap_or(Err(Stays::Busy))?;
            // U1 to U4
            let unswizzled = self.translation.before_cooling(&self.context(), frame, urgent);
            if unswizzled != Some(frame) {
                return Err(Stays::Busy);
            }
        }
        let moved = pages.with(frame, |space, page, cell, seen| {
            may_move(seen)?;
            let preferred = self.translation.preferred(&space.directory, page.page());
            let to = frames.take_in(target, preferred).ok_or(Stays::NoFrame)?;
            self.migrate_to(space, page, (cell, seen, wraps), to)
                .inspect_err(|_| self.give_frame(to))
        });
        moved.unwrap_or(Err(Stays::Busy))
    }

    /// T2, and again T5: whether a page whose word is this may lie elsewhere.
    pub(super) fn check_may_move(&self, frame: FrameId, word: StateWord) -> Result<(), Stays> {
        let (latches, moves) = (&self.core.latches, &self.core.frames.moves);
        let meta = latches.meta(frame);
        if meta.is_pinned() || meta.is_being_written() || !latches.has_no_holders(frame) {
            return Err(Stays::Busy);
        }
        match moves.is_sweep_under_way() && meta.is_dirty(word) {
            true => Err(Stays::Dirty),
            false => Ok(()),
        }
    }

    /// T2 to T7, to a frame that is ours. If the page stays it is still ours.
    fn migrate_to(
        &self,
        space: &SpaceCore<T>,
        page: PageId,
        (cell, seen, wraps): (&StateCell, StateWord, u32),
        to: FrameId,
    ) -> Result<(), Stays> {
        let latches = &self.core.latches;
        let from = seen.frame();
        let source = self.page_in(space, page.page(), from);
        let copy = || {
            // SAFETY: the frame is ours, and holds no page; stale readers of its former one read it by
            // `bytes` and will not validate.
            let mut bytes = unsafe { self.page_in(space, page.page(), to).to_write() };
            bytes.move_from(source);
        };
        // T3
        fence(Ordering::Release);
        if !T::SWIZZLES {
            copy();
            fence(Ordering::Acquire);
        }
        reached!(MigrationCopied);
        // T4
        let held = cell.upgrade(seen).ok_or(Stays::Busy)?;
        // T5
        let put_back = |why| {
            cell.put_back(held);
            Err(why)
        };
        if latches.meta(from).page() != page || latches.wraps.get() != wraps {
            return put_back(Stays::Busy);
        }
        if let Err(stays) = self.check_may_move(from, held) {
            return put_back(stays);
        }
        if !self.translation.before_leaving(&self.context(), source, from, Leaving::Evicted) {
            return put_back(Stays::Busy);
        }
        if T::SWIZZLES {
            copy();
        }
        // T6
        let held = Exclusive::new(latches, cell, held, from, source);
        self.publish_moved(held, self.view(space), to);
        // T7
        self.give_frame(from);
        Ok(())
    }
}

#[cfg(all(test, feature = "tiers"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use polder_format::PageNo;
    use polder_testkit::effort::EVERY_TRANSLATION;

    use super::*;
    use crate::testing::{LINKS_AT, Step, at, create, is_planned, pool_in};
    use crate::tier::{Tier, TierConfig};
    use crate::{AccessHint, Array, ArraySwizzled, Hash, Pool, Simd, Space, Swizzle};

    /// A pool whose pages go nowhere by themselves.
    fn pool<T: Translation>() -> (tempfile::TempDir, Pool<T>) {
        let tiers = TierConfig { slower: vec![Tier::new(1 << 20)], ..TierConfig::default() };
        pool_in::<T>(8 << 20, tiers)
    }

    fn migrate<T: Translation>(space: &Space<T>, page: PageNo, tier: usize) -> Result<(), Stays> {
        let shared = space.shared();
        let frame = frame_of(space, page);
        shared.migrate(&PagesOf::new(shared), frame, TierNo::new(tier), true)
    }

    fn frame_of<T: Translation>(space: &Space<T>, page: PageNo) -> FrameId {
        space.shared().state_of(space.space_core(), page).unwrap().read().frame()
    }

    /// A page goes there and comes back as it was; its old frame is free behind it.
    #[test]
    fn a_page_goes_and_comes_back() {
        fn check<T: Translation>() {
            let (_dir, pool) = pool::<T>();
            let space = pool.create_space().unwrap();
            let page = create(&space);
            let frames = &pool.shared().core.frames;
            let free = || [0, 1].map(|tier| frames.free_in(TierNo::new(tier)));
            let [first, second] = free();
            for round in 0..3 {
                assert_eq!(migrate(&space, page, 1), Ok(()), "{}", T::NAME);
                assert_eq!(free(), [first + 1, second - 1]);
                let tier = frames.tiers().unwrap().of(frame_of(&space, page));
                assert_eq!(tier, TierNo::new(1));
                assert_eq!(number_at(&space, page, 1000), round);
                write(&space, page, round + 1);
                assert_eq!(migrate(&space, page, 0), Ok(()), "{}", T::NAME);
                assert_eq!(free(), [first, second]);
            }
            assert!(pool.check_links().is_empty());
        }
        check::<Array>();
        check::<Hash>();
        check::<Swizzle>();
        if EVERY_TRANSLATION {
            check::<ArraySwizzled>();
            check::<Simd>();
        }
    }

    fn write<T: Translation>(space: &Space<T>, page: PageNo, number: u64) {
        let done = space.run(AccessHint::Normal, |attempt| {
            let found = space.page(attempt, page)?;
            let mut held = attempt.upgrade(found)?;
            held.page_mut().set_u64(1000, number);
            held.set_unlogged();
            Ok(())
        });
        done.unwrap();
    }

    fn number_at<T: Translation>(space: &Space<T>, page: PageNo, offset: usize) -> u64 {
        let shared = space.shared();
        let frame = frame_of(space, page);
        shared.page_in(space.space_core(), page, frame).u64(offset)
    }

    /// What is written behind the copy is in no copy: the page stays.
    #[test]
    fn a_page_that_changes_behind_its_copy_stays() {
        let (_dir, pool) = pool::<Array>();
        let space = pool.create_space().unwrap();
        let page = create(&space);
        let free = pool.shared().core.frames.free.len();
        let writer = space.clone();
        at(Step::MigrationCopied, move || write(&writer, page, 7));
        assert_eq!(migrate(&space, page, 1), Err(Stays::Busy));
        assert!(!is_planned());
        assert_eq!(pool.shared().core.frames.free.len(), free);
        assert_eq!(number_at(&space, page, 1000), 7);
        assert_eq!(migrate(&space, page, 1), Ok(()));
        assert_eq!(number_at(&space, page, 1000), 7);
    }

    /// A link that a reader swizzles or unswizzles brings no new version: pages are copied when nobody
    /// can do so any more.
    #[test]
    fn a_link_that_is_stored_before_the_page_is_held_goes_with_it() {
        fn check<T: Translation>() {
            let (_dir, pool) = pool::<T>();
            let space = pool.create_space().unwrap();
            let (page, child) = (create(&space), create(&space));
            let link = PageId::new(space.id(), child).to_bits();
            let reader = space.clone();
            at(Step::MigrationCopied, move || {
                let (shared, frame) = (reader.shared(), frame_of(&reader, page));
                let bytes = shared.page_in(reader.space_core(), page, frame);
                // SAFETY: nobody else uses the page.
                unsafe { bytes.set_link(LINKS_AT, link) };
            });
            assert_eq!(migrate(&space, page, 1), Ok(()), "{}", T::NAME);
            assert_eq!(number_at(&space, page, LINKS_AT), link, "{}", T::NAME);
        }
        check::<Swizzle>();
        if EVERY_TRANSLATION {
            check::<ArraySwizzled>();
        }
    }

    /// A page that somebody has, or that must not move, stays, and the frame that was taken is free
    /// again.
    #[test]
    fn a_page_that_somebody_has_stays() {
        let (_dir, pool) = pool::<Array>();
        let space = pool.create_space().unwrap();
        let page = create(&space);
        let frames = &pool.shared().core.frames;
        let free = frames.free.len();
        let stays = |why| {
            assert_eq!(migrate(&space, page, 1), Err(why));
            assert_eq!(frames.free.len(), free);
        };
        let meta = pool.shared().core.latches.meta(frame_of(&space, page));
        meta.pin();
        stays(Stays::Busy);
        meta.unpin();
        assert!(meta.begin_writing());
        stays(Stays::Busy);
        meta.end_writing();
        let cell = pool.shared().state_of(space.space_core(), page).unwrap();
        let held = cell.latch().unwrap();
        stays(Stays::Busy);
        cell.put_back(held);
        // It is dirty, and a checkpoint looks for it in its frame.
        let sweeping = frames.moves.begin_sweep();
        stays(Stays::Dirty);
        drop(sweeping);
        let taken: Vec<_> = std::iter::from_fn(|| frames.take_in(TierNo::new(1), None)).collect();
        assert_eq!(migrate(&space, page, 1), Err(Stays::NoFrame));
        taken.into_iter().for_each(|frame| pool.shared().give_frame(frame));
        assert_eq!(migrate(&space, page, 1), Ok(()));
    }
}
