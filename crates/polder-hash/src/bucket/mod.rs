//! One bucket: a slotted page of entries, sorted by a tag of their hashes; drawn in
//! `docs/format.md`, "Hash bucket".
//!
//! [`BucketRef`] reads a page that may change underneath, [`BucketMut`] changes one that is held
//! exclusively. Nothing here knows of latches, of the pool, or of other pages.
//!
//! The tag is the lowest 16 bits of the hash. All that a bucket's hashes have in common is at their
//! other end, so that tags are spread evenly, and where an entry is follows from its tag to within a
//! line or so: a search reads the header, a line of slots, and the entry. That tags do not depend on
//! the prefix lets entries keep their order when a bucket is split.
//!
//! Invariants of a bucket that nobody is changing ([`BucketRef::verify_whole`] checks them all):
//!
//! * `BUCKET-1` The hashes of all keys begin with the prefix.
//! * `BUCKET-2` Slots are in the order of their tags, and no key is there twice.
//! * `BUCKET-3` Slots grow up, records grow down, and they do not meet. The lengths of all records and
//!   the garbage add up to the heap.
//! * `BUCKET-4` An entry has at most a quarter of what fits in a page ([`max_entry_len`]).
//! * `BUCKET-5` If there is a link to the next page of a chain, all keys have one hash, the *chain's*.
//!
//! A torn page breaks any of them. So no reader trusts one: what is read is cut to the page, every
//! loop is bounded by the page's size, and the answer is wrong until the page has been validated.

mod edit;
mod search;
#[cfg(test)]
mod tests;
mod verify;

use polder_format::{PageKind, header_at};
use polder_pool::bytes::PageRef;
use polder_structure::page::link;

use crate::hash::{KeyHash, Prefix};
use crate::page;

pub use edit::{BucketMut, NoRoom};

/// Fields of a bucket.
pub(crate) mod at {
    pub(crate) use crate::page::at::{CONTENT as SLOTS, COUNT};

    /// Length of the heap, 2 bytes: how far the lowest record begins before the end of the page.
    pub(crate) const HEAP: usize = 36;
    /// Bytes of the heap that no slot uses, 2 bytes.
    pub(crate) const GARBAGE: usize = 38;
    /// Link of the next page of the chain, 8 bytes.
    pub(crate) const NEXT: usize = 48;
    /// The chain's hash, 8 bytes.
    pub(crate) const CHAIN_HASH: usize = 56;
}

/// Bytes of a slot.
const SLOT_BYTES: usize = 4;
/// Bytes of a record before the key: the lengths of key and value.
const RECORD_HEADER: usize = 4;

/// The longest entry in bytes, key and value together.
#[inline]
pub const fn max_entry_len(page_bytes: usize) -> usize {
    (page_bytes - at::SLOTS) / 4 - SLOT_BYTES - RECORD_HEADER
}

/// A slot: `tag: 16 | offset of the record: 16`.
#[derive(Debug, Clone, Copy)]
struct Slot(u32);

impl Slot {
    fn new(tag: u16, offset: usize) -> Slot {
        Slot(u32::from(tag) << 16 | offset as u32 & 0xffff)
    }

    #[inline(always)]
    fn tag(self) -> u16 {
        (self.0 >> 16) as u16
    }

    #[inline(always)]
    fn offset(self) -> usize {
        (self.0 & 0xffff) as usize
    }
}

/// Where bytes lie in a page; inside of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Offset of the first byte.
    pub at: usize,
    /// How many there are.
    pub len: usize,
}

/// A bucket to read from. It may change meanwhile: answers count once the page has been validated.
#[derive(Debug, Clone, Copy)]
pub struct BucketRef<'a> {
    page: PageRef<'a>,
}

impl<'a> BucketRef<'a> {
    /// The bucket in `page`, whatever `page` holds.
    #[inline(always)]
    pub fn new(page: PageRef<'a>) -> BucketRef<'a> {
        BucketRef { page }
    }

    /// Its page.
    #[inline(always)]
    pub fn page(self) -> PageRef<'a> {
        self.page
    }

    /// Whether the page header tells that this is a bucket.
    pub fn is_bucket(self) -> bool {
        self.page.u8(header_at::KIND) == PageKind::HASH_BUCKET.0
    }

    /// What it covers.
    #[inline]
    pub fn prefix(self) -> Prefix {
        page::prefix(self.page)
    }

    /// How many entries it has; never more than there is room for slots.
    #[inline(always)]
    pub fn count(self) -> usize {
        let most = (self.page.size() - at::SLOTS) / SLOT_BYTES;
        usize::from(self.page.u16(at::COUNT)).min(most)
    }

