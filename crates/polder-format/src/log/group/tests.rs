use super::*;
use crate::log::{Counts, LoggedValue, TableCount};
use crate::{PageNo, PhysicalPageNo};
use proptest::prelude::*;

const SEED: LogSeed = LogSeed(7);

fn page() -> PageId {
    PageId::new(SpaceId::CATALOGUE, PageNo::new(3).unwrap())
}

fn samples() -> Vec<Operation<'static>> {
    let counts = Counts {
        start: Lsn(4096),
        next_version: 9,
        tables: vec![TableCount { space: SpaceId::CATALOGUE, entries: 4 }],
        more: true,
    };
    vec![
        Operation::FullPageImage { size: 4096, low: b"low", high: b"high" },
        Operation::Patch { offset: 64, backed: 16, bytes: &[1; 8] },
        Operation::Mark { used: true, runs: vec![(5, 3), (100, 1)] },
        Operation::Mark { used: false, runs: vec![(5, 1)] },
        Operation::Directory { physical: PhysicalPageNo::new(17) },
        Operation::Insert {
            added: true,
            version: 8,
            key: b"k",
            value: LoggedValue::Inline(b"value"),
        },
        Operation::Insert {
            added: false,
            version: 8,
            key: b"",
            value: LoggedValue::Long { len: 1 << 20, run: 3, link: 77 },
        },
        Operation::Remove { key: b"key" },
        Operation::InsertChild { link: 5, separator: b"m" },
        Operation::RemoveChild { index: 4 },
        Operation::Split { left_count: 12, right: 99, separator: b"sep" },
        Operation::RightHalf { left: 99, left_count: 12, separator: b"sep" },
        Operation::Loaded { entries: 1000 },
        Operation::Checkpoint(counts),
        Operation::Freed,
        Operation::EndOfRecovery { end: Lsn(9000) },
    ]
}

fn sealed() -> Vec<u8> {
    let mut group = Group::new();
    samples().iter().for_each(|operation| group.push(page(), operation));
    group.seal(SEED, Lsn(8192), 100, 3).to_vec()
}

#[test]
fn what_is_logged_comes_back() {
    let bytes = sealed();
    let header = GroupHeader::verify(&bytes, SEED, Lsn(8192)).unwrap();
    assert_eq!((header.durable, header.incarnation), (Lsn(8092), 3));
    assert_eq!(header.end(), Lsn(8192 + bytes.len() as u64));
    let records: Vec<_> = Records::of_group(&bytes).map(Result::unwrap).collect();
    let operations: Vec<_> = records.iter().map(|record| record.operation.clone()).collect();
    assert_eq!(operations, samples());
    let mut group = Group::new();
    group.push_full_page_image(page(), 4096, (3, 4), |low, high| {
        low.copy_from_slice(b"low");
        high.copy_from_slice(b"high");
    });
    let image = group.records().next().unwrap().unwrap();
    assert_eq!(image.operation, samples()[0]);
    assert!(records.iter().all(|record| record.page == page()));
}

#[test]
fn a_group_counts_only_where_it_was_written_and_whole() {
    let bytes = sealed();
    assert!(GroupHeader::verify(&bytes, SEED, Lsn(4096)).is_err());
    assert!(GroupHeader::verify(&bytes, LogSeed(8), Lsn(8192)).is_err());
    assert!(GroupHeader::verify(&bytes[..bytes.len() - 8], SEED, Lsn(8192)).is_err());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(GroupHeader::verify(&damaged, SEED, Lsn(8192)).is_err(), "byte {at}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(mut bytes: Vec<u8>, cut: usize) {
        let whole = sealed();
        let _ = GroupHeader::verify(&bytes, SEED, Lsn(0));
        Records::of_group(&bytes).for_each(drop);
        // Records that were valid but for a few bytes.
        let at = cut % whole.len();
        bytes.truncate(16);
        let mut damaged = whole;
        let end = (at + bytes.len()).min(damaged.len());
        damaged[at..end].copy_from_slice(&bytes[..end - at]);
        Records::of_group(&damaged).for_each(drop);
    }
}
