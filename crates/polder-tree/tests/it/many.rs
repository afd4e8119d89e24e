//! Many keys looked up at once: the answers are those of single lookups, whatever is resident, whoever
//! writes meanwhile, and whatever the device does; and no frame is lost.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use polder_format::PageSize;
use polder_pool::{Array, FileState, Pool, PoolConfig, ReadMode, Simd, Swizzle, Translation, Vm};
use polder_testkit::effort::EVERY_TRANSLATION;
use polder_testkit::if_built;
use polder_testkit::random::scramble;
use polder_testkit::{Errno, FaultPlan, Operation, Random, SimDisk, When};
use polder_tree::{KINDS, Tree};

use crate::support::*;

/// A key of some length, so that prefixes and rests differ.
pub fn key(number: u64) -> Vec<u8> {
    let mut key = scramble(number % 7).to_be_bytes().to_vec();
    key.truncate((number % 3) as usize);
    key.extend(scramble(number).to_be_bytes());
    key
}

/// Mostly short; some fill a quarter of a page, some overflow, some are empty.
pub fn value(number: u64, write: u64) -> Vec<u8> {
    let len = match number % 20 {
        0 => 9000,
        1 => 900,
        2 => return Vec::new(),
        _ => 40 + number % 150,
    };
    let mut value = write.to_be_bytes().to_vec();
    value.resize(len as usize, number as u8);
    value
}

pub fn filled<T: Translation>(tree: &Tree<T>, numbers: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut model = BTreeMap::new();
    for number in 0..numbers {
        tree.insert(&key(number), &value(number, 0), number + 1).unwrap();
        model.insert(key(number), value(number, 0));
    }
    model
}

/// Every frame holds a page or is free, and every page can leave.
pub fn assert_no_frame_is_lost<T: Translation>(pool: &Pool<T>) {
    pool.flush().unwrap();
    let stats = pool.stats();
    if T::EVICTS {
        assert_eq!(stats.resident_pages + stats.frames_free, stats.frames, "{}", T::NAME);
    }
}

/// The answers, each given once.
fn all<T: Translation>(tree: &Tree<T>, keys: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut answers = vec![None; keys.len()];
    tree.get_many(&keys, &mut |i, value| {
        let before = answers[i].replace(value.map(<[u8]>::to_vec));
        assert_eq!(before, None, "key {i} is answered twice");
    })
    .unwrap();
    let mut there = vec![None; keys.len()];
    tree.contains_many(&keys, &mut |i, is_there| {
        assert_eq!(there[i].replace(is_there), None, "key {i} is answered twice");
    })
    .unwrap();
    let answers: Vec<_> =
        answers.into_iter().map(|answer| answer.expect("an answer is missing")).collect();
    let is_there: Vec<_> = answers.iter().map(|answer| Some(answer.is_some())).collect();
    assert_eq!(there, is_there);
    answers
}

fn answers_are_those_of_the_model<T: Translation>(hold: ReadMode) {
    const NUMBERS: u64 = 1500;
    let disk = disk();
    let (pool, tree) = new_tree_held::<T>(&disk, PageSize::MIN, hold);
    assert_eq!(all(&tree, &[]), []);
    assert_eq!(all(&tree, &[key(1), key(1)]), [None, None], "the tree is empty");
    let model = filled(&tree, NUMBERS);
    let mut random = Random::new(7);
    for round in 0..24 {
        let len = [1, 2, 13, 300, 1000][round % 5];
        // A third is not there; some come twice, next to each other or not.
        let mut keys: Vec<Vec<u8>> = Vec::new();
        while keys.len() < len {
            let number = random.below(NUMBERS * 3 / 2);
            (0..1 + random.index(3)).for_each(|_| keys.push(key(number)));
            if random.chance(0.1) {
                keys.push(keys[random.index(keys.len())].clone());
            }
        }
        match round % 3 {
            0 => keys.sort(),
            1 if round % 2 == 0 => {
                keys.sort();
                keys.reverse();
            }
            _ => {}
        }
        let expected: Vec<_> = keys.iter().map(|key| model.get(key).cloned()).collect();
        assert!(all(&tree, &keys) == expected, "{}, round {round}", T::NAME);
    }
    // All of them, in order: as many answers as are kept at once, and more.
    let keys: Vec<_> = model.keys().cloned().collect();
    let values: Vec<_> = model.values().cloned().map(Some).collect();
    assert!(all(&tree, &keys) == values);
    assert_no_frame_is_lost(&pool);
    assert_sound(&tree, NUMBERS);
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
                answers_are_those_of_the_model::<polder_pool::$translation>(ReadMode::Optimistic)
            );
        })*
    };
}
polder_pool::translations!(each);

