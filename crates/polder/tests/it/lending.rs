//! Values that are lent stay as they are, whatever else goes on; they keep nobody waiting, and give back
//! all that they kept.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use polder::{Options, ReadMode, Store, StoreError, Table, TranslationKind, ValueRef};
use polder_testkit::effort;

use crate::support::*;

/// In leaves, in one page of their own, in several.
const LENGTHS: [usize; 9] = [0, 1, 62, 63, 900, 4000, 4048, 4049, 30_000];

fn value(number: usize, write: u8) -> Vec<u8> {
    let len = LENGTHS[number % LENGTHS.len()];
    (0..len).map(|at| (at as u8).wrapping_mul(31) ^ number as u8 ^ write).collect()
}

fn put_all(table: &Table, numbers: usize, write: u8) {
    for number in 0..numbers {
        table.put(number.to_be_bytes(), value(number, write)).unwrap();
    }
}

fn lend<'t>(table: &'t Table, number: usize) -> ValueRef<'t> {
    table.get_ref(number.to_be_bytes()).unwrap().unwrap()
}

fn assert_is(lent: &ValueRef<'_>, expected: &[u8]) {
    assert_eq!((lent.len(), lent.is_empty()), (expected.len(), expected.is_empty()));
    assert!(lent.chunks().all(|chunk| !chunk.is_empty()));
    assert!(lent.to_vec() == expected, "{lent:?} is not what was lent");
    assert!(lent.as_slice().is_none_or(|slice| slice == expected));
    let mut copy = vec![0; expected.len() + 9];
    assert_eq!(lent.copy_to(&mut copy), expected.len());
    assert_eq!(&copy[..expected.len()], expected);
    let half = expected.len() / 2;
    assert_eq!(lent.copy_to(&mut copy[..half]), half);
}

/// Every frame holds a page or is free.
fn assert_no_frame_is_lost(store: &Store) {
    let stats = store.stats();
    if store.translation().evicts() {
        assert_eq!(stats.pool.resident_pages + stats.pool.frames_free, stats.pool.frames);
    }
}

fn options(kind: TranslationKind, read_mode: ReadMode) -> Options {
    let least = Options::least_memory_budget(4096);
    let budget = least * if kind.evicts() { 2 } else { 16 };
    quick("simulated").memory_budget(budget).translation(kind).read_mode(read_mode)
}

/// Each translation with each read mode that it has.
fn all_ways() -> impl Iterator<Item = (TranslationKind, ReadMode)> {
    let modes = |kind: &'static TranslationKind| {
        let modes = ReadMode::ALL.iter().filter(|mode| kind.why_not(**mode).is_none());
        modes.map(|mode| (*kind, *mode))
    };
    TranslationKind::ALL.iter().flat_map(modes)
}

/// Each page that is lent is one that was read.
#[test]
fn what_is_lent_is_counted_as_read() {
    let store = disk().open(quick("simulated")).unwrap();
    let table = store.create_table("t").unwrap();
    table.put("key", [7; 40_000]).unwrap();
    let before = store.stats();
    let value = table.get_ref("key").unwrap().unwrap();
    let after = store.stats();
    assert_eq!((value.len(), after.pool.faults), (40_000, before.pool.faults));
    // Ten pages of 4096 bytes, and the way there.
    assert!(
        (11..15).contains(&(after.pool.hits - before.pool.hits)),
        "{}",
        after.pool.hits - before.pool.hits
    );
}

