//! Opening a store: what is refused, and in which words.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use polder::{OpenError, OpenMode, Options, OptionsError, SalvageError, Store, TranslationKind};
use polder_format::{SUPERBLOCK_BYTES, Superblock, choose};
use polder_testkit::{Errno, FaultPlan, Operation, When};

use crate::support::*;

fn refused(options: Options) -> OpenError {
    Store::open(options).map(|_| ()).unwrap_err()
}

#[test]
fn modes_do_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b/store");
    let error = refused(tight(&path).mode(OpenMode::Open));
    assert!(matches!(error, OpenError::NotFound { .. }));
    assert!(error.to_string().contains("a/b/store"), "{error}");
    assert!(!path.exists(), "asking for what is not there makes nothing");

    let store = Store::open(tight(&path).mode(OpenMode::Create)).unwrap();
    store.open_table("t").unwrap().put(b"k", b"v").unwrap();
    assert_eq!(store.path(), path);
    store.close().unwrap();
    let error = refused(tight(&path).mode(OpenMode::Create));
    assert!(matches!(error, OpenError::Exists { .. }));
    assert!(error.to_string().contains("a/b/store"), "{error}");
    for mode in [OpenMode::Open, OpenMode::OpenOrCreate] {
        let store = Store::open(tight(&path).mode(mode)).unwrap();
        assert_eq!(store.table("t").unwrap().get(b"k").unwrap().unwrap(), b"v");
        store.close().unwrap();
    }
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(matches!(refused(tight(&empty).mode(OpenMode::Open)), OpenError::NotFound { .. }));
    Store::open(tight(&empty)).unwrap().close().unwrap();
}

/// Writes that a process had under way when it was killed keep its files locked until they are
/// done.
#[test]
fn the_last_writes_of_a_killed_process_are_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    Store::open(tight(&path)).unwrap().close().unwrap();
    for name in ["data", "log"] {
        let file = fs::File::open(path.join(name)).unwrap();
        file.lock().unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(50));
                done.store(true, Ordering::SeqCst);
                drop(file);
            });
            let store = Store::open(tight(&path)).unwrap();
            assert!(done.load(Ordering::SeqCst), "{name} was not waited for");
            store.close().unwrap();
        });
    }
}

#[test]
fn options_are_checked_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let error = refused(Options::new(&path).memory_budget(1000));
    assert!(matches!(error, OpenError::Options(OptionsError::Budget { given: 1000, .. })));
    let error = refused(Options::new(&path).page_size(5000));
    assert!(matches!(error, OpenError::Options(OptionsError::PageSize { bytes: 5000 })));
    assert!(!path.exists());

    let budget = Options::least_memory_budget(16384) + 12345;
    let options = Options::new(&path).page_size(16384).memory_budget(budget).prefault(true);
    let store = Store::open(options).unwrap();
    assert_eq!((store.page_size(), store.memory_budget()), (16384, budget));
    assert_eq!(store.translation(), TranslationKind::Array);
    store.close().unwrap();
    // Without a budget it has the one that it was made with; the translation is free.
    let store = Store::open(Options::new(&path).translation(TranslationKind::Direct)).unwrap();
    assert_eq!((store.page_size(), store.memory_budget()), (16384, budget));
    assert_eq!(store.translation(), TranslationKind::Direct);
    store.close().unwrap();

    let error = refused(Options::new(&path).page_size(4096));
    assert!(matches!(error, OpenError::PageSize { asked: 4096, found: 16384, .. }), "{error}");
    assert!(error.to_string().contains("16384"), "{error}");
    // A budget that is enough for other pages, but not for these.
    let error = refused(tight(&path));
    assert!(matches!(error, OpenError::Options(OptionsError::Budget { page_size: 16384, .. })));
    Store::open(Options::new(&path).page_size(16384)).unwrap().close().unwrap();
}

