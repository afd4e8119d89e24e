//! What closures of updates, entries of bulk loads and destructors of thread-locals may do.

use std::cell::RefCell;
use std::thread;

use polder::{BatchError, Change, Durability, Store, StoreError, Table, WriteBatch};

use crate::support::*;

/// All that changes a store, or waits until nobody does.
fn write_in_all_ways(store: &Store, table: &Table) -> Vec<Result<(), StoreError>> {
    let mut batch = WriteBatch::new();
    batch.put(table, b"key", b"by a batch");
    let applied = store.apply(batch).map_err(|error| match error {
        BatchError::Store(error) => error,
        other => panic!("{other}"),
    });
    vec![
        table.put(b"key", b"by an insert").map(drop),
        table.put(b"another", b"").map(drop),
        table.delete(b"key").map(drop),
        table.update_with(b"key", |_| Change::Remove),
        table.bulk_load([(b"a", b"")]).map(drop),
        applied,
        store.create_table("new").map(drop),
        store.drop_table("t"),
        store.shrink().map(drop),
        store.check(&mut |_, _| true).map(drop),
        store.clone().close(),
    ]
}

fn assert_all_refused(results: Vec<Result<(), StoreError>>) {
    for (number, result) in results.into_iter().enumerate() {
        assert!(matches!(result, Err(StoreError::Nested)), "{number}: {result:?}");
    }
}

#[test]
fn the_closure_of_an_update_reads_and_does_not_write() {
    let store = open_on(&disk());
    let table = store.open_table("t").unwrap();
    table.put(b"key", b"old").unwrap();
    let mut calls = 0;
    let mut change = |old: Option<&[u8]>| {
        calls += 1;
        assert_eq!(old, Some(&b"old"[..]));
        assert_all_refused(write_in_all_ways(&store, &table));
        assert_eq!(table.get(b"key").unwrap(), Some(b"old".to_vec()));
        assert_eq!(table.iter().count(), 1);
        Change::Keep
    };
    table.update_with(b"key", &mut change).unwrap();
    let mut batch = WriteBatch::new();
    batch.update_with(&table, b"key", &mut change);
    store.apply(batch).unwrap();
    assert_eq!(calls, 2);
    // Behind it everything goes again.
    table.put(b"key", b"new").unwrap();
    assert_sound(&store);
}

#[test]
fn the_entries_of_a_bulk_load_do_not_write() {
    let store = open_on(&disk());
    let (table, other) = (store.open_table("t").unwrap(), store.open_table("other").unwrap());
    other.put(b"k", b"v").unwrap();
    let entries = (0..3u64).map(|i| {
        assert_all_refused(write_in_all_ways(&store, &table));
        (i.to_be_bytes(), other.get(b"k").unwrap().unwrap())
    });
    assert_eq!(table.bulk_load(entries).unwrap(), 3);
    assert_sound(&store);
}

#[test]
fn the_closure_of_an_update_writes_to_another_store() {
    let (mine, other) = (open_on(&disk()), open_on(&disk()));
    let (table, theirs) = (mine.open_table("t").unwrap(), other.open_table("t").unwrap());
    table
        .update_with(b"k", |_| {
            theirs.put(b"k", b"1").unwrap();
            theirs
                .update_with(b"k", |_| {
                    assert_all_refused(write_in_all_ways(&mine, &table));
                    assert_all_refused(write_in_all_ways(&other, &theirs));
                    Change::Insert(b"2".to_vec())
                })
                .unwrap();
            Change::Insert(b"3".to_vec())
        })
        .unwrap();
    assert_eq!(table.get(b"k").unwrap(), Some(b"3".to_vec()));
    assert_eq!(theirs.get(b"k").unwrap(), Some(b"2".to_vec()));
    assert_sound(&mine);
    assert_sound(&other);
}

/// Uses a store when the thread ends.
struct AtTheEnd(RefCell<Option<(Store, Table)>>);

thread_local! {
    static AT_THE_END: AtTheEnd = const { AtTheEnd(RefCell::new(None)) };
}

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        let Some((store, table)) = self.0.take() else { return };
        let one = |_: Option<&[u8]>| Change::Insert(b"1".to_vec());
        for i in 0..200u64 {
            table.put(i.to_be_bytes(), [7; 300]).unwrap();
        }
        assert_eq!(table.get(7u64.to_be_bytes()).unwrap(), Some(vec![7; 300]));
        table.delete(1u64.to_be_bytes()).unwrap();
        table.update_with(b"updated", one).unwrap();
        table.with_durability(Durability::Sync).put(b"synced", b"1").unwrap();
        let mut batch = WriteBatch::new();
        batch.put(&table, b"batch", b"1").update_with(&table, b"asked", one);
        store.apply(batch).unwrap();
        store.create_table("late").unwrap().bulk_load([(b"a", b"1")]).unwrap();
        store.flush().unwrap();
        store.checkpoint().unwrap();
        assert_eq!(table.iter().filter(|entry| entry.is_ok()).count(), 203);
    }
}

/// The destructors of a thread's locals run in no order that one can rely on: ours may be gone.
#[test]
fn a_store_is_used_in_the_destructor_of_a_thread_local() {
    for uses_it_before in [false, true] {
        let store = open_on(&disk());
        let table = store.open_table("t").unwrap();
        let handles = (store.clone(), table.clone());
        thread::spawn(move || {
            // Made first, destroyed last.
            AT_THE_END.with(|at_the_end| {
                if uses_it_before {
                    handles.1.put(0u64.to_be_bytes(), b"before").unwrap();
                }
                at_the_end.0.replace(Some(handles));
            });
        })
        .join()
        .unwrap();
        assert_eq!(table.len(), 203);
        assert_eq!(store.table("late").unwrap().len(), 1);
        assert_sound(&store);
    }
}

/// The handle goes with the thread, and with it the store.
#[test]
fn a_store_is_closed_by_the_destructor_of_a_thread_local() {
    let disks = disk();
    let store = open_on(&disks);
    let table = store.open_table("t").unwrap();
    thread::spawn(move || AT_THE_END.with(|end| end.0.replace(Some((store, table)))))
        .join()
        .unwrap();
    let store = open_on(&disks);
    assert_eq!(store.recovery().groups, 0, "it was closed");
    assert_eq!(store.table("t").unwrap().len(), 203);
    assert_sound(&store);
}
