//! Migration by the kernel, where a page has one address: the memory behind it goes to the node of
//! another tier (vmcache-n-2026, 2.1 and 2.3).
//!
//! The page's frame is a number in the pool's accounts, of which each tier has a run: the paper's tier
//! bits of a state word, and its resident set of each tier. So a page migrates by T1 to T7
//! (`migrate.rs`) with two differences. What is copied there is moved here, by one system call for a
//! batch of pages, each of which is held from T4 on. And whether a page has moved is the kernel's to
//! say: one that has not goes on in its former frame, with its former word.
//!
//! * `KERNEL-1` A thread that has a batch waits for no latch, no frame and no device until
//!   [`KernelBatch::finish`]: its pages are held, and so is the page-move gate. As long as that takes
//!   others find the pages latched.
//! * `KERNEL-2` A tier whose node has refused pages, for want of memory or all of a batch for any reason,
//!   is not asked again for a while: what would go there is evicted, and what would come up stays.

#![cfg(not(loom))]

use std::ptr::NonNull;
use std::sync::Arc;

use polder_format::PageNo;

use crate::latch::{Exclusive, FrameId, StateWord};
use crate::machine::Moved;
use crate::paging::migrate::Stays;
use crate::paging::pages_of::PagesOf;
use crate::shared::{Shared, SpaceCore};
use crate::sync::RwLockReadGuard;
use crate::tier::TierNo;
use crate::translation::{Leaving, Translation};

/// Pages on their way to one tier, held exclusively, each with a frame there.
pub(crate) struct KernelBatch<'p, T: Translation> {
    shared: &'p Shared<T>,
    target: TierNo,
    gate: Option<RwLockReadGuard<'p, ()>>,
    pages: Vec<Held<T>>,
}

struct Held<T: Translation> {
    space: Arc<SpaceCore<T>>,
    page: PageNo,
    from: FrameId,
    to: FrameId,
}

