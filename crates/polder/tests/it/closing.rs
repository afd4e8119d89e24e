//! Closing, checking, shrinking and figures, while others are at work.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use polder::{BatchError, Change, Store, StoreError, WriteBatch};
use polder_pool::device::{Batch, Device, Direction};
use polder_testkit::{Errno, FaultPlan, Operation, Random, SimDisk, When};

use crate::support::*;

#[test]
fn whoever_comes_after_the_close_hears_of_it() {
    let disk = disk();
    let store = open_on(&disk);
    let table = store.open_table("t").unwrap();
    table.put(b"a", b"1").unwrap();
    table.put(b"b", b"2").unwrap();
    let (clone, mut range) = (store.clone(), table.iter());
    range.next().unwrap().unwrap();
    store.close().unwrap();
    let results: Vec<Result<(), StoreError>> = vec![
        table.get(b"a").map(drop),
        table.get_with(b"a", |_| ()).map(drop),
        table.get_versioned_with(b"a", |_, _| ()).map(drop),
        table.contains_key(b"a").map(drop),
        table.put(b"c", b"").map(drop),
        table.delete(b"a").map(drop),
        table.update_with(b"a", |_| Change::Keep),
        table.first().map(drop),
        table.last().map(drop),
        table.bulk_load([(b"x", b"")]).map(drop),
        range.next().unwrap().map(drop),
        clone.create_table("u").map(drop),
        clone.table("t").map(drop),
        clone.open_table("t").map(drop),
        clone.drop_table("t"),
        clone.tables().map(drop),
        clone.flush(),
        clone.checkpoint(),
        clone.tag().map(drop),
        clone.apply(WriteBatch::new()).map_err(|error| match error {
            BatchError::Store(error) => error,
            other => panic!("{other}"),
        }),
        table.version(b"a").map(drop),
        table.get_versioned(b"a").map(drop),
        clone.shrink().map(drop),
        clone.check(&mut |_, _| true).map(drop),
        clone.clone().close(),
    ];
    for (i, result) in results.into_iter().enumerate() {
        assert!(matches!(result, Err(StoreError::Closed)), "{i}: {result:?}");
    }
    // Figures and names need no open store.
    assert_eq!((table.name(), clone.page_size()), ("t", 4096));
    clone.stats();
    let store = open_on(&disk);
    assert_eq!(store.table("t").unwrap().len(), 2);
    assert_sound(&store);
}

/// A device that holds up one read, the next one when it is told to.
#[derive(Debug, Clone)]
struct Gated {
    disk: SimDisk,
    gate: Arc<AtomicU8>,
}

const OPEN: u8 = 0;
/// The next read waits.
const NEXT: u8 = 1;
/// It does.
const WAITS: u8 = 2;

impl Device for Gated {
    fn perform(&self, batch: Batch) -> Batch {
        let reads = batch.requests().iter().any(|request| request.direction == Direction::Read);
        let order = Ordering::SeqCst;
        if reads && self.gate.compare_exchange(NEXT, WAITS, order, order).is_ok() {
            while self.gate.load(order) == WAITS {
                thread::sleep(Duration::from_millis(1));
            }
        }
        self.disk.perform(batch)
    }
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }
    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.disk.allocate(offset, bytes)
    }
    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.disk.truncate(bytes)
    }
    fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.disk.punch(offset, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }
}

/// A process that opens the store next may change what is being read.
#[test]
fn a_close_waits_for_reads_of_the_device() {
    let disks = disk();
    let store = open_on(&disks);
    let table = store.open_table("t").unwrap();
    table.bulk_load((0..50_000u64).map(|i| (i.to_be_bytes(), [1; 100]))).unwrap();
    drop(table);
    store.close().unwrap();
    let data = Gated { disk: disks.data.clone(), gate: Arc::default() };
    let log = Box::new(disks.log.clone());
    let store = Store::open_on(Box::new(data.clone()), log, quick("gated")).unwrap();
    let table = store.table("t").unwrap();
    table.get(0u64.to_be_bytes()).unwrap();
    data.gate.store(NEXT, Ordering::SeqCst);
    let is_closed = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| table.get(40_000u64.to_be_bytes()));
        while data.gate.load(Ordering::SeqCst) != WAITS {
            thread::yield_now();
        }
        scope.spawn(|| {
            store.close().unwrap();
            is_closed.store(true, Ordering::SeqCst);
        });
        thread::sleep(Duration::from_millis(300));
        let was_closed = is_closed.load(Ordering::SeqCst);
        data.gate.store(OPEN, Ordering::SeqCst);
        assert!(!was_closed, "closed while a page is read");
        // It may have had what it needs by then.
        let read = reader.join().unwrap();
        assert!(matches!(&read, Ok(Some(_)) | Err(StoreError::Closed)), "{read:?}");
    });
}

