//! What other processes are told of a store that is open.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use polder::{LiveError, Store, live_stats};
use polder_testkit::effort;
use serde_json::Value;

use crate::support::*;

const SOCKET: &str = "stats";

fn ask(path: &Path) -> Value {
    serde_json::from_str(&live_stats(path).unwrap()).unwrap()
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path.join(SOCKET)).is_ok_and(|about| about.file_type().is_socket())
}

fn is_nobody(path: &Path) -> bool {
    matches!(live_stats(path), Err(LiveError::Nobody { .. }))
}

#[test]
fn others_see_what_the_store_sees() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    assert!(is_nobody(&path));
    let store = Store::open(quick(&path)).unwrap();
    let table = store.open_table("a \"table\"").unwrap();
    for i in 0..100u64 {
        table.insert(i.to_be_bytes(), b"v").unwrap();
    }
    let (seen, stats) = (ask(&path), store.stats());
    assert_eq!(seen["version"], 1);
    assert_eq!(seen["process"], std::process::id());
    assert_eq!(seen["translation"], "array");
    assert_eq!(seen["read_only"], false);
    assert_eq!(seen["tables"][0]["name"], "a \"table\"");
    assert_eq!(seen["tables"][0]["entries"], 100);
    assert_eq!(seen["frames"], stats.pool.frames);
    assert_eq!(seen["memory_budget_bytes"], stats.pool.memory_budget_bytes);
    let own: Value = serde_json::from_str(&store.stats_json()).unwrap();
    assert_eq!(
        own.as_object().unwrap().keys().collect::<Vec<_>>(),
        seen.as_object().unwrap().keys().collect::<Vec<_>>(),
    );
    drop(table);
    store.close().unwrap();
    assert!(is_nobody(&path));
    let mut left: Vec<_> = files(&path).into_keys().collect();
    left.sort();
    assert_eq!(left, ["data", "lock", "log"]);
    // One that only reads can be asked nothing: the next one would be in its way.
    let reader = Store::open(to_read(quick(&path))).unwrap();
    assert!(is_nobody(&path) && !is_socket(&path));
    let own: Value = serde_json::from_str(&reader.stats_json()).unwrap();
    assert_eq!(own["read_only"], true);
}

/// Threads ask while others write and the store is closed under them.
#[test]
fn a_store_is_closed_among_many_who_ask() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..effort::steps(4, 10) {
        let path = dir.path().join("store");
        let store = Store::open(quick(&path)).unwrap();
        let (stop, answers) = (AtomicBool::new(false), std::sync::atomic::AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        if let Ok(document) = live_stats(&path) {
                            serde_json::from_str::<Value>(&document).unwrap();
                            answers.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            let table = store.open_table("t").unwrap();
            let mut i = 0u64;
            while answers.load(Ordering::Relaxed) < 30 {
                table.insert((round << 32 | i).to_be_bytes(), b"v").unwrap();
                i += 1;
            }
            drop(table);
            // By a call, or as the last handle goes.
            if round % 2 == 0 {
                store.close().unwrap()
            } else {
                drop(store)
            }
            assert!(!is_socket(&path));
            stop.store(true, Ordering::Relaxed);
        });
        assert_sound(&Store::open(quick(&path)).unwrap());
    }
}

#[test]
fn it_is_for_whoever_may_read_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    Store::open(quick(&path)).unwrap().close().unwrap();
    for (data, socket) in [(0o600, 0o600), (0o640, 0o660), (0o644, 0o666)] {
        fs::set_permissions(path.join("data"), fs::Permissions::from_mode(data)).unwrap();
        let store = Store::open(quick(&path)).unwrap();
        let mode = fs::metadata(path.join(SOCKET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, socket, "{data:o}");
        store.close().unwrap();
    }
}

#[test]
fn what_a_killed_process_has_left_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    // No store is there yet, and then one is.
    fs::create_dir(&path).unwrap();
    for _ in 0..2 {
        drop(UnixListener::bind(path.join(SOCKET)).unwrap());
        assert!(is_nobody(&path));
        let store = Store::open(quick(&path)).unwrap();
        assert_eq!(ask(&path)["process"], std::process::id());
        store.close().unwrap();
        assert!(!is_socket(&path));
    }
}

#[test]
fn a_store_opens_where_there_can_be_no_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    Store::open(quick(&path)).unwrap().close().unwrap();
    fs::write(path.join(SOCKET), "mine").unwrap();
    let store = Store::open(quick(&path)).unwrap();
    store.open_table("t").unwrap().insert(b"k", b"v").unwrap();
    let why = store.stats().live_refused.unwrap();
    assert!(why.contains("no socket"), "{why}");
    store.close().unwrap();
    assert_eq!(fs::read(path.join(SOCKET)).unwrap(), b"mine");
    fs::remove_file(path.join(SOCKET)).unwrap();
    // Nor where none is wanted.
    let store = Store::open(quick(&path).live_stats(false)).unwrap();
    assert_eq!(store.stats().live_refused, None);
    assert!(is_nobody(&path) && !is_socket(&path));
}

/// Longer than the address of a socket can be; and a directory that is called otherwise by the time
/// that the store is closed.
#[test]
fn paths_of_any_length() {
    let dir = tempfile::tempdir().unwrap();
    for length in [20, 80, 120, 200] {
        let path = dir.path().join("s".repeat(length));
        let store = Store::open(quick(&path)).unwrap();
        assert_eq!(store.stats().live_refused, None, "{length}");
        assert_eq!(ask(&path)["process"], std::process::id());
        let moved = dir.path().join("moved");
        fs::rename(&path, &moved).unwrap();
        assert_eq!(ask(&moved)["process"], std::process::id());
        store.close().unwrap();
        assert!(!is_socket(&moved));
        fs::remove_dir_all(moved).unwrap();
    }
}