#[test]
fn what_is_lent_stays_as_it_is() {
    for (kind, read_mode) in all_ways() {
        let disk = disk();
        let store = disk.open(options(kind, read_mode)).unwrap();
        let (table, other) = (store.open_table("t").unwrap(), store.open_table("other").unwrap());
        put_all(&table, 90, 1);
        let lent: Vec<_> = (0..18).map(|number| (number, lend(&table, number))).collect();
        assert!(
            lent.iter().all(|(number, lent)| {
                lent.is_lent() == (LENGTHS[number % LENGTHS.len()] > 1000)
            })
        );
        let assert_all = |what: &str| {
            for (number, lent) in &lent {
                assert!(lent.to_vec() == value(*number, 1), "{kind} {read_mode}: {number} {what}");
                assert_is(lent, &value(*number, 1));
            }
        };
        assert_all("when it is lent");
        // This very thread overwrites them, removes them, and uses their pages for others.
        put_all(&table, 18, 2);
        put_all(&other, 90, 3);
        assert_all("when it was overwritten");
        (0..60).for_each(|number: usize| assert!(table.remove(number.to_be_bytes()).is_ok()));
        put_all(&other, 200, 4);
        assert_all("when it was removed");
        store.checkpoint().unwrap();
        assert_sound(&store);
        store.shrink().unwrap();
        put_all(&other, 200, 5);
        assert_all("when the file became small");
        // Another one comes where it was.
        store.drop_table("t").unwrap();
        let next = store.open_table("t").unwrap();
        put_all(&next, 90, 6);
        put_all(&other, 200, 7);
        store.checkpoint().unwrap();
        assert_all("when its table was dropped");
        assert!(table.get(b"0").is_err());
        assert_no_frame_is_lost(&store);
        store.clone().close().unwrap();
        assert_all("when the store was closed");
        assert!(table.get_ref(b"0").is_err());
        thread::scope(|scope| scope.spawn(|| drop(lent)).join()).unwrap();
        assert_no_frame_is_lost(&store);
        drop((table, other, next, store));

        let store = disk.open(options(kind, read_mode)).unwrap();
        assert_sound(&store);
        for name in ["t", "other"] {
            let (table, write) = (store.table(name).unwrap(), if name == "t" { 6 } else { 7 });
            (0..90).for_each(|number| assert_is(&lend(&table, number), &value(number, write)));
        }
        store.close().unwrap();
    }
}

/// The pages of a value that was lent and removed are used again when it is given back, and not before;
/// those of a table that was dropped as well.
#[test]
fn what_was_lent_is_given_back() {
    for (kind, read_mode) in all_ways() {
        let disk = disk();
        let store = disk.open(options(kind, read_mode)).unwrap();
        let stats = |name: &str| {
            let tables = store.stats().tables;
            tables.iter().find(|table| table.name == name).map(|table| table.pages)
        };
        let mut pages = None;
        for round in 0..effort::steps(5, 20) as u8 {
            let table = store.open_table("t").unwrap();
            put_all(&table, 27, round);
            let lent = [5, 8, 17].map(|number| lend(&table, number));
            put_all(&table, 27, round + 1);
            drop(lent);
            put_all(&table, 27, round + 2);
            assert_eq!(*pages.get_or_insert(stats("t")), stats("t"), "{kind}");
            let lent = lend(&table, 8);
            store.drop_table("t").unwrap();
            assert_is(&lent, &value(8, round + 2));
            drop(lent);
            assert_no_frame_is_lost(&store);
        }
        assert_sound(&store);
        store.close().unwrap();
    }
}

/// Whoever finds no frame is told why, in time; and all is well when the values are given back.
#[test]
fn a_pool_full_of_lent_values_says_so() {
    let most = if effort::is_long() { 8 } else { 4 };
    let modes = [ReadMode::Optimistic, ReadMode::Copy];
    let ways = all_ways().filter(|(kind, mode)| kind.evicts() && modes.contains(mode));
    // Each waits for frames, as long as an operation does.
    thread::scope(|scope| {
        for (kind, read_mode) in ways.take(most) {
            scope.spawn(move || lends_until_it_is_full(kind, read_mode));
        }
    });
}

fn lends_until_it_is_full(kind: TranslationKind, read_mode: ReadMode) {
    let disk = disk();
    let store = disk.open(options(kind, read_mode)).unwrap();
    let table = store.open_table("t").unwrap();
    let frames = store.stats().pool.frames;
    let long = |number: u64| vec![number as u8; 9000];
    for number in 0..frames {
        table.put(number.to_be_bytes(), long(number)).unwrap();
    }
    let (mut lent, started) = (Vec::new(), Instant::now());
    // As long as there is a frame to read by, what finds none to be lent in is copied.
    let refused = (0..frames).any(|number| match table.get_ref(number.to_be_bytes()) {
        Ok(found) => {
            let found = found.unwrap();
            let is_copy = !found.is_lent();
            lent.push((number, found));
            is_copy
        }
        Err(error) => {
            assert!(matches!(error, StoreError::PoolExhausted { .. }), "{kind}: {error}");
            assert!(full_text(&error).contains("lent"), "{}", full_text(&error));
            true
        }
    });
    assert!(refused, "{kind}: more is lent than there are frames");
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    assert!(lent.len() as u64 > frames / 6, "{kind}: {} of {frames}", lent.len());
    lent.iter().for_each(|(number, lent)| assert!(lent.to_vec() == long(*number)));
    lent.truncate(lent.len() / 2);
    for number in 0..frames {
        assert_eq!(table.get(number.to_be_bytes()).unwrap(), Some(long(number)));
        table.put(number.to_be_bytes(), long(number + 1)).unwrap();
    }
    lent.iter().for_each(|(number, lent)| assert!(lent.to_vec() == long(*number)));
    drop(lent);
    assert_no_frame_is_lost(&store);
    assert_sound(&store);
    store.close().unwrap();
}

