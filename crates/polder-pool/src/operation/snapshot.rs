//! Reading pages as they were at some moment (`shadow.rs`): a reader holds one page at a time by the
//! slice of its group of cores, and what it holds stays as it is.
//!
//! `docs/protocols.md`, "Copies of nodes": N1 to N5.

#![cfg(not(loom))]

use polder_format::PageId;

use crate::error::PoolError;
use crate::latch::{Optimistic, Restart};
use crate::operation::attempt::Attempt;
use crate::page::LinkRef;
use crate::shared::View;
use crate::sync::Backoff;
use crate::sync::atomic::Ordering;
use crate::translation::Translation;

/// How often a page may turn out to have changed between its word and its hold before the reader
/// starts over, so that it is not overtaken for ever.
const OVERTAKEN: u32 = 1000;

impl<'p, T: Translation> View<'p, T> {
    /// As [`Space::snapshot`](crate::Space::snapshot).
    pub(crate) fn snapshot(
        self,
        attempt: &mut Attempt<'p>,
        link: LinkRef<'p>,
        from: Option<&Optimistic<'p>>,
    ) -> Result<Optimistic<'p>, Restart> {
        debug_assert!(attempt.takes_snapshots());
        let core = &self.shared.core;
        let target = PageId::from_link(link.load());
        if target.space() != self.space.id || target.is_null() {
            let page = from.map_or(target, Optimistic::id);
            let what = "a link leads to another space";
            return Err(attempt.fail(PoolError::Broken { page, what }));
        }
        attempt.let_go(); // N1
        let discarded = || self.space.discarded.load(Ordering::Acquire);
        if from.is_none() {
            attempt.begin_snapshots(discarded());
        }
        let (mut backoff, mut overtaken) = (Backoff::new(), 0);
        while overtaken < OVERTAKEN {
            let wraps = core.latches.wraps.get();
            let Some(found) = self.find(target) else {
                // N5: a link that is out of date leads to no miss.
                let is_so = from.is_none_or(Optimistic::stands);
                return Err(if is_so { attempt.miss(target, from) } else { Restart });
            };
            // N2 and N3. The wrap count: the word may have come round between the look and the hold.
            if found.word.can_be_held()
                && attempt.hold_this(&found)
                && core.latches.wraps.get() == wraps
            {
                self.check_own(attempt)?;
                // N4: COW-5
                let same = || attempt.began_snapshots_at(discarded());
                if !from.is_none_or(Optimistic::stands) && !same() {
                    return Err(Restart);
                }
                found.page.prefetch(0);
                if found.word.is_marked() {
                    attempt.access(found.cell, found.word);
                }
                let held = Optimistic::held(&core.latches, found, wraps);
                if found.astray {
                    self.maybe_promote(target);
                }
                return Ok(held);
            }
            attempt.let_go();
            overtaken += u32::from(found.word.can_be_held());
            backoff.wait();
        }
        Err(Restart)
    }
}

#[cfg(test)]
mod tests;
