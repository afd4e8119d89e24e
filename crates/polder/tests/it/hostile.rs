//! Files that somebody made up: pages with right checksums whose shape is wrong. Each operation
//! ends, with an answer or with an error that names the page; iterators go on in their direction;
//! closing waits for nothing that never ends.
//!
//! `POLDER_HOSTILE` says how many files are tried, `POLDER_HOSTILE_FROM` which one is the first.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use polder::{
    BatchError, OpenError, ReadMode, Store, StoreError, Table, TranslationKind, WriteBatch,
};
use polder_format::{
    ChecksumSeed, PageHeader, PageId, PageKind, PageNo, PageSize, SUPERBLOCK_AREA_BYTES,
    SUPERBLOCK_BYTES, SpaceId, choose,
};
use polder_pool::bytes::PageBuf;
use polder_testkit::random::scramble;
use polder_testkit::{FaultPlan, Random, SimDisk};
use polder_tree::node::{NewValue, NodeMut, NodeRef, Value};

use crate::support::*;

/// Files that are tried, if nothing else is asked for.
const MUTANTS: u64 = 250;
/// No file keeps the operations busy for longer, not even on a machine that has much else to do.
const DEADLINE: Duration = Duration::from_secs(60);
const PAGE: usize = 4096;
const KEYS: u64 = 700;

/// Keys so long that inner nodes have few children, so that there are three levels.
fn key(number: u64) -> Vec<u8> {
    let group = (0..30).flat_map(|i| scramble(number / 8 + (i << 32)).to_be_bytes());
    group.chain(number.to_be_bytes()).collect()
}

fn value(random: &mut Random) -> Vec<u8> {
    let len = match random.below(12) {
        0 => 9000,
        1 => 700,
        _ => random.index(120),
    };
    vec![random.next_u64() as u8; len]
}

/// A closed store, and where its pages of trees are.
struct Sample {
    disks: Disks,
    image: Vec<u8>,
    seed: ChecksumSeed,
    pages: Vec<(usize, PageId, PageKind)>,
}

impl Sample {
    fn new() -> Sample {
        let disks = disk();
        let store = open_on(&disks);
        let (table, mut random) = (store.create_table("t").unwrap(), Random::new(1));
        for i in 0..KEYS {
            table.put(key(i * 389 % KEYS), value(&mut random)).unwrap();
        }
        assert_sound(&store);
        drop(table);
        store.close().unwrap();
        let image = disks.data.image();
        let store_id = choose(&image[..2 * SUPERBLOCK_BYTES]).unwrap().0.store_id;
        let kinds = [PageKind::TREE_INNER, PageKind::TREE_LEAF, PageKind::OVERFLOW];
        let first = SUPERBLOCK_AREA_BYTES as usize;
        let mut pages: Vec<_> = (first..image.len())
            .step_by(PAGE)
            .filter_map(|at| {
                let header = PageHeader::decode(&image[at..at + PAGE]).ok()?;
                kinds.contains(&header.kind).then_some((at, header.page_id, header.kind))
            })
            .collect();
        // What hurts most comes first: inner nodes.
        pages.sort_by_key(|(_, page, kind)| (page.space() == SpaceId::CATALOGUE, kind.0));
        let levels = |(at, ..): &(usize, PageId, PageKind)| image[at + 46];
        assert_eq!(pages.iter().map(levels).max(), Some(2));
        Sample { disks, seed: ChecksumSeed::new(store_id), image, pages }
    }

    fn page(&self, random: &mut Random) -> (usize, PageId, PageKind) {
        let inner = |(_, page, kind): &&(usize, PageId, PageKind)| {
            *kind == PageKind::TREE_INNER && page.space() > SpaceId::CATALOGUE
        };
        let inner = self.pages.iter().take_while(inner).count();
        let among = if random.chance(0.6) { inner } else { self.pages.len() };
        self.pages[random.index(among)]
    }

