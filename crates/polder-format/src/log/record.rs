//! What one record of the log says: an operation on a page.
//!
//! The number of an operation chooses how it is replayed. Numbers are added, never changed; where what an
//! operation's content means has to change, it gets another number.
//!
//! Nearly all that a record says is small. So the numbers that each has, those of its head and an insert's
//! version, come in two forms: *narrow*, in so many bytes as they take almost always, and *wide*. (Varints
//! take as many, and longer to write: the length of a page's number can hardly be predicted.)

use crate::header::{u32_at, u64_at};
use crate::{FormatError, Lsn, PageId, PageNo, PhysicalPageNo, SpaceId};

/// What a record takes besides keys, values and the bytes of pages, at most: with its head, and with the
/// zeros behind it if it is the last one of its group.
pub const RECORD_BYTES_AT_MOST: usize = RecordHead::WIDE_BYTES + 40;

/// The numbers of operations, 1 to 31.
pub mod kind {
    /// [`Operation::FullPageImage`](super::Operation::FullPageImage).
    pub const IMAGE: u8 = 1;
    /// [`Operation::Patch`](super::Operation::Patch).
    pub const PATCH: u8 = 2;
    /// [`Operation::Mark`](super::Operation::Mark).
    pub const MARK: u8 = 3;
    /// [`Operation::Directory`](super::Operation::Directory).
    pub const DIRECTORY: u8 = 4;
    /// [`Operation::Freed`](super::Operation::Freed).
    pub const FREED: u8 = 5;
    /// [`Operation::Insert`](super::Operation::Insert).
    pub const INSERT: u8 = 16;
    /// [`Operation::Remove`](super::Operation::Remove).
    pub const REMOVE: u8 = 17;
    /// [`Operation::InsertChild`](super::Operation::InsertChild).
    pub const INSERT_CHILD: u8 = 18;
    /// [`Operation::RemoveChild`](super::Operation::RemoveChild).
    pub const REMOVE_CHILD: u8 = 19;
    /// [`Operation::Split`](super::Operation::Split).
    pub const SPLIT: u8 = 20;
    /// [`Operation::Loaded`](super::Operation::Loaded).
    pub const LOADED: u8 = 21;
    /// [`Operation::RightHalf`](super::Operation::RightHalf).
    pub const RIGHT_HALF: u8 = 22;
    /// [`Operation::Checkpoint`](super::Operation::Checkpoint).
    pub const CHECKPOINT: u8 = 30;
    /// [`Operation::EndOfRecovery`](super::Operation::EndOfRecovery).
    pub const END_OF_RECOVERY: u8 = 31;
}

/// Flags of records.
pub mod flag {
    /// Insert: the key is new. Remove: always. The number of entries changes.
    pub const COUNTS: u8 = 1 << 5;
    /// Insert: the value lies in overflow pages.
    pub const LONG: u8 = 1 << 6;
    /// Mark: the pages are in use from this record on.
    pub const USED: u8 = 1 << 6;
    /// Checkpoint: the next group goes on with it.
    pub const MORE: u8 = 1 << 6;
}
/// In the first byte of a record: its head is wide. Below the flags is the operation's number.
const WIDE: u8 = 1 << 7;
const NUMBER: u8 = (1 << 5) - 1;
const _: () = assert!(kind::END_OF_RECOVERY <= NUMBER, "it is the greatest number");

/// A value in an insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggedValue<'a> {
    /// The bytes.
    Inline(&'a [u8]),
    /// A chain of overflow pages, whose full-page images come earlier in the log.
    Long {
        /// Length of the value in bytes, below 2^32.
        len: u64,
        /// How many pages from the first one on have numbers that follow each other.
        run: u32,
        /// Link of the first page.
        link: u64,
    },
}

