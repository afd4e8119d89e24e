//! Many threads on one tree and a pool of the least budget: splits, merges, faults and evictions go
//! on all the time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use polder_format::PageSize;
use polder_pool::{
    Array, ArraySwizzled, Direct, GroupSize, Hash, Open, Predictive, ReadMode, Simd, Swizzle,
    Translation, Vm,
};
use polder_testkit::effort::EVERY_TRANSLATION;
use polder_testkit::if_built;
use polder_testkit::random::scramble;
use polder_testkit::{FaultPlan, Random, SimDisk};
use polder_tree::{BatchAction, BatchOp, BatchOutcome, Change, Tree, apply_batch};

use crate::support::*;

const THREADS: u64 = 8;

/// A value that tells which write of which key made it, and whose every byte follows from that.
fn value(key: u64, write: u64, len: usize) -> Vec<u8> {
    let mut value = [key.to_be_bytes(), write.to_be_bytes()].concat();
    let mut random = Random::new(scramble(key) ^ write);
    value.resize(16 + len, 0);
    random.fill(&mut value[16..]);
    value
}

/// The write that made this value. Panics if the value is none of this key's, or a mix.
fn write_of(key: u64, found: &[u8]) -> u64 {
    let write = u64::from_be_bytes(found[8..16].try_into().unwrap());
    assert!(found == value(key, write, found.len() - 16), "a value of key {key} is a mix");
    write
}

/// Mostly short, sometimes of several overflow pages.
fn some_len(random: &mut Random) -> usize {
    match random.below(12) {
        0 => 4000 + random.index(9000),
        1 => 900 + random.index(200),
        _ => random.index(200),
    }
}

/// Each thread has its own keys among those of the others, and knows what must be there.
fn disjoint<T: Translation>(disk: SimDisk, hold: ReadMode, ops: u64) {
    disjoint_beside::<T>(disk, hold, ops, |_, _| {});
}

/// The same while another thread makes the tree small, all the time.
fn compacted<T: Translation>(hold: ReadMode, ops: u64) {
    disjoint_beside::<T>(disk(), hold, ops, |tree, stop| {
        while !stop.load(Ordering::Relaxed) {
            tree.compact(&mut |_, _, _| !stop.load(Ordering::Relaxed)).unwrap();
            thread::yield_now();
        }
    });
}

fn disjoint_beside<T: Translation>(
    disk: SimDisk,
    hold: ReadMode,
    ops: u64,
    beside: impl Fn(&Tree<T>, &AtomicBool) + Sync,
) {
    let (pool, tree) = new_tree_held::<T>(&disk, PageSize::MIN, hold);
    let (versions, stop) = (AtomicU64::new(1), AtomicBool::new(false));
    let entries: u64 = thread::scope(|scope| {
        scope.spawn(|| beside(&tree, &stop));
        let work = |t: u64| {
            let (tree, versions) = (tree.clone(), &versions);
            scope.spawn(move || {
                let mut random = Random::new(t);
                let mut model: BTreeMap<u64, u64> = BTreeMap::new();
                for i in 0..ops {
                    // Phases of growth and of shrinking, so that nodes merge.
                    let shrinks = i / (ops / 6) % 2 == 1;
                    let key = scramble(random.below(600) * THREADS + t);
                    let bytes = key.to_be_bytes();
                    let version = versions.fetch_add(1, Ordering::Relaxed);
                    match random.below(10) {
                        0..2 => {
                            let found = tree.get(&bytes).unwrap();
                            let write = found.as_ref().map(|found| write_of(key, found));
                            assert_eq!(write, model.get(&key).copied());
                        }
                        n if (n < 4) == shrinks => {
                            let new = value(key, version, some_len(&mut random));
                            let before = model.insert(key, version);
                            if version.is_multiple_of(2) {
                                tree.insert(&bytes, &new, version).unwrap();
                            } else {
                                let (_, old) = tree.replace(&bytes, &new, version).unwrap();
                                assert_eq!(old.map(|old| write_of(key, &old)), before);
                            }
                        }
                        _ => {
                            let before = model.remove(&key);
                            if version.is_multiple_of(2) {
                                tree.remove(&bytes).unwrap();
                            } else {
                                let (_, old) = tree.take(&bytes).unwrap();
                                assert_eq!(old.map(|old| write_of(key, &old)), before);
                            }
                        }
                    }
                }
                for key in (0..600).map(|k| scramble(k * THREADS + t)) {
                    let found = tree.get(&key.to_be_bytes()).unwrap();
                    let write = found.as_ref().map(|found| write_of(key, found));
                    assert_eq!(write, model.get(&key).copied());
                }
                model.len() as u64
            })
        };
        let threads: Vec<_> = (0..THREADS).map(work).collect();
        let ended: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        ended.into_iter().map(|entries| entries.unwrap()).sum()
    });
    assert_sound(&tree, entries);
    let (_pool, tree) = reopen(&disk, pool, tree);
    assert_sound(&tree, entries);
}

