//! The common path from a link to its page: it holds nothing, stores nothing, and waits for
//! nothing.

#![cfg(not(loom))]

use crate::latch::{Optimistic, Restart};
use crate::operation::attempt::{Attempt, Step};
use crate::page::LinkRef;
use crate::shared::View;
use crate::thread::Counter;
use crate::translation::Translation;

impl<'p, T: Translation> View<'p, T> {
    /// As [`Space::follow`](crate::Space::follow).
    #[inline(always)]
    pub(crate) fn follow(
        self,
        attempt: &mut Attempt<'p>,
        link: LinkRef<'p>,
        parent: Option<&Optimistic<'p>>,
    ) -> Result<Optimistic<'p>, Restart> {
        self.follow_to::<true>(attempt, link, parent)
    }

    /// The same; without `HEAD`, for a reader that begins elsewhere than at the head of the page.
    #[inline(always)]
    pub(crate) fn follow_to<const HEAD: bool>(
        self,
        attempt: &mut Attempt<'p>,
        link: LinkRef<'p>,
        parent: Option<&Optimistic<'p>>,
    ) -> Result<Optimistic<'p>, Restart> {
        let core = &self.shared.core;
        let wraps = core.latches.wraps.get();
        if let Some(found) = self.resolve(link)
            && found.word.is_readable()
            && !attempt.holds
            && !(T::SWIZZLES && found.misplaced)
        {
            let page = Optimistic::new(&core.latches, found, wraps);
            if HEAD {
                page.page().prefetch(0);
            }
            if found.word.is_marked() {
                core.access(attempt.hint, found.cell, found.word);
            }
            match parent {
                Some(parent) => parent.validate()?,
                None => self.check_own(attempt)?,
            }
            attempt.pages += 1;
            if T::SWIZZLES && matches!(link, LinkRef::Id(_)) {
                core.counters.add(Counter::PagesByTable, 1);
            }
            if !T::SWIZZLES && found.misplaced {
                self.maybe_promote(T::target(link, self.space.id));
            }
            return Ok(page);
        }
        // By value in both directions: a reference to the parent, or a guard that the call puts
        // together, would be kept in memory on the way above, too.
        let found = self.follow_slowly(attempt, Step::new(link, parent))?;
        // The wrap count is older than the word that was found, which is all that a guard asks of
        // it.
        Ok(Optimistic::new(&core.latches, found, wraps))
    }
}
