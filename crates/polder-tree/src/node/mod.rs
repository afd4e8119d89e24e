//! One node of the B+tree: a slotted page with prefix truncation, heads, hints and fences
//! (leanstore-2018, section IV; drawn in `docs/format.md`, "B+tree node").
//!
//! [`NodeRef`] reads a page that may change underneath, [`NodeMut`] changes one that is held
//! exclusively. Nothing here knows of latches, of the pool, or of other nodes.
//!
//! Invariants of a node that nobody is changing ([`NodeRef::verify_whole`] checks them all):
//!
//! * `NODE-1` Keys *k* are strictly ascending and lie within the fences: lower <= *k* < upper. In
//!   an inner node the lower fence itself is no separator.
//! * `NODE-2` The prefix is what both fences have in common, and no key is stored with it.
//! * `NODE-3` Slots grow up, records grow down, and they do not meet. The lengths of all records
//!   and the garbage add up to the heap.
//! * `NODE-4` A key has at most an eighth of the page, a leaf record at most a quarter. That a
//!   split always succeeds follows from this (see `split`).
//! * `NODE-5` A hint is the head of the slot that it stands for.
//!
//! A torn page breaks any of them. So no reader trusts one: what is read is cut to the page, every
//! loop is bounded by the page's size, and the answer is wrong until the page has been validated.

mod build;
mod copied;
mod edit;
mod layout;
mod merge;
mod pack;
mod search;
mod split;
mod verify;

#[cfg(test)]
mod tests;

use polder_format::{PageKind, header_at};
use polder_pool::bytes::PageRef;
use polder_structure::page;

pub use build::NodeBuilder;
pub(crate) use copied::{CopiedLeaf, KeyBuf};
pub use edit::NodeMut;
pub use layout::{MAX_VALUE_BYTES, max_key_len, must_overflow};
pub(crate) use layout::{OVERFLOW_BYTES_AT, overflow_pages};
pub use pack::{PACKED_AT_ONCE, Packing};
pub use split::Split;

use layout::{HAS_LOWER, HAS_UPPER, LEAF_RECORD_HEADER, OVERFLOW, OVERFLOW_REFERENCE_BYTES};
use layout::{SLOT_BYTES, Slot, VALUE_WORD, at, heap_end, record_bytes};

/// Where the value of a leaf entry lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// In the page.
    Inline {
        /// Offset of its first byte in the page.
        at: usize,
        /// Its length in bytes. It ends within the page.
        len: usize,
    },
    /// In overflow pages.
    Overflow {
        /// Its length in bytes.
        len: u64,
        /// How many of its pages, from the first one on, have numbers that follow each other.
        run: u32,
        /// Link of the first overflow page.
        link: u64,
    },
}

/// A value to be written to a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewValue<'v> {
    /// These bytes, which do not overflow ([`must_overflow`]).
    Inline(&'v [u8]),
    /// A value that has been written to overflow pages.
    Overflow {
        /// Its length in bytes.
        len: u64,
        /// How many of its pages, from the first one on, have numbers that follow each other.
        run: u32,
        /// Link of the first overflow page.
        link: u64,
    },
}

impl NewValue<'_> {
    /// Bytes that it takes in the record.
    fn stored_len(self) -> usize {
        match self {
            NewValue::Inline(bytes) => bytes.len(),
            NewValue::Overflow { .. } => OVERFLOW_REFERENCE_BYTES,
        }
    }
}

/// The node has no room, even without its garbage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node has no room")]
pub struct NoRoom;

/// A node to read from. It may change meanwhile: answers count once the page has been validated.
#[derive(Debug, Clone, Copy)]
pub struct NodeRef<'a> {
    page: PageRef<'a>,
}

impl<'a> NodeRef<'a> {
    /// The node in `page`, whatever `page` holds.
    #[inline(always)]
    pub fn new(page: PageRef<'a>) -> NodeRef<'a> {
        NodeRef { page }
    }

    /// Its page.
    #[inline(always)]
    pub fn page(self) -> PageRef<'a> {
        self.page
    }

    /// The kind that the page header tells.
    #[inline]
    pub fn kind(self) -> PageKind {
        PageKind(self.page.u8(header_at::KIND))
    }

