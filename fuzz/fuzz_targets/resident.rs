//! Hostile lists of resident pages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use polder_format::{
    PageSize, RESIDENT_HEADER_BYTES, RESIDENT_PAGE_BYTES, ResidentHeader, StoreId, Temperature,
};

/// Where the fields lie that the checksum is over.
const FIELDS: std::ops::Range<usize> = 12..RESIDENT_HEADER_BYTES;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (bytes, changes) = input;
    let _ = ResidentHeader::decode(bytes);
    let (words, _) = bytes.as_chunks::<RESIDENT_PAGE_BYTES>();
    for word in words {
        let (page, temperature) = Temperature::decode(*word);
        assert_eq!(temperature.encode(page), *word);
    }

    let header = ResidentHeader {
        store_id: StoreId([7; 16]),
        page_size: PageSize::MIN,
        checksum: 1,
        counts: [1, 2, 3, 4],
    };
    let mut block = header.encode();
    block[FIELDS].iter_mut().zip(changes).for_each(|(byte, change)| *byte ^= change);
    // The checksum anew, so that the fields are looked at.
    let sum = crc32c::crc32c_append(crc32c::crc32c(&block[..8]), &block[12..]);
    block[8..12].copy_from_slice(&sum.to_le_bytes());
    if let Ok(header) = ResidentHeader::decode(&block) {
        let _ = header.pages();
        assert_eq!(header.encode(), block);
    }
});
