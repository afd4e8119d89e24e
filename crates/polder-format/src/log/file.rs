//! The blocks that give the log file its shape: its header, the headers of segments, and the
//! headers of the slots of the double-write buffer.

use crate::header::{u32_at, u64_at};
use crate::{FormatError, PageId, PageSize, PhysicalPageNo, StoreId};

use super::group::LogSeed;

/// What the log is written in, in bytes: a synced block is never written again.
pub const LOG_BLOCK_BYTES: usize = 4096;

const FILE_MAGIC: &[u8; 8] = b"POLDRLOG";
const SEGMENT_MAGIC: &[u8; 8] = b"POLDRSEG";
const SLOT_MAGIC: &[u8; 8] = b"POLDRDBL";
const VERSION: u32 = 1;
/// Bytes of a slot's pages at most, whatever the page size.
const SLOT_BYTES_MAX: usize = 512 << 10;
const SLOT_PAGES_MAX: usize = 64;

/// Pages that one slot of the double-write buffer has room for: 8 to 64.
pub fn slot_pages(size: PageSize) -> usize {
    (SLOT_BYTES_MAX >> size.shift()).min(SLOT_PAGES_MAX)
}

/// Block 0 of the log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogHeader {
    /// The store that it belongs to.
    pub store_id: StoreId,
    /// Bytes of a segment, its header block included.
    pub segment_bytes: u64,
    /// Slots of the double-write buffer.
    pub slots: u32,
    /// Bytes of a slot, its header block included.
    pub slot_bytes: u32,
}

/// The first block of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Which part of the stream it holds, counted in segments.
    pub number: u64,
}

/// A page in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotPage {
    /// The page.
    pub page: PageId,
    /// Where it lies in the data file.
    pub place: PhysicalPageNo,
}

/// The first block of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotHeader {
    /// One more for each batch.
    pub sequence: u64,
    /// Batches below this one are synced where their pages lie in the data file.
    pub retired: u64,
    /// Checksum over the checksums of the pages: header and pages belong together.
    pub pages_checksum: u32,
    /// The pages, in the order in which they follow.
    pub pages: Vec<SlotPage>,
}

/// A block with a mark and, at byte 8, the checksum of the rest.
fn block(magic: &[u8; 8]) -> Vec<u8> {
    let mut block = vec![0; LOG_BLOCK_BYTES];
    block[0..8].copy_from_slice(magic);
    block[12..16].copy_from_slice(&VERSION.to_le_bytes());
    block
}

fn seal(seed: LogSeed, mut block: Vec<u8>) -> Vec<u8> {
    let sum = seed.checksum(&block[12..]);
    block[8..12].copy_from_slice(&sum.to_le_bytes());
    block
}

fn open<'a>(
    what: &'static str,
    magic: &[u8; 8],
    seed: LogSeed,
    block: &'a [u8],
) -> Result<&'a [u8], FormatError> {
    let block = block.get(..LOG_BLOCK_BYTES).ok_or(FormatError::Short {
        what,
        found: block.len(),
        expected: LOG_BLOCK_BYTES,
    })?;
    if &block[0..8] != magic {
        return Err(FormatError::Broken("the mark at its beginning is missing"));
    }
    let (stored, found) = (u32_at(block, 8), seed.checksum(&block[12..]));
    if stored != found {
        return Err(FormatError::Checksum { found, expected: stored });
    }
    let version = u32_at(block, 12);
    if version != VERSION {
        return Err(FormatError::Newer { version, bits: 0 });
    }
    Ok(block)
}

