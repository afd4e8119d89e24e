use std::collections::BTreeSet;

use super::*;

const SHAPES: [KeyShape; 4] = [
    KeyShape::Short,
    KeyShape::LongPrefix { key_bytes_max: 500 },
    KeyShape::Scrambled,
    KeyShape::Mixed { key_bytes_max: 64 },
];

#[test]
fn keys_differ_and_keep_their_length() {
    for shape in SHAPES {
        let keys: BTreeSet<_> = (0..20_000).map(|number| shape.key(number)).collect();
        assert_eq!(keys.len(), 20_000, "{shape:?}");
        let longest = keys.iter().map(Vec::len).max();
        let expected = match shape {
            KeyShape::Short => 7,
            KeyShape::LongPrefix { key_bytes_max } => key_bytes_max,
            KeyShape::Scrambled => 8,
            KeyShape::Mixed { key_bytes_max } => key_bytes_max,
        };
        assert_eq!(longest, Some(expected), "{shape:?}");
    }
    assert!(KeyShape::Short.key(0).is_empty());
}

#[test]
fn every_kind_of_operation_comes_as_often_as_asked() {
    let mut seen = [0; 8];
    for op in Workload::new(5).take(100_000) {
        seen[match op {
            Op::Insert { .. } => 0,
            Op::Remove { .. } => 1,
            Op::Get { .. } => 2,
            Op::Update { .. } => 3,
            Op::Range { .. } => 4,
            Op::First => 5,
            Op::Last => 6,
            Op::Count => 7,
        }] += 1;
    }
    let expected = [30_000, 25_000, 20_000, 10_000, 12_000, 1_000, 1_000, 1_000];
    for (seen, expected) in seen.iter().zip(expected) {
        assert!((expected * 9 / 10..expected * 11 / 10).contains(seen), "{seen} {expected}");
    }
    let only_count = Mix { insert: 0, remove: 0, get: 0, update: 0, range: 0, ends: 0, count: 1 };
    assert!(Workload::new(5).mix(only_count).take(100).all(|op| op == Op::Count));
}

#[test]
fn values_reach_from_empty_to_several_pages() {
    let workload = Workload::new(2).values(ValueShape::Pages { page_bytes: 4096 });
    let lengths: Vec<_> = workload
        .take(20_000)
        .filter_map(|op| if let Op::Insert { value, .. } = op { Some(value.len()) } else { None })
        .collect();
    for range in [0..1, 1..101, 900..1024, 1024..1100, 4050..4096, 4096..8192, 8192..12289] {
        assert!(lengths.iter().any(|len| range.contains(len)), "{range:?}");
    }
    assert!(lengths.iter().all(|&len| len <= 3 * 4096));
}

#[test]
fn a_seed_says_it_all() {
    let ops = |seed| Workload::new(seed).take(500).collect::<Vec<_>>();
    assert_eq!(ops(1), ops(1));
    assert_ne!(ops(1), ops(2));
}
