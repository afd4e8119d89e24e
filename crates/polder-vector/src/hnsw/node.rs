//! Pages of nodes, and nodes.
//!
//! ```text
//!   page   | header, 32 | level 1 | - 1 | used 2 | stride 4 | vector 4 | links 1 | element 1 | metric 1 | - 1 | next 8
//!          | width 4 | - 4 | node | node | ...
//!   node   | vector, padded to 8 | label 8 | scale 4 | state 1 | list of level 0 | list of level 1 | ...
//!   list   | count 1 | links of 5 bytes: 2M on level 0, M above |
//! ```
//!
//! All nodes of a page have the same level, so that all are equally long. A node's id says whether it is
//! above level 0; if not, as nearly all, where it lies follows from the id, so that a search reads nothing
//! of the page but the vector, for whose lines it has asked before. Nodes begin at lines of the
//! processor's cache where that costs none of them. State and label are behind the vector: a search
//! looks at them for what is near enough.
//!
//! Each page tells all options of its index, so that what is left of an index that has lost its first page
//! becomes an index again (a salvage of a store does that).
//!
//! * `HNSW-1` A node has a list for each level from 0 to that of its page, and never another level.
//! * `HNSW-2` A list leads to no node twice, and not to its own. A link may be *stale*: its node has
//!   been removed, or the place is another node's by now. Readers pass over what is not there, and a list
//!   that is full leaves that out.
//! * `HNSW-3` The page says how many of its nodes are in use.
//! * `HNSW-6` A page in which a place became free is in the chain of its level, which the index's first
//!   page begins, once, until somebody takes it from there to fill it.

use polder_format::{PAGE_HEADER_BYTES, PageKind, PageSize, header_at};
use polder_pool::bytes::{PageMut, PageRef, Run};
use polder_structure::page::ensure;

use crate::error::VectorError;
use crate::node_id::{MOST_SLOTS, NodeId, State};
use crate::options::HnswOptions;
use crate::vectors::{Vector, VectorShape};

/// Fields of a page of nodes.
mod at {
    use super::PAGE_HEADER_BYTES;

    /// The level of its nodes, 1 byte.
    pub(super) const LEVEL: usize = PAGE_HEADER_BYTES;
    /// How many of them are in use, 2 bytes.
    pub(super) const USED: usize = PAGE_HEADER_BYTES + 2;
    /// How long a node is, 4 bytes.
    pub(super) const STRIDE: usize = PAGE_HEADER_BYTES + 4;
    /// How long its vector is, 4 bytes.
    pub(super) const VECTOR_BYTES: usize = PAGE_HEADER_BYTES + 8;
    /// The links of its lists, 1 byte.
    pub(super) const LINKS: usize = PAGE_HEADER_BYTES + 12;
    /// What the numbers of its vector are, and how it is compared, 1 byte each.
    pub(super) const ELEMENT: usize = PAGE_HEADER_BYTES + 13;
    pub(super) const METRIC: usize = PAGE_HEADER_BYTES + 14;
    /// These four and a zero, as one number of 8 bytes: the same in all pages of an index.
    pub(super) const FORM: usize = VECTOR_BYTES;
    /// How many of the nearest nodes an insert keeps in sight, 4 bytes.
    pub(super) const WIDTH: usize = PAGE_HEADER_BYTES + 24;
    /// The first node.
    pub(super) const NODES: usize = 64;
}

/// Fields behind the vector.
const LABEL: usize = 0;
const SCALE: usize = 8;
const STATE: usize = 12;
const LISTS: usize = 13;

/// Bytes of nodes that are asked for together: a part of the smallest second-level caches.
const AHEAD_BYTES: usize = 8 << 10;
/// And how many nodes, at most.
const MOST_AHEAD: usize = 16;

/// The highest level that there is. With 8 links a level has an eighth of the nodes of the one below.
pub(crate) const HIGHEST: u8 = 15;

/// Links of a node above level 0, at least and at most; on level 0 it has twice as many.
const LEAST_LINKS: usize = 2;
pub(super) const MOST_LINKS: usize = 100;
/// Nodes that an insert keeps in sight, at most.
const MOST_WIDTH: usize = 1 << 16;

