//! Batches by futures: a poll makes them where they wait for nothing but pages.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use polder::{AsyncStore, BatchError, Durability, Store, Table, WriteBatch};
use polder_testkit::{FaultPlan, Random};

use crate::futures::{NUMBERS, assert_no_frame_is_kept, block_on, cold, key, run_all};
use crate::support::*;

fn first_poll(store: &AsyncStore, batch: WriteBatch<'static>) -> Poll<Result<(), BatchError>> {
    pin!(store.apply(batch)).poll(&mut Context::from_waker(Waker::noop()))
}

fn in_memory() -> (tempfile::TempDir, Store, Table) {
    let dir = tempfile::tempdir().unwrap();
    let options = polder::Options::new(dir.path().join("s")).durability(Durability::None);
    let store = Store::open(options).unwrap();
    let table = store.open_table("t").unwrap();
    (dir, store, table)
}

#[test]
fn what_is_in_memory_is_changed_by_the_first_poll() {
    let (_dir, store, table) = in_memory();
    table.put("a", "1").unwrap();
    let later = store.asynchronous();
    let seen = table.version("a").unwrap();
    let change = |seen| {
        let mut batch = WriteBatch::new();
        batch.expect(&table, "a", seen).put(&table, "a", "2").put(&table, "b", "3").tag("first");
        batch
    };
    assert!(matches!(first_poll(&later, change(seen)), Poll::Ready(Ok(()))));
    assert_eq!(table.get("a").unwrap(), Some(b"2".to_vec()));
    assert_eq!(table.get("b").unwrap(), Some(b"3".to_vec()));
    assert_eq!(store.tag().unwrap(), Some(b"first".to_vec()));
    let other = first_poll(&later, change(seen));
    assert!(matches!(other, Poll::Ready(Err(BatchError::Unexpected { .. }))), "{other:?}");
}

/// What would keep the thread of a poll for long, or runs code of its user's, is made by another thread.
#[test]
fn what_a_poll_should_not_make_is_handed_over() {
    let (_dir, store, table) = in_memory();
    table.put("a", "1").unwrap();
    let later = store.asynchronous();
    let many = |count: u32| {
        let mut batch = WriteBatch::new();
        for number in 0..count {
            batch.put(&table, number.to_be_bytes(), [7]);
        }
        batch
    };
    block_on(later.apply(many(1000))).unwrap();
    assert_eq!(table.len(), 1001);
    table.put("long", vec![7; 100_000]).unwrap();
    let mut short = WriteBatch::new();
    short.put(&table, "long", "short");
    block_on(later.apply(short)).unwrap();
    assert_eq!(table.get("long").unwrap(), Some(b"short".to_vec()));
    let polling = thread::current().id();
    let mut update = WriteBatch::new();
    update.update_with(&table, "a", move |value| {
        assert_ne!(thread::current().id(), polling);
        polder::Change::Insert(value.unwrap().repeat(2))
    });
    block_on(later.apply(update)).unwrap();
    assert_eq!(table.get("a").unwrap(), Some(b"11".to_vec()));
}