    /// The same store with some pages that somebody has changed.
    fn mutant(&self, random: &mut Random) -> Disks {
        let mut image = self.image.clone();
        for _ in 0..1 + random.below(3) {
            let (at, id, kind) = self.page(random);
            let other = self.page(random);
            let other_bytes = self.image[other.0..other.0 + PAGE].to_vec();
            let links = [
                id,
                other.1,
                self.page(random).1,
                PageId::new(id.space(), PageNo::new(1).unwrap()),
            ];
            let page = &mut image[at..at + PAGE];
            match kind {
                PageKind::OVERFLOW => mutate_overflow(page, &links, random),
                _ => mutate_node(page, &other_bytes, &links, random),
            }
            self.seed.seal(page);
        }
        let data = SimDisk::from_image(&image, FaultPlan::new(1));
        Disks { data, log: self.disks.copy().log }
    }
}

/// Fields of a node: `docs/format.md`, "B+tree node".
mod at {
    pub const HEAP_LOW: usize = 32;
    pub const COUNT: usize = 36;
    pub const GARBAGE: usize = 38;
    pub const LEVEL: usize = 46;
    pub const RIGHT: usize = 48;
    pub const SLOTS: usize = 128;
}

fn get<const N: usize>(page: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(&page[at..at + N]);
    u64::from_le_bytes(bytes)
}

fn set<const N: usize>(page: &mut [u8], at: usize, value: u64) {
    page[at..at + N].copy_from_slice(&value.to_le_bytes()[..N]);
}

/// A link that somebody would make up.
fn link(links: &[PageId], random: &mut Random) -> u64 {
    match random.below(12) {
        0 => 0,
        1 => random.below(300),
        _ => links[random.index(links.len())].to_bits(),
    }
}

fn mutate_overflow(page: &mut [u8], links: &[PageId], random: &mut Random) {
    if random.chance(0.7) {
        set::<8>(page, 32, link(links, random));
    }
    if random.chance(0.5) {
        set::<4>(page, 40, [0, 1, 3000, 4048][random.index(4)]);
    }
}

fn mutate_node(page: &mut [u8], other: &[u8], links: &[PageId], random: &mut Random) {
    for _ in 0..1 + random.below(2) {
        let count = (get::<2>(page, at::COUNT) as usize).min(400);
        let slot = |i: usize| at::SLOTS + 8 * i;
        let (a, b) = (random.index(count.max(1)), random.index(count.max(1)));
        match random.below(14) {
            // Keys out of order.
            0 => (0..8).for_each(|i| page.swap(slot(a) + i, slot(b) + i)),
            1 => (0..count / 2).for_each(|i| {
                (0..8).for_each(|byte| page.swap(slot(i) + byte, slot(count - 1 - i) + byte));
            }),
            2 => {
                page.copy_within(slot(a)..slot(a) + 8, slot(b));
                balance(page);
            }
            3 => set::<4>(page, slot(a), random.next_u64() & 0xffff_ffff),
            // Fewer entries, or none.
            4 => {
                set::<2>(page, at::COUNT, random.below(count as u64 + 1));
                balance(page);
            }
            5 => {
                set::<2>(page, at::COUNT, 0);
                balance(page);
            }
            6 => set::<8>(page, at::RIGHT, link(links, random)),
            // Links to children, and to long values.
            7 | 8 => set::<8>(page, link_at(page, random), link(links, random)),
            9 => {
                let (from, to) = (link_at(page, random), link_at(page, random));
                page.copy_within(from..from + 8, to);
            }
            10 => page[at::LEVEL] = [0, 1, 2, 3, 7, 255][random.index(6)],
            11 => fence(page, other, random),
            // The whole of another page.
            12 => {
                page[4..6].copy_from_slice(&other[4..6]);
                page[32..].copy_from_slice(&other[32..]);
            }
            _ => {
                let most = [32, 96, 400, PAGE - 40][random.index(4)];
                let at = 32 + random.index(most);
                page[at] = [0, random.next_u64() as u8][random.index(2)];
            }
        }
    }
}

