use std::collections::VecDeque;

use super::*;
use crate::replacement::dice::Dice;
use crate::replacement::testing::{Replay, TestFrames, page};

/// The paper's algorithm line by line; newest first, as there. Am is second chance: of each page in
/// it is known whether it was used since its last turn.
#[derive(Default)]
struct Paper {
    room: usize,
    a1_in: VecDeque<u64>,
    a1_out: VecDeque<u64>,
    am: VecDeque<(u64, bool)>,
}

impl Paper {
    fn hit(&mut self, x: u64) -> bool {
        if let Some((_, used)) = self.am.iter_mut().find(|(y, _)| *y == x) {
            *used = true;
            return true;
        }
        if self.a1_in.contains(&x) {
            return true;
        }
        self.reclaim();
        if let Some(at) = self.a1_out.iter().position(|&y| y == x) {
            self.a1_out.remove(at);
            self.am.push_front((x, true));
        } else {
            self.a1_in.push_front(x);
        }
        false
    }

    fn reclaim(&mut self) {
        if self.a1_in.len() + self.am.len() < self.room {
            return;
        }
        if self.a1_in.len() > self.room / 4 || self.am.is_empty() {
            self.a1_out.extend_front_with(self.a1_in.pop_back());
            if self.a1_out.len() > self.room / 2 {
                self.a1_out.pop_back();
            }
        } else {
            while let Some((y, true)) = self.am.pop_back() {
                self.am.push_front((y, false));
            }
        }
    }
}

fn place(policy: &TwoQueues, frame: u32) -> Option<Queue> {
    lock(&policy.inner).queues.place(frame)
}

trait ExtendFront {
    fn extend_front_with(&mut self, page: Option<u64>);
}

impl ExtendFront for VecDeque<u64> {
    fn extend_front_with(&mut self, page: Option<u64>) {
        self.push_front(page.expect("the queue is not empty"));
    }
}

#[test]
fn it_does_as_the_paper_does_with_second_chance_for_lru() {
    for room in [4, 10, 50] {
        let policy = TwoQueues::new(room);
        let mut replay = Replay::new(&policy, room);
        let mut paper = Paper { room: room as usize, ..Paper::default() };
        let dice = Dice::new();
        let mut hits = 0;
        for step in 0..50_000 {
            let page = u64::from(dice.below(dice.below(room * 6) + 1));
            let hit = paper.hit(page);
            assert_eq!(replay.request(page), hit, "room {room}, step {step}, page {page}");
            hits += u32::from(hit);
        }
        assert!((10_000..45_000).contains(&hits), "{hits}: the test tests little");
    }
}

#[test]
fn several_victims_at_once_leave_a_quarter_in_the_first_queue() {
    let (policy, frames) = (TwoQueues::new(8), TestFrames::new(8));
    // Pages 1 to 4 come back and stand in Am.
    for frame in 1..=4 {
        frames.admit(&policy, frame, page(u64::from(frame)), false);
        frames.leave(&policy, frame);
    }
    for frame in 1..=8 {
        frames.admit(&policy, frame, page(u64::from(frame)), false);
    }
    (1..=4).for_each(|frame| _ = frames.mark(FrameId::new(frame)));
    frames.access(&policy, 1);
    let mut victims = Vec::new();
    policy.propose(&frames, 4, false, &mut victims);
    assert_eq!(victims, [5, 6, 2, 3].map(FrameId::new));
    assert_eq!(frames.marked(), [1, 2, 3, 4], "1 stays");
}

#[test]
fn pages_of_a_scan_go_first_and_do_not_come_to_the_second_queue() {
    let (policy, frames) = (TwoQueues::new(8), TestFrames::new(9));
    for frame in 1..=8 {
        frames.admit(&policy, frame, page(u64::from(frame)), frame == 8);
    }
    let mut victims = Vec::new();
    policy.propose(&frames, 1, false, &mut victims);
    assert_eq!(victims, [FrameId::new(8)]);
    frames.leave(&policy, 8);
    frames.admit(&policy, 8, page(8), true);
    assert_eq!(place(&policy, 8), Some(A1_IN));
}

#[test]
fn a_page_of_the_second_queue_that_was_used_is_not_named_any_more() {
    let (policy, frames) = (TwoQueues::new(4), TestFrames::new(4));
    // Pages 1 and 2 come back and stand in Am.
    for frame in [1, 2, 1, 2, 3, 4] {
        if frames.resident().contains(&frame) {
            frames.leave(&policy, frame);
        }
        frames.admit(&policy, frame, page(u64::from(frame)), false);
    }
    let mut victims = Vec::new();
    policy.propose(&frames, 4, true, &mut victims);
    assert_eq!(victims, [3, 1, 2, 4].map(FrameId::new));
    // What must be written first goes if its mark is as it was, which is off in the first queue.
    let were = frames.marked();
    assert_eq!(were, [1, 2]);
    [1, 3].into_iter().for_each(|frame| frames.access(&policy, frame));
    assert_eq!(frames.marked(), [2], "accesses to the first queue mean nothing");
}

#[test]
fn a_page_that_is_discarded_drives_no_id_out() {
    let (policy, frames) = (TwoQueues::new(8), TestFrames::new(8));
    frames.admit(&policy, 1, page(1), false);
    frames.leave(&policy, 1);
    for no in 100..200 {
        frames.admit(&policy, 2, page(no), false);
        frames.discard(&policy, 2);
    }
    frames.admit(&policy, 1, page(1), false);
    frames.admit(&policy, 2, page(199), false);
    assert_eq!(place(&policy, 1), Some(AM));
    assert_eq!(place(&policy, 2), Some(A1_IN), "199 comes for the first time");
}

#[test]
fn a_page_that_moved_is_known_when_it_comes_back() {
    let (policy, frames) = (TwoQueues::new(8), TestFrames::new(8));
    frames.admit(&policy, 1, page(5), false);
    frames.relocate(&policy, 1, 2);
    frames.leave(&policy, 2);
    frames.admit(&policy, 3, page(5), false);
    frames.admit(&policy, 4, page(6), false);
    assert_eq!((place(&policy, 3), place(&policy, 4)), (Some(AM), Some(A1_IN)));
}

/// More than A1in may hold is dirty, and cannot be written: then pages of Am go.
#[test]
fn pages_that_cannot_go_do_not_keep_others_in_memory() {
    const FRAMES: u32 = 100;
    const STUCK: u32 = 50;
    let (policy, frames) = (TwoQueues::new(FRAMES), TestFrames::new(FRAMES));
    let admit = |frame: u32, no: u64| frames.admit(&policy, frame, page(no), false);
    (1..=FRAMES).for_each(|frame| admit(frame, u64::from(frame)));
    // The others come back, and so to Am.
    (STUCK + 1..=FRAMES).for_each(|frame| assert!(frames.leave(&policy, frame)));
    (STUCK + 1..=FRAMES).for_each(|frame| admit(frame, u64::from(frame)));
    assert!((STUCK + 1..=FRAMES).all(|frame| place(&policy, frame) == Some(AM)));
    let (mut next, mut in_vain) = (1000, 0);
    while next < 3000 {
        let mut victims = Vec::new();
        policy.propose(&frames, 4, false, &mut victims);
        in_vain += 1;
        for frame in victims.into_iter().map(FrameId::get).filter(|frame| *frame > STUCK) {
            in_vain = 0;
            frames.leave(&policy, frame);
            admit(frame, next);
            next += 1;
        }
        assert!(in_vain <= 60, "{next} pages came, and nothing goes any more");
    }
}