/// Where in pages of an index everything lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    page: PageSize,
    vector: usize,
    /// Where in a node the label begins.
    tail: usize,
    links: usize,
    /// What each page says of its nodes (`at::FORM`).
    form: u64,
    /// How many nodes are asked for together.
    ahead: usize,
    /// Lines of the processor's cache that a vector takes with label, scale and state behind it.
    vector_lines: usize,
    /// And those that all that is behind the vector takes.
    tail_lines: usize,
    /// For each level, from the beginning of a node to that of the next, in bytes.
    strides: [u32; HIGHEST as usize + 1],
}

impl Layout {
    /// For vectors of this shape with so many links.
    ///
    /// # Errors
    /// [`VectorError::TooLong`].
    fn new(page: PageSize, shape: VectorShape, links: usize) -> Result<Layout, VectorError> {
        let vector = shape.bytes();
        let byte = |byte: u8, at: usize| u64::from(byte) << (8 * (at - at::FORM));
        let form = vector as u64
            | byte(links as u8, at::LINKS)
            | byte(shape.element.to_byte(), at::ELEMENT)
            | byte(shape.metric.to_byte(), at::METRIC);
        let (tail, strides) = (vector.next_multiple_of(8), [0; HIGHEST as usize + 1]);
        let ahead = (AHEAD_BYTES / (tail + LISTS)).clamp(2, MOST_AHEAD);
        let (vector_lines, tail_lines) = ((tail + LISTS).div_ceil(64), 0);
        let mut layout =
            Layout { page, vector, tail, links, form, ahead, vector_lines, tail_lines, strides };
        layout.tail_lines = (layout.node_bytes(0) - tail).div_ceil(64);
        layout.strides = std::array::from_fn(|level| layout.stride_of(level as u8) as u32);
        let (bytes, room) = (layout.node_bytes(0), page.bytes() - at::NODES);
        match bytes <= room {
            true => Ok(layout),
            false => Err(VectorError::TooLong { bytes, room }),
        }
    }

    /// The highest level that a node may have: one that fits a page.
    pub(crate) fn highest(&self) -> u8 {
        let fits = |level: &u8| self.node_bytes(*level) <= self.page.bytes() - at::NODES;
        (0..=HIGHEST).rev().find(fits).unwrap_or(0)
    }

    /// Links on a level, at most.
    #[inline(always)]
    pub(crate) fn capacity(&self, level: u8) -> usize {
        if level == 0 { 2 * self.links } else { self.links }
    }

    /// Bytes of a node of this level.
    fn node_bytes(&self, level: u8) -> usize {
        self.list(level) + self.list_bytes(level)
    }

    fn list_bytes(&self, level: u8) -> usize {
        1 + NodeId::BYTES * self.capacity(level)
    }

    /// Where in a node the list of a level begins.
    #[inline(always)]
    fn list(&self, level: u8) -> usize {
        let before = match level {
            0 => 0,
            _ => self.list_bytes(0) + usize::from(level - 1) * self.list_bytes(1),
        };
        self.tail + LISTS + before
    }

    /// A node with these links on each of its levels, the lowest first, as it lies in a page.
    pub(crate) fn node_of(&self, label: u64, vector: &Vector, links: &[Vec<NodeId>]) -> Vec<u8> {
        let mut bytes = vec![0; self.node_bytes((links.len() - 1) as u8)];
        let mut put = |at: usize, of: &[u8]| bytes[at..at + of.len()].copy_from_slice(of);
        put(0, &vector.to_bytes());
        put(self.tail + LABEL, &label.to_le_bytes());
        put(self.tail + SCALE, &vector.scale.to_bits().to_le_bytes());
        put(self.tail + STATE, &[State::Live.to_byte()]);
        for (level, links) in (0..).zip(links) {
            put(self.list(level), &self.list_of(level, links));
        }
        bytes
    }

