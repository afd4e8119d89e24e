use super::*;
use crate::log::{Counts, LoggedValue, RECORD_BYTES_AT_MOST, RecordHead, TableCount, flag, kind};
use crate::{PageNo, PhysicalPageNo};
use proptest::prelude::*;

const SEED: LogSeed = LogSeed(7);
const AT: Lsn = Lsn(8192);

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
    group.seal(SEED, AT, Lsn(4096), 3).to_vec()
}

#[test]
fn what_is_logged_comes_back() {
    let bytes = sealed();
    let header = GroupHeader::verify(&bytes, SEED, Lsn(8192)).unwrap();
    assert_eq!((header.durable, header.incarnation), (Lsn(4096), 3));
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

/// A group says only so much of its position as tells the parts of the stream apart that can be near.
#[test]
fn positions_are_claimed_and_checked_however_far_the_log_has_come() {
    let part = 1u64 << PLACE_BITS;
    let mut group = Group::new();
    group.push(page(), &Operation::Freed);
    for lsn in [4096, 8 * 513, part - 8, part, part + 4096, 5 * part + part / 2, (1 << 62) - 4096] {
        let bytes = group.seal(SEED, Lsn(lsn), Lsn(0), 3).to_vec();
        assert_eq!(GroupHeader::verify(&bytes, SEED, Lsn(lsn)).unwrap().lsn, Lsn(lsn));
        // At the same place of another part of the stream it is no group.
        assert!(GroupHeader::verify(&bytes, SEED, Lsn(lsn + part)).is_err());
        assert!(GroupHeader::verify(&bytes, SEED, Lsn(lsn.wrapping_sub(part))).is_err());
        assert!(GroupHeader::verify(&bytes, SEED, Lsn(lsn + 8)).is_err());
        let claimed = |from: u64| GroupHeader::claimed_lsn(&bytes, Lsn(from)).map(|lsn| lsn.0);
        for from in [lsn, lsn - 8, lsn.saturating_sub(part / 2), lsn.saturating_sub(part - 8)] {
            assert_eq!(claimed(from), Some(lsn), "from {from}");
        }
        assert_eq!(claimed(lsn + 8), Some(lsn + part));
    }
}

#[test]
fn what_is_durable_is_known_to_the_block_or_not_at_all() {
    let mut group = Group::new();
    group.push(page(), &Operation::Freed);
    let mut told = |lsn, durable| {
        let bytes = group.seal(SEED, Lsn(lsn), Lsn(durable), 3);
        GroupHeader::verify(bytes, SEED, Lsn(lsn)).unwrap().durable.0
    };
    let far = u64::from(Lag::COARSE) * 4096;
    for (lsn, durable) in [(8192, 8192), (8200, 4096), (12280, 8192), (far + 4088, 4096)] {
        assert_eq!(told(lsn, durable), durable);
    }
    // Never more than that, and to a MiB less.
    assert_eq!(told(12280, 8200), 8192);
    let (coarse, gib) = (Lag::BLOCKS * 4096, 1u64 << 30);
    for lag in [far, far + 4096, far + coarse, gib, 7 * gib + 12288] {
        let (durable, lsn) = (5 << 20, (5 << 20) + lag);
        assert!((durable - coarse + 1..=durable).contains(&told(lsn, durable)), "{lag}");
    }
    assert_eq!(told(9 * gib, 4096), 0);
    assert_eq!(told(u64::MAX >> 2 & !7, 4096), 0);
}

/// What is small takes few bytes: most of what is written of a small row is the row.
#[test]
fn a_group_of_one_insert_is_little_longer_than_what_it_inserts() {
    let page = PageId::new(SpaceId::new(20).unwrap(), PageNo::new(2_000_000).unwrap());
    let len_of = |value: &[u8]| {
        let (version, value) = ((3 << 32) + 2_000_000, LoggedValue::Inline(value));
        let mut group = Group::new();
        group.push(page, &Operation::Insert { added: true, version, key: &[1; 8], value });
        group.len()
    };
    assert_eq!([0, 8, 120, 1000].map(|len| len_of(&[7; 1000][..len])), [40, 48, 160, 1040]);
    let mut least = Group::new();
    least.push(PageId::NULL, &Operation::Freed);
    assert_eq!(least.len(), GROUP_BYTES_MIN);
}

/// What a group takes at most is said before it is made.
#[test]
fn no_record_takes_more_than_is_reserved() {
    let page = PageId::new(SpaceId::MAX, PageNo::MAX);
    let (most, link) = (u32::MAX, u64::MAX);
    let value = LoggedValue::Long { len: u64::from(most), run: most, link };
    let long = [7; 8192];
    let samples = [
        (8, Operation::Patch { offset: 1 << 16, backed: most, bytes: &[] }),
        (8, Operation::Mark { used: true, runs: vec![(1 << 19, 1 << 19)] }),
        (8192, Operation::Insert { added: true, version: u64::MAX, key: &long, value }),
        (8, Operation::InsertChild { link, separator: &[] }),
        (0, Operation::Split { left_count: most, right: link, separator: &[] }),
        (0, Operation::RightHalf { left_count: most, left: link, separator: &[] }),
        (0, Operation::RemoveChild { index: most }),
        (0, Operation::EndOfRecovery { end: Lsn(u64::MAX) }),
    ];
    for (content, operation) in samples {
        let mut group = Group::new();
        for count in 1..=9 {
            group.push(page, &operation);
            let most = GROUP_HEADER_BYTES + count * (RECORD_BYTES_AT_MOST + content);
            assert!(group.len() <= most, "{}: {} of {most}", operation.name(), group.len());
        }
    }
}

proptest! {
    /// In the narrow form and in the wide one, on both sides of each border.
    #[test]
    fn an_insert_comes_back_whatever_is_large(
        (space, page, version) in (0u64..1 << 28, 0u64..1 << 34, any::<u64>()),
        shifts in [0..28u32, 0..34, 0..64],
        (key_len, len) in (prop_oneof![0usize..300, 32_000usize..65_536], prop_oneof![0usize..600, 65_000usize..66_000]),
        added: bool,
    ) {
        let page = PageId::new(
            SpaceId::new(space >> shifts[0]).unwrap(),
            PageNo::new(page >> shifts[1]).unwrap(),
        );
        let (key, value) = (vec![1; key_len], vec![2; len]);
        let (version, value) = (version >> shifts[2], LoggedValue::Inline(&value));
        let insert = Operation::Insert { added, version, key: &key, value };
        let mut group = Group::new();
        group.push(page, &insert);
        group.push(page, &Operation::Freed);
        let bytes = group.seal(SEED, AT, AT, 3);
        let found: Vec<_> = Records::of_group(bytes).map(Result::unwrap).collect();
        prop_assert_eq!(found.len(), 2);
        prop_assert!(found.iter().all(|record| record.page == page));
        prop_assert_eq!(&found[0].operation, &insert);
        let (head, _) = RecordHead::read(&bytes[GROUP_HEADER_BYTES..]).unwrap();
        prop_assert_eq!(head.flags & flag::COUNTS != 0, added);
        prop_assert_eq!((head.number, head.page), (kind::INSERT, page));
    }

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
