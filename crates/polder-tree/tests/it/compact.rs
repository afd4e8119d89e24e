//! A sparse tree is made small again: alone, beside others, and stopped half-way.

use polder_format::{PageNo, PageSize};
use polder_pool::{
    Array, ArraySwizzled, Direct, Hash, Open, Predictive, ReadMode, Simd, Swizzle, Translation, Vm,
};
use polder_testkit::effort::EVERY_TRANSLATION;
use polder_testkit::random::scramble;
use polder_testkit::{KeyShape, Mix, Model, Ordered, Random, ValueShape, Workload, compare};
use polder_tree::{CompactStep, Tree};

use crate::support::*;

/// Pages that a bulk load of the same entries takes.
fn pages_loaded<T: Translation>(model: &Model, size: PageSize) -> u64 {
    let disk = disk();
    let (_pool, tree) = new_tree::<T>(&disk, size);
    tree.bulk_load(model.entries.iter(), || 1).unwrap();
    assert_sound(&tree, model.entries.len() as u64)
}

fn compact<T: Translation>(tree: &Tree<T>) {
    let mut last = (CompactStep::Merging, 0);
    let done = tree.compact(&mut |step, done, all| {
        assert!(done <= all);
        assert!(step != last.0 || done >= last.1 || step == CompactStep::Moving);
        last = (step, done);
        true
    });
    assert!(done.unwrap());
}

/// Fills a tree, and takes most of it out at random.
fn sparse<T: Translation>(
    tree: &Tree<T>,
    (keys, values): (KeyShape, ValueShape),
    count: u64,
    stays: f64,
    seed: u64,
) -> Model {
    let (mut model, mut subject) = (Model::default(), Subject { tree, version: 0 });
    let workload = Workload::new(seed).keys(keys, 2 * count).values(values).mix(Mix::GROWING);
    compare(workload.take(count as usize), &mut subject, &mut model).unwrap();
    let mut random = Random::new(seed);
    let gone: Vec<_> = model.entries.keys().filter(|_| !random.chance(stays)).cloned().collect();
    for key in gone {
        subject.remove(&key).unwrap();
        model.entries.remove(&key);
    }
    model
}

fn becomes_small<T: Translation>(size: PageSize, hold: ReadMode) {
    let values = [ValueShape::UpTo(200), ValueShape::Pages { page_bytes: size.bytes() }];
    let shapes = [KeyShape::Scrambled, KeyShape::LongPrefix { key_bytes_max: size.bytes() / 8 }];
    let kinds = shapes.into_iter().flat_map(|keys| values.map(|values| (keys, values)));
    for (number, kind) in kinds.enumerate() {
        for stays in [0.05, 0.4, 0.8] {
            let disk = disk();
            let (pool, tree) = new_tree_held::<T>(&disk, size, hold);
            let model = sparse(&tree, kind, 1500 * scale(), stays, number as u64);
            let entries = model.entries.len() as u64;
            let before = assert_sound(&tree, entries);
            compact(&tree);
            let after = assert_sound(&tree, entries);
            let loaded = pages_loaded::<T>(&model, size);
            // Packing reckons with what all keys of a run begin with (`node/pack.rs`): where they
            // begin with much, but not all with the same, a load packs them closer.
            let most = match kind.0 {
                KeyShape::LongPrefix { .. } => before,
                _ => loaded + loaded * 2 / 5 + 3,
            };
            assert!(
                after <= most,
                "{kind:?}, {stays} stays: {before} pages became {after}, a load has {loaded}"
            );
            assert_content(&tree, &model);
            let end = tree.space().dense_end().unwrap();
            let last = tree.space().used_pages().unwrap().pop();
            assert!(last < Some(end), "{kind:?}, {stays} stays: {last:?} lies behind {end:?}");
            let (_pool, tree) = reopen(&disk, pool, tree);
            assert_sound(&tree, entries);
            assert_content(&tree, &model);
        }
    }
}

#[test]
fn a_sparse_tree_becomes_small() {
    becomes_small::<Array>(PageSize::MIN, ReadMode::Optimistic);
    becomes_small::<Array>(PageSize::new(16384).unwrap(), ReadMode::Optimistic);
    becomes_small::<Swizzle>(PageSize::MIN, ReadMode::Optimistic);
    becomes_small::<Array>(PageSize::MIN, ReadMode::Copy);
}

#[test]
fn a_sparse_tree_becomes_small_with_every_translation() {
    becomes_small::<Direct>(PageSize::MIN, ReadMode::Optimistic);
    if EVERY_TRANSLATION {
        becomes_small::<Hash>(PageSize::MIN, ReadMode::Shared);
        becomes_small::<ArraySwizzled>(PageSize::MIN, ReadMode::Optimistic);
        becomes_small::<Open>(PageSize::MIN, ReadMode::Optimistic);
        becomes_small::<Predictive>(PageSize::MIN, ReadMode::Optimistic);
        becomes_small::<Simd>(PageSize::MIN, ReadMode::Group);
        becomes_small::<Vm>(PageSize::MIN, ReadMode::Optimistic);
    }
}

/// Between any two steps the tree is sound, and holds what it held.
#[test]
fn it_can_be_stopped_at_any_step() {
    let disk = disk();
    let (_pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    let kind = (KeyShape::Scrambled, ValueShape::Pages { page_bytes: 4096 });
    let model = sparse(&tree, kind, 400, 0.1, 7);
    for steps in 1.. {
        let mut left = steps;
        let done = tree.compact(&mut |_, _, _| {
            left -= 1;
            left > 0
        });
        assert_sound(&tree, model.entries.len() as u64);
        assert_content(&tree, &model);
        if done.unwrap() {
            break;
        }
        assert!(steps < 10_000, "it comes to no end");
    }
}

/// A tree that has nothing to give stays as it is, page by page.
#[test]
fn a_dense_tree_is_left_alone() {
    let disk = disk();
    let (_pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    let entries = (0..20_000u64).map(|key| (key.to_be_bytes(), scramble(key).to_be_bytes()));
    tree.bulk_load(entries, || 1).unwrap();
    let before = tree.space().used_pages().unwrap();
    compact(&tree);
    assert_eq!(tree.space().used_pages().unwrap(), before);
    let empty = Tree::create(tree.space().pool().create_space().unwrap()).unwrap();
    compact(&empty);
    assert_eq!(empty.space().used_pages().unwrap(), [PageNo::new(1).unwrap()]);
}
