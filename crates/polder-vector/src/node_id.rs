//! Where a node of a graph lies.

use std::fmt;

use polder_format::PageNo;

/// A node of a graph: its page, and its place in that. It stays where it is as long as it lives; its
/// id may be another node's afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u64);

/// Places of a page that can be told apart.
pub(crate) const MOST_SLOTS: usize = 1 << 8;
/// The highest page that can be named, and one: 2^31 pages of 4 KiB are 8 TiB.
pub(crate) const MOST_PAGES: u64 = 1 << 31;

/// The bits of an id: the slot, whether the node is above level 0, the page.
const ABOVE: u64 = 1 << 8;
const PAGE_SHIFT: u32 = 9;

impl NodeId {
    /// Bytes in a page.
    pub(crate) const BYTES: usize = 5;
    /// Stands for a node that has no place yet: a place of the index's first page, which has no nodes.
    pub(crate) const NEW: NodeId = NodeId(1 << PAGE_SHIFT);

    /// The node in a place of a page of nodes of this level. `None` for pages that cannot be named.
    pub(crate) fn new(page: PageNo, level: u8, slot: usize) -> Option<NodeId> {
        let is_known = (1..MOST_PAGES).contains(&page.get()) && slot < MOST_SLOTS;
        let above = if level > 0 { ABOVE } else { 0 };
        is_known.then_some(NodeId(page.get() << PAGE_SHIFT | above | slot as u64))
    }

    /// The node of a number that [`NodeId::to_bits`] gave; of any other, perhaps none. Bits above the
    /// lowest 40 count for nothing.
    #[inline(always)]
    pub fn from_bits(bits: u64) -> Option<NodeId> {
        let bits = bits & ((1 << 40) - 1);
        (bits >> PAGE_SHIFT != 0).then_some(NodeId(bits))
    }

    /// As a number of 40 bits, to be kept somewhere.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Appends links as they lie in a page.
    pub(crate) fn append(links: &[NodeId], bytes: &mut Vec<u8>) {
        links.iter().for_each(|link| bytes.extend(&link.to_bits().to_le_bytes()[..NodeId::BYTES]));
    }

    /// A name of its own for each number, of a node that is in memory alone.
    pub(crate) fn of_number(number: u32) -> NodeId {
        NodeId((u64::from(number) + 1) << PAGE_SHIFT)
    }

    /// The number that such a name is of.
    pub(crate) fn number(self) -> usize {
        (self.0 >> PAGE_SHIFT) as usize - 1
    }

    /// Its page.
    #[inline(always)]
    pub(crate) fn page(self) -> PageNo {
        PageNo::new(self.0 >> PAGE_SHIFT).expect("a page of 31 bits has a number")
    }

    /// Whether it is on other levels than the lowest as well.
    #[inline(always)]
    pub(crate) fn is_above(self) -> bool {
        self.0 & ABOVE != 0
    }

    /// Its place in the page.
    #[inline(always)]
    pub(crate) fn slot(self) -> usize {
        (self.0 & (MOST_SLOTS as u64 - 1)) as usize
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_above() { '^' } else { '.' };
        write!(f, "node {}{sign}{}", self.0 >> PAGE_SHIFT, self.slot())
    }
}

/// Whose a place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Nobody's.
    Free,
    /// That of a vector that is found.
    Live,
    /// That of a vector that is being removed: searches go through it, and do not find it.
    Leaving,
}

impl State {
    /// As it lies in a page.
    pub(crate) fn to_byte(self) -> u8 {
        match self {
            State::Free => 0,
            State::Live => 1,
            State::Leaving => 2,
        }
    }

    /// The state that this byte of a page says.
    #[inline(always)]
    pub(crate) fn from_byte(byte: u8) -> State {
        match byte {
            1 => State::Live,
            2 => State::Leaving,
            _ => State::Free,
        }
    }
}
