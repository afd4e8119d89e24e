//! Pages that go to another tier together.
//!
//! A page that lies in a frame is copied and is there (`migrate.rs`). Where a page has one address
//! (`vm`), the kernel moves the memory behind it to the node of the other tier (vmcache-n-2026, 2.1 and
//! 2.3): the page's frame is a number in the pool's accounts, of which each tier has a run, which is the
//! paper's tier bits of a state word and its resident set of each tier. There a page migrates by T1 to T7
//! too, with two differences. What is copied else is moved here, by one system call for many pages, each
//! of which is held from T4 on. And whether a page has moved is the kernel's to say: one that has not goes
//! on in its former frame, with its former word.
//!
//! * `KERNEL-1` A thread that holds pages for the kernel waits for no latch, no frame and no device until
//!   they are moved: the page-move gate is held, too. As long as that takes others find them latched.
//! * `KERNEL-2` A tier whose node has refused a page, for want of memory or of a permission, or all of
//!   several pages for any reason, has no room for a while: what would go there is evicted, and what would
//!   come up stays.

#![cfg(not(loom))]

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use polder_format::PageNo;

use crate::latch::{Exclusive, FrameId, StateWord};
use crate::machine::{Moved, kernel_page_bytes};
use crate::paging::migrate::Stays;
use crate::paging::pages_of::PagesOf;
use crate::shared::{Shared, SpaceCore};
use crate::sync::RwLockReadGuard;
use crate::thread::Counter;
use crate::tier::TierNo;
use crate::translation::{Leaving, Translation};

/// Pages on their way to one tier.
pub(crate) struct MigrationBatch<'p, T: Translation> {
    shared: &'p Shared<T>,
    target: TierNo,
    gate: Option<RwLockReadGuard<'p, ()>>,
    /// Held exclusively until the kernel has moved them.
    held: Vec<Held<T>>,
    done: Done,
}

struct Held<T: Translation> {
    space: Arc<SpaceCore<T>>,
    page: PageNo,
    from: FrameId,
    to: FrameId,
}

/// What has become of a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// How many pages have migrated.
    pub(crate) moved: usize,
    /// The frames of those that were held and stay, and why.
    pub(crate) stay: Vec<(FrameId, Moved)>,
}

