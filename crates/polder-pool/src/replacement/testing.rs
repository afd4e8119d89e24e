//! Frames without a pool, for the tests of the policies.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use polder_format::{PageId, PageNo, SpaceId};

use super::{Look, Pages, Replacement};
use crate::latch::FrameId;

const NONE: u8 = 0;
const PLAIN: u8 = 1;
const MARKED: u8 = 2;

/// Page `no` of some table.
pub(super) fn page(no: u64) -> PageId {
    PageId::new(SpaceId::CATALOGUE, PageNo::new(no).unwrap())
}

/// What a pool does with its frames, as far as a policy sees it. Atomic, for tests with threads.
#[derive(Debug)]
pub(super) struct TestFrames {
    states: Vec<AtomicU8>,
    held: Vec<AtomicBool>,
    pages: Vec<AtomicU64>,
    looks: AtomicU64,
}

impl TestFrames {
    pub(super) fn new(frames: u32) -> TestFrames {
        let count = frames as usize + 1;
        TestFrames {
            states: (0..count).map(|_| AtomicU8::new(NONE)).collect(),
            held: (0..count).map(|_| AtomicBool::new(false)).collect(),
            pages: (0..count).map(|_| AtomicU64::new(0)).collect(),
            looks: AtomicU64::new(0),
        }
    }

    fn state(&self, frame: u32) -> &AtomicU8 {
        &self.states[frame as usize]
    }

    pub(super) fn admit(&self, policy: &dyn Replacement, frame: u32, page: PageId, once: bool) {
        let marked = policy.admit(FrameId::new(frame), page, once);
        self.pages[frame as usize].store(page.to_bits(), Ordering::Release);
        let before = self.state(frame).swap(if marked { MARKED } else { PLAIN }, Ordering::AcqRel);
        assert_eq!(before, NONE, "frame {frame} held a page");
    }

    pub(super) fn access(&self, policy: &dyn Replacement, frame: u32) {
        if self.state(frame).load(Ordering::Acquire) == MARKED
            && !policy.access(FrameId::new(frame))
        {
            let state = self.state(frame);
            let _ = state.compare_exchange(MARKED, PLAIN, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// The end of an access that the policy was told of before it set the mark: the mark goes.
    pub(super) fn end_access(&self, frame: u32) {
        let state = self.state(frame);
        let _ = state.compare_exchange(MARKED, PLAIN, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// False if somebody else has evicted the page, or it is held.
    pub(super) fn leave(&self, policy: &dyn Replacement, frame: u32) -> bool {
        match self.empty(frame) {
            Some(page) => policy.leave(FrameId::new(frame), Some(page)),
            None => return false,
        }
        true
    }

    /// The page is freed.
    pub(super) fn discard(&self, policy: &dyn Replacement, frame: u32) {
        assert!(self.empty(frame).is_some(), "frame {frame} held no page, or is held");
        policy.leave(FrameId::new(frame), None);
    }

    /// The page that was in the frame, if it can go.
    fn empty(&self, frame: u32) -> Option<PageId> {
        let held = self.held[frame as usize].load(Ordering::Acquire);
        let page = PageId::from_link(self.pages[frame as usize].load(Ordering::Acquire));
        (!held && self.state(frame).swap(NONE, Ordering::AcqRel) != NONE).then_some(page)
    }

    pub(super) fn relocate(&self, policy: &dyn Replacement, from: u32, to: u32) {
        let state = self.state(from).swap(NONE, Ordering::AcqRel);
        let page = self.pages[from as usize].load(Ordering::Acquire);
        self.pages[to as usize].store(page, Ordering::Release);
        policy.relocate(FrameId::new(from), FrameId::new(to));
        self.state(to).store(state, Ordering::Release);
    }

    /// As a page of a pool moves.
    pub(super) fn moves(&self, policy: &dyn Replacement, from: u32, to: u32) {
        let state = self.state(from).swap(NONE, Ordering::AcqRel);
        let page = self.pages[from as usize].load(Ordering::Acquire);
        self.pages[to as usize].store(page, Ordering::Release);
        let (page, frames) = (PageId::from_link(page), [from, to].map(FrameId::new));
        let marked = policy.moves(frames[0], frames[1], page, state == MARKED);
        self.state(to).store(if marked { MARKED } else { PLAIN }, Ordering::Release);
    }

    pub(super) fn hold(&self, frame: u32, held: bool) {
        self.held[frame as usize].store(held, Ordering::Release);
    }

    fn all_in(&self, wanted: impl Fn(u8) -> bool) -> Vec<u32> {
        let frames = 1..self.states.len() as u32;
        frames.filter(|&frame| wanted(self.state(frame).load(Ordering::Acquire))).collect()
    }

    /// How often a policy has looked at a frame.
    pub(super) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    pub(super) fn marked(&self) -> Vec<u32> {
        self.all_in(|state| state == MARKED)
    }

    pub(super) fn resident(&self) -> Vec<u32> {
        self.all_in(|state| state != NONE)
    }
}

impl Pages for TestFrames {
    fn look(&self, frame: FrameId) -> Look {
        self.looks.fetch_add(1, Ordering::Relaxed);
        if self.held[frame.get() as usize].load(Ordering::Acquire) {
            return Look::Nothing;
        }
        match self.state(frame.get()).load(Ordering::Acquire) {
            NONE => Look::Nothing,
            PLAIN => Look::Plain,
            _ => Look::Marked,
        }
    }

    fn mark(&self, frame: FrameId) -> FrameId {
        if !self.held[frame.get() as usize].load(Ordering::Acquire) {
            let state = self.state(frame.get());
            let _ = state.compare_exchange(PLAIN, MARKED, Ordering::AcqRel, Ordering::Relaxed);
        }
        frame
    }
}

/// Requests for pages by their numbers, one after the other.
pub(super) struct Replay<'a> {
    policy: &'a dyn Replacement,
    frames: TestFrames,
    room: u32,
    at: HashMap<u64, u32>,
    pages: HashMap<u32, u64>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(policy: &'a dyn Replacement, room: u32) -> Replay<'a> {
        let (at, pages) = (HashMap::new(), HashMap::new());
        Replay { policy, frames: TestFrames::new(room), room, at, pages }
    }

    pub(super) fn frames(&self) -> &TestFrames {
        &self.frames
    }

    /// Whether it is a hit. If not, the page comes in afterwards.
    pub(super) fn request(&mut self, no: u64) -> bool {
        if let Some(&frame) = self.at.get(&no) {
            self.frames.access(self.policy, frame);
            return true;
        }
        let resident = self.at.len() as u32;
        let frame = if resident < self.room { resident + 1 } else { self.evict() };
        self.frames.admit(self.policy, frame, page(no), false);
        self.at.insert(no, frame);
        self.pages.insert(frame, no);
        false
    }

    fn evict(&mut self) -> u32 {
        let mut victims = Vec::new();
        for _ in 0..2 {
            self.policy.propose(&self.frames, 1, false, &mut victims);
            if let [victim] = victims[..] {
                assert!(self.frames.leave(self.policy, victim.get()));
                let page = self.pages.remove(&victim.get()).unwrap();
                self.at.remove(&page);
                return victim.get();
            }
        }
        panic!("nothing was proposed");
    }
}
