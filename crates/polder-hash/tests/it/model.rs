//! An index does what a `HashMap` does, on a pool of the least budget, and stays sound.

use polder_format::PageSize;
use polder_hash::{Effect, HashError, HashIndex};
use polder_pool::{Array, Swizzle, Translation, VmHuge};
use polder_testkit::{KeyShape, Random, if_built, test_with};
use proptest::prelude::*;

use crate::support::*;

fn value(random: &mut Random, most: usize) -> Vec<u8> {
    let mut value = vec![0; random.index(most + 1)];
    random.fill(&mut value);
    value
}

/// One operation on both, which must do the same. `removes` of ten are removals.
fn step<T: Translation>(
    index: &HashIndex<T>,
    model: &mut Model,
    random: &mut Random,
    keys: KeyShape,
    (removes, most): (u64, usize),
) {
    let key = keys.key(random.below(4000));
    match random.below(10) {
        0 => {
            assert_eq!(index.get(&key).unwrap().as_ref(), model.get(&key));
            let len = index.get_with(&key, <[u8]>::len).unwrap();
            assert_eq!(len, model.get(&key).map(Vec::len));
            assert_eq!(index.contains_key(&key).unwrap(), model.contains_key(&key));
        }
        n if n <= removes => {
            let was_there = model.remove(&key).is_some();
            let effect = if was_there { Effect::Removed } else { Effect::Same };
            assert_eq!(index.remove(&key).unwrap().effect, effect);
        }
        _ => {
            let new = value(random, most - key.len());
            let effect = index.insert(&key, &new).unwrap().effect;
            let was_there = model.insert(key, new).is_some();
            assert_eq!(effect, if was_there { Effect::Same } else { Effect::Added });
        }
    }
}

/// Grows, lives, shrinks, is opened again in between, and loses everything at the end.
fn life<T: Translation>(size: PageSize, keys: KeyShape, most: usize, ops: u64) {
    let disk = disk();
    let (mut pool, mut index) = new_index::<T>(&disk, size);
    let (mut model, mut random) = (Model::new(), Random::new(most as u64));
    for removes in [1, 4, 8, 2] {
        for _ in 0..ops * scale() {
            step(&index, &mut model, &mut random, keys, (removes, most));
        }
        assert_sound(&index, model.len());
        (pool, index) = reopen(&disk, pool, index);
        assert_content(&index, &model);
    }
    for key in model.keys() {
        assert_eq!(index.remove(key).unwrap().effect, Effect::Removed);
    }
    assert_eq!(assert_sound(&index, 0), 1, "an empty index is one page");
    drop(pool);
}

fn lives<T: Translation>() {
    let longest = |size: PageSize| polder_hash::bucket::max_entry_len(size.bytes());
    let shapes = [KeyShape::Short, KeyShape::Scrambled, KeyShape::Mixed { key_bytes_max: 200 }];
    for (i, keys) in shapes.into_iter().enumerate() {
        let most = [300, longest(PageSize::MIN), 260][i];
        life::<T>(PageSize::MIN, keys, most, 2500);
    }
    life::<T>(PageSize::new(16384).unwrap(), KeyShape::Scrambled, 2000, 2500);
    life::<T>(PageSize::MAX, KeyShape::Short, longest(PageSize::MAX), 500);
}

test_with!(lives);