#[test]
fn foreign_directories_and_files_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("letter.txt"), "dear").unwrap();
    let error = refused(tight(dir.path()));
    assert!(matches!(error, OpenError::Foreign { .. }));
    assert!(error.to_string().contains("letter.txt"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was put beside it");

    let theirs = tempfile::tempdir().unwrap();
    for content in [&b"short"[..], &[b'x'; 100_000]] {
        fs::write(theirs.path().join("data"), content).unwrap();
        let error = refused(tight(theirs.path()));
        assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
        assert!(error.to_string().contains("not a Polder store"), "{error}");
        assert_eq!(fs::read(theirs.path().join("data")).unwrap(), content);
    }
    let file = dir.path().join("letter.txt");
    assert!(Store::open(tight(&file)).is_err(), "a file is no directory");
}

#[test]
fn one_holder_at_a_time_in_a_process() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(tight(dir.path())).unwrap();
    let error = refused(tight(dir.path()));
    let OpenError::Locked { process, .. } = &error else { panic!("{error:?}") };
    assert!(process.contains(&std::process::id().to_string()), "{process}");
    let text = error.to_string();
    assert!(text.contains(&dir.path().display().to_string()), "{text}");
    store.close().unwrap();
    Store::open(tight(dir.path())).unwrap().close().unwrap();
    // Without a close the last handle closes.
    let store = Store::open(tight(dir.path())).unwrap();
    let table = store.open_table("t").unwrap();
    table.put(b"k", b"v").unwrap();
    drop(store);
    assert!(matches!(refused(tight(dir.path())), OpenError::Locked { .. }), "a table holds it");
    drop(table);
    let store = Store::open(tight(dir.path())).unwrap();
    assert_eq!(store.table("t").unwrap().get(b"k").unwrap().unwrap(), b"v");
}

const HELD: &str = "POLDER_TEST_HELD_STORE";

/// Not a test of its own: what the child of the next one does.
#[test]
fn child_that_holds_a_store() {
    let Some(path) = std::env::var_os(HELD) else { return };
    let store = Store::open(tight(Path::new(&path))).unwrap();
    store.open_table("t").unwrap().put(b"k", b"v").unwrap();
    println!("\nholding");
    std::io::stdout().flush().unwrap();
    // Until it is killed.
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    store.close().unwrap();
}

fn child(path: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "opening::child_that_holds_a_store", "--nocapture"])
        .env(HELD, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "holding"), "the child could not open the store");
    // The rest of what it says may go nowhere.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

#[test]
fn another_process_is_named_and_its_death_seen() {
    let dir = tempfile::tempdir().unwrap();
    let mut holder = child(dir.path());
    let error = refused(tight(dir.path()));
    let OpenError::Locked { process, .. } = &error else { panic!("{error:?}") };
    assert!(process.contains(&holder.id().to_string()), "{process}");
    // It goes as it should: everything is there.
    holder.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(holder.wait().unwrap().success());
    let store = Store::open(tight(dir.path())).unwrap();
    assert_eq!(store.table("t").unwrap().get(b"k").unwrap().unwrap(), b"v");
    store.close().unwrap();

    // It is killed: the lock is gone with it, and the store is recovered.
    let mut holder = child(dir.path());
    holder.kill().unwrap();
    holder.wait().unwrap();
    let store = Store::open(tight(dir.path())).unwrap();
    assert!(store.recovery().groups > 0, "{:?}", store.recovery());
    assert_eq!(store.table("t").unwrap().get(b"k").unwrap().unwrap(), b"v");
    assert_sound(&store);
}

#[test]
fn a_copy_of_an_open_store_is_recovered() {
    let dir = tempfile::tempdir().unwrap();
    let (store_dir, copy) = (dir.path().join("store"), dir.path().join("copy"));
    let copy_store = || {
        fs::create_dir_all(&copy).unwrap();
        for name in ["data", "lock", "log"] {
            fs::copy(store_dir.join(name), copy.join(name)).unwrap();
        }
        Store::open(quick(&copy)).unwrap()
    };
    let store = Store::open(quick(&store_dir)).unwrap();
    let copied = copy_store();
    assert!(copied.tables().unwrap().is_empty());
    assert_sound(&copied);
    drop(copied);
    let table = store.open_table("t").unwrap();
    for i in 0..5000u64 {
        table.put(i.to_be_bytes(), [1; 100]).unwrap();
    }
    store.flush().unwrap();
    let copied = copy_store();
    assert!(copied.recovery().log_bytes > 100_000, "{:?}", copied.recovery());
    assert_eq!(copied.table("t").unwrap().len(), 5000);
    assert_sound(&copied);
    drop(copied);
    // A checkpoint leaves little to replay, and a close nothing.
    store.checkpoint().unwrap();
    let copied = copy_store();
    let recovery = copied.recovery();
    assert!(recovery.log_bytes < 8192, "{recovery:?}");
    assert_eq!((recovery.groups, recovery.redone), (0, 0));
    assert_eq!(copied.table("t").unwrap().len(), 5000);
    drop((copied, table));
    store.close().unwrap();
    let copied = copy_store();
    let recovery = copied.recovery();
    assert_eq!((recovery.groups, recovery.redone), (0, 0));
    assert_eq!(recovery.cut_short, None);
    assert_eq!(copied.table("t").unwrap().len(), 5000);
    assert_sound(&copied);
}

