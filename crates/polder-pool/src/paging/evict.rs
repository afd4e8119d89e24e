//! Making room: taking pages out of frames.
//!
//! Which pages go is the replacement policy's business (`replacement/`); whether one can go is
//! found out here, by one function from the top down ([`Sweep::evict`]).
//!
//! ```text
//! E1  a frame that the replacement policy names, with page P; its word says this frame, latch
//!     free
//! E2  (the policy has marked a page that bore no mark, and names one that still does)
//! E3  pinned or being written: next.  dirty: noted, to be written back with others, then visited
//!     again, if its mark is as it was and the policy, which is asked, has heard of no access
//!     meanwhile
//! E4  CAS the very word seen -> exclusive; if it fails: next                          (POOL-9)
//! E5  under the latch, again: unpinned, clean, not being written; else release unchanged (POOL-4)
//! E6  the policy is told; metadata: page := none, version := version + 1              (POOL-3)
//! E7  word := 0
//! E8  lower the group's count; the last one of the array gives its memory back (`array/group.rs`)
//! E9  the frame is free
//! ```
//!
//! E3 to E5 are [`FrameMeta::seize`](crate::latch::meta::FrameMeta::seize); E7 and E8 are the
//! translation's ([`Words::remove`]). Where links hold frames, U1 to U4 come before E3 and U6
//! behind E5 (`swizzle/unswizzling.rs`).
//!
//! * `POOL-4` A page is evicted only clean, unpinned, with no write of it under way.
//! * `POOL-9` A thread that evicts waits for no latch: eviction only tries.
//!
//! A sweep ends when it has freed what was asked, or after three rounds over all frames; in the
//! last one it does not spare pages whose mark readers have cleared before. A thread that needs a
//! frame sweeps several times, with some milliseconds in between: pages that are latched, in
//! flight or being written come back by themselves. Then it waits for as long as it may
//! (`frame/admission.rs`).
//!
//! A page that is freed leaves by E6 to E9 as well ([`Shared::discard`]): the group that unlinks
//! it clears its bit; then, under its exclusive latch, the thread that frees it waits for
//! *writing* to end, so that a late write cannot hit a page that was given out again; then its
//! number's reservation ends (`space/alloc.rs`). What leaves memory unwritten is not seen by a
//! checkpoint's sweep. So whatever says that it is gone is in the log before it goes: a checkpoint
//! that missed the page then makes that durable as well (K4), and no recovery looks for it.

#![cfg(not(loom))]

use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use polder_format::{PageId, PageNo};

use crate::error::PoolError;
use crate::frame::partitions::PartitionNo;
use crate::latch::{Exclusive, FrameId, Obstacle, StateCell, StateWord};
use crate::machine::Moved;
use crate::paging::admission::StallTimer;
use crate::paging::migrate::Stays;
use crate::paging::migration_batch::{Done, MigrationBatch};
use crate::paging::pages_of::PagesOf;
use crate::paging::write_back::Cause;
use crate::shared::{Shared, SpaceCore};
use crate::sync::atomic::Ordering;
use crate::sync::lock;
use crate::thread::Counter;
use crate::tier::TierNo;
use crate::translation::{Leaving, Translation, Words};

/// How often the policy may have named as many pages as there are frames, or none, in one sweep:
/// once to mark, once to take, once for what was accessed or written in between.
const ROUNDS: u64 = 3;
/// What a thread that finds no free frame evicts at once.
const FOREGROUND_GOAL: usize = 4;
/// How long a thread that finds no free frame leaves it to the page provider, unless that finds
/// nothing to evict: longer than a batch of writes takes, also where processors are short.
const PROVIDER_TIME: Duration = Duration::from_millis(100);
/// How often a thread that may not wait asks the policy for pages that can go without being written.
const CLEAN_LOOKS: usize = 8;
/// Sweeps that a thread makes before it says that the pool is exhausted: 6 ms in between.
const FOREGROUND_SWEEPS: usize = 6;

/// A page that is held exclusively to be evicted.
struct Seized<T: Translation> {
    space: Arc<SpaceCore<T>>,
    page: PageNo,
    frame: FrameId,
}

/// A page that must be written before it goes.
struct Dirty {
    frame: FrameId,
    /// Whether it bore the mark.
    was_marked: bool,
    /// Whether it is to leave memory.
    leaves: bool,
}

