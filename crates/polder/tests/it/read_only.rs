//! Stores that are opened to read: nothing of them changes, whatever state they are in.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use polder::{
    BatchError, Change, Durability, OpenError, Store, StoreError, TranslationKind, WriteBatch,
};
use polder_testkit::found;

use crate::mount::Mount;
use crate::support::*;

const RECORDS: u64 = 3000;

fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

fn value(i: u64) -> Vec<u8> {
    vec![i as u8; 100 + i as usize % 400]
}

/// A store with two tables, closed.
fn closed(path: &Path) {
    let store = Store::open(quick(path)).unwrap();
    let table = store.open_table("t").unwrap();
    store.create_table("empty").unwrap();
    for i in 0..RECORDS {
        table.insert(key(i), value(i)).unwrap();
    }
    drop(table);
    store.close().unwrap();
}

/// The same as a process leaves it that is killed: the most of it is in the log alone. `records`
/// more than the closed one has, and a page for nearly each.
fn killed(path: &Path, records: u64) {
    let alive = path.with_extension("alive");
    closed(&alive);
    let options = quick(&alive).memory_budget(64 << 20).log_limit(256 << 20);
    let store = Store::open(options).unwrap();
    let table = store.open_table("t").unwrap();
    for i in RECORDS..RECORDS + records {
        table.insert(key(i), value(i)).unwrap();
    }
    store.create_table("late").unwrap();
    store.flush().unwrap();
    fs::create_dir_all(path).unwrap();
    for name in ["data", "log"] {
        fs::copy(alive.join(name), path.join(name)).unwrap();
    }
    fs::write(path.join("lock"), "process 1 (gone)\n").unwrap();
}

fn assert_holds(store: &Store, records: u64) {
    let table = store.table("t").unwrap();
    assert_eq!(table.len(), records);
    for i in 0..records {
        assert_eq!(table.get(key(i)).unwrap(), Some(value(i)), "{i}");
    }
    assert_eq!(table.get(key(records)).unwrap(), None);
    assert_eq!(table.iter().map(Result::unwrap).count() as u64, records);
    assert_eq!(table.iter().rev().map(Result::unwrap).count() as u64, records);
    assert_sound(store);
}

/// Every call that would write says so.
fn assert_refuses(store: &Store) {
    let table = store.table("t").unwrap();
    let refused = |error: StoreError| assert!(matches!(error, StoreError::ReadOnly), "{error:?}");
    refused(table.insert(b"k", b"v").unwrap_err());
    refused(table.with_durability(Durability::Sync).insert(b"k", b"v").unwrap_err());
    refused(table.remove(key(0)).unwrap_err());
    refused(table.update_with(b"k", |_| Change::Insert(Vec::new())).unwrap_err());
    refused(table.bulk_load([(b"k", b"v")]).unwrap_err());
    refused(store.create_table("new").unwrap_err());
    refused(store.open_table("new").unwrap_err());
    refused(store.drop_table("t").unwrap_err());
    refused(store.rename_table("t", "new").unwrap_err());
    refused(table.put(b"k", b"v").unwrap_err());
    refused(table.pop_first().unwrap_err());
    refused(store.shrink().unwrap_err());
    refused(store.checkpoint().unwrap_err());
    let mut batch = WriteBatch::new();
    batch.put(&table, b"k", b"v").tag(b"tag");
    match store.apply(batch) {
        Err(BatchError::Store(error)) => refused(error),
        other => panic!("{other:?}"),
    }
    // It has nothing to wait for.
    store.flush().unwrap();
    assert_eq!(store.tag().unwrap(), None);
    assert_eq!(store.open_table("t").unwrap().get(b"k").unwrap(), None);
}

#[test]
fn each_translation_reads_and_leaves_everything_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, torn) = (dir.path().join("whole"), dir.path().join("torn"));
    closed(&whole);
    killed(&torn, RECORDS);
    for (path, records, groups) in [(&whole, RECORDS, false), (&torn, 2 * RECORDS, true)] {
        let before = files(path);
        for kind in TranslationKind::ALL {
            // Some never evict, and hold it all.
            let options = to_read(quick(path).translation(*kind).memory_budget(64 << 20));
            let store = Store::open(options).unwrap_or_else(|error| {
                panic!("{kind}: {}", full_text(&error));
            });
            assert!(store.is_read_only());
            assert_eq!(store.recovery().groups > 0, groups, "{kind}");
            assert_holds(&store, records);
            assert_refuses(&store);
            store.close().unwrap();
            assert!(files(path) == before, "{kind}: a file has changed");
        }
    }
    // All that the log tells is there to be recovered still.
    let store = Store::open(quick(&torn)).unwrap();
    assert!(store.recovery().redone > RECORDS);
    assert_holds(&store, 2 * RECORDS);
    assert_eq!(store.tables().unwrap(), ["empty", "late", "t"]);
}

