//! The blocks that give the log file its shape: its header, the headers of segments, and the
//! headers of the slots of the double-write buffer.

use std::ops::Range;

use crate::header::{u32_at, u64_at};
use crate::{FormatError, Lsn, PageId, PageSize, PhysicalPageNo, StoreId};

use super::group::{LOG_BLOCK_BYTES, LogSeed};

const FILE_MAGIC: &[u8; 8] = b"POLDRLOG";
const SEGMENT_MAGIC: &[u8; 8] = b"POLDRSEG";
const SLOT_MAGIC: &[u8; 8] = b"POLDRDBL";
const VERSION: u32 = 3;
/// Bytes of a slot's pages at most, whatever the page size.
const SLOT_BYTES_MAX: usize = 512 << 10;
const SLOT_PAGES_MAX: usize = 64;
/// Where the entries of its pages begin in a slot's header, and how long each is.
const SLOT_PAGES_AT: usize = 48;
const SLOT_PAGE_BYTES: usize = 24;

/// Bytes of the pages of the first slots, if that is a page.
const FIRST_SLOT_BYTES: usize = 16 << 10;
/// Slots of the first size.
const FIRST_SLOTS: u32 = 2;
/// Slots of the greatest size.
const FULL_SLOTS: u32 = 16;
/// Pages that the first segments have room for: what there is of them must suffice for any change
/// but a batch, on a device where the log cannot grow.
const FIRST_SEGMENT_PAGES: u64 = 6;
/// Segments of the first size.
const FIRST_SEGMENTS: u32 = 4;

/// Pages that the greatest slots of the double-write buffer have room for: 8 to 64.
pub fn slot_pages(size: PageSize) -> usize {
    (SLOT_BYTES_MAX >> size.shift()).min(SLOT_PAGES_MAX)
}

/// Pages that the first slots have room for: 1 to 4.
fn first_slot_pages(size: PageSize) -> usize {
    (FIRST_SLOT_BYTES >> size.shift()).max(1)
}

/// Block 0 of the log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogHeader {
    /// The store that it belongs to.
    pub store_id: StoreId,
    /// Bytes of the greatest segments, their header block included.
    pub segment_bytes: u64,
    /// Likewise of the first ones.
    pub first_segment_bytes: u64,
    /// Bytes of the greatest slots, their header block included.
    pub slot_bytes: u64,
    /// Likewise of the first ones.
    pub first_slot_bytes: u64,
}

/// A stretch of the log file. They lie one behind the other, behind the header, in an order and in
/// sizes that follow from the header alone; so the length of the file tells which there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// What it is.
    pub kind: RegionKind,
    /// Where it begins in the file.
    pub offset: u64,
    /// Its length in bytes, its header block included.
    pub bytes: u64,
}

/// What a stretch of the log file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionKind {
    /// A slot of the double-write buffer.
    Slot,
    /// A segment of the stream.
    Segment,
}

impl Region {
    /// Where the next one begins.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// Bytes behind its header block: of the stream, or of pages.
    pub fn share(&self) -> u64 {
        self.bytes - LOG_BLOCK_BYTES as u64
    }
}

/// The first block of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Where in the stream begins what it holds.
    pub start: Lsn,
    /// The incarnation of the store in which it was begun. Of two segments that claim the same
    /// part of the stream the later one holds it.
    pub incarnation: u32,
}

/// A page in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotPage {
    /// The page.
    pub page: PageId,
    /// Where it lies in the data file.
    pub physical: PhysicalPageNo,
    /// Which of its lines are in the slot: those in which it differs from what lies there.
    pub lines: Lines,
}

/// A set of the lines of a page, of which each is a 64th of it: a bit for each, the first line the
/// lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lines(pub u64);

impl Lines {
    /// The whole page.
    pub const ALL: Lines = Lines(u64::MAX);
    /// The lines of a page.
    pub const COUNT: usize = 64;

