//! Whose link to the page in a frame is swizzled: one word a frame, and a lock for the link.
//!
//! * `SWIP-1` Only a thread that made the owner busy by CAS sets it, or one that brings a page into
//!   the frame (before F10: none, before the page can be read). Busy is held for a search through one
//!   node at most. Nobody waits meanwhile, and nobody waits for it but a thread that takes a page out
//!   at once (discarding it, dropping its space), under the exclusive latch.
//!
//! S3 cannot meet a page that leaves: U6 and S2 exclude each other by the owner, and when the owner is
//! none again the former word and tag are gone, visibly. For a root there is no parent to hold: busy
//! alone is the lock.

use crate::latch::FrameId;
use crate::sync::Backoff;
use crate::sync::atomic::{AtomicU32, Ordering};

/// Whose link to the page in a frame is swizzled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The frame holds no page, or a thread is finding out, or changing it.
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

/// The owner of a frame: a word, and a lock for the link that leads to it (`SWIP-1`). Zero: busy, as
/// is a frame without a page.
#[derive(Debug, Default)]
pub struct OwnerCell(AtomicU32);

impl OwnerCell {
    pub(crate) fn get(&self) -> Owner {
        Owner::from_bits(self.0.load(Ordering::Acquire))
    }

    /// Makes it busy, if it is as it was seen, and that was not busy. Acquire: what the last one did
    /// before it set the owner is seen.
    pub(crate) fn take(&self, seen: Owner) -> bool {
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let (seen, busy) = (seen.to_bits(), Owner::BUSY);
        seen != busy && self.0.compare_exchange(seen, busy, acquire, relaxed).is_ok()
    }

    /// Makes it busy for a thread that takes the page out of its frame whatever links there are:
    /// waits for the thread that has it busy, which itself waits for nothing.
    pub(crate) fn take_surely(&self) {
        let mut backoff = Backoff::new();
        while !self.take(self.get()) {
            backoff.wait();
        }
    }

    /// S2 to S4, by a reader that has found the frame's page by the table. With the owner busy,
    /// `is_here` looks at the frame again; if the page is there, `store` swizzles the link to it,
    /// which is `owner`'s from then on.
    pub(crate) fn swizzle(
        &self,
        owner: Owner,
        is_here: impl FnOnce() -> bool,
        store: impl FnOnce(),
    ) {
        let seen = self.get();
        if !self.take(seen) {
            return;
        }
        let here = is_here();
        if here {
            store();
        }
        self.set(if here { owner } else { seen });
    }

    /// U3 and U4: with the owner busy, if it was this one, `unswizzle` unswizzles its link, and
    /// says whether no link is swizzled then. Then the owner is none, else what it was.
    pub(crate) fn unswizzle(&self, owner: Owner, unswizzle: impl FnOnce() -> bool) -> bool {
        if !self.take(owner) {
            return false;
        }
        let plain = unswizzle();
        self.set(if plain { Owner::None } else { owner });
        plain
    }

    /// U6, by a thread that holds the frame's page exclusively: whether it may leave, because no
    /// link to it is swizzled, nor is one in it, as `holds_hot_link` says (`SWIP-3`). The owner
    /// stays busy then.
    pub(crate) fn may_leave(&self, holds_hot_link: impl FnOnce() -> bool) -> bool {
        if !self.take(Owner::None) {
            return false;
        }
        let stays = holds_hot_link();
        if stays {
            self.set(Owner::None);
        }
        !stays
    }

    /// For a thread that made it busy, or brings a page into the frame.
    pub(crate) fn set(&self, owner: Owner) {
        // Loom runs wrong versions, too, and must see what comes of them.
        debug_assert!(cfg!(loom) || self.get() == Owner::Busy, "SWIP-1");
        self.0.store(owner.to_bits(), Ordering::Release);
    }
}
