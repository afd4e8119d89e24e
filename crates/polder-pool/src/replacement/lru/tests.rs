use std::collections::VecDeque;

use super::*;
use crate::replacement::dice::Dice;
use crate::replacement::testing::{Replay, TestFrames, page};

/// Pages from the least to the most recently used one.
fn model_hit(model: &mut VecDeque<u64>, room: usize, page: u64) -> bool {
    let hit = model.contains(&page);
    model.retain(|&other| other != page);
    if model.len() == room {
        model.pop_front();
    }
    model.push_back(page);
    hit
}

#[test]
fn it_does_as_the_model_does() {
    const ROOM: u32 = 50;
    let lru = Lru::new(ROOM);
    let mut replay = Replay::new(&lru, ROOM);
    let (mut model, dice) = (VecDeque::new(), Dice::new());
    for step in 0..50_000 {
        // Small numbers come more often.
        let page = u64::from(dice.below(dice.below(200) + 1));
        let hit = model_hit(&mut model, ROOM as usize, page);
        assert_eq!(replay.request(page), hit, "step {step}, page {page}");
    }
}

#[test]
fn pages_of_a_scan_go_first_and_moved_pages_keep_their_turn() {
    let (lru, frames) = (Lru::new(5), TestFrames::new(5));
    frames.admit(&lru, 1, page(1), false);
    frames.admit(&lru, 2, page(2), false);
    frames.admit(&lru, 3, page(3), true);
    frames.relocate(&lru, 1, 5);
    let mut victims = Vec::new();
    lru.propose(&frames, 3, false, &mut victims);
    assert_eq!(victims, [3, 5, 2].map(FrameId::new));
}

#[test]
fn a_page_that_could_not_go_waits_for_the_others() {
    let (lru, frames) = (Lru::new(3), TestFrames::new(3));
    for frame in 1..=3 {
        frames.admit(&lru, frame, page(u64::from(frame)), false);
    }
    let mut victims = Vec::new();
    for _ in 0..4 {
        lru.propose(&frames, 1, false, &mut victims);
    }
    assert_eq!(victims, [1, 2, 3, 1].map(FrameId::new));
}

#[test]
fn a_page_that_was_used_is_not_named_any_more() {
    let (lru, frames) = (Lru::new(3), TestFrames::new(3));
    for frame in 1..=3 {
        frames.admit(&lru, frame, page(u64::from(frame)), false);
    }
    let mut victims = Vec::new();
    lru.propose(&frames, 2, false, &mut victims);
    frames.access(&lru, 1);
    let named = [1, 2, 3].map(|frame| lru.still_names(FrameId::new(frame)));
    assert_eq!(named, [false, true, false]);
    // Nor is the next page in its frame.
    frames.leave(&lru, 2);
    frames.admit(&lru, 2, page(9), false);
    assert!(!lru.still_names(FrameId::new(2)));
}

#[test]
fn a_page_that_left_is_not_looked_for() {
    let (lru, frames) = (Lru::new(3), TestFrames::new(3));
    for frame in 1..=3 {
        frames.admit(&lru, frame, page(u64::from(frame)), false);
    }
    assert!(frames.leave(&lru, 2));
    // An access that was on its way.
    lru.access(FrameId::new(2));
    let mut victims = Vec::new();
    for _ in 0..3 {
        lru.propose(&frames, 1, false, &mut victims);
    }
    assert_eq!(victims, [1, 3, 1].map(FrameId::new));
    assert_eq!(frames.looks(), 3);
}