impl<'p, T: Translation> MigrationBatch<'p, T> {
    /// None yet.
    pub(crate) fn new(shared: &'p Shared<T>, target: TierNo) -> MigrationBatch<'p, T> {
        MigrationBatch { shared, target, gate: None, held: Vec::new(), done: Done::default() }
    }

    /// The page in this frame migrates, or will when the batch is full or finished. `urgent` is that of
    /// [`Shared::migrate`].
    pub(crate) fn add(
        &mut self,
        pages: &PagesOf<'_, T>,
        frame: FrameId,
        urgent: bool,
    ) -> Result<(), Stays> {
        let begun = Instant::now();
        let added = match T::MEMORY.has_addresses() {
            true => self.hold(pages, frame),
            false => self.shared.migrate(pages, frame, self.target, urgent).inspect(|()| {
                self.done.moved += 1;
            }),
        };
        self.note_time(begun);
        added
    }

    /// All pages have migrated, or stay.
    pub(crate) fn finish(&mut self) -> Done {
        let begun = Instant::now();
        self.move_held();
        self.note_time(begun);
        std::mem::take(&mut self.done)
    }

    fn note_time(&self, begun: Instant) {
        let nanos = begun.elapsed().as_nanos() as u64;
        self.shared.core.counters.add(Counter::MigrationNanos, nanos);
    }

    /// T1, T2, T4 and T5: the page in this frame is held until the kernel has moved it.
    fn hold(&mut self, pages: &PagesOf<'_, T>, frame: FrameId) -> Result<(), Stays> {
        let core = &self.shared.core;
        let frames = &core.frames;
        let Some(tiers) = frames.tiers() else { return Err(Stays::NoFrame) };
        // KERNEL-2
        if tiers.is_refused(self.target) {
            return Err(Stays::NoFrame);
        }
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
        self.held.push(held.unwrap_or(Err(Stays::Busy))?);
        if self.held.len() >= tiers.pages_a_call() {
            self.move_held();
        }
        Ok(())
    }

    /// T3, T6 and T7: the kernel moves what is held, and all is released.
    fn move_held(&mut self) {
        let mut outcomes = self.move_memory();
        if outcomes.len() > 1 && !outcomes.contains(&Moved::There) {
            outcomes.fill(Moved::Refused);
        }
        while let (Some(one), Some(outcome)) = (self.held.pop(), outcomes.pop()) {
            if outcome == Moved::There {
                self.publish(one);
                self.done.moved += 1;
                continue;
            }
            if let Some(tiers) = self.shared.core.frames.tiers() {
                if outcome == Moved::Refused {
                    tiers.note_refusal(self.target);
                }
                // Of several kernel pages some may have moved.
                if self.shared.core.page_size().bytes() > kernel_page_bytes() {
                    tiers.note_elsewhere(one.from);
                }
            }
            self.done.stay.push((one.from, outcome));
            self.put_back(one);
        }
        self.gate = None;
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
        let pages = &self.held;
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

impl<T: Translation> Drop for MigrationBatch<'_, T> {
    /// Where a thread panics its pages are free again.
    fn drop(&mut self) {
        while let Some(one) = self.held.pop() {
            self.put_back(one);
        }
    }
}

#[cfg(all(test, feature = "tiers"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use polder_format::PageSize;

    use super::*;
    use crate::machine::check_may_move;
    use crate::replacement::ReplacementKind;
    use crate::testing::{config, create, pool_of};
    use crate::tier::{Tier, TierConfig};
    use crate::{AccessHint, PageMoves, Pool, PoolConfig, Space, Vm};

    const PAGES: u64 = 64;
    /// In which there is always room.
    const SECOND_BYTES: u64 = 32 << 20;

    /// A pool whose tiers are both on the first node, and pages in its first tier, each with its number.
    fn pool(batch: u32) -> (tempfile::TempDir, Pool<Vm>, Space<Vm>, Vec<PageNo>) {
        pool_of_pages(PageSize::MIN, batch)
    }

    fn pool_of_pages(
        page_size: PageSize,
        batch: u32,
    ) -> (tempfile::TempDir, Pool<Vm>, Space<Vm>, Vec<PageNo>) {
        let tiers = TierConfig {
            first_node: Some(0),
            slower: vec![Tier::new(SECOND_BYTES).on_node(0)],
            page_moves: PageMoves { batch, ..PageMoves::default() },
            ..TierConfig::default()
        };
        // What came first goes first.
        let replacement = ReplacementKind::Lru;
        let config = PoolConfig { tiers, replacement, page_size, ..config(8 << 20) };
        let (dir, pool) = pool_of::<Vm>(config);
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
            println!("skipped: migration_batch: {why}");
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

    fn migrate(space: &Space<Vm>, pages: &[PageNo], tier: usize) -> Done {
        let shared = space.shared();
        let mut batch = MigrationBatch::new(shared, TierNo::new(tier));
        let all = PagesOf::new(shared);
        for page in pages {
            assert_eq!(batch.add(&all, frame_of(space, *page), false), Ok(()));
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
        let all = PAGES as usize;
        assert_eq!((migrate(&space, &pages, 1).moved, in_second(&space, &pages)), (all, all));
        assert_eq!(free(&pool), [before[0] + all, before[1] - all]);
        assert_eq!(pool.stats().page_moves, PAGES.div_ceil(24));
        assert_eq!(migrate(&space, &pages, 0).moved, all);
        assert_eq!((in_second(&space, &pages), free(&pool)), (0, before));
    }

    /// What the kernel does not move stays in its tier, and the frame that it was to have is free again.
    #[test]
    fn what_the_kernel_does_not_move_stays() {
        if is_forbidden() {
            return;
        }
        for (why, parts) in [(Moved::Stays, 1), (Moved::Refused, 1), (Moved::Stays, 2)] {
            let page_size = PageSize::new((parts * PageSize::MIN.bytes()) as u32).unwrap();
            let (_dir, pool, space, pages) = pool_of_pages(page_size, 512);
            let (before, quarter) = (free(&pool), PAGES as usize / 4);
            pool.shared().translation.refuse_to_move(4 * parts, why);
            let Done { moved, mut stay } = migrate(&space, &pages, 1);
            assert_eq!((moved, in_second(&space, &pages)), (3 * quarter, 3 * quarter));
            assert_eq!(free(&pool), [before[0] + moved, before[1] - moved]);
            stay.reverse();
            let fourth = pages.iter().step_by(4).map(|at| (frame_of(&space, *at), why));
            assert_eq!(stay, fourth.collect::<Vec<_>>());
            // Of each page that stays the second part has moved, if there is one.
            let mut in_part = space.shared().core.frames.tiers().unwrap().take_elsewhere();
            in_part.reverse();
            let frames = stay.iter().map(|(frame, _)| *frame).filter(|_| parts > 1);
            assert_eq!(in_part, frames.collect::<Vec<_>>());
            // KERNEL-2
            let all = PagesOf::new(space.shared());
            let again =
                MigrationBatch::new(space.shared(), TierNo::new(1)).add(&all, stay[0].0, false);
            assert_eq!(again.is_err(), why == Moved::Refused, "{again:?}");
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
        let mut batch = MigrationBatch::new(shared, TierNo::new(1));
        let pinned = shared.core.latches.meta(frame_of(&space, pages[0]));
        pinned.pin();
        assert_eq!(batch.add(&all, frame_of(&space, pages[0]), false), Err(Stays::Busy));
        pinned.unpin();
        let cell = shared.state_of(space.space_core(), pages[1]).unwrap();
        let held = cell.latch().unwrap();
        assert_eq!(batch.add(&all, held.frame(), false), Err(Stays::Busy));
        cell.put_back(held);
        assert_eq!(batch.add(&all, frame_of(&space, pages[2]), false), Ok(()));
        // It is held already.
        assert_eq!(batch.add(&all, frame_of(&space, pages[2]), false), Err(Stays::Busy));
        let frames = &shared.core.frames;
        let taken: Vec<_> = std::iter::from_fn(|| frames.take_in(TierNo::new(1), None)).collect();
        assert_eq!(batch.add(&all, frame_of(&space, pages[3]), false), Err(Stays::NoFrame));
        taken.into_iter().for_each(|frame| shared.give_frame(frame));
        // No sweep of a checkpoint begins while pages are on their way.
        assert!(batch.gate.is_some());
        assert_eq!(batch.finish(), Done { moved: 1, stay: Vec::new() });
        assert!(batch.gate.is_none());
        assert_eq!(free(&pool), [before[0] + 1, before[1] - 1]);
        assert_eq!(in_second(&space, &pages), 1);
        // What a thread leaves behind that panics is free again.
        assert_eq!(batch.add(&all, frame_of(&space, pages[3]), false), Ok(()));
        drop(batch);
        assert_eq!(free(&pool), [before[0] + 1, before[1] - 1]);
        assert_eq!(in_second(&space, &pages), 1);
    }

    /// A kernel that moves no page, or only some, holds nobody up, and no tier keeps for ever what came
    /// first: what makes room leaves memory.
    #[test]
    fn a_pool_goes_on_where_the_kernel_moves_little() {
        if is_forbidden() {
            return;
        }
        for (each, why) in [(1, Moved::Stays), (1, Moved::Refused), (2, Moved::Refused)] {
            let (_dir, pool, space, pages) = pool(32);
            pool.shared().translation.refuse_to_move(each, why);
            let more: Vec<_> = (0..6000).map(|_| create(&space)).collect();
            let number_at = |page: PageNo| {
                let number = space.run(AccessHint::Normal, |attempt| {
                    let found = space.page(attempt, page)?;
                    let number = found.page().u64(1000);
                    found.validate()?;
                    Ok(number)
                });
                number.unwrap()
            };
            let (shared, frames) = (space.shared(), &pool.shared().core.frames);
            let is_in_first = |page: &&PageNo| {
                let word = shared.state_of(space.space_core(), **page).map(|cell| cell.read());
                word.is_some_and(|word| frames.tiers().unwrap().of(word.frame()) == TierNo::FIRST)
            };
            more.iter().for_each(|page| assert_eq!(number_at(*page), 0));
            (0..).zip(&pages).for_each(|(number, page)| assert_eq!(number_at(*page), number));
            let late = more[3000..].iter().filter(is_in_first).count();
            assert!(late > 200, "{each} {why:?}: {late}");
            let stats = pool.stats();
            assert_eq!(stats.tier_demotions > 0, each > 1, "{each} {why:?}: {stats:?}");
        }
    }
}
