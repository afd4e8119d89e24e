//! Batches of which the log's records are longer than its buffer, and than 2 MiB: each is there as a
//! whole or not at all, whenever the machine dies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use polder::{BatchError, Durability, Options, Store, StoreError, WriteBatch};
use polder_testkit::Random;

use crate::support::*;

/// Keys of a batch, each with a value of so many bytes: some 4 MiB of records.
const KEYS: u64 = 4600;
const VALUE: usize = 850;

fn options() -> Options {
    let durability = Durability::Sync;
    Options::new("simulated").memory_budget(24 << 20).log_limit(48 << 20).durability(durability)
}

/// Gives all keys the same value, and some of them and others to another table.
fn batch<'b>(store: &Store, round: u64) -> WriteBatch<'b> {
    let [left, right] = ["left", "right"].map(|name| store.open_table(name).unwrap());
    let mut batch = WriteBatch::new();
    for key in 0..KEYS {
        let table = if key % 3 == 0 { &right } else { &left };
        batch.put(table, key.to_be_bytes(), [round as u8; VALUE]);
    }
    // A key that comes and goes with each round: the number of entries is in the log.
    match round % 2 {
        0 => batch.delete(&left, b"odd"),
        _ => batch.put(&left, b"odd", b"round"),
    };
    std::mem::take(batch.tag(round.to_le_bytes()))
}

/// The round that the store is at, if it is at one as a whole.
fn round_of(store: &Store) -> u64 {
    let Some(tag) = store.tag().unwrap() else { return 0 };
    let round = u64::from_le_bytes(tag.try_into().unwrap());
    let [left, right] = ["left", "right"].map(|name| store.table(name).unwrap());
    let mut keys = 0;
    for table in [&left, &right] {
        let mut entries = 0;
        for entry in table.iter() {
            let (key, value) = entry.unwrap();
            entries += 1;
            if key != b"odd" {
                keys += 1;
                assert!(value == [round as u8; VALUE], "a part of a batch, not of round {round}");
            }
        }
        assert_eq!(table.len(), entries, "round {round}");
    }
    assert_eq!(keys, KEYS, "round {round}");
    assert_eq!(left.get(b"odd").unwrap().is_some(), round % 2 == 1, "round {round}");
    round
}

#[test]
fn each_is_there_as_a_whole_or_not_at_all() {
    let rounds = (5 * scale()).clamp(3, 40);
    let disks = disk();
    let store = disks.open(options()).unwrap();
    let acknowledged = AtomicU64::new(0);
    let mut seen = Vec::new();
    thread::scope(|scope| {
        let (store, done) = (&store, &acknowledged);
        let writer = scope.spawn(move || {
            for round in 1..=rounds {
                store.apply(batch(store, round)).unwrap();
                done.store(round, Ordering::SeqCst);
            }
        });
        let mut random = Random::new(7);
        while !writer.is_finished() {
            thread::sleep(Duration::from_micros(500 + random.below(30_000)));
            let before = acknowledged.load(Ordering::SeqCst);
            let seed = random.next_u64();
            let died = if random.chance(0.3) { disks.kill(seed) } else { disks.crash(seed) };
            let later = died.open(options()).unwrap();
            let round = round_of(&later);
            assert!(round >= before && round <= before + 2, "{round} after {before}, seed {seed}");
            assert_sound(&later);
            seen.push(round);
        }
    });
    assert!(store.stats().log_file_bytes > 4 << 20);
    assert_eq!(round_of(&store), rounds);
    store.close().unwrap();
    let store = disks.open(options()).unwrap();
    assert_eq!(round_of(&store), rounds);
    println!("died at {seen:?}");
}

/// Threads that write beside it find room, and their changes are between batches.
#[test]
fn others_write_beside_them() {
    let disks = disk();
    let store = disks.open(options()).unwrap();
    let other = store.open_table("other").unwrap().with_durability(Durability::None);
    thread::scope(|scope| {
        let batches =
            scope.spawn(|| (1..=6).for_each(|round| store.apply(batch(&store, round)).unwrap()));
        let mut key = 0u64;
        while !batches.is_finished() {
            other.put((key % 1000).to_be_bytes(), key.to_be_bytes()).unwrap();
            key += 1;
        }
        assert!(key > 100, "only {key} changes went beside the batches");
    });
    store.flush().unwrap();
    let later = disks.crash(3).open(options()).unwrap();
    assert_eq!(round_of(&later), 6);
    assert_eq!(later.table("other").unwrap().len(), other.len());
    assert_sound(&later);
}

/// What limits a batch is the log's limit or memory, whichever is less; both are named.
#[test]
fn the_option_that_helps_is_the_one_that_is_named() {
    let refusal = |options: Options| {
        let store = disk().open(options).unwrap();
        let table = store.open_table("t").unwrap();
        let mut batch = WriteBatch::new();
        for key in 0..12_000u64 {
            batch.put(&table, key.to_be_bytes(), [1; 900]);
        }
        match store.apply(batch) {
            Ok(()) => None,
            Err(BatchError::Store(StoreError::ChangeTooLarge { needed, by_log, by_memory })) => {
                Some((needed, by_log, by_memory))
            }
            Err(error) => panic!("{error:?}"),
        }
    };
    let options = |budget: u64, log: u64| {
        let options = Options::new("simulated").durability(Durability::None);
        options.memory_budget(budget << 20).log_limit(log << 20)
    };
    let (needed, by_log, by_memory) = refusal(options(256, 16)).unwrap();
    assert!(by_log < needed && by_memory >= needed, "{needed}, {by_log}, {by_memory}");
    let (needed, by_log, by_memory) = refusal(options(24, 256)).unwrap();
    assert!(by_log >= needed && by_memory < needed, "{needed}, {by_log}, {by_memory}");
    assert_eq!(refusal(options(64, 64)), None);
}
