//! Parts of the frames, each with a lock of its own: in a large pool, threads that load and evict
//! pages seldom meet.

use crate::latch::FrameId;

/// Frames in a part, at least, and how many parts there are at most.
pub(super) const PART: u32 = 4096;
const MOST_PARTS: u32 = 16;

/// The frames 1 to `frames`: a part has those with the same remainder by the number of parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    frames: u32,
    count: u32,
}

impl Parts {
    pub(super) fn of(frames: u32) -> Parts {
        Parts { frames, count: (frames / PART).clamp(1, MOST_PARTS) }
    }

    /// How many there are, and so many frames each of them has.
    pub(super) fn lengths(self) -> impl Iterator<Item = u32> {
        (0..self.count).map(move |part| (self.frames + self.count - 1 - part) / self.count)
    }

    /// The part of a frame, and its number there, from 1 on.
    pub(super) fn place(self, frame: FrameId) -> (usize, u32) {
        let before = frame.get() - 1;
        ((before % self.count) as usize, before / self.count + 1)
    }

    /// The frame with this number in the part.
    pub(super) fn frame(self, part: usize, number: u32) -> FrameId {
        FrameId::new((number - 1) * self.count + part as u32 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_has_one_place() {
        for frames in [1, 4095, 8192, 12_289, 70_001] {
            let parts = Parts::of(frames);
            let lengths: Vec<u32> = parts.lengths().collect();
            assert_eq!(lengths.iter().sum::<u32>(), frames);
            for frame in (1..=frames).map(FrameId::new) {
                let (part, number) = parts.place(frame);
                assert!((1..=lengths[part]).contains(&number), "{frame:?} of {frames}");
                assert_eq!(parts.frame(part, number), frame);
            }
        }
    }
}