    /// Whether the page header tells that this is a node.
    #[inline]
    pub fn is_node(self) -> bool {
        matches!(self.kind(), PageKind::TREE_LEAF | PageKind::TREE_INNER)
    }

    /// Levels below this one: 0 in a leaf.
    #[inline(always)]
    pub fn level(self) -> u8 {
        self.page.u8(at::LEVEL)
    }

    /// Whether entries lie here, not separators and links.
    #[inline(always)]
    pub fn is_leaf(self) -> bool {
        self.level() == 0
    }

    /// Count of slots: entries of a leaf, separators of an inner node.
    #[inline(always)]
    pub fn count(self) -> usize {
        let most = (self.page.size() - at::SLOTS) / SLOT_BYTES;
        usize::from(self.page.u16(at::COUNT)).min(most)
    }

    /// Where the right link stands in the page.
    pub const RIGHT_LINK_AT: usize = at::RIGHT;

    /// Link of the next node of this level, or zero.
    #[inline]
    pub fn right_link(self) -> u64 {
        self.page.u64(at::RIGHT)
    }

    /// The bytes between slots and records, which mean nothing.
    pub fn hole(self) -> std::ops::Range<usize> {
        let begin = at::SLOTS + SLOT_BYTES * self.count();
        begin..self.heap_low().max(begin)
    }

    /// Bytes between slots and records.
    #[inline]
    pub fn free_bytes(self) -> usize {
        self.heap_low().saturating_sub(at::SLOTS + SLOT_BYTES * self.count())
    }

    /// Bytes of the heap that no slot uses. They come back when the node is compacted.
    #[inline]
    pub fn garbage(self) -> usize {
        usize::from(self.page.u16(at::GARBAGE))
    }

    /// Bytes of slots and of records that slots use. An empty node has none; a full one has about
    /// [`NodeRef::usable_bytes`].
    #[inline]
    pub fn used_bytes(self) -> usize {
        let heap = self.heap_end().saturating_sub(self.heap_low());
        SLOT_BYTES * self.count() + heap.saturating_sub(self.garbage())
    }

    /// What slots and records may have together, given the fences.
    #[inline]
    pub fn usable_bytes(self) -> usize {
        self.heap_end().saturating_sub(at::SLOTS)
    }

    #[inline]
    fn heap_low(self) -> usize {
        (self.page.u32(at::HEAP_LOW) as usize).min(self.page.size())
    }

    #[inline]
    fn heap_end(self) -> usize {
        heap_end(self.is_leaf(), self.page.size(), self.lower_len() + self.upper_len())
    }

    #[inline(always)]
    fn slot(self, index: usize) -> Slot {
        Slot(self.page.u64(at::SLOTS + SLOT_BYTES * index))
    }
}

/// Fences and prefix.
impl NodeRef<'_> {
    /// Whether the node's keys are bounded below.
    #[inline]
    pub fn has_lower(self) -> bool {
        self.page.u8(at::FLAGS) & HAS_LOWER != 0
    }

    /// Whether the node's keys are bounded above.
    #[inline]
    pub fn has_upper(self) -> bool {
        self.page.u8(at::FLAGS) & HAS_UPPER != 0
    }

    /// Appends the lower fence, or nothing if there is none.
    pub fn append_lower_fence(self, out: &mut Vec<u8>) {
        self.page.append_to(self.lower_at(), self.lower_len(), out);
    }

    /// Appends the upper fence, or nothing if there is none.
    pub fn append_upper_fence(self, out: &mut Vec<u8>) {
        self.page.append_to(self.upper_at(), self.upper_len(), out);
    }

    /// The lower fence, if there is one.
    pub fn lower_fence(self) -> Option<Vec<u8>> {
        let mut fence = Vec::new();
        self.append_lower_fence(&mut fence);
        self.has_lower().then_some(fence)
    }

    /// The upper fence, if there is one.
    pub fn upper_fence(self) -> Option<Vec<u8>> {
        let mut fence = Vec::new();
        self.append_upper_fence(&mut fence);
        self.has_upper().then_some(fence)
    }

    /// Whether there is an upper fence, and it is `key`.
    pub fn upper_fence_is(self, key: &[u8]) -> bool {
        self.has_upper() && self.page.compare(self.upper_at(), self.upper_len(), key).is_eq()
    }

    /// Whether there is a lower fence, and it is `key`.
    pub fn lower_fence_is(self, key: &[u8]) -> bool {
        self.has_lower() && self.page.compare(self.lower_at(), self.lower_len(), key).is_eq()
    }

    #[inline(always)]
    fn prefix_len(self) -> usize {
        usize::from(self.page.u16(at::PREFIX))
    }

    #[inline]
    fn lower_len(self) -> usize {
        usize::from(self.page.u16(at::LOWER))
    }

    #[inline]
    fn upper_len(self) -> usize {
        usize::from(self.page.u16(at::UPPER))
    }

    #[inline]
    fn lower_at(self) -> usize {
        self.page.size().saturating_sub(self.lower_len())
    }

    #[inline]
    fn upper_at(self) -> usize {
        self.page.size().saturating_sub(self.lower_len() + self.upper_len())
    }
}

