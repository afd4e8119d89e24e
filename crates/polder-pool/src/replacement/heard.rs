//! A policy in a pool that hears of each access to some pages, whatever the policy wants (`MRC-2`).
//!
//! The words of these pages always bear the mark. Here is kept which pages they are, by their frames,
//! and which marks the policy wants; between the pool and the policy all that has to do with marks is
//! translated. So the policy is called as it would be if the pages bore no mark but its own.

#![cfg(not(loom))]

use std::fmt;

use polder_format::{PageId, Temperature};

use super::bits::Bits;
use super::{Look, Pages, Replacement};
use crate::latch::FrameId;
use crate::miss_ratio::Sampled;

/// A policy, and the pages of which the pool hears all.
pub(crate) struct Heard {
    policy: Box<dyn Replacement>,
    sampled: Sampled,
    /// The frames of sampled pages.
    kept: Bits,
    /// Of these, those that the policy wants to bear the mark.
    wanted: Bits,
}

impl Heard {
    /// Bytes for each frame, rounded up.
    pub(crate) const BYTES_PER_FRAME: u64 = 1;

    /// For a policy of so many frames.
    pub(crate) fn new(policy: Box<dyn Replacement>, frames: u32, sampled: Sampled) -> Heard {
        Heard { policy, sampled, kept: Bits::new(frames), wanted: Bits::new(frames) }
    }

    /// The page comes into the frame, with this mark of the policy's. Gives that of its word.
    fn come(&self, frame: FrameId, page: PageId, is_marked: bool) -> bool {
        let is_sampled = self.sampled.has(page);
        self.wanted.put(frame, is_marked && is_sampled);
        self.kept.put(frame, is_sampled);
        is_marked || is_sampled
    }
}

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.policy.fmt(f)
    }
}

impl Replacement for Heard {
    fn admit(&self, frame: FrameId, page: PageId, once: bool) -> bool {
        let is_marked = self.policy.admit(frame, page, once);
        self.come(frame, page, is_marked)
    }

    fn access(&self, frame: FrameId) -> bool {
        if !self.kept.is_set(frame) {
            return self.policy.access(frame);
        }
        if self.wanted.is_set(frame) && !self.policy.access(frame) {
            self.wanted.clear(frame);
        }
        true
    }

    fn wants_writes(&self) -> bool {
        self.policy.wants_writes()
    }

    fn write(&self, frame: FrameId) {
        self.policy.write(frame);
    }

    fn leave(&self, frame: FrameId, returns_as: Option<PageId>) {
        self.policy.leave(frame, returns_as);
        self.kept.clear(frame);
    }

    fn relocate(&self, from: FrameId, to: FrameId) {
        self.policy.relocate(from, to);
        self.wanted.put(to, self.wanted.is_set(from));
        self.kept.put(to, self.kept.clear(from));
    }

    fn moves(&self, from: FrameId, to: FrameId, page: PageId, is_marked: bool) -> bool {
        let is_marked = self.is_marked(from, is_marked);
        let is_marked = self.policy.moves(from, to, page, is_marked);
        self.kept.clear(from);
        self.come(to, page, is_marked)
    }

    fn propose(&self, pages: &dyn Pages, count: usize, urgent: bool, victims: &mut Vec<FrameId>) {
        self.policy.propose(&PagesAsWanted { pages, heard: self }, count, urgent, victims);
    }

    fn temperature(&self, frame: FrameId, is_marked: bool) -> Temperature {
        self.policy.temperature(frame, self.is_marked(frame, is_marked))
    }

    fn still_names(&self, frame: FrameId) -> bool {
        self.policy.still_names(frame)
    }

    fn is_marked(&self, frame: FrameId, in_word: bool) -> bool {
        let wanted = if self.kept.is_set(frame) { self.wanted.is_set(frame) } else { in_word };
        self.policy.is_marked(frame, wanted)
    }

    fn was_marked(&self, frame: FrameId) {
        if self.kept.is_set(frame) {
            self.wanted.set(frame);
        }
        self.policy.was_marked(frame);
    }
}

/// The pages with the marks that the policy wants.
struct PagesAsWanted<'a> {
    pages: &'a dyn Pages,
    heard: &'a Heard,
}

