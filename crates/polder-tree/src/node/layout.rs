//! Where things lie in a node, and how long they may be. Drawn in `docs/format.md`, "B+tree node".

use polder_format::{PAGE_HEADER_BYTES, PageKind};

/// Layout version that this code writes, and the only one that it reads.
pub(super) const LAYOUT_VERSION: u8 = 1;

/// Fields of the node header.
pub(super) mod at {
    use super::PAGE_HEADER_BYTES;

    /// Where the lowest record begins, 4 bytes.
    pub(in super::super) const HEAP_LOW: usize = PAGE_HEADER_BYTES;
    /// Count of slots, 2 bytes.
    pub(in super::super) const COUNT: usize = 36;
    /// Bytes of the heap that no slot uses, 2 bytes.
    pub(in super::super) const GARBAGE: usize = 38;
    /// Prefix length, 2 bytes.
    pub(in super::super) const PREFIX: usize = 40;
    /// Length of the lower fence, 2 bytes.
    pub(in super::super) const LOWER: usize = 42;
    /// Length of the upper fence, 2 bytes.
    pub(in super::super) const UPPER: usize = 44;
    /// Level, 1 byte.
    pub(in super::super) const LEVEL: usize = 46;
    /// Flags, 1 byte.
    pub(in super::super) const FLAGS: usize = 47;
    /// Right link, 8 bytes.
    pub(in super::super) const RIGHT: usize = 48;
    /// Link of the first child, 8 bytes.
    pub(in super::super) const FIRST_CHILD: usize = 56;
    /// Hints, 4 bytes each.
    pub(in super::super) const HINTS: usize = 64;
    /// Slots, 8 bytes each.
    pub(in super::super) const SLOTS: usize = 128;
}

/// Flag: there is a lower fence.
pub(super) const HAS_LOWER: u8 = 1;
/// Flag: there is an upper fence.
pub(super) const HAS_UPPER: u8 = 2;

/// How many hints a node has.
pub(super) const HINTS: usize = 16;
/// Bytes of a slot.
pub(super) const SLOT_BYTES: usize = 8;
/// Bytes of a key's suffix that its slot holds.
pub(super) const HEAD_BYTES: usize = 4;
/// Bytes of a leaf record before the rest of the key: version and value word.
pub(super) const LEAF_RECORD_HEADER: usize = 10;
/// Where the value word begins in a leaf record.
pub(super) const VALUE_WORD: usize = 8;
/// Bytes of an inner record before the rest of the key: the link.
pub(super) const INNER_RECORD_HEADER: usize = 8;
/// In the value word: the value lies in overflow pages.
pub(super) const OVERFLOW: u16 = 1 << 15;
/// Bytes that stand in the place of a value that overflows.
pub(super) const OVERFLOW_REFERENCE_BYTES: usize = 16;

/// The longest value in bytes.
pub const MAX_VALUE_BYTES: u64 = 64 << 20;

/// Where the bytes of a value begin in an overflow page.
pub(crate) const OVERFLOW_BYTES_AT: usize = 48;

/// How many overflow pages a value of `len` bytes takes.
#[inline]
pub(crate) const fn overflow_pages(page_bytes: usize, len: u64) -> u64 {
    let pages = len.div_ceil((page_bytes - OVERFLOW_BYTES_AT) as u64);
    if pages == 0 { 1 } else { pages }
}

/// The longest key in bytes: an eighth of the page.
#[inline]
pub const fn max_key_len(page_bytes: usize) -> usize {
    page_bytes / 8
}

/// Whether a value must go to overflow pages: its record would be longer than a quarter of the
/// page. The whole key counts, so that the answer never changes with the prefix of a node.
#[inline]
pub const fn must_overflow(page_bytes: usize, key_len: usize, value_len: usize) -> bool {
    value_len > max_record_bytes(page_bytes).saturating_sub(LEAF_RECORD_HEADER + key_len)
}

/// The longest leaf record in bytes.
#[inline]
pub(super) const fn max_record_bytes(page_bytes: usize) -> usize {
    page_bytes / 4
}

/// Bytes of the record of a key with `suffix_len` bytes behind the prefix. In a leaf its value, or
/// what stands for it, has `value_len` bytes.
#[inline(always)]
pub(super) const fn record_bytes(leaf: bool, suffix_len: usize, value_len: usize) -> usize {
    let rest_len = suffix_len.saturating_sub(HEAD_BYTES);
    if leaf {
        LEAF_RECORD_HEADER + rest_len + value_len
    } else {
        (INNER_RECORD_HEADER + rest_len).next_multiple_of(8)
    }
}

/// Where the heap ends in a page whose fences have `fence_bytes` together. Records of inner nodes
/// lie at multiples of 8, so there the heap ends at one.
#[inline(always)]
pub(super) const fn heap_end(leaf: bool, page_bytes: usize, fence_bytes: usize) -> usize {
    let end = page_bytes.saturating_sub(fence_bytes);
    if leaf { end } else { end & !7 }
}

