//! The page provider: a thread that keeps the number of free frames between a low and a high
//! watermark, so that a fault hardly ever has to evict, or to write, by itself.
//!
//! A sweep of its own takes as many pages as are missing to the high watermark, and writes those
//! that are dirty in batches, sorted by where they lie. How high the watermarks are follows from how
//! many frames are taken meanwhile (`watermarks.rs`). A thread that finds no free frame all the same
//! waits for it a little, unless it has panicked, before it evicts by itself: many threads that each write a few pages would
//! take its time and that of the device. What they evict is counted.

#![cfg(not(loom))]

use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::frame::Provides;
use crate::latch::FrameId;
use crate::page::PageRef;
use crate::paging::migration_batch::MigrationBatch;
use crate::paging::pages_of::PagesOf;
use crate::paging::watermarks::Watermarks;
use crate::shared::Shared;
use crate::sync::atomic::Ordering;
use crate::thread::{Call, Counter};
use crate::tier::TierNo;
use crate::translation::Translation;

/// How long the page provider rests when a sweep freed nothing.
const REST: Duration = Duration::from_millis(10);
/// It ends when nobody has asked for so long.
const STAY: Duration = Duration::from_secs(1);
/// How many frames it frees at least before it looks at the watermarks again.
const LEAST_GOAL: usize = 64;
/// What it remembers of the demand loses an eighth with each sweep.
const DECAY: usize = 8;

/// Has a page provider start when free frames are short; dropping this stops it and waits for its
/// end.
#[derive(Debug)]
pub(crate) struct PageProvider<T: Translation>(Arc<Shared<T>>);

impl<T: Translation> PageProvider<T> {
    /// There will be one, where the translation can evict at all.
    pub(crate) fn new(shared: &Arc<Shared<T>>) -> PageProvider<T> {
        let theirs = Arc::clone(shared);
        if T::EVICTS {
            // Where no thread starts the threads that fault evict by themselves.
            let _ = shared.core.page_provider.arm("polder-writer", move || theirs.provide());
        }
        PageProvider(Arc::clone(shared))
    }
}

impl<T: Translation> Drop for PageProvider<T> {
    fn drop(&mut self) {
        self.0.core.page_provider.stop();
    }
}

impl Core {
    /// Free frames are short. False if the system has no thread to give: the threads that fault
    /// evict by themselves.
    #[inline]
    pub(crate) fn call_page_provider(&self) -> bool {
        self.page_provider.wake().is_ok()
    }
}

impl<T: Translation> Shared<T> {
    /// The page provider's thread.
    fn provide(&self) {
        let (worker, mut rest) = (&self.core.page_provider, false);
        let _provides = Provides(&self.core.frames.waiters);
        loop {
            match worker.wait(STAY) {
                Call::Stop => return,
                Call::Nobody if worker.leave() => return,
                _ => {}
            }
            if rest {
                worker.rest(REST);
            }
            rest = !self.fill_reserve();
        }
    }

    /// Evicts until the high watermark is reached in each tier; and promotes what is wanted. False if
    /// sweeps free nothing.
    fn fill_reserve(&self) -> bool {
        let frames = &self.core.frames;
        let tiers = frames.tier_count();
        if self.is_short(|reserve| reserve.high) {
            // What was in vain a while ago may not be any more.
            frames.waiters.set_served(true);
            self.reclaim_retired(0);
        }
        let mut is_first = true;
        loop {
            let (mut is_short, mut freed) = (false, 0);
            self.tune_migration();
            // The slowest first, so that the others can demote.
            for tier in (0..tiers).rev().map(TierNo::new) {
                if let Some((reserve, free)) = self.shortage_of(tier, |reserve| reserve.high) {
                    is_short = true;
                    freed += self.provide_in(tier, reserve, free);
                }
            }
            // In batches: of what is wanted meanwhile the next ones call us again.
            let has_batch = frames.tiers().is_some_and(|tiers| is_first || tiers.has_batch());
            let promoted = if has_batch { self.promote_wanted() } else { 0 };
            is_first = false;
            if is_short {
                frames.waiters.set_served(freed + promoted > 0);
                if freed + promoted == 0 {
                    crate::event!(debug, free = frames.free.len(), "no sweep freed a frame");
                    return false;
                }
            } else if promoted == 0 {
                return true;
            }
        }
    }

