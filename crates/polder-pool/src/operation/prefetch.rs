//! Group prefetch (calico-2026, section 5.1, algorithm 4): pages that will be read soon are asked for,
//! all of them together.
//!
//! 1. For each link: the processor is asked for the state word of its page, and for what leads there
//!    ([`Translation::prefetch`]).
//! 2. For each link again: the word is here by now; if the page is resident the processor is asked for
//!    the line that is wanted of it.
//! 3. The others are loaded by one batch of reads, in the order of where they lie, so that neighbours
//!    are one request of the device.
//!
//! Steps 1 and 2 are those of the paper. In step 3 the paper reads; here each page is a fault that is
//! begun without waiting (`FLIGHT-1`), and they end together: what cannot be begun (a page in flight
//! elsewhere, a map that is not resident, no frame without writing) is left to whoever reads it.

#![cfg(not(loom))]

use crate::page::LinkRef;
use crate::replacement::AccessHint;
use crate::shared::View;
use crate::thread::waits;
use crate::translation::Translation;

impl<'p, T: Translation> View<'p, T> {
    /// As [`Space::prefetch_group`](crate::Space::prefetch_group).
    pub(crate) fn prefetch_group(self, wanted: &[(LinkRef<'_>, usize)]) -> usize {
        let View { shared, space } = self;
        // 1
        for (link, _) in wanted {
            shared.translation.prefetch(&shared.core.frames.memory, &space.directory, *link);
        }
        // 2
        let mut missing = Vec::new();
        for (link, offset) in wanted {
            let found = self.resolve(*link).filter(|found| !found.word.is_evicted());
            match found {
                Some(found) if found.word.is_readable() => found.page.prefetch(*offset),
                Some(_) => {}
                None => missing.push(T::target(*link, space.id)),
            }
        }
        if missing.is_empty() || !T::EVICTS && space.is_dropped() {
            return 0;
        }
        // 3
        // WAIT-1: each is read by whoever needs it.
        if !waits::may_wait() {
            return 0;
        }
        self.load_group(&missing, AccessHint::Normal)
    }
}