/// What was done to a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation<'a> {
    /// The whole page: `low`, then zeros up to `high`, which is its end. The LSN in its header is
    /// that of the group.
    FullPageImage {
        /// Size of the page in bytes.
        size: u32,
        /// Its beginning.
        low: &'a [u8],
        /// Its end.
        high: &'a [u8],
    },
    /// Bytes within the page. `backed`: they are the physical page number of an extent of so many
    /// pages, which the device was asked to back.
    Patch {
        /// Offset in the page.
        offset: u32,
        /// Pages of the extent; 0 if it is something else.
        backed: u32,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Pages are in use, or free, from this record on: in an allocation map.
    Mark {
        /// Whether they are in use.
        used: bool,
        /// First bit and number of bits, for each run.
        runs: Vec<(u32, u32)>,
    },
    /// The root of the space directory lies here. Of no page.
    Directory {
        /// Its physical page number.
        physical: PhysicalPageNo,
    },
    /// A page of a map is gone; its physical page may have another owner from then on.
    Freed,
    /// An entry of a leaf is new, or has another value.
    Insert {
        /// Whether the key is new.
        added: bool,
        /// The version word.
        version: u64,
        /// The whole key, of less than 65,536 bytes.
        key: &'a [u8],
        /// The value.
        value: LoggedValue<'a>,
    },
    /// An entry of a leaf is gone.
    Remove {
        /// The whole key.
        key: &'a [u8],
    },
    /// A child of an inner node, for the keys from the separator on.
    InsertChild {
        /// Link of the child.
        link: u64,
        /// The separator.
        separator: &'a [u8],
    },
    /// A link of an inner node, and the separator before it, are gone.
    RemoveChild {
        /// Which link.
        index: u32,
    },
    /// The node keeps its first slots; the others went to a new right neighbour.
    Split {
        /// Slots that stay.
        left_count: u32,
        /// Link of the right neighbour.
        right: u64,
        /// The new upper fence.
        separator: &'a [u8],
    },
    /// The whole page: what another node has from this separator on, which the same group splits, as that
    /// was before the group.
    RightHalf {
        /// Link of the node that is split.
        left: u64,
        /// Slots that stay there.
        left_count: u32,
        /// The lower fence.
        separator: &'a [u8],
    },
    /// An empty tree was filled with so many entries.
    Loaded {
        /// How many.
        entries: u64,
    },
    /// A checkpoint is complete. Of no page.
    Checkpoint(Counts),
    /// The store was opened again: what was found of the log ended here. Of no page.
    EndOfRecovery {
        /// Where it ended.
        end: Lsn,
    },
}

/// What a checkpoint says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// Replay begins here.
    pub start: Lsn,
    /// No record below `start` has this version word or a higher one.
    pub next_version: u64,
    /// Entries of each table at `start`.
    pub tables: Vec<TableCount>,
    /// The next group goes on with more tables.
    pub more: bool,
}

/// How many entries a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableCount {
    /// The table's space.
    pub space: SpaceId,
    /// Its entries.
    pub entries: u64,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<'a> {
    /// The page that it is about, or null.
    pub page: PageId,
    /// What happened.
    pub operation: Operation<'a>,
    stored_len: usize,
}

