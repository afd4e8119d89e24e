//! A store of which most was removed becomes small again: when it is asked to, and by itself.

use std::time::{Duration, Instant};

use polder::{Options, ShrinkStep, Store};
use polder_testkit::Random;
use polder_testkit::random::scramble;

use crate::support::{assert_sound, quick};

fn key(number: u64) -> [u8; 8] {
    scramble(number).to_be_bytes()
}

/// Some in pages of their own.
fn value(number: u64) -> Vec<u8> {
    let len = if number.is_multiple_of(400) { 9000 } else { 120 };
    vec![number as u8; len]
}

/// Fills a table, and removes most of it at random. Gives what is left.
fn fill_and_remove(store: &Store, count: u64, left: f64) -> Vec<u64> {
    let table = store.open_table("t").unwrap();
    for number in 0..count {
        table.insert(key(number), value(number)).unwrap();
    }
    let mut random = Random::new(9);
    let (stay, go): (Vec<_>, Vec<_>) = (0..count).partition(|_| random.chance(left));
    for number in go {
        assert!(table.remove(key(number)).unwrap().is_some());
    }
    stay
}

fn assert_holds(store: &Store, stay: &[u64]) {
    let table = store.table("t").unwrap();
    assert_eq!(table.len(), stay.len() as u64);
    for number in stay {
        assert_eq!(table.get(key(*number)).unwrap(), Some(value(*number)));
    }
    assert_sound(store);
}

fn loaded_bytes(stay: &[u64]) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(quick(dir.path())).unwrap();
    let mut entries: Vec<_> = stay.iter().map(|number| (key(*number), value(*number))).collect();
    entries.sort();
    store.open_table("t").unwrap().bulk_load(entries).unwrap();
    store.stats().pool.file_bytes
}

#[test]
fn a_sparse_store_becomes_small() {
    let dir = tempfile::tempdir().unwrap();
    let options = || quick(dir.path()).log_limit(32 << 20);
    let store = Store::open(options()).unwrap();
    let stay = fill_and_remove(&store, 60_000, 0.05);
    let before = store.stats().pool.file_bytes;
    let (mut steps, mut seen) = (0, Vec::new());
    let gone = store.shrink_with(&mut |progress| {
        assert!(progress.done_pages <= progress.all_pages, "{progress:?}");
        assert!(progress.file_bytes <= before + (1 << 20), "{progress:?}");
        steps += 1;
        if seen.last() != Some(&(progress.step, progress.table.is_some())) {
            seen.push((progress.step, progress.table.is_some()));
        }
        true
    });
    let (gone, after, loaded) = (gone.unwrap(), store.stats().pool.file_bytes, loaded_bytes(&stay));
    assert_eq!(after, before - gone);
    assert!(after < loaded * 3 / 2, "{before} bytes became {after}, a load has {loaded}");
    let order = [(ShrinkStep::Merging, true), (ShrinkStep::Moving, true)];
    assert!(seen.windows(2).any(|pair| pair == order), "{seen:?}");
    assert_eq!(seen.last(), Some(&(ShrinkStep::Cutting, false)));
    assert!(steps > 100, "{steps} steps");
    assert_holds(&store, &stay);
    assert_eq!(store.shrink().unwrap(), 0, "there is nothing left to give");
    store.close().unwrap();
    assert_holds(&Store::open(options()).unwrap(), &stay);
}

/// Between any two steps the store is sound, and a check finds the way in.
#[test]
fn shrinking_can_be_stopped_and_goes_on_later() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(quick(dir.path())).unwrap();
    let stay = fill_and_remove(&store, 6000, 0.2);
    for allowed in (1..).step_by(37) {
        let mut steps = 0;
        let shrunk = store.shrink_with(&mut |_| {
            steps += 1;
            steps < allowed
        });
        shrunk.unwrap();
        assert_sound(&store);
        if steps < allowed {
            break;
        }
    }
    assert_holds(&store, &stay);
    let within = store.shrink_with(&mut |_| {
        assert!(matches!(store.shrink(), Err(polder::StoreError::Nested)));
        false
    });
    within.unwrap();
}

/// Nobody asks for it.
#[test]
fn a_store_that_was_emptied_becomes_small_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options::new(dir.path()).memory_budget(16 << 20).log_limit(64 << 20);
    let store = Store::open(options().durability(polder::Durability::None)).unwrap();
    let table = store.open_table("t").unwrap();
    table.bulk_load((0..100_000u64).map(|number| (number.to_be_bytes(), [1; 400]))).unwrap();
    let before = store.stats().pool.file_bytes;
    let stays = |number: u64| number.is_multiple_of(50);
    for number in (0..100_000u64).filter(|number| !stays(*number)) {
        table.delete(number.to_be_bytes()).unwrap();
    }
    let begun = Instant::now();
    while store.stats().pool.file_bytes > before / 10 {
        assert!(begun.elapsed() < Duration::from_secs(60), "of {before} bytes {:?}", store.stats());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(table.iter().count(), 2000);
    assert_sound(&store);
    drop(table);
    // Its thread is gone, and with it what held the file.
    store.close().unwrap();
    let store = Store::open(options()).unwrap();
    assert_eq!(store.table("t").unwrap().len(), 2000);
}
