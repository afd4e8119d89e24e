//! Salvage of damaged stores: all that is readable comes over, and nothing else does.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use polder::{Durability, OpenMode, Options, SalvageError, SalvageReport, Store, Table, salvage};
use polder_format::log::{LogHeader, RegionKind};
use polder_format::{PageHeader, PageId, PageKind, SpaceId};
use polder_testkit::Random;
use tempfile::TempDir;

const PAGE: usize = 4096;
/// Below a quarter of the page: in the leaf.
const SHORT: usize = 120;
/// Three overflow pages.
const LONG: usize = 9000;

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store with a history: two tables and one that was dropped, its files as they lie.
struct Sample {
    dir: TempDir,
    tables: BTreeMap<String, Content>,
    /// Every value that a key of a table ever had.
    history: BTreeMap<(String, Vec<u8>), Vec<Vec<u8>>>,
}

fn options(path: impl Into<PathBuf>) -> Options {
    Options::new(path)
        .memory_budget(Options::least_memory_budget(PAGE as u32))
        .log_limit(4 << 20)
        .durability(Durability::None)
}

impl Sample {
    fn empty() -> Sample {
        let dir = tempfile::tempdir().unwrap();
        Sample { dir, tables: BTreeMap::new(), history: BTreeMap::new() }
    }

    /// `crashed`: the files are copied before the store is closed.
    fn new(crashed: bool) -> Sample {
        let mut sample = Sample::empty();
        let mut random = Random::new(5);
        let live = sample.dir.path().join("live");
        let store = Store::open(options(&live)).unwrap();
        let gone = store.create_table("gone").unwrap();
        for i in 0..500u64 {
            gone.put(i.to_be_bytes(), [7; SHORT]).unwrap();
        }
        for name in ["large", "small", "empty"] {
            store.create_table(name).unwrap();
            sample.tables.insert(name.to_string(), Content::new());
        }
        store.drop_table("gone").unwrap();
        for round in 0..4u64 {
            sample.change(&store.table("large").unwrap(), &mut random, 4000, round);
            sample.change(&store.table("small").unwrap(), &mut random, 6, round);
            if round == 2 {
                store.checkpoint().unwrap();
            }
        }
        store.flush().unwrap();
        if crashed {
            sample.copy(&live, "damaged");
            store.close().unwrap();
        } else {
            store.close().unwrap();
            sample.copy(&live, "damaged");
        }
        fs::remove_dir_all(&live).unwrap();
        sample
    }

    fn change(&mut self, table: &Table, random: &mut Random, keys: u64, round: u64) {
        let content = self.tables.get_mut(table.name()).unwrap();
        for _ in 0..keys {
            let key = random.below(keys).to_be_bytes().to_vec();
            if round > 0 && random.below(3) == 0 {
                assert_eq!(table.delete(&key).unwrap(), content.remove(&key).is_some());
                continue;
            }
            let mut value = vec![0; if random.below(100) == 0 { LONG } else { SHORT }];
            random.fill(&mut value);
            table.put(&key, &value).unwrap();
            let history = self.history.entry((table.name().to_string(), key.clone())).or_default();
            history.push(value.clone());
            content.insert(key, value);
        }
    }