#[test]
fn a_range_ends_after_an_error() {
    let disks = disk();
    let store = open_on(&disks);
    let table = store.open_table("t").unwrap();
    table.bulk_load((0..20_000u64).map(|i| (i.to_be_bytes(), [1; 100]))).unwrap();
    drop(table);
    store.close().unwrap();
    let store = open_on(&disks);
    let table = store.table("t").unwrap();
    let fails = FaultPlan::new(1).fail(Operation::Read, When::From(0), Errno::IO);
    let mut range = table.iter();
    let good = range.by_ref().take(10).filter(|entry| entry.is_ok()).count();
    disks.set_plan(&fails);
    let (mut read, mut failed) = (good, 0);
    // Each end gives the error once at most, and then nothing.
    while let Some(entry) = range.next() {
        match entry {
            Ok(_) => read += 1,
            Err(error) => {
                assert!(matches!(error, StoreError::Io { .. }), "{error}");
                failed += 1;
                assert!(range.next().is_none() && range.next_back().is_none());
                assert_eq!(range.next_entry().unwrap(), None);
            }
        }
    }
    assert_eq!((read < 20_000, failed), (true, 1));
    assert!(table.iter().rev().flatten().count() < 20_000);
    // It goes on where it was if it is asked to.
    disks.set_plan(&FaultPlan::new(1));
    assert!(range.next().is_none());
    range.resume();
    assert_eq!(range.filter(|entry| entry.is_ok()).count(), 20_000 - read);
    let range = table.iter();
    store.close().unwrap();
    assert_eq!(range.flatten().count(), 0);
}

#[test]
fn a_close_waits_for_writers() {
    for round in 0..8 {
        let disk = disk();
        let store = open_on(&disk);
        let table = store.open_table("t").unwrap();
        let written = AtomicU64::new(0);
        thread::scope(|scope| {
            for t in 0..4u64 {
                let (table, written) = (&table, &written);
                scope.spawn(move || {
                    for i in 0.. {
                        let key = (i * 4 + t).to_be_bytes();
                        match table.put(key, [t as u8; 200]) {
                            Ok(new) => assert!(new),
                            Err(StoreError::Closed) => return,
                            Err(error) => panic!("{error}"),
                        }
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            thread::sleep(Duration::from_millis(10 * round));
            store.close().unwrap();
        });
        let store = open_on(&disk);
        let table = store.open_table("t").unwrap();
        assert_eq!(table.len(), written.into_inner());
        assert_eq!(
            table.iter().filter(|e| e.as_ref().unwrap().1.len() == 200).count() as u64,
            table.len()
        );
        assert_sound(&store);
    }
}

#[test]
fn a_failed_close_is_told_and_loses_nothing() {
    let disk = disk();
    let store = open_on(&disk);
    store.open_table("t").unwrap().put(b"k", b"v").unwrap();
    disk.set_plan(&FaultPlan::new(1).fail(Operation::Write, When::From(0), Errno::IO));
    let error = store.close().unwrap_err();
    assert!(full_text(&error).contains("Input/output error"), "{}", full_text(&error));
    disk.set_plan(&FaultPlan::new(1));
    let store = open_on(&disk);
    assert!(store.recovery().groups > 0, "{:?}", store.recovery());
    assert_eq!(store.table("t").unwrap().get(b"k").unwrap().unwrap(), b"v");
    assert_sound(&store);
}

#[test]
fn a_check_tells_how_far_it_is_and_can_be_stopped() {
    let store = open_on(&disk());
    for name in ["a", "b"] {
        let table = store.open_table(name).unwrap();
        table.bulk_load((0..20_000u64).map(|i| (i.to_be_bytes(), [1; 90]))).unwrap();
    }
    let mut last = (0, 0);
    let report = store
        .check(&mut |done, all| {
            assert!(done >= last.0 && done <= all && (last.1 == 0 || all == last.1));
            last = (done, all);
            true
        })
        .unwrap();
    assert_eq!((report.entries, report.stopped), (40_000, false));
    assert!(last.0 > report.pages * 9 / 10 && report.pages <= last.1, "{last:?} {report:?}");
    let report = store.check(&mut |done, _| done < 20).unwrap();
    assert!(report.stopped && report.pages < 30, "{report:?}");
    assert_eq!(report.faults, []);
    // Writers go on afterwards.
    store.table("a").unwrap().put(b"k", b"v").unwrap();
}

#[test]
fn a_check_among_writers_finds_nothing() {
    let store = open_on(&disk());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for t in 0..4u64 {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                let table = store.open_table("t").unwrap();
                let mut random = Random::new(t);
                while !stop.load(Ordering::Relaxed) {
                    let key = random.below(3000).to_be_bytes();
                    if random.chance(0.5) {
                        let len = if random.chance(0.02) { 9000 } else { 250 };
                        table.put(key, vec![1; len]).unwrap();
                    } else {
                        table.delete(key).unwrap();
                    }
                }
            });
        }
        let checked = (0..15).map(|_| {
            thread::sleep(Duration::from_millis(10));
            store.check(&mut |_, _| true)
        });
        let checked: Vec<_> = checked.collect();
        stop.store(true, Ordering::Relaxed);
        checked.into_iter().for_each(|report| assert_eq!(report.unwrap().faults, []));
    });
}