    /// The list of a level that has these links, as it lies in a node.
    pub(crate) fn list_of(&self, level: u8, links: &[NodeId]) -> Vec<u8> {
        let links = &links[..links.len().min(self.capacity(level))];
        let mut bytes = Vec::with_capacity(self.list_bytes(level));
        bytes.push(links.len() as u8);
        NodeId::append(links, &mut bytes);
        bytes
    }

    /// Where a page says how many of its nodes are in use, and so many as it says them.
    pub(crate) fn used_of(used: usize) -> (usize, Vec<u8>) {
        (at::USED, (used as u16).to_le_bytes().to_vec())
    }

    fn stride_of(&self, level: u8) -> usize {
        let room = self.page.bytes() - at::NODES;
        let bytes = self.node_bytes(level).next_multiple_of(8);
        let aligned = bytes.next_multiple_of(64);
        if room / aligned == room / bytes { aligned } else { bytes }
    }

    /// How many nodes of a level a page has room for.
    pub(crate) fn slots(&self, level: u8) -> usize {
        let stride = self.strides[usize::from(level.min(HIGHEST))] as usize;
        ((self.page.bytes() - at::NODES) / stride).min(MOST_SLOTS)
    }

    /// Of how many nodes the vectors are asked for together.
    #[inline(always)]
    pub(crate) fn ahead(&self) -> usize {
        self.ahead
    }

    /// Where a node of level 0 lies in a page.
    #[inline(always)]
    pub(crate) fn lowest<'a>(&self, page: PageRef<'a>, slot: usize) -> NodeRef<'a> {
        NodeRef { page, tail: self.tail, at: at::NODES + slot * self.strides[0] as usize }
    }
}

impl HnswOptions {
    /// Where everything lies in pages of this size.
    ///
    /// # Errors
    /// If an option is not allowed, or vectors are too long.
    pub(crate) fn layout(&self, size: PageSize) -> Result<Layout, VectorError> {
        self.shape.validate()?;
        let option = |what, given, least, most| match (least..=most).contains(&given) {
            true => Ok(()),
            false => Err(VectorError::Option { what, given, least, most }),
        };
        option("the number of links", self.links, LEAST_LINKS, MOST_LINKS)?;
        option("the width of inserts", self.insert_width, 1, MOST_WIDTH)?;
        Layout::new(size, self.shape, self.links)
    }
}

/// A page of nodes to read. It may change meanwhile: answers count once it has been validated.
#[derive(Clone, Copy)]
pub(crate) struct NodePage<'a> {
    page: PageRef<'a>,
}

impl<'a> NodePage<'a> {
    #[inline(always)]
    pub(crate) fn new(page: PageRef<'a>) -> NodePage<'a> {
        NodePage { page }
    }

    /// Whether it is a page of nodes of an index with this layout.
    pub(crate) fn is_of(self, layout: &Layout) -> bool {
        let page = self.page;
        page.u8(header_at::KIND) == PageKind::HNSW_NODES.0
            && page.u8(at::LEVEL) <= HIGHEST
            && page.u64(at::FORM) == layout.form
            && page.u32(at::STRIDE) == layout.strides[usize::from(self.level())]
    }

    /// Whether a node is one of its places.
    pub(crate) fn has(self, node: NodeId) -> bool {
        let end = at::NODES + (node.slot() + 1) * self.page.u32(at::STRIDE) as usize;
        end <= self.page.size() && node.is_above() == (self.level() > 0)
    }

    /// The level of its nodes.
    #[inline(always)]
    pub(crate) fn level(self) -> u8 {
        self.page.u8(at::LEVEL).min(HIGHEST)
    }

    /// How many of its nodes are in use.
    pub(crate) fn used(self) -> usize {
        self.page.u16(at::USED).into()
    }

    /// How many there can be.
    pub(crate) fn slots(self) -> usize {
        let stride = (self.page.u32(at::STRIDE) as usize).max(1);
        ((self.page.size() - at::NODES) / stride).min(MOST_SLOTS)
    }

    /// The node in a place, whatever is there.
    #[inline(always)]
    pub(crate) fn node(self, layout: &Layout, slot: usize) -> NodeRef<'a> {
        let stride = self.page.u32(at::STRIDE) as usize;
        NodeRef { page: self.page, tail: layout.tail, at: at::NODES + slot * stride }
    }

