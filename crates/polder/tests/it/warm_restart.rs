//! The list of resident pages: that a store is warm soon after it is opened, and that nothing else
//! depends on the list.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use polder::{
    Durability, OpenMode, Options, PrewarmEnd, Stats, Store, StoreError, Table, TranslationKind,
};
use polder_testkit::Random;

use crate::support::*;

const KEYS: u32 = 40_000;
const BUDGET: u64 = 8 << 20;
/// Those that are used again and again.
const HOT: u32 = 1500;

fn options(path: &Path) -> Options {
    Options::new(path).memory_budget(BUDGET).durability(Durability::None)
}

fn key(n: u32) -> [u8; 4] {
    // Neighbours lie in different leaves.
    n.wrapping_mul(0x9e37_79b1).to_be_bytes()
}

fn value(n: u32) -> Vec<u8> {
    n.to_be_bytes().repeat(100)
}

/// A store with twice as much data as memory, closed.
fn fill(path: &Path) {
    let store = Store::open(options(path)).unwrap();
    let mut entries: Vec<_> = (0..KEYS).map(|n| (key(n), value(n))).collect();
    entries.sort_unstable();
    store.create_table("t").unwrap().bulk_load(entries).unwrap();
    use_hot(&store.table("t").unwrap());
    store.close().unwrap();
}

fn use_hot(table: &Table) {
    let mut random = Random::new(1);
    for _ in 0..20 * HOT {
        let n = random.below(u64::from(HOT)) as u32;
        assert_eq!(table.get(key(n)).unwrap(), Some(value(n)));
    }
}

fn await_loaded(store: &Store) -> Stats {
    let began = Instant::now();
    loop {
        let stats = store.stats();
        if stats.prewarm_listed_pages > 0 {
            return stats;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "the list is not loaded");
        thread::sleep(Duration::from_millis(2));
    }
}

fn list(path: &Path) -> Option<Vec<u8>> {
    fs::read(path.join("resident")).ok()
}

/// Whatever the translation was that wrote the list, and the one that reads it.
#[test]
fn what_was_in_memory_is_so_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    fill(&path);
    let all = TranslationKind::ALL.iter().copied();
    for kind in all.filter(|kind| kind.evicts()) {
        assert!(list(&path).is_some(), "{kind}: there is no list");
        let store = Store::open(options(&path).translation(kind)).unwrap();
        let stats = await_loaded(&store);
        assert!(stats.pool.prewarmed_pages > 500, "{kind}: {}", stats.pool.prewarmed_pages);
        assert_eq!(stats.pool.evictions, 0, "{kind}");
        assert!(stats.pool.frame_bytes <= stats.pool.memory_budget_bytes);
        let before = stats.pool.faults;
        use_hot(&store.table("t").unwrap());
        let faults = store.stats().pool.faults - before;
        assert!(faults < u64::from(HOT) / 10, "{kind}: {faults} of {HOT} pages were missing");
        assert_sound(&store);
        use_hot(&store.table("t").unwrap());
        store.close().unwrap();
    }
}

#[test]
fn a_store_that_wants_no_list_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let off = || options(&path).warm_restart(false);
    let store = Store::open(off()).unwrap();
    let table = store.create_table("t").unwrap();
    (0..KEYS).for_each(|n| _ = table.put(key(n), value(n)).unwrap());
    drop(table);
    store.close().unwrap();
    assert_eq!(list(&path), None);
    // Nor is one loaded or changed that another opening has left.
    let store = Store::open(options(&path)).unwrap();
    use_hot(&store.table("t").unwrap());
    assert!(store.save_resident_pages().unwrap() > 256);
    store.close().unwrap();
    let before = list(&path).unwrap();
    let store = Store::open(off()).unwrap();
    store.table("t").unwrap().get(key(1)).unwrap();
    assert_eq!((store.stats().pool.prewarmed_pages, store.stats().prewarm_listed_pages), (0, 0));
    // Unless somebody asks for it.
    let mut told = Vec::new();
    let done = store
        .prewarm(&mut |done, all| {
            told.push((done, all));
            true
        })
        .unwrap();
    assert!(done.loaded > 500, "{done:?}");
    assert!(told.is_sorted() && told.last().is_some_and(|(done, all)| done <= all), "{told:?}");
    use_hot(&store.table("t").unwrap());
    store.close().unwrap();
    assert_eq!(list(&path).unwrap(), before);
}

#[test]
fn a_small_store_has_no_list() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let store = Store::open(options(&path)).unwrap();
    store.create_table("t").unwrap().put(b"key", b"value").unwrap();
    store.close().unwrap();
    assert_eq!(list(&path), None);
    let on_devices = open_on(&disk());
    on_devices.create_table("t").unwrap().put(b"key", b"value").unwrap();
    assert_eq!(on_devices.save_resident_pages().unwrap(), 0);
    assert_eq!(on_devices.prewarm(&mut |_, _| true).unwrap().loaded, 0);
}

