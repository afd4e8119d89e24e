//! What lies in the log file: groups, records and the headers of segments and slots; and the
//! redoing of what decodes on a leaf and on an inner node.
#![no_main]

use libfuzzer_sys::fuzz_target;
use polder_format::log::{
    GroupHeader, LogHeader, LogSeed, Pad, Record, Records, SegmentHeader, SlotHeader,
};
use polder_format::{Lsn, PageSize, StoreId};
use polder_pool::bytes::PageBuf;
use polder_tree::node::{NodeMut, NodeRef};
use polder_tree::redo;

const ID: StoreId = StoreId([7; 16]);

fuzz_target!(|bytes: &[u8]| {
    let seed = LogSeed::new(ID);
    let _ = LogHeader::decode(bytes, ID);
    let _ = SegmentHeader::decode(bytes, seed);
    let _ = SlotHeader::decode(bytes, seed);
    let _ = Pad::decode(bytes, seed, Lsn(4096), 1);
    let claimed = GroupHeader::claimed_lsn(bytes, Lsn(4096));
    if let Ok(header) = GroupHeader::verify(bytes, seed, Lsn(4096)) {
        assert!(header.len as usize <= bytes.len() && claimed == Some(Lsn(4096)));
    }
    let peeked = Record::peek(bytes);
    let _ = Record::peek_left(bytes);
    if let Ok(record) = Record::decode(bytes) {
        assert_eq!(peeked, Some((record.page, record.stored_len())));
    }
    // As if the checksum were right.
    let mut pages = [0, 1].map(|level| {
        let mut page = PageBuf::new(PageSize::MIN);
        NodeMut::new(page.page_mut()).init(level, None, None, 0, u64::from(level) * 99);
        page
    });
    for record in Records::of_group(bytes).map_while(Result::ok) {
        for page in &mut pages {
            let _ = redo(&record.operation, page.page_mut());
            assert!(NodeRef::new(page.page()).verify_shape().is_ok());
        }
    }
});
