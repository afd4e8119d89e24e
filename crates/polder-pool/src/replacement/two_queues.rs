//! 2Q, the full version (T. Johnson and D. Shasha, "2Q: A Low Overhead High Performance Buffer
//! Management Replacement Algorithm", VLDB 1994).
//!
//! A page that comes in for the first time stands in a FIFO queue (*A1in*, a quarter of the
//! frames), where accesses mean nothing: they come together and say little. When it goes, its id
//! stays in a second queue (*A1out*, as many ids as half of the frames). A page that comes back
//! while its id is there has shown that it is used again and again: it goes to an LRU queue (*Am*).
//! Victims come from A1in if it has more than its quarter, else from Am.
//!
//! Pages in A1in bear no mark and cost nothing. Those in Am keep theirs, so each access to them
//! comes here and takes the lock, as with LRU. It is never held while a page is looked at.
//!
//! Unlike the paper's `reclaimfor`, the pool evicts before it says which page comes. So where the
//! evicted page's id pushes the oldest one out of A1out, and it is that page which comes, it is
//! taken for a new one. A page that is discarded leaves no id behind: it does not come back.

use std::fmt;

use polder_format::PageId;

use super::ghosts::Ghosts;
use super::queues::{Queue, Queues};
use super::{BATCH, Look, Pages, Replacement, name};
use crate::latch::FrameId;
use crate::sync::{Mutex, lock};

const A1_IN: Queue = Queue(0);
const AM: Queue = Queue(1);

/// See the module.
#[derive(Debug)]
pub(super) struct TwoQueues {
    /// What A1in may hold while Am has anything.
    most_in: u32,
    inner: Mutex<Inner>,
}

struct Inner {
    /// A1in, the oldest page first, and Am, the least recently used one first.
    queues: Queues<2>,
    /// What each frame holds, by its number.
    pages: Box<[PageId]>,
    out: Ghosts,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}", self.queues, self.out)
    }
}

impl TwoQueues {
    pub(super) const BYTES_PER_FRAME: u64 = Queues::<2>::BYTES_PER_NUMBER
        + size_of::<PageId>() as u64
        + Ghosts::BYTES_PER_GHOST.div_ceil(2);

    pub(super) fn new(frames: u32) -> TwoQueues {
        let inner = Inner {
            queues: Queues::new(frames),
            pages: vec![PageId::NULL; frames as usize + 1].into(),
            out: Ghosts::new((frames / 2).max(1)),
        };
        TwoQueues { most_in: (frames / 4).max(1), inner: Mutex::new(inner) }
    }
}

impl Inner {
    /// Moves a frame from the front of the queue that must give one to its back: what is evicted
    /// leaves anyway, and what is not is in use. `named`: frames of A1in that will leave.
    fn rotate(&mut self, most_in: u32, named: u32, left: &mut [u32; 2]) -> Option<(Queue, u32)> {
        let above = self.queues.len(A1_IN).saturating_sub(named) > most_in;
        let order = if above { [A1_IN, AM] } else { [AM, A1_IN] };
        let queue = order.into_iter().find(|queue| left[usize::from(queue.0)] > 0)?;
        left[usize::from(queue.0)] -= 1;
        self.queues.rotate(queue).map(|frame| (queue, frame))
    }
}

impl Replacement for TwoQueues {
    fn admit(&self, frame: FrameId, page: PageId, once: bool) -> bool {
        let mut inner = lock(&self.inner);
        inner.pages[frame.get() as usize] = page;
        let known = inner.out.remove(page);
        if once {
            inner.queues.push_front(A1_IN, frame.get());
        } else {
            inner.queues.push_back(if known { AM } else { A1_IN }, frame.get());
        }
        known && !once
    }

    fn access(&self, frame: FrameId) -> bool {
        let mut inner = lock(&self.inner);
        let often = inner.queues.place(frame.get()) == Some(AM);
        if often {
            inner.queues.push_back(AM, frame.get());
        }
        often
    }

    fn leave(&self, frame: FrameId) {
        let mut inner = lock(&self.inner);
        let queue = inner.queues.place(frame.get());
        inner.queues.remove(frame.get());
        if queue == Some(A1_IN) {
            let page = inner.pages[frame.get() as usize];
            inner.out.add(page);
        }
    }

    fn discard(&self, frame: FrameId) {
        lock(&self.inner).queues.remove(frame.get());
    }

    fn relocate(&self, from: FrameId, to: FrameId) {
        let mut inner = lock(&self.inner);
        if inner.queues.replace(from.get(), to.get()) {
            inner.pages[to.get() as usize] = inner.pages[from.get() as usize];
        }
    }

    fn still_names(&self, frame: FrameId) -> bool {
        lock(&self.inner).queues.is_rotated(frame.get())
    }

