//! The frames: one mapping of page bytes.
//!
//! The bytes stay aligned for direct I/O and can be backed by huge pages, because nothing else
//! lies between them. The first pages of a pool prefer frames that lie far from each other, and a
//! huge page for each would cost a small store megabytes. So the kernel is asked for small ones
//! until some frames were taken; then for huge ones, and for what was touched by then, too.

#![cfg(not(loom))]

use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use polder_format::PageSize;

use crate::error::PoolError;
use crate::latch::FrameId;
use crate::machine::{HUGE_PAGE_BYTES, Mapping, NodeId, kernel_page_bytes};
use crate::page::{OVERRUN_BYTES, PageRef};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::lock;

/// All frames of a pool. Frame 0 does not exist.
#[derive(Debug)]
pub struct Frames {
    bytes: Mapping,
    count: u32,
    size: PageSize,
    /// Huge pages are for later. It is raised by `new` alone. Relaxed: to see it late asks for small
    /// pages a moment longer.
    is_young: AtomicBool,
    /// While it is: where frames were taken, as offsets of huge pages, one for each that was taken.
    touched: Mutex<Vec<usize>>,
}

/// Bytes of frames that are taken before huge pages are asked for.
const YOUNG_BYTES: usize = 1 << 20;

impl Frames {
    /// `with_bytes`: else the translation has the memory of the pages. `huge`: on huge pages where
    /// the kernel has some; else nowhere, unless the translation asks for them.
    pub(crate) fn new(
        count: u32,
        size: PageSize,
        with_bytes: bool,
        huge: bool,
    ) -> Result<Frames, PoolError> {
        let slots = count as usize + 1;
        let bytes = (if with_bytes { slots << size.shift() } else { 0 }) + OVERRUN_BYTES;
        let bytes = Mapping::new("frames", bytes, HUGE_PAGE_BYTES)?;
        bytes.prefer_small_pages();
        let (is_young, touched) = (AtomicBool::new(huge), Mutex::default());
        Ok(Frames { bytes, count, size, is_young, touched })
    }

    /// A page comes into a free frame.
    #[inline]
    pub(crate) fn note_taken(&self, frame: FrameId) {
        if self.is_young.load(Ordering::Relaxed) {
            self.grow_up(frame);
        }
    }

    #[cold]
    fn grow_up(&self, frame: FrameId) {
        let mut touched = lock(&self.touched);
        let offset = (frame.get() as usize) << self.size.shift();
        touched.push(offset / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES);
        if touched.len() << self.size.shift() >= YOUNG_BYTES
            && self.is_young.swap(false, Ordering::Relaxed)
        {
            self.bytes.prefer_huge_pages();
            let mut touched = std::mem::take(&mut *touched);
            touched.sort_unstable();
            touched.dedup();
            touched.iter().for_each(|offset| self.bytes.collapse(*offset));
        }
    }

    /// Asks for huge pages for so many frames from this one on.
    pub(crate) fn prefer_huge_pages(&self, first: FrameId, frames: u64) {
        let shift = self.size.shift();
        let (offset, len) = ((first.get() as usize) << shift, (frames as usize) << shift);
        self.bytes.prefer_huge_pages_in(offset, len);
    }

    /// Asks for memory of the node for each frame of a partition, where one is named. (Metadata, and
    /// what translations keep by frame, stay as they are: runs of frames have runs there, which their
    /// own threads are mostly the first to write.)
    ///
    /// # Errors
    /// A node of which the kernel gives no memory. The partitions behind it are not settled then.
    pub(crate) fn settle(
        &self,
        nodes: impl Iterator<Item = Option<NodeId>>,
        ends: &[u32],
    ) -> Result<(), PoolError> {
        let mut from = 0;
        for (node, end) in nodes.zip(ends) {
            let to = (*end as usize + 1) << self.size.shift();
            if let Some(node) = node {
                self.bytes.prefer_node(from, to - from, node)?;
            }
            from = to;
        }
        Ok(())
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
        if self.is_young.swap(false, Ordering::Relaxed) {
            self.bytes.prefer_huge_pages();
        }
        self.bytes.populate(len).map_err(|source| PoolError::Memory {
            what: "prefaulted frames",
            bytes: len as u64,
            source: Arc::new(source),
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

    /// Gives the memory behind a frame, which holds no page that anyone wants, back to the kernel.
    pub(crate) fn discard(&self, address: NonNull<u8>) {
        // The kernel takes back whole pages of its own: smaller ones are its neighbours' too.
        if self.size.bytes() >= kernel_page_bytes() {
            let offset = address.addr().get() - self.bytes.base().addr().get();
            let _ = self.bytes.discard(offset, self.size.bytes());
        }
    }
}
