//! Each single I/O of a small workload fails once, on the data device and on the log's: an error
//! says so, nobody panics, and what was acknowledged is there when the store is opened again,
//! after the failure as after a crash in its wake.

use std::collections::BTreeMap;

use polder::{OpenError, Store, StoreError, WriteBatch};
use polder_testkit::effort::scale;
use polder_testkit::{Errno, FaultPlan, Operation, SimDisk, When};

use crate::support::*;

const WRITES: u64 = 30;
const OPERATIONS: [Operation; 6] = [
    Operation::Read,
    Operation::Write,
    Operation::Sync,
    Operation::Allocate,
    Operation::Truncate,
    Operation::Punch,
];

/// What each key may have: what was acknowledged last, then what was tried and failed since.
#[derive(Default)]
struct Known(BTreeMap<[u8; 8], Vec<Option<Vec<u8>>>>);

impl Known {
    fn wrote(&mut self, key: u64, value: Option<Vec<u8>>, result: Result<(), StoreError>) {
        let possible = self.0.entry(key.to_be_bytes()).or_insert_with(|| vec![None]);
        if let Err(error) = &result {
            assert_clear(error);
        } else {
            possible.clear();
        }
        possible.push(value);
    }

    fn assert_there(&self, disks: &Disks, what: &str) {
        let store = open(disks).unwrap_or_else(|error| panic!("{what}: {}", full_text(&error)));
        assert_sound(&store);
        let Ok(table) = store.table("t") else {
            assert!(self.0.values().all(|possible| possible[0].is_none()), "{what}: no table");
            return;
        };
        for (key, possible) in &self.0 {
            let found = table.get(key).unwrap();
            let len = found.as_ref().map(Vec::len);
            assert!(possible.contains(&found), "{what}: {key:?} has {len:?} bytes");
        }
        let mut there = table.iter().map(|entry| entry.unwrap().0);
        assert!(there.all(|key| self.0.contains_key(&key[..])), "{what}: a key of nobody");
    }
}

/// It says which file, and what the system said.
fn assert_clear(error: &dyn std::error::Error) {
    let text = full_text(error);
    assert!(text.contains("Input/output error"), "{text}");
    let file = ["log", "data file", "double-write area", "superblock", "simulated"];
    assert!(file.iter().any(|file| text.contains(file)), "{text}");
}

fn open(disks: &Disks) -> Result<Store, OpenError> {
    disks.open(tight("simulated"))
}

fn value(i: u64) -> Vec<u8> {
    vec![i as u8; if i % 7 == 3 { 20_000 } else { 600 }]
}

/// Makes a store and writes it, closes it, opens it, and writes and reads it again, whatever fails.
/// Gives whether something did.
fn workload(mut disks: Disks, what: &str) -> bool {
    let mut known = Known::default();
    let mut failed = false;
    for life in 0..2 {
        // What fails once must not fail again.
        let opened = open(&disks).or_else(|error| {
            assert_clear(&error);
            open(&disks)
        });
        let store = opened.unwrap_or_else(|error| panic!("again: {}", full_text(&error)));
        let table = match store.open_table("t") {
            Ok(table) => table,
            Err(error) => {
                assert_clear(&error);
                continue;
            }
        };
        for i in 0..WRITES {
            let (key, value) = ((i * 7 + life) % WRITES, value(i));
            match i % 6 {
                5 => {
                    let removed = table.delete(key.to_be_bytes());
                    known.wrote(key, None, removed.map(drop));
                }
                4 => {
                    let mut batch = WriteBatch::new();
                    batch.put(&table, key.to_be_bytes(), &value);
                    let done = store.apply(batch).map_err(|error| match error {
                        polder::BatchError::Store(error) => error,
                        other => panic!("{other}"),
                    });
                    known.wrote(key, Some(value), done);
                }
                _ => {
                    let inserted = table.put(key.to_be_bytes(), &value);
                    known.wrote(key, Some(value), inserted.map(drop));
                }
            }
            if i == WRITES / 2 {
                store.checkpoint().unwrap_or_else(|error| assert_clear(&error));
            }
        }
        let read = table.iter().try_for_each(|entry| entry.map(drop));
        read.unwrap_or_else(|error| assert_clear(&error));
        let dropped = store.open_table("other").and_then(|_| store.drop_table("other"));
        dropped.unwrap_or_else(|error| assert_clear(&error));
        store.shrink().map(drop).unwrap_or_else(|error| assert_clear(&error));
        drop(table);
        if disks.data.counts().failures + disks.log.counts().failures > 0 {
            known.assert_there(&disks.crash(life), &format!("{what}, crash in life {life}"));
        }
        store.close().unwrap_or_else(|error| assert_clear(&error));
        let failures = disks.data.counts().failures + disks.log.counts().failures;
        if failures > 0 {
            let crashed = disks.crash(life);
            disks.set_plan(&FaultPlan::new(life));
            known.assert_there(&disks, what);
            // A failed sync leaves in a cache what the device may have lost: go on without.
            disks = crashed;
            failed = true;
        }
    }
    disks.set_plan(&FaultPlan::new(0));
    known.assert_there(&disks, &format!("{what}, at the end"));
    failed
}

/// Gives whether the I/O took place, and failed.
fn fail_nth(device: fn(&Disks) -> &SimDisk, operation: Operation, n: u64, what: &str) -> bool {
    let disks = disk();
    device(&disks).set_plan(FaultPlan::new(n).fail(operation, When::Nth(n), Errno::IO));
    workload(disks, what)
}

fn fail_each(device: fn(&Disks) -> &SimDisk, name: &str) {
    for operation in OPERATIONS {
        let mut n = 0;
        while fail_nth(device, operation, n, &format!("{name}, {operation:?} {n}")) {
            n += 1;
        }
        let least = match operation {
            Operation::Read | Operation::Allocate => 3,
            Operation::Write | Operation::Sync => 10,
            Operation::Truncate | Operation::Punch => 0,
        };
        assert!(n >= least, "{name}: only {n} of {operation:?}");
    }
}

#[test]
fn each_io_of_the_data_device() {
    fail_each(|disks| &disks.data, "data");
}

#[test]
fn each_io_of_the_log_device() {
    fail_each(|disks| &disks.log, "log");
}

/// Devices fail for good while a store is made, and then the machine dies: what is left of it is in nobody's
/// way.
#[test]
fn a_store_that_could_not_be_made() {
    for operation in [Operation::Write, Operation::Sync] {
        for devices in [[true, false], [false, true], [true, true]] {
            let mut failed = 0;
            for from in 0..12 {
                for seed in 0..24 * scale() {
                    let disks = disk();
                    for (disk, fails) in [&disks.data, &disks.log].into_iter().zip(devices) {
                        let plan = FaultPlan::new(seed);
                        let failing = plan.clone().fail(operation, When::From(from), Errno::IO);
                        disk.set_plan(if fails { failing } else { plan });
                    }
                    failed += u64::from(open(&disks).is_err());
                    let what = format!("{operation:?} from {from} on, {devices:?}, seed {seed}");
                    let again = open(&disks.crash(seed));
                    again.unwrap_or_else(|error| panic!("{what}: {}", full_text(&error)));
                }
            }
            assert!(failed > 0, "{operation:?}, {devices:?}");
        }
    }
}
