//! One changed byte anywhere in what is in use is reported: never a panic, never a wrong answer.

use std::collections::BTreeMap;

use polder::{CheckReport, OpenError, Store, StoreError};
use polder_format::{
    PAGE_HEADER_BYTES, PageHeader, PageId, PageKind, SUPERBLOCK_AREA_BYTES, SUPERBLOCK_BYTES,
    SpaceId,
};
use polder_testkit::{FaultPlan, Model, Random, SimDisk};

use crate::support::*;

const PAGE_BYTES: usize = 4096;

/// Two tables with long values, closed: the bytes, the content, and which space is which table.
struct Sample {
    disks: Disks,
    image: Vec<u8>,
    tables: BTreeMap<&'static str, Model>,
}

impl Sample {
    fn new() -> Sample {
        let disk = disk();
        let store = open_on(&disk);
        let mut tables = BTreeMap::new();
        for (name, count) in [("large", 300u64), ("small", 5)] {
            let table = store.create_table(name).unwrap();
            let mut model = Model::default();
            for i in 0..count {
                let key = (i * 7919 % count).to_be_bytes().to_vec();
                let mut value = vec![0; if i % 60 == 3 { 9000 } else { 150 }];
                Random::new(i).fill(&mut value);
                table.put(&key, &value).unwrap();
                model.entries.insert(key, value);
            }
            tables.insert(name, model);
        }
        store.close().unwrap();
        Sample { image: disk.data.image(), disks: disk, tables }
    }

    fn flipped(&self, at: usize, bit: u32) -> Disks {
        let disks = self.disks.copy();
        disks.data.flip_bit(at as u64, bit);
        disks
    }

    /// With another data file.
    fn with_data(&self, image: &[u8]) -> Disks {
        Disks { data: SimDisk::from_image(image, FaultPlan::new(1)), log: self.disks.copy().log }
    }

    /// Whatever is read is right, or an error. Gives the errors' texts.
    fn read_all(&self, store: &Store, what: &str) -> Vec<String> {
        let mut errors = Vec::new();
        let mut note = |error: StoreError| {
            let damaged = matches!(error, StoreError::Corrupt { .. });
            assert!(damaged, "{what}: {}", full_text(&error));
            errors.push(full_text(&error));
        };
        match store.tables() {
            Ok(names) => assert!(names.iter().eq(self.tables.keys()), "{what}: {names:?}"),
            Err(error) => note(error),
        }
        for (name, model) in &self.tables {
            let table = match store.table(name) {
                Ok(table) => table,
                Err(error) => {
                    note(error);
                    continue;
                }
            };
            assert_eq!(table.len(), model.entries.len() as u64, "{what}");
            for (key, value) in &model.entries {
                match table.get(key) {
                    Ok(found) => assert_eq!(found.as_ref(), Some(value), "{what}"),
                    Err(error) => note(error),
                }
            }
            for rev in [false, true] {
                let entries: Box<dyn Iterator<Item = _>> =
                    if rev { Box::new(table.iter().rev()) } else { Box::new(table.iter()) };
                let mut expected: Vec<_> = model.entries.iter().collect();
                if rev {
                    expected.reverse();
                }
                let mut count = 0;
                let mut whole = true;
                for entry in entries {
                    match entry {
                        Ok((key, value)) => assert_eq!((&key, &value), expected[count], "{what}"),
                        Err(error) => {
                            note(error);
                            whole = false;
                            break;
                        }
                    }
                    count += 1;
                }
                assert!(!whole || count == expected.len(), "{what}: the end came too early");
            }
        }
        errors
    }
}

/// What a page in the image is, if a kind is written in it.
fn header_of(page: &[u8]) -> Option<(PageKind, PageId)> {
    let header = PageHeader::decode(page).ok()?;
    (header.kind.0 != 0).then_some((header.kind, header.page_id))
}

/// Opens, reads and checks. Gives all that was said, and the report if there was one.
fn examine(sample: &Sample, disks: &Disks, what: &str) -> (Vec<String>, Option<CheckReport>) {
    let store = match disks.open(tight("simulated")) {
        Ok(store) => store,
        Err(error) => return (vec![full_text(&error)], None),
    };
    let mut said = sample.read_all(&store, what);
    let recovery = store.recovery();
    said.extend(recovery.superblock.map(|damage| format!("superblock: {damage}")));
    assert_eq!((recovery.restored_pages, recovery.cut_short), (0, None), "{what}");
    let report = match store.check(&mut |_, _| true) {
        Ok(report) => Some(report),
        Err(error) => {
            said.push(full_text(&error));
            None
        }
    };
    said.extend(report.iter().flat_map(|report| &report.faults).map(ToString::to_string));
    (said, report)
}

#[test]
fn the_sample_itself_is_sound() {
    let sample = Sample::new();
    let (said, report) = examine(&sample, &sample.disks.copy(), "as it was");
    assert_eq!(said, Vec::<String>::new());
    assert_eq!(report.unwrap().entries, 305);
}

