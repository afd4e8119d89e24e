//! Exact LRU: the page goes that was not used for the longest time.
//!
//! The baseline of leanstore.txt, figure 7, with its honest cost: each page keeps its mark, so each
//! access comes here, takes the lock and moves the page to the back of one queue. What a scan loads
//! goes to the front, where the next victim is taken.
//!
//! The lock guards the queue alone, for a few stores at a time. It is never held while a page is
//! looked at.

use polder_format::PageId;

use super::queues::{Queue, Queues};
use super::{BATCH, Look, Pages, Replacement, name};
use crate::latch::FrameId;
use crate::sync::{Mutex, lock};

const ALL: Queue = Queue(0);

/// See the module.
#[derive(Debug)]
pub(super) struct Lru {
    /// Frames with pages, the least recently used one first.
    queue: Mutex<Queues<1>>,
}

impl Lru {
    pub(super) const BYTES_PER_FRAME: u64 = Queues::<1>::BYTES_PER_NUMBER;

    pub(super) fn new(frames: u32) -> Lru {
        Lru { queue: Mutex::new(Queues::new(frames)) }
    }

    /// Moves up to `batch.len()` frames from the front to the back: what is evicted leaves anyway,
    /// and what is not is in use.
    fn rotate(&self, batch: &mut [u32]) -> usize {
        let mut queue = lock(&self.queue);
        let mut filled = 0;
        for slot in batch.iter_mut() {
            let Some(frame) = queue.rotate(ALL) else { break };
            *slot = frame;
            filled += 1;
        }
        filled
    }
}

impl Replacement for Lru {
    fn admit(&self, frame: FrameId, _page: PageId, once: bool) -> bool {
        let mut queue = lock(&self.queue);
        if once {
            queue.push_front(ALL, frame.get());
        } else {
            queue.push_back(ALL, frame.get());
        }
        true
    }

    fn access(&self, frame: FrameId) -> bool {
        let mut queue = lock(&self.queue);
        if queue.place(frame.get()).is_some() {
            queue.push_back(ALL, frame.get());
        }
        true
    }

    fn leave(&self, frame: FrameId) {
        lock(&self.queue).remove(frame.get());
    }

    fn relocate(&self, from: FrameId, to: FrameId) {
        lock(&self.queue).replace(from.get(), to.get());
    }

    fn still_names(&self, frame: FrameId) -> bool {
        lock(&self.queue).is_rotated(frame.get())
    }

    fn propose(&self, pages: &dyn Pages, count: usize, _urgent: bool, victims: &mut Vec<FrameId>) {
        let before = victims.len();
        let wanted = before + count;
        let mut left = lock(&self.queue).len(ALL) as usize;
        let mut batch = [0; BATCH];
        while victims.len() < wanted && left > 0 {
            let most = BATCH.min(wanted - victims.len()).min(left);
            let filled = self.rotate(&mut batch[..most]);
            if filled == 0 {
                return;
            }
            left -= filled;
            for &frame in &batch[..filled] {
                let frame = FrameId::new(frame);
                // There is none without the mark.
                if pages.look(frame) != Look::Nothing {
                    name(victims, before, frame);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::replacement::dice::Dice;
    use crate::replacement::testing::{Replay, TestFrames, page};

    /// Pages from the least to the most recently used one.
    fn model_hit(model: &mut VecDeque<u64>, room: usize, page: u64) -> bool {
        let hit = model.contains(&page);
        model.retain(|&other| other != page);
        if model.len() == room {
            model.pop_front();
        }
        model.push_back(page);
        hit
    }

    #[test]
    fn it_does_as_the_model_does() {
        const ROOM: u32 = 50;
        let lru = Lru::new(ROOM);
        let mut replay = Replay::new(&lru, ROOM);
        let (mut model, dice) = (VecDeque::new(), Dice::new());
        for step in 0..50_000 {
            // Small numbers come more often.
            let page = u64::from(dice.below(dice.below(200) + 1));
            let hit = model_hit(&mut model, ROOM as usize, page);
            assert_eq!(replay.request(page), hit, "step {step}, page {page}");
        }
    }

    #[test]
    fn pages_of_a_scan_go_first_and_moved_pages_keep_their_turn() {
        let (lru, frames) = (Lru::new(5), TestFrames::new(5));
        frames.admit(&lru, 1, page(1), false);
        frames.admit(&lru, 2, page(2), false);
        frames.admit(&lru, 3, page(3), true);
        frames.relocate(&lru, 1, 5);
        let mut victims = Vec::new();
        lru.propose(&frames, 3, false, &mut victims);
        assert_eq!(victims, [3, 5, 2].map(FrameId::new));
    }

    #[test]
    fn a_page_that_could_not_go_waits_for_the_others() {
        let (lru, frames) = (Lru::new(3), TestFrames::new(3));
        for frame in 1..=3 {
            frames.admit(&lru, frame, page(u64::from(frame)), false);
        }
        let mut victims = Vec::new();
        for _ in 0..4 {
            lru.propose(&frames, 1, false, &mut victims);
        }
        assert_eq!(victims, [1, 2, 3, 1].map(FrameId::new));
    }

    #[test]
    fn a_page_that_was_used_is_not_named_any_more() {
        let (lru, frames) = (Lru::new(3), TestFrames::new(3));
        for frame in 1..=3 {
            frames.admit(&lru, frame, page(u64::from(frame)), false);
        }
        let mut victims = Vec::new();
        lru.propose(&frames, 2, false, &mut victims);
        frames.access(&lru, 1);
        let named = [1, 2, 3].map(|frame| lru.still_names(FrameId::new(frame)));
        assert_eq!(named, [false, true, false]);
        // Nor is the next page in its frame.
        frames.leave(&lru, 2);
        frames.admit(&lru, 2, page(9), false);
        assert!(!lru.still_names(FrameId::new(2)));
    }

    #[test]
    fn a_page_that_left_is_not_looked_for() {
        let (lru, frames) = (Lru::new(3), TestFrames::new(3));
        for frame in 1..=3 {
            frames.admit(&lru, frame, page(u64::from(frame)), false);
        }
        assert!(frames.leave(&lru, 2));
        // An access that was on its way.
        lru.access(FrameId::new(2));
        let mut victims = Vec::new();
        for _ in 0..3 {
            lru.propose(&frames, 1, false, &mut victims);
        }
        assert_eq!(victims, [1, 3, 1].map(FrameId::new));
        assert_eq!(frames.looks(), 3);
    }
}
