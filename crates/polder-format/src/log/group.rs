//! A group: records that are durable all together or not at all.

use crate::header::{u32_at, u64_at};
use crate::{FormatError, Lsn, StoreId};

use super::record::{Operation, Record};
use crate::{PageId, SpaceId};

/// What the log is written in, in bytes: a synced block is never written again.
pub const LOG_BLOCK_BYTES: usize = 4096;
/// Length of the header of a group in bytes.
pub const GROUP_HEADER_BYTES: usize = 19;
/// The least length of a group in bytes; each is a multiple of 8.
pub const GROUP_BYTES_MIN: usize = 40;
/// Groups lie at multiples of this, in bytes.
const GROUP_ALIGNMENT: usize = 8;

/// Where the fields of a group's header begin.
mod at {
    pub(super) const LEN: usize = 0;
    pub(super) const CHECKSUM: usize = 4;
    pub(super) const PLACE: usize = 8;
    pub(super) const LAG: usize = 13;
    pub(super) const INCARNATION: usize = 15;
}

/// How many bits of an LSN a group says: the others follow from where it is looked for, and its checksum
/// covers them.
const PLACE_BITS: u32 = 8 * (at::LAG - at::PLACE) as u32 + GROUP_ALIGNMENT.ilog2();

/// How far before the group the durable log ended, in blocks, rounded up: from 128 MiB on to a MiB, so that
/// nearly 8 GiB can be said. Rounding makes less of the log durable than was, and never more.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Lag(u16);

impl Lag {
    /// With this bit, what the others say counts for [`Lag::BLOCKS`] blocks each.
    const COARSE: u16 = 1 << 15;
    const BLOCKS: u64 = 1 << 8;
    /// Nothing is known to have been durable.
    const UNKNOWN: Lag = Lag(u16::MAX);

    fn new(lsn: Lsn, durable: Lsn) -> Lag {
        let blocks = block_of(lsn).saturating_sub(block_of(durable));
        if blocks < u64::from(Self::COARSE) {
            return Lag(blocks as u16);
        }
        let coarse = u16::try_from(blocks.div_ceil(Self::BLOCKS)).unwrap_or(u16::MAX);
        Lag(Self::COARSE | coarse.min(Self::COARSE - 1))
    }

    /// What was durable at least, where a block begins, before a group at this position.
    fn durable(self, lsn: Lsn) -> Lsn {
        let blocks = match self {
            Self::UNKNOWN => return Lsn(0),
            Lag(fine) if fine < Self::COARSE => u64::from(fine),
            Lag(coarse) => u64::from(coarse - Self::COARSE) * Self::BLOCKS,
        };
        Lsn(block_of(lsn).saturating_sub(blocks) * LOG_BLOCK_BYTES as u64)
    }
}

/// The number of the block in which a position of the log lies.
fn block_of(lsn: Lsn) -> u64 {
    lsn.0 / LOG_BLOCK_BYTES as u64
}

/// The seed of all checksums in the log of one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSeed(u32);

impl LogSeed {
    /// The seed of the log of the store with this id; another one than that of its pages.
    pub fn new(id: StoreId) -> LogSeed {
        LogSeed(crc32c::crc32c_append(crc32c::crc32c(b"log"), &id.0))
    }

    /// The checksum of bytes in the log.
    pub fn checksum(self, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0, bytes)
    }

    /// That of bytes that lie in pieces, one behind the other.
    pub fn checksum_of<'b>(self, pieces: impl Iterator<Item = &'b [u8]>) -> u32 {
        pieces.fold(self.0, crc32c::crc32c_append)
    }

    /// Over all of a group at this position but the checksum itself.
    fn of_group(self, group: &[u8], lsn: Lsn) -> u32 {
        // By way of the seed the length, and what the group does not say of its position.
        let seed = self.0 ^ u32_at(group, at::LEN) ^ (lsn.0 >> PLACE_BITS) as u32;
        crc32c::crc32c_append(seed, &group[at::PLACE..])
    }
}

/// A group in the making: a buffer to be used again and again.
#[derive(Debug, Default)]
pub struct Group {
    /// Room for the header, then records; its length is what was ever needed.
    bytes: Vec<u8>,
    /// How much of it is used; 0: there is no record yet.
    len: usize,
    /// The record that changes the number of entries of its table; 0 entries: there are several.
    counting: Option<(SpaceId, i64)>,
    /// Bytes of its full-page images.
    image_bytes: u64,
}

impl Group {
    /// An empty group.
    pub fn new() -> Group {
        Group::default()
    }