/// Where a link stands in an inner node, or in an entry of a leaf.
fn link_at(page: &[u8], random: &mut Random) -> usize {
    let mut copy = PageBuf::new(PageSize::MIN);
    copy.bytes_mut().copy_from_slice(page);
    let node = NodeRef::new(copy.page());
    if page[at::LEVEL] > 0 {
        return node.link_offset(random.index(node.count() + 1)).min(PAGE - 8);
    }
    let long = (0..node.count()).find(|slot| matches!(node.value(*slot), Value::Overflow { .. }));
    let Some(slot) = long else { return at::RIGHT };
    // The record: version, value word, rest of the key; then length and link.
    let slot = get::<8>(page, at::SLOTS + 8 * slot);
    let rest = (slot >> 48).saturating_sub(4) as usize;
    let value = (slot >> 32 & 0xffff) as usize + 10 + rest;
    (value + 8 * random.index(2)).min(PAGE - 8)
}

/// Makes the garbage what the records leave of the heap, so that the page passes for a node.
fn balance(page: &mut [u8]) {
    let leaf = page[at::LEVEL] == 0;
    let fences = (get::<2>(page, 42) + get::<2>(page, 44)) as usize;
    let end = PAGE.saturating_sub(fences);
    let end = if leaf { end } else { end & !7 };
    let count = (get::<2>(page, at::COUNT) as usize).min(400);
    let record = |i: usize| {
        let slot = get::<8>(page, at::SLOTS + 8 * i);
        let (rest, offset) = ((slot >> 48).saturating_sub(4), (slot >> 32 & 0xffff) as usize);
        if !leaf {
            return (8 + rest).next_multiple_of(8);
        }
        let word = get::<2>(page, (offset + 8).min(PAGE - 2));
        10 + rest + if word & 1 << 15 == 0 { word } else { 16 }
    };
    let used: u64 = (0..count).map(record).sum();
    let heap = (end as u64).saturating_sub(get::<4>(page, at::HEAP_LOW));
    set::<2>(page, at::GARBAGE, heap.saturating_sub(used));
}

/// The same entries between other fences.
fn fence(page: &mut [u8], other: &[u8], random: &mut Random) {
    let copy = |bytes: &[u8]| {
        let mut copy = PageBuf::new(PageSize::MIN);
        copy.bytes_mut().copy_from_slice(bytes);
        copy
    };
    let (old, other) = (copy(page), copy(other));
    let (old, other) = (NodeRef::new(old.page()), NodeRef::new(other.page()));
    if old.verify_shape().is_err() || other.verify_shape().is_err() {
        return;
    }
    let fences = [
        None,
        old.lower_fence(),
        old.upper_fence(),
        other.lower_fence(),
        other.upper_fence(),
        Some(key(random.below(KEYS))),
    ];
    let mut lower = fences[random.index(6)].clone();
    let mut upper = fences[random.index(6)].clone();
    if lower.is_some() && upper.is_some() && lower >= upper {
        std::mem::swap(&mut lower, &mut upper);
    }
    if lower.is_some() && lower == upper {
        return;
    }
    let first = if old.is_leaf() { 0 } else { old.link(0) };
    let mut new = copy(page);
    let mut node = NodeMut::new(new.page_mut());
    node.init(old.level(), lower.as_deref(), upper.as_deref(), old.right_link(), first);
    for slot in 0..old.count() {
        let (mut key, mut bytes) = (Vec::new(), Vec::new());
        old.append_key(slot, &mut key);
        if !old.is_leaf() {
            let _ = node.insert_child(&key, old.link(slot + 1));
            continue;
        }
        let (Ok(place) | Err(place)) = node.node().search(&key);
        let value = match old.value(slot) {
            Value::Inline { at, len } => {
                old.page().append_to(at, len, &mut bytes);
                NewValue::Inline(&bytes)
            }
            Value::Overflow { len, run, link } => NewValue::Overflow { len, run, link },
        };
        let _ = node.insert_entry(place, &key, old.version(slot), value);
    }
    page.copy_from_slice(new.bytes());
}

/// Whether an error names the damage.
fn is_told(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt { .. }) && full_text(error).contains("page ")
}

fn note<R>(result: Result<R, StoreError>) -> Option<R> {
    result.inspect_err(|error| assert!(is_told(error), "{error:?}")).ok()
}

