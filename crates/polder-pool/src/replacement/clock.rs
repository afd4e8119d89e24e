//! Second chance: a hand goes round over the frames, marks a page that bears no mark, and takes one
//! that still does.
//!
//! The mark is PostgreSQL's usage bit the other way round (as in vmcache), so that an access to a
//! page that the hand has not passed stores nothing. Nothing is kept for a frame: the marks are all
//! it knows, and the hand is one counter, which threads advance without a lock. A page that a scan
//! loads bears the mark from the beginning, so that it goes when the hand first comes by.

use std::sync::atomic::{AtomicU64, Ordering};

use polder_format::PageId;

use super::{Look, Pages, Replacement, name};
use crate::latch::FrameId;

/// Frames that a thread takes from the hand at a time, at most.
const STRIDE: u64 = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Clock {
    frames: u64,
    /// Frames that the hand has passed since the beginning.
    hand: AtomicU64,
}

impl Clock {
    pub(super) const BYTES_PER_FRAME: u64 = 0;

    pub(super) fn new(frames: u32) -> Clock {
        Clock { frames: u64::from(frames), hand: AtomicU64::new(0) }
    }
}

impl Replacement for Clock {
    fn admit(&self, _frame: FrameId, _page: PageId, once: bool) -> bool {
        once
    }

    fn access(&self, _frame: FrameId) -> bool {
        false
    }

    fn leave(&self, _frame: FrameId, _returns_as: Option<PageId>) {}

    fn relocate(&self, _from: FrameId, _to: FrameId) {}

    fn propose(&self, pages: &dyn Pages, count: usize, urgent: bool, victims: &mut Vec<FrameId>) {
        let before = victims.len();
        let mut visited = 0;
        while victims.len() - before < count && visited < self.frames {
            // No more than are missing, so that no marked page is passed and spared.
            let missing = (count + before - victims.len()) as u64;
            let stride = STRIDE.min(missing).min(self.frames - visited);
            let from = self.hand.fetch_add(stride, Ordering::Relaxed);
            visited += stride;
            for i in 0..stride {
                let frame = FrameId::new(((from + i) % self.frames) as u32 + 1);
                match pages.look(frame) {
                    Look::Nothing => continue,
                    Look::Marked => {}
                    Look::Plain => {
                        pages.mark(frame);
                        if !urgent {
                            continue;
                        }
                    }
                }
                name(victims, before, frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replacement::testing::{TestFrames, page};

    fn proposed(clock: &Clock, frames: &TestFrames, count: usize, urgent: bool) -> Vec<u32> {
        let mut victims = Vec::new();
        clock.propose(frames, count, urgent, &mut victims);
        victims.into_iter().map(FrameId::get).collect()
    }

    #[test]
    fn the_hand_marks_first_and_takes_what_was_not_used() {
        let (clock, frames) = (Clock::new(4), TestFrames::new(4));
        for frame in 1..=4 {
            frames.admit(&clock, frame, page(u64::from(frame)), false);
        }
        assert_eq!(proposed(&clock, &frames, 4, false), [], "the first round only marks");
        frames.access(&clock, 2);
        assert_eq!(proposed(&clock, &frames, 2, false), [1, 3], "2 was used and is marked again");
        frames.leave(&clock, 1);
        frames.leave(&clock, 3);
        assert_eq!(proposed(&clock, &frames, 4, false), [4, 2]);
    }

    #[test]
    fn pages_of_a_scan_go_first_and_urgency_spares_nothing() {
        let (clock, frames) = (Clock::new(3), TestFrames::new(3));
        for frame in 1..=3 {
            frames.admit(&clock, frame, page(u64::from(frame)), frame == 2);
        }
        assert_eq!(proposed(&clock, &frames, 3, false), [2]);
        let (clock, frames) = (Clock::new(3), TestFrames::new(3));
        frames.admit(&clock, 3, page(3), false);
        assert_eq!(proposed(&clock, &frames, 3, true), [3]);
    }

    #[test]
    fn a_short_stride_leaves_the_next_frames_to_the_next_call() {
        let (clock, frames) = (Clock::new(100), TestFrames::new(100));
        for frame in 1..=100 {
            frames.admit(&clock, frame, page(u64::from(frame)), true);
        }
        let all: Vec<u32> = (0..50).flat_map(|_| proposed(&clock, &frames, 2, false)).collect();
        assert_eq!(all, (1..=100).collect::<Vec<_>>());
    }
}
