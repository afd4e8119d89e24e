//! What may be missing after a salvage is said: each way to lose something, one by one.

use std::fs;
use std::path::{Path, PathBuf};

use polder::{Options, SalvageReport, SalvagedTable, Store, salvage};
use polder_format::log::{LogHeader, RegionKind};
use polder_format::{PageHeader, PageId, PageKind, SpaceId};
use tempfile::TempDir;

use crate::support::*;

const PAGE: usize = 4096;
const ROWS: u64 = 3000;
/// A table of one leaf, with a value in overflow pages.
const SMALL: u64 = 5;

fn options(path: impl AsRef<Path>) -> Options {
    // Also what a slot of the double-write buffer holds is salvaged.
    quick(path).always_double_write(true)
}

/// A closed store of which the log no more tells how its tables came to be.
struct Sample {
    dir: TempDir,
    /// The data file as it was before each row of `t` got its last value.
    before: Vec<u8>,
}

impl Sample {
    fn new() -> Sample {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(options(dir.path().join("s"))).unwrap();
        let table = store.create_table("t").unwrap();
        (0..ROWS).for_each(|i| assert!(table.put(i.to_be_bytes(), [1; 100]).unwrap()));
        let small = store.create_table("small").unwrap();
        (0..SMALL).for_each(|i| assert!(small.put(i.to_be_bytes(), [i as u8; 9000]).unwrap()));
        store.checkpoint().unwrap();
        let before = fs::read(dir.path().join("s/data")).unwrap();
        (0..ROWS).for_each(|i| assert!(!table.put(i.to_be_bytes(), [2; 100]).unwrap()));
        let sample = Sample { dir, before };
        sample.churn(&store);
        store.close().unwrap();
        sample
    }

    /// Has all segments of the log used again.
    fn churn(&self, store: &Store) {
        let churn = store.open_table("churn").unwrap();
        for i in 0..6000u64 {
            churn.put((i % 10).to_be_bytes(), [3; 900]).unwrap();
        }
    }

    /// Nothing is left in the double-write buffer of the log file.
    fn without_copies(self) -> Sample {
        let path = self.dir.path().join("s/log");
        let mut bytes = fs::read(&path).unwrap();
        let header = LogHeader::of_any(&bytes[..PAGE]).unwrap();
        for slot in header.of_kind(RegionKind::Slot, bytes.len() as u64) {
            bytes[slot.offset as usize..slot.end() as usize].fill(0);
        }
        fs::write(path, bytes).unwrap();
        self
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("s/data")
    }

    /// Where pages of this kind lie, in a space that a table has or that of the catalogue.
    fn places(&self, wanted: impl Fn(PageKind, PageId) -> bool) -> Vec<usize> {
        let bytes = fs::read(self.data()).unwrap();
        let pages = bytes.chunks(PAGE).enumerate().skip(16);
        let is_wanted = |page: &[u8]| {
            let header = PageHeader::decode(page).unwrap();
            header.kind.0 != 0 && wanted(header.kind, header.page_id)
        };
        pages.filter(|(_, page)| is_wanted(page)).map(|(place, _)| place).collect()
    }

    /// The leaves of `t`.
    fn leaves(&self) -> Vec<usize> {
        self.places(|kind, page| kind == PageKind::TREE_LEAF && page.space() == space_of_t())
    }

    fn edit(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.data()).unwrap();
        change(&mut bytes);
        fs::write(self.data(), bytes).unwrap();
    }

    fn zero(&self, place: usize) {
        self.edit(|bytes| bytes[place * PAGE..(place + 1) * PAGE].fill(0));
    }

    fn salvage(&self) -> SalvageReport {
        let new = options(self.dir.path().join("new"));
        salvage(&self.dir.path().join("s"), new, &mut |_, _, _| true).unwrap()
    }
}

fn table<'r>(report: &'r SalvageReport, name: &str) -> &'r SalvagedTable {
    report.tables.iter().find(|table| table.name == name).unwrap()
}

fn space_of_t() -> SpaceId {
    SpaceId::new(2).unwrap()
}

fn losses(report: &SalvageReport) -> Vec<(Option<&str>, &str)> {
    report.losses.iter().map(|loss| (loss.table.as_deref(), loss.what.as_str())).collect()
}