/// Pages that the log has changed, more than there are frames, go elsewhere and come back.
#[test]
fn a_recovery_that_is_larger_than_memory_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let records = 3 * RECORDS;
    killed(&path, records);
    let before = files(&path);
    for kind in TranslationKind::EVICTING {
        let store = Store::open(to_read(tight(&path).translation(*kind))).unwrap();
        let stats = store.stats();
        assert!(stats.pool.device_writes > stats.pool.frames, "{kind}: {stats:?}");
        assert_holds(&store, RECORDS + records);
        // The same once more, from the device.
        let deep = store.check_deep(&mut |_, _, _| true).unwrap();
        assert!(deep.is_sound(), "{kind}: {deep:?}");
        assert_holds(&store, RECORDS + records);
        drop(store);
        assert!(files(&path) == before, "{kind}: a file has changed");
    }
    let store = Store::open(tight(&path)).unwrap();
    assert_holds(&store, RECORDS + records);
}

#[test]
fn readers_keep_writers_out_and_each_other_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    closed(&path);
    let readers = [(); 3].map(|()| Store::open(to_read(quick(&path))).unwrap());
    let error = Store::open(quick(&path)).unwrap_err();
    assert!(matches!(error, OpenError::Locked { .. }), "{error:?}");
    assert!(error.to_string().contains("open to read"), "{error}");
    let [first, others @ ..] = readers;
    first.close().unwrap();
    assert!(Store::open(quick(&path)).is_err());
    // Tools that look at a store that is not open do so beside readers.
    polder::log_dump::dump(&path, None, &mut |_| true).unwrap();
    drop(others);
    let writer = Store::open(quick(&path)).unwrap();
    let error = Store::open(to_read(quick(&path))).unwrap_err();
    let process = format!("process {}", std::process::id());
    assert!(error.to_string().contains(&process), "{error}");
    drop(writer);
    Store::open(to_read(quick(&path))).unwrap();
}

#[test]
fn where_no_store_is_none_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path| Store::open(to_read(quick(path))).unwrap_err();
    let none = dir.path().join("none");
    assert!(matches!(open(&none), OpenError::NotFound { .. }));
    assert!(!none.exists());
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(matches!(open(&empty), OpenError::NotFound { .. }));
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
    fs::write(empty.join("letter"), "Dear Jane").unwrap();
    assert!(matches!(open(&empty), OpenError::Foreign { .. }));
    let store = dir.path().join("store");
    closed(&store);
    fs::remove_file(store.join("log")).unwrap();
    assert!(matches!(open(&store), OpenError::NoLog { .. }));
    let error = disk().open(to_read(tight("simulated"))).unwrap_err();
    assert!(matches!(error, OpenError::NotFound { .. }), "{error:?}");
}

#[test]
fn a_file_system_that_cannot_be_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mount) = Mount::new(dir.path(), "96M") else { return };
    let (whole, torn) = (dir.path().join("whole"), dir.path().join("torn"));
    closed(&whole);
    killed(&torn, RECORDS);
    fs::remove_dir_all(torn.with_extension("alive")).unwrap();
    mount.make_read_only();
    for (path, records) in [(&whole, RECORDS), (&torn, 2 * RECORDS)] {
        let store = Store::open(to_read(quick(path))).unwrap();
        assert_holds(&store, records);
        assert_refuses(&store);
    }
}

const PATH: &str = "POLDER_TEST_READ_ONLY_STORE";

/// Not a test of its own: what the child of the next two does.
#[test]
fn child_that_reads() {
    let Some(path) = std::env::var_os(PATH).map(PathBuf::from) else { return };
    match Store::open(to_read(tight(&path))) {
        Ok(store) => println!("\nit has {}", store.table("t").unwrap().iter().flatten().count()),
        Err(error) => println!("\nrefused: {}", full_text(&error)),
    }
}

fn child(path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "read_only::child_that_reads", "--nocapture"]).env(PATH, path);
    command
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn without_a_place_for_what_does_not_fit_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (small, large) = (dir.path().join("small"), dir.path().join("large"));
    closed(&small);
    killed(&large, 3 * RECORDS);
    let nowhere = dir.path().join("nowhere");
    // As long as all that was recovered stays in memory nobody asks for it.
    let text = said(child(&small).env("TMPDIR", &nowhere));
    assert!(text.contains(&format!("it has {RECORDS}")), "{text}");
    let text = said(child(&large).env("TMPDIR", &nowhere));
    assert!(text.contains("refused: ") && text.contains("larger budget"), "{text}");
    assert!(text.contains(&nowhere.display().to_string()), "{text}");
    let text = said(child(&large).env("TMPDIR", dir.path()));
    assert!(text.contains(&format!("it has {}", 4 * RECORDS)), "{text}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "a temporary file is left");
}

/// A user who may read a store and change nothing in it.
#[test]
fn files_and_a_directory_that_may_only_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    closed(&path);
    for name in ["data", "log", "lock"] {
        fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o444)).unwrap();
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(path.join("probe"), "").is_err() {
        let store = Store::open(to_read(tight(&path))).unwrap();
        return assert_holds(&store, RECORDS);
    }
    fs::remove_file(path.join("probe")).unwrap();
    // This process may write everywhere: another user looks.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    other.arg(std::env::current_exe().unwrap());
    other.args(["--exact", "read_only::child_that_reads", "--nocapture"]).env(PATH, &path);
    match other.output() {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains(&format!("it has {RECORDS}")), "{text}");
        }
        other => found::skip(format_args!("nobody cannot run this program: {other:?}")),
    }
}
