//! A frame that was taken for a page, and the end of having one.

#![cfg(not(loom))]

use crate::latch::FrameId;
use crate::shared::Shared;
use crate::translation::Translation;

/// A frame without a page; goes back when it is not used.
pub(crate) struct Spare<'p, T: Translation> {
    shared: &'p Shared<T>,
    pub(crate) frame: FrameId,
    used: bool,
}

impl<'p, T: Translation> Spare<'p, T> {
    pub(crate) fn new(shared: &'p Shared<T>, frame: FrameId) -> Spare<'p, T> {
        Spare { shared, frame, used: false }
    }

    /// It holds a page from now on.
    pub(crate) fn spend(mut self) -> FrameId {
        self.used = true;
        self.frame
    }
}

impl<T: Translation> Drop for Spare<'_, T> {
    fn drop(&mut self) {
        if !self.used {
            self.shared.give_frame(self.frame);
        }
    }
}

impl<T: Translation> Shared<T> {
    /// Frees a frame that was taken and not used, or whose page has left it.
    pub(crate) fn give_frame(&self, frame: FrameId) {
        // A page may have come meanwhile into the frame that is its own.
        if T::MEMORY.has_fixed_frames() {
            self.core.frames.fixed.give_back();
            return;
        }
        let page = self.core.latches.meta(frame).page();
        debug_assert!(page.is_null(), "META-1: {frame:?} is given back with {page}");
        self.core.frames.free.put(frame);
        self.core.frames.waiters.wake_one();
    }

    /// Gives retired frames that nobody holds to all others, but for `most`.
    pub(crate) fn reclaim_retired(&self, most: usize) {
        if let Some(pins) = &self.core.latches.pins {
            let reclaimed = self.core.frames.retired.drain(pins, most);
            reclaimed.into_iter().for_each(|frame| self.give_frame(frame));
        }
    }
}
