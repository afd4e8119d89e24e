//! Admission: how many operations go on while frames are short.
//!
//! An operation keeps the pages on its way down pinned while it loads the next one. If more
//! operations are under way than the pool has frames for, each can hold a part of what it needs
//! and wait for what the others hold. So an operation that finds no frame releases everything,
//! waits until it is admitted, and begins again; and only as many are admitted as have room beside
//! each other. Operations that find a free frame, or need none, are asked nothing.
//!
//! * `ADMIT-1` A thread that waits to be admitted holds no latch, no pin, no log-space reservation
//!   and no mutex of the pool. Each thread counts its pins, its changes and what structures
//!   declare by a [`Holding`](crate::Holding); where the count is not zero the error goes on to
//!   where it is. One exception: a bulk load, whose input is used up, waits with the few new pages
//!   that it fills ([`Space::when_admitted_holding`](crate::Space::when_admitted_holding)); nobody
//!   else knows these.
//! * `ADMIT-2` A thread that is not admitted waits for no frame but for a moment: it leaves it to the
//!   page provider and sweeps, as long as the device is at work but for two seconds at most, or does not
//!   even that while others wait to be admitted, and says that the pool is exhausted. (The device needs
//!   nothing of what the thread holds.)
//! * `ADMIT-3` Those that are admitted keep at most [`Admission::capacity`] frames between them,
//!   so that each gets what it needs, and may wait for it wherever it stands.
//!
//! What an operation may keep at most is 20 frames, and for a batch as many more as it has pages,
//! up to half of the pool. An operation that waits, admitted or not yet, gives up with
//! `PoolError::Exhausted` only after two seconds in which no page came, went or was written, and
//! the device had nothing to do or failed to write: a slow device makes it wait as long as it
//! takes. A structure whose operations make pages or changes wraps each of them in
//! `Space::when_admitted`, which does the waiting and calls it once more; a single `Space::run`
//! does so by itself.
//!
//! A thread is admitted until the guard goes: what an operation calls (where a page lies in the
//! file is found by an operation of its own) is admitted with it. Threads are admitted in the
//! order in which they came.

#![cfg(not(loom))]

use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::lock;

/// Frames that an operation keeps from others at most: the pins on its way down, those of finding
/// where a page lies in the file, the new pages of a split, the frame in its hand.
pub(crate) const OPERATION_FRAMES: u32 = 20;
/// How often a waiting operation looks whether anything moves.
const LOOK: Duration = Duration::from_millis(20);

thread_local! {
    /// Where this thread is admitted.
    static ADMITTED: Cell<*const Admission> = const { Cell::new(ptr::null()) };
}

/// Which threads are admitted, and which wait.
#[derive(Debug)]
pub(crate) struct Admission {
    capacity: u32,
    queue: Mutex<Queue>,
    condition: Condvar,
    /// Threads that wait: a hint for those that are not admitted.
    waiting: AtomicU32,
}

#[derive(Debug, Default)]
struct Queue {
    /// Frames that the admitted may keep; at most the capacity (`ADMIT-3`).
    used: u32,
    /// Those that wait, by numbers of their own, the first one first.
    waiting: VecDeque<u64>,
    next: u64,
}

/// This thread is admitted as long as it has this.
#[derive(Debug)]
pub(crate) struct Admitted<'a> {
    admission: &'a Admission,
    frames: u32,
    before: *const Admission,
}

impl Admission {
    /// For a pool of so many frames. A quarter of them is for those that are not admitted.
    pub(crate) fn new(frames: u32) -> Admission {
        Admission {
            capacity: (frames - frames / 4).max(OPERATION_FRAMES),
            queue: Mutex::default(),
            condition: Condvar::new(),
            waiting: AtomicU32::new(0),
        }
    }

    /// Frames that the admitted may keep between them.
    fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Whether this thread is admitted.
    pub(crate) fn is_admitted(&self) -> bool {
        ptr::eq(ADMITTED.get(), self)
    }

    /// Whether somebody waits to be admitted.
    pub(crate) fn is_crowded(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Waits until there is room for a thread that keeps so many frames at most; as long as
    /// `goes_on`, which is asked now and then.
    pub(crate) fn enter(
        &self,
        frames: u32,
        mut goes_on: impl FnMut() -> bool,
    ) -> Option<Admitted<'_>> {
        let frames = frames.min(self.capacity());
        let mut queue = lock(&self.queue);
        let number = queue.next;
        queue.next += 1;
        queue.waiting.push_back(number);
        let is_in = loop {
            let is_first = queue.waiting.front() == Some(&number);
            // ADMIT-3: all that are admitted can have what they may keep.
            if is_first && queue.used + frames <= self.capacity() {
                queue.used += frames;
                break true;
            }
            self.waiting.store(queue.waiting.len() as u32, Ordering::Relaxed);
            let (woken, timeout) = self
                .condition
                .wait_timeout(queue, LOOK)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            queue = woken;
            if timeout.timed_out() && !goes_on() {
                break false;
            }
        };
        debug_assert!(queue.used <= self.capacity(), "ADMIT-3: more are admitted than have room");
        queue.waiting.retain(|waiting| *waiting != number);
        self.waiting.store(queue.waiting.len() as u32, Ordering::Relaxed);
        drop(queue);
        self.condition.notify_all();
        is_in.then(|| Admitted { admission: self, frames, before: ADMITTED.replace(self) })
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        ADMITTED.set(self.before);
        let mut queue = lock(&self.admission.queue);
        debug_assert!(
            queue.used >= self.frames && queue.used <= self.admission.capacity(),
            "ADMIT-3"
        );
        queue.used -= self.frames;
        drop(queue);
        self.admission.condition.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn as_many_are_admitted_as_have_room_and_the_first_goes_first() {
        // 75 frames: three operations have room beside each other.
        let admission = Admission::new(100);
        assert_eq!(admission.capacity(), 75);
        let admit = || admission.enter(OPERATION_FRAMES, || true).unwrap();
        let order = Mutex::new(Vec::new());
        let first = [(); 3].map(|()| {
            assert!(!admission.is_admitted());
            let admitted = admit();
            assert!(admission.is_admitted() && !admission.is_crowded());
            // For this test this thread is several ones.
            ADMITTED.set(ptr::null());
            admitted
        });
        assert!(admission.enter(1, || true).is_some(), "there is room for a small one");
        let waiting = || lock(&admission.queue).waiting.len();
        thread::scope(|scope| {
            for number in 0..4 {
                let (order, admission) = (&order, &admission);
                scope.spawn(move || {
                    // One at a time, so that each is noted before the next one comes.
                    let _admitted = admission.enter(3 * OPERATION_FRAMES, || true).unwrap();
                    lock(order).push(number);
                });
                while waiting() <= number {
                    thread::yield_now();
                }
            }
            // A small one has room, and waits all the same: large ones would never have a turn.
            assert!(admission.enter(1, || false).is_none());
            assert!(lock(&order).is_empty() && admission.is_crowded());
            drop(first);
        });
        assert_eq!(*lock(&order), [0, 1, 2, 3]);
        assert!(!admission.is_crowded() && lock(&admission.queue).used == 0);
        // Also one that wants more than there is.
        drop(admission.enter(u32::MAX, || true).unwrap());
    }
}
