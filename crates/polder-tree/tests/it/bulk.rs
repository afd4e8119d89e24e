//! Bulk load gives what inserting gives, in full leaves, or leaves nothing behind.

use polder_format::PageSize;
use polder_pool::{Array, Direct, Translation};
use polder_testkit::{FaultPlan, KeyShape, Model, SimDisk};
use polder_tree::{Tree, TreeError};

use crate::support::*;

fn sorted(keys: KeyShape, count: u64, value: impl Fn(u64) -> Vec<u8>) -> Model {
    let mut model = Model::default();
    for number in 0..count {
        model.entries.insert(keys.key(number), value(number));
    }
    model
}

fn load<T: Translation>(tree: &Tree<T>, model: &Model) -> Result<u64, TreeError> {
    let mut version = 0;
    let loaded = tree.bulk_load(&model.entries, || {
        version += 1;
        version
    })?;
    Ok(loaded.0)
}

fn as_inserted<T: Translation>(size: PageSize) {
    let shapes = [
        KeyShape::Short,
        KeyShape::LongPrefix { key_bytes_max: size.bytes() / 8 },
        KeyShape::Scrambled,
    ];
    for keys in shapes {
        for count in [0, 1, 2, 20, 3000 * scale()] {
            let disk = disk();
            let (pool, tree) = new_tree::<T>(&disk, size);
            // Every hundredth value needs overflow pages.
            let long = size.bytes() as u64 * 2;
            let len = |i: u64| if i % 100 == 7 { long + i } else { i % 120 };
            let model = sorted(keys, count, |i| vec![i as u8; len(i) as usize]);
            assert_eq!(load(&tree, &model).unwrap(), count);
            assert_sound(&tree, count);
            assert_content(&tree, &model);
            let (_pool, tree) = reopen(&disk, pool, tree);
            assert_content(&tree, &model);
            // What was loaded is a tree like any other.
            for (i, key) in model.entries.keys().enumerate().filter(|(i, _)| i % 2 == 0) {
                tree.insert(&[key, &b"+"[..]].concat()[..key.len().min(9)], b"new", i as u64)
                    .unwrap();
            }
            for key in model.entries.keys() {
                tree.remove(key).unwrap();
            }
            let left = tree.check(&mut |_| true).unwrap();
            assert_eq!(left.faults, []);
        }
    }
}

#[test]
fn loads_as_inserts_do() {
    as_inserted::<Array>(PageSize::MIN);
    as_inserted::<Array>(PageSize::MAX);
    as_inserted::<Direct>(PageSize::MIN);
}

#[test]
fn leaves_are_full() {
    let disk = disk();
    let (_pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    let count = 20_000;
    tree.bulk_load((0..count).map(|i: u64| (i.to_be_bytes(), [1; 120])), || 1).unwrap();
    let pages = assert_sound(&tree, count);
    // A record has 8 bytes of slot, 10 of header, at most 4 of the key, and 120 of value.
    let a_leaf = (4096 - 128) / (8 + 10 + 4 + 120);
    let least = count / a_leaf;
    assert!(pages < least + least / 50, "{pages} pages, at least {least}");
}

#[test]
fn wrong_input_leaves_an_empty_tree() {
    let disk = disk();
    let (_pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    let number =
        |i: u64| (i.to_be_bytes().to_vec(), vec![3; if i.is_multiple_of(50) { 9000 } else { 90 }]);
    for wrong in [0, 1, 6999] {
        let ascending = (10..10_000).map(number).chain([number(wrong)]);
        let error = tree.bulk_load(ascending, || 1).unwrap_err();
        assert!(matches!(error, TreeError::NotSorted { number: 9990 }), "{error}");
        assert_eq!(assert_sound(&tree, 0), 1);
    }
    let twice = (0..5000).map(number).chain([number(4999)]);
    assert!(matches!(tree.bulk_load(twice, || 1), Err(TreeError::NotSorted { number: 5000 })));
    assert_eq!(assert_sound(&tree, 0), 1);
    let long_key = (0..100).map(number).chain([(vec![255; 513], vec![])]);
    assert!(matches!(tree.bulk_load(long_key, || 1), Err(TreeError::KeyTooLong { .. })));
    assert_eq!(assert_sound(&tree, 0), 1);

    assert_eq!(tree.bulk_load((0..100).map(number), || 1).unwrap().0, 100);
    assert!(matches!(tree.bulk_load((0..9).map(number), || 1), Err(TreeError::NotEmpty)));
    assert_sound(&tree, 100);
}

#[test]
fn a_table_that_fills_meanwhile_is_left_alone() {
    let disk = disk();
    let (_pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    let entries = (0..2000u64).map(|i| {
        if i == 1500 {
            tree.insert(b"in between", b"here", 77).unwrap();
        }
        (i.to_be_bytes(), [2; 100])
    });
    assert!(matches!(tree.bulk_load(entries, || 1), Err(TreeError::NotEmpty)));
    assert_sound(&tree, 1);
    assert_eq!(tree.get(b"in between").unwrap().unwrap(), b"here");
}

#[test]
fn a_full_disk_leaves_an_empty_tree() {
    for (size, kilobytes) in
        [(PageSize::MIN, 600), (PageSize::MIN, 2000), (PageSize::MIN, 2001), (PageSize::MAX, 8000)]
    {
        let disk = SimDisk::new(FaultPlan::new(1).capacity(kilobytes << 10));
        let (pool, tree) = new_tree::<Array>(&disk, size);
        let entries = || {
            (0..).map(|i: u64| {
                (i.to_be_bytes(), vec![4; if i.is_multiple_of(60) { 9000 } else { 100 }])
            })
        };
        for _ in 0..3 {
            let error = tree.bulk_load(entries(), || 1).unwrap_err();
            assert!(error.to_string().contains("full"), "{error}");
            assert_eq!(assert_sound(&tree, 0), 1);
        }
        // Nothing is lost for it: what fits can be loaded, and is there after a reopen.
        assert_eq!(tree.bulk_load(entries().take(500), || 1).unwrap().0, 500);
        let (_pool, tree) = reopen(&disk, pool, tree);
        assert_sound(&tree, 500);
    }
}
