//! Pages whose bytes are lent: they are read where they lie, by a thread that holds no latch, for as
//! long as it likes.
//!
//! For pages that never change once they are linked, as those of long values. The borrower counts
//! itself in the metadata of the frame, as with a pin, but needs no latch for it: it counts first and
//! looks then, and so does everybody who wants the page out of its frame.
//!
//! ```text
//! G1  the page's word, readable; the frame that it names
//! G2  loans of the frame + 1 (SeqCst)
//! G3  the word (SeqCst load), the wrap count and the frame's page: as they were? else G5, again
//! G4  the page that led there still validates? else G5: the page may be freed. Now it is lent
//! G5  at the end: loans - 1; the last one of a page that is *leaving* latches it, looks again, and
//!     discards it (E6 to E9); then its number is free, or, of a dropped space, the words are closed
//!
//! G6  a thread that frees the page, or drops its space, has it exclusively and waits for *writing*;
//!     lent: leaving := true, and the page stays as it is. Not lent: it is discarded at once
//! ```
//!
//! * `LOAN-1` A page that is lent stays in its frame, resident, until its last loan ends. A thread that
//!   takes pages out of frames has the word exclusive first, and looks at pins and loans then, both
//!   SeqCst ([`FrameMeta::is_pinned`]): one of the two sees the other (as `HOLD-2`). That is E5, P2, C3,
//!   the moving of words (`ARRAY-1`), and G6.
//! * `LOAN-2` The bytes of a page that is lent do not change. The borrower's structure never changes the
//!   page once it is linked (it writes anew, elsewhere), at G4 it is linked, and its number is given to
//!   nobody as long as it is lent. Maps that are damaged may say that the page is free: making a page
//!   looks for loans, too.
//! * `LOAN-3` A page that was freed while it was lent is *leaving*: resident, reserved (so that its
//!   number is given to nobody and its extent stays), linked by nothing, and written no more: if its
//!   space was dropped, another page may lie where it lay. Whoever frees pages that may be lent does it
//!   by [`Space::free`](crate::Space::free), or drops the space; [`Space::discard`](crate::Space::discard)
//!   is for others.
//! * `LOAN-4` Between G2 and G4 a thread waits for nothing, so that others may wait for it. A loan
//!   keeps a frame, and nothing else that anybody waits for: no latch, no gate, no mutex. So its owner
//!   may do whatever it likes meanwhile; but while it borrows, and has a part of what it wants, it does
//!   not wait to be admitted for the rest, as many could each have what the others wait for. Where loans leave no frame for others, these are told so
//!   ([`PoolError::Exhausted`](crate::PoolError::Exhausted)), as with pins.
//! * `LOAN-5` Of one frame there are at most 2^10 loans; more are refused, and the caller copies.
//!
//! Loans are not [`Holding`](crate::Holding) for `ADMIT-1`: their owner may keep them for hours, and
//! must be able to wait for a frame as others do. What is admitted gives up when nothing moves.
//!
//! [`FrameMeta::is_pinned`]: crate::latch::meta::FrameMeta::is_pinned

#![cfg(not(loom))]

use std::ptr::NonNull;

use polder_format::{PageId, PageNo};

use crate::file_map::GivenBack;
use crate::latch::{FrameId, Optimistic};
use crate::page::LinkRef;
use crate::replacement::AccessHint;
use crate::shared::{Shared, View};
use crate::sync::lock;
use crate::thread::Counter;
use crate::translation::Translation;

/// A page that is lent. Whoever has it ends the loan ([`Shared::end_loan`]).
#[derive(Debug)]
pub(crate) struct Loan {
    pub(crate) frame: FrameId,
    /// Where its bytes lie.
    pub(crate) base: NonNull<u8>,
}

/// Why a page was not lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotLent {
    /// It must be loaded first.
    Missing,
    /// Something changed, or somebody has it exclusively: try again, from the page that led there.
    Changed,
    /// There are too many loans of it already.
    TooMany,
}