    fn copy(&self, from: &Path, to: &str) {
        let to = self.dir.path().join(to);
        fs::create_dir(&to).unwrap();
        for file in ["data", "log", "lock"] {
            fs::copy(from.join(file), to.join(file)).unwrap();
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("damaged")
    }

    fn edit(&self, file: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.path().join(file);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
    }

    /// Flips a byte of every page that is wanted. Gives how many.
    fn damage_pages(&self, wanted: impl Fn(PageKind, PageId) -> bool) -> u64 {
        let mut hit = 0;
        self.edit("data", |bytes| {
            for page in bytes.chunks_mut(PAGE).skip(16) {
                let header = PageHeader::decode(page).unwrap();
                if header.kind.0 != 0 && wanted(header.kind, header.page_id) {
                    page[2000] ^= 0x10;
                    hit += 1;
                }
            }
        });
        assert!(hit > 0, "there is no such page");
        hit
    }

    fn cannot_be_opened(&self) {
        // A copy: opening would mend what it can.
        self.copy(&self.path(), "tried");
        let tried = self.dir.path().join("tried");
        let opened = Store::open(options(&tried).mode(OpenMode::Open));
        let sound = opened.is_ok_and(|store| {
            store.check(&mut |_, _| true).is_ok_and(|report| report.faults.is_empty())
        });
        assert!(!sound, "the damage does no harm");
        fs::remove_dir_all(tried).unwrap();
    }

    fn salvage(&self) -> (SalvageReport, BTreeMap<String, Content>) {
        let files = || ["data", "log", "lock"].map(|file| fs::read(self.path().join(file)).ok());
        let before = files();
        let new = self.dir.path().join("new");
        let report = salvage(&self.path(), options(&new), &mut |_, _, _| true).unwrap();
        assert!(files() == before, "salvage has written to the damaged store");
        let store = Store::open(options(&new).mode(OpenMode::Open)).unwrap();
        assert_eq!(store.recovery().redone, 0, "the new store was closed");
        let check = store.check(&mut |_, _| true).unwrap();
        assert_eq!(check.faults, []);
        let mut saved = BTreeMap::new();
        for name in store.tables().unwrap() {
            let entries = store.table(&name).unwrap().iter().map(Result::unwrap).collect();
            saved.insert(name, entries);
        }
        let of_report: Vec<_> = report.tables.iter().map(|t| (&t.name, t.entries)).collect();
        let there: Vec<_> = saved.iter().map(|(n, c): (_, &Content)| (n, c.len() as u64)).collect();
        assert_eq!(of_report, there);
        (report, saved)
    }

    /// Everything was saved.
    fn assert_whole(&self) -> SalvageReport {
        let (report, saved) = self.salvage();
        assert_same(&saved, &self.tables);
        assert!(report.tables.iter().all(|table| table.named && table.lost == 0));
        report
    }

    /// What is there is right or was right once. Gives how many entries are missing, and how many
    /// are not the last ones, by table.
    fn compare(&self, saved: &BTreeMap<String, Content>) -> BTreeMap<String, (usize, usize)> {
        let mut differences = BTreeMap::new();
        for (name, content) in &self.tables {
            let saved = &saved[name];
            let missing = content.keys().filter(|key| !saved.contains_key(*key)).count();
            let mut stale = 0;
            for (key, value) in saved {
                if content.get(key) != Some(value) {
                    stale += 1;
                    let history = self.history.get(&(name.clone(), key.clone()));
                    assert!(history.is_some_and(|had| had.contains(value)), "an invented entry");
                }
            }
            differences.insert(name.clone(), (missing, stale));
        }
        differences
    }
}

fn assert_same(saved: &BTreeMap<String, Content>, expected: &BTreeMap<String, Content>) {
    assert!(saved.keys().eq(expected.keys()), "{:?}", saved.keys());
    for (name, content) in expected {
        let saved = &saved[name];
        let missing = content.keys().filter(|key| !saved.contains_key(*key)).count();
        let extra = saved.keys().filter(|key| !content.contains_key(*key)).count();
        let wrong = saved
            .iter()
            .filter(|(key, value)| content.get(*key).is_some_and(|expected| expected != *value));
        assert_eq!((missing, extra, wrong.count()), (0, 0, 0), "{name}: missing, extra, wrong");
    }
}

fn is_table_page(page: PageId) -> bool {
    page.space() > SpaceId::CATALOGUE
}

#[test]
fn a_sound_store_comes_over_as_it_is() {
    for crashed in [false, true] {
        let report = Sample::new(crashed).assert_whole();
        assert_eq!(report.log_gaps, []);
        assert_eq!(report.damage, Vec::<String>::new());
        assert_eq!((report.pages_unreadable, report.pages_missing), (0, 0));
        assert_eq!(report.losses, []);
        assert_eq!(report.tables.iter().map(|table| table.doubtful).sum::<u64>(), 0);
        assert!(!report.stopped);
    }
}

#[test]
fn without_superblocks() {
    for crashed in [false, true] {
        let sample = Sample::new(crashed);
        sample.edit("data", |bytes| bytes[..8192].fill(0));
        sample.cannot_be_opened();
        let report = sample.assert_whole();
        assert!(report.damage[0].contains("both superblocks"), "{:?}", report.damage);
        assert_eq!(report.log_gaps, []);
        assert!(report.tables.iter().any(|table| table.doubtful > 0), "no map can be found");
    }
}

#[test]
fn with_damaged_inner_nodes() {
    for crashed in [false, true] {
        let sample = Sample::new(crashed);
        let hit =
            sample.damage_pages(|kind, page| kind == PageKind::TREE_INNER && is_table_page(page));
        if !crashed {
            sample.cannot_be_opened();
        }
        let report = sample.assert_whole();
        assert_eq!(report.pages_unreadable, hit);
        assert!(report.unreadable.iter().any(|page| {
            page.page.as_deref().is_some_and(|page| page.starts_with("page 1 of space "))
        }));
    }
}

#[test]
fn with_damaged_maps() {
    for crashed in [false, true] {
        for kind in [PageKind::ARRAY, PageKind::ALLOC_MAP] {
            let sample = Sample::new(crashed);
            sample.damage_pages(|found, _| found == kind);
            if !crashed {
                sample.cannot_be_opened();
                // All is in place: pages alone must do.
                fs::remove_file(sample.path().join("log")).unwrap();
            }
            let report = sample.assert_whole();
            assert!(!report.damage.is_empty());
        }
    }
}

#[test]
fn with_a_damaged_leaf() {
    let sample = Sample::new(false);
    let mut leaves = Vec::new();
    sample.edit("data", |bytes| {
        for (place, page) in bytes.chunks(PAGE).enumerate().skip(16) {
            let header = PageHeader::decode(page).unwrap();
            if header.kind == PageKind::TREE_LEAF && is_table_page(header.page_id) {
                leaves.push((place, header.page_id));
            }
        }
        bytes[leaves[leaves.len() / 2].0 * PAGE + 3000] ^= 1;
    });
    sample.cannot_be_opened();
    let (report, saved) = sample.salvage();
    assert_eq!(report.pages_unreadable, 1);
    assert_eq!(report.unreadable[0].offset, (leaves[leaves.len() / 2].0 * PAGE) as u64);
    let differences = sample.compare(&saved);
    let (missing, stale) = differences["large"];
    // What the log still tells of a lost leaf comes over as well.
    assert!(missing + stale < PAGE / SHORT, "more than a leaf is lost: {differences:?}");
    assert_eq!(differences["small"], (0, 0));
}

#[test]
fn with_a_damaged_page_of_a_long_value() {
    let mut sample = Sample::empty();
    let live = sample.dir.path().join("live");
    let store = Store::open(options(&live)).unwrap();
    let table = store.create_table("t").unwrap();
    let mut content = Content::new();
    for i in 0..50u8 {
        let value = vec![i; LONG];
        table.put([i], &value).unwrap();
        content.insert(vec![i], value);
    }
    store.close().unwrap();
    sample.copy(&live, "damaged");
    sample.tables.insert("t".to_string(), content);
    // The log of a store that was just made has a full-page image of every page: it goes first.
    sample.assert_whole();
    fs::remove_dir_all(sample.dir.path().join("new")).unwrap();
    fs::remove_file(sample.path().join("log")).unwrap();
    sample.edit("data", |bytes| {
        let place = bytes.chunks(PAGE).position(|page| page[100..200] == [9; 100]).unwrap();
        bytes[place * PAGE + 100] ^= 1;
    });
    let (report, saved) = sample.salvage();
    assert_eq!(report.tables[0].lost, 1);
    assert_eq!(report.tables[0].lost_keys, [[9]]);
    assert_eq!(report.damage, ["there is no log file"]);
    sample.tables.get_mut("t").unwrap().remove(&[9][..]);
    assert_same(&saved, &sample.tables);
}

/// The beginning of a group in the middle of what a recovery would read.
fn middle_of_live_log(sample: &Sample) -> (u64, u64, u64) {
    let mut groups = Vec::new();
    let end = polder::log_dump::dump(&sample.path(), None, &mut |record| {
        groups.push(record.lsn);
        true
    });
    let end = end.unwrap();
    let lsn = groups[groups.len() / 2];
    let log = fs::read(sample.path().join("log")).unwrap();
    let header = LogHeader::of_any(&log[..PAGE]).unwrap();
    // At the same place in some segment; the position, in words, stands in the group's header.
    let segments = header.of_kind(RegionKind::Segment, log.len() as u64);
    let blocks = segments.iter().flat_map(|segment| (segment.offset..segment.end()).step_by(4096));
    let mut places = blocks.map(|begin| begin + lsn % 4096);
    let is_there = |at: &u64| log[*at as usize + 8..].starts_with(&(lsn / 8).to_le_bytes()[..5]);
    let offset = places.find(is_there).unwrap();
    (lsn, offset, end.lsn)
}

#[test]
fn with_a_log_damaged_in_its_middle() {
    let sample = Sample::new(true);
    let (lsn, offset, end) = middle_of_live_log(&sample);
    sample.edit("log", |bytes| bytes[offset as usize + 30] ^= 1);
    sample.cannot_be_opened();
    let (report, saved) = sample.salvage();
    assert_eq!(report.log_gaps.len(), 1, "{:?}", report.log_gaps);
    let gap = &report.log_gaps[0];
    assert!((gap.from..gap.to).contains(&lsn) && gap.to < end, "{gap:?}, damaged at {lsn}");
    assert!(report.damage[0].contains("damaged at LSN"), "{:?}", report.damage);
    let differences = sample.compare(&saved);
    // A gap ends at the next sync: what it held are some of the last changes.
    let (missing, stale) = differences["large"];
    let lost = (gap.to - gap.from) / SHORT as u64;
    assert!(((missing + stale) as u64) <= lost, "{differences:?}, {gap:?}");
}

#[test]
fn without_a_log_header() {
    for crashed in [false, true] {
        let sample = Sample::new(crashed);
        sample.edit("log", |bytes| bytes[..4096].fill(0));
        sample.cannot_be_opened();
        let report = sample.assert_whole();
        assert!(report.damage[0].contains("header of the log"), "{:?}", report.damage);
    }
}

#[test]
fn without_a_catalogue_tables_get_names_by_their_spaces() {
    let sample = Sample::new(false);
    sample.damage_pages(|_, page| page.space() == SpaceId::CATALOGUE);
    fs::remove_file(sample.path().join("log")).unwrap();
    let (report, saved) = sample.salvage();
    let mut contents: Vec<&Content> = sample.tables.values().filter(|c| !c.is_empty()).collect();
    contents.sort_by_key(|content| content.len());
    let mut found: Vec<&Content> = saved.values().filter(|c| !c.is_empty()).collect();
    found.sort_by_key(|content| content.len());
    assert!(found == contents);
    assert!(report.tables.iter().all(|t| !t.named && t.name.starts_with("space-")));
}

#[test]
fn a_dropped_table_stays_dropped() {
    let mut sample = Sample::empty();
    let live = sample.dir.path().join("live");
    let store = Store::open(options(&live)).unwrap();
    for name in ["gone", "here"] {
        let table = store.create_table(name).unwrap();
        (0..100u64).for_each(|i| assert!(table.put(i.to_be_bytes(), b"v").unwrap()));
    }
    store.drop_table("gone").unwrap();
    store.close().unwrap();
    sample.copy(&live, "damaged");
    let entry = |i: u64| (i.to_be_bytes().to_vec(), b"v".to_vec());
    sample.tables.insert("here".to_string(), (0..100).map(entry).collect());
    // No map can be found, and the log still has every insert.
    sample.edit("data", |bytes| bytes[..8192].fill(0));
    sample.assert_whole();
}

#[test]
fn maps_that_are_older_than_a_page_are_not_believed() {
    let sample = Sample::empty();
    let live = sample.dir.path().join("live");
    let store = Store::open(options(&live)).unwrap();
    // A log so short that it asks for no checkpoint by itself.
    let table = store.create_table("t").unwrap().with_durability(polder::Durability::None);
    let insert = |i: u64| assert!(table.put(i.to_be_bytes(), [3; SHORT]).unwrap());
    (0..1000).for_each(insert);
    store.checkpoint().unwrap();
    // More than the budget: the first of these leaves are evicted, and the maps stay in memory.
    (1000..30_000).for_each(insert);
    store.flush().unwrap();
    sample.copy(&live, "damaged");
    fs::remove_file(sample.path().join("log")).unwrap();
    let (report, saved) = sample.salvage();
    let missing = (0..10_000u64).filter(|i| !saved["t"].contains_key(&i.to_be_bytes()[..]));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<u64>::new());
    // Whether a map was evicted as well, so that nothing is in doubt, is up to the clock.
    assert_eq!(report.tables[0].name, "t");
}