    /// The first place that nobody uses.
    pub(crate) fn free_slot(self, layout: &Layout) -> Option<usize> {
        let slots = self.slots();
        if self.used() >= slots {
            return None;
        }
        (0..slots).find(|slot| self.node(layout, *slot).state() == State::Free)
    }

    /// What every page of nodes must be, whichever its index is.
    pub(crate) fn verify_shape(self) -> Result<(), &'static str> {
        self.own_layout().map(drop)
    }

    /// The layout of its index, as the page itself tells it.
    ///
    /// # Errors
    /// Those of [`NodePage::verify_shape`].
    pub(crate) fn own_layout(self) -> Result<Layout, &'static str> {
        let page = self.page;
        let level = page.u8(at::LEVEL);
        ensure(level <= HIGHEST, "nodes are on a level that there is not")?;
        let layout = self.options()?.layout(page.page_size());
        let layout = layout.map_err(|_| "nodes are of an index that there cannot be")?;
        ensure(page.u64(at::FORM) == layout.form, "nodes are not what their page says")?;
        let fits = layout.node_bytes(level) <= page.size() - at::NODES;
        ensure(fits, "nodes are longer than the page")?;
        let right = page.u32(at::STRIDE) == layout.strides[usize::from(level)];
        ensure(right, "nodes do not lie where they should")?;
        ensure(self.used() <= self.slots(), "more nodes are in use than fit in the page")?;
        Ok(layout)
    }

    /// The options of its index, as the page itself tells them.
    ///
    /// # Errors
    /// What is not known of them. That they are allowed is found by [`NodePage::verify_shape`].
    pub(crate) fn options(self) -> Result<HnswOptions, &'static str> {
        let page = self.page;
        let [element, metric] = [at::ELEMENT, at::METRIC].map(|at| page.u8(at));
        let bytes = page.u32(at::VECTOR_BYTES);
        let shape = VectorShape::of_bytes_in_page(element, metric, bytes)?;
        let (links, insert_width) = (page.u8(at::LINKS).into(), page.u32(at::WIDTH) as usize);
        Ok(HnswOptions { shape, links, insert_width })
    }

    /// As [`NodePage::verify_shape`], and what lies in the nodes (`HNSW-1` to `HNSW-3`).
    pub(crate) fn verify_whole(self) -> Result<(), &'static str> {
        let (layout, page) = (self.own_layout()?, self.page);
        let nodes = || (0..self.slots()).map(|slot| (slot, self.node(&layout, slot)));
        let used = nodes().filter(|(_, node)| node.state() != State::Free).count();
        ensure(used == self.used(), "another number of nodes is in use than the page says")?;
        let number = polder_structure::page::id(page).page();
        for (slot, node) in nodes().filter(|(_, node)| node.state() != State::Free) {
            for level in 0..=self.level() {
                let count = usize::from(page.u8(node.at + layout.list(level)));
                ensure(count <= layout.capacity(level), "a list has more links than it can have")?;
                let mut links = Vec::new();
                node.links(&layout, level, &mut links);
                ensure(links.len() == count, "a link leads nowhere")?;
                let own = NodeId::new(number, self.level(), slot);
                ensure(links.iter().all(|link| Some(*link) != own), "a node leads to itself")?;
                links.sort_unstable();
                let once = links.windows(2).all(|pair| pair[0] != pair[1]);
                ensure(once, "a list leads to a node twice")?;
            }
        }
        Ok(())
    }
}

/// A node to read.
#[derive(Clone, Copy)]
pub(crate) struct NodeRef<'a> {
    page: PageRef<'a>,
    tail: usize,
    at: usize,
}

