//! Operations that wait until there is a frame for them (`admission.rs`).

#![cfg(not(loom))]

use std::time::{Duration, Instant};

use crate::error::PoolError;
use crate::frame::{Admitted, OPERATION_FRAMES};
use crate::shared::Shared;
use crate::thread::{Counter, Holding};
use crate::translation::Translation;

/// How long nothing may move in the pool before an operation that waits for a frame gives up.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait for a frame: as long as anything moves in the pool, or the device is at work,
/// however slow it is; and a little longer.
pub(crate) struct StallTimer<'p, T: Translation> {
    shared: &'p Shared<T>,
    moved: u64,
    /// Writes that had failed: a page that is being written does not count where others fail.
    failed: u64,
    since: Instant,
}

impl<'p, T: Translation> StallTimer<'p, T> {
    pub(crate) fn new(shared: &'p Shared<T>) -> StallTimer<'p, T> {
        let failed = shared.core.counters.sum(Counter::FailedWrites);
        StallTimer { shared, moved: shared.moves(), failed, since: Instant::now() }
    }

    pub(crate) fn is_left(&mut self) -> bool {
        if self.since.elapsed() < PATIENCE {
            return true;
        }
        let moved = self.shared.moves();
        if moved == self.moved && !self.awaits_device() {
            return false;
        }
        *self = StallTimer::new(self.shared);
        true
    }

    /// For a thread that is not admitted (`ADMIT-2`): as long as the device is at work, but not for long.
    pub(crate) fn is_left_to_device(&self) -> bool {
        self.since.elapsed() < PATIENCE
            && !self.shared.core.frames.admission.is_crowded()
            && self.awaits_device()
    }

    fn awaits_device(&self) -> bool {
        let failed = self.shared.core.counters.sum(Counter::FailedWrites);
        self.shared.awaits_device(failed == self.failed)
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

    /// Whether a page is being loaded or, if that counts, written. Where writes fail, threads that sweep
    /// try again and again.
    fn awaits_device(&self, writes_count: bool) -> bool {
        let is_being_written = |frame| self.core.latches.meta(frame).is_being_written();
        self.core.data.reads.are_under_way()
            || writes_count && self.core.frames.memory.ids().any(is_being_written)
    }

    /// Runs an operation; if it finds no frame, again when it is admitted. For those that hold
    /// nothing: others are given the error.
    #[inline(always)]
    pub(crate) fn when_admitted<R, E: Exhaustion>(
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

    /// The same for a step that cannot be begun again, and whose thread holds a few new pages that
    /// nobody else knows.
    pub(crate) fn when_admitted_holding<R, E: Exhaustion>(
        &self,
        mut step: impl FnMut() -> Result<R, E>,
    ) -> Result<R, E> {
        match step() {
            Err(error) if error.is_exhausted() => match self.admit_at_all(OPERATION_FRAMES) {
                Some(_admitted) => step(),
                None => Err(error),
            },
            result => result,
        }
    }

    #[cold]
    #[inline(never)]
    fn admit_unless_holding(&self, frames: u32) -> Option<Admitted<'_>> {
        if Holding::any() { None } else { self.admit_at_all(frames) }
    }

    fn admit_at_all(&self, frames: u32) -> Option<Admitted<'_>> {
        let admission = &self.core.frames.admission;
        if admission.is_admitted() {
            return None;
        }
        let mut patience = StallTimer::new(self);
        admission.enter(frames, || patience.is_left())
    }

    /// For what is better not begun twice, and is done seldom: is admitted before it begins.
    pub(crate) fn admit(&self) -> Option<Admitted<'_>> {
        self.admit_unless_holding(OPERATION_FRAMES)
    }
}

#[cfg(test)]
mod tests;
