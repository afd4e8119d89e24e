//! The list of pages that were in memory: a file of its own beside the data file, of which nothing
//! depends but how soon the store is warm after it was opened.
//!
//! A header is followed by a word of 8 bytes for each page, in the order in which the pages lay in
//! the data file. The header counts the pages by how hot they were, so that a reader with room for
//! a part of them knows which to leave out before it has read the first.

use crate::header::{u32_at, u64_at};
use crate::{FormatError, PageId, PageSize, StoreId};

/// Length of the header in bytes.
pub const RESIDENT_HEADER_BYTES: usize = 72;
/// Length of one page's word in bytes.
pub const RESIDENT_PAGE_BYTES: usize = 8;

const MAGIC: &[u8; 8] = b"POLDRES\n";
const VERSION: u32 = 1;
const TEMPERATURE_SHIFT: u32 = 62;

/// How much a page in memory was used, as far as its pool knew: where not all pages have room, the
/// hottest ones are loaded again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Temperature {
    /// It would be the next to go.
    #[default]
    Cold,
    /// It was not used since the pool looked.
    Cool,
    /// It was.
    Warm,
    /// It was used again and again.
    Hot,
}

impl Temperature {
    /// All of them, the coldest first.
    pub const ALL: [Temperature; 4] =
        [Temperature::Cold, Temperature::Cool, Temperature::Warm, Temperature::Hot];

    /// The word of a page.
    pub fn encode(self, page: PageId) -> [u8; RESIDENT_PAGE_BYTES] {
        (page.to_bits() | (self as u64) << TEMPERATURE_SHIFT).to_le_bytes()
    }

    /// What a word says. It may name a page that is not there.
    pub fn decode(word: [u8; RESIDENT_PAGE_BYTES]) -> (PageId, Temperature) {
        let word = u64::from_le_bytes(word);
        (PageId::from_link(word), Temperature::ALL[(word >> TEMPERATURE_SHIFT) as usize])
    }
}

/// What the header of a list says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResidentHeader {
    /// Of which store.
    pub store_id: StoreId,
    /// The size of its pages.
    pub page_size: PageSize,
    /// CRC-32C of all that follows the header.
    pub checksum: u32,
    /// How many pages follow, by their temperature, the coldest first.
    pub counts: [u64; Temperature::ALL.len()],
}

impl ResidentHeader {
    /// How many pages follow; none if there cannot be so many.
    pub fn pages(&self) -> Option<u64> {
        self.counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count))
    }

    /// The header as it lies on disk.
    pub fn encode(&self) -> [u8; RESIDENT_HEADER_BYTES] {
        let mut header = [0u8; RESIDENT_HEADER_BYTES];
        header[0..8].copy_from_slice(MAGIC);
        header[12..16].copy_from_slice(&VERSION.to_le_bytes());
        header[16..32].copy_from_slice(&self.store_id.0);
        header[32..36].copy_from_slice(&(self.page_size.bytes() as u32).to_le_bytes());
        header[36..40].copy_from_slice(&self.checksum.to_le_bytes());
        for (at, count) in (40..).step_by(8).zip(self.counts) {
            header[at..at + 8].copy_from_slice(&count.to_le_bytes());
        }
        let sum = checksum(&header);
        header[8..12].copy_from_slice(&sum.to_le_bytes());
        header
    }

    /// Reads a header.
    pub fn decode(header: &[u8]) -> Result<ResidentHeader, FormatError> {
        let Some(header) = header.get(..RESIDENT_HEADER_BYTES) else {
            return Err(FormatError::Short {
                what: "the list of resident pages",
                found: header.len(),
                expected: RESIDENT_HEADER_BYTES,
            });
        };
        if &header[0..8] != MAGIC {
            return Err(FormatError::Broken("it is no list of resident pages"));
        }
        let (expected, found) = (u32_at(header, 8), checksum(header));
        if expected != found {
            return Err(FormatError::Checksum { found, expected });
        }
        let version = u32_at(header, 12);
        if version != VERSION {
            let expected = "this version of Polder reads version 1";
            let found = u64::from(version);
            return Err(FormatError::Field { field: "the version of the list", found, expected });
        }
        let mut store_id = [0; 16];
        store_id.copy_from_slice(&header[16..32]);
        let mut counts = [0; Temperature::ALL.len()];
        for (at, count) in (40..).step_by(8).zip(&mut counts) {
            *count = u64_at(header, at);
        }
        Ok(ResidentHeader {
            store_id: StoreId(store_id),
            page_size: PageSize::new(u32_at(header, 32))?,
            checksum: u32_at(header, 36),
            counts,
        })
    }
}

fn checksum(header: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..8]), &header[12..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PageNo, SpaceId};

    fn header() -> ResidentHeader {
        ResidentHeader {
            store_id: StoreId([7; 16]),
            page_size: PageSize::new(8192).unwrap(),
            checksum: 0x1234_5678,
            counts: [1, 20, 0, u64::from(u32::MAX)],
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        assert_eq!(ResidentHeader::decode(&header().encode()), Ok(header()));
        assert_eq!(header().pages(), Some(21 + u64::from(u32::MAX)));
        let endless = ResidentHeader { counts: [u64::MAX, 1, 0, 0], ..header() };
        assert_eq!(endless.pages(), None);
        for page in [PageId::new(SpaceId::MAX, PageNo::MAX), PageId::NULL] {
            for temperature in Temperature::ALL {
                assert_eq!(Temperature::decode(temperature.encode(page)), (page, temperature));
            }
        }
    }

    #[test]
    fn every_changed_byte_and_every_short_header_is_refused() {
        let good = header().encode();
        for at in 0..good.len() {
            let mut bad = good;
            bad[at] ^= 0x10;
            assert!(ResidentHeader::decode(&bad).is_err(), "byte {at}");
            assert!(ResidentHeader::decode(&good[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn another_version_is_refused_by_its_number() {
        let mut newer = header().encode();
        newer[12] = 2;
        let sum = checksum(&newer);
        newer[8..12].copy_from_slice(&sum.to_le_bytes());
        let error = ResidentHeader::decode(&newer).unwrap_err().to_string();
        assert!(error.contains("version of the list is 2"), "{error}");
    }
}