    /// What goes where from now on, where the pool finds out by itself.
    fn tune_migration(&self) {
        let Some(tiers) = self.core.frames.tiers() else { return };
        if tiers.wants_latencies() {
            self.measure_latencies(tiers);
        }
        tiers.tune(self.core.page_size().bytes() as u64);
    }

    /// How many pages of a tier the kernel is asked to move together, where it is the kernel that moves
    /// them: a small part of the tier.
    fn pages_a_call(&self, tier: TierNo) -> usize {
        let tiers = self.core.frames.tiers().filter(|_| T::MEMORY.has_addresses());
        tiers.map_or(0, |tiers| tiers.pages_a_call().min(tiers.frames(tier) as usize / 16))
    }

    /// A sweep in a tier of which so many frames are free, and what it tells of the demand. Gives how
    /// many it freed.
    fn provide_in(&self, tier: TierNo, reserve: Watermarks, free: usize) -> usize {
        let frames = &self.core.frames;
        let call = self.pages_a_call(tier);
        let missing = reserve.high.saturating_sub(free).max(LEAST_GOAL.max(call));
        let most = self.core.data.batch_pages.min(reserve.high).max(call);
        // What finds no room in the slower tier would leave memory, although colder pages are there.
        let slower = frames.tiers().and_then(|tiers| {
            let slower = tiers.behind(tier)?;
            (!tiers.is_refused(slower)).then_some(slower)
        });
        let room = slower.map(|slower| frames.free_in(slower)).filter(|room| *room > 0);
        let freed = self.sweep(tier, missing.min(most).min(room.unwrap_or(most)));
        let taken = (free + freed).saturating_sub(frames.free_in(tier));
        let demand = &frames.demand[tier.index()];
        let of_late = demand.load(Ordering::Relaxed);
        demand.store(taken.max(of_late - of_late.div_ceil(DECAY)), Ordering::Relaxed);
        freed
    }

    /// Has the kernel move pages to the nodes of their tiers: those that were loaded into a slower one, and
    /// those that may have left some of their memory where they did not go. They are not held: it does
    /// not matter to it who uses them. (Where a page goes elsewhere meanwhile, and comes back to
    /// another tier, its memory is of a node that is not its own until it moves again.)
    fn move_to_their_nodes(&self, pages: &PagesOf<'_, T>, loaded: Vec<FrameId>) {
        let frames = &self.core.frames;
        let Some(tiers) = frames.tiers() else { return };
        let mut by_tier = vec![Vec::new(); tiers.count()];
        for frame in loaded {
            let address =
                pages.with(frame, |space, page, _, _| self.page_in(space, page.page(), frame));
            by_tier[tiers.of(frame).index()].extend(address.map(PageRef::base));
        }
        for (tier, addresses) in by_tier.iter().enumerate() {
            let node = tiers.node(TierNo::new(tier)).filter(|_| !addresses.is_empty());
            node.iter().for_each(|node| drop(self.translation.move_to_node(addresses, *node)));
        }
    }

    /// Promotes pages that are wanted in a faster tier (`TIER-2`). Gives how many.
    fn promote_wanted(&self) -> usize {
        let frames = &self.core.frames;
        let Some(tiers) = frames.tiers() else { return 0 };
        let pages = PagesOf::new(self);
        self.move_to_their_nodes(&pages, tiers.take_elsewhere());
        let mut without_room = Vec::new();
        let mut batches: Vec<_> =
            (0..tiers.count()).map(|tier| MigrationBatch::new(self, TierNo::new(tier))).collect();
        for frame in tiers.take_wanted() {
            let Some(faster) = tiers.of(frame).faster() else { continue };
            if frames.free_in(faster) <= self.reserve_of(faster).low {
                without_room.push(frame);
            } else {
                // What stays will be wanted again.
                let _ = batches[faster.index()].add(&pages, frame, true);
            }
        }
        let promoted = batches.iter_mut().map(|batch| batch.finish().moved).sum();
        tiers.want_again(without_room);
        self.core.counters.add(Counter::TierPromotions, promoted as u64);
        promoted
    }
}