impl Operation<'_> {
    #[inline]
    fn kind_and_flags(&self) -> (u8, u8) {
        match self {
            Operation::FullPageImage { .. } => (kind::IMAGE, 0),
            Operation::Patch { .. } => (kind::PATCH, 0),
            Operation::Mark { used, .. } => (kind::MARK, if *used { flag::USED } else { 0 }),
            Operation::Directory { .. } => (kind::DIRECTORY, 0),
            Operation::Freed => (kind::FREED, 0),
            Operation::Insert { added, value, .. } => {
                let counts = if *added { flag::COUNTS } else { 0 };
                let long = matches!(value, LoggedValue::Long { .. });
                (kind::INSERT, counts | if long { flag::LONG } else { 0 })
            }
            Operation::Remove { .. } => (kind::REMOVE, flag::COUNTS),
            Operation::InsertChild { .. } => (kind::INSERT_CHILD, 0),
            Operation::RemoveChild { .. } => (kind::REMOVE_CHILD, 0),
            Operation::Split { .. } => (kind::SPLIT, 0),
            Operation::RightHalf { .. } => (kind::RIGHT_HALF, 0),
            Operation::Loaded { .. } => (kind::LOADED, flag::COUNTS),
            Operation::Checkpoint(counts) => {
                (kind::CHECKPOINT, if counts.more { flag::MORE } else { 0 })
            }
            Operation::EndOfRecovery { .. } => (kind::END_OF_RECOVERY, 0),
        }
    }

    /// A short name, for people.
    pub fn name(&self) -> &'static str {
        match self {
            Operation::FullPageImage { .. } => "image",
            Operation::Patch { .. } => "patch",
            Operation::Mark { used: true, .. } => "allocate",
            Operation::Mark { used: false, .. } => "free",
            Operation::Directory { .. } => "directory",
            Operation::Freed => "freed",
            Operation::Insert { .. } => "insert",
            Operation::Remove { .. } => "remove",
            Operation::InsertChild { .. } => "insert child",
            Operation::RemoveChild { .. } => "remove child",
            Operation::Split { .. } => "split",
            Operation::RightHalf { .. } => "right half",
            Operation::Loaded { .. } => "loaded",
            Operation::Checkpoint(_) => "checkpoint",
            Operation::EndOfRecovery { .. } => "end of recovery",
        }
    }

    /// By how much the operation changes the number of entries of its table.
    #[inline]
    pub fn entries(&self) -> i64 {
        match self {
            Operation::Insert { added: true, .. } => 1,
            Operation::Remove { .. } => -1,
            Operation::Loaded { entries } => *entries as i64,
            _ => 0,
        }
    }

    /// What its record begins with, if that is of this page and has a content of so many bytes.
    #[inline]
    pub(super) fn head(&self, page: PageId, len: usize) -> RecordHead {
        let (number, flags) = self.kind_and_flags();
        RecordHead { number, flags, page, len }
    }

    /// Length of the content in bytes.
    #[inline]
    pub(super) fn content_len(&self) -> usize {
        match self {
            Operation::FullPageImage { low, high, .. } => 8 + low.len() + high.len(),
            Operation::Patch { bytes, .. } => 8 + bytes.len(),
            Operation::Mark { runs, .. } => 8 * runs.len(),
            Operation::Freed => 0,
            Operation::Insert { version, key, value, .. } => {
                let value = match value {
                    LoggedValue::Inline(bytes) => bytes.len(),
                    LoggedValue::Long { .. } => 16,
                };
                version_and_len(*version, key.len()).1 + key.len() + value
            }
            Operation::Remove { key } => key.len(),
            Operation::InsertChild { separator, .. } => 8 + separator.len(),
            Operation::RemoveChild { .. } => 4,
            Operation::Split { separator, .. } | Operation::RightHalf { separator, .. } => {
                12 + separator.len()
            }
            Operation::Directory { .. }
            | Operation::Loaded { .. }
            | Operation::EndOfRecovery { .. } => 8,
            Operation::Checkpoint(counts) => 16 + 16 * counts.tables.len(),
        }
    }

    /// Writes the content, of `content_len` bytes.
    #[inline]
    pub(super) fn encode(&self, out: &mut [u8]) {
        let mut out = Out(out);
        match self {
            Operation::FullPageImage { size, low, high } => {
                out.half(*size);
                out.half(low.len() as u32);
                out.put(low);
                out.put(high);
            }
            Operation::Patch { offset, backed, bytes } => {
                out.half(*offset);
                out.half(*backed);
                out.put(bytes);
            }
            Operation::Mark { runs, .. } => {
                for (first, count) in runs {
                    out.half(*first);
                    out.half(*count);
                }
            }
            Operation::Directory { physical } => out.word(physical.get()),
            Operation::Freed => {}
            Operation::EndOfRecovery { end } => out.word(end.0),
            Operation::Insert { version, key, value, .. } => {
                let (numbers, len) = version_and_len(*version, key.len());
                out.first_of(numbers, len);
                out.put(key);
                match value {
                    LoggedValue::Inline(bytes) => out.put(bytes),
                    LoggedValue::Long { len, run, link } => {
                        out.word(*len | u64::from(*run) << 32);
                        out.word(*link);
                    }
                }
            }
            Operation::Remove { key } => out.put(key),
            Operation::InsertChild { link, separator } => {
                out.word(*link);
                out.put(separator);
            }
            Operation::RemoveChild { index } => out.half(*index),
            Operation::Split { left_count, right: link, separator }
            | Operation::RightHalf { left: link, left_count, separator } => {
                out.word(*link);
                out.half(*left_count);
                out.put(separator);
            }
            Operation::Loaded { entries } => out.word(*entries),
            Operation::Checkpoint(counts) => {
                out.word(counts.start.0);
                out.word(counts.next_version);
                for table in &counts.tables {
                    out.word(u64::from(table.space.get()));
                    out.word(table.entries);
                }
            }
        }
        debug_assert!(out.0.is_empty(), "the content is as long as it said");
    }
}

