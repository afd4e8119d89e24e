//! The memory that a process really takes, as the kernel counts it, stays near the budget: with
//! many threads that evict large pages at the same time, and with many small tables.
//!
//! Each case runs in a process of its own, which is this program again: what other cases took would
//! count as well.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, fs, io, thread};

use polder::{Durability, Options, Store, TranslationKind};
use polder_pool::device::{Batch, Device, Direction, FileDevice, OpenKind};

use crate::support::scale;

/// What a process may take beside the budget and its code: stacks of threads, what tests need.
const BESIDE: u64 = 9 << 20;
/// The same without many threads.
const BESIDE_ALONE: u64 = 5 << 20;
/// What an open table may take beside the budget.
const A_TABLE: u64 = 3 << 10;
/// Says in a process of its own which case it is.
const CASE: &str = "POLDER_TEST_RESIDENT";

const THREADS: u64 = 64;
const LARGE_PAGE: u32 = 64 << 10;

/// The most memory that this process ever had, in bytes, without its code: that is a part of a file,
/// and of this program most is tests.
fn most_resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let bytes = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
    };
    bytes("VmHWM:") - bytes("RssFile:")
}

/// Does the case in a process of its own.
fn alone(test: &str, case: &str) {
    let program = env::current_exe().unwrap();
    let run = Command::new(program).args(["--exact", test, "--nocapture"]).env(CASE, case).output();
    let run = run.unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    println!("{}", said.lines().filter(|line| line.contains(" MiB")).collect::<String>());
    let why = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{case}: {said}{why}");
    assert!(said.contains("1 passed"), "{case}: there is no test {test}: {said}");
}

/// Memory that the process may have had.
fn judge(what: &str, budget: u64, beside: u64) {
    let most = most_resident();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!("{what}: {:.1} MiB at a budget of {:.1} MiB", mib(most), mib(budget));
    assert!(most <= budget + beside, "{what}: {most} bytes at a budget of {budget} and {beside}");
}

/// In memory where the system has a place for that: making a thousand tables waits for the disk a
/// thousand times.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn options(dir: &tempfile::TempDir, translation: TranslationKind) -> Options {
    Options::new(dir.path().join("store"))
        .log_limit(4 << 20)
        .durability(Durability::None)
        .translation(translation)
}

/// A file whose writes take a while, so that threads that write meet.
#[derive(Debug)]
struct Slow(FileDevice);

/// Whether they do.
static IS_SLOW: AtomicBool = AtomicBool::new(false);

impl Slow {
    fn create(path: &Path) -> Box<Slow> {
        Box::new(Slow(FileDevice::open(path, OpenKind::Create).unwrap()))
    }
}

impl Device for Slow {
    fn perform(&self, batch: Batch) -> Batch {
        let writes = |batch: &Batch| batch.requests()[0].direction == Direction::Write;
        if IS_SLOW.load(Ordering::Relaxed) && writes(&batch) {
            thread::sleep(Duration::from_millis(4));
        }
        self.0.perform(batch)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.0.allocate(offset, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.0.punch(offset, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}

/// Overwrites pages all over a table, all threads at the same time.
fn threads(translation: TranslationKind) {
    const RECORDS: u64 = 3000;
    let dir = directory();
    let least = Options::least_memory_budget(LARGE_PAGE);
    let budget = if translation.evicts() { least } else { least + (64 << 20) };
    let options = options(&dir, translation).page_size(LARGE_PAGE).memory_budget(budget);
    let [data, log] = ["data", "log"].map(|name| Slow::create(&dir.path().join(name)));
    let store = Store::open_on(data, log, options).unwrap();
    let table = store.open_table("t").unwrap();
    for key in 0..RECORDS {
        table.put(key.to_be_bytes(), [1; 7000]).unwrap();
    }
    IS_SLOW.store(true, Ordering::Relaxed);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let table = &table;
            scope.spawn(move || {
                for i in 0..6 {
                    let key = (thread * 7919 + i * 104_729) % RECORDS;
                    table.put(key.to_be_bytes(), [2; 7000]).unwrap();
                }
            });
        }
    });
    judge(&format!("{translation}, {THREADS} threads"), budget, BESIDE);
}

/// Makes many tables, uses each, and keeps them.
fn tables(translation: TranslationKind) {
    let count = (1000 * scale()).min(10_000);
    let dir = directory();
    let least = Options::least_memory_budget(4096);
    // A table has three pages, maps included.
    let budget = if translation.evicts() { least } else { least + 4 * 4096 * count };
    let store = Store::open(options(&dir, translation).memory_budget(budget)).unwrap();
    let tables: Vec<_> = (0..count)
        .map(|i| {
            let table =
                store.create_table(&format!("t{i}")).unwrap_or_else(|e| panic!("{i}: {e:?}"));
            table.put(b"key", b"value").unwrap();
            table
        })
        .collect();
    for table in &tables {
        assert_eq!(table.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    }
    judge(&format!("{translation}, {count} tables"), budget, BESIDE_ALONE + count * A_TABLE);
}

/// Looks up a few keys again and again by one call, all in a page that is not in memory at first: all
/// wait for it, and all values may be copied at once.
fn lookups(translation: TranslationKind) {
    const KEYS: usize = 200_000;
    const VALUE: usize = 1000;
    let dir = directory();
    let budget = Options::least_memory_budget(4096);
    let open = || Store::open(options(&dir, translation).memory_budget(budget)).unwrap();
    let store = open();
    let table = store.open_table("t").unwrap();
    for key in 0..300u64 {
        table.put(key.to_be_bytes(), [key as u8; VALUE]).unwrap();
    }
    drop(table);
    store.close().unwrap();
    let store = open();
    let table = store.table("t").unwrap();
    // All that is above the page, and the maps, come into memory, and another page.
    assert!(table.contains_key(299u64.to_be_bytes()).unwrap());
    let keys: Vec<[u8; 8]> = (0..KEYS as u64).map(|i| (i % 3).to_be_bytes()).collect();
    let mut found = 0;
    table
        .get_many(&keys, |i, value| {
            assert_eq!(value.unwrap(), [keys[i][7]; VALUE]);
            found += 1;
        })
        .unwrap();
    assert_eq!(found, KEYS);
    // The keys, and their slices.
    let given = (KEYS * (8 + size_of::<&[u8]>())) as u64;
    judge(&format!("{translation}, lookups"), budget, BESIDE + given);
}

/// Runs the case of this process, or each in a process of its own.
fn each(test: &str, run: impl Fn(TranslationKind)) {
    match env::var(CASE) {
        Ok(case) => run(case.parse().unwrap()),
        Err(_) => TranslationKind::ALL.iter().for_each(|kind| alone(test, kind.name())),
    }
}

#[test]
fn many_threads_stay_within_the_budget() {
    let _turn = crate::my_turn();
    each("resident::many_threads_stay_within_the_budget", threads);
}

#[test]
fn many_tables_stay_within_the_budget() {
    let _turn = crate::my_turn();
    each("resident::many_tables_stay_within_the_budget", tables);
}

#[test]
fn many_lookups_by_one_call_stay_within_the_budget() {
    let _turn = crate::my_turn();
    each("resident::many_lookups_by_one_call_stay_within_the_budget", lookups);
}
