//! What is left of a store is never made anew: salvage may still read it. What an attempt to make
//! one has left is no obstacle.

use std::fs;
use std::path::Path;

use polder::{OpenError, OpenMode, Options, Store, salvage};
use polder_pool::device::{Device, write_block, write_zeros};
use polder_testkit::{FaultPlan, SimDisk};

use crate::support::*;

const MODES: [OpenMode; 3] = [OpenMode::Open, OpenMode::Create, OpenMode::OpenOrCreate];

/// A closed store whose log tells of all that is in it.
fn sample(path: &Path) {
    let store = Store::open(quick(path)).unwrap();
    let table = store.open_table("t").unwrap();
    for i in 0..500u64 {
        table.put(i.to_be_bytes(), [1; 100]).unwrap();
    }
    drop(table);
    store.close().unwrap();
}

/// No mode makes a store there; the error says where, what there is and what to do.
fn assert_refused(path: &Path, found: &str) {
    let log = path.join("log");
    let before = fs::read(&log).unwrap();
    for mode in MODES {
        let error = Store::open(tight(path).mode(mode)).unwrap_err();
        assert!(matches!(error, OpenError::Remains { .. }), "{mode:?}: {error:?}");
        let text = full_text(&error);
        for part in [&path.display().to_string(), found, "salvage", "remove the directory"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(fs::read(&log).unwrap() == before, "{mode:?}: the log was changed");
    }
}

#[test]
fn a_log_without_its_data_is_kept_and_salvaged() {
    let dir = tempfile::tempdir().unwrap();
    for is_missing in [true, false] {
        let path = dir.path().join(format!("store {is_missing}"));
        sample(&path);
        fs::remove_file(path.join("data")).unwrap();
        fs::remove_file(path.join("lock")).unwrap();
        if !is_missing {
            fs::write(path.join("data"), "").unwrap();
        }
        assert_refused(&path, "the `log` of a store");
        let to = dir.path().join(format!("new {is_missing}"));
        let report = salvage(&path, quick(&to), &mut |_, _, _| true).unwrap();
        assert_eq!(report.tables[0].entries, 500);
        // A caller that does not need it says so.
        fs::remove_dir_all(&path).unwrap();
        Store::open(tight(&path).mode(OpenMode::Create)).unwrap().close().unwrap();
    }
}

#[test]
fn a_log_that_cannot_be_read_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged");
    sample(&path);
    fs::remove_file(path.join("data")).unwrap();
    let mut log = fs::read(path.join("log")).unwrap();
    log[..4096].fill(0);
    fs::write(path.join("log"), &log).unwrap();
    assert_refused(&path, "cannot be read");
    // Zeros as long as the place of the superblocks are no new data file beside such a log.
    fs::write(path.join("data"), [0; 65536]).unwrap();
    Store::open(tight(&path)).unwrap_err();
    assert!(fs::read(path.join("log")).unwrap() == log);
    // Nor is a log that was never Polder's overwritten.
    let theirs = dir.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("log"), "what I did today").unwrap();
    assert_refused(&theirs, "cannot be read");
    assert!(!theirs.join("lock").exists(), "nothing is put beside it");
}

/// A copy of the first `bytes` bytes of a disk that was written to, behind it zeros.
fn begun(whole: &SimDisk, bytes: u64) -> SimDisk {
    let copy = SimDisk::crash_all([whole], 1).into_iter().next().unwrap();
    let len = copy.len().unwrap();
    write_zeros(&copy, bytes.min(len)..len, &mut || ()).unwrap();
    copy
}

#[test]
fn what_an_interrupted_create_leaves_is_no_obstacle() {
    let whole = disk();
    open_on(&whole).close().unwrap();
    // Nothing of the log, a part of its first block, and all of it before its first segment.
    let torn = SimDisk::new(FaultPlan::new(1));
    torn.allocate(0, 1 << 20).unwrap();
    write_block(&torn, 0, &[7; 4096]).unwrap();
    let empty = || SimDisk::new(FaultPlan::new(1));
    let zeros = empty();
    zeros.allocate(0, 1 << 20).unwrap();
    let header = begun(&whole.log, 4096);
    for log in [empty(), zeros, torn, header] {
        let disks = Disks { data: empty(), log };
        let store = open_on(&disks);
        store.open_table("t").unwrap().put(b"k", b"v").unwrap();
        store.close().unwrap();
        assert_eq!(open_on(&disks).table("t").unwrap().len(), 1);
    }
}

/// On devices of one's own, too.
#[test]
fn a_log_device_without_its_data_is_kept() {
    let whole = disk();
    open_on(&whole).close().unwrap();
    let disks = Disks { data: SimDisk::new(FaultPlan::new(1)), log: whole.log.clone() };
    let error = disks.open(Options::new("simulated")).unwrap_err();
    assert!(matches!(error, OpenError::Remains { .. }), "{error:?}");
    assert_eq!(whole.open(tight("simulated")).unwrap().tables().unwrap(), [""; 0]);
}