/// One sweep: what was named and cannot go yet, and what can.
struct Sweep<'p, T: Translation> {
    pages: PagesOf<'p, T>,
    /// The tier whose policy is asked; the first where there is one.
    tier: TierNo,
    /// Whether the policy was asked for the last time.
    urgent: bool,
    /// What is clean leaves memory, and nothing else happens.
    only_clean: bool,
    freed: usize,
    /// Of those, pages that went to a slower tier.
    demoted: usize,
    dirty: Vec<Dirty>,
    /// Held until their memory is given back, all at once; only where it is.
    seized: Vec<Seized<T>>,
    /// What goes to the slower tier, if there is one.
    leaving: Option<MigrationBatch<'p, T>>,
}

impl<T: Translation> Shared<T> {
    /// F3: a frame for a page that could not have `preferred`. Evicts if none is free. Called with
    /// no latch held, since it may wait for the device (`POOL-8`).
    /// `near` is the partition that is looked at first.
    pub(crate) fn take_frame(
        &self,
        preferred: Option<FrameId>,
        near: PartitionNo,
    ) -> Result<FrameId, PoolError> {
        let core = &self.core;
        let take = || self.take_free_frame(preferred, near);
        if let Some(frame) = take() {
            if self.is_short(|reserve| reserve.low) {
                core.call_page_provider();
            }
            return Ok(frame);
        }
        if !T::EVICTS {
            return self.try_for_a_moment(|| take().ok_or(()));
        }
        self.reclaim_retired(0);
        if let Some(frame) = take() {
            return Ok(frame);
        }
        core.counters.add(Counter::FrameWaits, 1);
        let is_called = core.call_page_provider();
        // ADMIT-2: others go first.
        let is_admitted = core.frames.admission.is_admitted();
        if core.frames.admission.is_crowded() && !is_admitted {
            return Err(self.exhausted());
        }
        if is_called && let Some(frame) = core.frames.waiters.wait(PROVIDER_TIME, take) {
            return Ok(frame);
        }
        let mut stall = StallTimer::new(self);
        loop {
            // Before the sweeps: what the device has ended with is free by then.
            let goes_on = match is_admitted {
                true => stall.is_left(),
                // ADMIT-2
                false => stall.is_left_to_device(),
            };
            for try_ in 0..FOREGROUND_SWEEPS {
                let freed = self.sweep_any(FOREGROUND_GOAL);
                core.counters.add(Counter::ForegroundEvictions, freed as u64);
                if let Some(frame) = take() {
                    return Ok(frame);
                }
                // Others are at work with the frames: latched, in flight and written pages come
                // back.
                thread::sleep(Duration::from_micros(100 << try_));
            }
            if !goes_on {
                return Err(self.exhausted());
            }
        }
    }

    /// F3 for a thread that may wait for nothing: a frame that is free, or becomes free by evicting
    /// what is clean.
    pub(crate) fn take_frame_at_once(
        &self,
        preferred: Option<FrameId>,
        near: PartitionNo,
    ) -> Option<FrameId> {
        let core = &self.core;
        let take = || self.take_free_frame(preferred, near);
        let taken = take().or_else(|| {
            // ADMIT-2: others go first.
            if !T::EVICTS || core.frames.admission.is_crowded() {
                return None;
            }
            self.reclaim_retired(0);
            self.sweep_clean(FOREGROUND_GOAL);
            take()
        });
        if T::EVICTS && self.is_short(|reserve| reserve.low) {
            core.call_page_provider();
        }
        taken
    }

    /// A frame that is free.
    pub(crate) fn take_free_frame(
        &self,
        preferred: Option<FrameId>,
        near: PartitionNo,
    ) -> Option<FrameId> {
        let free = &self.core.frames.free;
        match preferred {
            Some(preferred) => free.take_instead_of(preferred, near),
            None => free.take(near),
        }
    }

    /// Where nothing is evicted: others may have taken a frame for a page that has become
    /// resident, and give it back.
    pub(crate) fn try_for_a_moment<R>(
        &self,
        take: impl Fn() -> Result<R, ()>,
    ) -> Result<R, PoolError> {
        for try_ in 0..FOREGROUND_SWEEPS {
            if let Ok(taken) = take() {
                return Ok(taken);
            }
            thread::sleep(Duration::from_micros(100 << try_));
        }
        let frames = u64::from(self.core.frames.budget_frames);
        Err(PoolError::DoesNotFit { frames, translation: T::NAME })
    }

