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
use crate::sync::Backoff;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

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
    place: AtomicU64,
    /// The version of the frame while it holds no page (`POOL-3`). Changed as `page` is.
    version: AtomicU32,
    /// The version that the device has, or "never". Changed by a thread that loads the page, or
    /// holds *writing*, or releases the page at a step towards a wrap.
    written: AtomicU32,
    /// Raised by a thread that holds a latch on the page (`POOL-7`), lowered by the pin's owner.
    pins: AtomicU32,
    /// Set by CAS by a thread that wants to write the page, and cleared by the same (`POOL-5`).
    writing: AtomicBool,
    /// The page's full-page image is in the log, and the page has not been written since. Changed
    /// by a thread that holds the page exclusive, or *writing*.
    imaged: AtomicBool,
    /// It was loaded for a scan, bears the mark, and nobody has come to it yet. Set by the thread
    /// that loads it, cleared by the first access.
    awaits_scan: AtomicBool,
}

pub(crate) const FRAME_META_BYTES: usize = size_of::<FrameMeta>();

impl FrameMeta {
    /// The page in the frame, or null. Acquire pairs with the Release of `assign`.
    pub(crate) fn page(&self) -> PageId {
        PageId::from_link(self.page.load(Ordering::Acquire))
    }

    pub(crate) fn physical(&self) -> PhysicalPageNo {
        PhysicalPageNo::new(self.place.load(Ordering::Acquire))
    }

    /// The page lies somewhere else from now on; the caller holds *writing*, or the page.
    pub(crate) fn set_physical(&self, place: PhysicalPageNo) {
        self.place.store(place.get(), Ordering::Release);
    }

    /// The version that the next page in this frame begins with.
    pub(crate) fn version(&self) -> Version {
        Version::new(self.version.load(Ordering::Relaxed))
    }

    /// F9: the frame now holds this page.
    pub(crate) fn assign(&self, page: PageId, place: PhysicalPageNo, on_device: bool) {
        debug_assert!(self.page().is_null(), "META-1: {} is here, and {page} comes", self.page());
        let written = if on_device { self.version().get() } else { NEVER };
        self.written.store(written, Ordering::Relaxed);
        self.place.store(place.get(), Ordering::Relaxed);
        self.imaged.store(false, Ordering::Relaxed);
        self.awaits_scan.store(false, Ordering::Relaxed);
        self.page.store(page.to_bits(), Ordering::Release);
    }

    /// E6: the frame holds no page; the caller has it exclusively, at `version`.
    pub(crate) fn vacate(&self, version: Version) {
        debug_assert!(!self.page().is_null(), "META-1: no page leaves");
        self.page.store(0, Ordering::Release);
        self.version.store(version.get(), Ordering::Relaxed);
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

    /// The page moves here from another frame, which it still has.
    pub(crate) fn assign_from(&self, old: &FrameMeta, on_device: bool) {
        self.assign(old.page(), old.physical(), on_device);
        self.set_imaged(old.is_imaged());
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

    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::Acquire) != 0
    }

    pub(crate) fn pin(&self) {
        self.pins.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unpin(&self) {
        let before = self.pins.fetch_sub(1, Ordering::Release);
        debug_assert_ne!(before, 0, "POOL-7");
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