    /// Forgets all records; keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
        self.counting = None;
        self.image_bytes = 0;
    }

    /// How many of its bytes are full-page images.
    #[inline]
    pub fn image_bytes(&self) -> u64 {
        self.image_bytes
    }

    /// Whether there is no record yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Length in bytes, with the header and the zeros at its end.
    #[inline]
    pub fn len(&self) -> usize {
        self.end().next_multiple_of(GROUP_ALIGNMENT).max(GROUP_BYTES_MIN)
    }

    /// Where the last record ends.
    #[inline]
    fn end(&self) -> usize {
        self.len.max(GROUP_HEADER_BYTES)
    }

    /// Adds a record.
    #[inline]
    pub fn push(&mut self, page: PageId, operation: &Operation<'_>) {
        let content = self.push_header(page, operation, operation.content_len());
        operation.encode(content);
        let entries = operation.entries();
        if entries != 0 {
            self.counting = Some(match self.counting {
                None => (page.space(), entries),
                Some((space, _)) => (space, 0),
            });
        }
    }

    /// The head of a record, and room for its content.
    #[inline]
    fn push_header(&mut self, page: PageId, operation: &Operation<'_>, len: usize) -> &mut [u8] {
        let head = operation.head(page, len);
        let begin = self.end();
        let end = begin + head.bytes() + len;
        if self.bytes.len() < end {
            self.enlarge(end);
        }
        self.len = end;
        head.put(&mut self.bytes[begin..end])
    }

    #[cold]
    fn enlarge(&mut self, len: usize) {
        // What was reserved is not made larger.
        let reserved = self.bytes.capacity();
        let wanted = len.next_power_of_two();
        self.bytes.resize(if reserved >= len { wanted.min(reserved) } else { wanted }, 0);
    }

    /// Makes room for a group of so many bytes, and no more.
    ///
    /// # Errors
    /// If the system has no memory to give.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), std::collections::TryReserveError> {
        self.bytes.try_reserve_exact(bytes.saturating_sub(self.bytes.len()))
    }

    /// Bytes of memory that it has.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The one record that changes the number of entries of its table, and by how much; by 0 if
    /// there are several.
    #[inline]
    pub fn counting(&self) -> Option<(SpaceId, i64)> {
        self.counting
    }

    /// Adds the full-page image of a page of `size` bytes: `fill` is given room for its first `low`
    /// bytes and for its last `high`; what is between them is zero.
    pub fn push_full_page_image(
        &mut self,
        page: PageId,
        size: u32,
        (low, high): (usize, usize),
        fill: impl FnOnce(&mut [u8], &mut [u8]),
    ) {
        let image = Operation::FullPageImage { size, low: &[], high: &[] };
        let len = 8 + low + high;
        self.image_bytes += (image.head(page, len).bytes() + len) as u64;
        let content = self.push_header(page, &image, len);
        let (head, bytes) = content.split_at_mut(8);
        head[..4].copy_from_slice(&size.to_le_bytes());
        head[4..].copy_from_slice(&(low as u32).to_le_bytes());
        let (low, high) = bytes.split_at_mut(low);
        fill(low, high);
    }

    /// Completes the group for its position in the log. `durable`: what of the log is durable.
    pub fn seal(&mut self, seed: LogSeed, lsn: Lsn, durable: Lsn, incarnation: u32) -> &[u8] {
        let (end, len) = (self.end(), self.len());
        if self.bytes.len() < len {
            self.enlarge(len);
        }
        let bytes = &mut self.bytes[..len];
        clear_end(bytes, end);
        bytes[at::LEN..at::LEN + 4].copy_from_slice(&(len as u32).to_le_bytes());
        let place = (lsn.0 / GROUP_ALIGNMENT as u64).to_le_bytes();
        bytes[at::PLACE..at::LAG].copy_from_slice(&place[..at::LAG - at::PLACE]);
        let lag = Lag::new(lsn, durable).0.to_le_bytes();
        bytes[at::LAG..at::INCARNATION].copy_from_slice(&lag);
        let incarnation = incarnation.to_le_bytes();
        bytes[at::INCARNATION..GROUP_HEADER_BYTES].copy_from_slice(&incarnation);
        let sum = seed.of_group(bytes, lsn);
        bytes[at::CHECKSUM..at::CHECKSUM + 4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The records so far.
    pub fn records(&self) -> Records<'_> {
        Records { rest: self.bytes.get(GROUP_HEADER_BYTES..self.end()).unwrap_or_default() }
    }
}

/// What fills the rest of a block behind the last group of a sync: one word, then zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pad;

impl Pad {
    /// Marks a length as that of a pad.
    const MARK: u32 = 1 << 31;

    /// The first word of a pad of `len` bytes at `lsn`.
    pub fn encode(seed: LogSeed, lsn: Lsn, len: u32, incarnation: u32) -> u64 {
        let len = len | Self::MARK;
        let sum = crc32c::crc32c_append(seed.0, &len.to_le_bytes());
        let sum = crc32c::crc32c_append(sum, &lsn.0.to_le_bytes());
        let sum = crc32c::crc32c_append(sum, &incarnation.to_le_bytes());
        u64::from(sum) << 32 | u64::from(len)
    }