impl<'a> NodeRef<'a> {
    #[inline(always)]
    pub(crate) fn vector(self, layout: &Layout) -> Run<'a> {
        self.page.run(self.at, layout.vector)
    }

    #[inline(always)]
    pub(crate) fn scale(self) -> f32 {
        f32::from_bits(self.page.u32(self.at + self.tail + SCALE))
    }

    pub(crate) fn label(self) -> u64 {
        self.page.u64(self.at + self.tail + LABEL)
    }

    #[inline(always)]
    pub(crate) fn state(self) -> State {
        State::from_byte(self.page.u8(self.at + self.tail + STATE))
    }

    /// The links of a level. Those that lead nowhere are left out.
    #[inline]
    pub(crate) fn each_link(self, layout: &Layout, level: u8) -> impl Iterator<Item = NodeId> {
        let list = self.at + layout.list(level);
        let count = usize::from(self.page.u8(list)).min(layout.capacity(level));
        let link = move |i| self.page.unaligned_u64(list + 1 + NodeId::BYTES * i);
        (0..count).filter_map(move |i| NodeId::from_bits(link(i)))
    }

    /// Where in the page it begins.
    pub(crate) fn at(self) -> usize {
        self.at
    }

    /// Where in the page the list of a level begins.
    pub(crate) fn list_at(self, layout: &Layout, level: u8) -> usize {
        self.at + layout.list(level)
    }

    /// Appends the links of a level.
    #[inline]
    pub(crate) fn links(self, layout: &Layout, level: u8, links: &mut Vec<NodeId>) {
        links.extend(self.each_link(layout, level));
    }

    /// The links of all levels up to that of the node, the lowest first.
    pub(crate) fn all_links(self, layout: &Layout, highest: u8) -> Vec<Vec<NodeId>> {
        let of = |level| {
            let mut links = Vec::new();
            self.links(layout, level, &mut links);
            links
        };
        (0..=highest).map(of).collect()
    }

    /// Asks the processor for the vector, and label, scale and state behind it.
    #[inline(always)]
    pub(crate) fn prefetch(self, layout: &Layout) {
        self.page.prefetch_l2(self.at, layout.vector_lines);
    }

    /// Asks the processor for label and state.
    #[inline(always)]
    pub(crate) fn prefetch_label(self, layout: &Layout) {
        self.page.run(self.at + layout.tail, LISTS).prefetch();
    }

    /// Asks the processor for what is behind the vector, the links of the lowest level included.
    #[inline(always)]
    pub(crate) fn prefetch_tail(self, layout: &Layout) {
        self.page.prefetch_l2(self.at + layout.tail, layout.tail_lines);
    }

    /// Asks the processor for the list of a level.
    #[inline(always)]
    pub(crate) fn prefetch_links(self, layout: &Layout, level: u8) {
        self.page.run(self.at + layout.list(level), layout.list_bytes(level)).prefetch();
    }

    /// A copy of its vector.
    pub(crate) fn copy(self, layout: &Layout) -> Vector {
        Vector::copy_of(self.vector(layout), self.scale())
    }
}

/// A page of nodes, to be changed.
pub(crate) struct NodePageMut<'a> {
    page: PageMut<'a>,
}

impl<'a> NodePageMut<'a> {
    pub(crate) fn new(page: PageMut<'a>) -> NodePageMut<'a> {
        NodePageMut { page }
    }

    /// Makes an empty page of nodes of this level, of an index into which is inserted with this width.
    pub(crate) fn init(&mut self, layout: &Layout, insert_width: usize, level: u8) {
        self.page.set_u8(at::LEVEL, level);
        self.page.set_u32(at::STRIDE, layout.strides[usize::from(level)]);
        self.page.set_u64(at::FORM, layout.form);
        self.page.set_u32(at::WIDTH, insert_width as u32);
    }

    fn view(&self) -> NodePage<'_> {
        NodePage::new(self.page.as_ref())
    }

    /// Makes a place free.
    pub(crate) fn remove(&mut self, layout: &Layout, slot: usize) {
        self.set_state(layout, slot, State::Free);
        let used = self.view().used().saturating_sub(1);
        self.page.set_u16(at::USED, used as u16);
    }

    pub(crate) fn set_state(&mut self, layout: &Layout, slot: usize, state: State) {
        let node = self.view().node(layout, slot).at;
        self.page.set_u8(node + layout.tail + STATE, state.to_byte());
    }
}