fn put(block: &mut [u8], at: usize, word: u64) {
    block[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

impl LogHeader {
    /// The block as it lies on disk.
    pub fn encode(&self) -> Vec<u8> {
        let mut block = block(FILE_MAGIC);
        block[16..32].copy_from_slice(&self.store_id.0);
        put(&mut block, 32, self.segment_bytes);
        put(&mut block, 40, u64::from(self.slots));
        put(&mut block, 48, u64::from(self.slot_bytes));
        seal(LogSeed::new(self.store_id), block)
    }

    /// Reads the block. `store_id`: the store whose log it should be.
    pub fn decode(bytes: &[u8], store_id: StoreId) -> Result<LogHeader, FormatError> {
        let mut found = [0; 16];
        found.copy_from_slice(bytes.get(16..32).unwrap_or(&[0; 16]));
        let block = open("header of the log", FILE_MAGIC, LogSeed::new(StoreId(found)), bytes)?;
        if found != store_id.0 {
            return Err(FormatError::Broken("it is the log of another store"));
        }
        let header = LogHeader {
            store_id,
            segment_bytes: u64_at(block, 32),
            slots: u32_at(block, 40),
            slot_bytes: u32_at(block, 48),
        };
        let aligned = |bytes: u64| bytes.is_multiple_of(LOG_BLOCK_BYTES as u64);
        let least = 2 * LOG_BLOCK_BYTES as u64;
        let sound = header.segment_bytes >= least
            && aligned(header.segment_bytes)
            && aligned(u64::from(header.slot_bytes))
            && u64::from(header.slot_bytes) >= least
            && (1..=1024).contains(&header.slots);
        if !sound {
            return Err(FormatError::Broken("the sizes in the header of the log are impossible"));
        }
        Ok(header)
    }

    /// The first block of a log, of whatever store.
    pub fn of_any(bytes: &[u8]) -> Option<LogHeader> {
        let mut id = [0; 16];
        id.copy_from_slice(bytes.get(16..32)?);
        LogHeader::decode(bytes, StoreId(id)).ok()
    }

    /// Where slot `slot` begins in the file.
    pub fn slot_offset(&self, slot: u32) -> u64 {
        LOG_BLOCK_BYTES as u64 + u64::from(slot) * u64::from(self.slot_bytes)
    }

    /// Where the `index`th segment of the file begins.
    pub fn segment_offset(&self, index: u64) -> u64 {
        self.slot_offset(self.slots) + index * self.segment_bytes
    }

    /// Bytes of the stream in one segment.
    pub fn share(&self) -> u64 {
        self.segment_bytes - LOG_BLOCK_BYTES as u64
    }
}

impl SegmentHeader {
    /// The block as it lies on disk.
    pub fn encode(&self, seed: LogSeed) -> Vec<u8> {
        let mut block = block(SEGMENT_MAGIC);
        put(&mut block, 16, self.number);
        seal(seed, block)
    }

    /// Reads the block.
    pub fn decode(bytes: &[u8], seed: LogSeed) -> Result<SegmentHeader, FormatError> {
        let block = open("header of a log segment", SEGMENT_MAGIC, seed, bytes)?;
        Ok(SegmentHeader { number: u64_at(block, 16) })
    }
}

impl SlotHeader {
    /// The block as it lies on disk.
    pub fn encode(&self, seed: LogSeed) -> Vec<u8> {
        let mut block = block(SLOT_MAGIC);
        put(&mut block, 16, self.sequence);
        put(&mut block, 24, self.retired);
        put(&mut block, 32, u64::from(self.pages_checksum));
        put(&mut block, 40, self.pages.len() as u64);
        for (i, page) in self.pages.iter().enumerate() {
            put(&mut block, 48 + 16 * i, page.page.to_bits());
            put(&mut block, 56 + 16 * i, page.place.get());
        }
        seal(seed, block)
    }

    /// Reads the block.
    pub fn decode(bytes: &[u8], seed: LogSeed) -> Result<SlotHeader, FormatError> {
        let block = open("header of a double-write slot", SLOT_MAGIC, seed, bytes)?;
        let count = u64_at(block, 40) as usize;
        if count > (LOG_BLOCK_BYTES - 48) / 16 {
            return Err(FormatError::Broken("a double-write slot claims too many pages"));
        }
        let page = |i: usize| SlotPage {
            page: PageId::from_link(u64_at(block, 48 + 16 * i)),
            place: PhysicalPageNo::new(u64_at(block, 56 + 16 * i)),
        };
        Ok(SlotHeader {
            sequence: u64_at(block, 16),
            retired: u64_at(block, 24),
            pages_checksum: u32_at(block, 32),
            pages: (0..count).map(page).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: StoreId = StoreId([3; 16]);

    #[test]
    fn blocks_come_back_and_each_changed_byte_is_seen() {
        let seed = LogSeed::new(ID);
        let header =
            LogHeader { store_id: ID, segment_bytes: 1 << 20, slots: 8, slot_bytes: 266_240 };
        let segment = SegmentHeader { number: 77 };
        let slot = SlotHeader {
            sequence: 9,
            retired: 4,
            pages_checksum: 12345,
            pages: vec![
                SlotPage { page: PageId::from_link(5), place: PhysicalPageNo::new(99) };
                64
            ],
        };
        let blocks = [header.encode(), segment.encode(seed), slot.encode(seed)];
        assert_eq!(LogHeader::decode(&blocks[0], ID), Ok(header));
        assert_eq!(SegmentHeader::decode(&blocks[1], seed), Ok(segment));
        assert_eq!(SlotHeader::decode(&blocks[2], seed).as_ref(), Ok(&slot));
        for at in 0..LOG_BLOCK_BYTES {
            let damaged = |i: usize| {
                let mut block = blocks[i].clone();
                block[at] ^= 4;
                block
            };
            assert!(LogHeader::decode(&damaged(0), ID).is_err(), "byte {at}");
            assert!(SegmentHeader::decode(&damaged(1), seed).is_err(), "byte {at}");
            assert!(SlotHeader::decode(&damaged(2), seed).is_err(), "byte {at}");
        }
        assert!(LogHeader::decode(&blocks[0], StoreId([4; 16])).is_err());
    }
}