    /// With the line in which the header lies: the checksum there differs whenever anything does.
    pub fn with_header(self) -> Lines {
        Lines(self.0 | 1)
    }

    /// How many bytes they have, in a page of this size.
    pub fn bytes(self, size: PageSize) -> usize {
        self.0.count_ones() as usize * (size.bytes() / Self::COUNT)
    }

    /// Where they lie in a page of this size: neighbours are one run.
    pub fn runs(self, size: PageSize) -> impl Iterator<Item = Range<usize>> + use<> {
        let (line, mut rest) = (size.bytes() / Self::COUNT, self.0);
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let first = rest.trailing_zeros() as usize;
            let end = first + (rest >> first).trailing_ones() as usize;
            rest = if end < Self::COUNT { rest >> end << end } else { 0 };
            Some(first * line..end * line)
        })
    }
}

/// The first block of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotHeader {
    /// One more for each batch.
    pub sequence: u64,
    /// Batches below this one are synced where their pages lie in the data file.
    pub retired: u64,
    /// Checksum over the lines of all pages: header and lines belong together
    /// ([`SlotHeader::is_of`]).
    pub lines_checksum: u32,
    /// The pages, in the order in which their lines follow.
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
    match version {
        ..VERSION => Err(FormatError::Older { version }),
        VERSION => Ok(block),
        _ => Err(FormatError::Newer { version, bits: 0 }),
    }
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
        put(&mut block, 40, self.first_segment_bytes);
        put(&mut block, 48, self.slot_bytes);
        put(&mut block, 56, self.first_slot_bytes);
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
            first_segment_bytes: u64_at(block, 40),
            slot_bytes: u64_at(block, 48),
            first_slot_bytes: u64_at(block, 56),
        };
        let is_size = |bytes: u64| {
            let least = 2 * LOG_BLOCK_BYTES as u64;
            (least..1 << 40).contains(&bytes) && bytes.is_multiple_of(LOG_BLOCK_BYTES as u64)
        };
        let sizes = [
            (header.first_segment_bytes, header.segment_bytes),
            (header.first_slot_bytes, header.slot_bytes),
        ];
        let are_sound = |(first, full)| is_size(first) && is_size(full) && first <= full;
        if !sizes.into_iter().all(are_sound) {
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

    /// The stretches of the file, without end: first what every log has ([`LogHeader::FIRST`] of
    /// them), then slots and segments in turn, each twice as large as the one before it until they
    /// have the greatest size; when all slots are there only segments.
    pub fn regions(&self) -> impl Iterator<Item = Region> + use<> {
        let header = *self;
        let block = LOG_BLOCK_BYTES as u64;
        let (mut slots, mut full_slots, mut slot) = (0, 0, header.first_slot_bytes);
        let (mut segments, mut segment) = (0, header.first_segment_bytes);
        // How many slots come before the next segment.
        let (mut before, mut offset) = (FIRST_SLOTS, block);
        std::iter::from_fn(move || {
            let (kind, bytes) = if before > 0 && full_slots < FULL_SLOTS {
                before -= 1;
                slots += 1;
                if slots > FIRST_SLOTS {
                    slot = (2 * (slot - block) + block).min(header.slot_bytes);
                }
                full_slots += u32::from(slot == header.slot_bytes);
                (RegionKind::Slot, slot)
            } else {
                segments += 1;
                if segments > FIRST_SEGMENTS {
                    segment = (2 * segment).min(header.segment_bytes);
                }
                before = match (segments < FIRST_SEGMENTS, slot == header.slot_bytes) {
                    (true, _) => 0,
                    (false, true) => 2,
                    (false, false) => 1,
                };
                (RegionKind::Segment, segment)
            };
            let region = Region { kind, offset, bytes };
            offset = region.end();
            Some(region)
        })
    }

    /// Slots that there are at most.
    pub fn slots(&self) -> usize {
        // They end before the segments have come to this number.
        let regions = self.regions().take(1 << 10);
        regions.filter(|region| region.kind == RegionKind::Slot).count()
    }

    /// The stretches that every log has.
    pub const FIRST: usize = (FIRST_SLOTS + FIRST_SEGMENTS) as usize;

    /// The header of a new log, with segments of so many bytes at most.
    pub fn new(store_id: StoreId, size: PageSize, segment_bytes: u64) -> LogHeader {
        let slot = |pages: usize| (LOG_BLOCK_BYTES + (pages << size.shift())) as u64;
        LogHeader {
            store_id,
            segment_bytes,
            first_segment_bytes: (FIRST_SEGMENT_PAGES << size.shift()).min(segment_bytes),
            slot_bytes: slot(slot_pages(size)),
            first_slot_bytes: slot(first_slot_pages(size)),
        }
    }

    /// The stretches of a file of this length. The last one may be cut off: a crash may have taken
    /// what was never written of it.
    pub fn regions_within(&self, len: u64) -> impl Iterator<Item = Region> + use<> {
        let is_there = move |region: &Region| region.offset + LOG_BLOCK_BYTES as u64 <= len;
        self.regions().take_while(is_there)
    }

    /// Of a file of this length those of one kind.
    pub fn of_kind(&self, kind: RegionKind, len: u64) -> Vec<Region> {
        self.regions_within(len).filter(|region| region.kind == kind).collect()
    }
}

