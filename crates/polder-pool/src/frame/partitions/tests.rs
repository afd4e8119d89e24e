use std::collections::HashSet;

use super::*;

fn frame(number: u32) -> FrameId {
    FrameId::new(number)
}

#[test]
fn frames_of_the_own_partition_go_first_and_all_others_then() {
    let ends = [300, 1000, 1100];
    for near in 0..3 {
        let free = Partitions::full(&ends);
        let taken: Vec<FrameId> =
            std::iter::from_fn(|| free.take(PartitionNo::new(near))).collect();
        let order: Vec<usize> = taken.iter().map(|frame| free.of(*frame).0).collect();
        let mut expected = [[0].repeat(300), [1].repeat(700), [2].repeat(100)];
        expected.rotate_left(near);
        assert_eq!(order, expected.concat());
        assert_eq!(taken.iter().collect::<HashSet<_>>().len(), 1100, "FREE-1");
        assert_eq!((free.len(), free.fewest()), (0, 0));
    }
}

#[test]
fn a_frame_goes_back_to_its_partition() {
    let free = Partitions::full(&[300, 1000]);
    let edges = [(1, 0), (300, 0), (301, 1), (1000, 1)];
    for (number, part) in edges {
        assert_eq!(free.of(frame(number)), PartitionNo::new(part));
        assert!(free.is_free(frame(number)) && free.take_this(frame(number)));
        assert!(!free.is_free(frame(number)) && !free.take_this(frame(number)));
    }
    let each = |free: &Partitions| free.each().collect::<Vec<_>>();
    assert_eq!(each(&free), [(1..=300, 298), (301..=1000, 698)]);
    edges.iter().for_each(|(number, _)| free.put(frame(*number)));
    assert_eq!(each(&free), [(1..=300, 300), (301..=1000, 700)]);
    assert_eq!((free.len(), free.fewest(), free.count()), (1000, 300, 2));
}

#[test]
fn a_page_that_cannot_have_its_frame_gets_another_one_near() {
    let free = Partitions::full(&[300, 1000]);
    for wanted in 1..=1000 {
        let near = PartitionNo::new(usize::from(wanted % 10 > 2));
        let other = free.take_instead_of(frame(wanted), near).unwrap();
        assert_eq!(free.of(other), near, "{other:?} for {wanted}");
    }
    assert!([0, 1].iter().all(|part| free.take(PartitionNo::new(*part)).is_none()));
}

/// As in a free list: one page without its frame does not push all behind it on.
#[test]
fn a_page_without_its_frame_leaves_its_neighbours_theirs() {
    for first in [1, 3001] {
        let free = Partitions::full(&[3000, 6000]);
        let near = free.of(frame(first));
        assert!(free.take_this(frame(first)));
        let is_stray = |wanted: &u32| !free.take_this(frame(*wanted));
        let misplaced = (first..first + 1500).filter(is_stray).map(|wanted| {
            assert_ne!(free.take_instead_of(frame(wanted), near), None);
        });
        let misplaced = misplaced.count();
        assert!(misplaced <= 12, "{misplaced} from {first} on");
    }
}

#[test]
fn one_partition_is_a_free_list() {
    let free = Partitions::full(&[100]);
    assert!(!free.is_cut());
    assert_eq!(free.take(PartitionNo::FIRST), FreeList::full(100).take());
    let none = Partitions::full(&[0]);
    assert!(none.take(PartitionNo::FIRST).is_none() && none.len() == 0 && !none.is_cut());
}