/// Keys and entries. A `slot` is a number below [`NodeRef::count`].
impl NodeRef<'_> {
    /// Appends the key of a slot.
    #[inline]
    pub fn append_key(self, slot: usize, out: &mut Vec<u8>) {
        self.page.append_to(self.lower_at(), self.prefix_len(), out);
        let slot = self.slot(slot);
        let head = slot.head().to_be_bytes();
        out.extend_from_slice(&head[..slot.suffix_len().min(head.len())]);
        self.page.append_to(self.rest_at(slot), slot.rest_len(), out);
    }

    /// The value of a leaf's entry.
    #[inline]
    pub fn value(self, slot: usize) -> Value {
        let slot = self.slot(slot);
        let word = self.value_word(slot);
        let begin = self.value_at(slot);
        if word & OVERFLOW == 0 {
            let begin = begin.min(self.page.size());
            return Value::Inline {
                at: begin,
                len: usize::from(word).min(self.page.size() - begin),
            };
        }
        let word = self.page.unaligned_u64(begin);
        Value::Overflow {
            len: word & u64::from(u32::MAX),
            run: (word >> 32) as u32,
            link: self.page.unaligned_u64(begin + 8),
        }
    }

    /// The version of a leaf's entry.
    #[inline]
    pub fn version(self, slot: usize) -> u64 {
        self.page.unaligned_u64(self.slot(slot).offset())
    }

    #[inline(always)]
    fn value_word(self, slot: Slot) -> u16 {
        self.page.unaligned_u16(slot.offset() + VALUE_WORD)
    }

    #[inline(always)]
    fn value_at(self, slot: Slot) -> usize {
        slot.offset() + LEAF_RECORD_HEADER + slot.rest_len()
    }

    /// Bytes of a value in its record.
    #[inline]
    fn stored_len(self, slot: Slot) -> usize {
        match self.value_word(slot) {
            word if word & OVERFLOW != 0 => OVERFLOW_REFERENCE_BYTES,
            word => usize::from(word),
        }
    }

    #[inline(always)]
    fn rest_at(self, slot: Slot) -> usize {
        slot.offset() + record_bytes(self.is_leaf(), 0, 0)
    }

    /// Bytes of the record of a slot.
    #[inline]
    fn record_len(self, slot: Slot) -> usize {
        let leaf = self.is_leaf();
        let value_len = if leaf { self.stored_len(slot) } else { 0 };
        record_bytes(leaf, slot.suffix_len(), value_len)
    }
}

/// Links of an inner node. Link 0 is in the node header, link *i* in the record of slot *i* - 1.
impl NodeRef<'_> {
    /// Where link `index` of `0..=count` begins in the page: a multiple of 8 within it.
    #[inline(always)]
    pub fn link_offset(self, index: usize) -> usize {
        match index {
            0 => at::FIRST_CHILD,
            _ => self.slot(index - 1).offset() & (self.page.size() - 1) & !7,
        }
    }

    /// Link `index` of `0..=count`: the id of its page, also where it is swizzled.
    #[inline]
    pub fn link(self, index: usize) -> u64 {
        page::link(self.page, self.link_offset(index))
    }

    /// A link of `from` as this node may have it: it stays as it is, swizzled or not, only in its
    /// page.
    pub(super) fn link_of(self, from: NodeRef<'_>, index: usize) -> u64 {
        match page::id(self.page) == page::id(from.page) {
            true => from.page.u64(from.link_offset(index)),
            false => from.link(index),
        }
    }
}
