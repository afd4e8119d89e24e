//! Whose links are swizzled: the owner of each frame, and the link of each space to its root.

#![cfg(not(loom))]

use polder_format::PageId;

use super::owner::OwnerCell;
use super::swip::Swip;
use crate::error::PoolError;
use crate::latch::FrameId;
use crate::machine::{HUGE_PAGE_BYTES, Table, Zeroed};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::translation::parts::directory::TableDirectory;

/// The link of a space to its root, in memory. Zero: not swizzled.
#[derive(Debug, Default)]
#[repr(align(64))] // Every descent reads it: not beside what is written.
pub struct RootSwip(AtomicU64);

impl RootSwip {
    /// The link to the root, which is this page.
    #[inline(always)]
    pub(super) fn load(&self, page: PageId) -> Swip {
        let swip = Swip::new(self.0.load(Ordering::Relaxed));
        let leads_there = swip.is_swizzled() && swip.page(page.space()) == page;
        if leads_there { swip } else { Swip::new(page.to_bits()) }
    }

    pub(super) fn store(&self, swip: Swip) {
        self.0.store(swip.bits(), Ordering::Relaxed);
    }

    /// Unswizzles the link, if it is `swip`.
    pub(super) fn unswizzle(&self, swip: Swip) {
        let (relaxed, none) = (Ordering::Relaxed, 0);
        let _ = self.0.compare_exchange(swip.bits(), none, relaxed, relaxed);
    }
}

/// What is known of one space: the table's part, and the link to the root beside it.
pub type SwizzleDirectory = TableDirectory<RootSwip>;

// SAFETY: all zero is the owner of a frame without a page, and it is an atomic.
unsafe impl Zeroed for OwnerCell {}

/// The owner of each frame.
#[derive(Debug)]
pub struct Owners(Table<OwnerCell>);

impl Owners {
    /// Of so many frames, without pages.
    pub(super) fn new(frames: u32) -> Result<Owners, PoolError> {
        Ok(Owners(Table::new("owners of frames", frames as usize + 1, HUGE_PAGE_BYTES)?))
    }

    /// Memory in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.0.memory().len() as u64
    }

    /// A frame's.
    pub(super) fn of(&self, frame: FrameId) -> &OwnerCell {
        &self.0.all()[frame.get() as usize]
    }
}
