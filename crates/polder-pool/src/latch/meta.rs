//! What is known of a frame besides its bytes: which page it holds, what of it the device has, and
//! whether it may go. 32 bytes a frame, apart from the page bytes.
//!
//! A page is **dirty** if the version in its word differs from *written*. There is no dirty flag
//! that could be cleared too late or too early.
//!
//! * `META-1` A frame that is free, taken or retired holds no page: its page id is null from E6,
//!   P5 or C6 on until F9, P4 or C6 gives it one. (A frame that is its page's own, as all of
//!   `direct` are, is nobody's to take or give: it may hold its page when a late thread gives it
//!   back.)
//! * `POOL-3` For one frame the version only grows (modulo 2^27, see `WrapCount`), over all pages
//!   that it ever holds. So no pair (frame, version) stands for two contents.
//!
//! Why the frame carries the version: if the entry of the page kept it, evicting would have to
//! keep the entry nonzero; if zeroing reset it, a reader that slept over evict and reload into the
//! same frame would validate bytes of two lives (calico-2026 4.3 does so). So eviction stores
//! version + 1 here, and publishing takes it from here.

use polder_format::{PageId, PhysicalPageNo};

use crate::latch::state::{StateCell, StateWord, Version};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Backoff, seq_cst_under_loom};

/// What `written` says of a page that the device does not have.
const NEVER: u32 = u32::MAX;

/// What is known of a frame besides its bytes. All zero: the frame holds no page.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub(crate) struct FrameMeta {
    /// Changed by a thread that holds the page exclusive or in flight.
    page: AtomicU64,
    /// Where the page lies in the file. Changed as `page` is; and by a thread that moves the
    /// extent, holding the page shared.
    physical: AtomicU64,
    /// The version of the frame while it holds no page (`POOL-3`). Changed as `page` is.
    version: AtomicU32,
    /// The version that the device has, or "never". Changed by a thread that loads the page, or
    /// holds *writing*, or releases the page at a step towards a wrap.
    written: AtomicU32,
    /// Pins, loans and *leaving*, each in bits of its own. Pins: raised by a thread that holds a
    /// latch on the page (`POOL-7`), lowered by the pin's owner. Loans: raised and lowered by their
    /// owners (`LOAN-1`). *Leaving*: changed by a thread that holds the page exclusively (`LOAN-3`).
    pins: AtomicU32,
    /// Set by CAS by a thread that wants to write the page, and cleared by the same (`POOL-5`).
    writing: AtomicBool,
    /// The page's full-page image is in the log, and the page has not been written since. Changed
    /// by a thread that holds the page exclusive, or *writing*.
    imaged: AtomicBool,
    /// What the device has of the page may be no state of it, or not durable. Changed by a thread that
    /// holds the page exclusively or in flight, or *writing*.
    unsure: AtomicBool,
    /// It was loaded for a scan, bears the mark, and nobody has come to it yet. Set by the thread
    /// that loads it, cleared by the first access.
    awaits_scan: AtomicBool,
}

/// One loan, above 16 bits of pins: a thread has one or a few.
const LOAN: u32 = 1 << 16;
/// The bits of loans.
const LOANS: u32 = LEAVING - LOAN;
/// The page was freed while it was lent.
const LEAVING: u32 = 1 << 31;
/// Loans of one frame from which on more are refused. A thread that tries counts first and looks then:
/// there is room for 2^15 at once, with those that are trying.
const MOST_LOANS: u32 = 1 << 10;

/// How often a thread looks whether a loan is only being tried, pausing in between.
const LOOKS_FOR_LOANS: u32 = 10_000;

pub(crate) const FRAME_META_BYTES: usize = size_of::<FrameMeta>();

impl FrameMeta {
    /// The page in the frame, or null. Acquire pairs with the Release of `assign`.
    pub(crate) fn page(&self) -> PageId {
        PageId::from_link(self.page.load(Ordering::Acquire))
    }

    pub(crate) fn physical(&self) -> PhysicalPageNo {
        PhysicalPageNo::new(self.physical.load(Ordering::Acquire))
    }

    /// The page lies somewhere else from now on; the caller holds *writing*, or the page.
    pub(crate) fn set_physical(&self, physical: PhysicalPageNo) {
        self.physical.store(physical.get(), Ordering::Release);
    }

    /// The version that the next page in this frame begins with.
    pub(crate) fn version(&self) -> Version {
        Version::new(self.version.load(Ordering::Relaxed))
    }

