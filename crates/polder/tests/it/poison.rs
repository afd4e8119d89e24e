//! A sync fails: what was acknowledged stays, nothing is acknowledged any more, and nothing that
//! only a cache may hold is believed.

use polder::{Durability, ReplacementKind, Store, StoreError, Table, WriteBatch};
use polder_testkit::{Errno, FaultPlan, Operation, SimDisk, When};

use crate::support::*;

/// What an error says that was the log's.
const LOG: &str = "syncing the log";

fn fail_next_sync(disk: &SimDisk) {
    disk.set_plan(FaultPlan::new(3).fail(Operation::Sync, When::Nth(0), Errno::IO));
}

fn superblocks(disks: &Disks) -> Vec<u8> {
    disks.data.peek(0, 8192)
}

fn assert_tells(error: &StoreError, what: &str) {
    let text = full_text(error);
    assert!(matches!(error, StoreError::NotDurable { .. } | StoreError::Log { .. }), "{text}");
    assert!(text.contains(what) && text.contains("Input/output error"), "{text}");
    assert!(text.contains("open the store again"), "{text}");
}

/// Every way to write, however often it is tried: the sync itself would succeed by now.
fn assert_poisoned(store: &Store, table: &Table, what: &str) {
    let batch = |store: &Store| {
        let mut batch = WriteBatch::new();
        batch.put(table, b"batch", b"1");
        store.apply(batch).map_err(|error| match error {
            polder::BatchError::Store(error) => error,
            other => panic!("{other}"),
        })
    };
    for _ in 0..3 {
        let quick = table.with_durability(Durability::None);
        let written = [
            table.put(b"late", b"1").map(drop),
            quick.put(b"late", b"1").map(drop),
            table.delete(0u64.to_be_bytes()).map(drop),
            quick.bulk_load([(b"a", b"b")]).map(drop),
            batch(store),
            store.create_table("late").map(drop),
            store.flush(),
            store.checkpoint(),
        ];
        for (i, result) in written.into_iter().enumerate() {
            match result {
                Err(StoreError::NotEmpty { .. }) if i == 3 => {}
                // If the log was not concerned, all that it has is durable.
                Ok(()) if i == 6 && what != LOG => {}
                Err(error) => assert_tells(&error, what),
                Ok(()) => panic!("way {i} succeeds"),
            }
        }
    }
}

/// Twenty acknowledged entries in `t`.
fn acknowledged(disks: &Disks) -> (Store, Table) {
    let store = open_on(disks);
    let table = store.open_table("t").unwrap();
    for i in 0..20u64 {
        table.put(i.to_be_bytes(), [i as u8; 100]).unwrap();
    }
    (store, table)
}

fn assert_acknowledged(store: &Store) {
    let table = store.table("t").unwrap();
    for i in 0..20u64 {
        assert_eq!(table.get(i.to_be_bytes()).unwrap().unwrap(), [i as u8; 100]);
    }
    assert_sound(store);
}

/// After the failure: opened again, at once and after a crash, and written again.
fn assert_recovers(disks: &Disks) {
    for disks in [disks.crash(1), disks.crash(2), disks.clone()] {
        let store = open_on(&disks);
        assert_acknowledged(&store);
        store.table("t").unwrap().put(b"again", b"1").unwrap();
        store.close().unwrap();
        let store = open_on(&disks);
        assert!(store.table("t").unwrap().contains_key(b"again").unwrap());
        assert_acknowledged(&store);
    }
}

/// Of many writes, that one could not be made is told, and which: the others may not be durable, but
/// those behind it were not even written.
#[test]
fn a_failed_sync_does_not_hide_which_of_many_failed() {
    for _ in 0..20 {
        let disks = disk();
        let (_store, table) = acknowledged(&disks);
        fail_next_sync(&disks.log);
        let pairs = [(vec![1], b"1"), (vec![2], b"2"), (vec![3; 1 << 16], b"3"), (vec![4], b"4")];
        let error = table.put_many(&pairs).unwrap_err();
        if matches!(error, StoreError::Key { index: ..2, .. }) {
            // It is the sync that failed which the store makes by itself now and then.
            continue;
        }
        assert!(matches!(error, StoreError::Key { index: 2, .. }), "{error:?}");
        assert!(table.contains_key([2]).unwrap() && !table.contains_key([4]).unwrap());
        assert_tells(&table.put([5], b"5").unwrap_err(), LOG);
        return;
    }
    panic!("a sync of the store's own came first each time");
}