    /// Whether a chain begins, or goes on, here.
    #[inline(always)]
    pub fn has_next(self) -> bool {
        self.page.u64(at::NEXT) != 0
    }

    /// Link of the next page of the chain, or zero: the id of its page, also where it is swizzled.
    pub fn next(self) -> u64 {
        link(self.page, at::NEXT)
    }

    /// The hash that all keys have if there is a next page.
    pub fn chain_hash(self) -> KeyHash {
        KeyHash::new(self.page.u64(at::CHAIN_HASH))
    }

    #[inline(always)]
    fn slot(self, index: usize) -> Slot {
        Slot(self.page.u32(at::SLOTS + SLOT_BYTES * index))
    }

    #[inline]
    fn heap(self) -> usize {
        usize::from(self.page.u16(at::HEAP))
    }

    #[inline]
    fn heap_low(self) -> usize {
        self.page.size().saturating_sub(self.heap())
    }

    /// Bytes of the heap that no slot uses. They come back when the bucket is compacted.
    #[inline]
    pub fn garbage(self) -> usize {
        usize::from(self.page.u16(at::GARBAGE))
    }

    fn slots_end(self) -> usize {
        at::SLOTS + SLOT_BYTES * self.count()
    }

    /// The bytes between slots and records, which mean nothing.
    pub fn hole(self) -> std::ops::Range<usize> {
        let begin = self.slots_end();
        begin..self.heap_low().max(begin)
    }

    /// Bytes between slots and records.
    #[inline]
    fn free_bytes(self) -> usize {
        self.heap_low().saturating_sub(self.slots_end())
    }

    /// Bytes of slots, and of records that slots use.
    pub fn used_bytes(self) -> usize {
        SLOT_BYTES * self.count() + self.heap().saturating_sub(self.garbage())
    }

    /// What slots and records may have together.
    pub fn usable_bytes(self) -> usize {
        self.page.size() - at::SLOTS
    }

    /// Lengths of key and value of the record at `offset`.
    #[inline(always)]
    fn lens(self, offset: usize) -> (usize, usize) {
        let lens = self.page.unaligned_u64(offset) as u32;
        ((lens & 0xffff) as usize, (lens >> 16) as usize)
    }

    /// Cut to the page.
    #[inline(always)]
    fn run(self, at: usize, len: usize) -> Run {
        let at = at.min(self.page.size());
        Run { at, len: len.min(self.page.size() - at) }
    }

    /// Where the key of an entry lies.
    #[inline]
    pub fn key(self, index: usize) -> Run {
        let offset = self.slot(index).offset();
        self.run(offset + RECORD_HEADER, self.lens(offset).0)
    }

    /// Where the value of an entry lies.
    #[inline(always)]
    pub fn value(self, index: usize) -> Run {
        let offset = self.slot(index).offset();
        let (key, value) = self.lens(offset);
        self.run(offset + RECORD_HEADER + key, value)
    }

    fn record_len(self, slot: Slot) -> usize {
        let (key, value) = self.lens(slot.offset());
        RECORD_HEADER + key + value
    }

    /// The hash of an entry's key, which is copied to `buffer` for that.
    pub fn hash(self, index: usize, buffer: &mut Vec<u8>) -> KeyHash {
        let key = self.key(index);
        buffer.clear();
        self.page.append_to(key.at, key.len, buffer);
        // What lies behind the page's end is none of the key.
        buffer.truncate(key.len);
        KeyHash::of(buffer)
    }

    /// Whether there is room for a value: of the entry with this number (`Ok`), or of a new one (`Err`).
    #[inline]
    pub fn has_room(self, index: Result<usize, usize>, key_len: usize, value_len: usize) -> bool {
        let free = self.free_bytes() + self.garbage();
        let len = RECORD_HEADER + key_len + value_len;
        match index {
            Ok(index) => len <= free + self.record_len(self.slot(index)),
            Err(_) => SLOT_BYTES + len <= free,
        }
    }

    /// How many entries are on this side of the prefix.
    pub fn count_of(self, side: crate::hash::Side) -> usize {
        let (prefix, mut key) = (self.prefix(), Vec::new());
        let on_side = |index: &usize| prefix.side(self.hash(*index, &mut key)) == side;
        (0..self.count()).filter(on_side).count()
    }

    /// Whether all entries have this hash.
    pub fn all_have(self, hash: KeyHash) -> bool {
        let mut key = Vec::new();
        (0..self.count()).all(|index| self.hash(index, &mut key) == hash)
    }
}
