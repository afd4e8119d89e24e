use std::collections::{HashSet, VecDeque};

use super::*;
use crate::replacement::dice::Dice;
use crate::replacement::testing::{Replay, TestFrames, page};

/// The algorithm on pages rather than frames.
struct Model {
    room: usize,
    fresh: VecDeque<u64>,
    /// With whether they were used since they stand there.
    probation: VecDeque<(u64, bool)>,
    main: VecDeque<(u64, bool, u8)>,
    small_ghosts: Fingerprints,
    main_ghosts: Fingerprints,
    small_halves: usize,
    has_evicted: bool,
}

impl Model {
    fn new(room: u32) -> Model {
        Model {
            room: room as usize,
            fresh: VecDeque::new(),
            probation: VecDeque::new(),
            main: VecDeque::new(),
            small_ghosts: Fingerprints::new(room / 4 * 3),
            main_ghosts: Fingerprints::new(room / 2),
            small_halves: room as usize / 20 * 2,
            has_evicted: false,
        }
    }

    fn small(&self) -> usize {
        self.small_halves / 2
    }

    fn in_small(&self) -> usize {
        self.fresh.len() + self.probation.len()
    }

    fn hit(&mut self, x: u64) -> bool {
        if self.fresh.contains(&x) {
            return true;
        }
        if let Some((_, used)) = self.probation.iter_mut().find(|(y, _)| *y == x) {
            *used = true;
            return true;
        }
        if let Some((_, used, _)) = self.main.iter_mut().find(|(y, ..)| *y == x) {
            *used = true;
            return true;
        }
        if self.in_small() + self.main.len() == self.room {
            self.evict();
            self.has_evicted = true;
        }
        let of_small = self.small_ghosts.remove(page(x));
        let of_main = self.main_ghosts.remove(page(x));
        if of_small {
            self.small_halves = (self.small_halves + 1).min(self.room / 10 * 9 * 2);
        } else if of_main {
            self.small_halves = (self.small_halves - 2).max(self.room / 20 * 2);
        }
        if of_small || !self.has_evicted && self.in_small() > self.small() {
            self.main.push_back((x, true, 0));
        } else {
            self.fresh.push_back(x);
        }
        false
    }

    fn evict(&mut self) {
        let mut passed = 0;
        loop {
            while self.fresh.len() > self.small() / 2 {
                self.probation.extend(self.fresh.pop_front().map(|page| (page, false)));
            }
            let from_small = self.in_small() > self.small() || passed >= 4;
            if from_small && self.in_small() > 0 {
                match self.probation.pop_front() {
                    Some((page, true)) => self.main.push_back((page, false, 1)),
                    Some((gone, false)) => return self.small_ghosts.add(page(gone)),
                    None => self.probation.extend(self.fresh.pop_front().map(|page| (page, false))),
                }
                continue;
            }
            passed += 1;
            match self.main.pop_front() {
                Some((page, true, uses)) => self.main.push_back((page, false, 4.min(uses + 1))),
                Some((page, false, uses @ 2..)) => self.main.push_back((page, false, uses - 1)),
                Some((gone, ..)) => return self.main_ghosts.add(page(gone)),
                None => {}
            }
        }
    }
}

#[test]
fn it_does_as_its_model() {
    for (room, pages) in [(40, 100), (200, 400), (1000, 3000)] {
        let policy = S3Fifo::new(room);
        let mut replay = Replay::new(&policy, room);
        let mut model = Model::new(room);
        let dice = Dice::new();
        let (mut hits, mut sizes) = (0u32, HashSet::new());
        for step in 0..100_000u64 {
            // Some pages are popular, others come once, or again after a while.
            let page = match dice.below(4) {
                0 => u64::from(pages) + step % u64::from(room),
                _ => u64::from(dice.below(dice.below(pages) + 1)),
            };
            let hit = model.hit(page);
            assert_eq!(replay.request(page), hit, "room {room}, step {step}, page {page}");
            hits += u32::from(hit);
            sizes.insert(model.small());
        }
        assert!((20_000..90_000).contains(&hits), "{hits}: the test tests little");
        assert!(sizes.len() > 10, "the small queue adapts: {sizes:?}");
    }
}