#[test]
fn disjoint_keys_array() {
    disjoint::<Array>(disk(), ReadMode::Optimistic, 12_000 * scale());
}

#[test]
fn a_tree_is_made_small_beside_its_users() {
    compacted::<Array>(ReadMode::Optimistic, 3000 * scale());
    compacted::<Array>(ReadMode::Copy, 3000 * scale());
    compacted::<Direct>(ReadMode::Optimistic, 3000 * scale());
    compacted::<Swizzle>(ReadMode::Optimistic, 3000 * scale());
    if EVERY_TRANSLATION {
        compacted::<Hash>(ReadMode::Optimistic, 1500 * scale());
        compacted::<ArraySwizzled>(ReadMode::Shared, 3000 * scale());
        compacted::<Open>(ReadMode::Copy, 1500 * scale());
        compacted::<Predictive>(ReadMode::Optimistic, 3000 * scale());
        compacted::<Simd>(ReadMode::Group, 3000 * scale());
        compacted::<Vm>(ReadMode::Optimistic, 3000 * scale());
    }
}

#[test]
fn disjoint_keys_direct() {
    disjoint::<Direct>(disk(), ReadMode::Optimistic, 12_000 * scale());
}

#[test]
fn threads_on_their_own_keys_by_table_and_by_the_kernel() {
    if_built!(Predictive, disjoint::<Predictive>(disk(), ReadMode::Optimistic, 6000 * scale()));
    if_built!(Simd, disjoint::<Simd>(disk(), ReadMode::Optimistic, 6000 * scale()));
    if_built!(Vm, disjoint::<Vm>(disk(), ReadMode::Optimistic, 6000 * scale()));
}

#[test]
fn threads_on_their_own_keys_by_links() {
    disjoint::<Swizzle>(disk(), ReadMode::Optimistic, 8000 * scale());
    if EVERY_TRANSLATION {
        disjoint::<ArraySwizzled>(disk(), ReadMode::Optimistic, 6000 * scale());
    }
}

#[test]
fn threads_on_their_own_keys_by_snapshots() {
    disjoint::<Array>(disk(), ReadMode::Copy, 8000 * scale());
    // Groups of one core: on a machine with one cache there are several all the same.
    disjoint::<Array>(disk(), ReadMode::CopyOf(GroupSize::ONE), 4000 * scale());
    if EVERY_TRANSLATION {
        disjoint::<Hash>(disk(), ReadMode::Copy, 6000 * scale());
        disjoint::<Open>(disk(), ReadMode::Copy, 6000 * scale());
        disjoint::<Simd>(disk(), ReadMode::Copy, 6000 * scale());
    }
}

#[test]
fn disjoint_keys_on_a_slow_disk() {
    let plan = FaultPlan::new(9).delay(0.5, Duration::from_micros(100));
    disjoint::<Array>(SimDisk::new(plan), ReadMode::Optimistic, 2500 * scale());
}

