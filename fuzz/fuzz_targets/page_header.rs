//! Hostile pages, as far as header and checksum go.
#![no_main]

use libfuzzer_sys::fuzz_target;
use polder_format::{ChecksumSeed, PAGE_HEADER_BYTES, PageHeader, PageId, StoreId, header_at};

fuzz_target!(|input: (u64, u64, &[u8])| {
    let (link, change, bytes) = input;
    let seed = ChecksumSeed::new(StoreId([7; 16]));
    let page_id = PageId::from_link(link);
    let _ = seed.verify(bytes, page_id);
    let _ = PageHeader::decode(bytes);
    if bytes.len() < PAGE_HEADER_BYTES {
        return;
    }
    let mut page = bytes.to_vec();
    page[header_at::PAGE_ID..][..8].copy_from_slice(&page_id.to_bits().to_le_bytes());
    seed.seal(&mut page);
    let header = seed.verify(&page, page_id);
    assert_eq!(header, PageHeader::decode(&page));
    assert!(header.is_ok());

    let at = (change >> 8) as usize % page.len();
    page[at] ^= (change as u8).max(1);
    assert!(seed.verify(&page, page_id).is_err(), "byte {at} was changed");
});
