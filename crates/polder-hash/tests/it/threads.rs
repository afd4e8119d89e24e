//! Many threads on one index and a pool of the least budget: splits, joins, faults and evictions go on
//! all the time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use polder_format::PageSize;
use polder_hash::{Effect, HashError, HashIndex};
use polder_pool::{Array, ArraySwizzled, Direct, ReadMode, Simd, Swizzle, Translation};
use polder_testkit::Random;
use polder_testkit::effort::EVERY_TRANSLATION;
use polder_testkit::random::scramble;

use crate::support::*;

const THREADS: u64 = 8;

/// A value that tells which write of which key made it, and whose every byte follows from that.
fn value(key: &[u8], write: u64, len: usize) -> Vec<u8> {
    let mut value = write.to_le_bytes().to_vec();
    let mut random =
        Random::new(key.iter().fold(write, |all, byte| scramble(all) ^ u64::from(*byte)));
    value.resize(8 + len, 0);
    random.fill(&mut value[8..]);
    value
}

/// The write that made this value. Panics if the value is none of this key's, or a mix.
fn write_of(key: &[u8], found: &[u8]) -> u64 {
    let write = u64::from_le_bytes(found[..8].try_into().unwrap());
    assert!(found == value(key, write, found.len() - 8), "a value of {key:?} is a mix");
    write
}

/// Of a thread's keys one in eight has a hash that other threads' keys have as well.
fn key(number: u64, t: u64) -> Vec<u8> {
    match number % 8 {
        0 => key_with_hash(number / 8 % 3, number * THREADS + t),
        _ => scramble(number * THREADS + t).to_le_bytes().to_vec(),
    }
}

/// One thread's part of `disjoint`: it has its own keys among those of the others, and knows what must
/// be there. Gives how many are left.
fn work<T: Translation>(index: &HashIndex<T>, t: u64, ops: u64) -> usize {
    const KEYS: u64 = 600;
    let mut random = Random::new(t);
    let mut model = std::collections::BTreeMap::<u64, u64>::new();
    for write in 0..ops {
        // Phases of growth and of shrinking, so that pages are joined.
        let shrinks = write / (ops / 6) % 2 == 1;
        let number = random.below(KEYS);
        let key = key(number, t);
        match random.below(10) {
            0..2 => {
                let found = index.get(&key).unwrap();
                let write = found.as_ref().map(|found| write_of(&key, found));
                assert_eq!(write, model.get(&number).copied());
            }
            n if (n < 4) == shrinks => {
                match index.insert(&key, &value(&key, write, random.index(250))) {
                    Ok(applied) => {
                        let new = model.insert(number, write).is_none();
                        assert_eq!(applied.effect == Effect::Added, new);
                    }
                    Err(error) => assert!(matches!(error, HashError::Crowded), "{error:?}"),
                }
            }
            _ => {
                let removed = index.remove(&key).unwrap().effect == Effect::Removed;
                assert_eq!(removed, model.remove(&number).is_some());
            }
        }
    }
    for number in 0..KEYS {
        let key = key(number, t);
        let found = index.get_with(&key, |found| write_of(&key, found)).unwrap();
        assert_eq!(found, model.get(&number).copied());
    }
    model.len()
}

