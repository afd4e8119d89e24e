use super::*;
use crate::replacement::hyperbolic::Hyperbolic;
use crate::replacement::testing::{TestFrames, page};
use crate::replacement::watt::{ReadsOnly, Watt};

/// The frames that a policy names one after the other, with none leaving.
fn first_victims(policy: &dyn Replacement, frames: &TestFrames, count: usize) -> Vec<u32> {
    let mut victims = Vec::new();
    policy.propose(frames, count, false, &mut victims);
    victims.into_iter().map(FrameId::get).collect()
}

fn what_is_used_stays(policy: &dyn Replacement) {
    let frames = TestFrames::new(8);
    for frame in 1..=8 {
        frames.admit(policy, frame, page(u64::from(frame)), false);
    }
    // The hand goes round with every second of these: the policy is told of a page once in each
    // round.
    for _ in 0..20 {
        let one = first_victims(policy, &frames, 1)[0];
        frames.leave(policy, one);
        frames.admit(policy, one, page(100), false);
        [2, 3, 5, 7].into_iter().for_each(|frame| frames.access(policy, frame));
    }
    let mut last = first_victims(policy, &frames, 4);
    last.sort_unstable();
    assert_eq!(last, [1, 4, 6, 8]);
}

#[test]
fn what_is_used_in_many_rounds_stays() {
    what_is_used_stays(&Watt::new(8, 4.0));
    what_is_used_stays(&Hyperbolic::new(8, ()));
}

/// Of eight pages that are used as often, four of which are written: which of them go first.
fn first_of_written_and_clean(policy: &dyn Replacement) -> Vec<u32> {
    let frames = TestFrames::new(8);
    for frame in 1..=8 {
        frames.admit(policy, frame, page(u64::from(frame)), false);
    }
    for _ in 0..4 {
        // Nothing goes: the hand goes round once, and marks all.
        policy.propose(&frames, 2, false, &mut Vec::new());
        (1..=8).for_each(|frame| frames.access(policy, frame));
        [2, 3, 5, 7].into_iter().for_each(|frame| policy.write(FrameId::new(frame)));
    }
    let mut first = first_victims(policy, &frames, 4);
    first.sort_unstable();
    first
}

#[test]
fn what_is_written_as_often_as_it_is_read_stays_before_what_is_only_read() {
    let with_writes = Watt::new(8, 1.0);
    assert!(with_writes.wants_writes());
    assert_eq!(first_of_written_and_clean(&with_writes), [1, 4, 6, 8]);
    let without = ReadsOnly::new(8, ());
    assert!(!without.wants_writes());
    assert_ne!(first_of_written_and_clean(&without), [1, 4, 6, 8], "by chance");
}

#[test]
fn pages_of_a_scan_go_first() {
    let policies: [&dyn Replacement; 2] = [&Watt::new(8, 4.0), &Hyperbolic::new(8, ())];
    for policy in policies {
        let frames = TestFrames::new(8);
        for frame in 1..=8 {
            frames.admit(policy, frame, page(u64::from(frame)), frame == 4);
        }
        assert_eq!(first_victims(policy, &frames, 1), [4], "{policy:?}");
    }
}

#[test]
fn what_is_named_is_heard_of_when_it_is_used() {
    let policies: [&dyn Replacement; 2] = [&Watt::new(64, 4.0), &Hyperbolic::new(64, ())];
    for policy in policies {
        let frames = TestFrames::new(64);
        for frame in 1..=64 {
            frames.admit(policy, frame, page(u64::from(frame)), false);
        }
        let named = first_victims(policy, &frames, 4);
        // The hand has passed sixteen frames.
        assert!(named.iter().any(|frame| *frame > 16), "{policy:?}");
        assert!(named.iter().all(|frame| frames.marked().contains(frame)), "{policy:?}");
    }
}

#[test]
fn records_go_with_their_pages() {
    let policies: [&dyn Replacement; 2] = [&Watt::new(8, 4.0), &Hyperbolic::new(8, ())];
    for policy in policies {
        let frames = TestFrames::new(8);
        for frame in 1..=6 {
            frames.admit(policy, frame, page(u64::from(frame)), frame <= 2);
        }
        frames.leave(policy, 1);
        frames.relocate(policy, 2, 8);
        assert_eq!(first_victims(policy, &frames, 1), [8], "{policy:?}");
        assert_eq!(frames.looks(), 1, "neither 1 nor 2 has a record: {policy:?}");
    }
}

#[test]
fn an_access_is_heard_of_once_in_a_round() {
    let policy = Hyperbolic::new(8, ());
    let frames = TestFrames::new(8);
    for frame in 1..=8 {
        frames.admit(&policy, frame, page(u64::from(frame)), false);
    }
    assert!(frames.marked().is_empty(), "a full pool marks nothing");
    let named = first_victims(&policy, &frames, 1)[0];
    // The hand has passed four frames.
    let mut expected = vec![1, 2, 3, 4];
    expected.extend((named > 4).then_some(named));
    assert_eq!(frames.marked(), expected);
    frames.access(&policy, 3);
    expected.retain(|&frame| frame != 3);
    assert_eq!(frames.marked(), expected);
}