/// All threads write, remove and read the same few keys; a read is some write of that key, and the
/// writes that one reader sees of a writer never go back.
#[test]
fn shared_keys() {
    const KEYS: u64 = 200;
    let disk = disk();
    let (_pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    // Beside them others, so that the tree does not fit the pool.
    tree.bulk_load((0..8000u64).map(|i| ((i << 32).to_be_bytes(), [0; 100])), || 1).unwrap();
    thread::scope(|scope| {
        for t in 0..THREADS {
            let tree = &tree;
            scope.spawn(move || {
                let mut random = Random::new(t);
                // The last write seen, for each key and writer.
                let mut seen = vec![[0; THREADS as usize]; KEYS as usize];
                for i in 1..20_000 * scale() {
                    let number = random.below(KEYS);
                    let key = (number * 40) << 32 | 1;
                    let bytes = key.to_be_bytes();
                    let write = i * THREADS + t;
                    match random.below(8) {
                        0..3 => {
                            let new = value(key, write, some_len(&mut random));
                            tree.insert(&bytes, &new, write + 2).unwrap();
                        }
                        3 => drop(tree.remove(&bytes).unwrap()),
                        4 => {
                            let keep = |old: Option<&[u8]>| {
                                old.map(|old| write_of(key, old));
                                Change::Insert(value(key, write, 5000))
                            };
                            tree.update_with(&bytes, keep, || write + 2).unwrap();
                        }
                        _ => {
                            let Some(found) = tree.get(&bytes).unwrap() else { continue };
                            let write = write_of(key, &found);
                            let last = &mut seen[number as usize][(write % THREADS) as usize];
                            assert!(*last <= write, "an older value came back");
                            *last = write;
                        }
                    }
                    let far = (random.below(8000) << 32).to_be_bytes();
                    assert_eq!(tree.get_with(&far, <[u8]>::len).unwrap(), Some(100));
                }
            });
        }
    });
    let report = tree.check(&mut |_| true).unwrap();
    assert_eq!(report.faults, []);
}

/// Short counters and ones that fill several pages.
#[test]
fn counters_add_up() {
    const COUNTERS: u64 = 12;
    let disk = disk();
    let (_pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    let versions = AtomicU64::new(1);
    let rounds = 3000 * scale();
    let count_of = |value: &[u8]| u64::from_be_bytes(value[..8].try_into().unwrap());
    thread::scope(|scope| {
        for t in 0..THREADS {
            let (tree, versions) = (&tree, &versions);
            scope.spawn(move || {
                let mut random = Random::new(t);
                for _ in 0..rounds {
                    let counter = random.below(COUNTERS);
                    let len = if counter.is_multiple_of(4) { 9000 } else { 8 };
                    let add = |old: Option<&[u8]>| {
                        let count = old.map_or(0, count_of) + 1;
                        let mut new = count.to_be_bytes().to_vec();
                        new.resize(len, count as u8);
                        Change::Insert(new)
                    };
                    let version = || versions.fetch_add(1, Ordering::Relaxed);
                    tree.update_with(&counter.to_be_bytes(), add, version).unwrap();
                }
            });
        }
    });
    let counts = (0..COUNTERS).map(|c| count_of(&tree.get(&c.to_be_bytes()).unwrap().unwrap()));
    assert_eq!(counts.sum::<u64>(), THREADS * rounds);
    assert_sound(&tree, COUNTERS);
}

/// What one write put somewhere another one takes away, and no two of them get the same: every value
/// that was written is given back once, or is there at the end.
#[test]
fn each_value_is_given_back_once() {
    const KEYS: u64 = 6;
    let disk = disk();
    let (_pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    let versions = AtomicU64::new(1);
    let work = |t: u64| {
        let mut random = Random::new(t);
        let (mut written, mut given) = (Vec::new(), Vec::new());
        for _ in 0..10_000 * scale() {
            let key = random.below(KEYS);
            let bytes = key.to_be_bytes();
            let old = if random.chance(0.3) {
                tree.take(&bytes).unwrap().1
            } else {
                let version = versions.fetch_add(1, Ordering::Relaxed);
                written.push(version);
                let new = value(key, version, some_len(&mut random));
                tree.replace(&bytes, &new, version).unwrap().1
            };
            given.extend(old.map(|old| write_of(key, &old)));
        }
        (written, given)
    };
    let (mut written, mut given) = thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || work(t))).collect();
        let all = threads.into_iter().map(|thread| thread.join().unwrap());
        all.reduce(|a, b| ([a.0, b.0].concat(), [a.1, b.1].concat())).unwrap()
    });
    for key in 0..KEYS {
        let last = tree.get(&key.to_be_bytes()).unwrap();
        given.extend(last.map(|last| write_of(key, &last)));
    }
    written.sort_unstable();
    given.sort_unstable();
    assert!(written == given, "{} written, {} given back", written.len(), given.len());
}

