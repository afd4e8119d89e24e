//! One node of the directory: an extendible directory of its own, in one page; drawn in
//! `docs/format.md`, "Hash node".
//!
//! A node of prefix *p* and *depth* d has 2^d slots, one for each value of the d bits behind p. A slot
//! holds no link but the *number* of a child, so that each link stands in the node once, however many
//! slots lead to it. A child with l bits more than p has the 2^(d-l) slots that begin with these bits:
//! its *run*.
//!
//! [`NodeRef`] reads a page that may change underneath, [`NodeMut`] changes one that is held
//! exclusively.
//!
//! * `HNODE-1` The slots of a child are one run: their number is a power of two, and the first one's
//!   a multiple of it. Each child has one.
//! * `HNODE-2` The node is no deeper than its children need: depth 0, or a child has a single slot.
//! * `HNODE-3` Prefix and depth have at most 64 bits together.
//!
//! A torn page breaks any of them; see [`bucket`](crate::bucket).

mod edit;
#[cfg(test)]
mod tests;
mod verify;

use polder_format::{PageKind, header_at};
use polder_pool::bytes::PageRef;
use polder_structure::page::link;

use crate::hash::{KeyHash, Prefix, Side};
use crate::page;

pub use edit::{Edit, NodeMut};

/// Fields of a node.
pub(crate) mod at {
    pub(crate) use crate::page::at::{CONTENT as LINKS, COUNT, LEVEL};

    /// Depth, 1 byte.
    pub(crate) const DEPTH: usize = 36;
}

/// Bytes of a link.
const LINK_BYTES: usize = 8;
/// Bytes of a slot.
const SLOT_BYTES: usize = 2;

/// The greatest depth of a node: its slots have a quarter of the page then.
#[inline(always)]
pub const fn max_depth(page_bytes: usize) -> u8 {
    (page_bytes / 8).ilog2() as u8
}

/// The most children of a node: what the slots of the greatest depth leave.
#[inline(always)]
pub const fn max_children(page_bytes: usize) -> usize {
    (page_bytes - at::LINKS - page_bytes / 4) / LINK_BYTES
}

/// The slots of one child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first one.
    pub first: usize,
    /// How many, a power of two.
    pub len: usize,
}

impl Run {
    /// The run of the child on the other side of the same prefix.
    fn buddy(self) -> Run {
        Run { first: self.first ^ self.len, len: self.len }
    }