#[track_caller]
fn assert_page_missing(report: &SalvageReport, place: usize, what: &str) {
    assert_eq!(report.pages_missing, 1, "{:?}", report.missing);
    let page = &report.missing[0];
    assert_eq!(page.offset, (place * PAGE) as u64);
    assert!(page.what.contains(what), "{page:?}");
    let pages = "what was in 1 page in use, not found or not readable";
    assert!(losses(report).contains(&(None, pages)), "{:?}", report.losses);
}

#[test]
fn a_sound_store_has_no_losses() {
    let report = Sample::new().salvage();
    assert_eq!((report.losses, report.missing, report.damage), (vec![], vec![], vec![]));
    let counts: Vec<_> = report.tables.iter().map(|t| (t.entries, t.counted)).collect();
    assert_eq!(counts, [(10, Some(10)), (SMALL, Some(SMALL)), (ROWS, Some(ROWS))]);
}

#[test]
fn half_of_the_data_file() {
    let sample = Sample::new().without_copies();
    sample.edit(|bytes| bytes.truncate(bytes.len() / 2 / PAGE * PAGE));
    let report = sample.salvage();
    let t = table(&report, "t");
    assert!(t.entries < ROWS && t.counted == Some(ROWS) && t.key_gaps > 0, "{t:?}");
    assert!(report.pages_missing > 5);
    assert!(report.missing.iter().any(|page| page.what == "the file ends before it"));
    let what = format!("{} entries of the {ROWS} that the log counts", ROWS - t.entries);
    assert!(losses(&report).contains(&(Some("t"), what.as_str())), "{:?}", report.losses);
}

#[test]
fn a_leaf_of_zeros() {
    let sample = Sample::new().without_copies();
    let leaves = sample.leaves();
    sample.zero(leaves[leaves.len() / 2]);
    let report = sample.salvage();
    assert_page_missing(&report, leaves[leaves.len() / 2], "nothing is there");
    let t = table(&report, "t");
    assert!(t.entries < ROWS && t.counted == Some(ROWS), "{t:?}");
    let [gap] = &t.gaps[..] else { panic!("{t:?}") };
    // A fence is no longer than it must be.
    let number = |key: &[u8]| {
        let mut bytes = [0; 8];
        bytes[..key.len()].copy_from_slice(key);
        u64::from_be_bytes(bytes)
    };
    let gone = number(gap.to.as_ref().unwrap()) - number(&gap.from);
    assert_eq!(t.entries + gone, ROWS);
}

/// An older copy in the double-write buffer gives entries, but nobody knows what came behind it.
#[test]
fn a_leaf_of_zeros_with_a_copy() {
    let sample = Sample::new();
    let leaves = sample.leaves();
    let place = leaves[leaves.len() / 2];
    sample.zero(place);
    let report = sample.salvage();
    assert_page_missing(&report, place, "nothing is there");
    let t = table(&report, "t");
    assert_eq!((t.entries, t.counted, t.key_gaps), (ROWS, Some(ROWS), 1));
}

#[test]
fn a_leaf_with_another_page_in_its_place() {
    let sample = Sample::new().without_copies();
    let leaves = sample.leaves();
    sample.edit(|bytes| {
        bytes.copy_within(leaves[3] * PAGE..(leaves[3] + 1) * PAGE, leaves[7] * PAGE);
    });
    let report = sample.salvage();
    assert_page_missing(&report, leaves[7], "lies there");
    assert_eq!(table(&report, "t").key_gaps, 1);
}

/// The log no more has all that came behind the copy, but still some change that it lacks.
#[test]
fn an_older_copy_of_a_leaf() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path().join("s"))).unwrap();
    let table = store.create_table("t").unwrap();
    (0..ROWS).for_each(|i| assert!(table.put(i.to_be_bytes(), [1; 100]).unwrap()));
    store.checkpoint().unwrap();
    let before = fs::read(dir.path().join("s/data")).unwrap();
    let mut sample = Sample { dir, before };
    sample.churn(&store);
    assert!(!table.put(8u64.to_be_bytes(), [2; 100]).unwrap());
    drop(table);
    store.close().unwrap();
    let leaves = sample.leaves();
    let data = fs::read(sample.data()).unwrap();
    let differs = |place: &usize| {
        let at = place * PAGE..(place + 1) * PAGE;
        data[at.clone()] != sample.before[at]
    };
    let place = leaves.into_iter().find(differs).unwrap();
    let old = std::mem::take(&mut sample.before);
    sample.edit(|bytes| {
        bytes[place * PAGE..(place + 1) * PAGE]
            .copy_from_slice(&old[place * PAGE..(place + 1) * PAGE])
    });
    assert_page_missing(&sample.without_copies().salvage(), place, "an older copy of itself");
}

