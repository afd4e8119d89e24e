//! Stores whose files are damaged at random, and salvaged: every record that lies in pages that
//! were left alone is saved, and whatever is missing is told. Only an older copy of a page, in the
//! place of the page itself, may go untold.
//!
//! `POLDER_SALVAGE_SEEDS=a..b` chooses the seeds: a single one to replay it, many for a soak.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use polder::{Durability, OpenMode, Options, SalvageReport, SalvagedTable, Store, Table, salvage};
use polder_format::{ChecksumSeed, PageHeader, PageKind, PageSize, SUPERBLOCK_AREA_BYTES, choose};
use polder_pool::bytes::PageBuf;
use polder_testkit::{Random, effort};
use polder_tree::node::{NodeRef, Value};
use tempfile::TempDir;

use crate::support::*;

/// What an ordinary run tries, and a long one.
const FEW_SEEDS: u64 = 24;
const ALL_SEEDS: u64 = 48;
const BLOCK: usize = 4096;
const TABLES: [&str; 2] = ["large", "small"];

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(path: impl AsRef<Path>) -> Options {
    quick(path)
}

/// The files of a store, and what it holds.
struct Sample {
    data: Vec<u8>,
    log: Vec<u8>,
    /// The data file as it was a while before.
    old: Vec<u8>,
    closed: bool,
    tables: BTreeMap<String, Content>,
    seed: ChecksumSeed,
}

/// What became of one damaged store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Refused,
    Whole,
    WholeButWarned,
    LossTold,
    OlderCopy,
}

impl Sample {
    /// Tables with short values and long ones, another one that was dropped, and a log that has
    /// been used again since most of it was written.
    fn new(number: u64) -> Sample {
        let mut random = Random::new(number);
        let dir = tempfile::tempdir().unwrap();
        let live = dir.path().join("live");
        let closed = number.is_multiple_of(2);
        let store = Store::open(options(&live)).unwrap();
        let gone = store.create_table("gone").unwrap();
        (0..200u64).for_each(|i| assert!(gone.put(i.to_be_bytes(), [7; 120]).unwrap()));
        store.create_table("empty").unwrap();
        let mut tables = BTreeMap::from([("empty".to_string(), Content::new())]);
        for (name, keys) in TABLES.into_iter().zip([900, 8]) {
            let table = store.create_table(name).unwrap();
            let mut content = Content::new();
            (0..2 * keys).for_each(|_| change(&table, &mut content, &mut random, keys));
            tables.insert(name.to_string(), content);
        }
        store.drop_table("gone").unwrap();
        churn(&store, &mut random);
        store.checkpoint().unwrap();
        let old = fs::read(live.join("data")).unwrap();
        for (name, changes) in TABLES.into_iter().zip([150, 4]) {
            let table = store.table(name).unwrap();
            let content = tables.get_mut(name).unwrap();
            (0..changes).for_each(|_| change(&table, content, &mut random, 900));
        }
        // Of half of the stores the log no more tells of the last changes either.
        if number % 4 < 2 {
            churn(&store, &mut random);
        }
        let hot = store.table("hot").unwrap().iter().map(Result::unwrap).collect();
        tables.insert("hot".to_string(), hot);
        store.flush().unwrap();
        if !closed {
            // Until the superblocks tell how far the log goes.
            thread::sleep(Duration::from_millis(3500));
        }
        let store = if closed { store.close().map(|()| None).unwrap() } else { Some(store) };
        let data = fs::read(live.join("data")).unwrap();
        let log = fs::read(live.join("log")).unwrap();
        drop(store);
        let seed = ChecksumSeed::new(choose(&data[..2 * BLOCK]).unwrap().0.store_id);
        Sample { data, log, old, closed, tables, seed }
    }

    /// The header of a whole page that lies here.
    fn page(&self, block: &[u8]) -> Option<PageHeader> {
        let header = PageHeader::decode(block).ok()?;
        self.seed.verify(block, header.page_id).ok()
    }

    /// Keys with short values of a closed store whose leaf was left alone: the newest one that has
    /// the key with this value. (Values are random, so that those of other tables do not count.)
    fn untouched(&self, data: &[u8], content: &Content) -> Vec<Vec<u8>> {
        let mut newest: BTreeMap<Vec<u8>, (u64, usize)> = BTreeMap::new();
        for (i, block) in self.data.chunks_exact(BLOCK).enumerate().skip(16) {
            let Some(header) = self.page(block) else { continue };
            if header.kind != PageKind::TREE_LEAF {
                continue;
            }
            let mut page = PageBuf::new(PageSize::MIN);
            page.bytes_mut().copy_from_slice(block);
            let node = NodeRef::new(page.page());
            for slot in 0..node.count() {
                let mut key = Vec::new();
                node.append_key(slot, &mut key);
                let Value::Inline { at, len } = node.value(slot) else { continue };
                if content.get(&key).is_some_and(|value| *value == block[at..at + len]) {
                    let known = newest.entry(key).or_insert((header.lsn.0, i));
                    *known = (*known).max((header.lsn.0, i));
                }
            }
        }
        let same = |i: usize| {
            let at = i * BLOCK..(i + 1) * BLOCK;
            data.get(at.clone()) == Some(&self.data[at])
        };
        newest.into_iter().filter(|(_, (_, i))| same(*i)).map(|(key, _)| key).collect()
    }