/// What a record begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHead {
    /// The operation, see [`kind`].
    pub number: u8,
    /// See [`flag`].
    pub flags: u8,
    /// The page that the record is about, or null.
    pub page: PageId,
    /// Bytes of the content, which follows.
    pub len: usize,
}

impl RecordHead {
    /// Length in bytes: number and flags, space, page, length of the content.
    const NARROW_BYTES: usize = 1 + 1 + 3 + 2;
    /// The same, if one of them has no room there.
    pub const WIDE_BYTES: usize = 1 + 4 + 8 + 4;

    /// The head at the beginning of `bytes`, and what follows; `None`: there is none, but the end of a
    /// group.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<(RecordHead, &[u8])> {
        let (first, rest) = bytes.split_first()?;
        let (space, page, len, rest) = if first & WIDE == 0 {
            let (head, rest) = rest.split_first_chunk::<{ Self::NARROW_BYTES - 1 }>()?;
            let page = u32_at(head, 0) >> 8;
            let len = u16_at(&head[4..]);
            (u32::from(head[0]), u64::from(page), u32::from(len), rest)
        } else {
            let (head, rest) = rest.split_first_chunk::<{ Self::WIDE_BYTES - 1 }>()?;
            (u32_at(head, 0), u64_at(head, 4), u32_at(head, 12), rest)
        };
        let number = first & NUMBER;
        let page = PageId::new(SpaceId::new(u64::from(space))?, PageNo::new(page)?);
        let head = RecordHead { number, flags: first & !(NUMBER | WIDE), page, len: len as usize };
        (number != 0).then_some((head, rest))
    }

    #[inline]
    fn is_narrow(&self) -> bool {
        let (space, page) = (self.page.space().get(), self.page.page().get());
        space < 1 << 8 && page < 1 << 24 && self.len < 1 << 16
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        if self.is_narrow() { Self::NARROW_BYTES } else { Self::WIDE_BYTES }
    }

    /// Writes it to the beginning of `out`, and gives the rest of that.
    #[inline]
    pub(super) fn put<'o>(&self, out: &'o mut [u8]) -> &'o mut [u8] {
        let (space, page) = (self.page.space().get(), self.page.page().get());
        let mut out = Out(out);
        if self.is_narrow() {
            let first = u128::from(self.number | self.flags);
            let low = u128::from(space) << 8 | u128::from(page) << 16;
            out.first_of(first | low | (self.len as u128) << 40, Self::NARROW_BYTES);
        } else {
            out.put(&[self.number | self.flags | WIDE]);
            out.half(space);
            out.word(page);
            out.half(self.len as u32);
        }
        out.0
    }
}