#[test]
fn pages_of_any_size_are_found() {
    for page_size in [8192u32, 65536] {
        let dir = tempfile::tempdir().unwrap();
        let budget = Options::least_memory_budget(page_size);
        let options = |name: &str| {
            Options::new(dir.path().join(name)).memory_budget(budget).durability(Durability::None)
        };
        let store = Store::open(options("old").page_size(page_size)).unwrap();
        let table = store.create_table("t").unwrap();
        for i in 0..3000u64 {
            table.put(i.to_be_bytes(), [1; 100]).unwrap();
        }
        store.close().unwrap();
        let data = dir.path().join("old").join("data");
        let mut bytes = fs::read(&data).unwrap();
        bytes[..8192].fill(0);
        fs::write(&data, bytes).unwrap();
        let old = dir.path().join("old");
        let report = salvage(&old, options("new"), &mut |_, _, _| true).unwrap();
        assert_eq!((report.page_size, report.tables[0].entries), (page_size, 3000));
    }
}

#[test]
fn what_cannot_be_salvaged_is_said() {
    let sample = Sample::new(false);
    let path = sample.path();
    let same = salvage(&path, options(&path), &mut |_, _, _| true);
    assert!(matches!(same, Err(SalvageError::SameDirectory)));
    let nothing = salvage(&path.join("nothing"), options(path.join("new")), &mut |_, _, _| true);
    assert!(matches!(nothing, Err(SalvageError::Source(_))), "{nothing:?}");
    let stopped =
        salvage(&path, options(sample.dir.path().join("some")), &mut |_, done, _| done < 5);
    assert!(stopped.unwrap().stopped);
    let again = salvage(&path, options(sample.dir.path().join("some")), &mut |_, _, _| true);
    assert!(matches!(again, Err(SalvageError::Target(_))), "{again:?}");
    sample.edit("data", |bytes| bytes[..8192].fill(0));
    sample.edit("log", |bytes| bytes[..4096].fill(0));
    let unknown = salvage(&path, options(sample.dir.path().join("new")), &mut |_, _, _| true);
    assert!(matches!(unknown, Err(SalvageError::NoIdentity { .. })), "{unknown:?}");
}

