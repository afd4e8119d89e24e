//! What is asked of every policy.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::dice::Dice;
use super::testing::{TestFrames, page};
use super::{Look, Pages, Replacement, ReplacementKind};
use crate::latch::FrameId;

fn kinds() -> Vec<ReplacementKind> {
    let shares = [0, 50, 90].map(|percent| ReplacementKind::Cooling { percent });
    ReplacementKind::ALL.iter().copied().chain(shares).collect()
}

/// What a policy names at once; each frame once, and no more than asked for.
fn proposed(policy: &dyn Replacement, frames: &dyn Pages, count: usize, urgent: bool) -> Vec<u32> {
    let there = FrameId::new(1);
    let mut victims = vec![there];
    policy.propose(frames, count, urgent, &mut victims);
    assert_eq!(victims[0], there, "what was there before is not touched");
    let victims: Vec<u32> = victims[1..].iter().map(|frame| frame.get()).collect();
    let distinct: HashSet<_> = victims.iter().collect();
    assert_eq!(distinct.len(), victims.len(), "{policy:?} named a frame twice: {victims:?}");
    assert!(victims.len() <= count, "{policy:?} named {} of {count}", victims.len());
    victims
}

/// Evicts everything and gives how much that was.
fn drain(policy: &dyn Replacement, frames: &TestFrames) -> usize {
    let mut drained = 0;
    while !frames.resident().is_empty() {
        let named = (0..3).map(|i| proposed(policy, frames, 7, i == 2)).find(|v| !v.is_empty());
        let Some(named) = named else { panic!("{policy:?} has lost {:?}", frames.resident()) };
        for frame in named {
            assert!(frames.leave(policy, frame), "{policy:?} named frame {frame}: no page");
            drained += 1;
        }
    }
    assert_eq!(proposed(policy, frames, 7, true), []);
    drained
}

#[test]
fn every_page_goes_at_last() {
    for kind in kinds() {
        for count in [1, 2, 3, 17, 100] {
            let (policy, frames) = (kind.build(count), TestFrames::new(count));
            for frame in 1..=count {
                frames.admit(&*policy, frame, page(u64::from(frame)), frame % 3 == 0);
            }
            assert_eq!(drain(&*policy, &frames), count as usize, "{kind}");
        }
    }
}

#[test]
fn nothing_is_named_and_the_search_ends_where_nothing_can_go() {
    for kind in kinds() {
        let (policy, frames) = (kind.build(100), TestFrames::new(100));
        assert_eq!(proposed(&*policy, &frames, 16, true), [], "{kind}, empty");
        for frame in 1..=100 {
            frames.admit(&*policy, frame, page(u64::from(frame)), false);
            frames.hold(frame, true);
        }
        for urgent in [false, true] {
            let before = frames.looks();
            assert_eq!(proposed(&*policy, &frames, 16, urgent), [], "{kind}, all held");
            assert!(frames.looks() - before <= 2 * 100 + 2 * 16, "{kind} looks too often");
        }
        assert_eq!(proposed(&*policy, &frames, 0, true), [], "{kind}, none wanted");
        frames.hold(77, false);
        let found = (0..3).flat_map(|i| proposed(&*policy, &frames, 16, i == 2)).next();
        assert_eq!(found, Some(77), "{kind}, one that is not held");
        frames.leave(&*policy, 77);
        (1..=100).for_each(|frame| frames.hold(frame, false));
        assert_eq!(drain(&*policy, &frames), 99, "{kind}");
    }
}

#[test]
fn a_page_whose_access_ended_late_goes_at_last() {
    for kind in kinds() {
        let (policy, frames) = (kind.build(20), TestFrames::new(20));
        for frame in 1..=20 {
            frames.admit(&*policy, frame, page(u64::from(frame)), false);
        }
        for round in 0..10 {
            for frame in proposed(&*policy, &frames, 3, false) {
                frames.leave(&*policy, frame);
                frames.admit(&*policy, frame, page(100 + round), false);
            }
            (1..=20).for_each(|frame| frames.end_access(frame));
        }
        let named = (0..2).flat_map(|_| proposed(&*policy, &frames, 5, false)).count();
        assert!(named > 0, "{kind}: at the latest the second call finds the marks of the first");
        (1..=20).for_each(|frame| frames.end_access(frame));
        let named = proposed(&*policy, &frames, 5, true);
        assert!(!named.is_empty(), "{kind}: urgency takes what has no mark");
        assert_eq!(drain(&*policy, &frames), 20, "{kind}");
    }
}

