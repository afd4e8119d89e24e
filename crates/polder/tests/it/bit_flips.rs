//! One bit flips, anywhere in the data file or the log, of a store that was closed and of one that
//! crashed. Opening, reading and checking then give right answers, or errors that name file and
//! place; or the log is shorter by what nobody knows to have been durable, and that is reported.

use std::collections::BTreeMap;

use polder::{Durability, WriteBatch};
use polder_format::log::{LOG_BLOCK_BYTES, LogHeader, RegionKind};
use polder_format::{SUPERBLOCK_BYTES, choose};
use polder_testkit::{Random, SimDisk};

use crate::support::*;

const TABLES: [&str; 2] = ["a", "b"];
const STEPS: usize = 160;
/// A checkpoint is made after this step.
const CHECKPOINT: usize = 90;
/// So many steps at the end are not waited for.
const QUICK: usize = 5;
const PAGE_BYTES: usize = 4096;

type Content = BTreeMap<(usize, Vec<u8>), Vec<u8>>;

/// A store, and what it held after each of its steps.
struct Sample {
    disks: Disks,
    states: Vec<Content>,
    /// How many of the steps are there, if nothing is damaged.
    whole: usize,
    closed: bool,
}

impl Sample {
    fn new(closed: bool) -> Sample {
        let disks = disk();
        let store = open_on(&disks);
        let tables = TABLES.map(|name| store.open_table(name).unwrap());
        let mut random = Random::new(11);
        let mut states = vec![Content::new()];
        for step in 1..=STEPS {
            let mut content = states[step - 1].clone();
            let mut batch = WriteBatch::new();
            let changes = if step % 10 == 0 { 6 } else { 1 };
            for _ in 0..changes {
                let t = random.index(2);
                let key = random.below(60).to_be_bytes().to_vec();
                let mut value = vec![0; if random.chance(0.05) { 6000 } else { 200 }];
                random.fill(&mut value);
                if random.chance(0.8) {
                    batch.put(&tables[t], &key, &value);
                    content.insert((t, key), value);
                } else {
                    batch.delete(&tables[t], &key);
                    content.remove(&(t, key));
                }
            }
            // The last ones are on their way when the power fails.
            let quick = step > STEPS - QUICK && !closed;
            batch.durability(if quick { Durability::None } else { Durability::Sync });
            store.apply(batch).unwrap();
            states.push(content);
            if step == CHECKPOINT {
                store.checkpoint().unwrap();
            }
        }
        drop(tables);
        if closed {
            store.close().unwrap();
            return Sample { disks, states, whole: STEPS, closed };
        }
        let disks = disks.crash(4);
        let store = open_on(&disks.copy());
        let entries = |t: usize| {
            let table = store.table(TABLES[t]).unwrap();
            let entry = move |(key, value)| ((t, key), value);
            table.iter().map(Result::unwrap).map(entry).collect::<Vec<_>>()
        };
        let found: Content = [entries(0), entries(1)].concat().into_iter().collect();
        let whole = states.iter().rposition(|state| *state == found).unwrap();
        assert!(whole >= STEPS - QUICK);
        Sample { disks, states, whole, closed }
    }