    /// Whether an older copy of a page lies in its place.
    fn has_older_copy(&self, data: &[u8]) -> bool {
        let pairs = self.data.chunks_exact(BLOCK).zip(data.chunks_exact(BLOCK));
        pairs.skip(16).filter(|(was, is)| was != is).any(|(was, is)| {
            match (self.page(was), self.page(is)) {
                (Some(was), Some(is)) => was.page_id == is.page_id && is.lsn < was.lsn,
                _ => false,
            }
        })
    }
}

/// Inserts or removes a random key.
fn change(table: &Table, content: &mut Content, random: &mut Random, keys: u64) {
    let key = random.below(keys).to_be_bytes().to_vec();
    if random.chance(0.25) {
        table.delete(&key).unwrap();
        content.remove(&key);
        return;
    }
    let mut value = vec![0; if random.chance(0.02) { 9000 } else { 120 }];
    random.fill(&mut value);
    table.put(&key, &value).unwrap();
    content.insert(key, value);
}

/// Has all segments of the log used again.
fn churn(store: &Store, random: &mut Random) {
    let table = store.open_table("hot").unwrap();
    let mut value = vec![0; 900];
    for i in 0..6000u64 {
        random.fill(&mut value);
        table.put((i % 20).to_be_bytes(), &value).unwrap();
    }
}

/// Damages a file at random. Says what was done.
fn damage(sample: &Sample, random: &mut Random, data: &mut Vec<u8>, log: &mut Vec<u8>) -> String {
    let in_log = random.chance(0.25);
    let file = if in_log { log } else { data };
    let used: Vec<usize> = (0..file.len() / BLOCK)
        .filter(|i| file[i * BLOCK..][..BLOCK].iter().any(|byte| *byte != 0))
        .collect();
    if used.is_empty() {
        return "nothing".to_string();
    }
    let mut any = || used[random.index(used.len())] * BLOCK;
    let (a, b) = (any(), any());
    let name = if in_log { "log" } else { "data" };
    match random.below(7) {
        0 => {
            for _ in 0..=random.below(20) {
                file[a + random.index(BLOCK)] ^= 1 << random.below(8);
            }
            format!("bits of {name} at {a}")
        }
        1 => {
            file[a..a + BLOCK].fill(0);
            format!("zeros in {name} at {a}")
        }
        2 => {
            let end = (a + (1 + random.index(40)) * BLOCK).min(file.len());
            file[a..end].fill(0);
            format!("zeros in {name} from {a} to {end}")
        }
        3 => {
            let len = if random.chance(0.5) { a } else { random.index(file.len()) };
            file.truncate(len);
            format!("{name} cut at {len}")
        }
        4 => {
            file.copy_within(a..a + BLOCK, b);
            format!("{name} at {a} copied to {b}")
        }
        5 => {
            let count = 2 + random.index(30);
            let mut places: Vec<usize> =
                (0..count).map(|_| used[random.index(used.len())]).collect();
            places.sort_unstable();
            places.dedup();
            let blocks: Vec<Vec<u8>> =
                places.iter().map(|i| file[i * BLOCK..][..BLOCK].to_vec()).collect();
            for (i, at) in places.iter().enumerate() {
                file[at * BLOCK..][..BLOCK].copy_from_slice(&blocks[(i + 1) % blocks.len()]);
            }
            format!("{} blocks of {name} changed places", places.len())
        }
        _ if in_log || a >= sample.old.len() || a < SUPERBLOCK_AREA_BYTES as usize => {
            random.fill(&mut file[a..a + BLOCK]);
            format!("noise in {name} at {a}")
        }
        _ => {
            file[a..a + BLOCK].copy_from_slice(&sample.old[a..a + BLOCK]);
            format!("data at {a} as it was before")
        }
    }
}

fn saved(new: &Path) -> BTreeMap<String, Content> {
    let store = Store::open(options(new).mode(OpenMode::Open)).unwrap();
    let tables = store.tables().unwrap();
    let content = |name: String| {
        let entries = store.table(&name).unwrap().iter().map(Result::unwrap).collect();
        (name, entries)
    };
    tables.into_iter().map(content).collect()
}

