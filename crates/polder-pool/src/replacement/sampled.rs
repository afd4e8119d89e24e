//! Replacement by samples: each frame has a record of its page's accesses, and of a few frames that
//! are drawn at random the one goes whose page is worth least. WATT and hyperbolic caching differ
//! in the record alone.
//!
//! Both papers record each access. Here an access is recorded if the page bears the mark, and then
//! the mark goes off; a hand that passes a few frames for each victim sets it again. So a page is
//! recorded at most once while the hand goes round, which it does [`PACE`] times while as many
//! pages go as there are frames. WATT does the same on purpose (accesses of one epoch count once,
//! so that a burst does not pass for frequent use); its epoch is a round of the hand here, and the
//! round is also the unit of all time. While nothing is evicted the hand stands still, no page gets
//! a mark, and no access is recorded.
//!
//! There is no lock. Records are atomics, the hand is a counter. All is Relaxed: a record that
//! comes late or is lost makes an estimate worse and breaks nothing.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use polder_format::PageId;

use super::dice::Dice;
use super::{Look, Pages, Replacement, sweep};
use crate::latch::FrameId;

/// Frames that the hand passes for each victim. `polder-bench replay` shows what another number does
/// to the hit ratio, of this and of [`SAMPLE`].
const PACE: u64 = 4;
/// Frames that are drawn for each victim.
const SAMPLE: usize = 16;

/// A point in time: how often the hand has gone round. Never 0; begins again after 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Round(pub(super) u32);

/// What is known of the page in a frame.
pub(super) trait Record: Default + Send + Sync {
    /// What a policy says of its records when it is made: the same for all of them.
    type Setting: Copy + Send + Sync;

    /// Whether records are told of writes.
    const WANTS_WRITES: bool = false;

    /// A page comes in. `once`: it is worth less than any other.
    fn begin(&self, now: Round, once: bool);

    /// The page is used. Nothing happens where there is no page.
    fn used(&self, now: Round);

    /// The page was changed, by a thread that holds it exclusively. `used` is told of the access.
    fn written(&self, _now: Round) {}

    /// The page was named as a victim. Should it stay it is worth more from now on, so that others
    /// come first.
    fn named(&self, now: Round);

    /// The page is gone.
    fn end(&self);

    /// The page moves to the frame with the record `to`.
    fn move_to(&self, to: &Self);

    /// Whether there is a page.
    fn is_there(&self) -> bool;

    /// What the page is worth; `None` where there is no page.
    fn worth(&self, now: Round, setting: Self::Setting) -> Option<f32>;
}

/// See the module.
pub(super) struct Sampled<R: Record> {
    /// By frame; the first one is nobody's.
    records: Box<[R]>,
    /// Frames that the hand has passed.
    hand: AtomicU64,
    dice: Dice,
    setting: R::Setting,
}

/// Not the records, which are as many as frames.
impl<R: Record> fmt::Debug for Sampled<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampled").field("hand", &self.hand).finish_non_exhaustive()
    }
}

impl<R: Record> Sampled<R> {
    pub(super) const BYTES_PER_FRAME: u64 = size_of::<R>() as u64;

    pub(super) fn new(frames: u32, setting: R::Setting) -> Sampled<R> {
        Sampled {
            records: (0..=frames).map(|_| R::default()).collect(),
            hand: AtomicU64::new(0),
            dice: Dice::new(),
            setting,
        }
    }

    fn frames(&self) -> u32 {
        self.records.len() as u32 - 1
    }

    fn record(&self, frame: FrameId) -> &R {
        &self.records[frame.get() as usize]
    }

    fn now(&self) -> Round {
        let passed = self.hand.load(Ordering::Relaxed);
        let rounds = passed / u64::from(self.frames());
        Round((rounds as u32).wrapping_add(1).max(1))
    }

    /// Moves the hand: the policy is told when pages that it has passed are used next.
    fn pass(&self, pages: &dyn Pages, steps: u64) {
        let frames = u64::from(self.frames());
        let from = self.hand.fetch_add(steps, Ordering::Relaxed);
        for i in 0..steps.min(frames) {
            let frame = FrameId::new(((from + i) % frames) as u32 + 1);
            if self.record(frame).is_there() {
                pages.mark(frame);
            }
        }
    }

    /// Of some frames, the one whose page is worth least, but none of `but`.
    fn least(&self, now: Round, but: &[FrameId]) -> Option<FrameId> {
        let mut least = None;
        let mut worth = f32::INFINITY;
        for _ in 0..SAMPLE {
            let frame = FrameId::new(self.dice.below(self.frames()) + 1);
            match self.record(frame).worth(now, self.setting) {
                Some(found) if found < worth && !but.contains(&frame) => {
                    (least, worth) = (Some(frame), found);
                }
                _ => {}
            }
        }
        least
    }
}

impl<R: Record> Replacement for Sampled<R> {
    fn admit(&self, frame: FrameId, _page: PageId, once: bool) -> bool {
        self.record(frame).begin(self.now(), once);
        // The access that brings it is counted already.
        false
    }

    fn access(&self, frame: FrameId) -> bool {
        self.record(frame).used(self.now());
        false
    }

    fn wants_writes(&self) -> bool {
        R::WANTS_WRITES
    }

    fn write(&self, frame: FrameId) {
        self.record(frame).written(self.now());
    }

    fn leave(&self, frame: FrameId, _returns_as: Option<PageId>) {
        self.record(frame).end();
    }

    fn relocate(&self, from: FrameId, to: FrameId) {
        self.record(from).move_to(self.record(to));
    }

    fn propose(&self, pages: &dyn Pages, count: usize, _urgent: bool, victims: &mut Vec<FrameId>) {
        let before = victims.len();
        self.pass(pages, count as u64 * PACE);
        let now = self.now();
        for _ in 0..2 * count {
            if victims.len() - before == count {
                return;
            }
            let Some(frame) = self.least(now, &victims[before..]) else { continue };
            self.record(frame).named(now);
            victims.push(match pages.look(frame) {
                Look::Nothing => continue,
                // If it has to be written first, the policy is told of an access meanwhile.
                Look::Plain => pages.mark(frame),
                Look::Marked => frame,
            });
        }
        if victims.len() == before && count > 0 {
            // All that was drawn is in use. Somewhere there may be a page that is not; the mark
            // says nothing of what a page is worth.
            sweep(pages, self.dice.below(self.frames()), self.frames(), count, true, victims);
        }
    }
}

#[cfg(test)]
mod tests;
