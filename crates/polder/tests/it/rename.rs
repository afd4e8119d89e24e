//! A table that is renamed has one name at any time, whatever fails and whenever the power does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use polder::{Durability, StoreError};
use polder_testkit::{Errno, FaultPlan, Operation, Random, When, effort};

use crate::support::*;

/// A thread renames a table as fast as it can, without waiting for the device, and another one has
/// the log synced all the time: so the log ends somewhere within a rename.
#[test]
fn a_crash_leaves_one_name() {
    let mut random = Random::new(7);
    for seed in 0..effort::steps(30, 200) {
        let disks = disk();
        let store = disks.open(quick("simulated")).unwrap();
        store.create_table("a").unwrap().insert(b"key", b"value").unwrap();
        store.flush().unwrap();
        let other = store.create_table("other").unwrap().with_durability(Durability::Sync);
        let stop = AtomicBool::new(false);
        let crashed = thread::scope(|scope| {
            scope.spawn(|| {
                let mut names = ["a", "z"];
                while !stop.load(Ordering::Relaxed) {
                    store.rename_table(names[0], names[1]).unwrap();
                    names.reverse();
                }
            });
            scope.spawn(|| {
                for i in 0..u64::MAX {
                    other.put((i % 50).to_be_bytes(), b"").unwrap();
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            thread::sleep(Duration::from_micros(2000 + random.below(5000)));
            let crashed = disks.crash(seed);
            stop.store(true, Ordering::Relaxed);
            crashed
        });
        let store = crashed.open(quick("simulated")).unwrap();
        let mut names = store.tables().unwrap();
        names.retain(|name| name != "other");
        assert!(names == ["a"] || names == ["z"], "seed {seed}: {names:?}");
        let value = store.table(&names[0]).unwrap().get(b"key").unwrap();
        assert_eq!(value.as_deref(), Some(&b"value"[..]), "seed {seed}");
        assert_sound(&store);
    }
}

/// Each I/O of renaming a table fails once: it has the one name or the other.
#[test]
fn a_rename_that_fails_has_left_one_name() {
    let mut failed = [0; 2];
    let operations = [Operation::Read, Operation::Write, Operation::Sync];
    for (device, operation) in [0, 1].into_iter().flat_map(|d| operations.map(|op| (d, op))) {
        for n in 0.. {
            let disks = disk();
            let store = open_on(&disks);
            store.open_table("old").unwrap().insert(b"key", b"value").unwrap();
            store.close().unwrap();
            let store = open_on(&disks);
            let disk = [&disks.data, &disks.log][device];
            disk.set_plan(FaultPlan::new(1).fail(operation, When::Nth(n), Errno::IO));
            let renamed = store.rename_table("old", "new");
            if disk.counts().failures == 0 {
                break;
            }
            failed[device] += 1;
            let what = format!("device {device}, {operation:?} {n}: {renamed:?}");
            disk.set_plan(FaultPlan::new(1));
            match renamed {
                Ok(()) => assert_eq!(store.tables().unwrap(), ["new"], "{what}"),
                Err(StoreError::NotDurable { .. }) => {}
                Err(_) => assert_eq!(store.tables().unwrap(), ["old"], "{what}"),
            }
            drop(store);
            let store = open_on(&disks);
            assert_sound(&store);
            let names = store.tables().unwrap();
            assert!(names == ["new"] || renamed.is_err() && names == ["old"], "{what}: {names:?}");
            let table = store.table(&names[0]).unwrap();
            assert_eq!(table.get(b"key").unwrap().as_deref(), Some(&b"value"[..]), "{what}");
        }
    }
    assert!(failed[1] > 0, "{failed:?}");
}