#[test]
fn a_failed_sync_of_the_log() {
    let disks = disk();
    let (store, table) = acknowledged(&disks);
    let before = superblocks(&disks);
    fail_next_sync(&disks.log);
    let error = table.put(b"unlucky", b"1").unwrap_err();
    assert!(matches!(error, StoreError::NotDurable { .. }), "{error:?}");
    assert_tells(&error, LOG);
    assert_poisoned(&store, &table, LOG);
    // Readers go on.
    assert_acknowledged(&store);
    drop(table);
    assert_tells(&store.close().unwrap_err(), LOG);
    assert_eq!(superblocks(&disks), before, "no checkpoint is known that was not made");
    assert_recovers(&disks);
}

#[test]
fn a_failed_sync_of_the_data_file() {
    let disks = disk();
    let (store, table) = acknowledged(&disks);
    let before = superblocks(&disks);
    fail_next_sync(&disks.data);
    let error = store.checkpoint().unwrap_err();
    let text = full_text(&error);
    assert!(text.contains("syncing the data file"), "{text}");
    assert_poisoned(&store, &table, "syncing the data file");
    assert_acknowledged(&store);
    drop(table);
    store.close().unwrap_err();
    assert_eq!(superblocks(&disks), before, "no checkpoint is known that was not made");
    assert_recovers(&disks);
}

#[test]
fn each_failed_sync_of_a_checkpoint() {
    let mut failed = 0;
    for n in 0.. {
        let disks = disk();
        let (store, table) = acknowledged(&disks);
        let plan = FaultPlan::new(n);
        disks.data.set_plan(plan.fail(Operation::Sync, When::Nth(n), Errno::IO));
        let Err(error) = store.checkpoint() else { break };
        assert!(full_text(&error).contains("syncing the data file"), "{}", full_text(&error));
        failed += 1;
        assert_poisoned(&store, &table, "syncing the data file");
        drop(table);
        store.close().unwrap_err();
        assert_recovers(&disks);
    }
    assert!(failed >= 3, "one of the pages, and one of each superblock: {failed}");
}

/// Of a table that is larger than memory, pages were written since the last good sync: what the
/// device shows of them may be gone when it matters.
#[test]
fn pages_written_since_the_last_good_sync_are_not_read_back() {
    const ENTRIES: u64 = 4000;
    let disks = disk();
    // What was written last has gone by the time that it is read: S3-FIFO would keep some of it.
    // The log is long enough for all, so that no other checkpoint syncs a part of it.
    let options = tight("simulated").replacement(ReplacementKind::Clock).log_limit(64 << 20);
    let store = disks.open(options).unwrap();
    let table = store.open_table("t").unwrap();
    let quick = table.with_durability(Durability::None);
    let value = |i: u64, round: u8| vec![i as u8 ^ round; 500];
    let write = |round| {
        for i in 0..ENTRIES {
            quick.put(i.to_be_bytes(), value(i, round)).unwrap();
        }
    };
    write(0);
    store.checkpoint().unwrap();
    write(1);
    store.flush().unwrap();
    fail_next_sync(&disks.data);
    store.checkpoint().unwrap_err();
    let mut distrusted = 0;
    for i in 0..ENTRIES {
        match table.get(i.to_be_bytes()) {
            Ok(found) => assert_eq!(found, Some(value(i, 1))),
            Err(error) => {
                let text = full_text(&error);
                distrusted += u64::from(text.contains("before a sync that failed"));
            }
        }
    }
    assert!(distrusted > ENTRIES / 10, "only {distrusted} were distrusted");
    let crashed: Vec<_> = (0..3).map(|seed| disks.crash(seed)).collect();
    drop((table, quick));
    store.close().unwrap_err();
    for disks in crashed.into_iter().chain([disks]) {
        let store = open_on(&disks);
        let table = store.table("t").unwrap();
        for i in 0..ENTRIES {
            assert_eq!(table.get(i.to_be_bytes()).unwrap(), Some(value(i, 1)), "{i}");
        }
        assert_sound(&store);
    }
}

/// Pages cannot be written in place for a while, however often it is tried: once they can be,
/// nothing must be opened again.
#[test]
fn pages_that_could_not_be_written_are_written_later() {
    let disks = disk();
    let (store, table) = acknowledged(&disks);
    store.checkpoint().unwrap();
    table.put(0u64.to_be_bytes(), [0; 100]).unwrap();
    // More often than there are slots for second copies.
    for _ in 0..40 {
        let fail = |operation| FaultPlan::new(3).fail(operation, When::From(0), Errno::IO);
        disks.data.set_plan(fail(Operation::Write));
        store.checkpoint().unwrap_err();
    }
    disks.data.set_plan(FaultPlan::new(4));
    store.checkpoint().unwrap();
    store.close().unwrap();
    assert_acknowledged(&open_on(&disks));
}