impl SegmentHeader {
    /// The block as it lies on disk.
    pub fn encode(&self, seed: LogSeed) -> Vec<u8> {
        let mut block = block(SEGMENT_MAGIC);
        put(&mut block, 16, self.start.0);
        put(&mut block, 24, u64::from(self.incarnation));
        seal(seed, block)
    }

    /// Reads the block.
    pub fn decode(bytes: &[u8], seed: LogSeed) -> Result<SegmentHeader, FormatError> {
        let block = open("header of a log segment", SEGMENT_MAGIC, seed, bytes)?;
        let (start, incarnation) = (Lsn(u64_at(block, 16)), u32_at(block, 24));
        // What it holds must have an end that can be said.
        if start.0 >= 1 << 62 || !start.0.is_multiple_of(LOG_BLOCK_BYTES as u64) {
            return Err(FormatError::Broken("a log segment begins at no block of the stream"));
        }
        Ok(SegmentHeader { start, incarnation })
    }
}

impl SlotHeader {
    /// Whether these are the lines of its pages, one behind the other, as they were written.
    pub fn is_of(&self, lines: &[u8], seed: LogSeed) -> bool {
        seed.checksum(lines) == self.lines_checksum
    }

    /// The block as it lies on disk.
    pub fn encode(&self, seed: LogSeed) -> Vec<u8> {
        let mut block = block(SLOT_MAGIC);
        put(&mut block, 16, self.sequence);
        put(&mut block, 24, self.retired);
        put(&mut block, 32, u64::from(self.lines_checksum));
        put(&mut block, 40, self.pages.len() as u64);
        for (i, page) in self.pages.iter().enumerate() {
            let at = SLOT_PAGES_AT + SLOT_PAGE_BYTES * i;
            put(&mut block, at, page.page.to_bits());
            put(&mut block, at + 8, page.physical.get());
            put(&mut block, at + 16, page.lines.0);
        }
        seal(seed, block)
    }

