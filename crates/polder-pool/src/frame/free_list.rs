//! The free frames: a bitmap of two levels.
//!
//! A bit each, because the list must be able to give up *a given* frame (a fault that prefers
//! one), and because a bitmap knows no ABA problem. The upper level has a bit for each word of the
//! lower one that may hold a free frame.
//!
//! * `FREE-1` A frame is given to one taker: the one whose `fetch_and` cleared its bit.
//! * `FREE-2` An upper bit may be set over an empty word (a taker then clears it), but while a
//!   word holds a bit and nobody is at work on it its upper bit is set: clearing looks again.

use crate::latch::FrameId;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Words of a block: 512 frames, a huge page of the kernel's if pages have 4 KiB.
const BLOCK: usize = 8;

/// The frames that hold no page.
#[derive(Debug)]
pub struct FreeList {
    words: Box<[AtomicU64]>,
    upper: Box<[AtomicU64]>,
    /// How many are free; a moment behind.
    count: AtomicUsize,
    /// Upper word where the last frame was found.
    hint: AtomicUsize,
    /// Block that pages go to that cannot have the frame they prefer.
    misplaced: AtomicUsize,
}

impl FreeList {
    /// Room for frames 1 to `frames`, all free.
    pub fn full(frames: u32) -> FreeList {
        let list = FreeList::empty(frames);
        (1..=frames).for_each(|frame| list.put(FrameId::new(frame)));
        list
    }

    /// Room for frames 1 to `frames`, none free.
    pub fn empty(frames: u32) -> FreeList {
        let words = (frames as usize + 1).div_ceil(64);
        let zeros = |n: usize| (0..n).map(|_| AtomicU64::new(0)).collect();
        FreeList {
            words: zeros(words),
            upper: zeros(words.div_ceil(64)),
            count: AtomicUsize::new(0),
            hint: AtomicUsize::new(0),
            misplaced: AtomicUsize::new(usize::MAX),
        }
    }

    /// How many frames are free; other threads take and put meanwhile.
    #[inline]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Memory of the list in bytes.
    pub fn bytes(frames: u32) -> usize {
        let words = (frames as usize + 1).div_ceil(64);
        8 * (words + words.div_ceil(64))
    }

    /// Frees a frame that its caller holds. Release pairs with the Acquire of the next taker.
    pub fn put(&self, frame: FrameId) {
        let (word, bit) = (frame.get() as usize / 64, frame.get() % 64);
        self.count.fetch_add(1, Ordering::Relaxed);
        let before = self.words[word].fetch_or(1 << bit, Ordering::AcqRel);
        debug_assert_eq!(before >> bit & 1, 0, "FREE-1: frame {frame:?} was free already");
        self.announce(word);
    }

    fn announce(&self, word: usize) {
        let (upper, bit) = (word / 64, word % 64);
        self.upper[upper].fetch_or(1 << bit, Ordering::AcqRel);
    }

    /// Any free frame, one of the lowest.
    pub fn take(&self) -> Option<FrameId> {
        let start = self.hint.load(Ordering::Relaxed) % self.upper.len();
        let (frame, at) = self.search(start, 0)?;
        if at != start {
            self.hint.store(at, Ordering::Relaxed);
        }
        Some(frame)
    }

    /// Any free frame, for a page that cannot have `taken`: not in the same block if it can be
    /// helped, where the page's neighbours will want theirs (or one that comes too late pushes all
    /// others on), but together with other such pages, so that few frames are touched that nobody
    /// has used yet: the kernel has to clear a whole huge page for the first. Once a block has
    /// none left, the next one is drawn.
    pub fn take_instead_of(&self, taken: FrameId) -> Option<FrameId> {
        let block = self.misplaced.load(Ordering::Relaxed);
        if block != block_of(taken)
            && let Some(frame) = self.take_in(block)
        {
            return Some(frame);
        }
        let dice = taken.get().wrapping_mul(0x9E37_79B9);
        let start = (u64::from(dice) * self.upper.len() as u64) >> 32;
        let (frame, _) = self.search(start as usize, dice)?;
        self.misplaced.store(block_of(frame), Ordering::Relaxed);
        Some(frame)
    }

    /// A free frame of this block, if there is such a block.
    fn take_in(&self, block: usize) -> Option<FrameId> {
        let words = self.words.iter().enumerate().skip(block.saturating_mul(BLOCK)).take(BLOCK);
        let mut with_free = words.filter(|(_, word)| word.load(Ordering::Relaxed) != 0);
        with_free.find_map(|(at, _)| self.take_from(at))
    }

