use super::*;

fn sample(generation: u64) -> Superblock {
    Superblock {
        store_id: StoreId([7; 16]),
        generation,
        compatible: 0,
        page_size: PageSize::new(8192).unwrap(),
        clean: true,
        space_directory: PhysicalPageNo::new(99),
        next_space: SpaceId::new(12).unwrap(),
        next_version: 1 << 40,
        file_pages: 12345,
        default_budget: 64 << 20,
        redo_start: Lsn(8192),
        checkpoint: Lsn(12288),
        durable: Lsn(16384),
        incarnation: 6,
        log_limit: 256 << 20,
    }
}

#[test]
fn what_is_encoded_is_decoded() {
    let block = sample(5).encode();
    assert_eq!(Superblock::decode(&block).unwrap(), sample(5));
}

#[test]
fn every_changed_byte_is_found() {
    let block = sample(5).encode();
    for at in 0..SUPERBLOCK_BYTES {
        let mut damaged = block;
        damaged[at] ^= 0x40;
        assert!(Superblock::decode(&damaged).is_err(), "byte {at}");
    }
}

#[test]
fn the_newer_of_two_counts_and_a_torn_one_does_not() {
    let mut area = vec![0; 2 * SUPERBLOCK_BYTES];
    area[..SUPERBLOCK_BYTES].copy_from_slice(&sample(4).encode());
    assert_eq!(choose(&area).unwrap().0.generation, 4);
    area[SUPERBLOCK_BYTES..].copy_from_slice(&sample(5).encode());
    assert_eq!(choose(&area).unwrap().0.generation, 5);
    area[SUPERBLOCK_BYTES + 100] ^= 1;
    let (block, damage) = choose(&area).unwrap();
    assert_eq!(block.generation, 4);
    assert!(matches!(damage, Some(FormatError::Checksum { .. })));
    area[100] ^= 1;
    assert!(choose(&area).is_err());
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let mut block = sample(1).encode();
    block[56] = 2;
    let sum = checksum(&block);
    block[8..12].copy_from_slice(&sum.to_le_bytes());
    assert!(matches!(Superblock::decode(&block), Err(FormatError::Newer { bits: 2, .. })));
    assert!(matches!(Superblock::decode(&[0; SUPERBLOCK_BYTES]), Err(FormatError::Foreign)));
    assert!(matches!(choose(&[]), Err(FormatError::Short { .. })));
}