    /// F9: the frame now holds this page.
    pub(crate) fn assign(&self, page: PageId, physical: PhysicalPageNo, on_device: bool) {
        debug_assert!(self.page().is_null(), "META-1: {} is here, and {page} comes", self.page());
        let written = if on_device { self.version().get() } else { NEVER };
        self.written.store(written, Ordering::Relaxed);
        self.physical.store(physical.get(), Ordering::Relaxed);
        self.imaged.store(false, Ordering::Relaxed);
        self.unsure.store(false, Ordering::Relaxed);
        self.awaits_scan.store(false, Ordering::Relaxed);
        self.page.store(page.to_bits(), Ordering::Release);
    }

    /// E6: the frame holds no page; the caller has it exclusively, at `version`.
    pub(crate) fn vacate(&self, version: Version) {
        debug_assert!(!self.page().is_null(), "META-1: no page leaves");
        self.page.store(0, Ordering::Release);
        self.version.store(version.get(), Ordering::Relaxed);
        if self.is_leaving() {
            self.pins.fetch_and(!LEAVING, Ordering::Relaxed);
        }
    }

    /// Whether the device lacks this state of the page.
    pub(crate) fn is_dirty(&self, word: StateWord) -> bool {
        self.written.load(Ordering::Acquire) != word.version().get()
    }

    /// W6: the device has the page as it was at `version`. Release pairs with `is_dirty`.
    pub(crate) fn set_written(&self, version: Version) {
        debug_assert!(self.is_being_written(), "POOL-5");
        self.written.store(version.get(), Ordering::Release);
    }

    /// The device lacks the page, whatever its version.
    pub(crate) fn set_never_written(&self) {
        self.written.store(NEVER, Ordering::Release);
    }

    /// Relaxed: a thread that reads it holds the page's latch, or *writing*, which was taken after
    /// it.
    pub(crate) fn is_imaged(&self) -> bool {
        self.imaged.load(Ordering::Relaxed)
    }

    pub(crate) fn set_imaged(&self, imaged: bool) {
        self.imaged.store(imaged, Ordering::Relaxed);
    }

    /// Whether the lines that have changed do not tell how the page differs from what the device has
    /// (`BYTES-5`). Relaxed, as [`FrameMeta::is_imaged`].
    pub(crate) fn is_unsure(&self) -> bool {
        self.unsure.load(Ordering::Relaxed)
    }

    pub(crate) fn set_unsure(&self, unsure: bool) {
        self.unsure.store(unsure, Ordering::Relaxed);
    }