/// Frames 1 to `count` of a new policy hold pages of the same numbers, which have gone once before
/// if `known`.
fn filled(count: u32) -> (S3Fifo, TestFrames) {
    let (policy, frames) = (S3Fifo::new(count), TestFrames::new(count));
    for frame in 1..=count {
        frames.admit(&policy, frame, page(u64::from(frame)), false);
    }
    (policy, frames)
}

fn place(policy: &S3Fifo, frame: u32) -> Option<Queue> {
    let (part, number) = policy.parts.place(FrameId::new(frame));
    lock(&policy.queues[part]).queues.place(number)
}

fn proposed(policy: &S3Fifo, frames: &TestFrames, count: usize) -> Vec<u32> {
    let mut victims = Vec::new();
    policy.propose(frames, count, false, &mut victims);
    victims.into_iter().map(FrameId::get).collect()
}

#[test]
fn nothing_is_marked_before_something_goes() {
    let (policy, frames) = filled(100);
    assert!(frames.marked().is_empty());
    let small: Vec<u32> = (1..=100).filter(|frame| place(&policy, *frame) != Some(MAIN)).collect();
    assert_eq!(small, [1, 2, 3, 4, 5, 6], "what comes when the small queue is full goes past it");
}

#[test]
fn what_is_used_on_probation_goes_to_the_main_queue_and_what_comes_once_does_not() {
    let (policy, frames) = filled(100);
    assert_eq!(proposed(&policy, &frames, 1), [1]);
    frames.leave(&policy, 1);
    frames.admit(&policy, 1, page(1000), false);
    // 2 to 4 are on probation, 5, 6 and 1 have just come.
    assert_eq!([2, 4].map(|frame| place(&policy, frame)), [Some(PROBATION); 2]);
    assert_eq!([6, 1].map(|frame| place(&policy, frame)), [Some(FRESH); 2]);
    [2, 6].into_iter().for_each(|frame| frames.access(&policy, frame));
    assert_eq!(proposed(&policy, &frames, 1), [3]);
    assert_eq!(place(&policy, 2), Some(MAIN));
    assert_eq!(place(&policy, 6), Some(FRESH), "accesses to it count nothing");
}

#[test]
fn a_page_that_comes_back_goes_to_the_main_queue_unless_it_was_freed() {
    let (policy, frames) = filled(100);
    for (left, once, queue) in
        [(true, false, MAIN), (false, false, FRESH), (true, true, MAIN), (false, true, PROBATION)]
    {
        let [victim] = proposed(&policy, &frames, 1)[..] else { panic!("one is asked for") };
        match left {
            true => assert!(frames.leave(&policy, victim)),
            false => frames.discard(&policy, victim),
        }
        frames.admit(&policy, victim, page(u64::from(victim)), once);
        assert_eq!(place(&policy, victim), Some(queue), "{left}, {once}");
    }
}

#[test]
fn a_scan_goes_through_the_small_queue() {
    let (policy, frames) = filled(100);
    let went = |scanned: u64| {
        let [victim] = proposed(&policy, &frames, 1)[..] else { panic!("one is asked for") };
        frames.leave(&policy, victim);
        frames.admit(&policy, victim, page(1000 + scanned), true);
        victim
    };
    let victims: Vec<u32> = (0..1000).map(went).collect();
    assert!(victims.iter().all(|victim| (1..=6).contains(victim)), "only of the small queue");
    // A page of a scan that is used once more stays.
    let used = frames.marked()[0];
    frames.access(&policy, used);
    (0..4).for_each(|scanned| _ = went(2000 + scanned));
    assert_eq!(place(&policy, used), Some(MAIN));
    // One that has gone is remembered, so that another scan of the same pages keeps them.
    frames.leave(&policy, used);
    frames.admit(&policy, used, page(1990), true);
    assert_eq!(place(&policy, used), Some(MAIN));
}

