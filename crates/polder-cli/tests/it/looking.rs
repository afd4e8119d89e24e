//! Commands that only read, and statistics of a store that another process has open.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::time::Duration;

use polder::{OpenMode, Options};

use crate::support::{Store, Waiting, finish, killed_load, signal, spawn};

type Files = BTreeMap<OsString, (Vec<u8>, [i64; 4])>;

/// All that is in the store's directory, and when it was changed last.
fn files(store: &Store) -> Files {
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        let about = entry.metadata().unwrap();
        let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()];
        (entry.file_name(), (std::fs::read(entry.path()).unwrap(), times))
    };
    std::fs::read_dir(store.path()).unwrap().map(file).collect()
}

const READING: [&[&str]; 7] = [
    &["stat"],
    &["tables"],
    &["get", "t", "00000000"],
    &["scan", "t", "--limit", "9"],
    &["check"],
    &["check", "--deep"],
    &["log", "--limit", "9"],
];

/// Beside each other, and beside others that read.
#[test]
fn commands_that_read_write_nothing() {
    let (closed, killed) = (Store::new(), Store::new());
    closed.load_lines("t", "00000000\n00000001\n");
    killed_load(&killed, "none");
    std::fs::remove_file(killed.path().join("stats")).unwrap();
    for store in [closed, killed] {
        let before = files(&store);
        let options = Options::new(store.path()).mode(OpenMode::ReadOnly);
        let _reader = polder::Store::open(options).unwrap();
        for line in READING {
            store.polder(line[0], &line[1..]).ok();
        }
        assert!(files(&store) == before, "something was written");
        let error = store.polder("put", ["t", "k", "v"]).fails(3);
        assert!(error.contains("open to read"), "{error}");
    }
}

#[test]
fn statistics_say_what_is_to_be_recovered() {
    let store = Store::new();
    let is_told = |store: &Store| {
        let told = store.polder("stat", [""; 0]).ok().contains("in the log to be recovered");
        let groups = store.polder("stat", ["--json"]).json()["recovery"]["groups"].as_u64();
        assert_eq!(told, groups.unwrap() > 0);
        told
    };
    assert!(!is_told(&store));
    killed_load(&store, "none");
    assert!(is_told(&store) && is_told(&store));
    store.polder("put", ["t", "k", "v"]).ok();
    assert!(!is_told(&store));
}

#[test]
fn a_live_store_is_looked_at() {
    let store = Store::new();
    for option in ["--live", "--mrc"] {
        let none = store.polder("stat", [option]).fails(3);
        assert!(none.contains("no process"), "{none}");
    }
    let load = Waiting::on(&store);
    let held = store.polder("stat", [""; 0]).fails(3);
    assert!(held.contains(&format!("process {}", load.process)), "{held}");
    assert!(held.contains("`polder stat --live`"), "{held}");
    let page = store.polder("stat", ["--live"]).ok();
    assert!(page.contains(&format!("process {}", load.process)), "{page}");
    for row in ["file ", "log ", "memory budget ", "translation ", "device "] {
        assert!(page.lines().any(|line| line.starts_with(row)), "{row}: {page}");
    }
    // Little was read by then.
    let ratios = store.polder("stat", ["--mrc"]).ok();
    assert!(ratios.starts_with("No miss ratios"), "{ratios}");
    let figures = store.polder("stat", ["--live", "--json"]).json();
    assert!(figures.get("miss_ratios").is_some());
    assert_eq!(figures["process"], load.process);
    assert_eq!(figures["tables"][0]["name"], "t");
    assert!(figures["tables"][0]["entries"].as_u64().unwrap() > 0);

    // Again and again, until the store is closed, or somebody has seen enough.
    let watch = |store: &Store| {
        let args = ["--live", "--every", "100ms", "--json"];
        spawn(store.command("stat", args).stdin(Stdio::null()))
    };
    let (first, second) = (watch(&store), watch(&store));
    std::thread::sleep(Duration::from_millis(700));
    signal(second.id(), "INT");
    let seen = finish(second).ok();
    assert!(seen.lines().count() >= 2, "{seen}");
    let lines = load.lines;
    assert_eq!(load.end().json()["loaded"], lines);
    for line in finish(first).ok().lines() {
        let figures: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(figures["version"], 1);
    }
    store.polder("stat", ["--every", "1s"]).fails(2);
    store.polder("stat", ["--live", "--every", "0s"]).fails(2);
    store.polder("stat", ["--live", "--budget", "8MiB"]).fails(2);
    store.polder("stat", ["--mrc", "--budget", "8MiB"]).fails(2);
}
