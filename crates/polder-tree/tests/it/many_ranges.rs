//! Many ranges at once: what is shown is what single ranges have, whatever is resident, whoever writes
//! meanwhile, and whatever the device does; and leaves that are made ready for writes.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use polder_format::PageSize;
use polder_pool::{Array, ReadMode, Swizzle, Translation, Vm};
use polder_testkit::if_built;
use polder_testkit::random::scramble;
use polder_testkit::{Errno, FaultPlan, Operation, Random, SimDisk, When};
use polder_tree::{BatchAction, BatchOp, BatchOutcome, Bounds, Tree, Warmed, apply_batch};

use crate::many::{assert_no_frame_is_lost, filled, key, value};
use crate::support::*;

type Shown = Vec<(Vec<u8>, Vec<u8>)>;

/// What each range shows, at most so many entries of each.
fn shown<T: Translation>(tree: &Tree<T>, ranges: &[Bounds<'_>], most: usize) -> Vec<Shown> {
    let mut all = vec![Shown::new(); ranges.len()];
    tree.range_many(ranges, &mut |i, key, value| {
        assert!(all[i].len() < most, "range {i} was broken off");
        all[i].push((key.to_vec(), value.to_vec()));
        if all[i].len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    all
}

/// A bound, at, between or beyond the keys.
fn bound(random: &mut Random, numbers: u64) -> Bound<Vec<u8>> {
    let key = match random.index(4) {
        0 => Vec::new(),
        1 => scramble(random.below(1000)).to_be_bytes()[..random.index(5)].to_vec(),
        _ => key(random.below(numbers * 3 / 2)),
    };
    match random.index(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key),
        _ => Bound::Excluded(key),
    }
}

fn lent(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// What a map has within bounds, also within such as it refuses.
fn of_model(model: &BTreeMap<Vec<u8>, Vec<u8>>, (lower, upper): Bounds<'_>, most: usize) -> Shown {
    let above = |key: &[u8]| match lower {
        Bound::Unbounded => true,
        Bound::Included(bound) => key >= bound,
        Bound::Excluded(bound) => key > bound,
    };
    let below = |key: &[u8]| match upper {
        Bound::Unbounded => true,
        Bound::Included(bound) => key <= bound,
        Bound::Excluded(bound) => key < bound,
    };
    let within = model.iter().filter(|(key, _)| above(key) && below(key));
    within.take(most).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn ranges_are_those_of_the_model<T: Translation>(hold: ReadMode) {
    const NUMBERS: u64 = 1200;
    let disk = disk();
    let (pool, tree) = new_tree_held::<T>(&disk, PageSize::MIN, hold);
    let everything = (Bound::Unbounded, Bound::Unbounded);
    assert_eq!(shown(&tree, &[], 1), [] as [Shown; 0]);
    assert_eq!(shown(&tree, &[everything, everything], 1), [Shown::new(), Shown::new()]);
    let model = filled(&tree, NUMBERS);
    let mut random = Random::new(11);
    for round in 0..10 {
        let (len, most) = ([1, 3, 40, 120][round % 4], [1, 2, 30, 100, usize::MAX][round % 5]);
        let bounds: Vec<_> =
            (0..len).map(|_| (bound(&mut random, NUMBERS), bound(&mut random, NUMBERS))).collect();
        let ranges: Vec<Bounds<'_>> =
            bounds.iter().map(|(lower, upper)| (lent(lower), lent(upper))).collect();
        for (i, shown) in shown(&tree, &ranges, most).iter().enumerate() {
            let expected = of_model(&model, ranges[i], most);
            assert!(*shown == expected, "{}, round {round}: {:?}", T::NAME, bounds[i]);
        }
    }
    assert_no_frame_is_lost(&pool);
}

macro_rules! each {
    (
        evicting { $($(#[$e:meta])* $evicting:ident as $em:ident,)* }
        resident { $($(#[$r:meta])* $resident:ident as $rm:ident,)* }
        $($rest:tt)*
    ) => {
        each!($($evicting as $em,)* $($resident as $rm,)*);
    };
    ($($translation:ident as $module:ident,)*) => {
        $(#[test]
        fn $module() {
            if_built!(
                $translation,
                ranges_are_those_of_the_model::<polder_pool::$translation>(ReadMode::Optimistic)
            );
        })*
    };
}
polder_pool::translations!(each);

/// Ends the writers, also where the test fails.
struct StopOnDrop<'s>(&'s AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writers let nodes split and merge, and values change. What is there all the time is seen just once, in
/// order, with a value that it had.
fn beside_writers<T: Translation>() {
    const NUMBERS: u64 = 600;
    let (pool, tree) = new_tree::<T>(&disk(), PageSize::MIN);
    let model = filled(&tree, NUMBERS);
    let keys: Vec<&Vec<u8>> = model.keys().collect();
    let numbers: BTreeMap<Vec<u8>, u64> = (0..NUMBERS).map(|n| (key(n), n)).collect();
    let (stop, versions) = (AtomicBool::new(false), AtomicU64::new(NUMBERS + 1));
    thread::scope(|scope| {
        for t in 0..2 {
            let (tree, stop, versions) = (tree.clone(), &stop, &versions);
            scope.spawn(move || {
                let mut random = Random::new(t);
                for write in 1.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let number = random.below(NUMBERS / 2) * 2 + t;
                    let version = versions.fetch_add(2, Ordering::Relaxed);
                    tree.insert(&key(number), &value(number, write), version).unwrap();
                    let other = NUMBERS + t * NUMBERS + random.below(NUMBERS);
                    match random.chance(0.5) {
                        true => tree.insert(&key(other), &value(other, write), version + 1),
                        false => tree.remove(&key(other)),
                    }
                    .unwrap();
                }
            });
        }
        let _stop = StopOnDrop(&stop);
        let mut random = Random::new(100);
        for _ in 0..12 * scale() {
            let spans: Vec<(usize, usize)> = (0..60)
                .map(|_| (random.index(keys.len()), random.index(80)))
                .map(|(begin, more)| (begin, (begin + more).min(keys.len() - 1)))
                .collect();
            let ranges: Vec<Bounds<'_>> = spans
                .iter()
                .map(|(begin, end)| {
                    (
                        Bound::Included(keys[*begin].as_slice()),
                        Bound::Included(keys[*end].as_slice()),
                    )
                })
                .collect();
            for (shown, (begin, end)) in shown(&tree, &ranges, usize::MAX).iter().zip(&spans) {
                assert!(shown.is_sorted_by(|a, b| a.0 < b.0), "out of order, or twice");
                let there: Vec<_> =
                    shown.iter().filter(|(key, _)| numbers.contains_key(key)).collect();
                assert!(there.iter().map(|(key, _)| key).eq(keys[*begin..=*end].iter().copied()));
                for (key, found) in there {
                    if let Some(write) = found.first_chunk() {
                        let written = value(numbers[key], u64::from_be_bytes(*write));
                        assert!(*found == written, "a torn value was validated");
                    }
                }
            }
        }
    });
    assert_no_frame_is_lost(&pool);
}

#[test]
fn beside_writers_on_an_array() {
    beside_writers::<Array>();
}

#[test]
fn beside_writers_on_swizzled_links() {
    beside_writers::<Swizzle>();
}

#[test]
fn beside_writers_on_virtual_memory() {
    if_built!(Vm, beside_writers::<Vm>());
}

/// Long keys with much in common take far more room than their leaf, which is shown in parts.
#[test]
fn a_leaf_of_long_keys_is_shown_in_parts() {
    let disk = disk();
    let (_pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    let long = |number: u16| [&[7; 500][..], &number.to_be_bytes()].concat();
    let mut model = BTreeMap::new();
    for number in 0..1000 {
        tree.insert(&long(number), &number.to_be_bytes(), 1 + u64::from(number)).unwrap();
        model.insert(long(number), number.to_be_bytes().to_vec());
    }
    let starts: Vec<_> = (0..1000).step_by(90).map(long).collect();
    let ranges: Vec<Bounds<'_>> =
        starts.iter().map(|start| (Bound::Excluded(&start[..]), Bound::Unbounded)).collect();
    for most in [150, usize::MAX] {
        let expected: Vec<_> = ranges.iter().map(|range| of_model(&model, *range, most)).collect();
        assert!(shown(&tree, &ranges, most) == expected, "at most {most} of each");
    }
}

/// An error is that of a range that met it: what was shown of it is the beginning of what it has, or
/// all of it, where only the next leaf says that nothing follows.
#[test]
fn errors_name_their_range() {
    let disk = disk();
    let (pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    let model = filled(&tree, 1200);
    pool.flush().unwrap();
    let owned: Vec<_> = model.keys().cloned().collect();
    let mut random = Random::new(5);
    let (mut failed, mut in_part) = (0, 0);
    for round in 0..30 * scale() {
        let share = 0.02 * (round % 20) as f64;
        disk.set_plan(FaultPlan::new(round).fail(Operation::Read, When::Share(share), Errno::IO));
        let ranges: Vec<Bounds<'_>> = (0..100)
            .map(|_| random.index(owned.len() - 50))
            .map(|at| (Bound::Included(&owned[at][..]), Bound::Excluded(&owned[at + 50][..])))
            .collect();
        let mut all = vec![Shown::new(); ranges.len()];
        let done = tree.range_many(&ranges, &mut |i, key, value| {
            all[i].push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        });
        for (i, shown) in all.iter().enumerate() {
            let expected = of_model(&model, ranges[i], usize::MAX);
            assert!(expected.starts_with(shown), "round {round}");
            assert!(done.is_err() || *shown == expected);
        }
        if let Err(error) = done {
            failed += 1;
            in_part += u64::from(all[error.index].len() < 50);
            assert!(format!("{:?}", error.source).contains("Read"), "{:?}", error.source);
        }
    }
    assert!(
        failed > 5 && in_part > failed / 2,
        "{failed} calls met failing reads, {in_part} early"
    );
    disk.set_plan(FaultPlan::new(1));
    assert_no_frame_is_lost(&pool);
}

/// Out of memory the leaves of many ranges are on their way at once, those of a few keys in order, and those
/// of many writes, also where these are one batch.
#[test]
fn many_leaves_are_under_way_at_once() {
    let open = |disk: &SimDisk, file| {
        let config = polder_testkit::pools::config(16, PageSize::MIN, file);
        polder_pool::Pool::<Array>::open(Box::new(disk.clone()), &config, &polder_tree::KINDS)
            .unwrap()
    };
    let disk = disk();
    let pool = open(&disk, polder_pool::FileState::NEW);
    let tree = Tree::create(pool.create_space().unwrap()).unwrap();
    let model = filled(&tree, 6000);
    pool.flush().unwrap();
    let file = pool.file_state();
    drop((tree, pool));
    let mut keys: Vec<&[u8]> = model.keys().map(Vec::as_slice).collect();
    keys.sort_by_key(|key| scramble(key.len() as u64 ^ u64::from(key[key.len() - 1])));
    for what in [LoadedFor::Ranges, LoadedFor::KeysInOrder, LoadedFor::Writes, LoadedFor::Batch] {
        let disk = SimDisk::from_image(&disk.image(), FaultPlan::new(1));
        let pool = open(&disk, file);
        let tree = Tree::open(pool.open_space(SPACE).unwrap());
        match what {
            LoadedFor::Ranges => {
                let ranges: Vec<Bounds<'_>> =
                    keys.iter().map(|key| (Bound::Included(*key), Bound::Unbounded)).collect();
                assert!(shown(&tree, &ranges, 3).iter().all(|shown| !shown.is_empty()));
            }
            LoadedFor::KeysInOrder => {
                // So few that one descent after the other could have all of them.
                let sparse: Vec<_> = model.keys().step_by(60).map(Vec::as_slice).collect();
                let mut found = 0;
                tree.get_many(&sparse, &mut |index, value| {
                    assert_eq!(value, Some(&model[sparse[index]][..]));
                    found += 1;
                })
                .unwrap();
                assert_eq!(found, sparse.len());
            }
            LoadedFor::Writes => {
                let mut warmed = Warmed::default();
                for next in 0..keys.len() {
                    warmed.reach(&tree, &keys, next).unwrap();
                    let reads = disk.counts().reads;
                    let version = 10_000 + next as u64;
                    tree.insert(keys[next], model[keys[next]].as_slice(), version).unwrap();
                    // Long values are read to be freed.
                    if model[keys[next]].len() < 500 && next < 50 {
                        assert_eq!(disk.counts().reads, reads, "the leaf of {next} was not ready");
                    }
                }
            }
            LoadedFor::Batch => {
                let short = model.iter().filter(|(_, value)| value.len() < 500);
                let op = |(key, value)| {
                    let action = BatchAction::Insert(value, 10_000);
                    BatchOp { tree: &tree, key, expect: None, action }
                };
                let ops: Vec<_> = short.step_by(7).map(|(k, v)| op((k.as_slice(), v))).collect();
                let done = apply_batch(&ops).unwrap();
                assert!(matches!(done, BatchOutcome::Done { .. }), "{done:?}");
            }
        }
        let queued = disk.counts().most_queued;
        assert!((16..=64).contains(&queued), "{queued}, {what:?}");
        assert_no_frame_is_lost(&pool);
    }
}

/// What leaves are loaded for.
#[derive(Debug, Clone, Copy)]
enum LoadedFor {
    Ranges,
    KeysInOrder,
    Writes,
    Batch,
}