/// Opened for a moment, again and again, it does not forget (`WARM-1`); and closing waits for no more
/// than a batch (`WARM-3`).
#[test]
fn closing_while_the_list_is_loaded_leaves_it_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    fill(&path);
    let before = list(&path).unwrap();
    let mut cut_short = 0;
    for round in 0..30 {
        let began = Instant::now();
        let store = Store::open(options(&path)).unwrap();
        if round % 3 > 0 {
            assert_eq!(store.table("t").unwrap().get(key(round)).unwrap(), Some(value(round)));
        }
        store.close().unwrap();
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        if list(&path).unwrap() != before {
            // It was loaded to its end, and what is resident now is the list.
            fs::write(path.join("resident"), &before).unwrap();
        } else {
            cut_short += 1;
        }
    }
    assert!(cut_short > 0, "no opening was short enough");
    // By the last handle that goes, too.
    let table = Store::open(options(&path)).unwrap().table("t").unwrap();
    assert_eq!(table.get(key(3)).unwrap(), Some(value(3)));
    drop(table);
    assert!(list(&path).is_some());
}

/// `WARM-2`
#[test]
fn what_is_wrong_with_the_list_is_no_error_of_opening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    fill(&path);
    let good = list(&path).unwrap();
    let other = dir.path().join("other");
    fill(&other);
    let foreign = list(&other).unwrap();
    let newer = {
        let mut newer = good.clone();
        newer[12] = 9;
        let sum = crc32c::crc32c_append(crc32c::crc32c(&newer[..8]), &newer[12..72]);
        newer[8..12].copy_from_slice(&sum.to_le_bytes());
        newer
    };
    let mut torn = good.clone();
    let end = torn.len() - 1;
    torn[end] ^= 1;
    let half = good[..good.len() / 2].to_vec();
    for (what, bad, why) in [
        ("empty", vec![], "cut off"),
        ("cut", half, "bytes where its header"),
        ("torn", torn, "checksum"),
        ("newer", newer, "version of the list is 9"),
        ("foreign", foreign, "another store's"),
        ("nonsense", vec![0xff; 5000], "no list"),
    ] {
        fs::write(path.join("resident"), &bad).unwrap();
        let store = Store::open(options(&path)).unwrap();
        // A caller that waits for it hears why, unless the background was faster and has given it up.
        let error = store.prewarm(&mut |_, _| true).unwrap_err();
        assert!(matches!(error, StoreError::ResidentList { .. }), "{what}: {error}");
        assert!(full_text(&error).contains(why), "{what}: {}", full_text(&error));
        assert_eq!(store.stats().pool.prewarmed_pages, 0, "{what}");
        use_hot(&store.table("t").unwrap());
        store.close().unwrap();
        assert_eq!(list(&path).unwrap()[12..36], good[12..36], "{what}: a new one takes its place");
    }
    // WARM-1: what cannot be read is left for another time, here a link to itself.
    fs::rename(path.join("resident"), path.join("kept")).unwrap();
    symlink("resident", path.join("resident")).unwrap();
    let store = Store::open(options(&path)).unwrap();
    assert!(store.prewarm(&mut |_, _| true).is_err());
    use_hot(&store.table("t").unwrap());
    store.close().unwrap();
    assert!(path.join("resident").is_symlink(), "it was written over");
    // A directory in its place cannot be read, and not be replaced.
    fs::remove_file(path.join("resident")).unwrap();
    fs::create_dir(path.join("resident")).unwrap();
    let store = Store::open(options(&path)).unwrap();
    use_hot(&store.table("t").unwrap());
    store.close().unwrap();
    assert!(path.join("resident").is_dir());
}

/// `WARM-1`: a list that was loaded is written over, also if it could not be read once more.
#[test]
fn a_list_that_was_loaded_is_saved_whatever_comes_later() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    fill(&path);
    let store = Store::open(options(&path)).unwrap();
    store.prewarm(&mut |_, _| true).unwrap();
    fs::remove_file(path.join("resident")).unwrap();
    symlink("resident", path.join("resident")).unwrap();
    assert!(store.prewarm(&mut |_, _| true).is_err());
    store.close().unwrap();
    assert!(path.join("resident").is_file() && !path.join("resident").is_symlink());
    let store = Store::open(options(&path)).unwrap();
    assert!(await_loaded(&store).pool.prewarmed_pages > 500);
    store.close().unwrap();
}

/// Not as much memory as before: what was hot comes, and nothing is evicted for the rest.
#[test]
fn with_a_smaller_budget_the_hottest_come() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let large = || options(&path).memory_budget(64 << 20);
    fill(&path);
    let store = Store::open(large()).unwrap();
    await_loaded(&store);
    let table = store.table("t").unwrap();
    for entry in table.range(..) {
        entry.unwrap();
    }
    use_hot(&table);
    drop(table);
    store.close().unwrap();
    let listed = list(&path).unwrap().len() / 8;
    let store = Store::open(options(&path)).unwrap();
    let stats = await_loaded(&store);
    assert!(
        stats.pool.prewarmed_pages * 2 < listed as u64,
        "{} of {listed}",
        stats.pool.prewarmed_pages
    );
    assert_eq!(stats.pool.evictions, 0);
    assert!(stats.pool.frames_free > 0 && stats.pool.frame_bytes <= stats.pool.memory_budget_bytes);
    store.close().unwrap();
}

