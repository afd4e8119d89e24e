//! A small store is small: on disk, in threads and in memory.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use polder::{Durability, Options, Store};
use polder_testkit::effort;

/// Says in a process of its own what it does.
const CASE: &str = "POLDER_TEST_SMALL";
const STORES: usize = 100;
const MOST_RESIDENT: u64 = 100 << 20;
const MOST_ON_DISK: u64 = 256 << 10;
/// Threads that a store may have although it has no work.
const IDLE_THREADS: usize = 1;

/// Bytes of the files of a store: how long they are, and what the file system has allocated.
fn on_disk(path: &Path) -> (u64, u64) {
    let files = fs::read_dir(path).unwrap().map(|file| file.unwrap().metadata().unwrap());
    files.fold((0, 0), |(len, blocks), file| (len + file.len(), blocks + 512 * file.blocks()))
}

/// The names of the store's threads.
fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.map(|name| name.trim().to_string()).filter(|name| name.starts_with("polder-")).collect()
}

/// Waits until no more threads than so many are left.
fn await_rest(most: usize) {
    let began = Instant::now();
    while threads().len() > most {
        assert!(began.elapsed() < Duration::from_secs(30), "{:?} do not end", threads());
        thread::sleep(Duration::from_millis(20));
    }
}

/// Runs the case in a process of its own: threads and memory of other tests would count as well.
fn alone(test: &str, run: impl FnOnce()) {
    if env::var_os(CASE).is_some() {
        return run();
    }
    let _turn = crate::my_turn();
    let program = env::current_exe().unwrap();
    let its = Command::new(program).args(["--exact", test, "--nocapture"]).env(CASE, "1").output();
    let its = its.unwrap();
    let said = String::from_utf8_lossy(&its.stdout);
    let why = String::from_utf8_lossy(&its.stderr);
    assert!(its.status.success(), "{said}{why}");
    assert!(said.contains("1 passed"), "there is no test {test}: {said}");
    println!("{}", said.lines().filter(|line| line.contains("bytes")).collect::<String>());
}

#[test]
fn a_store_of_one_key_takes_little_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let look = |when: &str| {
        let (len, blocks) = on_disk(&path);
        println!("{when}: {len} bytes long, {blocks} bytes allocated");
        assert!(len <= MOST_ON_DISK, "{when}: the files are {len} bytes long");
        assert!(blocks <= MOST_ON_DISK, "{when}: {blocks} bytes are allocated");
    };
    let store = Store::open(Options::new(&path)).unwrap();
    store.open_table("t").unwrap().put(b"key", b"value").unwrap();
    look("open");
    store.close().unwrap();
    look("closed");
    // The log goes round in what it has.
    for i in 0..100u32 {
        let store = Store::open(Options::new(&path)).unwrap();
        let table = store.table("t").unwrap();
        assert_eq!(store.stats().tables.len(), 1);
        assert_eq!(table.len(), 1);
        table.put(b"key", i.to_le_bytes()).unwrap();
        store.close().unwrap();
    }
    look("opened a hundred times");
    let store = Store::open(Options::new(&path)).unwrap();
    assert_eq!(store.table("t").unwrap().get(b"key").unwrap().unwrap(), 99u32.to_le_bytes());
}

/// A table takes its allocation map, its root and a page of maps.
#[test]
fn a_table_of_one_key_takes_three_pages() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(dir.path().join("s")).durability(Durability::None);
    let store = Store::open(options).unwrap();
    let make = |i: u32| {
        let table = store.create_table(&format!("table {i}")).unwrap();
        table.put(b"key", b"value").unwrap();
        store.stats().pool.file_bytes
    };
    let first = make(0);
    let last = (1..=20).fold(first, |_, i| make(i));
    assert!(last - first <= 20 * 3 * 4096 + 4096, "{} bytes for 20 tables", last - first);
}

#[test]
fn a_store_without_work_has_no_threads() {
    alone("small::a_store_without_work_has_no_threads", || {
        let dir = tempfile::tempdir().unwrap();
        for durability in
            [Durability::Sync, Durability::None, Durability::Periodic(Duration::from_millis(5))]
        {
            let path = dir.path().join(format!("{durability:?}"));
            let open = || Store::open(Options::new(&path).durability(durability)).unwrap();
            let store = open();
            let table = store.open_table("t").unwrap();
            table.put(b"key", b"value").unwrap();
            await_rest(IDLE_THREADS);
            // Each time that there is work they come again, and nothing waits for nobody.
            for i in 0..effort::steps(1, 3) {
                table.put(b"key", i.to_le_bytes()).unwrap();
                let lsn = store.stats().log_durable_lsn;
                let began = Instant::now();
                while durability != Durability::Sync && store.stats().log_durable_lsn == lsn {
                    assert!(began.elapsed() < Duration::from_secs(20), "nobody syncs the log");
                    thread::sleep(Duration::from_millis(5));
                }
                await_rest(IDLE_THREADS);
            }
            store.checkpoint().unwrap();
            await_rest(IDLE_THREADS);
            store.close().unwrap();
            assert_eq!(threads().len(), 0);
            let store = open();
            assert_eq!(store.table("t").unwrap().len(), 1);
            await_rest(IDLE_THREADS);
        }
    });
}

fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
}

#[test]
fn a_hundred_small_stores_take_little_memory() {
    alone("small::a_hundred_small_stores_take_little_memory", || {
        let dir = tempfile::tempdir().unwrap();
        let before = resident();
        let stores: Vec<Store> = (0..STORES)
            .map(|i| {
                let store = Store::open(Options::new(dir.path().join(i.to_string()))).unwrap();
                store.open_table("t").unwrap().put(b"key", b"value").unwrap();
                store
            })
            .collect();
        let (busy, before) = (resident(), before);
        await_rest(STORES * IDLE_THREADS);
        let idle = resident();
        println!("{STORES} stores: {busy} bytes, idle {idle} bytes; before {before}");
        assert!(busy <= MOST_RESIDENT && idle <= MOST_RESIDENT, "{busy} bytes, idle {idle}");
        for store in stores {
            store.close().unwrap();
        }
    });
}