    /// The page moves here from another frame, which it still has.
    pub(crate) fn assign_from(&self, old: &FrameMeta, on_device: bool) {
        self.assign(old.page(), old.physical(), on_device);
        self.set_imaged(old.is_imaged());
        self.set_unsure(old.is_unsure());
        self.awaits_scan.store(old.awaits_scan.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(crate) fn await_scan(&self) {
        self.awaits_scan.store(true, Ordering::Relaxed);
    }

    pub(crate) fn awaits_scan(&self) -> bool {
        self.awaits_scan.load(Ordering::Relaxed)
    }

    /// True once, for the first access.
    pub(crate) fn end_awaiting_scan(&self) -> bool {
        self.awaits_scan.load(Ordering::Relaxed) && self.awaits_scan.swap(false, Ordering::Relaxed)
    }

    /// Whether the page must stay in the frame: by a pin or a loan. SeqCst, for a caller that has set
    /// the word exclusive before: the other side is [`FrameMeta::lend`] (`LOAN-1`).
    pub(crate) fn is_pinned(&self) -> bool {
        seq_cst_under_loom();
        self.pins.load(Ordering::SeqCst) != 0
    }

    /// Whether there are pins; a thread that tries to lend the page is none.
    pub(crate) fn has_pins(&self) -> bool {
        self.pins.load(Ordering::Acquire) & (LOAN - 1) != 0
    }

    /// G2 and G3: lends the page of `cell`, which was `seen` in this frame, if it still stands. If
    /// not, the caller ends the loan all the same.
    #[inline(always)]
    pub(crate) fn lend(&self, cell: &StateCell, seen: StateWord) -> bool {
        // G2  SeqCst, as the load behind it
        let before = self.pins.fetch_add(LOAN, Ordering::SeqCst);
        seq_cst_under_loom();
        // G3
        (before & LOANS) / LOAN < MOST_LOANS && seen.still_stands(cell.read_after_flag())
    }

    /// Whether a loan was refused because there are so many (`LOAN-5`).
    pub(crate) fn has_most_loans(&self) -> bool {
        (self.pins.load(Ordering::Relaxed) & LOANS) / LOAN > MOST_LOANS
    }

    /// G5: ends a loan. True if it was the last one of a page that is leaving. Release: what was read
    /// of the page was read before it goes; Acquire: pairs with the same of the others.
    #[inline(always)]
    pub(crate) fn end_loan(&self) -> bool {
        let before = self.pins.fetch_sub(LOAN, Ordering::AcqRel);
        debug_assert_ne!(before & LOANS, 0, "LOAN-1");
        before & LEAVING != 0 && before & LOANS == LOAN
    }

    /// Whether the page is lent, or a thread tries that.
    pub(crate) fn is_lent(&self) -> bool {
        seq_cst_under_loom();
        self.pins.load(Ordering::SeqCst) & LOANS != 0
    }

    /// G6: the page is to leave when its last loan ends; false if it is not lent. The caller holds it
    /// exclusively.
    pub(crate) fn leave_when_returned(&self) -> bool {
        seq_cst_under_loom();
        let is_lent = self.pins.fetch_or(LEAVING, Ordering::SeqCst) & LOANS != 0;
        if !is_lent {
            self.pins.fetch_and(!LEAVING, Ordering::Relaxed);
        }
        is_lent
    }

    /// Whether it is to leave when its last loan ends. It changes under the exclusive latch alone.
    pub(crate) fn is_leaving(&self) -> bool {
        self.pins.load(Ordering::Acquire) & LEAVING != 0
    }

    /// Whether the page is lent, and not only tried to be. The caller holds it exclusively.
    pub(crate) fn is_lent_for_long(&self) -> bool {
        let mut backoff = Backoff::new();
        (0..LOOKS_FOR_LOANS).all(|_| {
            let is_lent = self.is_lent();
            if is_lent {
                backoff.wait();
            }
            is_lent
        })
    }

    /// Waits for threads that try to lend the page: for a moment. The caller holds it exclusively, and
    /// knows that it is not lent.
    pub(crate) fn await_tries(&self) {
        let mut backoff = Backoff::new();
        while self.is_lent() {
            backoff.wait();
        }
    }

    pub(crate) fn pin(&self) {
        self.pins.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unpin(&self) {
        let before = self.pins.fetch_sub(1, Ordering::Release);
        debug_assert_ne!(before & (LOAN - 1), 0, "POOL-7");
    }

    /// W1. False if somebody else writes the page (`POOL-5`). Acquire pairs with `end_writing`.
    pub(crate) fn begin_writing(&self) -> bool {
        !self.writing.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn end_writing(&self) {
        debug_assert!(self.is_being_written(), "POOL-5");
        self.writing.store(false, Ordering::Release);
    }

    pub(crate) fn is_being_written(&self) -> bool {
        self.writing.load(Ordering::SeqCst)
    }

    /// Waits until no write of the page is under way. The caller holds the page exclusively, so
    /// that none begins.
    pub(crate) fn await_written(&self) {
        let mut backoff = Backoff::new();
        while self.is_being_written() {
            backoff.wait();
        }
    }

    /// E3: why the page cannot go, if it cannot.
    pub(crate) fn obstacle(&self, word: StateWord) -> Option<Obstacle> {
        if self.is_pinned() {
            Some(Obstacle::Pinned)
        } else if self.is_being_written() {
            Some(Obstacle::Busy)
        } else if self.is_dirty(word) {
            Some(Obstacle::Dirty)
        } else {
            None
        }
    }

    /// E3 to E5: takes `page`, whose word was seen free, exclusively to evict it, if it may go.
    pub(crate) fn seize(
        &self,
        page: PageId,
        cell: &StateCell,
        seen: StateWord,
    ) -> Result<(), Obstacle> {
        // E3  looks, and does not wait
        self.obstacle(seen).map_or(Ok(()), Err)?;
        // E4  the very word seen
        let held = cell.upgrade(seen).ok_or(Obstacle::Busy)?;
        // E5  what was looked at before we had the latch may have changed
        if self.page() != page || self.obstacle(held).is_some() {
            cell.put_back(held);
            return Err(Obstacle::Busy);
        }
        Ok(())
    }
}

/// Why a page cannot be evicted now (`POOL-4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    Pinned,
    /// Latched, or being written.
    Busy,
    Dirty,
}