#[test]
fn the_small_queue_grows_and_shrinks_by_ghosts_between_its_bounds() {
    let (policy, frames) = filled(100);
    let small = || lock(&policy.queues[0]).small();
    assert_eq!(small(), 5);
    frames.leave(&policy, 1);
    for ghosts in [&policy.small_ghosts, &policy.main_ghosts] {
        for _ in 0..300 {
            ghosts.add(page(7));
            frames.admit(&policy, 1, page(7), false);
            frames.discard(&policy, 1);
        }
        assert_eq!(small(), if std::ptr::eq(ghosts, &policy.small_ghosts) { 90 } else { 5 });
    }
}

#[test]
fn what_is_used_often_outlasts_what_is_used_once_in_a_while() {
    let (policy, frames) = filled(100);
    // Frame 50 is used in four rounds over the main queue, frame 60 in the last one.
    for round in 0..4 {
        for frame in 7..=100 {
            // The hand passes it: by hand, so that nothing goes.
            if matches!(frames.look(FrameId::new(frame)), Look::Plain) {
                frames.mark(FrameId::new(frame));
                lock(&policy.queues[0]).used(frame);
            }
        }
        frames.access(&policy, 50);
        if round == 3 {
            frames.access(&policy, 60);
        }
    }
    let mut gone = Vec::new();
    for no in 0..400 {
        for victim in proposed(&policy, &frames, 1) {
            frames.leave(&policy, victim);
            // What comes is used at once on its probation, so that the main queue must give.
            frames.admit(&policy, victim, page(1000 + no), true);
            frames.end_access(victim);
            gone.push(victim);
        }
    }
    let at = |frame| gone.iter().position(|&gone| gone == frame).unwrap_or(usize::MAX);
    assert!(at(70) < at(60) && at(60) < at(50), "{} {} {}", at(70), at(60), at(50));
}

#[test]
fn a_search_passes_few_pages_for_a_victim() {
    let (policy, frames) = filled(4000);
    // All of the main queue is in use.
    for _ in 0..50 {
        let before = frames.looks();
        let [victim] = proposed(&policy, &frames, 1)[..] else { panic!("one is asked for") };
        let looks = frames.looks() - before;
        assert!(looks <= 120, "{looks} looks for a victim");
        frames.leave(&policy, victim);
        frames.admit(&policy, victim, page(u64::from(victim)), false);
        (1..=4000).for_each(|frame| frames.access(&policy, frame));
    }
}

#[test]
fn a_page_that_moves_keeps_its_queue_and_its_count() {
    let (policy, frames) = filled(40_000);
    // To another part, and within one.
    for (from, to) in [(50, 11), (51, 51 + 9 * 9)] {
        frames.leave(&policy, to);
        let (part, number) = policy.parts.place(FrameId::new(from));
        let queue = place(&policy, from);
        lock(&policy.queues[part]).uses[number as usize] = 3;
        frames.relocate(&policy, from, to);
        assert_eq!((place(&policy, from), place(&policy, to)), (None, queue));
        let (part, number) = policy.parts.place(FrameId::new(to));
        assert_eq!(lock(&policy.queues[part]).uses[number as usize], 3);
    }
}

/// All of the small queue is dirty, and cannot be written: what is clean goes, of both queues.
#[test]
fn pages_that_cannot_go_do_not_keep_others_in_memory() {
    for urgent in [false, true] {
        let (policy, frames) = filled(400);
        let is_stuck = |frame: &u32| *frame <= 21;
        assert!((1..=21).all(|frame| place(&policy, frame) == Some(FRESH)));
        let (mut next, mut in_vain) = (1000, 0);
        let mut of_main = 0;
        while next < 2000 {
            let mut victims = Vec::new();
            policy.propose(&frames, 4, urgent, &mut victims);
            let gone: Vec<u32> = victims.into_iter().map(FrameId::get).collect();
            let gone = gone.into_iter().filter(|frame| !is_stuck(frame));
            in_vain += 1;
            for frame in gone {
                in_vain = 0;
                of_main += u32::from(place(&policy, frame) == Some(MAIN));
                frames.leave(&policy, frame);
                frames.admit(&policy, frame, page(next), false);
                next += 1;
            }
            assert!(in_vain <= 60, "{next} pages came, and nothing goes any more");
        }
        assert!(of_main > 0 && of_main < 900, "{of_main}");
    }
}