#[test]
fn in_each_read_mode() {
    for hold in ReadMode::ALL {
        answers_are_those_of_the_model::<Array>(*hold);
    }
    answers_are_those_of_the_model::<Swizzle>(ReadMode::Group);
    if EVERY_TRANSLATION {
        answers_are_those_of_the_model::<Simd>(ReadMode::Copy);
    }
}

/// Writers raise the writes of all keys, a page provider and evictions take the pages away, and several
/// threads have many faults open. Each value is one that was written, and none is older than one that
/// was seen before.
fn beside_writers<T: Translation>(disk: SimDisk) {
    const NUMBERS: u64 = 800;
    let (pool, tree) = new_tree::<T>(&disk, PageSize::MIN);
    filled(&tree, NUMBERS);
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
                    // Each writer has its own keys; others come and go, so that nodes split and merge.
                    let number = random.below(NUMBERS / 2) * 2 + t;
                    let version = versions.fetch_add(1, Ordering::Relaxed);
                    tree.insert(&key(number), &value(number, write), version).unwrap();
                    let other = NUMBERS + t * NUMBERS + random.below(NUMBERS);
                    let version = versions.fetch_add(1, Ordering::Relaxed);
                    if random.chance(0.5) {
                        tree.insert(&key(other), &value(other, write), version).unwrap();
                    } else {
                        tree.remove(&key(other)).unwrap();
                    }
                }
            });
        }
        let readers: Vec<_> = (0..3)
            .map(|t| {
                let tree = tree.clone();
                scope.spawn(move || {
                    let mut random = Random::new(100 + t);
                    let mut seen = vec![0; NUMBERS as usize];
                    for _ in 0..40 * scale() {
                        let numbers: Vec<_> = (0..200).map(|_| random.below(NUMBERS)).collect();
                        let keys: Vec<_> = numbers.iter().map(|number| key(*number)).collect();
                        let before = seen.clone();
                        for (number, found) in numbers.iter().zip(all(&tree, &keys)) {
                            let found = found.expect("a key is gone that nobody removed");
                            if found.is_empty() {
                                continue;
                            }
                            let write = u64::from_be_bytes(*found.first_chunk().unwrap());
                            assert!(found == value(*number, write), "a torn value was validated");
                            let at = *number as usize;
                            assert!(write >= before[at], "an older value came back");
                            seen[at] = write.max(seen[at]);
                        }
                    }
                })
            })
            .collect();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        stop.store(true, Ordering::Relaxed);
    });
    assert_no_frame_is_lost(&pool);
    let report = tree.check(&mut |_| true).unwrap();
    assert_eq!(report.faults, []);
}

#[test]
fn beside_writers_on_an_array() {
    beside_writers::<Array>(disk());
}

#[test]
fn beside_writers_on_swizzled_links() {
    beside_writers::<Swizzle>(disk());
}

#[test]
fn beside_writers_on_virtual_memory() {
    if_built!(Vm, beside_writers::<Vm>(disk()));
}

#[test]
fn beside_writers_on_a_slow_device() {
    beside_writers::<Array>(SimDisk::new(FaultPlan::new(3).delay(0.5, Duration::from_micros(200))));
}

