//! How many frames should be free: the low and high watermarks of the page provider.
//!
//! While the page provider makes a sweep, which may wait for the device, frames are taken: until it
//! has freed the next ones, those that are free must last. So the low watermark is no lower than as
//! many as were taken during a sweep of late, and the high one twice that. Free frames hold
//! nothing: so the two are never more than a 64th and a 32nd of all frames for it.

#![cfg(not(loom))]

use crate::frame::Partitions;
use crate::shared::Shared;
use crate::sync::atomic::Ordering;
use crate::tier::TierNo;
use crate::translation::Translation;

/// How many frames should be free.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watermarks {
    /// Below this the page provider is woken.
    pub(crate) low: usize,
    /// Here it rests again.
    pub(crate) high: usize,
}

impl Watermarks {
    /// Half a percent of the frames, and twice that.
    pub(crate) fn of(frames: u32) -> Watermarks {
        let low = (frames as usize / 200).clamp(4, 2048);
        Watermarks { low, high: low * 2 }
    }

    /// The same where so many frames are taken during a sweep.
    pub(crate) fn for_demand(self, frames: u32, taken: usize) -> Watermarks {
        let low = self.low.max(taken.min(frames as usize / 64));
        Watermarks { low, high: low * 2 }
    }

    /// Whether fewer than `level` frames are free; or of one node fewer than its part. As policies
    /// name pages of all nodes alike, the others' free frames grow in number while one node gets
    /// its part: where one node takes all, that ends at twice the high watermark,
    /// or filling it would empty the others.
    pub(crate) fn is_short(self, free: &Partitions, level: usize) -> bool {
        let all = free.len();
        all < level || (all < 2 * self.high && free.fewest() < level / free.count())
    }
}

impl<T: Translation> Shared<T> {
    /// The low and high watermarks of a tier; those of the pool where there is one.
    pub(crate) fn reserve_of(&self, tier: TierNo) -> Watermarks {
        let frames = &self.core.frames;
        let demand = &frames.demand;
        let frames = frames.tiers().map_or(frames.memory.count(), |tiers| tiers.frames(tier));
        Watermarks::of(frames).for_demand(frames, demand[tier.index()].load(Ordering::Relaxed))
    }

    /// Whether frames are short, by that of the watermarks; where there are tiers, in one of them.
    pub(crate) fn is_short(&self, level: impl Fn(Watermarks) -> usize) -> bool {
        let tiers = self.core.frames.tier_count();
        (0..tiers).any(|tier| self.shortage_of(TierNo::new(tier), &level).is_some())
    }

    /// The watermarks of a tier and how many of its frames are free, if by one of them these are
    /// short; those of the pool where there is one.
    pub(crate) fn shortage_of(
        &self,
        tier: TierNo,
        level: impl Fn(Watermarks) -> usize,
    ) -> Option<(Watermarks, usize)> {
        let (frames, reserve) = (&self.core.frames, self.reserve_of(tier));
        let (free, level) = (frames.free_in(tier), level(reserve));
        let is_short = match frames.tiers().is_some() {
            true => free < level,
            false => reserve.is_short(&frames.free, level),
        };
        is_short.then_some((reserve, free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::partitions::PartitionNo;

    /// Two partitions of 10000 frames, of which so many are free.
    fn free(first: usize, second: usize) -> Partitions {
        let free = Partitions::full(&[10_000, 20_000]);
        for (near, left) in [(0, first), (1, second)] {
            (left..10_000).for_each(|_| _ = free.take(PartitionNo::new(near)));
        }
        free
    }

    #[test]
    fn a_node_without_frames_is_short_unless_the_other_has_all_that_may_be_free() {
        let reserve = Watermarks::of(20_000);
        assert_eq!((reserve.low, reserve.high), (100, 200));
        for (first, second, low, high) in [
            (0, 0, true, true),
            (49, 50, true, true),
            (50, 50, false, true),
            (49, 150, true, true),
            (100, 100, false, false),
            (99, 150, false, true),
            (0, 399, true, true),
            (399, 0, true, true),
            (0, 400, false, false),
        ] {
            let free = free(first, second);
            let found =
                (reserve.is_short(&free, reserve.low), reserve.is_short(&free, reserve.high));
            assert_eq!(found, (low, high), "{first} and {second} free");
        }
    }

    #[test]
    fn the_watermarks_follow_the_demand_as_far_as_memory_allows() {
        let of = |taken| Watermarks::of(20_000).for_demand(20_000, taken);
        assert_eq!([0, 100, 200, 312, 5000].map(|taken| of(taken).low), [100, 100, 200, 312, 312]);
        assert_eq!(of(200).high, 400);
        assert_eq!(Watermarks::of(100).for_demand(100, 50).low, 4, "of a small pool hardly any");
    }

    #[test]
    fn one_node_is_short_of_frames_if_there_are_too_few() {
        let (reserve, free) = (Watermarks::of(20_000), Partitions::full(&[20_000]));
        for left in (0..20_000).rev() {
            free.take(PartitionNo::FIRST);
            assert_eq!(reserve.is_short(&free, reserve.low), left < reserve.low, "{left}");
            assert_eq!(reserve.is_short(&free, reserve.high), left < reserve.high, "{left}");
        }
    }
}
