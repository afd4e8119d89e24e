//! Reading pages as they were at some moment (scalecache-2025 3.2; `paging/shadow.rs` is the
//! writer's side, `snapshot.rs` of polder-tree the descent): a reader holds one page at a time by
//! the slice of its group of cores, and what it holds stays as it is. It validates no node.
//!
//! ```text
//! N1  the link is read from the page that is held; then that page is released
//! N2  the word of the link's page; not resident: N5.  Exclusive: look again
//! N3  slice of the word's frame + 1; the word as it was seen? else slice - 1, and N2
//! N4  the page of the link has changed, and pages were discarded since the first snapshot: start
//!     over
//!     else: read, until the next N1. Above the upper fence: N1 with the right link, which leads
//!     to where the upper fence says, or is damaged. Another kind or level than expected, below
//!     the lower fence, or far to the right of where it came down: once more from the root, by
//!     validation, each page compared with what the one above says of it
//! N5  the page of the link has changed: start over; else a fault, as for any reader
//! ```
//!
//! * `COW-5` A link that is out of date leads to the page that it meant, or nowhere. A page that
//!   was discarded could be loaded again from the device, or its number be another page's by then:
//!   discarding counts up before the page's word becomes 0, so that a reader that finds a later
//!   life of it sees the count. A reader whose link still stands need not ask. (The paper leaves
//!   this to the database's versions.)
//!
//! Why a reader may believe its leaf: the leaf is held, so that it does not change; it is part of
//! the tree, as it was not discarded since the reader began, or the link to it stands; and its
//! fences cover the key. No other leaf can. What it read above is of no account. A node that is
//! split loses keys to the right alone, and its right link leads to them, so that no reader is
//! lost by splits, be they as many as they may while it sleeps, which is why it never starts over
//! for them. It waits where a page is exclusive (a leaf in a writer's hands, or a node that is
//! changed in its frame): it holds nothing then, so that nobody waits for it. When it validates a
//! leaf that it holds and finds it exclusive, a writer asks for it that will find the holder: the
//! leaf is valid, and to wait would be to wait for a thread that waits for us. A writer waits for
//! no reader of inner nodes. Nodes that are merged away are taken exclusively.

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
        // N1  one page is held at a time
        attempt.release_snapshot();
        let discarded = || self.space.discarded.load(Ordering::Acquire);
        if from.is_none() {
            attempt.begin_snapshots(discarded());
        }
        let (mut backoff, mut overtaken) = (Backoff::new(), 0);
        while overtaken < OVERTAKEN {
            let wraps = core.latches.wraps.get();
            // N2  the word of the link's page
            let Some(found) = self.find(target) else {
                // N5  a link that is out of date leads to no miss
                let is_so = from.is_none_or(Optimistic::stands);
                return Err(if is_so { attempt.miss(target, from) } else { Restart });
            };
            // N3  the wrap count: the word may have come round between the look and the hold
            if found.word.can_be_held()
                && attempt.hold_this(&found)
                && core.latches.wraps.get() == wraps
            {
                self.check_own(attempt)?;
                // N4  COW-5
                let same = || attempt.began_snapshots_at(discarded());
                if !from.is_none_or(Optimistic::stands) && !same() {
                    return Err(Restart);
                }
                found.page.prefetch(0);
                if found.word.is_marked() {
                    attempt.access(found.cell, found.word);
                }
                let held = Optimistic::held(&core.latches, found, wraps);
                if found.misplaced {
                    self.maybe_promote(target);
                }
                return Ok(held);
            }
            attempt.release_snapshot();
            overtaken += u32::from(found.word.can_be_held());
            backoff.wait();
        }
        Err(Restart)
    }
}

#[cfg(test)]
mod tests;
