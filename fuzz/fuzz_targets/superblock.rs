//! Hostile superblocks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use polder_format::{
    PageSize, PhysicalPageNo, SUPERBLOCK_BYTES, SpaceId, StoreId, Superblock, choose,
};

/// Where the fields lie that the checksum is over.
const FIELDS: std::ops::Range<usize> = 12..112;

fn sample(generation: u64) -> Superblock {
    Superblock {
        store_id: StoreId([7; 16]),
        generation,
        compatible: 0,
        page_size: PageSize::MIN,
        clean: true,
        space_directory: PhysicalPageNo::new(16),
        next_space: SpaceId::CATALOGUE,
        next_version: 1,
        file_pages: 100,
        default_budget: 1 << 26,
        redo_start: polder_format::Lsn(8192),
        checkpoint: polder_format::Lsn(12288),
        durable: polder_format::Lsn(16384),
        incarnation: 6,
        log_limit: 1 << 28,
    }
}

/// Writes the checksum anew, so that the fields are looked at.
fn seal(block: &mut [u8]) {
    let sum = crc32c::crc32c_append(crc32c::crc32c(&block[..8]), &block[12..]);
    block[8..12].copy_from_slice(&sum.to_le_bytes());
}

fuzz_target!(|input: (&[u8], &[u8])| {
    let (first, second) = input;
    let _ = Superblock::decode(first);
    let _ = choose(first);

    let mut area = [sample(4).encode(), sample(5).encode()].concat();
    for (block, changes) in area.chunks_mut(SUPERBLOCK_BYTES).zip([first, second]) {
        block[FIELDS].iter_mut().zip(changes).for_each(|(byte, change)| *byte ^= change);
        seal(block);
    }
    let decoded: Vec<_> =
        area.chunks(SUPERBLOCK_BYTES).filter_map(|block| Superblock::decode(block).ok()).collect();
    for block in &decoded {
        assert_eq!(Superblock::decode(&block.encode()).as_ref(), Ok(block));
    }
    if let Ok((chosen, _)) = choose(&area) {
        let newest = decoded.iter().map(|block| block.generation).max();
        assert_eq!(newest, Some(chosen.generation));
    }
});
