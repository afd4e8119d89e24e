//! Running an operation, and what is done between two tries of it, when no latch is held.
//!
//! An operation restarts because something changed while it was looked at, or because a page is
//! missing (F0 of `paging/fault.rs`). What it holds is released first; then the page is loaded,
//! and kept by a pin until the operation ends. If a link led to it, the page is compared with what
//! its parent says of it (`OwnedLinks::fits`: level, fences or prefix); a contradiction between
//! two pages that both validate is damage, and named. An error of F7 or F8 is reported only if the
//! parent that named the page still validates: a page that was freed meanwhile may hold anything.
//! An operation that was overtaken many times falls back to being pessimistic: it holds the pages
//! on its way down shared.

#![cfg(not(loom))]

use polder_format::PageId;

use crate::error::PoolError;
use crate::latch::{Optimistic, Pin, Restart};
use crate::operation::attempt::{Attempt, Interrupted, Obstacles};
use crate::paging::Exhaustion;
use crate::replacement::AccessHint;
use crate::shared::View;
use crate::sync::Backoff;
use crate::thread::{Counter, waits};
use crate::translation::Translation;

/// Conflicts before an operation falls back to taking latches on its way.
const OPTIMISTIC_TRIES: u32 = 32;
/// Pins that one operation keeps at most: a path from the root, and neighbours.
const MAX_PINS: usize = 10;
/// How often a page may turn out unreadable whose parent was not there to ask.
const UNREADABLE_TRIES: u32 = 16;

