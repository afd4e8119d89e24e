//! The deep check: each fault on a device is reported with its file and position, and none that is
//! not there.

use polder::{DeepPhase, DeepReport, Durability, Store};
use polder_format::{PageHeader, PageId, PageKind, SpaceId};

use crate::support::*;

const PAGE: usize = 4096;

/// An open store with some thousand entries, all in place, and its disks.
fn sample() -> (Disks, Store) {
    let disks = disk();
    let store = disks.open(tight("simulated").durability(Durability::None)).unwrap();
    let table = store.create_table("t").unwrap();
    for i in 0..3000u64 {
        table.put(i.to_be_bytes(), [i as u8; 100]).unwrap();
    }
    table.put(b"long", [1; 20_000]).unwrap();
    store.checkpoint().unwrap();
    (disks, store)
}

fn deep(store: &Store) -> DeepReport {
    store.check_deep(&mut |_, _, _| true).unwrap()
}

/// Where pages lie in the data file, by kind.
fn places(disks: &Disks, wanted: PageKind) -> Vec<(usize, PageId)> {
    let image = disks.data.image();
    let pages = image.chunks(PAGE).enumerate().skip(16);
    let header = |(place, page)| {
        let header = PageHeader::decode(page).ok()?;
        (header.kind == wanted).then_some((place, header.page_id))
    };
    pages.filter_map(header).collect()
}

#[test]
fn a_sound_store_is_sound() {
    let (_disks, store) = sample();
    store.table("t").unwrap().put(b"and", b"one more").unwrap();
    let mut phases = Vec::new();
    let report = store.check_deep(&mut |phase, done, all| {
        assert!(done <= all, "{phase:?}: {done} of {all}");
        phases.push(phase);
        true
    });
    let report = report.unwrap();
    assert!(report.is_sound(), "{:?}", report.faults);
    assert_eq!(report.notes, Vec::<String>::new());
    // The maps of spaces are pages that the tables' check does not count.
    assert_eq!(report.pages, report.check.pages + 2);
    assert!(report.log_records >= 1 && report.log_bytes > 0);
    assert!(phases.contains(&DeepPhase::Tables) && phases.contains(&DeepPhase::Pages));
}

#[test]
fn a_recovered_store_is_sound() {
    for seed in 0..20 {
        let (disks, store) = sample();
        for i in 0..1000u64 {
            store.table("t").unwrap().put((i * 3).to_be_bytes(), [2; 200]).unwrap();
        }
        let after = disks.crash(seed);
        let store = after.open(tight("simulated")).unwrap();
        let report = deep(&store);
        assert!(report.is_sound(), "seed {seed}: {:?} {:?}", report.check.faults, report.faults);
    }
}

#[test]
fn each_kind_of_page_is_read() {
    for kind in [PageKind::TREE_LEAF, PageKind::TREE_INNER, PageKind::OVERFLOW] {
        let (disks, store) = sample();
        let pages = places(&disks, kind);
        let (place, page) = *pages.iter().rfind(|(_, p)| p.space() > SpaceId::CATALOGUE).unwrap();
        disks.data.flip_bit((place * PAGE + 1000) as u64, 1);
        // A page in memory is not read by the check that is not deep; the deep one sees it in any
        // case.
        let report = deep(&store);
        let fault = report.faults.iter().find(|fault| fault.page == Some(page.to_string()));
        let fault = fault.unwrap_or_else(|| panic!("{kind:?}: {:?}", report.faults));
        assert_eq!((fault.file, fault.offset), ("data", (place * PAGE) as u64));
        assert_eq!(fault.table.as_deref(), Some("t"));
        assert!(fault.what.contains("checksum"), "{fault}");
    }
}

#[test]
fn maps_and_superblocks_are_read() {
    for kind in [PageKind::ARRAY, PageKind::ALLOC_MAP] {
        let (disks, store) = sample();
        let (place, page) = *places(&disks, kind).last().unwrap();
        disks.data.flip_bit((place * PAGE + 1000) as u64, 1);
        let report = deep(&store);
        let found = report.faults.iter().any(|fault| {
            fault.page == Some(page.to_string()) && fault.offset == (place * PAGE) as u64
        });
        assert!(found, "{page}: {:?}", report.faults);
    }
    let (disks, store) = sample();
    // The check begins with a checkpoint, which writes the superblocks anew; the damage comes then.
    let mut hit = false;
    let report = store.check_deep(&mut |phase, _, _| {
        if phase == DeepPhase::Pages && !hit {
            disks.data.flip_bit(100, 1);
            hit = true;
        }
        true
    });
    let faults = report.unwrap().faults;
    assert_eq!((faults.len(), faults[0].file, faults[0].offset), (1, "data", 0), "{faults:?}");
    assert!(faults[0].what.contains("superblock"));
}

#[test]
fn the_live_log_is_read() {
    let (disks, store) = sample();
    let table = store.table("t").unwrap();
    for i in 0..200u64 {
        table.put(i.to_be_bytes(), b"once more").unwrap();
    }
    store.flush().unwrap();
    let image = disks.log.image();
    let at = image.windows(9).rposition(|window| window == b"once more").unwrap();
    disks.log.flip_bit(at as u64, 1);
    let report = deep(&store);
    let fault = report.faults.iter().find(|fault| fault.file == "log").unwrap();
    assert!(fault.what.contains("the log cannot be read from LSN"), "{fault}");
    assert!((at as u64).abs_diff(fault.offset) < 1 << 16, "{} and {at}", fault.offset);
}

#[test]
fn it_can_be_stopped() {
    let (_disks, store) = sample();
    for stop_in in [DeepPhase::Tables, DeepPhase::Pages] {
        let report = store.check_deep(&mut |phase, _, _| phase != stop_in).unwrap();
        assert!(report.stopped && report.is_sound(), "{stop_in:?}");
    }
}
