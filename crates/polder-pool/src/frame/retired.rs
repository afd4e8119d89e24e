//! Frames that a copy has left behind (`shadow.rs`).

#![cfg(not(loom))]

use std::collections::VecDeque;

use crate::latch::{FrameId, GroupPins};
use crate::sync::{Mutex, lock};

/// Frames that their pages left, and that somebody may still be reading, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Retired(Mutex<VecDeque<FrameId>>);

impl Retired {
    /// This one, or else the oldest one, that will do and that nobody holds. (All are looked at: a
    /// reader that was descheduled holds the oldest for long.)
    pub(crate) fn take(
        &self,
        preferred: Option<FrameId>,
        will_do: impl Fn(FrameId) -> bool,
    ) -> Option<FrameId> {
        let mut frames = lock(&self.0);
        let preferred = frames.iter().position(|frame| Some(*frame) == preferred);
        let found = preferred.into_iter().chain(0..frames.len()).find(|at| will_do(frames[*at]))?;
        frames.remove(found)
    }

    pub(crate) fn put(&self, frame: FrameId) {
        lock(&self.0).push_back(frame);
    }

    /// A spare that was not needed: nobody holds it, so that it is the next one.
    pub(crate) fn put_first(&self, frame: FrameId) {
        lock(&self.0).push_front(frame);
    }

    /// Takes out those that nobody holds, as long as more than `most` are left.
    pub(crate) fn drain(&self, pins: &GroupPins, most: usize) -> Vec<FrameId> {
        let mut frames = lock(&self.0);
        let mut over = frames.len().saturating_sub(most);
        let mut drained = Vec::new();
        if over == 0 {
            return drained;
        }
        frames.retain(|frame| {
            let goes = over > 0 && pins.is_left(*frame);
            over -= usize::from(goes);
            if goes {
                drained.push(*frame);
            }
            !goes
        });
        drained
    }
}
