//! What guards and holds know of their pool: what is known of each frame, the holders of its page
//! by slices, and how often versions have come round. It is all that they know of it.
//!
//! What is known of a frame (which page it holds, where that lies in the file) is part of it
//! because nobody may change that without a latch on the page.

#![cfg(not(loom))]

use std::fmt;

use crate::latch::meta::FrameMeta;
use crate::latch::metas::Metas;
use crate::latch::parking::ParkingLot;
use crate::latch::slices::GroupPins;
use crate::latch::state::{FrameId, StateCell, StateWord, WrapCount};
use crate::read_mode::ReadMode;
use crate::sync::{Backoff, aside};

/// How often a writer looks whether those that hold a page have released it, pausing in between.
/// They hold it for a moment, but the system may have taken the processor from them.
const LOOKS_FOR_HOLDERS: u32 = 1000;
/// The same where the writer holds pages shared itself, for which others may wait.
const LOOKS_FOR_SHARERS: u32 = 12;

/// What is to be told of each change of a page, by the thread that has made it and still holds the
/// page exclusively.
pub(crate) trait HearsWrites: fmt::Debug + Send + Sync {
    /// The page in this frame was changed.
    fn wrote(&self, frame: FrameId);
}

/// What guards and holds know of their pool.
#[derive(Debug)]
pub struct Latches {
    metas: Metas,
    pub(crate) wraps: WrapCount,
    /// Where threads wait for pages in flight.
    pub(crate) lot: ParkingLot,
    /// How readers hold pages, and by what if it is by slices.
    pub(crate) hold: ReadMode,
    /// [`ReadMode::holds_all`] and [`ReadMode::copies`], which each attempt asks.
    pub(crate) holds_all: bool,
    pub(crate) copies: bool,
    pub(crate) pins: Option<GroupPins>,
    /// Whether changes are to be logged.
    pub(crate) is_logged: bool,
    hears_writes: Option<Box<dyn HearsWrites>>,
}

impl Latches {
    /// What the guards of a pool with this read mode share. Where readers hold by slices there are
    /// `pins`.
    pub(crate) fn new(
        metas: Metas,
        hold: ReadMode,
        pins: Option<GroupPins>,
        is_logged: bool,
        hears_writes: Option<Box<dyn HearsWrites>>,
    ) -> Latches {
        Latches {
            metas,
            wraps: WrapCount::default(),
            lot: ParkingLot::new(),
            hold,
            holds_all: hold.holds_all(),
            copies: hold.copies(),
            pins,
            is_logged,
            hears_writes,
        }
    }

    /// What is known of a frame.
    #[inline(always)]
    pub(crate) fn meta(&self, frame: FrameId) -> &FrameMeta {
        self.metas.of(frame)
    }

    /// Whether nobody holds the page in this frame by slices. After its word was set exclusive the
    /// answer stays true (`HOLD-2`).
    #[inline(always)]
    pub(crate) fn has_no_holders(&self, frame: FrameId) -> bool {
        self.pins.as_ref().is_none_or(|pins| pins.is_free(frame))
    }

    /// Takes a page, which was `seen`, exclusively from those that hold it, when they release it.
    /// `shares`: the caller is one of them, by its word.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_when_left(
        &self,
        cell: &StateCell,
        seen: StateWord,
        frame: FrameId,
        shares: bool,
    ) -> Option<StateWord> {
        let looks = if shares { LOOKS_FOR_SHARERS } else { LOOKS_FOR_HOLDERS };
        cell.upgrade_when_left(seen, shares, looks, || self.has_no_holders(frame))
    }

    /// After a word was set exclusive that was held for copying: gives the holders a moment.
    pub(crate) fn has_no_holders_soon(&self, frame: FrameId) -> bool {
        self.pins.as_ref().is_none_or(|pins| await_free(pins, frame, LOOKS_FOR_SHARERS))
    }

    /// The same, for a caller that holds nothing itself and can wait until it is so.
    pub(crate) fn await_holders(&self, frame: FrameId) {
        self.pins.iter().for_each(|pins| _ = await_free(pins, frame, u32::MAX));
    }

    /// Tells the listener, if there is one, that the page in this frame was changed. The caller
    /// holds the page exclusively.
    #[inline(always)]
    pub(crate) fn note_write(&self, frame: FrameId) {
        if let Some(hears_writes) = &self.hears_writes {
            tell_write(&**hears_writes, frame);
        }
    }
}

#[cold]
#[inline(never)]
fn await_free(pins: &GroupPins, frame: FrameId, patience: u32) -> bool {
    let mut backoff = Backoff::new();
    (0..patience).any(|_| {
        let free = pins.is_free(frame);
        if !free {
            backoff.wait();
        }
        free
    })
}

#[cold]
#[inline(never)]
fn tell_write(hears_writes: &dyn HearsWrites, frame: FrameId) {
    aside(|| hears_writes.wrote(frame));
}