/// Where the log tells of nothing that an older copy lacks, the number of entries may.
#[test]
fn an_older_copy_of_a_leaf_with_other_entries() {
    let sample = Sample::new();
    let store = Store::open(options(sample.dir.path().join("s"))).unwrap();
    let t = store.table("t").unwrap();
    (0..20u64).for_each(|i| assert!(t.delete(i.to_be_bytes()).unwrap()));
    drop(t);
    sample.churn(&store);
    store.close().unwrap();
    let leaves = sample.leaves();
    let at = leaves[0] * PAGE..(leaves[0] + 1) * PAGE;
    sample.edit(|bytes| bytes[at.clone()].copy_from_slice(&sample.before[at]));
    let report = sample.without_copies().salvage();
    let what = format!(
        "entries in whose place removed ones came back: the log counts {}, not {ROWS}",
        ROWS - 20
    );
    // A checkpoint that came late leaves changes in the log, which tell that the page is old.
    let page = "what was in 1 page in use, not found or not readable";
    let is_told = [(Some("t"), what.as_str()), (None, page)];
    assert!(losses(&report).iter().any(|loss| is_told.contains(loss)), "{:?}", report.losses);
}

#[test]
fn an_inner_node_of_zeros() {
    let sample = Sample::new().without_copies();
    let inner =
        sample.places(|kind, page| kind == PageKind::TREE_INNER && page.space() == space_of_t());
    sample.zero(inner[0]);
    let report = sample.salvage();
    assert_page_missing(&report, inner[0], "nothing is there");
    // No entry lies there.
    assert_eq!((table(&report, "t").entries, table(&report, "t").key_gaps), (ROWS, 0));
}

#[test]
fn an_overflow_page_of_zeros() {
    let sample = Sample::new().without_copies();
    let overflow = sample.places(|kind, _| kind == PageKind::OVERFLOW);
    sample.zero(overflow[4]);
    let report = sample.salvage();
    assert_page_missing(&report, overflow[4], "nothing is there");
    let small = table(&report, "small");
    assert_eq!((small.entries, small.lost, small.lost_keys.len()), (SMALL - 1, 1, 1));
    assert!(losses(&report).contains(&(Some("small"), "the values of 1 key")));
}

#[test]
fn a_page_of_the_catalogue_of_zeros() {
    let sample = Sample::new().without_copies();
    let pages = sample
        .places(|kind, page| kind == PageKind::TREE_LEAF && page.space() == SpaceId::CATALOGUE);
    assert_eq!(pages.len(), 1);
    sample.zero(pages[0]);
    let report = sample.salvage();
    assert_page_missing(&report, pages[0], "nothing is there");
    let names = "names of tables: a page of the catalogue was not found";
    assert!(losses(&report).contains(&(None, names)), "{:?}", report.losses);
    let unnamed = report.tables.iter().filter(|table| !table.named).count();
    assert_eq!(unnamed, 3, "{:?}", report.tables);
    assert_eq!(report.losses.iter().filter(|loss| loss.what == "its name").count(), 3);
    let mut counts: Vec<_> = report.tables.iter().map(|table| table.entries).collect();
    counts.sort_unstable();
    assert_eq!(counts, [SMALL, 10, ROWS]);
}

#[test]
fn an_allocation_map_of_zeros() {
    let sample = Sample::new().without_copies();
    let maps =
        sample.places(|kind, page| kind == PageKind::ALLOC_MAP && page.space() == space_of_t());
    sample.zero(maps[0]);
    let report = sample.salvage();
    assert!(!report.damage.is_empty());
    // All leaves are found, and as many entries as the log counts.
    let t = table(&report, "t");
    assert_eq!((t.entries, t.counted, t.key_gaps), (ROWS, Some(ROWS), 0));
}
