//! The log of a closed or crashed store, read record by record.

use std::fs;
use std::path::Path;

use polder::log_dump::{LogEnd, LogEndReason, LogRecord, dump};
use polder::{Options, Store};

fn options(path: &Path) -> Options {
    let budget = Options::least_memory_budget(4096);
    Options::new(path).memory_budget(budget).log_limit(4 << 20)
}

fn records(path: &Path, from: Option<u64>) -> (Vec<LogRecord>, LogEnd) {
    let mut records = Vec::new();
    let end = dump(path, from, &mut |record| {
        records.push(record.clone());
        true
    });
    (records, end.unwrap())
}

/// A store with one write of each kind, and its files as a crash would leave them.
fn sample(dir: &Path) -> std::path::PathBuf {
    let store = Store::open(options(&dir.join("live"))).unwrap();
    let table = store.create_table("t").unwrap();
    store.checkpoint().unwrap();
    table.put(b"k\xff", b"value").unwrap();
    table.put(b"k\xff", b"longer value").unwrap();
    table.put(b"long", [1; 9000]).unwrap();
    table.delete(b"k\xff").unwrap();
    let later = store.create_table("later").unwrap();
    later.put(b"a", b"b").unwrap();
    let crashed = dir.join("crashed");
    fs::create_dir(&crashed).unwrap();
    for file in ["data", "log"] {
        fs::copy(dir.join("live").join(file), crashed.join(file)).unwrap();
    }
    crashed
}

#[test]
fn every_record_is_told_with_its_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path());
    let (records, end) = records(&path, None);
    assert_eq!(end.reason, LogEndReason::Complete, "{end:?}");
    assert_eq!(records.last().unwrap().end.next_multiple_of(4096), end.lsn);
    assert!(records.is_sorted_by_key(|record| record.lsn));
    assert!(records.iter().all(|record| record.lsn >= end.replay_from.unwrap()));
    let of = |table: &str| -> Vec<&LogRecord> {
        let of = |record: &&LogRecord| record.table.as_deref() == Some(table);
        records.iter().filter(of).filter(|record| record.key.is_some()).collect()
    };
    // The table is in the catalogue of the data file.
    let said: Vec<_> = of("t")
        .iter()
        .map(|r| (r.operation, r.key.clone().unwrap(), r.value_bytes, r.detail.as_str()))
        .collect();
    let k = || b"k\xff".to_vec();
    assert_eq!(
        said,
        [
            ("insert", k(), Some(5), "new"),
            ("insert", k(), Some(12), "replaced"),
            ("insert", b"long".to_vec(), Some(9000), "new, in overflow pages"),
            ("remove", k(), None, ""),
        ]
    );
    // This one only the log knows.
    assert_eq!(of("later").len(), 1);
    assert!(of("(catalogue)").iter().any(|r| r.key.as_deref() == Some(b"later")));
    let versions: Vec<_> = of("t").iter().filter_map(|record| record.version).collect();
    assert!(versions.is_sorted() && versions[0] < versions[1]);
}

#[test]
fn it_begins_and_stops_where_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path());
    let (all, _) = records(&path, Some(0));
    assert!(all[0].lsn < records(&path, None).0[0].lsn, "the log reaches back further");
    let middle = all[all.len() / 2].lsn;
    assert_eq!(records(&path, Some(middle)).0[0].lsn, middle);
    // Within a group: on with the next one that begins a block.
    let (some, end) = records(&path, Some(middle + 8));
    assert!(some[0].lsn > middle && some[0].lsn.is_multiple_of(4096));
    assert!(records(&path, Some(end.lsn)).0.is_empty());
    let mut left = 3;
    let stopped = dump(&path, None, &mut |_| {
        left -= 1;
        left > 0
    });
    assert_eq!(stopped.unwrap().reason, LogEndReason::Stopped);
}

#[test]
fn why_the_log_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path());
    let (all, end) = records(&path, None);
    let log = fs::read(path.join("log")).unwrap();
    let write = |at: usize, bytes: &[u8]| {
        let mut log = log.clone();
        log[at..at + bytes.len()].copy_from_slice(bytes);
        fs::write(path.join("log"), log).unwrap();
    };
    write(end.offset as usize, &[7; 512]);
    let cut_short = records(&path, None).1;
    assert_eq!((cut_short.reason, cut_short.lsn), (LogEndReason::CutShort, end.lsn));
    let first = all.iter().find(|record| record.key.is_some()).unwrap();
    // In some segment: the position, in words, stands in the group's header.
    let mut places = ((first.lsn % 4096) as usize..log.len()).step_by(4096);
    let is_there = |at: &usize| log[*at + 8..].starts_with(&(first.lsn / 8).to_le_bytes()[..5]);
    write(places.find(is_there).unwrap() + 30, &[0xff; 4]);
    let (read, damaged) = records(&path, None);
    assert_eq!((damaged.reason, damaged.lsn), (LogEndReason::Damaged, first.lsn), "{damaged:?}");
    assert!(read.iter().all(|record| record.lsn < first.lsn));
    assert!(damaged.what.contains("durable"), "{damaged:?}");
    fs::write(path.join("log"), &log).unwrap();
    let mut data = fs::read(path.join("data")).unwrap();
    data[..8192].fill(1);
    fs::write(path.join("data"), data).unwrap();
    let (read, unknown) = records(&path, None);
    assert_eq!((unknown.reason, unknown.replay_from), (LogEndReason::Unknown, None));
    assert_eq!(read.last().unwrap().lsn, all.last().unwrap().lsn);
}

#[test]
fn a_store_that_is_open_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    assert!(dump(dir.path(), None, &mut |_| true).is_err());
    store.close().unwrap();
    assert!(dump(dir.path(), None, &mut |_| true).is_ok());
    assert!(dump(&dir.path().join("none"), None, &mut |_| true).is_err());
}
