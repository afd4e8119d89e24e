//! Stores of this format, as they were written when it was made, are opened by every version that
//! comes: one that was closed, and one that crashed with torn pages and a log to replay. And so
//! are such as are written today, which `POLDER_MAKE_FIXTURES=FOLDER` keeps: for the next format.
//! Those of a format before are refused in words.
//!
//! A fixture is a file's length and those of its blocks that are not zero: `length: u64`, then
//! `offset: u64` and 4096 bytes each, little-endian.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use polder::{OpenError, Store, Table, WriteBatch};
use polder_testkit::{Errno, FaultPlan, Operation, SimDisk, When};

use crate::support::*;

const BLOCK_BYTES: usize = 4096;
const TAG: &[u8] = b"the second batch";

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");

fn pack(image: &[u8]) -> Vec<u8> {
    let mut packed = (image.len() as u64).to_le_bytes().to_vec();
    for (i, block) in image.chunks(BLOCK_BYTES).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            packed.extend_from_slice(&((i * BLOCK_BYTES) as u64).to_le_bytes());
            packed.extend_from_slice(block);
        }
    }
    packed
}

fn unpack(packed: &[u8]) -> Vec<u8> {
    let (len, blocks) = packed.split_first_chunk::<8>().unwrap();
    let mut image = vec![0; u64::from_le_bytes(*len) as usize];
    for block in blocks.chunks(8 + BLOCK_BYTES) {
        let (offset, bytes) = block.split_first_chunk::<8>().unwrap();
        let offset = u64::from_le_bytes(*offset) as usize;
        image[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
    image
}

/// What the tables `words` and `long` hold after the first batch, and after the second one.
fn entries(second: bool) -> [Entries; 2] {
    let mut tables = [Entries::new(), Entries::new()];
    for i in 0..90u64 {
        let key = format!("word {:03}", i * 37 % 90).into_bytes();
        tables[0].insert(key, vec![i as u8; (i * 7 % 120) as usize]);
    }
    for i in 0..3u64 {
        tables[1].insert(i.to_be_bytes().to_vec(), vec![i as u8 + 1; 9000]);
    }
    if second {
        for i in 0..30u64 {
            tables[0].insert(format!("late {i}").into_bytes(), vec![0xee; 50]);
        }
        tables[0].retain(|key, _| !key.ends_with(b"3"));
        tables[1].insert(1u64.to_be_bytes().to_vec(), b"short by now".to_vec());
        tables[1].remove(&2u64.to_be_bytes()[..]);
    }
    tables
}

/// Makes of `table` what it holds `after`.
fn change(batch: &mut WriteBatch<'_>, table: &Table, before: &Entries, after: &Entries) {
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        batch.delete(table, key);
    }
    for (key, value) in after.iter().filter(|(key, value)| before.get(*key) != Some(value)) {
        batch.put(table, key, value);
    }
}

fn apply(store: &Store, before: &[Entries; 2], after: &[Entries; 2], tag: &[u8]) {
    let tables = ["words", "long"].map(|name| store.open_table(name).unwrap());
    let mut batch = WriteBatch::new();
    for (t, table) in tables.iter().enumerate() {
        change(&mut batch, table, &before[t], &after[t]);
    }
    store.apply(std::mem::take(batch.tag(tag))).unwrap();
}

fn assert_holds(store: &Store, second: bool) {
    assert_eq!(store.tables().unwrap(), ["long", "words"]);
    for (name, expected) in ["words", "long"].into_iter().zip(entries(second)) {
        let table = store.table(name).unwrap();
        assert!(table.iter().map(Result::unwrap).eq(expected.clone()), "{name}");
        assert_eq!(table.len(), expected.len() as u64);
        for (key, value) in expected {
            assert_eq!(table.get(&key).unwrap(), Some(value));
        }
    }
    let tag = if second { TAG } else { b"the first batch" };
    assert_eq!(store.tag().unwrap().as_deref(), Some(tag));
    assert_sound(store);
}

/// Makes both stores, and keeps their files in a folder.
fn make_fixtures(folder: &Path) {
    let disks = disk();
    let store = open_on(&disks);
    apply(&store, &Default::default(), &entries(false), b"the first batch");
    store.open_table("dropped").unwrap().put(b"k", b"v").unwrap();
    store.drop_table("dropped").unwrap();
    store.close().unwrap();
    save(&folder.join("closed"), &disks.copy());

    // A checkpoint that tears the pages which it writes, by the seed of a sync that fails.
    let crashed = |seed| {
        let disks = disks.copy();
        let store = open_on(&disks);
        apply(&store, &entries(false), &entries(true), TAG);
        let plan = FaultPlan::new(seed);
        disks.data.set_plan(plan.fail(Operation::Sync, When::From(0), Errno::IO));
        store.checkpoint().unwrap_err();
        disks.crash(1)
    };
    let is_torn = |disks: &Disks| open_on(&disks.copy()).recovery().restored_pages > 0;
    let crashed = (1..40).map(crashed).find(is_torn).expect("no page is torn that has a copy");
    save(&folder.join("crashed"), &crashed);
}

fn save(folder: &Path, disks: &Disks) {
    fs::create_dir_all(folder).unwrap();
    for (file, disk) in [("data", &disks.data), ("log", &disks.log)] {
        fs::write(folder.join(file), pack(&disk.image())).unwrap();
    }
}

/// The files of a fixture, as a store had them.
fn put(fixture: &Path, path: &Path) {
    for file in ["data", "log"] {
        let image = unpack(&fs::read(fixture.join(file)).unwrap());
        fs::write(path.join(file), image).unwrap();
    }
}

fn lives_on(path: &Path, second: bool) {
    let store = Store::open(tight(path)).unwrap();
    assert_holds(&store, second);
    let table = store.open_table("new").unwrap();
    (0..500u64).for_each(|i| assert!(table.put(i.to_be_bytes(), [1; 300]).unwrap()));
    store.drop_table("new").unwrap();
    assert_holds(&store, second);
    store.close().unwrap();
}

fn closed_store_opens(fixtures: &Path) {
    let dir = tempfile::tempdir().unwrap();
    put(&fixtures.join("closed"), dir.path());
    let store = Store::open(tight(dir.path())).unwrap();
    assert_eq!((store.recovery().redone, store.recovery().restored_pages), (0, 0));
    assert_holds(&store, false);
    store.close().unwrap();
    lives_on(dir.path(), false);
}

/// Gives how many torn pages were restored.
fn crashed_store_opens(fixtures: &Path) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    put(&fixtures.join("crashed"), dir.path());
    let store = Store::open(tight(dir.path())).unwrap();
    let recovery = store.recovery();
    assert!(recovery.redone > 0, "{recovery:?}");
    let restored = recovery.restored_pages;
    assert_holds(&store, true);
    store.close().unwrap();
    lives_on(dir.path(), true);
    restored
}