fn u16_at(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes[1]])
}

/// Writes little-endian pieces of a content.
struct Out<'a>(&'a mut [u8]);

impl Out<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let (here, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        here.copy_from_slice(bytes);
        self.0 = rest;
    }

    #[inline]
    fn word(&mut self, word: u64) {
        self.put(&word.to_le_bytes());
    }

    #[inline]
    fn half(&mut self, half: u32) {
        self.put(&half.to_le_bytes());
    }

    /// The lowest bytes of these.
    #[inline]
    fn first_of(&mut self, bytes: u128, len: usize) {
        let bytes = bytes.to_le_bytes();
        match self.0.first_chunk_mut() {
            Some(room) => {
                *room = bytes;
                self.0 = &mut std::mem::take(&mut self.0)[len..];
            }
            None => self.put(&bytes[..len]),
        }
    }
}

/// Versions of an incarnation count from its number times 2^32. In the narrow form the incarnation has 12 bits,
/// and the count this many.
const NARROW_COUNT_BITS: u32 = 28;

/// The version word and the key's length of an insert, as bytes from the lowest on, and how many these are.
/// Narrow: the length, below 2^7, and five bytes; wide: a byte that says so, the length, below 2^16, and the word.
#[inline]
fn version_and_len(version: u64, len: usize) -> (u128, usize) {
    debug_assert!(len < 1 << 16, "a key of {len} bytes cannot be logged");
    let (incarnation, count) = (version >> 32, version & u64::from(u32::MAX));
    if len < 1 << 7 && incarnation < 1 << 12 && count < 1 << NARROW_COUNT_BITS {
        let narrow = incarnation << NARROW_COUNT_BITS | count;
        return (u128::from(narrow << 8) | len as u128, 6);
    }
    (u128::from(version) << 24 | u128::from(len as u16) << 8 | 0x80, 11)
}

/// Reads little-endian pieces off a content.
struct Content<'a>(&'a [u8]);