#[test]
fn a_store_is_not_opened_without_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let (mine, other) = (dir.path().join("mine"), dir.path().join("other"));
    for path in [&mine, &other] {
        Store::open(tight(path)).unwrap().close().unwrap();
    }
    let log = fs::read(mine.join("log")).unwrap();
    fs::remove_file(mine.join("log")).unwrap();
    let error = refused(tight(&mine));
    assert!(matches!(error, OpenError::NoLog { .. }), "{error:?}");
    assert!(error.to_string().contains(&mine.display().to_string()), "{error}");
    fs::copy(other.join("log"), mine.join("log")).unwrap();
    let error = refused(tight(&mine));
    assert!(full_text(&error).contains("the log of another store"), "{}", full_text(&error));
    fs::write(mine.join("log"), &log[..10_000]).unwrap();
    let error = refused(tight(&mine));
    assert!(matches!(error, OpenError::Log { .. }), "{error:?}");
    fs::write(mine.join("log"), log).unwrap();
    Store::open(tight(&mine)).unwrap().close().unwrap();
}

/// Changes the superblock that counts, and its checksum.
fn rewrite(path: &Path, change: impl Fn(&mut [u8])) {
    let data = path.join("data");
    let mut bytes = fs::read(&data).unwrap();
    let (superblock, _) = choose(&bytes[..2 * SUPERBLOCK_BYTES]).unwrap();
    let at = superblock.offset() as usize;
    let block = &mut bytes[at..at + SUPERBLOCK_BYTES];
    assert_eq!(*block, Superblock::encode(&superblock));
    change(block);
    let sum = crc32c::crc32c_append(crc32c::crc32c(&block[..8]), &block[12..]);
    block[8..12].copy_from_slice(&sum.to_le_bytes());
    fs::write(&data, bytes).unwrap();
}

#[test]
fn a_newer_format_is_refused_in_words() {
    let changes: [fn(&mut [u8]); 3] =
        [|block| block[56] = 4, |block| block[48] = 1, |block| block[12] += 1];
    for change in changes {
        let dir = tempfile::tempdir().unwrap();
        Store::open(tight(dir.path())).unwrap().close().unwrap();
        rewrite(dir.path(), change);
        let before = fs::read(dir.path().join("data")).unwrap();
        let error = refused(tight(dir.path()));
        assert!(matches!(error, OpenError::Newer { .. }), "{error:?}");
        let text = full_text(&error);
        assert!(text.contains("newer Polder"), "{text}");
        assert!(text.contains(&dir.path().display().to_string()), "{text}");
        assert_eq!(fs::read(dir.path().join("data")).unwrap(), before, "nothing was changed");
    }
    // Unknown compatible features are no reason to refuse.
    let dir = tempfile::tempdir().unwrap();
    Store::open(tight(dir.path())).unwrap().close().unwrap();
    rewrite(dir.path(), |block| block[40] = 1);
    Store::open(tight(dir.path())).unwrap().close().unwrap();
}

#[test]
fn a_store_that_could_not_be_made_leaves_nothing() {
    // As much room as the disk has, the superblocks, or some pages more.
    for kilobytes in [0, 4, 8, 12, 16, 20] {
        let disk = disk();
        disk.data.set_plan(FaultPlan::new(1).capacity(kilobytes << 10));
        let open = || disk.open(tight("simulated"));
        let error = open().unwrap_err();
        let text = full_text(&error);
        assert!(text.contains("No space") || text.contains("full"), "{kilobytes}: {text}");
        disk.data.set_plan(FaultPlan::new(1));
        let store = open().unwrap();
        store.open_table("t").unwrap().put(b"k", b"v").unwrap();
        store.close().unwrap();
        assert_eq!(open().unwrap().table("t").unwrap().len(), 1);
    }
    for n in 0..3 {
        for operation in [Operation::Write, Operation::Sync] {
            let disk = disk();
            disk.set_plan(&FaultPlan::new(1).fail(operation, When::Nth(n), Errno::IO));
            let open = || disk.open(tight("simulated"));
            if let Err(error) = open() {
                let text = full_text(&error);
                assert!(text.contains("Input/output error"), "{text}");
                disk.set_plan(&FaultPlan::new(1));
                open().unwrap().close().unwrap();
            }
        }
    }
}

