//! A table that is gone is not said to be there, whatever fails behind its end.

use polder::StoreError;
use polder_testkit::{Errno, FaultPlan, Operation, When};

use crate::support::*;

/// Each I/O of dropping a table fails once.
#[test]
fn a_drop_that_fails_has_left_the_table() {
    let operations = [
        Operation::Read,
        Operation::Write,
        Operation::Sync,
        Operation::Allocate,
        Operation::Truncate,
        Operation::Punch,
    ];
    let mut failed = [0; 2];
    for (device, operation) in [0, 1].into_iter().flat_map(|d| operations.map(|op| (d, op))) {
        for n in 0.. {
            let disks = disk();
            let store = open_on(&disks);
            let table = store.open_table("t").unwrap();
            for i in 0..200u64 {
                table.put(i.to_be_bytes(), [1; 3000]).unwrap();
            }
            drop(table);
            store.close().unwrap();
            let store = open_on(&disks);
            store.checkpoint().unwrap();
            let disk = [&disks.data, &disks.log][device];
            disk.set_plan(FaultPlan::new(1).fail(operation, When::Nth(n), Errno::IO));
            let dropped = store.drop_table("t");
            if disk.counts().failures == 0 {
                break;
            }
            failed[device] += 1;
            let what = format!("device {device}, {operation:?} {n}: {dropped:?}");
            disk.set_plan(FaultPlan::new(1));
            match dropped {
                Ok(()) => assert_eq!(store.tables().unwrap(), [""; 0], "{what}"),
                // It says so itself: whether the change is there the next open tells.
                Err(StoreError::NotDurable { .. }) => {}
                Err(_) => assert_eq!(store.tables().unwrap(), ["t"], "{what}"),
            }
            drop(store);
            let store = open_on(&disks);
            assert_sound(&store);
            if dropped.is_ok() {
                assert_eq!(store.tables().unwrap(), [""; 0], "{what}");
                store.shrink().unwrap();
                assert!(store.stats().pool.file_bytes < 200 << 10, "{what}: its pages are taken");
            }
        }
    }
    assert!(failed.iter().all(|failed| *failed > 0), "{failed:?}");
}
