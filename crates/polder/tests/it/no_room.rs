//! Disks without room, while a store is open: inserts are refused, all else goes on, and inserts go
//! on too as soon as there is room again.

use std::time::{Duration, Instant};

use polder::{Durability, StoreError, Table};
use polder_pool::device::Device;
use polder_testkit::{FaultPlan, Model, Random};

use crate::support::*;

/// What is written in one test, and is much more than the log holds.
const MUCH_BYTES: u64 = 8 << 20;

fn insert(table: &Table, model: &mut Model, key: u64, len: usize) -> Result<(), StoreError> {
    let (key, value) = (key.to_be_bytes(), vec![key as u8; len]);
    table.put(key, &value)?;
    model.entries.insert(key.to_vec(), value);
    Ok(())
}

/// Inserts until that is refused a few times; gives the next key.
fn fill(table: &Table, model: &mut Model, first: u64) -> u64 {
    let mut refused = 0;
    let mut key = first;
    while refused < 20 {
        let len = if key % 50 == 7 { 15_000 } else { 500 };
        if let Err(error) = insert(table, model, key, len) {
            assert!(matches!(error, StoreError::Full { .. }), "{}", full_text(&error));
            let text = full_text(&error);
            assert!(text.contains("no room") && text.contains("disk is full"), "{text}");
            refused += 1;
        }
        key += 1;
    }
    key
}

/// Overwrites what is there again and again, much more than the log holds.
fn overwrite(table: &Table, model: &mut Model, seed: u64) {
    let keys: Vec<_> = model.entries.keys().cloned().collect();
    let mut random = Random::new(seed);
    let mut written = 0;
    while written < MUCH_BYTES {
        let key = &keys[random.index(keys.len())];
        let value = vec![random.below(256) as u8; model.entries[key].len()];
        if value.len() < 1000 {
            let sync = random.chance(0.01);
            let durability = if sync { Durability::Sync } else { Durability::None };
            written += value.len() as u64;
            table.with_durability(durability).put(key, &value).unwrap();
            model.entries.insert(key.clone(), value);
        }
    }
}

#[test]
fn a_full_data_disk() {
    let disks = disk();
    let store = open_on(&disks);
    let table = store.open_table("t").unwrap().with_durability(Durability::None);
    let mut model = Model::default();
    let mut key = 0;
    for megabytes in [1, 2, 4] {
        disks.data.set_plan(FaultPlan::new(1).capacity(megabytes << 20));
        key = fill(&table, &mut model, key);
        // Everything else works: reading, overwriting, removing, checkpoints.
        assert_content(&table, &model);
        overwrite(&table, &mut model, megabytes);
        store.checkpoint().unwrap();
        for (i, removed) in model.entries.keys().cloned().collect::<Vec<_>>().iter().enumerate() {
            if i % 3 != 0 {
                assert!(table.delete(removed).unwrap());
                model.entries.remove(removed);
            }
        }
        // What was removed makes room.
        for _ in 0..20 {
            key += 50 - key % 50;
            insert(&table, &mut model, key, 500).unwrap();
        }
        assert_content(&table, &model);
        assert_sound(&store);
        store.flush().unwrap();
        let crashed = open_on(&disks.crash(megabytes));
        assert_content(&crashed.table("t").unwrap(), &model);
        assert_sound(&crashed);
    }
    disks.data.set_plan(FaultPlan::new(1));
    for _ in 0..2000 {
        key += 1;
        insert(&table, &mut model, key, 500).unwrap();
    }
    assert_content(&table, &model);
    drop(table);
    store.close().unwrap();
    let store = open_on(&disks);
    assert_content(&store.table("t").unwrap(), &model);
    assert_sound(&store);
}

#[test]
fn a_log_that_cannot_grow() {
    let begun = Instant::now();
    let disks = disk();
    let store = open_on(&disks);
    let first = disks.log.allocated_bytes();
    for more in [0, 1 << 20] {
        // Not enough for the next segment, and then for some that come in vain.
        disks.log.set_plan(FaultPlan::new(1).capacity(first + 4096 + more));
        let table = store.open_table("t").unwrap().with_durability(Durability::None);
        let mut model = Model::default();
        for key in 0..2000 {
            insert(&table, &mut model, key, 500).unwrap();
        }
        overwrite(&table, &mut model, 7);
        assert!(disks.log.allocated_bytes() <= first + 4096 + more);
        assert_content(&table, &model);
        store.flush().unwrap();
        let crashed = open_on(&disks.crash(1));
        assert_content(&crashed.table("t").unwrap(), &model);
        assert_sound(&crashed);
    }
    store.close().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "writers wait for nothing");
    // With room it grows, after the next open at the latest.
    disks.log.set_plan(FaultPlan::new(1));
    let store = open_on(&disks);
    let table = store.table("t").unwrap().with_durability(Durability::None);
    let mut model = Model { entries: table.iter().map(Result::unwrap).collect() };
    overwrite(&table, &mut model, 9);
    assert!(disks.log.allocated_bytes() > first);
    assert_content(&table, &model);
    assert_sound(&store);
}

#[test]
fn a_log_that_cannot_be_made() {
    let whole = disk();
    open_on(&whole).close().unwrap();
    let whole = whole.log.allocated_bytes();
    for capacity in [0, 4096, 100 << 10, whole / 2, whole - 4096] {
        let disks = disk();
        disks.log.set_plan(FaultPlan::new(1).capacity(capacity));
        let error = disks.open(tight("simulated")).unwrap_err();
        let text = full_text(&error);
        assert!(text.contains("No space") && text.contains("log"), "{text}");
        assert_eq!(disks.data.len().unwrap(), 0, "nothing is left");
        disks.log.set_plan(FaultPlan::new(1));
        let store = open_on(&disks);
        store.open_table("t").unwrap().put(b"k", b"v").unwrap();
        assert_eq!(open_on(&disks.crash(capacity)).table("t").unwrap().len(), 1);
    }
}