fn disjoint<T: Translation>(hold: ReadMode, ops: u64) {
    let disk = disk();
    let config = polder_pool::PoolConfig {
        read_mode: hold,
        ..config::<T>(PageSize::MIN, polder_pool::FileState::NEW)
    };
    let pool = open_pool::<T>(&disk, &config);
    let index = HashIndex::create(pool.create_space().unwrap()).unwrap();
    let entries = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|t| {
                let index = index.clone();
                scope.spawn(move || work(&index, t, ops))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_sound(&index, entries);
    let (_pool, index) = reopen::<T, Array>(&disk, pool, index);
    assert_sound(&index, entries);
}

#[test]
fn disjoint_keys_array() {
    disjoint::<Array>(ReadMode::Optimistic, 12_000 * scale());
}

#[test]
fn disjoint_keys_direct() {
    disjoint::<Direct>(ReadMode::Optimistic, 12_000 * scale());
}

#[test]
fn disjoint_keys_by_links() {
    disjoint::<Swizzle>(ReadMode::Optimistic, 12_000 * scale());
    if EVERY_TRANSLATION {
        disjoint::<ArraySwizzled>(ReadMode::Optimistic, 6000 * scale());
    }
}

#[test]
fn disjoint_keys_by_those_who_hold_pages() {
    disjoint::<Swizzle>(ReadMode::Shared, 3000 * scale());
    if EVERY_TRANSLATION {
        disjoint::<Simd>(ReadMode::Group, 3000 * scale());
    }
    disjoint::<Array>(ReadMode::Core, 3000 * scale());
}

/// All threads write, remove and read the same few keys, most of them of one hash; a read is some write
/// of that key, and the writes that one reader sees of a writer never go back.
#[test]
fn shared_keys() {
    const KEYS: u64 = 40;
    let disk = disk();
    let (_pool, index) = new_index::<Swizzle>(&disk, PageSize::MIN);
    thread::scope(|scope| {
        for t in 0..THREADS {
            let index = &index;
            scope.spawn(move || {
                let mut random = Random::new(t);
                // The last write seen, for each key and writer.
                let mut seen = vec![[0; THREADS as usize]; KEYS as usize];
                for i in 1..6000 * scale() {
                    let number = random.below(KEYS);
                    let hash = if number < 30 { 5 } else { scramble(number) };
                    let key = key_with_hash(hash, number);
                    match random.below(8) {
                        0..3 => {
                            let new = value(&key, i * THREADS + t, random.index(900));
                            index.insert(&key, &new).map(drop).unwrap_or_else(|error| {
                                assert!(matches!(error, HashError::Crowded), "{error:?}");
                            });
                        }
                        3 => drop(index.remove(&key).unwrap()),
                        _ => {
                            let Some(found) = index.get(&key).unwrap() else { continue };
                            let write = write_of(&key, &found);
                            let last = &mut seen[number as usize][(write % THREADS) as usize];
                            assert!(*last <= write, "an older value came back");
                            *last = write;
                        }
                    }
                }
            });
        }
    });
    assert_eq!(index.check(&mut |_| true).unwrap().faults, []);
}

/// Keys that are there all the time are found by each lookup and given once by each cursor, while others
/// come and go in waves under which the directory grows and shrinks.
fn cursors<T: Translation>() {
    const TOP: u64 = 6000;
    let disk = disk();
    let (_pool, index) = new_index::<T>(&disk, PageSize::MIN);
    let stays = |number: u64| number.is_multiple_of(8);
    let key = |number: u64| scramble(number).to_le_bytes();
    for number in (0..TOP).filter(|number| stays(*number)) {
        index.insert(&key(number), &value(&key(number), 0, 100)).unwrap();
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for t in 1..=3 {
            let (index, stop) = (&index, &stop);
            scope.spawn(move || {
                let mut random = Random::new(t);
                while !stop.load(Ordering::Relaxed) {
                    let begin = random.below(TOP);
                    let wave = (begin..(begin + 1500).min(TOP)).filter(|number| !stays(*number));
                    for number in wave.clone() {
                        index.insert(&key(number), &value(&key(number), t, 150)).unwrap();
                    }
                    for number in wave {
                        index.remove(&key(number)).unwrap();
                    }
                }
            });
        }
        let readers: Vec<_> = (0..3u64)
            .map(|t| {
                let index = &index;
                scope.spawn(move || {
                    let mut random = Random::new(100 + t);
                    for _ in 0..30 * scale() {
                        for (key, found) in entries_of(index) {
                            write_of(&key, &found);
                        }
                        let all = entries_of(index);
                        for number in (0..TOP).filter(|number| stays(*number)) {
                            assert!(
                                all.contains_key(key(number).as_slice()),
                                "{number} is missing"
                            );
                        }
                        for _ in 0..500 {
                            let number = random.below(TOP / 8) * 8;
                            assert!(
                                index.contains_key(&key(number)).unwrap(),
                                "{number} is missing"
                            );
                        }
                    }
                })
            })
            .collect();
        let results: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        stop.store(true, Ordering::Relaxed);
        results.into_iter().for_each(|result| result.unwrap());
    });
    assert_eq!(index.check(&mut |_| true).unwrap().faults, []);
}

#[test]
fn cursors_among_writers_array() {
    cursors::<Array>();
}

#[test]
fn cursors_among_writers_by_links() {
    cursors::<Swizzle>();
}
