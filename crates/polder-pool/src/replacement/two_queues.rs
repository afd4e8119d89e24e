//! 2Q, the full version (T. Johnson and D. Shasha, "2Q: A Low Overhead High Performance Buffer
//! Management Replacement Algorithm", VLDB 1994).
//!
//! A page that comes in for the first time stands in a FIFO queue (*A1in*, a quarter of the
//! frames), where accesses mean nothing: they come together and say little. When it goes, its id
//! stays in a second queue (*A1out*, as many ids as half of the frames). A page that comes back
//! while its id is there has shown that it is used again and again: it goes to a second queue
//! (*Am*). Victims come from A1in if it has more than its quarter, else from Am.
//!
//! In the paper Am is an LRU queue, which hears of each access under a lock. Here it is second
//! chance, as in Clock2Q (which VMware vSAN uses): a page that was used since its last turn stays,
//! and no access needs the lock. It is never held while a page is looked at.
//!
//! Unlike the paper's `reclaimfor`, the pool evicts before it says which page comes. So where the
//! evicted page's id pushes the oldest one out of A1out, and it is that page which comes, it is
//! taken for a new one. A page that is discarded leaves no id behind: it does not come back.

use std::fmt;

use polder_format::{PageId, Temperature};

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
    /// A1in, the oldest page first, and Am, the one first whose turn is next.
    queues: Queues<2>,
    out: Ghosts,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}", self.queues, self.out)
    }
}

impl TwoQueues {
    pub(super) const BYTES_PER_FRAME: u64 =
        Queues::<2>::BYTES_PER_NUMBER + Ghosts::BYTES_PER_GHOST.div_ceil(2);

    pub(super) fn new(frames: u32) -> TwoQueues {
        let inner = Inner { queues: Queues::new(frames), out: Ghosts::new((frames / 2).max(1)) };
        TwoQueues { most_in: (frames / 4).max(1), inner: Mutex::new(inner) }
    }
}

impl Inner {
    /// Moves a frame from the front of the queue that must give one to its back: what is evicted
    /// leaves anyway, and what is not is in use. Pages of A1in that were looked at are not counted any
    /// more: they leave soon, or are held, or cannot be written, and then others must go.
    fn rotate(&mut self, most_in: u32, left: &mut [u32; 2]) -> Option<(Queue, u32)> {
        let above = self.queues.len(A1_IN) - self.queues.rotated(A1_IN) > most_in;
        let order = if above { [A1_IN, AM] } else { [AM, A1_IN] };
        let queue = order.into_iter().find(|queue| left[usize::from(queue.0)] > 0)?;
        left[usize::from(queue.0)] -= 1;
        self.queues.rotate(queue).map(|frame| (queue, frame))
    }
}

impl Replacement for TwoQueues {
    fn admit(&self, frame: FrameId, page: PageId, once: bool) -> bool {
        let mut inner = lock(&self.inner);
        let known = inner.out.remove(page);
        if once {
            inner.queues.push_front(A1_IN, frame.get());
        } else {
            inner.queues.push_back(if known { AM } else { A1_IN }, frame.get());
        }
        // The access that brings it is one.
        false
    }

    fn access(&self, _frame: FrameId) -> bool {
        false
    }

    fn leave(&self, frame: FrameId, returns_as: Option<PageId>) {
        let mut inner = lock(&self.inner);
        let queue = inner.queues.place(frame.get());
        inner.queues.remove(frame.get());
        if let (Some(A1_IN), Some(page)) = (queue, returns_as) {
            inner.out.add(page);
        }
    }

    fn relocate(&self, from: FrameId, to: FrameId) {
        lock(&self.inner).queues.replace(from.get(), to.get());
    }

    fn temperature(&self, frame: FrameId, is_marked: bool) -> Temperature {
        match lock(&self.inner).queues.place(frame.get()) {
            Some(AM) if !is_marked => Temperature::Hot,
            Some(AM) => Temperature::Warm,
            _ => Temperature::Cool,
        }
    }

    fn propose(&self, pages: &dyn Pages, count: usize, urgent: bool, victims: &mut Vec<FrameId>) {
        let before = victims.len();
        let wanted = before + count;
        let mut left = {
            let inner = lock(&self.inner);
            // Once to mark, once to take.
            [inner.queues.len(A1_IN), 2 * inner.queues.len(AM)]
        };
        let mut batch = [(A1_IN, 0); BATCH];
        while victims.len() < wanted {
            let mut filled = 0;
            {
                let mut inner = lock(&self.inner);
                let most = BATCH.min(wanted - victims.len());
                while filled < most
                    && let Some(found) = inner.rotate(self.most_in, &mut left)
                {
                    batch[filled] = found;
                    filled += 1;
                }
            }
            if filled == 0 {
                return;
            }
            for &(queue, frame) in &batch[..filled] {
                let frame = FrameId::new(frame);
                let goes = match (pages.look(frame), queue) {
                    (Look::Nothing, _) => false,
                    (Look::Marked, _) | (Look::Plain, A1_IN) => true,
                    (Look::Plain, _) => {
                        pages.mark(frame);
                        urgent
                    }
                };
                if goes {
                    name(victims, before, frame);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