/// Whether the report tells that this record of a table may be lost.
fn is_told(report: &SalvageReport, table: &str, key: &[u8]) -> bool {
    let of_table = report.tables.iter().find(|found| found.name == table);
    let names_key = |found: &SalvagedTable| {
        let within = |gap: &polder::KeyGap| {
            gap.from.as_slice() <= key && gap.to.as_ref().is_none_or(|to| key < to.as_slice())
        };
        found.lost_keys.iter().any(|lost| lost == key)
            || found.gaps.iter().any(within)
            || found.counted.is_some_and(|counted| counted != found.entries + found.lost)
            || found.counted.is_none() && found.doubtful > 0
    };
    of_table.is_some_and(names_key) || report.losses.iter().any(|loss| loss.table.is_none())
}

/// The report without its lists.
fn summary(report: &SalvageReport) -> String {
    let table = |found: &SalvagedTable| {
        let SalvagedTable { name, entries, counted, doubtful, lost, key_gaps, .. } = found;
        format!("{name}: {entries} of {counted:?}, {doubtful}?, {lost} lost, {key_gaps} gaps")
    };
    let tables: Vec<_> = report.tables.iter().map(table).collect();
    let SalvageReport { losses, damage, missing, .. } = report;
    format!("{tables:?}, losses {losses:?}, damage {damage:?}, missing {missing:?}")
}

fn run(sample: &Sample, seed: u64, dir: &TempDir) -> Outcome {
    let mut random = Random::new(seed);
    let (mut data, mut log) = (sample.data.clone(), sample.log.clone());
    let times = 1 + random.below(3);
    let done: Vec<String> =
        (0..times).map(|_| damage(sample, &mut random, &mut data, &mut log)).collect();
    let done = format!("closed: {}, {}", sample.closed, done.join("; "));
    let [damaged, new]: [PathBuf; 2] =
        ["damaged", "new"].map(|name| dir.path().join(format!("{name}-{seed}")));
    fs::create_dir(&damaged).unwrap();
    fs::write(damaged.join("data"), &data).unwrap();
    fs::write(damaged.join("log"), &log).unwrap();
    let options = options(&new).durability(Durability::None);
    let report = salvage(&damaged, options, &mut |_, _, _| true);
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            fs::remove_dir_all(damaged).unwrap();
            let text = full_text(&error);
            assert!(text.contains("superblock"), "{done}: {text}");
            return Outcome::Refused;
        }
    };
    let told = summary(&report);
    let saved = saved(&new);
    [damaged, new].into_iter().for_each(|path| fs::remove_dir_all(path).unwrap());
    let (mut missing, mut older) = (0, false);
    for (name, content) in &sample.tables {
        let found = saved.get(name);
        let loses_name = report.losses.iter().any(|loss| loss.what.contains("name"));
        assert!(found.is_some() || loses_name, "{done}: table {name} is gone: {told}");
        let Some(found) = found else {
            missing += 1;
            continue;
        };
        if sample.closed && !sample.has_older_copy(&data) {
            for key in sample.untouched(&data, content) {
                assert!(found.contains_key(&key), "{done}: {name}: {key:?} was readable: {told}");
            }
        }
        let keys: BTreeSet<_> = content.keys().chain(found.keys()).collect();
        for key in keys.into_iter().filter(|key| content.get(*key) != found.get(*key)) {
            missing += 1;
            if !is_told(&report, name, key) {
                older |= sample.has_older_copy(&data);
                let what = (content.get(key).map(Vec::len), found.get(key).map(Vec::len));
                assert!(older, "{done}: {name}: {key:?} is not told, {what:?}: {told}");
            }
        }
    }
    match (missing > 0, report.losses.is_empty()) {
        _ if older => Outcome::OlderCopy,
        (true, _) => Outcome::LossTold,
        (false, true) => Outcome::Whole,
        (false, false) => Outcome::WholeButWarned,
    }
}

#[test]
fn no_loss_goes_untold() {
    let seeds = effort::seeds("POLDER_SALVAGE_SEEDS", FEW_SEEDS, ALL_SEEDS);
    let samples: Vec<Sample> = thread::scope(|scope| {
        let made: Vec<_> = (0..4).map(|i| scope.spawn(move || Sample::new(i))).collect();
        made.into_iter().map(|sample| sample.join().unwrap()).collect()
    });
    let dir = tempfile::tempdir().unwrap();
    let next = Mutex::new(seeds);
    let outcomes = Mutex::new((BTreeMap::new(), Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some(seed) = next.lock().unwrap().next() else { return };
                    let sample = &samples[(seed % 4) as usize];
                    let ran = std::panic::catch_unwind(|| run(sample, seed, &dir));
                    let mut outcomes = outcomes.lock().unwrap();
                    match ran {
                        Ok(outcome) => *outcomes.0.entry(outcome).or_insert(0) += 1,
                        Err(_) => outcomes.1.push(seed),
                    }
                }
            });
        }
    });
    let (outcomes, failed) = outcomes.into_inner().unwrap();
    println!("{outcomes:?}");
    assert!(failed.is_empty(), "again, one by one: POLDER_SALVAGE_SEEDS={failed:?}");
}
