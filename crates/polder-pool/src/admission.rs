//! Admission: how many operations go on while frames are short.
//!
//! An operation keeps the pages of its way pinned while it loads the next one. If more operations are
//! under way than the pool has frames for, each can hold a part of what it needs and wait for what
//! the others hold. So an operation that finds no frame lets go of everything, waits until it is
//! admitted, and begins again; and only as many are admitted as have room beside each other.
//! Operations that find a free frame, or need none, are asked nothing.
//!
//! * `ADMIT-1` A thread that waits to be admitted holds no latch, no pin, no permit of the log and no
//!   mutex of the pool. Each thread counts its pins, its changes and what structures declare by a
//!   [`Holding`]; where the count is not zero the error goes on to where it is.
//! * `ADMIT-2` A thread that is not admitted waits for no frame: it sweeps for a moment, or not at
//!   all while others wait to be admitted, and says that the pool is exhausted.
//! * `ADMIT-3` Those that are admitted keep at most [`Admission::capacity`] frames between them, so
//!   that each gets what it needs, and may wait for it wherever it stands.
//!
//! Admitted is a thread, until the guard goes: what an operation calls (a page's place is found by an
//! operation of its own) is admitted with it. They are admitted in the order in which they came.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::counters::Counter;
use crate::error::PoolError;
use crate::holding::Holding;
use crate::pool::{Shared, Space};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::lock;
use crate::translation::Translation;

/// Frames that an operation keeps from others at most: the pins of its way, those of looking up a
/// place, the new pages of a split, the frame in its hand.
pub(crate) const OPERATION_FRAMES: u32 = 20;
/// How long nothing may move in the pool before an operation that waits for a frame gives up.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a waiting operation looks whether anything moves.
const LOOK: Duration = Duration::from_millis(20);

thread_local! {
    /// Where this thread is admitted.
    static ADMITTED: Cell<*const Admission> = const { Cell::new(ptr::null()) };
}

/// Who is admitted, and who waits.
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
    /// Frames that the admitted may keep.
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
    fn enter(&self, frames: u32, mut goes_on: impl FnMut() -> bool) -> Option<Admitted<'_>> {
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
        lock(&self.admission.queue).used -= self.frames;
        self.admission.condition.notify_all();
    }
}

/// How long to wait for a frame: as long as anything moves in the pool, or the device is at work,
/// however slow it is; and a little longer.
pub(crate) struct Patience<'p, T: Translation> {
    shared: &'p Shared<T>,
    moved: u64,
    since: Instant,
}

impl<'p, T: Translation> Patience<'p, T> {
    pub(crate) fn new(shared: &'p Shared<T>) -> Patience<'p, T> {
        Patience { shared, moved: shared.moves(), since: Instant::now() }
    }

    pub(crate) fn is_left(&mut self) -> bool {
        if self.since.elapsed() < PATIENCE {
            return true;
        }
        let moved = self.shared.moves();
        if moved == self.moved && !self.shared.awaits_device() {
            return false;
        }
        (self.moved, self.since) = (moved, Instant::now());
        true
    }
}

/// An error that may say that no frame was to be had.
pub trait Exhaustion {
    /// Whether it says so, so that the same may go through when there is a frame.
    fn is_exhausted(&self) -> bool;
}

impl Exhaustion for PoolError {
    #[inline]
    fn is_exhausted(&self) -> bool {
        matches!(self, PoolError::Exhausted { .. })
    }
}

impl<T: Translation> Shared<T> {
    /// Grows whenever a page comes, goes or is written.
    fn moves(&self) -> u64 {
        let counters = [Counter::Faults, Counter::Evictions, Counter::WriteBacks];
        counters.into_iter().map(|counter| self.core.counters.sum(counter)).sum()
    }

    /// Whether a page is being loaded or written.
    fn awaits_device(&self) -> bool {
        self.core.loading.load(Ordering::Relaxed) > 0
            || self.core.frames.ids().any(|frame| self.core.frames.meta(frame).is_being_written())
    }

    /// Runs an operation; if it finds no frame, again when it is admitted. For those that hold
    /// nothing: others are given the error.
    #[inline(always)]
    pub(crate) fn patiently<R, E: Exhaustion>(
        &self,
        frames: u32,
        mut operation: impl FnMut() -> Result<R, E>,
    ) -> Result<R, E> {
        let mut admitted = None;
        loop {
            match operation() {
                Err(error) if error.is_exhausted() => {
                    if admitted.is_some() {
                        return Err(error);
                    }
                    admitted = self.admit_unless_holding(frames);
                    if admitted.is_none() {
                        return Err(error);
                    }
                }
                result => return result,
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn admit_unless_holding(&self, frames: u32) -> Option<Admitted<'_>> {
        if Holding::any() { None } else { self.admit_at_all(frames) }
    }

    fn admit_at_all(&self, frames: u32) -> Option<Admitted<'_>> {
        let admission = &self.core.admission;
        if admission.is_admitted() {
            return None;
        }
        let mut patience = Patience::new(self);
        admission.enter(frames, || patience.is_left())
    }

    /// For what is better not begun twice, and is done seldom: is admitted before it begins.
    pub(crate) fn admit(&self) -> Option<Admitted<'_>> {
        self.admit_unless_holding(OPERATION_FRAMES)
    }
}

impl<T: Translation> Space<T> {
    /// Runs an operation that is made of several steps (new pages, a [`Change`](crate::Change),
    /// several [`Space::run`]); if one of them finds no frame, the whole again.
    ///
    /// A step that holds something for which others may wait, a new page or a change, does not wait
    /// for a frame: it fails with [`PoolError::Exhausted`], so that the operation lets go of
    /// everything. Then this waits for its turn, and calls it once more. It must undo what it has
    /// begun when it fails, as it must for other errors.
    ///
    /// # Errors
    /// Those of the operation; [`PoolError::Exhausted`] if for seconds nothing has moved in the pool.
    #[inline(always)]
    pub fn patiently<R, E: Exhaustion>(
        &self,
        operation: impl FnMut() -> Result<R, E>,
    ) -> Result<R, E> {
        self.shared().patiently(OPERATION_FRAMES, operation)
    }

    /// The same for an operation that keeps so many pages more from others than most do; at most
    /// [`Space::most_pages_held`].
    ///
    /// # Errors
    /// As [`Space::patiently`].
    #[inline(always)]
    pub fn patiently_with<R, E: Exhaustion>(
        &self,
        pages: usize,
        operation: impl FnMut() -> Result<R, E>,
    ) -> Result<R, E> {
        let pages = pages.min(self.most_pages_held()) as u32;
        self.shared().patiently(OPERATION_FRAMES + pages, operation)
    }

    /// The same for a step of an operation that cannot be begun again, and holds a few new pages all
    /// the time: a bulk load, whose input is used up.
    ///
    /// # Errors
    /// As [`Space::patiently`].
    pub fn patiently_holding<R, E: Exhaustion>(
        &self,
        mut step: impl FnMut() -> Result<R, E>,
    ) -> Result<R, E> {
        match step() {
            Err(error) if error.is_exhausted() => {
                match self.shared().admit_at_all(OPERATION_FRAMES) {
                    Some(_admitted) => step(),
                    None => Err(error),
                }
            }
            result => result,
        }
    }

    /// How many pages one operation may keep resident or latched at the same time, so that others
    /// can go on: half of the pool.
    pub fn most_pages_held(&self) -> usize {
        self.core().budget_frames as usize / 2
    }
}

#[cfg(test)]
mod tests;
