//! Holding a page by a count that the other groups of cores do not write to.
//!
//! An optimistic reader stores nothing, and starts over when the page changed. A reader that does
//! not want to start over *holds* the page: it counts itself in the [`Slice`] of the frame that
//! belongs to its group of cores, so that readers in different groups never write to the same
//! cache line. As long as it is counted nobody gets the page exclusively, neither to write nor to
//! evict. It is a latch that readers share cheaply and that costs its one writer a look at each
//! slice.
//!
//! | | holder | writer that wants the page exclusively |
//! |---|---|---|
//! | 1 | slice + 1 (SeqCst) | word: free -> exclusive (CAS, SeqCst: [`StateCell::upgrade`]) |
//! | 2 | word (SeqCst load): as it was seen? | all slices (SeqCst loads): zero? |
//! | | yes: held; no: slice - 1, not held | yes: no holders; no: wait, or put the word back |
//! | 3 | slice - 1 (Release) | release of the word, which its next reader acquires |
//!
//! * `HOLD-1` A slice is the number of holds that were taken in it and not released, and of those
//!   that are being tried (between 1 and its undoing).
//! * `HOLD-2` Once a thread has set the word exclusive and then seen each slice of the frame at
//!   zero once, the page has no other holder until the word changes.
//! * `HOLD-3` A hold ends in the slice in which it began, on whatever core its thread is by then.
//! * `HOLD-4` A slice never wraps: from 2^15 holds on more are refused, and the other half is for
//!   threads that are just trying.
//!
//! Why `HOLD-2` holds: each side stores first and loads then, all four SeqCst. So the holder sees
//! the exclusive word and undoes its count, or its count is there when the writer looks at the
//! slices. All holds that stand were counted before the word became exclusive, none is added while
//! it is, and a slice falls only when one of *its* holds ends (`HOLD-3`): a zero, once seen, means
//! that all holds of this slice are over, however long ago the other slices were looked at. A try
//! that will fail makes a slice look used for a moment, never unused. The Release of 3 pairs with
//! the loads of 2: what a holder read, it read before the next owner writes. (An undo needs no
//! order: it read nothing.) A holder waits for nobody, so that the wait of a writer that has the
//! word exclusive ends, as long as the holder does not wait for another page meanwhile.
//!
//! scalecache-2025 3.1, algorithm 1, with these differences. There a thread unpins in the slice of
//! the core on which it is then: slices fall below zero, only their sum modulo 2^16 means
//! something, and a sum is not read at one moment. An undo that lands in another slice than its
//! pin can hide a hold from it, so that unpinning must look at the lock too, and wait for it. We
//! remember the slice (`HOLD-3`) and do neither. And the orders, of which the paper says nothing,
//! are written down; with acquire and release alone both sides can miss each other.
//! `loom_tests/slices.rs` runs both and sees them fail. A holder that wants the page exclusively
//! releases it first.

use crate::latch::state::{StateCell, StateWord};
use crate::sync::atomic::{AtomicU16, Ordering, fence};
use crate::sync::seq_cst_under_loom;

/// Holds in one slice from which on more are refused (`HOLD-4`).
pub(crate) const MOST_HOLDS: u16 = 1 << 15;

/// How often one frame is held from one group of cores. Zeroed memory is a valid slice.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Slice(AtomicU16);

impl Slice {
    /// Holds the page of `cell`, which was `seen` in the frame of this slice, if it still stands.
    #[inline(always)]
    pub(crate) fn hold(&self, cell: &StateCell, seen: StateWord) -> bool {
        // SeqCst, as the load behind it: the other side is `upgrade` and `all_free` (HOLD-2).
        let before = self.0.fetch_add(1, Ordering::SeqCst);
        seq_cst_under_loom();
        // HOLD-4: a try adds first and looks then. It would take as many threads as are missing
        // from MOST_HOLDS to 2^16, all between these two lines, for the slice to wrap.
        let held = before < MOST_HOLDS && seen.is_left_alone(cell.read_after_flag());
        if !held {
            self.undo();
        }
        held
    }

    #[cold]
    fn undo(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Ends a hold that was taken here. Pairs with the loads of [`all_free`].
    #[inline(always)]
    pub(crate) fn release(&self) {
        let before = self.0.fetch_sub(1, Ordering::Release);
        debug_assert_ne!(before, 0, "HOLD-3");
    }

    /// The number itself, for versions of the protocol that must fail.
    #[cfg(all(loom, test))]
    pub(crate) fn raw(&self) -> &AtomicU16 {
        &self.0
    }

    /// How many holds and tries there are now. SeqCst: see `HOLD-2`.
    #[inline]
    pub(crate) fn count(&self) -> u16 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Whether nobody holds the page, of whose frame these are the slices. Of use to a caller that
/// has set the page's word exclusive: the answer then stays true (`HOLD-2`).
#[inline]
pub(crate) fn all_free<'s>(slices: impl IntoIterator<Item = &'s Slice>) -> bool {
    seq_cst_under_loom();
    slices.into_iter().all(|slice| slice.count() == 0)
}

/// Whether nobody holds a frame of which no page's word has spoken since it was retired, `slices`
/// being those of the frame (`COW-3`). The fence stands between the store of that word, which is
/// not SeqCst, and the looks: a holder adds first and looks at the word then, so that one of both
/// sees the other. The answer stays true until a word speaks of the frame again.
pub(crate) fn all_left<'s>(slices: impl IntoIterator<Item = &'s Slice>) -> bool {
    fence(Ordering::SeqCst);
    all_free(slices)
}
