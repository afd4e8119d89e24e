//! The frames: one reserved range of page bytes, and 32 bytes of metadata a frame beside it.
//!
//! The bytes stay aligned for direct I/O and can be backed by huge pages, because nothing else
//! lies between them. Who may change which field of the metadata is in `docs/protocols.md`,
//! "Frame metadata".

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use polder_format::{PageId, PageSize, Place};

use crate::bytes::{OVERRUN_BYTES, PageMut, PageRef};
use crate::error::PoolError;
use crate::memory::{HUGE_PAGE_BYTES, OS_PAGE_BYTES, Reservation};
use crate::state::{FrameId, StateWord, Version};

/// What `written` says of a page that the device does not have.
const NEVER: u32 = u32::MAX;

/// What is known of a frame besides its bytes. All zero: the frame holds no page.
#[derive(Debug)]
#[repr(C, align(32))]
pub(crate) struct FrameMeta {
    page: AtomicU64,
    place: AtomicU64,
    version: AtomicU32,
    written: AtomicU32,
    pins: AtomicU32,
    writing: AtomicBool,
}

pub(crate) const FRAME_META_BYTES: usize = size_of::<FrameMeta>();

impl FrameMeta {
    /// The page in the frame, or null. Acquire pairs with the Release of `assign`.
    pub(crate) fn page(&self) -> PageId {
        PageId::from_link(self.page.load(Ordering::Acquire))
    }

    pub(crate) fn place(&self) -> Place {
        Place::new(self.place.load(Ordering::Acquire))
    }

    /// The page lies somewhere else from now on; the caller holds *writing*, or the page.
    pub(crate) fn set_place(&self, place: Place) {
        self.place.store(place.get(), Ordering::Release);
    }

    /// The version that the next page in this frame begins with.
    pub(crate) fn version(&self) -> Version {
        Version::new(self.version.load(Ordering::Relaxed))
    }

    /// F9: the frame now holds this page.
    pub(crate) fn assign(&self, page: PageId, place: Place, on_device: bool) {
        let written = if on_device { self.version().get() } else { NEVER };
        self.written.store(written, Ordering::Relaxed);
        self.place.store(place.get(), Ordering::Relaxed);
        self.page.store(page.to_bits(), Ordering::Release);
    }

    /// E6: the frame holds no page; the caller has it exclusively, at `version`.
    pub(crate) fn vacate(&self, version: Version) {
        self.page.store(0, Ordering::Release);
        self.version.store(version.get(), Ordering::Relaxed);
    }

    /// Whether the device lacks this state of the page.
    pub(crate) fn is_dirty(&self, word: StateWord) -> bool {
        self.written.load(Ordering::Acquire) != word.version().get()
    }

    /// W6: the device has the page as it was at `version`. Release pairs with `is_dirty`.
    pub(crate) fn set_written(&self, version: Version) {
        self.written.store(version.get(), Ordering::Release);
    }

    /// The device lacks the page, whatever its version.
    pub(crate) fn set_never_written(&self) {
        self.written.store(NEVER, Ordering::Release);
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::Acquire) != 0
    }

    pub(crate) fn pin(&self) {
        self.pins.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unpin(&self) {
        let before = self.pins.fetch_sub(1, Ordering::Release);
        debug_assert_ne!(before, 0);
    }

    /// W1. False if somebody else writes the page. Acquire pairs with `end_writing`.
    pub(crate) fn begin_writing(&self) -> bool {
        !self.writing.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn end_writing(&self) {
        self.writing.store(false, Ordering::Release);
    }

    pub(crate) fn is_being_written(&self) -> bool {
        self.writing.load(Ordering::SeqCst)
    }
}

/// All frames of a pool. Frame 0 does not exist.
#[derive(Debug)]
pub(crate) struct Frames {
    bytes: Reservation,
    metas: Reservation,
    count: u32,
    size: PageSize,
}

impl Frames {
    pub(crate) fn new(count: u32, size: PageSize) -> Result<Frames, PoolError> {
        let slots = count as usize + 1;
        let bytes = (slots << size.shift()) + OVERRUN_BYTES;
        let frames = Frames {
            bytes: Reservation::new("frames", bytes, HUGE_PAGE_BYTES)?,
            metas: Reservation::new("frame metadata", slots * FRAME_META_BYTES, OS_PAGE_BYTES)?,
            count,
            size,
        };
        frames.bytes.prefer_huge_pages();
        Ok(frames)
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn page_size(&self) -> PageSize {
        self.size
    }

    /// All frames, in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = FrameId> + use<> {
        (1..=self.count).map(FrameId::new)
    }

    /// Has the kernel back the first `frames` frames with memory now.
    pub(crate) fn prefault(&self, frames: u32) -> Result<(), PoolError> {
        let len = ((frames as usize + 1) << self.size.shift()).min(self.bytes.len());
        self.bytes.populate(len).map_err(|source| PoolError::Memory {
            what: "prefaulted frames",
            bytes: len as u64,
            source: std::sync::Arc::new(source),
        })
    }

    pub(crate) fn huge_bytes(&self) -> u64 {
        self.bytes.huge_bytes()
    }

    #[inline(always)]
    pub(crate) fn address(&self, frame: FrameId) -> NonNull<u8> {
        debug_assert!(frame.get() <= self.count);
        // SAFETY: a state word only ever bears frames of this pool (publish is given what `take`
        // gave), and `count` of them behind the first were reserved.
        unsafe { self.bytes.base().add((frame.get() as usize) << self.size.shift()) }
    }

    /// The bytes of a frame, which others may be changing.
    #[inline(always)]
    pub(crate) fn page(&self, frame: FrameId) -> PageRef<'_> {
        // SAFETY: the frame's bytes and the next one's (or the overrun) are mapped while we live,
        // aligned to the page size, and written by `bytes` and the device alone.
        unsafe { PageRef::new(self.address(frame), self.size) }
    }

    /// The bytes of a frame, to write.
    ///
    /// # Safety
    /// The caller holds the page in the frame exclusively, or in flight, for the time of use.
    pub(crate) unsafe fn page_mut(&self, frame: FrameId) -> PageMut<'_> {
        // SAFETY: as in `page`; exclusiveness is the caller's promise.
        unsafe { PageMut::new(self.address(frame), self.size) }
    }

    /// Gives the memory behind these frames, which hold no pages, back to the kernel.
    pub(crate) fn discard(&self, first: FrameId, frames: usize) {
        let offset = (first.get() as usize) << self.size.shift();
        let _ = self.bytes.discard(offset, frames << self.size.shift());
    }

    #[inline(always)]
    pub(crate) fn meta(&self, frame: FrameId) -> &FrameMeta {
        debug_assert!(frame.get() <= self.count);
        // SAFETY: `count + 1` metas were reserved, zeroed memory is a valid one, and they live as
        // long as `self`.
        unsafe { self.metas.base().cast::<FrameMeta>().add(frame.get() as usize).as_ref() }
    }
}
