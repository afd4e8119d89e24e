//! A store on a device without a free block is opened, read, and rid of what is in it.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use polder::{Durability, OpenError, Options, Store, Table};
use polder_testkit::FaultPlan;

use crate::mount::Mount;
use crate::support::*;

const ROWS: u64 = 2000;

fn insert_rows(table: &Table) {
    for i in 0..ROWS {
        table.put(i.to_be_bytes(), [i as u8; 500]).unwrap();
    }
}

/// Reads all rows and removes every other one.
fn read_and_remove(store: &Store) {
    let table = store.table("t").unwrap();
    assert_eq!(table.len(), ROWS);
    for i in 0..ROWS {
        assert_eq!(table.get(i.to_be_bytes()).unwrap().unwrap(), [i as u8; 500]);
    }
    for i in (0..ROWS).step_by(2) {
        assert!(table.delete(i.to_be_bytes()).unwrap());
    }
    assert_eq!(table.len(), ROWS / 2);
    assert_sound(store);
}

/// Takes all that is left of a file system.
fn fill_up(path: &Path) {
    let mut file = File::create(path).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    while file.write_all(&[1]).is_ok() {}
}

#[test]
fn a_file_system_without_a_free_block() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mount) = Mount::new(dir.path(), "12M") else { return };
    let path = dir.path().join("store");
    let store = Store::open(quick(&path)).unwrap();
    insert_rows(&store.open_table("t").unwrap());
    store.close().unwrap();
    // As a device that was full before leaves it.
    File::create(path.join("lock")).unwrap();
    fill_up(&dir.path().join("full"));
    let store = Store::open(quick(&path)).unwrap();
    let Err(OpenError::Locked { process, .. }) = Store::open(quick(&path)) else { panic!("open") };
    assert_eq!(process, "another process");
    read_and_remove(&store);
    store.close().unwrap();
    // And after a crash.
    let store = Store::open(quick(&path)).unwrap();
    let table = store.table("t").unwrap();
    for i in (1..ROWS).step_by(4) {
        assert!(table.delete(i.to_be_bytes()).unwrap());
    }
    store.flush().unwrap();
    let copy = tempfile::tempdir().unwrap();
    for name in ["data", "log"] {
        fs::copy(path.join(name), copy.path().join(name)).unwrap();
    }
    drop(table);
    store.close().unwrap();
    for name in ["data", "log"] {
        // In place: there is no room for another copy.
        let mut file = File::options().write(true).open(path.join(name)).unwrap();
        // Nothing where it is the same: a hole would need room.
        let (old, now) = (fs::read(copy.path().join(name)).unwrap(), fs::read(path.join(name)));
        for (i, (old, now)) in old.chunks(4096).zip(now.unwrap().chunks(4096)).enumerate() {
            if old != now {
                file.seek(SeekFrom::Start(i as u64 * 4096)).unwrap();
                file.write_all(old).unwrap();
            }
        }
    }
    let store = Store::open(quick(&path)).unwrap();
    assert!(store.recovery().redone > 0, "{:?}", store.recovery());
    let table = store.table("t").unwrap();
    assert_eq!(table.len(), ROWS / 4);
    store.drop_table("t").unwrap();
    drop((table, store, mount));
}

/// A crash took space back that the data file had, and somebody else has it now.
#[test]
fn a_recovery_that_finds_no_room_for_what_the_file_had() {
    let disks = disk();
    let wide = || Options::new("simulated").memory_budget(16 << 20).durability(Durability::None);
    let store = disks.open(wide()).unwrap();
    store.checkpoint().unwrap();
    insert_rows(&store.open_table("t").unwrap());
    store.flush().unwrap();
    let mut tried = 0;
    for seed in 0..10 {
        let crashed = disks.crash(seed);
        let room = crashed.data.allocated_bytes();
        if room >= disks.data.allocated_bytes() {
            continue;
        }
        tried += 1;
        crashed.data.set_plan(FaultPlan::new(1).capacity(room));
        let store = crashed.open(wide()).unwrap();
        read_and_remove(&store);
        // What cannot be written is told to a caller that asks for it; the log has it.
        let error = store.checkpoint().unwrap_err();
        assert!(full_text(&error).contains("No space"), "{}", full_text(&error));
        store.flush().unwrap();
        let later = crashed.crash(seed);
        later.data.set_plan(FaultPlan::new(1));
        let later = later.open(wide()).unwrap();
        assert_eq!(later.table("t").unwrap().len(), ROWS / 2);
        assert_sound(&later);
        // With room again all is well without another opening.
        crashed.data.set_plan(FaultPlan::new(1));
        store.checkpoint().unwrap();
        let table = store.table("t").unwrap();
        insert_rows(&table);
        assert_sound(&store);
        drop(table);
        store.close().unwrap();
    }
    assert!(tried > 0, "no crash took anything back");
}