/// Keys divisible by eight are there all the time; the others come and go in waves, so that the
/// tree grows and shrinks by many leaves under the cursors.
/// Batches whose keys lie among those of others: leaves that have no room for one of them are split
/// by another one before it comes to that.
fn batches<T: Translation>(disk: &SimDisk, hold: ReadMode, round: u64) {
    let (pool, tree) = new_tree_held::<T>(disk, PageSize::MIN, hold);
    // With long keys inner nodes split as well.
    let key_of = |key: u64| match hold {
        hold if hold.copies() => wide(key),
        _ => key.to_be_bytes().to_vec(),
    };
    let versions = AtomicU64::new(1);
    let models = thread::scope(|scope| {
        let work = |t: u64| {
            let (tree, versions) = (tree.clone(), &versions);
            scope.spawn(move || {
                let mut random = Random::new(round * 4 + t);
                let mut model: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
                for write in 0..20 {
                    let part = |random: &mut Random| {
                        let key = random.below(40) * 4 + t;
                        let len = random.index(900);
                        (key_of(key), random.chance(0.7).then(|| value(key, write, len)))
                    };
                    let count = 2 + random.index(8);
                    let parts: BTreeMap<_, _> = (0..count).map(|_| part(&mut random)).collect();
                    let ops: Vec<_> = parts
                        .iter()
                        .map(|(key, value)| {
                            let version = versions.fetch_add(1, Ordering::Relaxed);
                            let action = match value {
                                Some(value) => BatchAction::Insert(value, version),
                                None => BatchAction::Remove,
                            };
                            BatchOp { tree: &tree, key: key.as_slice(), expect: None, action }
                        })
                        .collect();
                    assert!(matches!(apply_batch(&ops).unwrap(), BatchOutcome::Done { .. }));
                    model.extend(parts);
                }
                model
            })
        };
        let threads: Vec<_> = (0..4).map(work).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for (key, value) in &models {
        assert_eq!(tree.get(key).unwrap().as_ref(), value.as_ref(), "round {round}, {key:?}");
    }
    let entries = models.iter().filter(|(_, value)| value.is_some()).count();
    assert_sound(&tree, entries as u64);
    drop(pool);
}

#[test]
fn batches_among_batches_array() {
    (0..400 * scale()).for_each(|round| batches::<Array>(&disk(), ReadMode::Optimistic, round));
}

#[test]
fn batches_among_batches_direct() {
    (0..400 * scale()).for_each(|round| batches::<Direct>(&disk(), ReadMode::Optimistic, round));
}

/// Nodes split beside them in copies.
#[test]
fn batches_among_batches_by_snapshots() {
    (0..200 * scale()).for_each(|round| batches::<Array>(&disk(), ReadMode::Copy, round));
    if EVERY_TRANSLATION {
        (0..200 * scale()).for_each(|round| batches::<Simd>(&disk(), ReadMode::Copy, round));
    }
}

fn churn<T: Translation>(tree: &Tree<T>, t: u64, top: u64, stop: &AtomicBool) {
    let mut random = Random::new(t);
    let mut version = t << 40;
    while !stop.load(Ordering::Relaxed) {
        let begin = random.below(top);
        let wave = begin..(begin + 400).min(top);
        for key in wave.clone().filter(|key| key % 8 != 0) {
            version += 1;
            let len = if key % 97 == 0 { 6000 } else { 150 };
            tree.insert(&key.to_be_bytes(), &value(key, version, len), version).unwrap();
        }
        for key in wave.filter(|key| key % 8 != 0) {
            tree.remove(&key.to_be_bytes()).unwrap();
        }
    }
}

/// One way through the tree, from a random place on.
fn pass<T: Translation>(tree: &Tree<T>, forward: bool, from: u64, top: u64) {
    let number = |key: &[u8]| u64::from_be_bytes(key.try_into().unwrap());
    let mut cursor = match forward {
        true => tree.cursor_at(&from.to_be_bytes()).unwrap(),
        false => tree.cursor_behind(&from.to_be_bytes()).unwrap(),
    };
    let mut last = None;
    let mut stays = Vec::new();
    while let Some((key, found)) =
        if forward { cursor.next().unwrap() } else { cursor.previous().unwrap() }
    {
        let key = number(key);
        write_of(key, found);
        if let Some(last) = last {
            assert!((last < key) == forward && last != key, "{key} after {last}");
        }
        last = Some(key);
        if key % 8 == 0 {
            stays.push(key);
        }
    }
    let mut expected: Vec<_> = (0..top)
        .filter(|key| key % 8 == 0 && if forward { *key >= from } else { *key <= from })
        .collect();
    if !forward {
        expected.reverse();
    }
    assert_eq!(stays, expected);
}

fn cursors<T: Translation>(hold: ReadMode) {
    const TOP: u64 = 12_000;
    let disk = disk();
    let (_pool, tree) = new_tree_held::<T>(&disk, PageSize::MIN, hold);
    for key in (0..TOP).step_by(8) {
        let len = if key % 1000 == 0 { 9000 } else { 100 };
        tree.insert(&key.to_be_bytes(), &value(key, 0, len), key).unwrap();
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for t in 1..=4 {
            let (tree, stop) = (&tree, &stop);
            scope.spawn(move || churn(tree, t, TOP, stop));
        }
        let readers: Vec<_> = (0..4u64)
            .map(|t| {
                let tree = &tree;
                scope.spawn(move || {
                    let mut random = Random::new(100 + t);
                    for round in 0..90 * scale() {
                        let all = if t % 2 == 0 { 0 } else { TOP };
                        let from = if round % 2 == 0 { all } else { random.below(TOP) };
                        pass(tree, t % 2 == 0, from, TOP);
                    }
                })
            })
            .collect();
        let results: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        stop.store(true, Ordering::Relaxed);
        results.into_iter().for_each(|result| result.unwrap());
    });
    let report = tree.check(&mut |_| true).unwrap();
    assert_eq!(report.faults, []);
}

#[test]
fn cursors_among_writers_array() {
    cursors::<Array>(ReadMode::Optimistic);
}

#[test]
fn cursors_among_writers_direct() {
    cursors::<Direct>(ReadMode::Optimistic);
}

#[test]
fn cursors_among_writers_by_snapshots() {
    cursors::<Array>(ReadMode::Copy);
    if EVERY_TRANSLATION {
        cursors::<Simd>(ReadMode::Copy);
    }
}
