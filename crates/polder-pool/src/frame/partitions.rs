//! The free frames by node: a thread gets one whose memory is near (leanstore-2018 IV-H). Where a pool
//! has tiers (`tier/`) the partitions are these.
//!
//! The frames of a node are a run, and have a list of their own. A thread takes a frame of the
//! node on which it runs; where that has none, one of another; and it evicts only if there is none
//! at all. (As in the paper: what lies on another node costs some hundred nanoseconds more
//! whenever the caches miss it, what was evicted too early a read from the device.)
//!
//! * `PART-1` Each frame is in one partition, and goes back there, whichever thread frees it. So
//!   `FREE-1` and `FREE-2` hold for each list, and for all together.
//! * `PART-2` That no frame is free is said only after a look at each partition.
//!
//! A frame that is put into a partition behind a taker's back is missed, as in one list: the taker
//! evicts, or says that there is none, and looks again. Which node is near is a hint. Where there
//! is one node there is one partition, and where a thread runs does not matter.

use std::ops::RangeInclusive;

use crate::frame::free_list::FreeList;
use crate::latch::FrameId;

/// A partition, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartitionNo(usize);

impl PartitionNo {
    /// Where there is one, it is this.
    pub(crate) const FIRST: PartitionNo = PartitionNo(0);

    pub(crate) fn new(number: usize) -> PartitionNo {
        PartitionNo(number)
    }
}

/// The frames of one node. Alone on its cache lines, which are mostly the node's own.
#[derive(Debug)]
#[repr(align(128))]
struct Partition {
    /// How many frames are in the partitions in front of this.
    before: u32,
    frames: u32,
    /// The free ones, in which the first frame is number 1.
    free: FreeList,
}

impl Partition {
    fn full(before: u32, frames: u32) -> Partition {
        Partition { before, frames, free: FreeList::full(frames) }
    }

    /// One in front of the partition is number 0.
    fn inside(&self, frame: FrameId) -> FrameId {
        FrameId::new(frame.get().saturating_sub(self.before))
    }

    fn outside(&self, frame: FrameId) -> FrameId {
        FrameId::new(frame.get() + self.before)
    }
}

/// The frames that hold no page, by partition.
#[derive(Debug)]
pub(crate) struct Partitions {
    /// In the order of their frames; one at least.
    parts: Box<[Partition]>,
}

impl Partitions {
    /// All frames free. `ends`: the last frame of each partition.
    pub(crate) fn full(ends: &[u32]) -> Partitions {
        let starts = [0].iter().chain(ends);
        let parts = starts.zip(ends).map(|(before, end)| Partition::full(*before, end - before));
        Partitions { parts: parts.collect() }
    }

    /// Whether there are several.
    #[inline(always)]
    pub(crate) fn is_cut(&self) -> bool {
        self.parts.len() > 1
    }

    /// The partition that a frame is in (`PART-1`).
    pub(crate) fn of(&self, frame: FrameId) -> PartitionNo {
        let later = |part: &Partition| frame.get() <= part.before;
        PartitionNo(self.parts.iter().skip(1).take_while(|part| !later(part)).count())
    }

    fn part_of(&self, frame: FrameId) -> &Partition {
        &self.parts[self.of(frame).0]
    }

    /// How many frames are free; other threads take and put meanwhile.
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.free.len()).sum()
    }

    /// How many are free in the partition that has the fewest.
    pub(crate) fn fewest(&self) -> usize {
        self.parts.iter().map(|part| part.free.len()).min().unwrap_or(0)
    }

    /// How many are free in this one.
    pub(crate) fn len_of(&self, part: PartitionNo) -> usize {
        self.parts[part.0].free.len()
    }

    /// How many partitions there are.
    pub(crate) fn count(&self) -> usize {
        self.parts.len()
    }

    /// The frames of each, and how many of them are free.
    pub(crate) fn each(&self) -> impl Iterator<Item = (RangeInclusive<u32>, usize)> {
        let frames = |part: &Partition| part.before + 1..=part.before + part.frames;
        self.parts.iter().map(move |part| (frames(part), part.free.len()))
    }

    /// Frees a frame that its caller holds.
    pub(crate) fn put(&self, frame: FrameId) {
        let part = self.part_of(frame);
        part.free.put(part.inside(frame));
    }

    /// This very frame, if it is free.
    pub(crate) fn take_this(&self, frame: FrameId) -> bool {
        let part = self.part_of(frame);
        part.free.take_this(part.inside(frame))
    }

    /// Whether this frame is free, a moment ago.
    pub(crate) fn is_free(&self, frame: FrameId) -> bool {
        let part = self.part_of(frame);
        part.free.is_free(part.inside(frame))
    }

    /// Any free frame, of this partition if it has one.
    pub(crate) fn take(&self, near: PartitionNo) -> Option<FrameId> {
        self.find(near, |part| part.free.take())
    }

    /// A free frame of this very partition: if `taken` is said, one for a page that cannot have that.
    pub(crate) fn take_in(&self, part: PartitionNo, taken: Option<FrameId>) -> Option<FrameId> {
        let part = &self.parts[part.0];
        let frame = match taken {
            Some(taken) => part.free.take_instead_of(part.inside(taken)),
            None => part.free.take(),
        };
        frame.map(|frame| part.outside(frame))
    }

    /// The same for a page that cannot have `taken`: [`FreeList::take_instead_of`].
    pub(crate) fn take_instead_of(&self, taken: FrameId, near: PartitionNo) -> Option<FrameId> {
        self.find(near, |part| part.free.take_instead_of(part.inside(taken)))
    }

    /// The nearest partition first, then all others (`PART-2`).
    fn find(
        &self,
        near: PartitionNo,
        take: impl Fn(&Partition) -> Option<FrameId>,
    ) -> Option<FrameId> {
        let (before, from) = self.parts.split_at(near.0);
        let mut parts = from.iter().chain(before);
        parts.find_map(|part| Some(part.outside(take(part)?)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