/// Its frames are pages of 2 MiB that nothing leaves.
#[test]
fn vm_huge() {
    if_built!(VmHuge, life::<VmHuge>(PageSize::MIN, KeyShape::Scrambled, 300, 2500));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Keys that collide in bits that decide, among others.
    #[test]
    fn any_hashes(
        ops in prop::collection::vec((0..6u64, 0..40u64, 0..900usize, 0..5u8), 1..600),
        shift in 0..60u32,
    ) {
        let disk = disk();
        let (pool, index) = new_index::<Swizzle>(&disk, PageSize::MIN);
        let mut model = Model::new();
        for (group, number, len, what) in ops {
            // Few hashes, some of which differ in their last bits alone.
            let key = key_with_hash(group << shift ^ group, number);
            if what == 0 {
                let removed = index.remove(&key).unwrap().effect == Effect::Removed;
                prop_assert_eq!(removed, model.remove(&key).is_some());
                continue;
            }
            match index.insert(&key, &vec![what; len]) {
                Ok(applied) => {
                    let new = model.insert(key, vec![what; len]).is_none();
                    prop_assert_eq!(applied.effect == Effect::Added, new);
                }
                Err(error) => prop_assert!(matches!(error, HashError::Crowded), "{error:?}"),
            }
        }
        assert_sound(&index, model.len());
        assert_content(&index, &model);
        let (_pool, index) = reopen::<_, Array>(&disk, pool, index);
        assert_content(&index, &model);
        for key in model.keys() {
            index.remove(key).unwrap();
        }
        assert_eq!(assert_sound(&index, 0), 1);
    }
}

/// Values of each length around the limit, in both directions.
#[test]
fn entries_of_all_lengths() {
    let disk = disk();
    let (_pool, index) = new_index::<Array>(&disk, PageSize::MIN);
    let limit = index.max_entry_len();
    assert_eq!(limit, 1000);
    for len in (0..=limit - 3).chain((0..=limit - 3).rev()) {
        index.insert(b"key", &vec![len as u8; len]).unwrap();
        assert_eq!(index.get(b"key").unwrap().unwrap(), vec![len as u8; len]);
    }
    let too_long = index.insert(b"key", &vec![0; limit - 2]).unwrap_err().to_string();
    assert!(too_long.contains("1001") && too_long.contains("1000"), "{too_long}");
    assert_eq!(index.get(b"key").unwrap().unwrap(), b"");
    index.insert(&vec![7; limit], b"").unwrap();
    assert_eq!(index.get(&vec![7; limit]).unwrap().unwrap(), b"");
    assert_eq!(index.get(&vec![7; 2 * limit]).unwrap(), None);
    index.insert(b"", b"empty").unwrap();
    assert_eq!(index.get(b"").unwrap().unwrap(), b"empty");
    assert_sound(&index, 3);
}

/// Far more buckets than a node has children: the directory has levels, and all of them go again.
#[test]
fn a_large_index_gives_its_pages_back() {
    let disk = disk();
    let (pool, index) = new_index::<Array>(&disk, PageSize::MIN);
    let keys = KeyShape::Scrambled;
    let count = 40_000 * scale();
    let value = |number: u64| [number as u8; 90];
    for round in 0..2 {
        for number in 0..count {
            index.insert(&keys.key(number), &value(number)).unwrap();
        }
        let report = index.check(&mut |_| true).unwrap();
        assert!(report.faults.is_empty() && report.levels >= 2, "{report:?}");
        // Half of the pages' room is used at least, and few pages are nodes.
        let least = count * 106 / 4032;
        let buckets = report.pages - report.nodes;
        assert!(buckets < 2 * least && report.nodes * 100 < buckets, "{report:?}, {least}");
        for number in (0..count).rev() {
            let found = index.get_with(&keys.key(number), |found| found == value(number)).unwrap();
            assert_eq!(found, Some(true));
        }
        // In the order in which they came, and against it.
        for i in 0..count {
            let number = if round == 0 { i } else { count - 1 - i };
            assert_eq!(index.remove(&keys.key(number)).unwrap().effect, Effect::Removed);
            if i == count * 9 / 10 {
                let pages = assert_sound(&index, (count - i - 1) as usize);
                assert!(pages < buckets / 2, "{pages} of {buckets} pages for a tenth");
            }
        }
        assert_eq!(assert_sound(&index, 0), 1);
        // The root and the allocation map.
        assert_eq!(index.space().pages_in_use().unwrap(), 2);
    }
    drop(pool);
}