    /// What holds the frames.
    pub(crate) fn exhausted(&self) -> PoolError {
        let (mut pinned, mut latched, mut dirty, mut in_flight) = (0, 0, 0, 0);
        let pages = PagesOf::new(self);
        for frame in self.core.frames.memory.ids() {
            let meta = self.core.latches.meta(frame);
            if self.core.frames.free.is_free(frame) {
                continue;
            }
            match pages.with(frame, |_, _, _, word| word) {
                _ if meta.is_pinned() => pinned += 1,
                None => in_flight += 1,
                Some(word) if !word.is_free() => latched += 1,
                Some(word) if meta.is_dirty(word) => dirty += 1,
                Some(_) => {}
            }
        }
        PoolError::Exhausted {
            frames: u64::from(self.core.frames.memory.count()),
            pinned,
            latched,
            in_flight,
            dirty,
            last_write_error: lock(&self.core.data.last_write_error).clone(),
        }
    }

    /// Evicts what is clean among the next pages that the policy names, up to `goal`: without
    /// writing, so that it waits for nothing. The page provider writes the others.
    fn sweep_clean(&self, goal: usize) {
        let tiers = self.core.frames.tier_count();
        for tier in (0..tiers).rev() {
            let mut sweep = Sweep::new(self, TierNo::new(tier));
            sweep.only_clean = true;
            let mut victims = Vec::with_capacity(goal);
            for _ in 0..CLEAN_LOOKS {
                victims.clear();
                sweep.propose(goal - sweep.freed, &mut victims);
                victims.iter().for_each(|frame| sweep.visit(*frame));
                sweep.give_back();
                if sweep.freed >= goal {
                    break;
                }
            }
            self.core.counters.add(Counter::Evictions, sweep.freed as u64);
            if sweep.freed > 0 {
                return;
            }
        }
    }

    /// Evicts the page in a frame, if it can go at once: one that is not what it should be.
    #[cold]
    pub(crate) fn evict_suspect(&self, frame: FrameId) {
        let tiers = self.core.frames.tiers();
        let mut sweep = Sweep::new(self, tiers.map_or(TierNo::new(0), |tiers| tiers.of(frame)));
        sweep.evict(frame);
        sweep.give_back();
        self.core.counters.add(Counter::Evictions, sweep.freed as u64);
    }

    /// The same as [`Shared::sweep`] in the slowest tier in which something can go: from there pages
    /// leave memory.
    fn sweep_any(&self, goal: usize) -> usize {
        let tiers = self.core.frames.tier_count();
        let mut freed = (0..tiers).rev().map(|tier| self.sweep(TierNo::new(tier), goal));
        freed.find(|freed| *freed > 0).unwrap_or(0)
    }

    /// Evicts from a tier, or demotes, until `goal` frames were freed, or the policy has nothing more
    /// to name that can go. Gives how many were. Where there is one tier it is the first.
    pub(crate) fn sweep(&self, tier: TierNo, goal: usize) -> usize {
        let core = &self.core;
        let tiers = core.frames.tiers();
        let frames = tiers.map_or(core.frames.memory.count(), |tiers| tiers.frames(tier));
        let frames = u64::from(frames);
        let mut sweep = Sweep::new(self, tier);
        let (mut named, mut fruitless) = (0, 0);
        let mut victims = Vec::with_capacity(goal);
        while sweep.freed < goal && fruitless < ROUNDS && named < frames * ROUNDS {
            let urgent = fruitless + 1 == ROUNDS || named >= frames * (ROUNDS - 1);
            sweep.urgent = urgent;
            victims.clear();
            sweep.propose(goal - sweep.freed, &mut victims);
            fruitless += u64::from(victims.is_empty());
            named += victims.len() as u64;
            victims.iter().for_each(|frame| sweep.visit(*frame));
            sweep.give_back();
            if sweep.dirty.len() >= core.data.batch_pages.min(goal * 4) {
                sweep.write_and_evict();
            }
        }
        sweep.write_and_evict();
        core.counters.add(Counter::Evictions, (sweep.freed - sweep.demoted) as u64);
        core.counters.add(Counter::TierDemotions, sweep.demoted as u64);
        sweep.freed
    }

    /// Takes a page that is held exclusively out of memory, without writing it. It is not lent.
    pub(crate) fn discard(&self, space: &SpaceCore<T>, page: Exclusive<'_>) {
        let meta = page.meta();
        // A write that is under way must not hit the page after it was given out again.
        meta.await_written();
        // LOAN-3: it is not lent, but by threads that will see that they cannot.
        meta.await_tries();
        self.translation.give_back(&self.core.frames.memory, &mut [page.page().base()]);
        let (cell, bytes, frame) = (page.cell(), page.bytes(), page.into_frame());
        // COW-5: before somebody can load what the device has of it.
        space.discarded.fetch_add(1, Ordering::AcqRel);
        self.core.replacement.leave(frame, None);
        let pool = &self.context();
        self.translation.before_leaving(pool, bytes, frame, Leaving::Freed);
        self.retire(space, cell, frame);
    }