impl<T: Translation> View<'_, T> {
    /// G1 to G4: lends the page to which `parent` leads, as was read there. The processor is asked for
    /// the first `soon` bytes of it, so that they come while it waits for the frame's metadata.
    #[inline]
    pub(crate) fn lend(
        self,
        page: PageNo,
        parent: &Optimistic<'_>,
        soon: usize,
    ) -> Result<Loan, NotLent> {
        let View { shared, space } = self;
        let latches = &shared.core.latches;
        let (id, wraps) = (PageId::new(space.id, page), latches.wraps.get());
        // G1
        let found = self.resolve(LinkRef::Id(id)).filter(|found| found.word.is_readable());
        let Some(found) = found.or_else(|| self.find(id)) else { return Err(NotLent::Missing) };
        if !found.word.is_readable() {
            return Err(NotLent::Changed);
        }
        (0..soon).step_by(64).for_each(|line| found.page.prefetch(line));
        let meta = latches.meta(found.frame);
        // G2 to G4  nothing is waited for (LOAN-4)
        let is_its = meta.lend(found.cell, found.word);
        let loan = Loan { frame: found.frame, base: found.page.base() };
        if is_its && latches.wraps.get() == wraps && meta.page() == id && parent.stands() {
            if found.word.is_marked() {
                shared.core.access(AccessHint::Normal, found.cell, found.word);
            }
            shared.core.counters.add(Counter::PagesRead, 1);
            return Ok(loan);
        }
        let is_crowded = meta.has_most_loans();
        // G5
        shared.end_loan(&loan);
        Err(if is_crowded { NotLent::TooMany } else { NotLent::Changed })
    }
}

impl<T: Translation> Shared<T> {
    /// G5.
    #[inline]
    pub(crate) fn end_loan(&self, loan: &Loan) {
        if self.core.latches.meta(loan.frame).end_loan() {
            self.end_leaving(loan.frame);
        }
    }

    /// G5: the page in this frame leaves, if it is one that is leaving and not lent. It need not be the
    /// page that was to be lent: a thread counts itself first and looks then. The caller holds nothing,
    /// except at G4 the loans that it has already.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_leaving(&self, frame: FrameId) {
        if self.core.map.deferred.note(GivenBack::Frame(frame)) {
            return;
        }
        // It stays as long as it is leaving.
        let id = self.core.latches.meta(frame).page();
        let Some(space) = self.space_of_loan(id.space()) else { return };
        let (space, page) = (&*space, id.page());
        let Some(held) = self.latch_resident(space, page) else { return };
        // A thread that tried to lend it may have been the last one as well.
        if !held.meta().is_leaving() || held.meta().is_lent_for_long() {
            return;
        }
        self.discard(space, held);
        let mut alloc = lock(&space.alloc);
        let Some(lent) = &mut alloc.awaits_loans else {
            drop(alloc);
            return self.free_page(space, page);
        };
        // Pages that left since they were counted are counted off twice: then others are still lent.
        *lent = lent.saturating_sub(1);
        if *lent == 0 {
            self.close_words(space, &mut alloc);
        }
        if alloc.awaits_loans.is_none() {
            lock(&self.lent_spaces).remove(&space.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Loan;
    use crate::testing::{create, pool_held};
    use crate::{Array, ReadMode};

    /// `LOAN-3`: a thread that meant another page, and counted itself in this one, was the last.
    #[test]
    fn a_page_leaves_with_the_last_thread_whichever_page_that_meant() {
        let (_dir, pool) = pool_held::<Array>(4 << 20, ReadMode::Optimistic);
        for is_dropped in [false, true] {
            let (space, other) = (pool.create_space().unwrap(), pool.create_space().unwrap());
            let page = create(&space);
            create(&other);
            let (shared, core) = (space.shared(), space.space_core());
            let cell = shared.state_of(core, page).unwrap();
            let frame = cell.read().frame();
            let loan = || Loan { frame, base: std::ptr::NonNull::dangling() };
            let meta = shared.core.latches.meta(frame);
            // The loan, and a thread that slept since another page was there.
            assert!(meta.lend(cell, cell.read()) && meta.lend(cell, cell.read()));
            match is_dropped {
                true => shared.drop_space(core).unwrap(),
                false => space.free(page),
            }
            let free = pool.stats().frames_free;
            shared.end_loan(&loan());
            assert!(meta.is_leaving(), "it is still lent");
            shared.end_loan(&loan());
            assert!(!meta.is_pinned(), "a loan, or that it leaves, is left");
            assert_eq!(pool.stats().frames_free, free + 1);
            assert!(crate::sync::lock(&shared.lent_spaces).is_empty());
        }
    }
}
