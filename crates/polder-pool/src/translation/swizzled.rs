//! Links that hold frames (leanstore.txt III-A and IV-B). Who writes them, and when, is `swizzle.rs`
//! of the pool; `docs/protocols.md`, "Swizzled links".

use polder_format::{PageId, SpaceId};

use super::framed::Framed;
use super::guess::{Guess, Settles};
use super::owner::OwnerCell;
use super::simd::SimdTable;
use crate::error::PoolError;
use crate::memory::{HUGE_PAGE_BYTES, Reservation};
use crate::state::FrameId;
use crate::swip::Swip;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Pointer swizzling: a hot page is found by the link that leads to it, and only others by a table.
pub type Swizzle = Framed<SimdTable, Swips>;

/// The link of a space to its root, in memory. Zero: not hot.
#[derive(Debug, Default)]
#[repr(align(64))] // Every descent reads it: not beside what is written.
pub struct RootSwip(AtomicU64);

impl RootSwip {
    /// The link to the root, which is this page.
    #[inline(always)]
    pub(super) fn load(&self, page: PageId) -> Swip {
        let swip = Swip::new(self.0.load(Ordering::Relaxed));
        let leads_there = swip.is_hot() && swip.page(page.space()) == page;
        if leads_there { swip } else { Swip::new(page.to_bits()) }
    }

    pub(crate) fn store(&self, swip: Swip) {
        self.0.store(swip.bits(), Ordering::Relaxed);
    }

    /// No longer hot, if it was `swip`.
    pub(crate) fn cool(&self, swip: Swip) {
        let (relaxed, none) = (Ordering::Relaxed, 0);
        let _ = self.0.compare_exchange(swip.bits(), none, relaxed, relaxed);
    }
}

/// The owner of each frame.
#[derive(Debug)]
pub struct Owners {
    words: Reservation,
    frames: u32,
}

impl Owners {
    fn new(frames: u32) -> Result<Owners, PoolError> {
        let bytes = (frames as usize + 1) * size_of::<OwnerCell>();
        let words = Reservation::new("owners of frames", bytes, HUGE_PAGE_BYTES)?;
        Ok(Owners { words, frames })
    }

    /// A frame's.
    pub(crate) fn of(&self, frame: FrameId) -> &OwnerCell {
        assert!(frame.get() <= self.frames);
        // SAFETY: `new` reserved `frames + 1`, and zeroed memory is a valid one.
        unsafe { self.words.base().cast::<OwnerCell>().add(frame.get() as usize).as_ref() }
    }
}

/// What a link says.
#[inline(always)]
fn guess(swip: Swip, space: SpaceId, frames: u32) -> (PageId, Option<FrameId>) {
    match swip.frame(frames) {
        Some(frame) => (PageId::new(space, PageId::from_link(swip.bits()).page()), Some(frame)),
        None => (swip.page(space), None),
    }
}

/// The frame in the link, as it is kept for as long as the page is hot.
#[derive(Debug)]
pub struct Swips {
    owners: Owners,
}

impl Guess for Swips {
    const SETTLES: Settles = Settles::Link;

    fn new(frames: u32) -> Result<Swips, PoolError> {
        Ok(Swips { owners: Owners::new(frames)? })
    }

    fn bytes_per_frame() -> u64 {
        size_of::<OwnerCell>() as u64
    }

    fn bytes(&self) -> u64 {
        self.owners.words.len() as u64
    }

    #[inline(always)]
    fn guess(&self, swip: Swip, space: SpaceId) -> (PageId, Option<FrameId>) {
        guess(swip, space, self.owners.frames)
    }

    fn owners(&self) -> Option<&Owners> {
        Some(&self.owners)
    }
}

/// The frame in the link as a hint, which may be out of date for as long as it likes.
#[derive(Debug)]
pub struct Hints {
    frames: u32,
}

impl Guess for Hints {
    const SETTLES: Settles = Settles::Link;

    fn new(frames: u32) -> Result<Hints, PoolError> {
        Ok(Hints { frames })
    }

    #[inline(always)]
    fn guess(&self, swip: Swip, space: SpaceId) -> (PageId, Option<FrameId>) {
        guess(swip, space, self.frames)
    }
}
