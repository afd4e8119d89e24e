//! Following a link where the common path (`optimistic.rs`) does not suffice: the translation
//! keeps the page elsewhere, the page is not resident, or the attempt holds what it reads.

#![cfg(not(loom))]

use polder_format::PageId;

use crate::error::PoolError;
use crate::latch::{Optimistic, Resolved, Restart};
use crate::operation::attempt::{Attempt, Step};
use crate::page::LinkRef;
use crate::replacement::AccessHint;
use crate::shared::View;
use crate::sync::aside;
use crate::thread::Counter;
use crate::translation::Translation;

impl<'p, T: Translation> View<'p, T> {
    /// The page is not where `resolve` looks first, or is not resident, or held, or the attempt
    /// holds what it reads.
    #[cold]
    #[inline(never)]
    pub(crate) fn follow_slowly(
        self,
        attempt: &mut Attempt<'p>,
        step: Step<'p>,
    ) -> Result<Resolved<'p>, Restart> {
        let (link, parent) = (step.link(), step.parent);
        let core = &self.shared.core;
        let target = T::target(link, self.space.id);
        let found = self.resolve(link).filter(|found| !found.word.is_evicted()).or_else(|| {
            let translation = &self.shared.translation;
            translation.resolve_elsewhere(&core.frames.memory, &self.space.directory, target.page())
        });
        // F0  the parent is validated after the page's word was read.
        if let Some(parent) = &parent {
            parent.validate()?;
        }
        if target.space() != self.space.id || target.is_null() {
            let page = parent.map_or(target, |parent| parent.id());
            let what = "a link leads to another space";
            return Err(attempt.fail(PoolError::Broken { page, what }));
        }
        let Some(found) = found.filter(|f| !f.word.is_evicted() && !f.word.is_in_flight()) else {
            return Err(attempt.miss(target, parent.as_ref()));
        };
        let found = if attempt.pessimistic.active {
            self.share(attempt, target, found)?
        } else {
            self.hold(attempt, parent.as_ref(), target, found)?
        };
        match &parent {
            Some(parent) => parent.validate()?,
            None => self.check_own(attempt)?,
        }
        attempt.pages += 1;
        if T::SWIZZLES && (found.misplaced || matches!(link, LinkRef::Id(_))) {
            core.counters.add(Counter::PagesByTable, 1);
            if found.misplaced && attempt.hint == AccessHint::Normal {
                aside(|| {
                    let (pool, directory) = (self.shared.context(), &self.space.directory);
                    let translation = &self.shared.translation;
                    translation.followed_unswizzled(&pool, directory, link, parent.as_ref());
                });
            }
        }
        Ok(found)
    }

    /// Holds the page by the pool's read mode, which may be not to hold it.
    fn hold(
        self,
        attempt: &mut Attempt<'p>,
        parent: Option<&Optimistic<'p>>,
        target: PageId,
        found: Resolved<'p>,
    ) -> Result<Resolved<'p>, Restart> {
        let core = &self.shared.core;
        if !found.word.is_readable() {
            return Err(Restart);
        }
        // Before it is held: to hold it by its word changes that.
        if found.word.is_marked() {
            core.access(attempt.hint, found.cell, found.word);
        }
        // Promotion comes before the hold, since a page that is held does not move. (If the page
        // moves here, the word that was found is out of date, and the operation begins again.)
        if !T::SWIZZLES && found.misplaced {
            self.maybe_promote(target);
        }
        if attempt.holds && !attempt.way.step(&core.latches, &found, parent.map(Optimistic::cell)) {
            return Err(Restart);
        }
        found.page.prefetch(0);
        Ok(found)
    }

    /// A pessimistic attempt waits, and keeps what it has.
    fn share(
        self,
        attempt: &mut Attempt<'p>,
        target: PageId,
        found: Resolved<'p>,
    ) -> Result<Resolved<'p>, Restart> {
        let core = &self.shared.core;
        let word = attempt.pessimistic.share(found.cell)?;
        // TABLE-2: what we hold may be another page's, or the page in another frame.
        let frame = word.frame();
        if core.latches.meta(frame).page() != target {
            return Err(Restart);
        }
        if word.is_marked() {
            core.access(attempt.hint, found.cell, word);
        }
        let page = self.shared.page_in(self.space, target.page(), frame);
        Ok(Resolved { cell: found.cell, word, frame, page, misplaced: false })
    }
}