#[test]
fn a_store_that_is_open_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let store = Store::open(options(&path)).unwrap();
    let held = salvage(&path, options(dir.path().join("new")), &mut |_, _, _| true);
    let text = held.unwrap_err().to_string();
    assert!(text.contains(&std::process::id().to_string()), "{text}");
    store.close().unwrap();
}

/// A bulk load that ends in an error leaves leaves in the log that were never anybody's.
#[test]
fn loads_that_failed_bring_nothing() {
    let mut sample = Sample::empty();
    let live = sample.dir.path().join("live");
    // With room for all: leaves that were written to make room and freed then are in the data file,
    // where nothing tells them from others.
    let store = Store::open(options(&live).memory_budget(16 << 20)).unwrap();
    let entries = |count: u64| (0..count).map(|i| (i.to_be_bytes(), [3; SHORT]));
    let loaded = store.create_table("loaded").unwrap();
    loaded.bulk_load(entries(2000)).unwrap();
    let unsorted = store.create_table("unsorted").unwrap();
    unsorted.bulk_load(entries(2000).chain(entries(1))).unwrap_err();
    let written = store.create_table("written").unwrap();
    let during = entries(2000).inspect(|(key, _)| {
        if *key == 1000u64.to_be_bytes() {
            // By another thread: this one is inside of the load.
            let write = || written.put(key, [4; SHORT]).unwrap();
            std::thread::scope(|scope| scope.spawn(write).join().unwrap());
        }
    });
    written.bulk_load(during).unwrap_err();
    store.flush().unwrap();
    sample.copy(&live, "damaged");
    for table in [&loaded, &unsorted, &written] {
        let content = table.iter().map(Result::unwrap).collect();
        sample.tables.insert(table.name().to_string(), content);
    }
    assert_eq!(sample.tables["written"].len(), 1);
    let (_, saved) = sample.salvage();
    let lens = |tables: &BTreeMap<String, Content>| -> Vec<_> {
        tables.iter().map(|(name, content)| (name.clone(), content.len())).collect()
    };
    assert_eq!(lens(&saved), lens(&sample.tables));
    assert!(saved == sample.tables);
}
