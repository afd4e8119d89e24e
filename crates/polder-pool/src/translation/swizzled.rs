//! Links that hold frames (leanstore.txt III-A and IV-B). Who writes them, and when, is `swizzle.rs`
//! of the pool; `docs/protocols.md`, "Swizzled links".

use polder_format::{PageId, SpaceId};

use super::LinkRef;
use super::framed::Framed;
use super::guess::{Guess, Settles};
use super::simd::SimdTable;
use crate::error::PoolError;
use crate::memory::{HUGE_PAGE_BYTES, Reservation};
use crate::state::FrameId;
use crate::swip::Swip;
use crate::sync::Backoff;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Pointer swizzling: a hot page is found by the link that leads to it, and only others by a table.
pub type Swizzle = Framed<SimdTable, Swips>;

/// The link of a space to its root, in memory. Zero: not hot.
#[derive(Debug, Default)]
#[repr(align(64))] // Every descent reads it: not beside what is written.
pub struct RootSwip(AtomicU64);

impl RootSwip {
    /// The link to the root, which is this page.
    #[inline(always)]
    fn load(&self, page: PageId) -> Swip {
        let swip = Swip::new(self.0.load(Ordering::Relaxed));
        if swip.is_hot() && swip.page(page.space()) == page { swip } else { plain(page) }
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

fn plain(page: PageId) -> Swip {
    Swip::new(page.to_bits())
}

/// Whose link to the page in a frame is hot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The frame holds no page, or somebody is finding out, or changing it.
    Busy,
    /// Nobody's.
    None,
    /// The root swip of its space.
    Root,
    /// The page in this frame.
    Parent(FrameId),
}

impl Owner {
    const BUSY: u32 = 0;
    const NONE: u32 = u32::MAX;
    const ROOT: u32 = u32::MAX - 1;

    fn from_bits(bits: u32) -> Owner {
        match bits {
            Owner::BUSY => Owner::Busy,
            Owner::NONE => Owner::None,
            Owner::ROOT => Owner::Root,
            frame => Owner::Parent(FrameId::new(frame)),
        }
    }

    fn to_bits(self) -> u32 {
        match self {
            Owner::Busy => Owner::BUSY,
            Owner::None => Owner::NONE,
            Owner::Root => Owner::ROOT,
            Owner::Parent(frame) => frame.get(),
        }
    }
}

/// The owner of each frame: a word, and a lock for the link that leads to it (`SWIP-1`).
#[derive(Debug)]
pub struct Owners {
    words: Reservation,
    frames: u32,
}

impl Owners {
    fn new(frames: u32) -> Result<Owners, PoolError> {
        let bytes = (frames as usize + 1) * size_of::<AtomicU32>();
        let words = Reservation::new("owners of frames", bytes, HUGE_PAGE_BYTES)?;
        Ok(Owners { words, frames })
    }

    fn word(&self, frame: FrameId) -> &AtomicU32 {
        assert!(frame.get() <= self.frames);
        // SAFETY: `new` reserved `frames + 1`, and zeroed memory is a valid one.
        unsafe { self.words.base().cast::<AtomicU32>().add(frame.get() as usize).as_ref() }
    }

    pub(crate) fn get(&self, frame: FrameId) -> Owner {
        Owner::from_bits(self.word(frame).load(Ordering::Acquire))
    }

    /// Makes it busy, if it is as it was seen, and that was not busy. Acquire: what the last one did
    /// before it set the owner is seen.
    pub(crate) fn take(&self, frame: FrameId, seen: Owner) -> bool {
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let (seen, busy) = (seen.to_bits(), Owner::BUSY);
        seen != busy && self.word(frame).compare_exchange(seen, busy, acquire, relaxed).is_ok()
    }

    /// Makes it busy for who takes the page out of its frame, which has an owner other than its
    /// holder: waits for somebody who has it busy, and does not wait for anything.
    pub(crate) fn take_surely(&self, frame: FrameId) {
        let mut backoff = Backoff::new();
        while !self.take(frame, self.get(frame)) {
            backoff.wait();
        }
    }

    /// For who made it busy, or brings a page into the frame.
    pub(crate) fn set(&self, frame: FrameId, owner: Owner) {
        self.word(frame).store(owner.to_bits(), Ordering::Release);
    }
}

/// The bits of a link that may be hot.
#[inline(always)]
fn swip(link: LinkRef<'_>, root: Option<&RootSwip>) -> Swip {
    match (link, root) {
        (LinkRef::Root(page), Some(root)) => root.load(page),
        _ => Swip::new(link.load()),
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
        size_of::<AtomicU32>() as u64
    }

    fn bytes(&self) -> u64 {
        self.owners.words.len() as u64
    }

    #[inline(always)]
    fn swip(&self, link: LinkRef<'_>, root: Option<&RootSwip>) -> Swip {
        swip(link, root)
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
    fn swip(&self, link: LinkRef<'_>, root: Option<&RootSwip>) -> Swip {
        swip(link, root)
    }

    #[inline(always)]
    fn guess(&self, swip: Swip, space: SpaceId) -> (PageId, Option<FrameId>) {
        guess(swip, space, self.frames)
    }
}