impl<'p, T: Translation> KernelBatch<'p, T> {
    /// None yet.
    pub(crate) fn new(shared: &'p Shared<T>, target: TierNo) -> KernelBatch<'p, T> {
        KernelBatch { shared, target, gate: None, pages: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    /// T1, T2, T4 and T5: the page in this frame is held until the batch is finished.
    pub(crate) fn add(&mut self, pages: &PagesOf<'_, T>, frame: FrameId) -> Result<(), Stays> {
        let core = &self.shared.core;
        let frames = &core.frames;
        // T1
        if self.gate.is_none() {
            self.gate = Some(frames.moves.enter().ok_or(Stays::Busy)?);
        }
        let held = pages.with(frame, |space, page, cell, seen| {
            // T2
            if !seen.is_free() {
                return Err(Stays::Busy);
            }
            self.shared.check_may_move(frame, seen)?;
            let to = frames.take_in(self.target, None).ok_or(Stays::NoFrame)?;
            // T4 and T5
            let may_leave = |held: StateWord| {
                let is_its = core.latches.meta(frame).page() == page;
                is_its.then_some(()).ok_or(Stays::Busy)?;
                self.shared.check_may_move(frame, held)?;
                let bytes = self.shared.page_in(space, page.page(), frame);
                let pool = &self.shared.context();
                let translation = &self.shared.translation;
                let may = translation.before_leaving(pool, bytes, frame, Leaving::Evicted);
                may.then_some(()).ok_or(Stays::Busy)
            };
            let held = cell
                .upgrade(seen)
                .ok_or(Stays::Busy)
                .and_then(|held| may_leave(held).inspect_err(|_| cell.put_back(held)));
            held.inspect_err(|_| self.shared.give_frame(to))?;
            Ok(Held { space: Arc::clone(space), page: page.page(), from: frame, to })
        });
        self.pages.push(held.unwrap_or(Err(Stays::Busy))?);
        Ok(())
    }

    /// T3, T6 and T7: the kernel moves what is held, and all is released. Gives how many pages have
    /// moved, and the frames of those for which there is no room on the node (`KERNEL-2`).
    pub(crate) fn finish(&mut self) -> (usize, Vec<FrameId>) {
        let mut outcomes = self.move_memory();
        let refused = !outcomes.contains(&Moved::There);
        let (mut moved, mut without_room) = (0, Vec::new());
        while let (Some(one), Some(outcome)) = (self.pages.pop(), outcomes.pop()) {
            if outcome == Moved::There {
                self.publish(one);
                moved += 1;
                continue;
            }
            if refused || outcome == Moved::NoMemory {
                without_room.push(one.from);
            }
            self.put_back(one);
        }
        self.gate = None;
        if !without_room.is_empty() {
            self.shared
                .core
                .frames
                .tiers()
                .iter()
                .for_each(|tiers| tiers.note_refusal(self.target));
        }
        (moved, without_room)
    }

    /// T6 and T7.
    fn publish(&self, Held { space, page, from, to }: Held<T>) {
        // Held, so that it is still there.
        let Some(cell) = self.shared.state_of(&space, page) else { return };
        let held = cell.peek();
        debug_assert!(held.is_exclusive() && held.frame() == from, "KERNEL-1");
        let bytes = self.shared.page_in(&space, page, from);
        let held = Exclusive::new(&self.shared.core.latches, cell, held, from, bytes);
        self.shared.publish_moved(held, self.shared.view(&space), to);
        self.shared.give_frame(from);
    }

    /// The page stays as it was.
    fn put_back(&self, Held { space, page, to, .. }: Held<T>) {
        if let Some(cell) = self.shared.state_of(&space, page) {
            cell.put_back(cell.peek());
        }
        self.shared.give_frame(to);
    }

    /// T3: what became of each. Where no node is named there is nothing to move.
    fn move_memory(&self) -> Vec<Moved> {
        let pages = &self.pages;
        let (frames, translation) = (&self.shared.core.frames, &self.shared.translation);
        let node = frames.tiers().and_then(|tiers| tiers.node(self.target));
        let Some(node) = node.filter(|_| !pages.is_empty()) else {
            return vec![Moved::There; pages.len()];
        };
        let address = |one: &Held<T>| {
            translation.page_address(&frames.memory, &one.space.directory, one.page, one.from)
        };
        let addresses: Vec<NonNull<u8>> = pages.iter().map(address).collect();
        translation.move_to_node(&addresses, node)
    }
}

impl<T: Translation> Drop for KernelBatch<'_, T> {
    /// Where a thread panics its pages are free again.
    fn drop(&mut self) {
        while let Some(one) = self.pages.pop() {
            self.put_back(one);
        }
    }
}

#[cfg(all(test, feature = "tiers"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::machine::check_may_move;
    use crate::testing::{create, pool_in};
    use crate::tier::{Tier, TierConfig};
    use crate::{AccessHint, PageMoves, Pool, Space, Vm};

    const PAGES: u64 = 64;

    /// A pool whose tiers are both on the first node, and pages in its first tier, each with its number.
    fn pool(batch: u32) -> (tempfile::TempDir, Pool<Vm>, Space<Vm>, Vec<PageNo>) {
        let tiers = TierConfig {
            first_node: Some(0),
            slower: vec![Tier::new(1 << 20).on_node(0)],
            page_moves: PageMoves { batch, ..PageMoves::default() },
            ..TierConfig::default()
        };
        let (dir, pool) = pool_in::<Vm>(8 << 20, tiers);
        let space = pool.create_space().unwrap();
        let pages: Vec<_> = (0..PAGES).map(|_| create(&space)).collect();
        for (number, page) in pages.iter().enumerate() {
            let done = space.run(AccessHint::Normal, |attempt| {
                let found = space.page(attempt, *page)?;
                let mut held = attempt.upgrade(found)?;
                held.page_mut().set_u64(1000, number as u64);
                held.set_unlogged();
                Ok(())
            });
            done.unwrap();
        }
        (dir, pool, space, pages)
    }

    /// Whether nothing can be tested: a container may forbid the call.
    fn is_forbidden() -> bool {
        let forbidden = check_may_move();
        forbidden.as_ref().is_err_and(|why| {
            println!("skipped: kernel_batch: {why}");
            true
        })
    }

    fn frame_of(space: &Space<Vm>, page: PageNo) -> FrameId {
        space.shared().state_of(space.space_core(), page).unwrap().read().frame()
    }

    /// How many of the pages lie in the second tier; all are what they were, and free.
    fn in_second(space: &Space<Vm>, pages: &[PageNo]) -> usize {
        let shared = space.shared();
        let is_in_second = |(number, page): (usize, &PageNo)| {
            let cell = shared.state_of(space.space_core(), *page).unwrap();
            let frame = cell.read().frame();
            assert!(cell.read().is_free());
            let bytes = shared.page_in(space.space_core(), *page, frame);
            assert_eq!(bytes.u64(1000), number as u64);
            shared.core.frames.tiers().unwrap().of(frame) != TierNo::FIRST
        };
        pages.iter().enumerate().map(is_in_second).filter(|second| *second).count()
    }

    fn migrate(space: &Space<Vm>, pages: &[PageNo], tier: usize) -> (usize, Vec<FrameId>) {
        let shared = space.shared();
        let mut batch = KernelBatch::new(shared, TierNo::new(tier));
        let all = PagesOf::new(shared);
        for page in pages {
            assert_eq!(batch.add(&all, frame_of(space, *page)), Ok(()));
        }
        batch.finish()
    }

    fn free(pool: &Pool<Vm>) -> [usize; 2] {
        [0, 1].map(|tier| pool.shared().core.frames.free_in(TierNo::new(tier)))
    }

    /// Pages go together and come back together, at their addresses, by few calls.
    #[test]
    fn pages_go_by_few_calls_and_come_back() {
        if is_forbidden() {
            return;
        }
        let (_dir, pool, space, pages) = pool(24);
        let before = free(&pool);
        let (moved, _) = migrate(&space, &pages, 1);
        let all = PAGES as usize;
        assert_eq!((moved, in_second(&space, &pages)), (all, all));
        assert_eq!(free(&pool), [before[0] + all, before[1] - all]);
        assert_eq!(pool.stats().page_moves, PAGES.div_ceil(24));
        assert_eq!(migrate(&space, &pages, 0).0, all);
        assert_eq!((in_second(&space, &pages), free(&pool)), (0, before));
    }

    /// What the kernel does not move stays in its tier, and the frame that it was to have is free again.
    #[test]
    fn what_the_kernel_does_not_move_stays() {
        if is_forbidden() {
            return;
        }
        for why in [Moved::Stays, Moved::NoMemory] {
            let (_dir, pool, space, pages) = pool(512);
            let before = free(&pool);
            pool.shared().translation.refuse_to_move(4, why);
            let (moved, mut without_room) = migrate(&space, &pages, 1);
            let quarter = PAGES as usize / 4;
            assert_eq!(moved, 3 * quarter);
            assert_eq!(in_second(&space, &pages), moved);
            assert_eq!(free(&pool), [before[0] + moved, before[1] - moved]);
            let expected: Vec<_> = match why {
                Moved::NoMemory => {
                    pages.iter().step_by(4).map(|at| frame_of(&space, *at)).collect()
                }
                _ => Vec::new(),
            };
            without_room.reverse();
            assert_eq!(without_room, expected);
            let is_refused = pool.shared().core.frames.tiers().unwrap().is_refused(TierNo::new(1));
            assert_eq!(is_refused, why == Moved::NoMemory);
        }
    }

    /// A page that somebody has stays, as does a page of a tier without room; others go.
    #[test]
    fn a_page_that_somebody_has_stays() {
        if is_forbidden() {
            return;
        }
        let (_dir, pool, space, pages) = pool(512);
        let shared = space.shared();
        let (all, before) = (PagesOf::new(shared), free(&pool));
        let mut batch = KernelBatch::new(shared, TierNo::new(1));
        let pinned = shared.core.latches.meta(frame_of(&space, pages[0]));
        pinned.pin();
        assert_eq!(batch.add(&all, frame_of(&space, pages[0])), Err(Stays::Busy));
        pinned.unpin();
        let cell = shared.state_of(space.space_core(), pages[1]).unwrap();
        let held = cell.latch().unwrap();
        assert_eq!(batch.add(&all, held.frame()), Err(Stays::Busy));
        cell.put_back(held);
        assert_eq!(batch.add(&all, frame_of(&space, pages[2])), Ok(()));
        // It is held already.
        assert_eq!(batch.add(&all, frame_of(&space, pages[2])), Err(Stays::Busy));
        let frames = &shared.core.frames;
        let taken: Vec<_> = std::iter::from_fn(|| frames.take_in(TierNo::new(1), None)).collect();
        assert_eq!(batch.add(&all, frame_of(&space, pages[3])), Err(Stays::NoFrame));
        taken.into_iter().for_each(|frame| shared.give_frame(frame));
        // No sweep of a checkpoint begins while pages are on their way.
        assert!(batch.gate.is_some());
        assert_eq!(batch.finish(), (1, Vec::new()));
        assert!(batch.gate.is_none());
        assert_eq!(free(&pool), [before[0] + 1, before[1] - 1]);
        assert_eq!(in_second(&space, &pages), 1);
        // What a thread leaves behind that panics is free again.
        assert_eq!(batch.add(&all, frame_of(&space, pages[3])), Ok(()));
        drop(batch);
        assert_eq!(free(&pool), [before[0] + 1, before[1] - 1]);
        assert_eq!(in_second(&space, &pages), 1);
    }

    /// A kernel that moves no page, or only some, holds nobody up: what makes room leaves memory.
    #[test]
    fn a_pool_goes_on_where_the_kernel_moves_little() {
        if is_forbidden() {
            return;
        }
        for (each, why) in [(1, Moved::Stays), (1, Moved::NoMemory), (2, Moved::NoMemory)] {
            let (_dir, pool, space, pages) = pool(32);
            let translation = &pool.shared().translation;
            translation.refuse_to_move(each, why);
            let more: Vec<_> = (0..6000).map(|_| create(&space)).collect();
            for page in more.iter().chain(&pages) {
                let number = space.run(AccessHint::Normal, |attempt| {
                    let found = space.page(attempt, *page)?;
                    let number = found.page().u64(1000);
                    found.validate()?;
                    Ok(number)
                });
                let place = pages.iter().position(|one| one == page);
                assert_eq!(number.unwrap(), place.map_or(0, |place| place as u64));
            }
            let stats = pool.stats();
            assert!(stats.evictions > 1000, "{each} {why:?}: {stats:?}");
            assert_eq!(stats.tier_demotions > 0, each > 1, "{stats:?}");
        }
    }
}
