//! A tree does what a `BTreeMap` does, on a pool of the least budget, and stays sound.

use polder_format::PageSize;
use polder_pool::{Array, Direct, Hash, Open, ReadMode, Simd, Translation};
use polder_testkit::effort::EVERY_TRANSLATION;
use polder_testkit::{KeyShape, Mix, Model, Op, ValueShape, Workload, compare};

use crate::support::*;

/// Grows, lives, shrinks, is opened again in between, and loses everything at the end.
fn life<T: Translation>(
    size: PageSize,
    hold: ReadMode,
    keys: KeyShape,
    values: ValueShape,
    seed: u64,
) {
    let disk = disk();
    let (mut pool, mut tree) = new_tree_held::<T>(&disk, size, hold);
    let mut model = Model::default();
    let mut version = 0;
    let phases = [(Mix::GROWING, 1500), (Mix::BALANCED, 1200), (Mix::SHRINKING, 600)];
    for (i, (mix, ops)) in phases.into_iter().enumerate() {
        let workload = Workload::new(seed + i as u64).keys(keys, 1500).values(values).mix(mix);
        let mut subject = Subject { tree: &tree, version };
        let ops = workload.take((ops * scale()) as usize);
        if let Err(difference) = compare(ops, &mut subject, &mut model) {
            panic!("{} {size:?} {keys:?} {values:?}, phase {i}: {difference}", T::NAME);
        }
        version = subject.version;
        let ends = [Op::everything(false), Op::everything(true), Op::First, Op::Last, Op::Count];
        compare(ends, &mut subject, &mut model).unwrap();
        assert_sound(&tree, model.entries.len() as u64);
        (pool, tree) = reopen(&disk, pool, tree);
        assert_content(&tree, &model);
    }
    for key in model.entries.keys() {
        tree.remove(key).unwrap();
    }
    assert_eq!(assert_sound(&tree, 0), 1, "an empty tree is one page");
    drop(pool);
}

fn lives<T: Translation>(size: PageSize, hold: ReadMode) {
    let key_bytes_max = size.bytes() / 8;
    let shapes = [
        KeyShape::Short,
        KeyShape::LongPrefix { key_bytes_max },
        KeyShape::Scrambled,
        KeyShape::Mixed { key_bytes_max: 200 },
    ];
    let values =
        [ValueShape::Empty, ValueShape::UpTo(300), ValueShape::Pages { page_bytes: size.bytes() }];
    for (i, keys) in shapes.into_iter().enumerate() {
        for (j, values) in values.into_iter().enumerate() {
            life::<T>(size, hold, keys, values, (i * 10 + j) as u64 * 100);
        }
    }
}

#[test]
fn array_small_pages() {
    lives::<Array>(PageSize::MIN, ReadMode::Optimistic);
}

#[test]
fn array_large_pages() {
    lives::<Array>(PageSize::MAX, ReadMode::Optimistic);
}

#[test]
fn direct_small_pages() {
    lives::<Direct>(PageSize::MIN, ReadMode::Optimistic);
}

#[test]
fn direct_large_pages() {
    lives::<Direct>(PageSize::MAX, ReadMode::Optimistic);
}

#[test]
fn readers_by_snapshots() {
    lives::<Array>(PageSize::MIN, ReadMode::Copy);
    if EVERY_TRANSLATION {
        lives::<Hash>(PageSize::MIN, ReadMode::Copy);
        lives::<Open>(PageSize::MIN, ReadMode::Copy);
        lives::<Simd>(PageSize::MIN, ReadMode::Copy);
    }
}

/// More entries than a few levels of tiny fanout hold: long keys make high trees.
#[test]
fn a_high_tree_grows_and_comes_down() {
    let disk = disk();
    let (_pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    let keys = KeyShape::LongPrefix { key_bytes_max: 512 };
    let count = 3000 * scale();
    for number in 0..count {
        tree.insert(&keys.key(number), &number.to_be_bytes(), number).unwrap();
    }
    assert_sound(&tree, count);
    for number in 0..count {
        assert_eq!(tree.get(&keys.key(number)).unwrap().unwrap(), number.to_be_bytes());
    }
    for number in (0..count).rev() {
        tree.remove(&keys.key(number)).unwrap();
        assert_eq!(tree.get(&keys.key(number)).unwrap(), None);
    }
    assert_eq!(assert_sound(&tree, 0), 1);
}

/// Ascending, descending and scrambled loads, each emptied from both ends and at random.
#[test]
fn any_order_in_and_any_order_out() {
    let disk = disk();
    let (_pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    let count = 5000 * scale();
    let ascending = |i: u64| i;
    let descending = move |i: u64| count - 1 - i;
    // A step without a common factor visits all.
    let scattered = move |i: u64| i * 7919 % count;
    let orders: [&dyn Fn(u64) -> u64; 3] = [&ascending, &descending, &scattered];
    for inward in orders {
        for outward in orders {
            for i in 0..count {
                let key = inward(i).to_be_bytes();
                tree.insert(&key, &[7; 40], i).unwrap();
            }
            assert_sound(&tree, count);
            for i in 0..count {
                tree.remove(&outward(i).to_be_bytes()).unwrap();
                if i == count / 2 {
                    assert_sound(&tree, count - i - 1);
                }
            }
            assert_eq!(assert_sound(&tree, 0), 1);
        }
    }
}

/// One key whose value takes every length around the limits, in both directions.
#[test]
fn values_of_all_lengths() {
    let disk = disk();
    let (_pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    let around = |middle: usize| middle.saturating_sub(3)..middle + 3;
    let room = 4096 - 48;
    let lengths: Vec<usize> = [0, 500, 1010, 1014, 1024, 1030, room, 2 * room, 5 * room, 300_000]
        .into_iter()
        .flat_map(around)
        .collect();
    let value = |len: usize| (0..len).map(|i| (i * 31 + len) as u8).collect::<Vec<_>>();
    for (i, len) in lengths.iter().chain(lengths.iter().rev()).enumerate() {
        for key in [&b""[..], b"key", &[9; 512]] {
            tree.insert(key, &value(*len), i as u64 * 3 + key.len() as u64 % 3).unwrap();
            assert_eq!(tree.get(key).unwrap().unwrap(), value(*len));
        }
    }
    assert_sound(&tree, 3);
    let too_long = tree.insert(&[0; 513], b"", 1).unwrap_err();
    assert!(too_long.to_string().contains("513") && too_long.to_string().contains("512"));
    assert_eq!(tree.get(&[0; 513]).unwrap(), None);
    let too_long = tree.insert(b"k", &vec![0; (64 << 20) + 1], 1).unwrap_err();
    assert!(too_long.to_string().contains("67108864"), "{too_long}");
    assert_sound(&tree, 3);
}
