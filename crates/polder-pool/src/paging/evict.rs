//! Making room: taking pages out of frames.
//!
//! Which pages go is the replacement policy's business (`replacement/`); whether one can go is
//! found out here, by one function from the top down ([`Sweep::visit`]).
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

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use polder_format::{PageId, PageNo};

use crate::error::PoolError;
use crate::latch::{Exclusive, FrameId, Obstacle, StateCell, StateWord};
use crate::paging::admission::StallTimer;
use crate::paging::write_back::Cause;
use crate::replacement::{Look, Pages};
use crate::shared::{Shared, SpaceCore};
use crate::sync::atomic::Ordering;
use crate::sync::lock;
use crate::thread::Counter;
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

/// One sweep: what was named and cannot go yet, and what can.
struct Sweep<'p, T: Translation> {
    pages: PagesOf<'p, T>,
    /// Whether the policy was asked for the last time.
    urgent: bool,
    freed: usize,
    /// With whether they bore the mark.
    dirty: Vec<(FrameId, bool)>,
    /// Held until their memory is given back, all at once; only where it is.
    seized: Vec<Seized<T>>,
}

impl<T: Translation> Shared<T> {
    /// F3: a frame for a page that could not have `preferred`. Evicts if none is free. Called with
    /// no latch held, since it may wait for the device (`POOL-8`).
    pub(crate) fn take_frame(&self, preferred: Option<FrameId>) -> Result<FrameId, PoolError> {
        let core = &self.core;
        let take = || self.take_free_frame(preferred);
        if let Some(frame) = take() {
            let reserve = self.reserve();
            if reserve.is_short(&core.frames.free, reserve.low) {
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
        let mut patience = StallTimer::new(self);
        loop {
            for try_ in 0..FOREGROUND_SWEEPS {
                let freed = self.sweep(FOREGROUND_GOAL);
                core.counters.add(Counter::ForegroundEvictions, freed as u64);
                if let Some(frame) = take() {
                    return Ok(frame);
                }
                // Others are at work with the frames: latched, in flight and written pages come
                // back.
                thread::sleep(Duration::from_micros(100 << try_));
            }
            if !is_admitted || !patience.is_left() {
                return Err(self.exhausted());
            }
        }
    }

    /// F3 for a thread that may wait for nothing: a frame that is free, or becomes free by evicting
    /// what is clean.
    pub(crate) fn take_frame_at_once(&self, preferred: Option<FrameId>) -> Option<FrameId> {
        let core = &self.core;
        let take = || self.take_free_frame(preferred);
        let taken = take().or_else(|| {
            // ADMIT-2: others go first.
            if !T::EVICTS || core.frames.admission.is_crowded() {
                return None;
            }
            self.reclaim_retired(0);
            self.sweep_clean(FOREGROUND_GOAL);
            take()
        });
        let reserve = self.reserve();
        if T::EVICTS && reserve.is_short(&core.frames.free, reserve.low) {
            core.call_page_provider();
        }
        taken
    }

    /// A frame that is free.
    pub(crate) fn take_free_frame(&self, preferred: Option<FrameId>) -> Option<FrameId> {
        let frames = &self.core.frames;
        match preferred {
            Some(preferred) => frames.free.take_instead_of(preferred, frames.here()),
            None => frames.free.take(frames.here()),
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

    /// Frees a frame that was taken and not used, or whose page has left it.
    pub(crate) fn give_frame(&self, frame: FrameId) {
        // A page may have come meanwhile into the frame that is its own.
        if T::MEMORY.has_fixed_frames() {
            self.core.frames.fixed.give_back();
            return;
        }
        let page = self.core.latches.meta(frame).page();
        debug_assert!(page.is_null(), "META-1: {frame:?} is given back with {page}");
        self.core.frames.free.put(frame);
        self.core.frames.waiters.wake_one();
    }

    /// Evicts what is clean among the next pages that the policy names, up to `goal`: without
    /// writing, so that it waits for nothing. The page provider writes the others.
    fn sweep_clean(&self, goal: usize) {
        let mut sweep = Sweep::new(self);
        let mut victims = Vec::with_capacity(goal);
        for _ in 0..CLEAN_LOOKS {
            victims.clear();
            self.core.replacement.propose(&sweep.pages, goal - sweep.freed, false, &mut victims);
            victims.iter().for_each(|frame| sweep.visit(*frame));
            sweep.give_back();
            if sweep.freed >= goal {
                break;
            }
        }
        self.core.counters.add(Counter::Evictions, sweep.freed as u64);
    }

    /// Evicts until `goal` frames were freed, or the policy has nothing more to name that can go.
    /// Gives how many were.
    pub(crate) fn sweep(&self, goal: usize) -> usize {
        let core = &self.core;
        let frames = u64::from(core.frames.memory.count());
        let mut sweep = Sweep::new(self);
        let (mut named, mut fruitless) = (0, 0);
        let mut victims = Vec::with_capacity(goal);
        while sweep.freed < goal && fruitless < ROUNDS && named < frames * ROUNDS {
            let urgent = fruitless + 1 == ROUNDS || named >= frames * (ROUNDS - 1);
            sweep.urgent = urgent;
            victims.clear();
            core.replacement.propose(&sweep.pages, goal - sweep.freed, urgent, &mut victims);
            fruitless += u64::from(victims.is_empty());
            named += victims.len() as u64;
            victims.iter().for_each(|frame| sweep.visit(*frame));
            sweep.give_back();
            if sweep.dirty.len() >= core.data.batch_pages.min(goal * 4) {
                sweep.write_and_evict();
            }
        }
        sweep.write_and_evict();
        core.counters.add(Counter::Evictions, sweep.freed as u64);
        sweep.freed
    }

    /// Gives retired frames that nobody holds to all others, but for `most`.
    pub(crate) fn reclaim_retired(&self, most: usize) {
        if let Some(pins) = &self.core.latches.pins {
            let reclaimed = self.core.frames.retired.drain(pins, most);
            reclaimed.into_iter().for_each(|frame| self.give_frame(frame));
        }
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
    fn new(shared: &'p Shared<T>) -> Sweep<'p, T> {
        let (dirty, seized) = (Vec::new(), Vec::new());
        Sweep { pages: PagesOf::new(shared), urgent: false, freed: 0, dirty, seized }
    }

    /// Evicts the page in a frame that the policy named (E1 and E2), if it can go at once
    /// (`POOL-9`).
    fn visit(&mut self, frame: FrameId) {
        // U1 to U4  no link may hold the frame; the page that can go may be one below it
        let Some(frame) = self.unswizzled(frame) else { return };
        let shared = self.pages.shared;
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
            self.dirty.push((frame, word.is_marked()));
        }
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
            Some(Obstacle::Dirty) => self.dirty.push((frame, word.is_marked())),
            Some(_) => {}
            None => {
                let translation = &shared.translation;
                return translation.before_cooling(&shared.context(), frame, self.urgent);
            }
        }
        None
    }

    /// Gives back the memory of what was seized, and lets it go.
    fn give_back(&mut self) {
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
        let frames: Vec<_> = dirty.iter().map(|(frame, _)| *frame).collect();
        for batch in frames.chunks(self.pages.shared.core.data.batch_pages) {
            self.pages.shared.write_back(batch, Cause::Eviction);
        }
        let replacement = &self.pages.shared.core.replacement;
        for (frame, was_marked) in dirty {
            let unused = |_: &_, _, _: &_, word: StateWord| word.is_marked() == was_marked;
            if self.pages.with(frame, unused) == Some(true) && replacement.still_names(frame) {
                self.visit(frame);
            }
        }
        // Dirty again, and perhaps for ever: the next sweep's business.
        self.dirty.clear();
        self.give_back();
    }
}

/// The pages as the policy sees them.
pub(crate) struct PagesOf<'p, T: Translation> {
    shared: &'p Shared<T>,
    /// The last space that was asked for: neighbours often share one.
    last: Cell<Option<Arc<SpaceCore<T>>>>,
}

impl<'p, T: Translation> PagesOf<'p, T> {
    pub(crate) fn new(shared: &'p Shared<T>) -> PagesOf<'p, T> {
        PagesOf { shared, last: Cell::new(None) }
    }

    /// E1: the page in a frame, its state and what its word was. The frame may hold another page
    /// by the time of the word: the thread that takes it compares.
    fn with<R>(
        &self,
        frame: FrameId,
        then: impl FnOnce(&Arc<SpaceCore<T>>, PageId, &StateCell, StateWord) -> R,
    ) -> Option<R> {
        let page = self.shared.core.latches.meta(frame).page();
        if page.is_null() {
            return None;
        }
        let last = self.last.take().filter(|space| space.id == page.space());
        let space = last.or_else(|| self.shared.space(page.space()))?;
        let result = self
            .shared
            .state_of(&space, page.page())
            .map(|cell| (cell, cell.read()))
            .filter(|(_, word)| word.frame() == frame)
            .map(|(cell, word)| then(&space, page, cell, word));
        self.last.set(Some(space));
        result
    }
}

impl<T: Translation> Pages for PagesOf<'_, T> {
    fn look(&self, frame: FrameId) -> Look {
        self.with(frame, |_, _, _, word| match (word.is_free(), word.is_marked()) {
            (false, _) => Look::Nothing,
            (true, false) => Look::Plain,
            (true, true) => Look::Marked,
        })
        .unwrap_or(Look::Nothing)
    }

    fn mark(&self, frame: FrameId) -> FrameId {
        // U5  the page cools: no link holds it
        let shared = self.shared;
        let plain = shared.translation.before_cooling(&shared.context(), frame, false);
        plain.inspect(|frame| {
            self.with(*frame, |_, _, cell, word| word.is_free() && cell.mark(word));
        });
        plain.unwrap_or(frame)
    }
}