    fn slots(self) -> std::ops::Range<usize> {
        self.first..self.first + self.len
    }
}

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

    /// Whether the page header tells that this is a node.
    pub fn is_node(self) -> bool {
        self.page.u8(header_at::KIND) == PageKind::HASH_NODE.0
    }

    /// Levels below this one; its children are buckets if there is one.
    #[inline(always)]
    pub fn level(self) -> u8 {
        page::level(self.page)
    }

    /// What it covers.
    pub fn prefix(self) -> Prefix {
        page::prefix(self.page)
    }

    /// How many bits its slots tell apart.
    #[inline(always)]
    pub fn depth(self) -> u8 {
        self.page.u8(at::DEPTH).min(max_depth(self.page.size()))
    }

    /// How many children it has; never more than there is room for.
    #[inline]
    pub fn count(self) -> usize {
        usize::from(self.page.u16(at::COUNT)).min(max_children(self.page.size()))
    }

    /// How many slots it has.
    #[inline]
    fn slots(self) -> usize {
        1 << self.depth()
    }

    /// The slots lie at the end of the page.
    #[inline(always)]
    fn slots_at(self, depth: u8) -> usize {
        self.page.size() - (SLOT_BYTES << depth)
    }

    /// The slot for a hash.
    #[inline(always)]
    pub fn slot_of(self, hash: KeyHash) -> usize {
        self.slot_at_depth(hash, self.depth())
    }

    #[inline(always)]
    fn slot_at_depth(self, hash: KeyHash, depth: u8) -> usize {
        let below = 64u8.wrapping_sub(self.page.u8(page::at::BITS)).wrapping_sub(depth);
        (hash.bits() >> (below & 63)) as usize & ((1 << depth) - 1)
    }

    /// The child in a slot.
    #[inline]
    fn child(self, slot: usize) -> usize {
        usize::from(self.page.u16(self.slots_at(self.depth()) + SLOT_BYTES * slot))
    }

    /// Where in the page the link of child `index` begins: a multiple of 8 within it.
    #[inline(always)]
    pub fn link_offset(self, index: usize) -> usize {
        (at::LINKS + LINK_BYTES * index) & (self.page.size() - 1)
    }

    /// Where in the page the link begins that leads to a hash.
    #[inline(always)]
    pub fn link_for(self, hash: KeyHash) -> usize {
        let depth = self.depth();
        let at = self.slots_at(depth) + SLOT_BYTES * self.slot_at_depth(hash, depth);
        self.link_offset(usize::from(self.page.u16(at)))
    }

    /// The link of child `index`: the id of its page, also where it is swizzled.
    pub fn link(self, index: usize) -> u64 {
        link(self.page, self.link_offset(index))
    }

    /// The run that a slot belongs to.
    fn run(self, slot: usize) -> Run {
        let (child, slots) = (self.child(slot), self.slots());
        let mut len = 1;
        // A run doubles as long as the other half of it has the same child.
        while len < slots && self.child((slot & !(len - 1)) ^ len) == child {
            len *= 2;
        }
        Run { first: slot & !(len - 1), len }
    }

    /// What the child of a run covers.
    fn prefix_of(self, run: Run) -> Prefix {
        let bits = self.depth().saturating_sub(run.len.ilog2() as u8);
        let first = self.prefix().first().bits();
        let below = 64u8.wrapping_sub(self.page.u8(page::at::BITS)).wrapping_sub(self.depth());
        let hash = first | (run.first as u64).checked_shl(u32::from(below)).unwrap_or(0);
        Prefix::of(KeyHash::new(hash), self.prefix().bits().saturating_add(bits))
    }

    /// What the child for a hash covers.
    pub fn prefix_for(self, hash: KeyHash) -> Prefix {
        self.prefix_in(self.slot_of(hash))
    }

    /// What the child in a slot covers.
    pub(crate) fn prefix_in(self, slot: usize) -> Prefix {
        self.prefix_of(self.run(slot))
    }

    /// Where the link of the child in a slot begins.
    pub(crate) fn link_in(self, slot: usize) -> usize {
        self.link_offset(self.child(slot))
    }

    /// All children in the order of the hashes that they cover: what they cover, and their links.
    pub fn children(self) -> impl Iterator<Item = (Prefix, u64)> + 'a {
        let mut slot = 0;
        std::iter::from_fn(move || {
            let run = (slot < self.slots()).then(|| self.run(slot))?;
            // At least one further, whatever the page says.
            slot = (run.first + run.len).max(slot + 1);
            Some((self.prefix_of(run), self.link(self.child(run.first))))
        })
    }

    /// Whether the child for a hash can be split here.
    pub fn has_room_to_split(self, hash: KeyHash) -> bool {
        let deepens = self.run(self.slot_of(hash)).len == 1;
        let bits = u16::from(self.prefix().bits()) + u16::from(self.depth());
        self.count() < max_children(self.page.size())
            && !(deepens && (self.depth() == max_depth(self.page.size()) || bits >= 64))
    }

    /// Where the links of the child for a hash and of its buddy begin, the low side first; `None` if the
    /// other half of their prefix is not a single child.
    pub fn buddies(self, hash: KeyHash) -> Option<[usize; 2]> {
        let slots = self.buddy_slots(self.slot_of(hash));
        slots.map(|slots| slots.map(|slot| self.link_in(slot)))
    }

    /// The first slots of the child in a slot and of its buddy.
    pub(crate) fn buddy_slots(self, slot: usize) -> Option<[usize; 2]> {
        let run = self.run(slot);
        let buddy = run.buddy();
        if run.len == self.slots() || self.run(buddy.first) != buddy {
            return None;
        }
        Some([run.first.min(buddy.first), run.first.max(buddy.first)])
    }

    /// Whether this node and its buddy fit in one node, with some room for more.
    pub fn can_absorb(self, other: NodeRef<'_>) -> bool {
        let size = self.page.size();
        let most = max_children(size);
        self.count() + other.count() <= most - most / 8
            && self.depth().max(other.depth()) < max_depth(size)
    }

    /// The bytes between links and slots, which mean nothing.
    pub fn hole(self) -> std::ops::Range<usize> {
        let begin = at::LINKS + LINK_BYTES * self.count();
        begin..self.slots_at(self.depth()).max(begin)
    }

    /// Which child of the node is on which side is told by its slots: those of one half.
    fn half(self, side: Side) -> std::ops::Range<usize> {
        let half = self.slots() / 2;
        match side {
            Side::Low => 0..half,
            Side::High => half..self.slots(),
        }
    }
}