    /// Reads the block.
    pub fn decode(bytes: &[u8], seed: LogSeed) -> Result<SlotHeader, FormatError> {
        let block = open("header of a double-write slot", SLOT_MAGIC, seed, bytes)?;
        let count = u64_at(block, 40) as usize;
        if count > (LOG_BLOCK_BYTES - SLOT_PAGES_AT) / SLOT_PAGE_BYTES {
            return Err(FormatError::Broken("a double-write slot claims too many pages"));
        }
        let page = |i: usize| {
            let at = SLOT_PAGES_AT + SLOT_PAGE_BYTES * i;
            SlotPage {
                page: PageId::from_link(u64_at(block, at)),
                physical: PhysicalPageNo::new(u64_at(block, at + 8)),
                lines: Lines(u64_at(block, at + 16)),
            }
        };
        Ok(SlotHeader {
            sequence: u64_at(block, 16),
            retired: u64_at(block, 24),
            lines_checksum: u32_at(block, 32),
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
        let header = LogHeader::new(ID, PageSize::MIN, 1 << 20);
        let segment = SegmentHeader { start: Lsn(77 << 12), incarnation: 5 };
        let slot = SlotHeader {
            sequence: 9,
            retired: 4,
            lines_checksum: 12345,
            pages: vec![
                SlotPage {
                    page: PageId::from_link(5),
                    physical: PhysicalPageNo::new(99),
                    lines: Lines(0x8000_0000_0000_0003),
                };
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

    #[test]
    fn lines_lie_in_runs() {
        let runs = |lines: u64, size| -> Vec<(usize, usize)> {
            Lines(lines).runs(size).map(|run| (run.start, run.end)).collect()
        };
        let (small, large) = (PageSize::MIN, PageSize::new(65536).unwrap());
        assert_eq!(runs(0, small), []);
        assert_eq!(runs(1, small), [(0, 64)]);
        assert_eq!(runs(u64::MAX, large), [(0, 65536)]);
        assert_eq!(runs(1 << 63 | 0b110, small), [(64, 192), (4032, 4096)]);
        assert_eq!(runs(u64::MAX << 1, small), [(64, 4096)]);
        for lines in [0, 1, u64::MAX, 1 << 63 | 0b110, 0xF0F0_1234_8765_4321] {
            let bytes: usize = runs(lines, large).iter().map(|(begin, end)| end - begin).sum();
            assert_eq!(bytes, Lines(lines).bytes(large));
        }
    }

    /// A log begins small; behind some steps it grows by its greatest segments alone.
    #[test]
    fn regions_follow_each_other_and_double() {
        for bytes in [4096, 8192, 16384, 32768, 65536] {
            let size = PageSize::new(bytes).unwrap();
            for largest in [256 << 10, 2 << 20, 16 << 20] {
                let header = LogHeader::new(ID, size, largest);
                let regions: Vec<Region> = header.regions().take(100).collect();
                let of = |kind| regions.iter().filter(move |region| region.kind == kind);
                assert!(regions.windows(2).all(|pair| pair[0].end() == pair[1].offset));
                let doubles = |pair: &[u64], most| {
                    pair[1] == pair[0] || pair[1] == most || pair[1] == 2 * pair[0]
                };
                let segments: Vec<u64> =
                    of(RegionKind::Segment).map(|region| region.bytes).collect();
                assert!(segments.windows(2).all(|pair| doubles(pair, largest)));
                assert_eq!(segments[..4], [(6 << size.shift()).min(largest); 4]);
                assert_eq!(segments.last(), Some(&largest));
                let pages: Vec<u64> =
                    of(RegionKind::Slot).map(|region| region.share() >> size.shift()).collect();
                let full = slot_pages(size) as u64;
                assert!(pages.windows(2).all(|pair| doubles(pair, full)), "{pages:?}");
                assert_eq!(pages.iter().filter(|pages| **pages == full).count(), 16);
                // All slots are there before the log has come to the least limit with which it has
                // such segments: 16 of them, of which checkpoints keep two.
                let last = regions.iter().rposition(|region| region.kind == RegionKind::Slot);
                let before = regions[..last.unwrap()]
                    .iter()
                    .filter(|region| region.kind == RegionKind::Segment);
                let before: u64 = before.map(|region| region.bytes).sum();
                assert!(before <= 14 * largest, "pages of {bytes}, segments of {largest}");
                let first = regions[LogHeader::FIRST - 1].end();
                assert!(first <= 140 << 10 || bytes > 4096, "{first}");
                let found = |len| header.regions_within(len).count();
                let begin = regions[9].offset;
                assert_eq!([begin, begin + 4095, begin + 4096].map(found), [9, 9, 10]);
            }
        }
    }
}