#[test]
fn a_page_that_could_not_go_comes_behind_others() {
    for kind in kinds() {
        for once in [false, true] {
            let (policy, frames) = (kind.build(40), TestFrames::new(40));
            for frame in 1..=40 {
                frames.admit(&*policy, frame, page(u64::from(frame)), once);
            }
            // The clock only marks at first.
            proposed(&*policy, &frames, 5, false);
            let calls: Vec<_> = (0..5).map(|_| proposed(&*policy, &frames, 5, false)).collect();
            for pair in calls.windows(2) {
                let again = pair[1].iter().filter(|frame| pair[0].contains(frame)).count();
                // A policy that draws at random may draw the same one, but not all of them.
                let most = if matches!(kind, ReplacementKind::Cooling { .. }) { 3 } else { 0 };
                assert!(pair[1].len() == 5 && again <= most, "{kind}, once: {once}, {calls:?}");
            }
        }
    }
}

#[test]
fn a_page_that_moves_stays_known() {
    for kind in kinds() {
        let (policy, frames) = (kind.build(30), TestFrames::new(30));
        for frame in 1..=10 {
            frames.admit(&*policy, frame, page(u64::from(frame)), false);
        }
        for round in 0..5 {
            proposed(&*policy, &frames, 2, false);
            let (from, to) = if round % 2 == 0 { (1, 11) } else { (11, 1) };
            (0..10).for_each(|i| frames.relocate(&*policy, from + i, to + i));
        }
        // An access that was on its way when its page went, and one to a page that moved.
        policy.access(FrameId::new(3));
        frames.access(&*policy, 13);
        assert_eq!(drain(&*policy, &frames), 10, "{kind}");
    }
}

/// Frames that another thread searches, too, while they are looked at for the first time.
struct Meddled<'a> {
    frames: &'a TestFrames,
    policy: &'a dyn Replacement,
    meddles: Cell<bool>,
}

impl Pages for Meddled<'_> {
    fn look(&self, frame: FrameId) -> Look {
        if self.meddles.replace(false) {
            self.policy.propose(self.frames, 48, false, &mut Vec::new());
        }
        self.frames.look(frame)
    }

    fn mark(&self, frame: FrameId) -> FrameId {
        self.frames.mark(frame)
    }
}

#[test]
fn no_frame_is_named_twice_though_others_search_meanwhile() {
    for kind in kinds() {
        let (policy, frames) = (kind.build(64), TestFrames::new(64));
        for frame in 1..=64 {
            frames.admit(&*policy, frame, page(u64::from(frame)), true);
        }
        let meddled = Meddled { frames: &frames, policy: &*policy, meddles: Cell::new(true) };
        let named = proposed(&*policy, &meddled, 64, false);
        assert!(named.len() >= 16 && !meddled.meddles.get(), "{kind}: {named:?}");
    }
}

/// Faults, accesses, evictions, moves and holds by several threads; then all must be there still.
#[test]
fn threads_lose_no_frame() {
    const FRAMES: u32 = 64;
    const THREADS: u64 = 4;
    const STEPS: u64 = 20_000;
    for kind in kinds() {
        let (policy, frames) = (kind.build(FRAMES), TestFrames::new(FRAMES));
        let free = Mutex::new((1..=FRAMES).collect::<Vec<u32>>());
        let (dice, evicted) = (Dice::new(), AtomicU64::new(0));
        let work = || {
            for step in 0..STEPS {
                (0..4).for_each(|_| frames.access(&*policy, dice.below(FRAMES) + 1));
                let mut took = free.lock().unwrap().pop();
                if took.is_none() {
                    for frame in proposed(&*policy, &frames, 4, step % 8 == 0) {
                        if frames.leave(&*policy, frame) {
                            evicted.fetch_add(1, Ordering::Relaxed);
                            free.lock().unwrap().push(frame);
                        }
                    }
                    took = free.lock().unwrap().pop();
                }
                if let Some(frame) = took {
                    let id = page(u64::from(dice.below(4 * FRAMES)));
                    frames.admit(&*policy, frame, id, dice.below(8) == 0);
                }
                let some = dice.below(FRAMES) + 1;
                match dice.below(16) {
                    0 => frames.end_access(some),
                    1 => frames.hold(some, dice.below(4) == 0),
                    _ => {}
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(work);
            }
        });
        assert!(evicted.load(Ordering::Relaxed) > STEPS / 8, "{kind} evicts: {evicted:?}");
        (1..=FRAMES).for_each(|frame| frames.hold(frame, false));
        let resident = FRAMES as usize - free.lock().unwrap().len();
        assert_eq!(drain(&*policy, &frames), resident, "{kind}");
    }
}
