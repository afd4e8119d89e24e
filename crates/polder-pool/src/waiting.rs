//! Operations that wait until there is a frame for them (`admission.rs`).

use std::time::{Duration, Instant};

use crate::admission::{Admitted, OPERATION_FRAMES};
use crate::counters::Counter;
use crate::error::PoolError;
use crate::holding::Holding;
use crate::pool::Space;
use crate::shared::Shared;
use crate::translation::Translation;

/// How long nothing may move in the pool before an operation that waits for a frame gives up.
const PATIENCE: Duration = Duration::from_secs(2);
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
        self.core.reads.are_under_way()
            || self.core.frames.ids().any(|frame| self.core.latches.meta(frame).is_being_written())
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
