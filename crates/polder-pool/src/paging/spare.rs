//! A frame that was taken for a page.

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