    /// E3 to E5, and U6: the page, whose word was seen, is held exclusively and may leave its
    /// frame.
    fn seize(
        &self,
        space: &SpaceCore<T>,
        page: PageId,
        cell: &StateCell,
        seen: StateWord,
    ) -> Result<(), Obstacle> {
        let (latches, frame) = (&self.core.latches, seen.frame());
        // Slices first: a thread that holds the page by one would find it exclusive, and restart.
        if !seen.is_free() || !latches.has_no_holders(frame) {
            return Err(Obstacle::Busy);
        }
        // E3 to E5
        latches.meta(frame).seize(page, cell, seen)?;
        let bytes = self.page_in(space, page.page(), frame);
        // U6  the link last: what is put back has its owner
        let may_leave =
            || self.translation.before_leaving(&self.context(), bytes, frame, Leaving::Evicted);
        if !latches.has_no_holders(frame) || !may_leave() {
            cell.put_back(cell.peek());
            return Err(Obstacle::Busy);
        }
        Ok(())
    }

    /// E6 to E9 for a page that was seized.
    fn leave(&self, space: &SpaceCore<T>, cell: &StateCell, frame: FrameId) {
        let meta = self.core.latches.meta(frame);
        debug_assert!(
            !meta.has_pins() && !meta.is_dirty(cell.peek()),
            "POOL-4: {} in {frame:?} became dirty or pinned since E5",
            meta.page()
        );
        self.core.replacement.leave(frame, Some(meta.page()));
        self.retire(space, cell, frame);
    }

    /// E6 to E9. The caller holds the page exclusively, nobody writes it back, the policy knows
    /// that it goes, and the memory behind it has been given back where that is done.
    pub(crate) fn retire(&self, space: &SpaceCore<T>, cell: &StateCell, frame: FrameId) {
        let meta = self.core.latches.meta(frame);
        let page = meta.page().page();
        debug_assert!(cell.peek().is_exclusive(), "E4");
        // E6  the page has left the frame, which goes on with the next version
        let (version, _) = self.core.latches.wraps.next(cell.peek().version());
        meta.vacate(version);
        // E7 and E8  its word is 0
        let words = self.translation.words();
        words.remove(&self.core.latches, &space.directory, page, frame, StateCell::clear);
        // E9
        self.give_frame(frame);
    }
}

