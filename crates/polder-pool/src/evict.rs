//! Replacement: second chance over the frames, as a clock.
//!
//! A page under the hand that bears no mark gets one; an access clears it (a store, but only
//! then); a page whose mark is still there when the hand comes round goes. Pages that a scan loads
//! bear the mark from the beginning. `docs/protocols.md`, "Evict": E1 to E9.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::counters::Counter;
use crate::error::PoolError;
use crate::meta::Obstacle;
use crate::pool::{Shared, SpaceCore};
use crate::state::{FrameId, StateCell};
use crate::sync::lock;
use crate::translation::Translation;

/// Rounds over all frames that a sweep makes at most: one marks, one takes, one for what was
/// accessed or written in between.
const ROUNDS: u64 = 3;
/// Frames that a thread takes from the hand at a time.
const STRIDE: u64 = 16;
/// What a thread that finds no free frame evicts at once.
const FOREGROUND_GOAL: usize = 4;
/// Sweeps that a thread makes before it says that the pool is exhausted: 6 ms in between.
const FOREGROUND_SWEEPS: usize = 6;

/// What a sweep found.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sweep {
    pub(crate) freed: usize,
    pinned: u64,
    latched: u64,
    in_flight: u64,
    unwritable: u64,
}

/// What became of one frame under the hand.
enum Verdict {
    Freed,
    Marked,
    Dirty,
    Pinned,
    Latched,
    Empty,
}

impl<T: Translation> Shared<T> {
    /// F2: a frame for a page. Evicts if none is free.
    pub(crate) fn take_frame(&self) -> Result<FrameId, PoolError> {
        let core = &self.core;
        if let Some(frame) = core.free.take() {
            if core.free.len() < self.reserve().low {
                core.signal.wake();
            }
            return Ok(frame);
        }
        core.signal.wake();
        let mut last = Sweep::default();
        for try_ in 0..FOREGROUND_SWEEPS {
            last = self.sweep(FOREGROUND_GOAL);
            if let Some(frame) = core.free.take() {
                return Ok(frame);
            }
            // Others are at work with the frames: latched, in flight and written pages come back.
            thread::sleep(Duration::from_micros(100 << try_));
        }
        Err(PoolError::Exhausted {
            frames: u64::from(core.frames.count()),
            pinned: last.pinned,
            latched: last.latched,
            in_flight: last.in_flight,
            unwritable: last.unwritable,
            last_write_error: lock(&core.last_write_error).clone(),
        })
    }

    /// A frame that was taken and not used, or holds no page any more.
    pub(crate) fn give_frame(&self, frame: FrameId) {
        if T::EVICTS {
            self.core.free.put(frame);
        } else {
            self.core.fixed_in_use.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Moves the hand until `goal` frames were freed, or it has gone round in vain.
    pub(crate) fn sweep(&self, goal: usize) -> Sweep {
        let mut found = Sweep::default();
        let mut dirty = Vec::new();
        let frames = u64::from(self.core.frames.count());
        let mut visited = 0;
        while found.freed < goal && visited < frames * ROUNDS {
            if visited % frames < STRIDE {
                // A new round: the last one's obstacles may have gone.
                self.write_and_evict(&mut dirty, &mut found);
                found = Sweep { freed: found.freed, ..Sweep::default() };
            }
            let from = self.core.hand.fetch_add(STRIDE, Ordering::Relaxed);
            for i in 0..STRIDE {
                let frame = FrameId::new(((from + i) % frames) as u32 + 1);
                match self.visit(frame, visited >= frames * (ROUNDS - 1)) {
                    Verdict::Freed => found.freed += 1,
                    Verdict::Dirty => dirty.push(frame),
                    Verdict::Pinned => found.pinned += 1,
                    Verdict::Latched => found.latched += 1,
                    Verdict::Marked | Verdict::Empty => {}
                }
            }
            visited += STRIDE;
            if dirty.len() >= self.core.batch_pages.min(goal * 4) {
                self.write_and_evict(&mut dirty, &mut found);
            }
        }
        self.write_and_evict(&mut dirty, &mut found);
        found.in_flight = frames
            .saturating_sub(found.pinned + found.latched + found.unwritable)
            .min(u64::from(found.freed == 0) * frames);
        found
    }

    fn write_and_evict(&self, dirty: &mut Vec<FrameId>, found: &mut Sweep) {
        if dirty.is_empty() {
            return;
        }
        for batch in dirty.chunks(self.core.batch_pages) {
            found.unwritable += self.write_back(batch).failed;
        }
        for frame in dirty.drain(..) {
            if matches!(self.visit(frame, false), Verdict::Freed) {
                found.freed += 1;
            }
        }
    }

    /// E1 to E9 for one frame. `urgent`: readers who clear every mark in time are not spared.
    fn visit(&self, frame: FrameId, urgent: bool) -> Verdict {
        let meta = self.core.frames.meta(frame);
        let page = meta.page();
        if page.is_null() {
            return Verdict::Empty;
        }
        let Some(space) = self.space(page.space()) else { return Verdict::Empty };
        let Some(cell) = self.translation.state(&space.directory, page.page()) else {
            return Verdict::Empty;
        };
        let word = cell.read();
        if self.translation.frame(&space.directory, page.page(), word) != frame {
            return Verdict::Empty;
        }
        if !word.is_free() {
            return Verdict::Latched;
        }
        if !word.is_marked() {
            let marked = cell.mark(word);
            if !urgent || !marked {
                return Verdict::Marked;
            }
            return self.visit(frame, false);
        }
        if let Err(obstacle) = meta.seize(page, cell, word) {
            return match obstacle {
                Obstacle::Pinned => Verdict::Pinned,
                Obstacle::Busy => Verdict::Latched,
                Obstacle::Dirty => Verdict::Dirty,
            };
        }
        self.retire(&space, cell, frame);
        self.core.counters.add(Counter::Evictions, 1);
        Verdict::Freed
    }

    /// E6 to E9. The caller holds the page exclusively, and nobody writes it back.
    pub(crate) fn retire(&self, space: &SpaceCore<T>, cell: &StateCell, frame: FrameId) {
        let meta = self.core.frames.meta(frame);
        let page = meta.page().page();
        let (version, _) = self.core.wraps.next(cell.peek().version());
        meta.vacate(version);
        if !T::EVICTS {
            // Before the page can be loaded again, which would be into the same frame.
            self.core.frames.discard(frame, 1);
        }
        self.translation.retire(&space.directory, page);
        self.give_frame(frame);
    }
}