impl<'a> Content<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], FormatError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(FormatError::Short {
            what: "content of a log record",
            found: self.0.len(),
            expected: len,
        })?;
        self.0 = rest;
        Ok(taken)
    }

    fn word(&mut self) -> Result<u64, FormatError> {
        Ok(u64_at(self.take(8)?, 0))
    }

    fn half(&mut self) -> Result<u32, FormatError> {
        Ok(u32_at(self.take(4)?, 0))
    }

    /// See [`version_and_len`].
    fn version_and_len(&mut self) -> Result<(u64, usize), FormatError> {
        let first = self.take(1)?[0];
        if first & 0x80 == 0 {
            let bytes = self.take(5)?;
            let narrow = u64::from(u32_at(bytes, 0)) | u64::from(bytes[4]) << 32;
            let count = narrow & ((1 << NARROW_COUNT_BITS) - 1);
            return Ok((narrow >> NARROW_COUNT_BITS << 32 | count, usize::from(first)));
        }
        let len = u16_at(self.take(2)?);
        Ok((self.word()?, usize::from(len)))
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

impl<'a> Record<'a> {
    /// The record at the beginning of `bytes`.
    pub fn decode(bytes: &'a [u8]) -> Result<Record<'a>, FormatError> {
        let (head, rest) = RecordHead::read(bytes)
            .ok_or(FormatError::Broken("the head of a log record is cut off or impossible"))?;
        let content = rest.get(..head.len).ok_or(FormatError::Short {
            what: "log record",
            found: rest.len(),
            expected: head.len,
        })?;
        Ok(Record {
            page: head.page,
            operation: operation(head.number, head.flags, Content(content))?,
            stored_len: bytes.len() - rest.len() + head.len,
        })
    }

    /// The page of the record at the beginning of `bytes`, and how long the record is, without a
    /// look at what it says. `None` where there is none: at the end of its group.
    #[inline]
    pub fn peek(bytes: &[u8]) -> Option<(PageId, usize)> {
        let (head, rest) = RecordHead::read(bytes)?;
        Some((head.page, bytes.len() - rest.len() + head.len))
    }

    /// Of which page the record at the beginning of `bytes` makes its own, if it is a
    /// [`Operation::RightHalf`].
    #[inline]
    pub fn peek_left(bytes: &[u8]) -> Option<PageId> {
        let (head, rest) = RecordHead::read(bytes)?;
        let left = rest.get(..8).filter(|_| head.number == kind::RIGHT_HALF)?;
        Some(PageId::from_link(u64_at(left, 0)))
    }

    /// Bytes from the beginning of this record to that of the next one.
    pub fn stored_len(&self) -> usize {
        self.stored_len
    }
}

fn operation(
    number: u8,
    flags: u8,
    mut content: Content<'_>,
) -> Result<Operation<'_>, FormatError> {
    Ok(match number {
        kind::IMAGE => {
            let (size, low) = (content.half()?, content.half()? as usize);
            let low = content.take(low)?;
            let high = content.rest();
            if low.len() + high.len() > size as usize || size > 1 << 16 {
                return Err(FormatError::Broken("a page image is longer than a page"));
            }
            Operation::FullPageImage { size, low, high }
        }
        kind::PATCH => Operation::Patch {
            offset: content.half()?,
            backed: content.half()?,
            bytes: content.rest(),
        },
        kind::MARK => {
            let mut runs = Vec::new();
            while !content.0.is_empty() {
                runs.push((content.half()?, content.half()?));
            }
            Operation::Mark { used: flags & flag::USED != 0, runs }
        }
        kind::DIRECTORY => Operation::Directory { physical: PhysicalPageNo::new(content.word()?) },
        kind::FREED => Operation::Freed,
        kind::END_OF_RECOVERY => Operation::EndOfRecovery { end: Lsn(content.word()?) },
        kind::INSERT => {
            let (version, key_len) = content.version_and_len()?;
            let key = content.take(key_len)?;
            let value = if flags & flag::LONG != 0 {
                let (len, run) = (u64::from(content.half()?), content.half()?);
                LoggedValue::Long { len, run, link: content.word()? }
            } else {
                LoggedValue::Inline(content.rest())
            };
            Operation::Insert { added: flags & flag::COUNTS != 0, version, key, value }
        }
        kind::REMOVE => Operation::Remove { key: content.rest() },
        kind::INSERT_CHILD => {
            Operation::InsertChild { link: content.word()?, separator: content.rest() }
        }
        kind::REMOVE_CHILD => Operation::RemoveChild { index: content.half()? },
        kind::SPLIT => Operation::Split {
            right: content.word()?,
            left_count: content.half()?,
            separator: content.rest(),
        },
        kind::RIGHT_HALF => Operation::RightHalf {
            left: content.word()?,
            left_count: content.half()?,
            separator: content.rest(),
        },
        kind::LOADED => Operation::Loaded { entries: content.word()? },
        kind::CHECKPOINT => {
            let (start, next_version) = (Lsn(content.word()?), content.word()?);
            let mut tables = Vec::new();
            while !content.0.is_empty() {
                let space = content.word()?;
                let space = SpaceId::new(space).ok_or(FormatError::Field {
                    field: "space in a checkpoint",
                    found: space,
                    expected: "it has at most 28 bits",
                })?;
                tables.push(TableCount { space, entries: content.word()? });
            }
            let more = flags & flag::MORE != 0;
            Operation::Checkpoint(Counts { start, next_version, tables, more })
        }
        _ => {
            return Err(FormatError::Field {
                field: "operation of a log record",
                found: u64::from(number),
                expected: "a newer version of Polder wrote it",
            });
        }
    })
}