impl<'p, T: Translation> Sweep<'p, T> {
    fn new(shared: &'p Shared<T>, tier: TierNo) -> Sweep<'p, T> {
        let (dirty, seized, pages) = (Vec::new(), Vec::new(), PagesOf::new(shared));
        let (freed, demoted) = (0, 0);
        let slower = shared.core.frames.tiers().and_then(|tiers| tiers.behind(tier));
        let leaving = slower.map(|slower| MigrationBatch::new(shared, slower));
        let (urgent, only_clean) = (false, false);
        Sweep { pages, tier, urgent, only_clean, freed, demoted, dirty, seized, leaving }
    }

    /// What the policy names.
    fn propose(&self, count: usize, victims: &mut Vec<FrameId>) {
        let core = &self.pages.shared.core;
        match core.frames.tiers() {
            Some(tiers) => tiers.propose(self.tier, &self.pages, count, self.urgent, victims),
            None => core.replacement.propose(&self.pages, count, self.urgent, victims),
        }
    }

    /// Evicts the page in a frame that the policy named (E1 and E2), if it can go at once
    /// (`POOL-9`), or demotes it.
    fn visit(&mut self, frame: FrameId) {
        if !self.demote(frame) {
            self.evict(frame);
        }
    }

    /// Evicts the page in a frame, if it can go at once.
    fn evict(&mut self, frame: FrameId) {
        // U1 to U4  no link may hold the frame; the page that can go may be one below it
        let Some(frame) = self.unswizzled(frame) else { return };
        let shared = self.pages.shared;
        if shared.core.frames.tiers().is_some_and(|tiers| tiers.of(frame) != self.tier) {
            return;
        }
        let obstacle = self.pages.with(frame, |space, page, cell, word| {
            // E3 to E5  held exclusively, clean and unpinned
            if let Err(obstacle) = shared.seize(space, page, cell, word) {
                return Some((obstacle, word));
            }
            if T::MEMORY.gives_back() {
                // E6 to E9 when its memory goes back with that of others
                let space = Arc::clone(space);
                self.seized.push(Seized { space, page: page.page(), frame });
            } else {
                // E6 to E9
                shared.leave(space, cell, frame);
                self.freed += 1;
            }
            None
        });
        if let Some(Some((Obstacle::Dirty, word))) = obstacle {
            self.note_dirty(frame, word, true);
        }
    }

    /// Whether the page in this frame goes to the next slower tier, or stays for now: where it was drawn
    /// that it should go there, and there is room (`TIER-3`).
    fn demote(&mut self, frame: FrameId) -> bool {
        let shared = self.pages.shared;
        let frames = &shared.core.frames;
        let Some(tiers) = frames.tiers().filter(|_| !self.only_clean) else { return false };
        let Some(slower) = tiers.behind(self.tier) else { return false };
        let Some(leaving) = &mut self.leaving else { return false };
        // What came once need not go through every tier.
        let came_once = shared.core.latches.meta(frame).awaits_scan();
        if came_once || frames.free_in(slower) == 0 || !tiers.draw_demotion() {
            return false;
        }
        let goes = leaving.add(&self.pages, frame, self.urgent);
        if goes == Err(Stays::Dirty)
            && let Some(word) = self.pages.with(frame, |_, _, _, word| word)
        {
            self.note_dirty(frame, word, false);
        }
        goes != Err(Stays::NoFrame)
    }

    /// The page in this frame is to be written before it goes, out of memory or to a slower tier.
    fn note_dirty(&mut self, frame: FrameId, word: StateWord, leaves: bool) {
        let was_marked = self.pages.is_marked(frame, word);
        self.dirty.push(Dirty { frame, was_marked, leaves });
    }

    /// U1 to U4 where links hold frames, unless the page cannot go for another reason: the frame
    /// of the page that can, which may be one below it. If all else was tried, the page itself.
    fn unswizzled(&mut self, frame: FrameId) -> Option<FrameId> {
        let shared = self.pages.shared;
        if !T::LINKS_PIN {
            return Some(frame);
        }
        let meta = shared.core.latches.meta(frame);
        let (word, obstacle) =
            self.pages.with(frame, |_, _, _, word| (word, meta.obstacle(word)))?;
        match obstacle {
            Some(Obstacle::Dirty) => self.note_dirty(frame, word, true),
            Some(_) => {}
            None => {
                let translation = &shared.translation;
                return translation.before_cooling(&shared.context(), frame, self.urgent);
            }
        }
        None
    }

    /// What was to go to the slower tier is there. What its node refuses leaves memory, and if all else
    /// was tried what the kernel did not move for any reason.
    fn finish_demotions(&mut self) {
        let Some(leaving) = &mut self.leaving else { return };
        let Done { moved, stay } = leaving.finish();
        self.freed += moved;
        self.demoted += moved;
        for (frame, why) in stay {
            if self.urgent || why == Moved::Refused {
                self.evict(frame);
            }
        }
    }

    /// Gives back the memory of what was seized, and lets it go; and finishes what was to go to the
    /// slower tier.
    fn give_back(&mut self) {
        // What was seized until now is not held while the kernel moves others.
        self.give_back_seized();
        self.finish_demotions();
        self.give_back_seized();
    }

    fn give_back_seized(&mut self) {
        if self.seized.is_empty() {
            return;
        }
        let shared = self.pages.shared;
        let (frames, translation) = (&shared.core.frames.memory, &shared.translation);
        let address = |one: &Seized<T>| {
            translation.page_address(frames, &one.space.directory, one.page, one.frame)
        };
        let mut addresses: Vec<NonNull<u8>> = self.seized.iter().map(address).collect();
        translation.give_back(frames, &mut addresses);
        for one in std::mem::take(&mut self.seized) {
            // Held, so that it is still there.
            if let Some(cell) = shared.state_of(&one.space, one.page) {
                // E6 to E9
                shared.leave(&one.space, cell, one.frame);
                self.freed += 1;
            }
        }
    }

    /// Writes what is dirty, and takes what was not accessed meanwhile: the mark is as it was, and
    /// the policy, which may leave it on at an access, has heard of none.
    fn write_and_evict(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        let frames: Vec<_> = dirty.iter().map(|dirty| dirty.frame).collect();
        for batch in frames.chunks(self.pages.shared.core.data.batch_pages) {
            self.pages.shared.write_back(batch, Cause::Eviction);
        }
        let replacement = &self.pages.shared.core.replacement;
        for Dirty { frame, was_marked, leaves } in dirty {
            let pages = &self.pages;
            let unused =
                |_: &_, _, _: &_, word: StateWord| pages.is_marked(frame, word) == was_marked;
            if self.pages.with(frame, unused) == Some(true) && replacement.still_names(frame) {
                if leaves { self.evict(frame) } else { self.visit(frame) }
            }
        }
        // Dirty again, and perhaps for ever: the next sweep's business.
        self.dirty.clear();
        self.give_back();
    }
}