/// What slots and records may have together in a node with such fences.
#[inline]
pub(super) const fn capacity(leaf: bool, page_bytes: usize, fence_bytes: usize) -> usize {
    heap_end(leaf, page_bytes, fence_bytes).saturating_sub(at::SLOTS)
}

/// The kind of page for a node of this level.
#[inline]
pub(super) const fn kind_of(level: u8) -> PageKind {
    if level == 0 { PageKind::TREE_LEAF } else { PageKind::TREE_INNER }
}

/// The head of a suffix: its first four bytes as a big-endian number, filled up with zeros.
#[inline(always)]
pub(super) fn head_of(suffix: &[u8]) -> u32 {
    match suffix {
        [a, b, c, d, ..] => u32::from_be_bytes([*a, *b, *c, *d]),
        [a, b, c] => u32::from_be_bytes([*a, *b, *c, 0]),
        [a, b] => u32::from_be_bytes([*a, *b, 0, 0]),
        [a] => u32::from_be_bytes([*a, 0, 0, 0]),
        [] => 0,
    }
}

/// What of a suffix lies in the record.
#[inline(always)]
pub(super) fn rest_of(suffix: &[u8]) -> &[u8] {
    suffix.get(HEAD_BYTES..).unwrap_or_default()
}

/// How many bytes two keys have in common at their beginning.
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The prefix length of a node with these fences.
pub(super) fn prefix_of(lower: Option<&[u8]>, upper: Option<&[u8]>) -> usize {
    match (lower, upper) {
        (Some(lower), Some(upper)) => common_prefix(lower, upper),
        _ => 0,
    }
}

/// Of every how many slots there is a hint; zero if there are no hints.
#[inline(always)]
pub(super) const fn hint_distance(count: usize) -> usize {
    count / (HINTS + 1)
}

/// A slot: `suffix length: 16 | offset: 16 | head: 32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(pub(super) u64);

impl Slot {
    /// The slot of a key with this suffix, whose record begins at `offset`.
    #[inline(always)]
    pub(super) fn new(suffix: &[u8], offset: usize) -> Slot {
        let (len, offset) = (suffix.len() as u64, offset as u64);
        Slot((len & 0xffff) << 48 | (offset & 0xffff) << 32 | u64::from(head_of(suffix)))
    }

    /// The first four bytes of the suffix.
    #[inline(always)]
    pub(super) fn head(self) -> u32 {
        self.0 as u32
    }

    /// The head with zeros behind a suffix that is shorter: as each head is, unless the page is damaged.
    #[inline(always)]
    pub(super) fn padded_head(self) -> u32 {
        match self.suffix_len() {
            len @ 0..HEAD_BYTES => self.head() & !(u32::MAX >> (8 * len)),
            _ => self.head(),
        }
    }

    /// Where the record begins.
    #[inline(always)]
    pub(super) fn offset(self) -> usize {
        (self.0 >> 32) as usize & 0xffff
    }

    /// The same key with its record elsewhere.
    #[inline(always)]
    pub(super) fn moved_to(self, offset: usize) -> Slot {
        Slot(self.0 & !(0xffff << 32) | (offset as u64 & 0xffff) << 32)
    }

    /// Length of the suffix.
    #[inline(always)]
    pub(super) fn suffix_len(self) -> usize {
        (self.0 >> 48) as usize
    }

    /// Length of what lies in the record.
    #[inline(always)]
    pub(super) fn rest_len(self) -> usize {
        self.suffix_len().saturating_sub(HEAD_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_keeps_its_fields() {
        let slot = Slot::new(b"abcdefgh", 0xfff8);
        assert_eq!((slot.suffix_len(), slot.rest_len(), slot.offset()), (8, 4, 0xfff8));
        assert_eq!(slot.head(), u32::from_be_bytes(*b"abcd"));
        assert_eq!(slot.moved_to(128), Slot::new(b"abcdefgh", 128));
        for len in 0..=4 {
            let mut padded = [0; 4];
            padded[..len].copy_from_slice(&b"wxyz"[..len]);
            assert_eq!(head_of(&b"wxyz"[..len]), u32::from_be_bytes(padded));
        }
    }

    #[test]
    fn records_have_at_most_a_quarter_of_the_page() {
        for page in [4096, 8192, 16384, 32768, 65536] {
            let key = max_key_len(page);
            let longest = page / 4 - 10 - key;
            assert!(!must_overflow(page, key, longest));
            assert!(must_overflow(page, key, longest + 1));
            assert!(record_bytes(true, key, OVERFLOW_REFERENCE_BYTES) <= max_record_bytes(page));
            assert!(max_record_bytes(page) < usize::from(OVERFLOW));
        }
    }
}
