//! Exact LRU: the page goes that was not used for the longest time.
//!
//! The baseline of leanstore-2018, figure 7, with its honest cost: each page keeps its mark, so
//! each access comes here, takes the lock and moves the page to the back of one queue. What a scan
//! loads goes to the front, where the next victim is taken.
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

    fn leave(&self, frame: FrameId, _returns_as: Option<PageId>) {
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
mod tests;