    fn propose(&self, pages: &dyn Pages, count: usize, _urgent: bool, victims: &mut Vec<FrameId>) {
        let before = victims.len();
        let wanted = before + count;
        let mut named_in = 0;
        let mut left = {
            let inner = lock(&self.inner);
            [inner.queues.len(A1_IN), inner.queues.len(AM)]
        };
        let mut batch = [(A1_IN, 0); BATCH];
        while victims.len() < wanted {
            let mut filled = 0;
            {
                let mut inner = lock(&self.inner);
                let most = BATCH.min(wanted - victims.len());
                let mut named = named_in;
                while filled < most
                    && let Some(found) = inner.rotate(self.most_in, named, &mut left)
                {
                    named += u32::from(found.0 == A1_IN);
                    batch[filled] = found;
                    filled += 1;
                }
            }
            if filled == 0 {
                return;
            }
            for &(queue, frame) in &batch[..filled] {
                let frame = FrameId::new(frame);
                if pages.look(frame) != Look::Nothing {
                    name(victims, before, frame);
                    named_in += u32::from(queue == A1_IN);
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

    /// The paper's algorithm line by line; newest first, as there.
    #[derive(Default)]
    struct Paper {
        room: usize,
        a1_in: VecDeque<u64>,
        a1_out: VecDeque<u64>,
        am: VecDeque<u64>,
    }

    impl Paper {
        fn hit(&mut self, x: u64) -> bool {
            if let Some(at) = self.am.iter().position(|&y| y == x) {
                self.am.remove(at);
                self.am.push_front(x);
                return true;
            }
            if self.a1_in.contains(&x) {
                return true;
            }
            self.reclaim();
            if let Some(at) = self.a1_out.iter().position(|&y| y == x) {
                self.a1_out.remove(at);
                self.am.push_front(x);
            } else {
                self.a1_in.push_front(x);
            }
            false
        }

        fn reclaim(&mut self) {
            if self.a1_in.len() + self.am.len() < self.room {
                return;
            }
            if self.a1_in.len() > self.room / 4 || self.am.is_empty() {
                self.a1_out.extend_front_with(self.a1_in.pop_back());
                if self.a1_out.len() > self.room / 2 {
                    self.a1_out.pop_back();
                }
            } else {
                self.am.pop_back();
            }
        }
    }

    trait ExtendFront {
        fn extend_front_with(&mut self, page: Option<u64>);
    }

    impl ExtendFront for VecDeque<u64> {
        fn extend_front_with(&mut self, page: Option<u64>) {
            self.push_front(page.expect("the queue is not empty"));
        }
    }

    #[test]
    fn it_does_as_the_paper_does() {
        for room in [4, 10, 50] {
            let policy = TwoQueues::new(room);
            let mut replay = Replay::new(&policy, room);
            let mut paper = Paper { room: room as usize, ..Paper::default() };
            let dice = Dice::new();
            let mut hits = 0;
            for step in 0..50_000 {
                let page = u64::from(dice.below(dice.below(room * 6) + 1));
                let hit = paper.hit(page);
                assert_eq!(replay.request(page), hit, "room {room}, step {step}, page {page}");
                hits += u32::from(hit);
            }
            assert!((10_000..45_000).contains(&hits), "{hits}: the test tests little");
        }
    }

    #[test]
    fn several_victims_at_once_leave_a_quarter_in_the_first_queue() {
        let (policy, frames) = (TwoQueues::new(8), TestFrames::new(8));
        // Pages 1 to 4 come back and stand in Am.
        for frame in 1..=4 {
            frames.admit(&policy, frame, page(u64::from(frame)), false);
            frames.leave(&policy, frame);
        }
        for frame in 1..=8 {
            frames.admit(&policy, frame, page(u64::from(frame)), false);
        }
        assert_eq!(frames.marked(), [1, 2, 3, 4]);
        frames.access(&policy, 1);
        let mut victims = Vec::new();
        policy.propose(&frames, 4, false, &mut victims);
        assert_eq!(victims, [5, 6, 2, 3].map(FrameId::new));
    }

    #[test]
    fn pages_of_a_scan_go_first_and_do_not_come_to_the_second_queue() {
        let (policy, frames) = (TwoQueues::new(8), TestFrames::new(9));
        for frame in 1..=8 {
            frames.admit(&policy, frame, page(u64::from(frame)), frame == 8);
        }
        let mut victims = Vec::new();
        policy.propose(&frames, 1, false, &mut victims);
        assert_eq!(victims, [FrameId::new(8)]);
        frames.leave(&policy, 8);
        frames.admit(&policy, 8, page(8), true);
        assert!(frames.marked().is_empty());
    }

    #[test]
    fn a_page_of_the_second_queue_that_was_used_is_not_named_any_more() {
        let (policy, frames) = (TwoQueues::new(4), TestFrames::new(4));
        // Pages 1 and 2 come back and stand in Am.
        for frame in [1, 2, 1, 2, 3, 4] {
            if frames.resident().contains(&frame) {
                frames.leave(&policy, frame);
            }
            frames.admit(&policy, frame, page(u64::from(frame)), false);
        }
        let mut victims = Vec::new();
        policy.propose(&frames, 4, false, &mut victims);
        assert_eq!(victims, [3, 1, 2, 4].map(FrameId::new));
        [1, 3].into_iter().for_each(|frame| frames.access(&policy, frame));
        let named = [1, 2, 3].map(|frame| policy.still_names(FrameId::new(frame)));
        assert_eq!(named, [false, true, true], "accesses to the first queue mean nothing");
    }

    #[test]
    fn a_page_that_is_discarded_drives_no_id_out() {
        let (policy, frames) = (TwoQueues::new(8), TestFrames::new(8));
        frames.admit(&policy, 1, page(1), false);
        frames.leave(&policy, 1);
        for no in 100..200 {
            frames.admit(&policy, 2, page(no), false);
            frames.discard(&policy, 2);
        }
        frames.admit(&policy, 1, page(1), false);
        frames.admit(&policy, 2, page(199), false);
        assert_eq!(frames.marked(), [1], "1 stands in Am, and 199 comes for the first time");
    }

    #[test]
    fn a_page_that_moved_is_known_when_it_comes_back() {
        let (policy, frames) = (TwoQueues::new(8), TestFrames::new(8));
        frames.admit(&policy, 1, page(5), false);
        frames.relocate(&policy, 1, 2);
        frames.leave(&policy, 2);
        frames.admit(&policy, 3, page(5), false);
        frames.admit(&policy, 4, page(6), false);
        assert_eq!(frames.marked(), [3], "it stands in Am");
    }
}