/// Hundreds at once, of keys that are not in memory: each is made whole, in some order.
#[test]
fn many_wait_for_their_pages_together() {
    const BATCHES: u64 = 400;
    const KEYS: usize = 8;
    let disks = disk();
    let (store, table) = cold(&disks);
    let table = table.with_durability(Durability::None);
    let later = store.asynchronous();
    let reads = store.stats().pool.device_reads;
    let mut random = Random::new(11);
    let mut keys = Vec::new();
    let batches = (0..BATCHES).map(|number| {
        let mut batch = WriteBatch::new();
        let mut own: Vec<u64> = (0..KEYS).map(|_| random.below(NUMBERS)).collect();
        own.sort_unstable();
        own.dedup();
        for of in &own {
            batch.put(&table, key(*of), number.to_be_bytes());
        }
        batch.put(&table, [b"of ", &number.to_be_bytes()[..]].concat(), [own.len() as u8]);
        batch.durability(Durability::None);
        keys.push(own);
        batch
    });
    let batches: Vec<_> = batches.collect();
    let applied = run_all(batches.into_iter().map(|batch| later.apply(batch)).collect());
    applied.into_iter().for_each(Result::unwrap);
    assert!(store.stats().pool.device_reads > reads + BATCHES);
    // A helper waits for each of its reads.
    let most = disks.data.counts().most_queued;
    assert!(most > 1, "{most} reads were under way at once");
    for (number, own) in keys.iter().enumerate() {
        let said = table.get([b"of ", &(number as u64).to_be_bytes()[..]].concat()).unwrap();
        assert_eq!(said, Some(vec![own.len() as u8]));
        for of in own {
            let last = table.get(key(*of)).unwrap().unwrap();
            let last = u64::from_be_bytes(last.try_into().unwrap()) as usize;
            assert!(keys[last].contains(of), "{of} is by {last}");
        }
    }
    assert_no_frame_is_kept(&store);
    assert_sound(&store);
}

/// Leaves that batches have emptied are merged, though no poll does it.
#[test]
fn what_they_remove_gives_room() {
    let (_dir, store, table) = in_memory();
    let later = store.asynchronous();
    let numbers: Vec<u32> = (0..20_000).collect();
    table.bulk_load(numbers.iter().map(|number| (number.to_be_bytes(), [7; 100]))).unwrap();
    let pages = || store.check(&mut |_, _| true).unwrap().pages;
    let before = pages();
    for chunk in numbers.chunks(20) {
        let mut batch = WriteBatch::new();
        for number in chunk {
            batch.delete(&table, number.to_be_bytes());
        }
        block_on(later.apply(batch)).unwrap();
    }
    assert!(table.is_empty());
    let begun = Instant::now();
    while pages() > before / 4 {
        assert!(begun.elapsed() < Duration::from_secs(10), "{} of {before} pages", pages());
        thread::sleep(Duration::from_millis(10));
    }
    assert_sound(&store);
}

/// The ring of the log is full, and the device takes its time: helpers wait, and no poll does.
#[test]
fn no_poll_waits_for_the_log() {
    let disks = disk();
    let options = polder::Options::new("simulated").memory_budget(16 << 20);
    let store = disks.open(options.durability(Durability::None)).unwrap();
    let table = store.open_table("t").unwrap();
    let later = (store.asynchronous(), table.asynchronous());
    let entries = |round: u8| (0..4000u32).map(move |n| (n.to_be_bytes(), vec![round; 1000]));
    // The log is as long as it will have to be.
    for (key, value) in entries(1) {
        table.put(key, value).unwrap();
    }
    store.flush().unwrap();
    disks.log.set_plan(FaultPlan::new(7).delay(1.0, Duration::from_millis(400)));
    let mut waiting: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
    for (key, value) in entries(2) {
        let ((store, table), row) = (later.clone(), later.1.table().clone());
        let number = u32::from_be_bytes(key);
        let mut write: Pin<Box<dyn Future<Output = ()>>> = match number % 2 {
            0 => Box::pin(async move { assert!(!table.put(key, value).await.unwrap()) }),
            _ => Box::pin(async move {
                let mut batch = WriteBatch::new();
                batch.put(&row, key, value);
                store.apply(batch).await.unwrap();
            }),
        };
        let begun = Instant::now();
        let polled = write.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let took = begun.elapsed();
        assert!(took < Duration::from_millis(50), "the poll of {number} took {took:?}");
        if polled.is_pending() {
            waiting.push(write);
        }
    }
    assert!(!waiting.is_empty());
    disks.log.set_plan(FaultPlan::new(7));
    run_all(waiting);
    assert!(table.iter().all(|entry| entry.unwrap().1 == [2; 1000]));
    assert_sound(&store);
}
