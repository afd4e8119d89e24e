//! Damaged and foreign bytes: each is reported, none is taken for something else, none panics.

use polder_format::{
    ChecksumSeed, FormatError, Lsn, PAGE_HEADER_BYTES, PageHeader, PageId, PageKind, PageNo,
    PageSize, PhysicalPageNo, SUPERBLOCK_BYTES, SpaceId, StoreId, Superblock, choose, header_at,
};
use proptest::prelude::*;

const STORE: StoreId = StoreId(*b"sixteen bytes ok");

fn page_id() -> PageId {
    PageId::new(SpaceId::CATALOGUE, PageNo::new(77).unwrap())
}

/// A page with some content and its checksum.
fn sealed_page(size: usize) -> Vec<u8> {
    let mut page: Vec<u8> = (0..size).map(|at| (at * 13 + at / 256) as u8).collect();
    page[..PAGE_HEADER_BYTES].fill(0);
    page[header_at::KIND] = PageKind::TREE_LEAF.0;
    page[header_at::LAYOUT] = 1;
    page[header_at::PAGE_ID..][..8].copy_from_slice(&page_id().to_bits().to_le_bytes());
    page[header_at::LSN..][..8].copy_from_slice(&5u64.to_le_bytes());
    ChecksumSeed::new(STORE).seal(&mut page);
    page
}

fn superblock(generation: u64) -> Superblock {
    Superblock {
        store_id: STORE,
        generation,
        compatible: 0,
        page_size: PageSize::MIN,
        clean: false,
        space_directory: PhysicalPageNo::new(17),
        next_space: SpaceId::new(3).unwrap(),
        next_version: 9,
        file_pages: 4000,
        default_budget: 64 << 20,
        redo_start: polder_format::Lsn(8192),
        checkpoint: polder_format::Lsn(12288),
        durable: polder_format::Lsn(16384),
        incarnation: 6,
        log_limit: 256 << 20,
    }
}

/// Both superblocks, generations 4 and 5.
fn superblocks() -> Vec<u8> {
    [superblock(4).encode(), superblock(5).encode()].concat()
}

#[test]
fn a_sealed_page_is_verified() {
    for size in [4096, 16384, 65536] {
        let header = ChecksumSeed::new(STORE).verify(&sealed_page(size), page_id()).unwrap();
        assert_eq!((header.kind, header.layout), (PageKind::TREE_LEAF, 1));
        assert_eq!((header.page_id, header.lsn), (page_id(), Lsn(5)));
    }
}

#[test]
fn every_changed_byte_of_a_page_is_reported() {
    let seed = ChecksumSeed::new(STORE);
    let mut page = sealed_page(4096);
    for at in 0..page.len() {
        for change in 1..=255 {
            page[at] ^= change;
            let found = seed.verify(&page, page_id());
            assert!(matches!(found, Err(FormatError::Checksum { .. })), "byte {at}: {found:?}");
            page[at] ^= change;
        }
    }
    seed.verify(&page, page_id()).unwrap();
}

#[test]
fn a_page_of_elsewhere_is_reported() {
    let page = sealed_page(4096);
    let elsewhere = PageId::new(SpaceId::CATALOGUE, PageNo::new(78).unwrap());
    assert!(matches!(
        ChecksumSeed::new(STORE).verify(&page, elsewhere),
        Err(FormatError::WrongPage { .. })
    ));
    let other_store = ChecksumSeed::new(StoreId([1; 16]));
    assert!(matches!(other_store.verify(&page, page_id()), Err(FormatError::Checksum { .. })));
    let zeros = vec![0; 4096];
    assert!(ChecksumSeed::new(STORE).verify(&zeros, page_id()).is_err(), "never written");
}

#[test]
fn a_page_that_is_cut_off_is_reported() {
    let page = sealed_page(4096);
    for len in 0..page.len() {
        assert!(ChecksumSeed::new(STORE).verify(&page[..len], page_id()).is_err(), "{len} bytes");
        assert_eq!(PageHeader::decode(&page[..len]).is_ok(), len >= PAGE_HEADER_BYTES);
    }
}

#[test]
fn every_changed_byte_of_a_superblock_is_reported() {
    let mut block = superblock(5).encode();
    for at in 0..block.len() {
        for change in [1, 0x10, 0x80, 0xff] {
            block[at] ^= change;
            assert!(Superblock::decode(&block).is_err(), "byte {at}");
            block[at] ^= change;
        }
    }
    assert_eq!(Superblock::decode(&block), Ok(superblock(5)));
}

#[test]
fn a_changed_superblock_leaves_the_other_and_is_reported() {
    let mut area = superblocks();
    for at in 0..area.len() {
        area[at] ^= 4;
        let (chosen, damage) = choose(&area).unwrap();
        let other = if at < SUPERBLOCK_BYTES { 5 } else { 4 };
        assert_eq!(chosen, superblock(other), "byte {at}");
        assert!(damage.is_some(), "byte {at}");
        area[at] ^= 4;
    }
    assert_eq!(choose(&area), Ok((superblock(5), None)));
}

#[test]
fn two_changed_superblocks_are_an_error() {
    let mut area = superblocks();
    for at in (0..SUPERBLOCK_BYTES).step_by(7) {
        area[at] ^= 1;
        area[SUPERBLOCK_BYTES + (at * 31) % SUPERBLOCK_BYTES] ^= 1;
        assert!(choose(&area).is_err(), "byte {at}");
        area = superblocks();
    }
}

#[test]
fn superblocks_that_are_cut_off_are_reported() {
    let area = superblocks();
    for len in 0..area.len() {
        match choose(&area[..len]) {
            Ok((chosen, damage)) => {
                assert!(len >= SUPERBLOCK_BYTES);
                assert_eq!(chosen, superblock(4));
                assert!(matches!(damage, Some(FormatError::Short { .. })), "{len} bytes");
            }
            Err(_) => assert!(len < SUPERBLOCK_BYTES, "{len} bytes"),
        }
    }
}

/// Writes the checksum of the superblock anew, as an attacker would to get past it.
fn seal_superblock(block: &mut [u8]) {
    let sum = crc32c::crc32c_append(crc32c::crc32c(&block[0..8]), &block[12..SUPERBLOCK_BYTES]);
    block[8..12].copy_from_slice(&sum.to_le_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
        let seed = ChecksumSeed::new(STORE);
        prop_assert!(seed.verify(&bytes, page_id()).is_err());
        prop_assert!(Superblock::decode(&bytes).is_err());
        prop_assert!(choose(&bytes).is_err());
        let _ = PageHeader::decode(&bytes);
    }

    #[test]
    fn random_fields_with_a_right_checksum_do_not_panic(
        fields in prop::collection::vec((12usize..112, any::<u8>()), 1..20),
    ) {
        let mut block = superblock(5).encode();
        for (at, byte) in fields {
            block[at] = byte;
        }
        seal_superblock(&mut block);
        if let Ok(decoded) = Superblock::decode(&block) {
            let again = Superblock::decode(&decoded.encode());
            prop_assert_eq!(again, Ok(decoded));
        }
    }

    #[test]
    fn several_changed_bytes_of_a_page_are_reported(
        changes in prop::collection::btree_map(0usize..4096, 1u8..=255, 1..50),
    ) {
        let mut page = sealed_page(4096);
        for (at, change) in changes {
            page[at] ^= change;
        }
        prop_assert!(ChecksumSeed::new(STORE).verify(&page, page_id()).is_err());
    }
}