/// It is loaded where nothing may be written, and stays as it is.
#[test]
fn a_store_that_is_open_to_read_loads_the_list_and_writes_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    fill(&path);
    let before = files(&path);
    let store = Store::open(options(&path).mode(OpenMode::ReadOnly)).unwrap();
    let stats = await_loaded(&store);
    assert!(stats.pool.prewarmed_pages > 500);
    let faults = stats.pool.faults;
    use_hot(&store.table("t").unwrap());
    assert!(store.stats().pool.faults - faults < u64::from(HOT) / 10);
    assert!(matches!(store.save_resident_pages(), Err(StoreError::ReadOnly)));
    store.close().unwrap();
    assert!(files(&path) == before, "something was written");
}

/// The list is older than what is in the store: tables are gone, pages serve others, and what a crash
/// has left is recovered first.
#[test]
fn a_list_that_is_out_of_date_costs_nothing_but_reads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    fill(&path);
    let old = list(&path).unwrap();
    let store = Store::open(options(&path).warm_restart(false)).unwrap();
    let other = store.create_table("other").unwrap();
    let table = store.table("t").unwrap();
    for n in 0..KEYS {
        if n % 4 > 0 {
            table.delete(key(n)).unwrap();
        } else {
            other.put(key(n), value(n + 1)).unwrap();
        }
    }
    store.flush().unwrap();
    // As a process leaves it that is killed now.
    let killed = dir.path().join("killed");
    fs::create_dir(&killed).unwrap();
    for file in ["data", "log"] {
        fs::copy(path.join(file), killed.join(file)).unwrap();
    }
    store.drop_table("t").unwrap();
    drop((table, other));
    store.close().unwrap();
    for (path, has_table) in [(&killed, true), (&path, false)] {
        fs::write(path.join("resident"), &old).unwrap();
        // Room beside what a recovery has loaded.
        let store = Store::open(options(path).memory_budget(64 << 20)).unwrap();
        let stats = await_loaded(&store);
        let named = stats.pool.prewarmed_pages + stats.prewarm_skipped_pages;
        assert!(named > 500, "{} and {}", stats.pool.prewarmed_pages, stats.prewarm_skipped_pages);
        let other = store.table("other").unwrap();
        for n in (0..KEYS).step_by(4) {
            assert_eq!(other.get(key(n)).unwrap(), Some(value(n + 1)));
        }
        assert_eq!(store.table("t").is_ok(), has_table);
        // Pages that were loaded for nothing are given out again.
        (0..KEYS).for_each(|n| _ = other.put(key(n), value(n)).unwrap());
        assert_sound(&store);
        store.close().unwrap();
    }
}

#[test]
fn a_table_is_loaded_as_far_as_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    fill(&path);
    let cold = |budget| options(&path).memory_budget(budget).warm_restart(false);
    let store = Store::open(cold(64 << 20)).unwrap();
    let table = store.table("t").unwrap();
    let mut all_pages = 0;
    let done = table
        .prewarm(&mut |done, all| {
            assert!(done <= all);
            all_pages = all;
            true
        })
        .unwrap();
    assert_eq!(done.end, Some(PrewarmEnd::All));
    // Allocation maps are in use, too.
    assert!((all_pages - 2..=all_pages).contains(&(done.loaded + done.skipped)), "{done:?}");
    let before = store.stats().pool.device_reads;
    (0..KEYS).for_each(|n| assert_eq!(table.get(key(n)).unwrap(), Some(value(n))));
    assert_eq!(store.stats().pool.device_reads, before, "something was missing");
    let stopped = table.prewarm(&mut |_, _| false).unwrap();
    assert_eq!((stopped.loaded, stopped.end), (0, Some(PrewarmEnd::Stopped)));
    assert!(store.save_resident_pages().unwrap() >= all_pages / 2);
    drop(table);
    store.close().unwrap();

    let store = Store::open(cold(BUDGET)).unwrap();
    let table = store.table("t").unwrap();
    let done = table.prewarm(&mut |_, _| true).unwrap();
    assert_eq!(done.end, Some(PrewarmEnd::Full));
    assert_eq!(store.stats().pool.evictions, 0);
    // A table that is dropped, and a store that is closed, meanwhile.
    thread::scope(|scope| {
        let (its, mut begun) = (table.clone(), false);
        let (tell, told) = std::sync::mpsc::channel();
        let prewarmer = scope.spawn(move || {
            its.prewarm(&mut |_, _| {
                if !std::mem::replace(&mut begun, true) {
                    tell.send(()).unwrap();
                    thread::sleep(Duration::from_millis(50));
                }
                true
            })
        });
        told.recv().unwrap();
        store.drop_table("t").unwrap();
        let ended = prewarmer.join().unwrap();
        assert!(matches!(ended, Ok(_) | Err(StoreError::Dropped { .. })), "{ended:?}");
    });
    assert_sound(&store);
    store.close().unwrap();
    assert!(matches!(table.prewarm(&mut |_, _| true), Err(StoreError::Closed)));
}