    /// Opens, checks and reads all. Says what became of it.
    fn examine(&self, disks: &Disks, what: &str) -> Outcome {
        let store = match disks.open(tight("simulated")) {
            Ok(store) => store,
            Err(error) => return Outcome::refused(&full_text(&error), what),
        };
        let mut faults = Vec::new();
        match store.check(&mut |_, _| true) {
            Ok(report) => faults.extend(report.faults.iter().map(ToString::to_string)),
            Err(error) => faults.push(full_text(&error)),
        }
        let mut found = Content::new();
        for (t, name) in TABLES.into_iter().enumerate() {
            let entries = store.table(name).map(|table| {
                for key in self.states.iter().flat_map(|state| state.keys()) {
                    if key.0 == t
                        && let Ok(Some(value)) = table.get(&key.1)
                    {
                        found.insert(key.clone(), value);
                    }
                }
                table.iter().collect::<Result<Vec<_>, _>>()
            });
            match entries.and_then(|entries| entries) {
                Ok(entries) => {
                    let scanned: Vec<_> = found.range((t, vec![])..(t + 1, vec![])).collect();
                    let entries: Vec<_> = entries.into_iter().map(|(k, v)| ((t, k), v)).collect();
                    assert!(scanned.into_iter().eq(entries.iter().map(|e| (&e.0, &e.1))), "{what}");
                }
                Err(error) => faults.push(full_text(&error)),
            }
        }
        let recovery = store.recovery();
        if !faults.is_empty() {
            assert!(faults.iter().all(|fault| names_place(fault)), "{what}: {faults:?}");
            let last = &self.states[self.whole];
            let right = found.iter().all(|(key, value)| last.get(key) == Some(value));
            assert!(right, "{what}: wrong answers beside {faults:?}");
            return Outcome::Damaged;
        }
        let there = self.states.iter().rposition(|state| *state == found);
        let there = there.unwrap_or_else(|| panic!("{what}: that never was: {recovery:?}"));
        let whole = self.whole;
        if there < whole {
            assert!(recovery.cut_short.is_some(), "{what}: {there} of {whole}: {recovery:?}");
            // Each commit knew the one before it to be durable; a step that changes nothing commits
            // nothing.
            let changes = |step: &usize| self.states[*step] != self.states[step - 1];
            let last = (1..=STEPS - QUICK).rev().find(changes).unwrap();
            assert!(!self.closed && there + 1 >= last, "{what}: {there} of {whole}, {last}");
            return Outcome::Shorter;
        }
        match recovery.superblock {
            Some(_) => Outcome::Healed,
            None => Outcome::Unnoticed,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Refused,
    Damaged,
    Shorter,
    Healed,
    Unnoticed,
}

impl Outcome {
    fn refused(text: &str, what: &str) -> Outcome {
        assert!(names_place(text), "{what}: {text}");
        let file = ["log file", "data file", "superblock"];
        assert!(file.iter().any(|file| text.contains(file)), "{what}: {text}");
        Outcome::Refused
    }
}

fn names_place(text: &str) -> bool {
    ["byte ", "page ", "superblock"].iter().any(|place| text.contains(place))
}

/// Blocks of a file that hold something.
fn used_blocks(disk: &SimDisk) -> Vec<u64> {
    let image = disk.image();
    let used = image.chunks(PAGE_BYTES).enumerate().filter(|(_, b)| b.iter().any(|b| *b != 0));
    used.map(|(i, _)| (i * PAGE_BYTES) as u64).collect()
}

/// Flips a bit at each offset, and counts what became of it.
fn flip(sample: &Sample, in_log: bool, offsets: Vec<u64>) -> BTreeMap<Outcome, usize> {
    let mut outcomes = BTreeMap::new();
    let mut random = Random::new(2);
    for offset in offsets {
        let (file, bit) = (if in_log { "log" } else { "data" }, random.below(8) as u32);
        let what = format!("closed: {}, {file}, byte {offset}, bit {bit}", sample.closed);
        let disks = sample.disks.copy();
        if in_log { &disks.log } else { &disks.data }.flip_bit(offset, bit);
        *outcomes.entry(sample.examine(&disks, &what)).or_insert(0) += 1;
    }
    outcomes
}

fn data_offsets(sample: &Sample) -> Vec<u64> {
    let mut random = Random::new(3);
    let mut offsets: Vec<u64> = (0..30).map(|i| i * 4 % 112 + (i % 2) * 4096).collect();
    for block in used_blocks(&sample.disks.data) {
        offsets.extend([block + random.below(32), block + random.below(4096)]);
    }
    offsets.extend((0..20).map(|_| random.below(400 << 10)));
    offsets
}

fn log_offsets(sample: &Sample) -> Vec<u64> {
    let mut random = Random::new(4);
    let area = sample.disks.data.peek(0, 2 * SUPERBLOCK_BYTES);
    let store_id = choose(&area).unwrap().0.store_id;
    let block = sample.disks.log.peek(0, LOG_BLOCK_BYTES);
    let header = LogHeader::decode(&block, store_id).unwrap();
    let mut offsets: Vec<u64> = (0..14).map(|i| i * 4).collect();
    let all = header.regions().take(40);
    let (slots, segments): (Vec<_>, Vec<_>) = all.partition(|r| r.kind == RegionKind::Slot);
    for slot in &slots[..3] {
        let begin = slot.offset;
        offsets.extend((0..6).map(|_| begin + random.below(200)));
        offsets.extend((0..6).map(|_| begin + random.below(slot.bytes)));
    }
    for segment in &segments[..3] {
        offsets.extend((0..6).map(|_| segment.offset + random.below(24)));
    }
    let groups = used_blocks(&sample.disks.log);
    let groups: Vec<_> = groups.into_iter().filter(|at| *at > segments[0].offset + 4095).collect();
    for (i, block) in groups.iter().enumerate() {
        // The beginning of each block is that of a group; those of the end count most.
        offsets.push(block + random.below(24));
        if i + 12 > groups.len() || i % 4 == 0 {
            offsets.extend((0..4).map(|_| block + random.below(300)));
            offsets.push(block + 300 + random.below(3700));
        }
    }
    offsets.extend((0..20).map(|_| groups.last().unwrap() + 4096 + random.below(40_000)));
    offsets
}

#[test]
fn of_a_closed_store() {
    let sample = Sample::new(true);
    assert_eq!(sample.examine(&sample.disks.copy(), "as it was"), Outcome::Unnoticed);
    let data = flip(&sample, false, data_offsets(&sample));
    assert!(data[&Outcome::Damaged] > 20 && data[&Outcome::Healed] > 20, "{data:?}");
    let log = flip(&sample, true, log_offsets(&sample));
    assert!(log[&Outcome::Refused] > 10 && log[&Outcome::Unnoticed] > 50, "{log:?}");
}

#[test]
fn of_a_crashed_store() {
    let sample = Sample::new(false);
    let outcome = sample.examine(&sample.disks.copy(), "as it was");
    assert_eq!(outcome, Outcome::Unnoticed);
    let data = flip(&sample, false, data_offsets(&sample));
    assert!(data[&Outcome::Healed] > 20, "{data:?}");
    let log = flip(&sample, true, log_offsets(&sample));
    assert!(log[&Outcome::Refused] > 50 && log[&Outcome::Shorter] > 0, "{log:?}");
}