/// Several stores in one process, written by the same threads in turn.
#[test]
fn stores_beside_each_other() {
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let sizes = [4096, 8192, 65536];
    let open = || -> Vec<Store> {
        let options = dirs.iter().zip(sizes).map(|(dir, size)| {
            let least = Options::least_memory_budget(size);
            let new = !dir.path().join("data").exists();
            let options = quick(dir.path()).memory_budget(least);
            if new { options.page_size(size) } else { options }
        });
        options.map(|options| Store::open(options).unwrap()).collect()
    };
    let stores = open();
    let tables: Vec<_> = stores.iter().map(|store| store.open_table("t").unwrap()).collect();
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            let tables = &tables;
            scope.spawn(move || {
                for i in 0..1500u64 {
                    let key = (i * 4 + t).to_be_bytes();
                    for (s, table) in tables.iter().enumerate() {
                        table.put(key, [s as u8; 50]).unwrap();
                        assert_eq!(table.get(key).unwrap().unwrap(), [s as u8; 50]);
                    }
                    // From within one store's update into the others'.
                    tables[0]
                        .update_with(b"sum", |old| {
                            tables[1].put(key, [1; 50]).unwrap();
                            polder::Change::Insert(old.unwrap_or_default().to_vec())
                        })
                        .unwrap();
                }
            });
        }
    });
    for (store, extra) in stores.into_iter().zip([1, 0, 0]) {
        assert_eq!(store.table("t").unwrap().len(), 6000 + extra);
        assert_sound(&store);
        store.close().unwrap();
    }
    drop(tables);
    for (s, store) in open().iter().enumerate() {
        let table = store.table("t").unwrap();
        for i in 0..6000u64 {
            assert_eq!(table.get(i.to_be_bytes()).unwrap().unwrap(), [s as u8; 50]);
        }
    }
}

/// Each life begins with a group of its own in the log.
#[test]
fn lives_that_change_nothing_leave_no_log_behind() {
    let mut disks = disk();
    drop(open_on(&disks));
    for i in 0..60 {
        let store = open_on(&disks);
        assert_eq!(store.recovery().groups, 0);
        let begun = Instant::now();
        while store.stats().log_replay_bytes > 100 << 10 {
            assert!(begun.elapsed() < Duration::from_secs(10), "life {i}: {:?}", store.stats());
            thread::yield_now();
        }
        disks = disks.crash(i);
    }
}

/// What is wrong is said, and not that there is no store.
#[test]
fn files_that_cannot_be_read_are_told_from_those_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let made = |name: &str| {
        let path = dir.path().join(name);
        Store::open(tight(&path)).unwrap().close().unwrap();
        path
    };
    let texts = |path: &Path| -> [String; 3] {
        let salvaged = polder::salvage(path, tight(path.join("new")), &mut |_, _, _| true);
        let dumped = polder::log_dump::dump(path, None, &mut |_| true);
        [
            full_text(&refused(tight(path))),
            salvaged.err().map(|error| full_text(&error)).unwrap_or_default(),
            dumped.err().map(|error| full_text(&error)).unwrap_or_default(),
        ]
    };
    let is_directory = made("a directory");
    for name in ["data", "log"] {
        fs::remove_file(is_directory.join(name)).unwrap();
        fs::create_dir(is_directory.join(name)).unwrap();
    }
    let loops = made("a loop");
    fs::remove_file(loops.join("data")).unwrap();
    std::os::unix::fs::symlink("data", loops.join("data")).unwrap();
    for (path, what) in [(is_directory, "Is a directory"), (loops, "symbolic links")] {
        for text in texts(&path) {
            assert!(text.contains(what) && !text.contains("not a Polder store"), "{text}");
        }
    }
    let zeroed = made("zeroed");
    let mut bytes = fs::read(zeroed.join("data")).unwrap();
    bytes[..2 * SUPERBLOCK_BYTES].fill(0);
    fs::write(zeroed.join("data"), &bytes).unwrap();
    let [text, ..] = texts(&zeroed);
    for part in ["superblocks", "damaged", "zeros", "salvage"] {
        assert!(text.contains(part), "{text}");
    }
}

/// A process that has lost its lock file has the other files locked all the same.
#[test]
fn a_store_in_use_is_seen_without_its_lock_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let store = Store::open(tight(&path)).unwrap();
    fs::remove_file(path.join("lock")).unwrap();
    let salvaged = polder::salvage(&path, tight(dir.path().join("new")), &mut |_, _, _| true);
    assert!(
        matches!(salvaged, Err(SalvageError::Source(OpenError::Locked { .. }))),
        "{salvaged:?}"
    );
    let dumped = polder::log_dump::dump(&path, None, &mut |_| true);
    assert!(matches!(dumped, Err(OpenError::Locked { .. })), "{dumped:?}");
    let begun = Instant::now();
    let error = refused(tight(&path));
    assert!(matches!(error, OpenError::Locked { .. }), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(10), "nobody waits long for one who is alive");
    store.close().unwrap();
    polder::log_dump::dump(&path, None, &mut |_| true).unwrap();
}