    /// The first free frame from an upper word on, and the upper word that led to it; `turn` says
    /// at which of its words to begin.
    fn search(&self, start: usize, turn: u32) -> Option<(FrameId, usize)> {
        for i in 0..self.upper.len() {
            let at = (start + i) % self.upper.len();
            let mut candidates = self.upper[at].load(Ordering::Acquire).rotate_right(turn);
            while candidates != 0 {
                let bit = candidates.trailing_zeros().wrapping_add(turn) as usize % 64;
                if let Some(frame) = self.take_from(at * 64 + bit) {
                    return Some((frame, at));
                }
                candidates &= candidates - 1;
            }
        }
        None
    }

    /// A frame of this word, clearing its upper bit if there is none (`FREE-2`).
    fn take_from(&self, word: usize) -> Option<FrameId> {
        let mut now = self.words[word].load(Ordering::Acquire);
        while now != 0 {
            let bit = now.trailing_zeros();
            let frame = FrameId::new((word * 64) as u32 + bit);
            if self.take_this(frame) {
                return Some(frame);
            }
            now = self.words[word].load(Ordering::Acquire);
        }
        self.upper[word / 64].fetch_and(!(1 << (word % 64)), Ordering::AcqRel);
        // A put may have come between the look and the clearing. Its announcement came before
        // ours or comes after; if before, its bit is visible now (both are AcqRel on one word).
        if self.words[word].load(Ordering::Acquire) != 0 {
            self.announce(word);
        }
        None
    }

    /// Whether this frame is free, a moment ago.
    pub fn is_free(&self, frame: FrameId) -> bool {
        let (word, bit) = (frame.get() as usize / 64, frame.get() % 64);
        self.words.get(word).is_some_and(|word| word.load(Ordering::Relaxed) >> bit & 1 == 1)
    }

    /// This very frame, if it is free.
    pub fn take_this(&self, frame: FrameId) -> bool {
        let (word, bit) = (frame.get() as usize / 64, frame.get() % 64);
        let before = self.words[word].fetch_and(!(1 << bit), Ordering::AcqRel);
        let ours = before >> bit & 1 == 1;
        if ours {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        ours
    }
}

fn block_of(frame: FrameId) -> usize {
    frame.get() as usize / (64 * BLOCK)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn gives_each_frame_once_and_gives_up_a_given_one() {
        let list = FreeList::full(10_000);
        assert_eq!(list.len(), 10_000);
        assert!(list.take_this(FrameId::new(7777)));
        assert!(!list.take_this(FrameId::new(7777)));
        let mut seen = vec![false; 10_001];
        while let Some(frame) = list.take() {
            assert!(!std::mem::replace(&mut seen[frame.get() as usize], true));
        }
        assert!(list.len() == 0 && !seen[0] && !seen[7777]);
        assert_eq!(seen.iter().filter(|seen| **seen).count(), 9_999);
        list.put(FrameId::new(7777));
        assert_eq!(list.take(), Some(FrameId::new(7777)));
    }

    /// Pages that come in order, each to its own frame if it can: one that cannot does not push
    /// all behind it on.
    #[test]
    fn a_page_without_its_frame_leaves_its_neighbours_theirs() {
        for frames in [100, 4000, 20_000] {
            let list = FreeList::full(frames);
            assert!(list.take_this(FrameId::new(3)));
            let mut misplaced = 0;
            for wanted in (1..=frames / 2).map(FrameId::new) {
                if !list.take_this(wanted) {
                    assert_ne!(list.take_instead_of(wanted), None);
                    misplaced += 1;
                }
            }
            assert!(misplaced <= 12, "{misplaced} of {frames}");
        }
    }

    #[test]
    fn pages_without_their_frames_lie_together() {
        let list = FreeList::full(100_000);
        let blocks: HashSet<usize> = (1..=2000)
            .map(|wanted| list.take_instead_of(FrameId::new(wanted * 40)).unwrap())
            .map(block_of)
            .collect();
        // Four would do, but nobody goes to the block of the frame that is wanted.
        assert!(blocks.len() < 8, "{}", blocks.len());
        let mut others = 0;
        while list.take_instead_of(FrameId::new(1)).is_some() {
            others += 1;
        }
        assert_eq!((others, list.len()), (98_000, 0));
    }
}