#[test]
fn a_byte_of_any_page() {
    let sample = Sample::new();
    let mut kinds = BTreeMap::new();
    let mut random = Random::new(4);
    let pages = sample.image.chunks(PAGE_BYTES).enumerate();
    for (place, page) in pages.skip(SUPERBLOCK_AREA_BYTES as usize / PAGE_BYTES) {
        let found = header_of(page);
        let mut offsets: Vec<usize> = match found {
            // Each field, and the first and the last byte.
            Some(_) => vec![0, 3, 4, 5, 6, 8, 11, 15, 16, 22, 24, PAGE_HEADER_BYTES - 1],
            None => vec![0, 4, 8],
        };
        offsets.extend([32, 36, 48, 64, 128, 136, PAGE_BYTES - 1]);
        offsets.extend((0..4 * scale()).map(|_| random.index(PAGE_BYTES)));
        for at in offsets {
            let what = format!("place {place}, byte {at}, {found:?}");
            let disk = sample.flipped(place * PAGE_BYTES + at, random.below(8) as u32);
            let (said, report) = examine(&sample, &disk, &what);
            let Some((kind, page)) = found else {
                assert_eq!(said, Vec::<String>::new(), "{what}: free space is nobody's");
                continue;
            };
            assert!(!said.is_empty(), "{what}: nobody noticed");
            assert!(said.iter().any(|said| said.contains(&page.to_string())), "{what}: {said:?}");
            let is_tree = matches!(kind.0, 16..=18);
            if is_tree && page.space() > SpaceId::CATALOGUE {
                // Everything else can be checked, and the report says where the damage is.
                let report = report.unwrap();
                let fault = &report.faults[0];
                assert_eq!(fault.page, Some(page.to_string()), "{what}");
                let name = fault.table.as_deref();
                assert!(name.is_some_and(|name| sample.tables.contains_key(name)), "{what}");
                assert!(report.faults.iter().all(|f| f.table.as_deref() == name), "{what}");
            }
            *kinds.entry(kind.0).or_insert(0) += 1;
        }
    }
    // Array pages, allocation maps, inner nodes, leaves, overflow pages.
    assert!([1, 2, 16, 17, 18].iter().all(|kind| kinds.contains_key(kind)), "{kinds:?}");
}

#[test]
fn a_byte_of_a_superblock() {
    let sample = Sample::new();
    let mut random = Random::new(8);
    for block in 0..2 {
        let offsets =
            (0..128).step_by(3).chain((0..40 * scale()).map(|_| random.index(SUPERBLOCK_BYTES)));
        for at in offsets.collect::<Vec<_>>() {
            let what = format!("superblock {block}, byte {at}");
            let disk = sample.flipped(block * SUPERBLOCK_BYTES + at, random.below(8) as u32);
            let (said, _) = examine(&sample, &disk, &what);
            assert!(matches!(&said[..], [one] if one.contains("superblock")), "{what}: {said:?}");
            // It has been written anew.
            let (said, _) = examine(&sample, &disk, &what);
            assert_eq!(said, Vec::<String>::new(), "{what}");
        }
    }
    // Behind them lies nothing.
    for at in [2 * SUPERBLOCK_BYTES, 20_000, 65_535] {
        let (said, _) = examine(&sample, &sample.flipped(at, 3), "behind");
        assert_eq!(said, Vec::<String>::new());
    }
}

#[test]
fn both_superblocks_damaged() {
    let sample = Sample::new();
    let disk = sample.flipped(100, 1);
    disk.data.flip_bit(SUPERBLOCK_BYTES as u64 + 100, 1);
    let error = disk.open(tight("simulated")).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
}

/// Whole pages of garbage, pages where other pages should lie, and a file that was cut off.
#[test]
fn worse_than_a_byte() {
    let sample = Sample::new();
    let first = SUPERBLOCK_AREA_BYTES as usize / PAGE_BYTES;
    let places = sample.image.len() / PAGE_BYTES;
    let mut random = Random::new(3);
    for round in 0..40 * scale() {
        let place = first + random.index(places - first);
        let used = header_of(&sample.image[place * PAGE_BYTES..][..PAGE_BYTES]).is_some();
        let disk = sample.disks.copy();
        disk.data.corrupt((place * PAGE_BYTES) as u64, PAGE_BYTES, round);
        let (said, _) = examine(&sample, &disk, "garbage");
        assert_eq!(said.is_empty(), !used, "place {place}: {said:?}");

        let other = first + random.index(places - first);
        let mut image = sample.image.clone();
        image.copy_within(place * PAGE_BYTES..(place + 1) * PAGE_BYTES, other * PAGE_BYTES);
        let hit = header_of(&sample.image[other * PAGE_BYTES..][..PAGE_BYTES]).is_some();
        let (said, _) = examine(&sample, &sample.with_data(&image), "swapped");
        assert_eq!(said.is_empty(), !hit || place == other, "{place} over {other}: {said:?}");
    }
    for cut in [places - 1, places / 2, first + 1] {
        let image = &sample.image[..cut * PAGE_BYTES];
        match sample.with_data(image).open(tight("simulated")) {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok(store) => {
                // Reading behind the end is an error of the device.
                let table = store.table("large");
                if let Ok(table) = table {
                    for (key, value) in &sample.tables["large"].entries {
                        assert!(table.get(key).map_or(true, |found| found.as_ref() == Some(value)));
                    }
                }
                let report = store.check(&mut |_, _| true);
                assert!(report.map_or(true, |report| !report.faults.is_empty()), "cut at {cut}");
            }
        }
    }
}