/// A device whose reads fail now and then: what is answered is right, and the error is that of the key
/// that it names.
#[test]
fn errors_name_their_key() {
    let disk = disk();
    let (pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    let model = filled(&tree, 1500);
    pool.flush().unwrap();
    let owned: Vec<_> = model.keys().cloned().collect();
    let mut random = Random::new(5);
    let mut failed = 0;
    for round in 0..60 * scale() {
        let share = 0.02 * (round % 20) as f64;
        disk.set_plan(FaultPlan::new(round).fail(Operation::Read, When::Share(share), Errno::IO));
        let keys: Vec<&[u8]> =
            (0..300).map(|_| owned[random.index(owned.len())].as_slice()).collect();
        let mut answered = vec![false; keys.len()];
        let done = tree.get_many(&keys, &mut |i, value| {
            assert_eq!(value, model.get(keys[i]).map(Vec::as_slice));
            assert!(!std::mem::replace(&mut answered[i], true));
        });
        match done {
            Ok(()) => assert!(answered.iter().all(|answered| *answered)),
            Err(error) => {
                failed += 1;
                assert!(!answered[error.index], "{error}");
                let text = format!("{error}: {:?}", error.source);
                assert!(text.contains(&error.index.to_string()) && text.contains("Read"), "{text}");
            }
        }
    }
    assert!(failed > 10, "{failed} calls met failing reads");
    disk.set_plan(FaultPlan::new(1));
    assert!(all(&tree, &owned).iter().all(Option::is_some));
    assert_no_frame_is_lost(&pool);
}

/// One page is damaged: its keys, and no others, cannot be looked up.
#[test]
fn damage_is_told_of_a_key_that_lies_in_it() {
    let disk = disk();
    let (pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    let model = filled(&tree, 1500);
    pool.flush().unwrap();
    let (image, file) = (disk.image(), pool.file_state());
    drop((pool, tree));
    let mut damaged = 0;
    for at in 1..60 {
        let disk = SimDisk::from_image(&image, FaultPlan::new(at));
        let pool = Pool::<Array>::open(
            Box::new(disk.clone()),
            &PoolConfig { file, ..polder_testkit::pools::tight::<Array>(PageSize::MIN, file) },
            &KINDS,
        )
        .unwrap();
        let tree = Tree::open(pool.open_space(SPACE).unwrap());
        disk.corrupt((image.len() as u64 / 4096 * at / 60) * 4096 + 512, 64, at);
        let keys: Vec<&[u8]> = model.keys().map(Vec::as_slice).collect();
        let Err(error) = tree.get_many(&keys, &mut |_, _| ()) else { continue };
        damaged += 1;
        let alone = tree.get(keys[error.index]).unwrap_err();
        assert_eq!(format!("{alone:?}"), format!("{:?}", error.source), "page {at}");
        assert_no_frame_is_lost(&pool);
    }
    assert!(damaged > 10, "{damaged}");
}

/// `read` is called with nothing in hand: it may look up and change what it likes, and it may panic.
#[test]
fn users_are_called_with_nothing_in_hand() {
    let disk = disk();
    let (pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    let model = filled(&tree, 1000);
    let keys: Vec<&[u8]> = model.keys().map(Vec::as_slice).collect();
    let mut random = Random::new(3);
    let mut version = 10_000;
    tree.get_many(&keys[..300], &mut |i, value| {
        assert_eq!(value, model.get(keys[i]).map(Vec::as_slice));
        let some: Vec<_> = (0..10).map(|_| keys[random.index(keys.len())]).collect();
        tree.get_many(&some, &mut |at, value| {
            assert_eq!(value, model.get(some[at]).map(Vec::as_slice));
        })
        .unwrap();
        version += 1;
        tree.insert(keys[i], value.unwrap(), version).unwrap();
    })
    .unwrap();
    for at in [0, 1, 50, 999] {
        let mut calls = 0;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            tree.get_many(&keys, &mut |_, _| {
                assert!(calls < at, "this one is meant to panic");
                calls += 1;
            })
        }));
        assert!(panicked.is_err());
        assert_no_frame_is_lost(&pool);
    }
    assert_sound(&tree, 1000);
}

/// One thread has many reads under way: not more than its share of the frames, and as many as a device
/// wants where there are enough.
#[test]
fn many_reads_are_under_way_at_once() {
    // The device gives up to four back whenever it is asked, so that not always all are under way.
    let frames_and_most = [(1, 4..=4), (16, 20..=64)];
    for (times, most) in frames_and_most {
        let disk = disk();
        let open = |file| -> Pool<Array> {
            let config = polder_testkit::pools::config(times, PageSize::MIN, file);
            Pool::open(Box::new(disk.clone()), &config, &KINDS).unwrap()
        };
        let pool = open(FileState::NEW);
        let tree = Tree::create(pool.create_space().unwrap()).unwrap();
        let model = filled(&tree, 6000);
        pool.flush().unwrap();
        let file = pool.file_state();
        drop((tree, pool));
        let pool = open(file);
        let tree = Tree::open(pool.open_space(SPACE).unwrap());
        let mut keys: Vec<Vec<u8>> = model.keys().cloned().collect();
        keys.sort_by_key(|key| scramble(key.len() as u64 ^ u64::from(key[key.len() - 1])));
        assert!(all(&tree, &keys).iter().all(Option::is_some));
        let queued = disk.counts().most_queued;
        assert!(most.contains(&(queued as usize)), "{queued} of {most:?} in {times}");
        assert_no_frame_is_lost(&pool);
    }
}