impl Pages for PagesAsWanted<'_> {
    fn look(&self, frame: FrameId) -> Look {
        match self.pages.look(frame) {
            Look::Nothing => Look::Nothing,
            look if !self.heard.kept.is_set(frame) => look,
            _ if self.heard.wanted.is_set(frame) => Look::Marked,
            _ => Look::Plain,
        }
    }

    fn mark(&self, frame: FrameId) -> FrameId {
        let marked = self.pages.mark(frame);
        // A page that is held gets no mark.
        if self.heard.kept.is_set(marked) && self.pages.look(marked) != Look::Nothing {
            self.heard.wanted.set(marked);
        }
        marked
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::miss_ratio::Sampler;
    use crate::replacement::ReplacementKind;
    use crate::replacement::dice::Dice;
    use crate::replacement::testing::{TestFrames, page};

    const FRAMES: u32 = 200;

    fn sampled(interval: u32) -> Sampled {
        Sampler::one_in(NonZeroU32::new(interval).unwrap(), FRAMES.into()).sampled()
    }

    /// What a pool does with a policy under a stream of operations that is always the same: everything
    /// that it names, and how hot each page is at the end.
    fn history(policy: &dyn Replacement) -> (Vec<u32>, Vec<Temperature>) {
        let (frames, dice) = (TestFrames::new(FRAMES), Dice::new());
        let (mut at, mut named) = (vec![0u32; 1000], Vec::new());
        // One frame is kept free, for pages that move.
        let (mut spare, mut free) = (FRAMES, (1..FRAMES).collect::<Vec<_>>());
        for step in 0..30_000 {
            let no = dice.below(1000).min(dice.below(1000)) as usize;
            match at[no] {
                0 => {
                    let frame = free.pop().unwrap_or_else(|| {
                        let mut victims = Vec::new();
                        for urgent in [false, false, true] {
                            policy.propose(&frames, 3, urgent, &mut victims);
                        }
                        named.extend(victims.iter().map(|frame| frame.get()));
                        let victim = victims[0].get();
                        at.iter_mut().filter(|at| **at == victim).for_each(|at| *at = 0);
                        assert!(frames.leave(policy, victim));
                        victim
                    });
                    frames.admit(policy, frame, page(no as u64 + 2), step % 5 == 0);
                    at[no] = frame;
                }
                frame if dice.below(50) == 0 => {
                    frames.moves(policy, frame, spare);
                    at[no] = spare;
                    spare = frame;
                }
                frame if dice.below(50) == 0 => {
                    frames.discard(policy, frame);
                    free.push(frame);
                    at[no] = 0;
                }
                frame => {
                    frames.access(policy, frame);
                    if policy.wants_writes() && dice.below(3) == 0 {
                        policy.write(FrameId::new(frame));
                    }
                }
            }
        }
        let marked = frames.marked();
        let temperature = |frame| policy.temperature(FrameId::new(frame), marked.contains(&frame));
        (named, frames.resident().into_iter().map(temperature).collect())
    }

    /// `MRC-2`: of all pages, of some, and of none the pool hears more than the policy wants to.
    #[test]
    fn a_policy_names_the_same_pages() {
        for kind in ReplacementKind::ALL.iter().copied() {
            let alone = history(&*kind.build(FRAMES));
            assert!(alone.0.len() > 5000, "{kind}");
            for interval in [1, 3, u32::MAX] {
                let sampled = sampled(interval);
                let heard = Heard::new(kind.build(FRAMES), FRAMES, sampled);
                assert!(history(&heard) == alone, "{kind}, one in {interval}");
            }
        }
    }

    #[test]
    fn words_of_sampled_pages_bear_the_mark_all_the_time() {
        let mut wanted = 0;
        for kind in ReplacementKind::ALL.iter().copied() {
            let sampled = sampled(2);
            let policy = Heard::new(kind.build(100), 100, sampled);
            let frames = TestFrames::new(100);
            for frame in 1..100 {
                frames.admit(&policy, frame, page(u64::from(frame)), false);
            }
            let of_sampled: Vec<u32> =
                (1..100).filter(|frame| sampled.has(page(u64::from(*frame)))).collect();
            assert!((30..70).contains(&of_sampled.len()));
            for _ in 0..3 {
                // The policy marks some, and takes their marks off when they are used.
                policy.propose(&frames, 10, false, &mut Vec::new());
                let is_wanted = |frame: &&u32| policy.wanted.is_set(FrameId::new(**frame));
                wanted += of_sampled.iter().filter(is_wanted).count();
                (1..100).for_each(|frame| frames.access(&policy, frame));
                let marked = frames.marked();
                assert!(of_sampled.iter().all(|frame| marked.contains(frame)), "{kind}");
            }
            // The page takes its mark along, and leaves none behind.
            let from = of_sampled[0];
            frames.moves(&policy, from, 100);
            assert!(frames.marked().contains(&100) && !policy.kept.is_set(FrameId::new(from)));
        }
        assert!(wanted > 10, "{wanted}");
    }
}
