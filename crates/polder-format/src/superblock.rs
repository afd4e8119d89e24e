//! The superblock: two copies at the beginning of the data file, written in turn.

use crate::header::{u32_at, u64_at};
use crate::{FormatError, Lsn, PageSize, PhysicalPageNo, SpaceId, StoreId};

/// Length of one superblock in bytes. The two lie one behind the other at byte 0.
pub const SUPERBLOCK_BYTES: usize = 4096;
/// The beginning of the file that holds no pages, whatever the page size.
pub const SUPERBLOCK_AREA_BYTES: u64 = 65536;

const MAGIC: &[u8; 8] = b"POLDER\r\n";
const VERSION: u32 = 3;
const CLEAN: u32 = 1;

/// Incompatible features that this version knows: none yet.
const KNOWN_INCOMPATIBLE: u64 = 0;
/// Read-only compatible features that this version knows: none yet.
const KNOWN_READ_ONLY: u64 = 0;

/// What a superblock says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Which store this is.
    pub store_id: StoreId,
    /// One more with every write; its parity says which of the two blocks it lies in.
    pub generation: u64,
    /// Features that an older version may ignore.
    pub compatible: u64,
    /// Size of all pages.
    pub page_size: PageSize,
    /// The store was closed: there is nothing in the log behind `checkpoint`.
    pub clean: bool,
    /// Root of the space directory.
    pub space_directory: PhysicalPageNo,
    /// The id that the next space gets.
    pub next_space: SpaceId,
    /// The next version stamp for a record.
    pub next_version: u64,
    /// Length of the file in pages.
    pub file_pages: u64,
    /// The memory budget in bytes that the store was made with.
    pub default_budget: u64,
    /// Replay of the log begins here.
    pub redo_start: Lsn,
    /// Where the group of the last checkpoint begins; zero: there was none.
    pub checkpoint: Lsn,
    /// The log was durable up to here when this was written.
    pub durable: Lsn,
    /// One more each time the store is opened.
    pub incarnation: u32,
    /// Bytes that the log may have.
    pub log_limit: u64,
}

impl Superblock {
    /// The block as it lies on disk.
    pub fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut block = [0u8; SUPERBLOCK_BYTES];
        block[0..8].copy_from_slice(MAGIC);
        block[12..16].copy_from_slice(&VERSION.to_le_bytes());
        block[16..32].copy_from_slice(&self.store_id.0);
        let mut word = |at: usize, value: u64| {
            block[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        word(32, self.generation);
        word(40, self.compatible);
        word(48, KNOWN_READ_ONLY);
        word(56, KNOWN_INCOMPATIBLE);
        word(64, self.page_size.bytes() as u64 | (u64::from(self.clean) * u64::from(CLEAN)) << 32);
        word(72, self.space_directory.get());
        word(80, u64::from(self.next_space.get()));
        word(88, self.next_version);
        word(96, self.file_pages);
        word(104, self.default_budget);
        word(112, self.redo_start.0);
        word(120, self.checkpoint.0);
        word(128, self.durable.0);
        word(136, u64::from(self.incarnation));
        word(144, self.log_limit);
        let sum = checksum(&block);
        block[8..12].copy_from_slice(&sum.to_le_bytes());
        block
    }

    /// Reads one block.
    pub fn decode(block: &[u8]) -> Result<Superblock, FormatError> {
        if block.len() < SUPERBLOCK_BYTES {
            return Err(FormatError::Short {
                what: "superblock",
                found: block.len(),
                expected: SUPERBLOCK_BYTES,
            });
        }
        let block = &block[..SUPERBLOCK_BYTES];
        if &block[0..8] != MAGIC {
            return Err(FormatError::Foreign);
        }
        let (stored, found) = (u32_at(block, 8), checksum(block));
        if stored != found {
            return Err(FormatError::Checksum { found, expected: stored });
        }
        let (version, incompatible) = (u32_at(block, 12), u64_at(block, 56));
        let unknown = (incompatible & !KNOWN_INCOMPATIBLE) | (u64_at(block, 48) & !KNOWN_READ_ONLY);
        if version > VERSION || unknown != 0 {
            return Err(FormatError::Newer { version, bits: unknown });
        }
        if version == 0 {
            return Err(field("format version", 0, "it begins at 1"));
        }
        if version < VERSION {
            return Err(FormatError::Older { version });
        }
        let mut store_id = [0; 16];
        store_id.copy_from_slice(&block[16..32]);
        let next_space = u64_at(block, 80);
        Ok(Superblock {
            store_id: StoreId(store_id),
            generation: u64_at(block, 32),
            compatible: u64_at(block, 40),
            page_size: PageSize::new(u32_at(block, 64))?,
            clean: u32_at(block, 68) & CLEAN != 0,
            space_directory: PhysicalPageNo::new(u64_at(block, 72)),
            next_space: SpaceId::new(next_space)
                .ok_or_else(|| field("next space id", next_space, "it has at most 28 bits"))?,
            next_version: u64_at(block, 88),
            file_pages: u64_at(block, 96),
            default_budget: u64_at(block, 104),
            redo_start: Lsn(u64_at(block, 112)),
            checkpoint: Lsn(u64_at(block, 120)),
            durable: Lsn(u64_at(block, 128)),
            incarnation: u32_at(block, 136),
            log_limit: u64_at(block, 144),
        })
    }

    /// Where the block of this generation lies, in bytes from the beginning of the file.
    pub fn offset(&self) -> u64 {
        (self.generation & 1) * SUPERBLOCK_BYTES as u64
    }
}

/// The superblock that counts, from the first bytes of a file: the valid one with the higher
/// generation. If only one is valid the other was torn, or never written; `damage` says how it
/// was found then.
pub fn choose(area: &[u8]) -> Result<(Superblock, Option<FormatError>), FormatError> {
    let second = area.get(SUPERBLOCK_BYTES..).unwrap_or(&[]);
    match (Superblock::decode(area), Superblock::decode(second)) {
        (Ok(a), Ok(b)) => Ok((if a.generation > b.generation { a } else { b }, None)),
        // A newer version wrote one of them: the store is its, even if the other can be read.
        (Err(e @ FormatError::Newer { .. }), _) | (_, Err(e @ FormatError::Newer { .. })) => Err(e),
        (Ok(a), Err(e)) => Ok((a, Some(e))),
        (Err(e), Ok(b)) => Ok((b, Some(e))),
        // Damaged is more telling than foreign: one of the two bears the mark.
        (Err(FormatError::Foreign), Err(e)) | (Err(e), Err(_)) => Err(e),
    }
}

fn checksum(block: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&block[0..8]);
    crc32c::crc32c_append(sum, &block[12..])
}

fn field(field: &'static str, found: u64, expected: &'static str) -> FormatError {
    FormatError::Field { field, found, expected }
}

#[cfg(test)]
mod tests;
