//! A bit for each frame.

use crate::latch::FrameId;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A bit for each of the frames 1 to n. Each by itself: none orders anything else.
pub(crate) struct Bits(Box<[AtomicU64]>);

impl Bits {
    pub(crate) fn new(frames: u32) -> Bits {
        Bits((0..=frames / 64).map(|_| AtomicU64::new(0)).collect())
    }

    fn at(&self, frame: FrameId) -> (&AtomicU64, u64) {
        (&self.0[frame.get() as usize / 64], 1 << (frame.get() % 64))
    }

    pub(crate) fn is_set(&self, frame: FrameId) -> bool {
        let (word, bit) = self.at(frame);
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// Sets the bit, and gives whether it was set.
    pub(crate) fn set(&self, frame: FrameId) -> bool {
        let (word, bit) = self.at(frame);
        word.fetch_or(bit, Ordering::Relaxed) & bit != 0
    }

    /// Clears the bit, and gives whether it was set.
    pub(crate) fn clear(&self, frame: FrameId) -> bool {
        let (word, bit) = self.at(frame);
        word.load(Ordering::Relaxed) & bit != 0
            && word.fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }

    /// Sets or clears the bit.
    pub(crate) fn put(&self, frame: FrameId, set: bool) {
        _ = if set { self.set(frame) } else { self.clear(frame) };
    }
}
