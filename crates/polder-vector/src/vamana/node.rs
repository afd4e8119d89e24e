//! Nodes: a whole vector, with its links.
//!
//! ```text
//!   node   | entry 5 | state 1 | - 2 | label 8 | parent 5 | children 1 | links 1 | - 1 | scale 4 | - 4
//!          | vector, padded to 8 | links of 5 bytes |
//! ```
//!
//! * `VAMANA-5` The nodes are a tree. The one at which searches begin is its root, and has no parent; of
//!   each other one the parent is a node, among whose first links, those to its children, is one to it.
//!   So every node is reached from the root, whatever other links are left out.
//! * `VAMANA-6` A list leads to no entry twice, and not to its own.

use polder_pool::bytes::Run;
use polder_structure::levels::root;

use super::layout::{Kind, Layout, OWN, VECTOR, list_at, node_bytes};
use super::slots::{Slot, SlotPageMut};
use crate::node_id::NodeId;
use crate::vectors::Vector;

const PARENT: usize = OWN;
const SCALE: usize = OWN + 8;
/// Where the two numbers of links stand in the word of the parent.
const CHILDREN_SHIFT: u32 = 40;
const COUNT_SHIFT: u32 = 48;

/// The links of a node, those to its children first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct List {
    pub(super) children: usize,
    pub(super) links: Vec<NodeId>,
}

impl List {
    pub(super) fn children(&self) -> &[NodeId] {
        &self.links[..self.children]
    }

    /// Leads to a child as well, and to no other node less, but for the last one of at most `most`.
    pub(super) fn add_child(&mut self, child: NodeId, most: usize) {
        self.remove(child);
        self.links.insert(self.children, child);
        self.children += 1;
        self.links.truncate(most);
    }

    /// Does not lead to a node any more.
    pub(super) fn remove(&mut self, node: NodeId) {
        if let Some(at) = self.links.iter().position(|link| *link == node) {
            self.links.remove(at);
            self.children -= usize::from(at < self.children);
        }
    }

    /// Has one child in the place of another one.
    pub(super) fn replace_child(&mut self, old: NodeId, new: NodeId) {
        self.remove(new);
        let child = self.links.iter_mut().take(self.children).find(|link| **link == old);
        child.into_iter().for_each(|link| *link = new);
    }
}

impl<'a> Slot<'a> {
    #[inline(always)]
    pub(super) fn vector(self, layout: &Layout) -> Run<'a> {
        self.page.run(self.at + VECTOR, layout.vector)
    }

    #[inline(always)]
    pub(super) fn scale(self) -> f32 {
        f32::from_bits(self.page.u32(self.at + SCALE))
    }

    /// A copy of its vector.
    pub(super) fn copy(self, layout: &Layout) -> Vector {
        Vector::copy_of(self.vector(layout), self.scale())
    }

    /// The entry of its parent.
    pub(super) fn parent(self) -> Option<NodeId> {
        NodeId::from_bits(self.page.u64(self.at + PARENT))
    }

    /// How many of its links lead to its children.
    pub(super) fn children(self, layout: &Layout) -> usize {
        let children = usize::from((self.page.u64(self.at + PARENT) >> CHILDREN_SHIFT) as u8);
        children.min(self.count(layout))
    }

    fn count(self, layout: &Layout) -> usize {
        usize::from((self.page.u64(self.at + PARENT) >> COUNT_SHIFT) as u8).min(layout.links)
    }

    /// Appends its links. Those that lead nowhere are left out.
    #[inline]
    pub(super) fn links(self, layout: &Layout, links: &mut Vec<NodeId>) {
        let list = self.at + list_at(layout.vector);
        let link = |i| NodeId::from_bits(self.page.unaligned_u64(list + NodeId::BYTES * i));
        // VAMANA-6: an entry has one name, and none is in the first page.
        let is_name = |link: &NodeId| !link.is_above() && link.page() != root();
        links.extend((0..self.count(layout)).filter_map(link).filter(is_name));
    }

    pub(super) fn list(self, layout: &Layout) -> List {
        let mut links = Vec::with_capacity(layout.links);
        self.links(layout, &mut links);
        List { children: self.children(layout).min(links.len()), links }
    }

    /// Whether no link leads nowhere, and there are as many as the node says.
    pub(super) fn is_whole(self, layout: &Layout) -> bool {
        let word = self.page.u64(self.at + PARENT);
        let count = usize::from((word >> COUNT_SHIFT) as u8);
        let children = usize::from((word >> CHILDREN_SHIFT) as u8);
        let list = self.list(layout);
        list.links.len() == count && children <= layout.most_children().min(count)
    }

    /// Asks the processor for all of a node.
    #[inline(always)]
    pub(super) fn prefetch_node(self, layout: &Layout) {
        let bytes = node_bytes(layout.vector, layout.links);
        self.page.run(self.at & !63, (self.at & 63) + bytes).prefetch();
    }
}

impl Layout {
    /// What a node's list is written by: bytes, and where in the page.
    pub(super) fn writes_of(&self, slot: usize, list: &List) -> [(usize, Vec<u8>); 2] {
        let at = self.place_at(Kind::Nodes, slot);
        let links = &list.links[..list.links.len().min(self.links)];
        let counts = vec![list.children as u8, links.len() as u8];
        let mut bytes = Vec::with_capacity(NodeId::BYTES * links.len());
        NodeId::append(links, &mut bytes);
        [(at + PARENT + CHILDREN_SHIFT as usize / 8, counts), (at + list_at(self.vector), bytes)]
    }
}

impl SlotPageMut<'_> {
    /// Puts the node of a vector in a place that is free.
    pub(super) fn insert_node(
        &mut self,
        layout: &Layout,
        slot: usize,
        names: (NodeId, u64),
        vector: &Vector,
        (parent, list): (Option<NodeId>, &List),
    ) {
        let at = self.take(layout, Kind::Nodes, slot, names);
        self.page.set_u32(at + SCALE, vector.scale.to_bits());
        self.page.write(at + VECTOR, &vector.to_bytes());
        self.set_list(layout, slot, list);
        self.set_parent(layout, slot, parent);
    }

    pub(super) fn set_list(&mut self, layout: &Layout, slot: usize, list: &List) {
        let writes = layout.writes_of(slot, list);
        writes.iter().for_each(|(at, bytes)| self.page.write(*at, bytes));
    }

    pub(super) fn set_parent(&mut self, layout: &Layout, slot: usize, parent: Option<NodeId>) {
        let at = self.at(layout, Kind::Nodes, slot);
        let counts = self.page.as_ref().u64(at + PARENT) & !((1 << CHILDREN_SHIFT) - 1);
        self.page.set_u64(at + PARENT, counts | parent.map_or(0, NodeId::to_bits));
    }
}