    /// The length of the pad that begins with these bytes, if there is one.
    pub fn decode(bytes: &[u8], seed: LogSeed, lsn: Lsn, incarnation: u32) -> Option<u32> {
        let word = u64_at(bytes.get(..8)?, 0);
        let len = word as u32 & !Self::MARK;
        (word as u32 & Self::MARK != 0 && word == Self::encode(seed, lsn, len, incarnation))
            .then_some(len)
    }
}

/// Clears what is behind `end`: mostly a part of the last word, for which no function need be called.
#[inline]
fn clear_end(bytes: &mut [u8], end: usize) {
    let unused = bytes.len() - end;
    match bytes.last_chunk_mut() {
        Some(last) if unused < GROUP_ALIGNMENT => {
            let word = u64::from_le_bytes(*last) & u64::MAX >> (8 * unused);
            *last = word.to_le_bytes();
        }
        _ => bytes[end..].fill(0),
    }
}

/// What the header of a group says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupHeader {
    /// Length in bytes, header included.
    pub len: u32,
    /// Where the group begins.
    pub lsn: Lsn,
    /// What of the log was durable at least when it was written, where a block begins; zero: that is not
    /// known.
    pub durable: Lsn,
    /// In which opening of the store it was written.
    pub incarnation: u32,
}

impl GroupHeader {
    /// The length that the first word of a group claims; zero: no group begins here. `None` if it
    /// cannot be one.
    pub fn claimed_len(bytes: &[u8]) -> Option<usize> {
        let len = u32_at(bytes.get(..4)?, 0) as usize;
        let possible = len == 0 || (len >= GROUP_BYTES_MIN && len.is_multiple_of(GROUP_ALIGNMENT));
        possible.then_some(len)
    }

    /// A group says where it is within a part of the stream that has so many bytes.
    pub const PART_BYTES: u64 = 1 << PLACE_BITS;

    /// The first position at or behind `from` that a group at the beginning of `bytes` may claim; the next
    /// one is [`GroupHeader::PART_BYTES`] behind it. Nothing is checked. `None` if no group can begin here.
    pub fn claimed_lsn(bytes: &[u8], from: Lsn) -> Option<Lsn> {
        Self::claimed_len(bytes).filter(|len| *len > 0)?;
        let header = bytes.get(..GROUP_HEADER_BYTES)?;
        let place = u64_at(header, at::PLACE) << GROUP_ALIGNMENT.ilog2();
        from.0.checked_add(place.wrapping_sub(from.0) & (Self::PART_BYTES - 1)).map(Lsn)
    }

    /// Checks the group at the beginning of `bytes`, which was read at `lsn`.
    pub fn verify(bytes: &[u8], seed: LogSeed, lsn: Lsn) -> Result<GroupHeader, FormatError> {
        let len = Self::claimed_len(bytes)
            .filter(|len| *len > 0)
            .ok_or(FormatError::Broken("the length of a log group is impossible"))?;
        let group = bytes.get(..len).ok_or(FormatError::Short {
            what: "log group",
            found: bytes.len(),
            expected: len,
        })?;
        let claimed = Self::claimed_lsn(group, lsn);
        if claimed != Some(lsn) {
            return Err(FormatError::Field {
                field: "LSN of a log group",
                found: claimed.map_or(0, |lsn| lsn.0),
                expected: "it is the position of the group",
            });
        }
        let (stored, found) = (u32_at(group, at::CHECKSUM), seed.of_group(group, lsn));
        if stored != found {
            return Err(FormatError::Checksum { found, expected: stored });
        }
        Ok(Self::read(group, lsn))
    }

    /// The header of a group that was verified before: `bytes` begin with all of its header.
    pub fn read(bytes: &[u8], lsn: Lsn) -> GroupHeader {
        let lag = Lag(u16::from_le_bytes([bytes[at::LAG], bytes[at::LAG + 1]]));
        GroupHeader {
            len: u32_at(bytes, at::LEN),
            lsn,
            durable: lag.durable(lsn),
            incarnation: u32_at(bytes, at::INCARNATION),
        }
    }

    /// Where the group ends: the LSN of the pages that it changed.
    pub fn end(&self) -> Lsn {
        Lsn(self.lsn.0 + u64::from(self.len))
    }
}

/// The records of a group, in order.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// The records of a whole group, which was verified.
    pub fn of_group(group: &'a [u8]) -> Records<'a> {
        Records { rest: group.get(GROUP_HEADER_BYTES..).unwrap_or_default() }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        // No operation has the number zero: what follows is the end of the group.
        if self.rest.first().is_none_or(|number| *number == 0) {
            return None;
        }
        let record = Record::decode(self.rest);
        match &record {
            Ok(record) => self.rest = self.rest.get(record.stored_len()..).unwrap_or_default(),
            Err(_) => self.rest = &[],
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests;