impl<'p, T: Translation> View<'p, T> {
    /// As [`Space::run`](crate::Space::run), for a part of what the pool does, which may stand
    /// under its locks: waits for no frame.
    #[inline]
    pub(crate) fn run<R>(
        self,
        hint: AccessHint,
        operation: impl FnMut(&mut Attempt<'p>) -> Result<R, Restart>,
    ) -> Result<R, PoolError> {
        self.run_as::<false, R>(hint, operation)
    }

    #[inline(always)]
    pub(crate) fn run_as<const WAITS: bool, R>(
        self,
        hint: AccessHint,
        mut operation: impl FnMut(&mut Attempt<'p>) -> Result<R, Restart>,
    ) -> Result<R, PoolError> {
        let core = &self.shared.core;
        let mut attempt = Attempt::new(core, hint);
        loop {
            let result = operation(&mut attempt);
            core.counters.add(Counter::PagesRead, std::mem::take(&mut attempt.pages));
            match result {
                Ok(result) => return Ok(result),
                Err(Restart) => self.recover::<WAITS>(&mut attempt)?,
            }
        }
    }

    /// Runs `operation` once, waiting for nothing.
    pub(crate) fn run_once<R>(
        self,
        operation: impl FnOnce(&mut Attempt<'p>) -> Result<R, Restart>,
    ) -> Result<R, Box<Interrupted<'p>>> {
        let mut attempt = Attempt::new(&self.shared.core, AccessHint::Normal);
        // To take a snapshot may mean to wait.
        attempt.snapshots = false;
        operation(&mut attempt)
            .map_err(|Restart| Box::new(std::mem::take(&mut attempt.interrupted)))
    }

    /// After a restart: what must be done before the next try.
    #[cold]
    fn recover<const WAITS: bool>(self, attempt: &mut Attempt<'p>) -> Result<(), PoolError> {
        attempt.release(); // WAY-2: what follows may wait
        let what = std::mem::take(&mut attempt.interrupted);
        let made = self.make_way(what, attempt.hint, MAX_PINS, &mut attempt.obstacles);
        if let Err(error) = made {
            if !WAITS || !error.is_exhausted() {
                return Err(error);
            }
            let kept = attempt.obstacles.kept.get_or_insert_default();
            if kept.admitted.is_some() {
                return Err(error);
            }
            // Others may wait for what it holds.
            kept.pins.clear();
            kept.admitted = Some(self.shared.admit().ok_or(error)?);
        }
        let is_pessimistic = attempt.obstacles.conflicts > OPTIMISTIC_TRIES;
        attempt.pessimistic.active = is_pessimistic;
        attempt.holds = is_pessimistic || self.shared.core.latches.holds_all;
        attempt.snapshots = !is_pessimistic && self.shared.core.latches.copies;
        Ok(())
    }

    /// After a try by [`View::run_once`] for an operation that holds so many pages.
    pub(crate) fn make_way_beside(
        self,
        pages_held: usize,
        what: Interrupted<'p>,
        obstacles: &mut Obstacles<'p>,
    ) -> Result<(), PoolError> {
        // The pages that it holds, and those on the ways to them.
        self.make_way(what, AccessHint::Normal, pages_held + MAX_PINS, obstacles)
    }

    fn make_way(
        self,
        what: Interrupted<'p>,
        hint: AccessHint,
        most_pins: usize,
        obstacles: &mut Obstacles<'p>,
    ) -> Result<(), PoolError> {
        self.shared.core.counters.add(Counter::Restarts, 1);
        if let Some(error) = what.failure {
            return Err(error);
        }
        self.space.check_not_dropped()?;
        let Some((page, parent)) = what.miss else {
            obstacles.conflicts += 1;
            let mut backoff = Backoff::new();
            (0..obstacles.conflicts.min(10)).for_each(|_| backoff.wait());
            return Ok(());
        };
        obstacles.waited = true;
        // WAIT-1
        if waits::refuses_page(page, parent.map(|parent| parent.id())) {
            return Err(PoolError::WouldWait);
        }
        match self.shared.fault(self.space, page.page(), hint) {
            Ok(Some(pin)) => {
                let pin = self.check_link(page, parent, pin)?;
                let pins = &mut obstacles.kept.get_or_insert_default().pins;
                if pins.len() == most_pins {
                    pins.remove(0);
                }
                pins.push(pin);
                Ok(())
            }
            Ok(None) => Ok(()),
            // A page that was freed meanwhile may hold anything; its parent has changed then. On a
            // tiny pool the parent may have been evicted instead, again and again: hence a bound.
            Err(error) if error.is_about_content() => {
                obstacles.unreadable += 1;
                let moved = parent.is_some_and(|parent| parent.validate().is_err());
                if moved && obstacles.unreadable < UNREADABLE_TRIES { Ok(()) } else { Err(error) }
            }
            Err(error) => Err(error),
        }
    }

    /// As [`View::check_link`], by the number of the page above.
    #[cfg(feature = "async")]
    pub(crate) fn check_link_below(
        self,
        id: PageId,
        above: Option<PageId>,
        pin: Pin<'p>,
    ) -> Result<Pin<'p>, PoolError> {
        let latches = &self.shared.core.latches;
        let wraps = latches.wraps.get();
        let above =
            above.and_then(|above| self.find(above)).filter(|above| above.word.is_readable());
        self.check_link(id, above.map(|above| Optimistic::new(latches, above, wraps)), pin)
    }

    /// A page was loaded, and is pinned: it must be what the page that led to it says of it, if that is
    /// still so. If it is not it leaves memory again: whoever asks for it next loads it, and is told too.
    pub(crate) fn check_link(
        self,
        id: PageId,
        parent: Option<Optimistic<'p>>,
        pin: Pin<'p>,
    ) -> Result<Pin<'p>, PoolError> {
        let core = &self.shared.core;
        let wraps = core.latches.wraps.get();
        let found = self.find(id).filter(|found| found.word.is_readable());
        let (Some(parent), Some(found)) = (parent, found) else { return Ok(pin) };
        let frame = found.word.frame();
        let page = Optimistic::new(&core.latches, found, wraps);
        match core.kinds.check_link(parent.page(), id, page.page()) {
            Err(what) if page.stands() && parent.stands() => {
                drop(pin);
                self.shared.evict_suspect(frame);
                Err(PoolError::Broken { page: id, what })
            }
            _ => Ok(pin),
        }
    }
}
