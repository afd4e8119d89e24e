use super::*;
use crate::replacement::parts::PART;
use crate::replacement::testing::{Replay, TestFrames, page};

#[test]
fn a_share_cools_and_the_rest_is_not_touched() {
    let (cooling, frames) = (Cooling::new(1000, 10), TestFrames::new(1000));
    for frame in 1..=1000 {
        frames.admit(&cooling, frame, page(u64::from(frame)), false);
    }
    let mut victims = Vec::new();
    cooling.propose(&frames, 1, false, &mut victims);
    assert_eq!(frames.marked().len(), DRAWS_PER_VICTIM, "the share comes by and by");
    frames.leave(&cooling, victims[0].get());
    victims.clear();
    (0..9).for_each(|_| cooling.propose(&frames, 1, false, &mut victims));
    victims.iter().for_each(|victim| assert!(frames.leave(&cooling, victim.get())));
    cooling.propose(&frames, 0, false, &mut victims);
    assert_eq!(frames.marked().len(), 99, "one was named last");
    // A page that cools and is used is hot: the next call finds another one for its place.
    frames.access(&cooling, frames.marked()[7]);
    assert_eq!(frames.marked().len(), 98);
    cooling.propose(&frames, 1, false, &mut victims);
    assert_eq!(frames.marked().len(), 100);
}

#[test]
fn draws_are_random_to_the_last() {
    const FRAMES: u32 = 1000;
    let (cooling, frames) = (Cooling::new(FRAMES, 90), TestFrames::new(FRAMES));
    for frame in 1..=FRAMES {
        frames.admit(&cooling, frame, page(u64::from(frame)), false);
    }
    cooling.propose(&frames, 900usize.div_ceil(DRAWS_PER_VICTIM), false, &mut Vec::new());
    let marked = frames.marked();
    let hot: Vec<u32> = (1..=FRAMES).filter(|frame| !marked.contains(frame)).collect();
    assert_eq!(hot.len(), 100);
    // 500 on average; 4 sigma are 110.
    let mean = hot.iter().sum::<u32>() / 100;
    assert!(mean.abs_diff(500) < 110, "{mean}: {hot:?}");
}

#[test]
fn pages_go_in_the_order_in_which_they_began_to_cool() {
    let (cooling, frames) = (Cooling::new(20, 50), TestFrames::new(20));
    for frame in 1..=20 {
        frames.admit(&cooling, frame, page(u64::from(frame)), frame > 10);
    }
    frames.access(&cooling, 13);
    let mut victims = Vec::new();
    cooling.propose(&frames, 9, false, &mut victims);
    assert_eq!(victims, [11, 12, 14, 15, 16, 17, 18, 19, 20].map(FrameId::new));
}

#[test]
fn only_what_still_cools_is_named() {
    let (cooling, frames) = (Cooling::new(21, 50), TestFrames::new(21));
    for frame in 1..=20 {
        frames.admit(&cooling, frame, page(u64::from(frame)), frame > 10);
    }
    frames.end_access(11);
    frames.leave(&cooling, 12);
    frames.relocate(&cooling, 13, 21);
    let mut victims = Vec::new();
    cooling.propose(&frames, 2, false, &mut victims);
    assert_eq!(victims, [21, 14].map(FrameId::new));
    assert_eq!(frames.looks(), 3, "at 11, 21 and 14");
}

#[test]
fn each_part_of_a_large_pool_has_its_queue() {
    const FRAMES: u32 = 4 * PART + 3;
    let (cooling, frames) = (Cooling::new(FRAMES, 10), TestFrames::new(FRAMES));
    assert_eq!(cooling.parts.iter().map(|part| part.frames).sum::<u32>(), FRAMES);
    for frame in 1..=FRAMES {
        frames.admit(&cooling, frame, page(u64::from(frame)), frame <= 40);
    }
    // From one part after the other; what began to cool first in each.
    let mut victims = Vec::new();
    (0..8).for_each(|_| cooling.propose(&frames, 1, false, &mut victims));
    assert_eq!(victims, [1, 2, 3, 4, 5, 6, 7, 8].map(FrameId::new));
    // A page that moves to another part cools there, behind those that did before.
    frames.leave(&cooling, 50);
    frames.relocate(&cooling, 9, 50);
    let cools = |frame| {
        let (part, number) = cooling.place(FrameId::new(frame));
        part.stage.lock().unwrap().place(number)
    };
    assert_eq!((cools(9), cools(50)), (None, Some(COOLING)));
    // All of them have their share in the end.
    (0..200).for_each(|_| cooling.propose(&frames, 8, false, &mut victims));
    for part in &cooling.parts {
        let cool = part.stage.lock().unwrap().len(COOLING);
        assert!((part.share - 8..=part.share).contains(&cool), "{cool} of {}", part.share);
    }
}

#[test]
fn without_a_share_it_is_random() {
    const ROOM: u32 = 100;
    let cooling = Cooling::new(ROOM, 0);
    let mut replay = Replay::new(&cooling, ROOM);
    // Round and round over twice the room: LRU and FIFO would never hit. Random replacement
    // keeps a page over a whole round with probability h where h = (1 - 1/100)^misses, and
    // misses = 200 (1 - h): h = 0.2032 or, trivially, 1.
    let hits = (0..100_000u64).filter(|i| replay.request(i % 200)).count();
    assert!((19_000..22_000).contains(&hits), "{hits}");
    assert!(replay.frames().marked().is_empty());
}