/// More loans of one page than are counted: the others are copies. So is what is large for the pool.
#[test]
fn what_cannot_be_lent_is_copied() {
    let store = disk().open(options(TranslationKind::Array, ReadMode::Optimistic)).unwrap();
    let table = store.open_table("t").unwrap();
    table.put("hot", [7; 2000]).unwrap();
    let lent: Vec<_> = (0..3000).map(|_| table.get_ref("hot").unwrap().unwrap()).collect();
    assert!(lent.iter().all(|lent| lent.to_vec() == [7; 2000]));
    assert_eq!(lent.iter().filter(|lent| lent.is_lent()).count(), 1024);
    drop(lent);
    assert!(table.get_ref("hot").unwrap().unwrap().is_lent());
    let large = vec![9; store.stats().pool.frames as usize * 4048 / 6];
    table.put("large", &large).unwrap();
    let found = table.get_ref("large").unwrap().unwrap();
    assert!(!found.is_lent() && found.to_vec() == large);
}

/// Readers that keep some values for a while, beside writers that replace, remove and move them.
#[test]
fn what_is_lent_does_not_change_beside_writers() {
    for (kind, read_mode) in all_ways() {
        let disk = disk();
        let store = disk.open(options(kind, read_mode)).unwrap();
        let (table, over) = (store.open_table("t").unwrap(), AtomicBool::new(false));
        let uniform = |lent: &ValueRef<'_>| {
            let first = lent.chunks().next().map_or(0, |chunk| chunk[0]);
            let same = lent.chunks().flatten().all(|byte| *byte == first);
            assert!(same, "{kind} {read_mode}: {lent:?} is of several writes");
            first
        };
        thread::scope(|scope| {
            let write = |thread: usize| {
                let (table, over, store) = (&table, &over, &store);
                move || {
                    for round in 0..scale() * 4 {
                        for number in 0..30usize {
                            let key = (number % 15).to_be_bytes();
                            let byte = (round * 30 + number as u64) as u8;
                            if (number + thread).is_multiple_of(7) {
                                table.remove(key).unwrap();
                            } else {
                                table.put(key, vec![byte; 2000 + number * 400]).unwrap();
                            }
                        }
                        if thread == 0 && round % 4 == 0 {
                            store.shrink().unwrap();
                        }
                    }
                    over.store(true, Ordering::Relaxed);
                }
            };
            (0..2).for_each(|thread| _ = scope.spawn(write(thread)));
            for thread in 0..2usize {
                let (table, over) = (&table, &over);
                scope.spawn(move || {
                    let (mut kept, mut at) = (Vec::new(), thread);
                    while !over.load(Ordering::Relaxed) {
                        at = (at * 7 + 3) % 15;
                        if let Some(lent) = table.get_ref(at.to_be_bytes()).unwrap() {
                            kept.push((uniform(&lent), lent));
                        }
                        if kept.len() > 6 {
                            let (byte, lent) = kept.remove(at % kept.len());
                            assert_eq!(uniform(&lent), byte, "{kind} {read_mode}: it has changed");
                        }
                    }
                });
            }
        });
        assert_no_frame_is_lost(&store);
        assert_sound(&store);
        store.close().unwrap();
    }
}

/// A process dies with values lent whose keys are gone: their pages are free when the store is opened.
#[test]
fn a_store_is_killed_while_values_are_lent() {
    for (seed, power) in [(1, false), (2, true)] {
        let disk = disk();
        let store = disk.open(tight("simulated")).unwrap();
        let table = store.open_table("t").unwrap();
        put_all(&table, 45, 1);
        let lent: Vec<_> = (0..9).map(|number| lend(&table, number)).collect();
        put_all(&table, 30, 2);
        store.checkpoint().unwrap();
        put_all(&table, 20, 3);
        let after = if power { disk.crash(seed) } else { disk.kill(seed) };
        lent.iter().enumerate().for_each(|(number, lent)| assert_is(lent, &value(number, 1)));
        drop(lent);
        drop((table, store));

        let store = open_on(&after);
        assert_sound(&store);
        let table = store.table("t").unwrap();
        for number in 0..45 {
            let write = if number < 20 { 3 } else { 1 + u8::from(number < 30) };
            assert_is(&lend(&table, number), &value(number, write));
        }
    }
}