#[test]
fn stores_of_earlier_formats_are_refused_in_words() {
    for (format, fixture) in [(1, "closed"), (1, "crashed"), (2, "closed"), (2, "crashed")] {
        let dir = tempfile::tempdir().unwrap();
        put(&Path::new(FIXTURES).join(format!("v{format}")).join(fixture), dir.path());
        let before = ["data", "log"].map(|file| fs::read(dir.path().join(file)).unwrap());
        let error = Store::open(tight(dir.path())).unwrap_err();
        assert!(matches!(error, OpenError::Older { .. }), "{error:?}");
        let text = full_text(&error);
        assert!(text.contains(&format!("older Polder (format {format})")), "{text}");
        assert!(text.contains(&dir.path().display().to_string()), "{text}");
        let salvaged = tempfile::tempdir().unwrap();
        let to = tight(salvaged.path().join("s"));
        let error = polder::salvage(dir.path(), to, &mut |_, _, _| true).unwrap_err();
        assert!(full_text(&error).contains("older Polder"), "{}", full_text(&error));
        let after = ["data", "log"].map(|file| fs::read(dir.path().join(file)).unwrap());
        assert!(before == after, "something was changed");
    }
}

#[test]
fn stores_of_the_third_format() {
    let folder = Path::new(FIXTURES).join("v3");
    closed_store_opens(&folder);
    assert!(crashed_store_opens(&folder) > 0);
}

#[test]
fn stores_of_today() {
    let dir = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("POLDER_MAKE_FIXTURES").map(PathBuf::from);
    let folder = kept.unwrap_or_else(|| dir.path().to_path_buf());
    make_fixtures(&folder);
    closed_store_opens(&folder);
    assert!(crashed_store_opens(&folder) > 0);
}

#[test]
fn fixtures_are_packed_and_unpacked() {
    let mut image = vec![0; 5 * BLOCK_BYTES];
    image[BLOCK_BYTES + 7] = 1;
    image[4 * BLOCK_BYTES] = 2;
    assert_eq!(unpack(&pack(&image)), image);
    assert_eq!(pack(&image).len(), 8 + 2 * (8 + BLOCK_BYTES));
    let disk = SimDisk::from_image(&image, FaultPlan::new(1));
    assert_eq!(disk.image(), image);
}