/// Goes through a range; each key is beyond the one before.
fn go_through(table: &Table, from: &[u8], reverse: bool) {
    let mut before: Option<Vec<u8>> = None;
    let mut range = table.range(from..);
    loop {
        let entry = if reverse { range.next_entry_back() } else { range.next_entry() };
        let Some(Some((key, _))) = note(entry) else { return };
        let on = before.is_none_or(|before| if reverse { *key < *before } else { *key > *before });
        assert!(on, "the iterator goes back");
        before = Some(key.to_vec());
    }
}

fn operate(store: &Store, table: &Table, random: &mut Random) {
    let some_key = |random: &mut Random| key(random.below(KEYS + 40));
    for _ in 0..12 {
        match random.below(4) {
            0 => go_through(table, &[], random.chance(0.5)),
            1 => go_through(table, &some_key(random), random.chance(0.5)),
            2 => {
                let mut batch = WriteBatch::new();
                for _ in 0..12 {
                    let key = some_key(random);
                    match random.chance(0.7) {
                        true => batch.put(table, &key, value(random)),
                        false => batch.delete(table, &key),
                    };
                }
                match store.apply(batch) {
                    Err(BatchError::Store(error)) => assert!(is_told(&error), "{error:?}"),
                    applied => applied.unwrap(),
                }
            }
            _ => {
                for _ in 0..40 {
                    let key = some_key(random);
                    match random.below(5) {
                        0 => drop(note(table.get(&key))),
                        1 => drop(note(table.get_with(&key, <[u8]>::len))),
                        2 => drop(note(table.delete(&key))),
                        _ => drop(note(table.put(&key, value(random)))),
                    }
                }
            }
        }
    }
}

/// Gives what became of it, in one word.
fn examine(sample: &Sample, number: u64) -> &'static str {
    let mut random = Random::new(number);
    let disks = sample.mutant(&mut random);
    let (translation, hold) = [
        (TranslationKind::Array, ReadMode::Optimistic),
        (TranslationKind::Array, ReadMode::Copy),
        #[cfg(feature = "hash")]
        (TranslationKind::Hash, ReadMode::Shared),
        #[cfg(not(feature = "hash"))]
        (TranslationKind::Array, ReadMode::Shared),
        (TranslationKind::Swizzle, ReadMode::Optimistic),
    ][random.index(4)];
    let options = quick("simulated").translation(translation).read_mode(hold);
    let store = match disks.open(options) {
        Ok(store) => store,
        Err(error) => {
            let text = full_text(&error);
            assert!(text.contains("page "), "{text}");
            assert!(!matches!(error, OpenError::Options { .. }), "{text}");
            return "refused";
        }
    };
    if random.chance(0.3) {
        note(store.check(&mut |_, _| true));
    }
    let mut ends = "sound";
    match store.table("t") {
        Ok(table) => operate(&store, &table, &mut random),
        // The catalogue's pages are mutated as well.
        Err(error) => assert!(matches!(error, StoreError::NoSuchTable { .. }) || is_told(&error)),
    }
    if random.chance(0.5) {
        note(store.shrink());
    }
    let report = note(store.check(&mut |_, _| true));
    if report.is_none_or(|report| !report.faults.is_empty()) {
        ends = "damaged";
    }
    note(store.close());
    ends
}

fn number_of(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn every_operation_ends_whatever_the_shape_of_pages() {
    let first = number_of("POLDER_HOSTILE_FROM").unwrap_or(0);
    let mutants = number_of("POLDER_HOSTILE").unwrap_or(MUTANTS);
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let sample = Sample::new();
        for number in first..first + mutants {
            send.send((number, None)).unwrap();
            let end = std::panic::catch_unwind(|| examine(&sample, number));
            send.send((number, Some(end))).unwrap();
        }
    });
    let (mut now, mut ends) = (first, BTreeMap::new());
    loop {
        match receive.recv_timeout(DEADLINE) {
            Ok((number, None)) => now = number,
            Ok((_, Some(Ok(end)))) => *ends.entry(end).or_insert(0) += 1,
            Ok((number, Some(Err(_)))) => panic!("file {number}: see above"),
            Err(RecvTimeoutError::Timeout) => panic!("file {now}: an operation does not end"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    println!("{ends:?}");
    assert_eq!(ends.values().sum::<u64>(), mutants);
}