#[test]
fn a_store_shrinks_while_it_is_used() {
    let disk = disk();
    let store = open_on(&disk);
    let stays = store.open_table("stays").unwrap();
    let value = |i: u64| vec![i as u8; 300];
    for i in 0..3000u64 {
        let extra = store.open_table("extra").unwrap();
        extra.put(i.to_be_bytes(), [0; 300]).unwrap();
        stays.put(i.to_be_bytes(), value(i)).unwrap();
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for t in 0..4u64 {
            let (stays, stop) = (&stays, &stop);
            scope.spawn(move || {
                let mut random = Random::new(t);
                while !stop.load(Ordering::Relaxed) {
                    let i = random.below(3000);
                    if t % 2 == 0 {
                        assert_eq!(stays.get(i.to_be_bytes()).unwrap().unwrap(), value(i));
                    } else {
                        stays.put(i.to_be_bytes(), value(i)).unwrap();
                    }
                }
            });
        }
        for _ in 0..10 {
            store.drop_table("extra").unwrap();
            store.shrink().unwrap();
            let extra = store.open_table("extra").unwrap();
            extra.bulk_load((0..2000u64).map(|i| (i.to_be_bytes(), [9; 200]))).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_sound(&store);
    drop(stays);
    store.close().unwrap();
    let store = open_on(&disk);
    let stays = store.table("stays").unwrap();
    (0..3000u64).for_each(|i| assert_eq!(stays.get(i.to_be_bytes()).unwrap().unwrap(), value(i)));
    assert_sound(&store);
}

#[test]
fn figures_add_up() {
    let disk = disk();
    let store = open_on(&disk);
    let table = store.open_table("t").unwrap();
    let small = store.open_table("small").unwrap();
    small.put(b"k", b"v").unwrap();
    for i in 0..5000u64 {
        table.put(i.to_be_bytes(), [1; 400]).unwrap();
    }
    for i in 0..5000u64 {
        table.get(i.to_be_bytes()).unwrap().unwrap();
    }
    let stats = store.stats();
    assert_eq!(
        (stats.pool.page_size_bytes, stats.pool.memory_budget_bytes),
        (4096, store.memory_budget())
    );
    assert!(
        stats.pool.resident_pages <= stats.pool.frames
            && stats.pool.resident_pages > stats.pool.frames / 2
    );
    assert_eq!(stats.pool.frames_free, stats.pool.frames - stats.pool.resident_pages);
    assert!(stats.pool.dirty_pages <= stats.pool.resident_pages);
    assert_eq!(stats.pool.frame_bytes, stats.pool.resident_pages * 4096);
    assert!(
        stats.pool.frame_bytes + stats.pool.metadata_bytes + stats.pool.translation_bytes
            <= stats.pool.memory_budget_bytes
    );
    assert!(stats.pool.hits > 5000 * 2 && stats.pool.faults > 300, "{stats:?}");
    assert!(
        stats.pool.evictions > 300
            && stats.pool.write_backs > 300
            && stats.pool.restarts >= stats.pool.faults / 2
    );
    let counts = disk.data.counts();
    assert!(
        stats.pool.device_reads <= counts.reads
            && stats.pool.device_reads * 4096 == stats.pool.device_read_bytes
    );
    assert!(
        stats.pool.device_written_bytes <= counts.written_bytes
            && stats.pool.device_writes * 4096 == stats.pool.device_written_bytes
    );
    assert!(stats.pool.device_reads >= stats.pool.faults);
    assert_eq!(stats.pool.file_bytes, polder_pool::device::Device::len(&disk.data).unwrap());
    let names: Vec<_> = stats.tables.iter().map(|t| (t.name.as_str(), t.entries)).collect();
    assert_eq!(names, [("small", 1), ("t", 5000)]);
    let big = &stats.tables[1];
    assert!(big.pages > 5000 / 9 && big.resident_pages <= stats.pool.resident_pages);
    assert!(big.dirty_pages <= big.resident_pages);
    store.checkpoint().unwrap();
    assert_eq!(store.stats().pool.dirty_pages, 0);
}

/// A checkpoint that waits for another one while the store is closed must not write behind the
/// close: somebody else may have opened the files by then.
#[test]
fn nothing_is_written_behind_a_close() {
    for round in 0..100 {
        let disks = disk();
        let store = open_on(&disks);
        let table = store.open_table("t").unwrap();
        let written = thread::scope(|scope| {
            let askers: Vec<_> = (0..4)
                .map(|_| {
                    let store = store.clone();
                    scope.spawn(move || {
                        loop {
                            match store.checkpoint() {
                                Ok(()) => {}
                                Err(StoreError::Closed) => break,
                                Err(error) => panic!("{error}"),
                            }
                        }
                    })
                })
                .collect();
            for i in 0..50u64 + round {
                table.put(i.to_be_bytes(), [1; 100]).unwrap();
            }
            store.close().unwrap();
            let written = (disks.data.counts().writes, disks.log.counts().writes);
            askers.into_iter().for_each(|asker| asker.join().unwrap());
            written
        });
        assert_eq!((disks.data.counts().writes, disks.log.counts().writes), written);
    }
}
