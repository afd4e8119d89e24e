//! Changing a node: splitting and joining its children, and itself.

use std::ops::Range;

use polder_format::{PageKind, header_at};
use polder_pool::bytes::PageMut;
use polder_structure::page::{copy_of, id};

use super::{LINK_BYTES, NodeRef, Run, SLOT_BYTES, at, max_children, max_depth};
use crate::hash::{KeyHash, Prefix, Side};
use crate::page::{self, LAYOUT_VERSION};

/// What of a node has changed, to be logged: besides the header these slots and this link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Where the slots lie in the page.
    pub slots: Range<usize>,
    /// Where the link begins.
    pub link: Option<usize>,
}

impl Edit {
    /// The bytes of the header that an edit of children changes: count and depth.
    pub const HEADER: Range<usize> = at::COUNT..at::DEPTH + 1;
}

/// A node to change, in a page that is held exclusively.
pub struct NodeMut<'a> {
    page: PageMut<'a>,
}

impl<'a> NodeMut<'a> {
    /// The node in `page`: one that was checked, or that [`NodeMut::init`] is about to make.
    pub fn new(page: PageMut<'a>) -> NodeMut<'a> {
        NodeMut { page }
    }

    /// The same node, to read.
    pub fn node(&self) -> NodeRef<'_> {
        NodeRef::new(self.page.as_ref())
    }

    /// Makes a node with two children of what the page holds, whatever that is.
    pub fn init(&mut self, level: u8, prefix: Prefix, links: [u64; 2]) {
        self.clear(level, prefix, 1);
        for (index, link) in links.into_iter().enumerate() {
            self.push_link(link);
            self.set_slot(index, index);
        }
    }

    /// A node without children; of the page header only kind and layout version are written.
    fn clear(&mut self, level: u8, prefix: Prefix, depth: u8) {
        self.page.set_u8(header_at::KIND, PageKind::HASH_NODE.0);
        self.page.set_u8(header_at::LAYOUT, LAYOUT_VERSION);
        self.page.zero(at::LEVEL, at::LINKS - at::LEVEL);
        self.page.set_u8(at::LEVEL, level);
        self.page.set_u8(at::DEPTH, depth);
        page::set_prefix(&mut self.page, prefix);
    }

    /// Makes this node what `other` is, in another page of the same size.
    pub fn copy_content_from(&mut self, other: NodeRef<'_>) {
        let (from, begin) = (other.page(), at::LEVEL);
        self.clear(other.level(), Prefix::ALL, 0);
        self.page.copy_from(from, begin, begin, from.size() - begin);
        for index in 0..other.count() {
            self.set_link(index, other.link(index));
        }
    }

    /// Splits the child for a hash, for which there is room: `link` gets one side of its prefix. Gives
    /// what has changed.
    pub fn split_child(&mut self, hash: KeyHash, link: u64, side: Side) -> Edit {
        debug_assert!(self.node().has_room_to_split(hash));
        let deepens = self.node().run(self.node().slot_of(hash)).len == 1;
        if deepens {
            self.deepen();
        }
        let run = self.node().run(self.node().slot_of(hash));
        let half = run.len / 2;
        let first = if side == Side::Low { run.first } else { run.first + half };
        let new = Run { first, len: half };
        let index = self.push_link(link);
        new.slots().for_each(|slot| self.set_slot(slot, index));
        let slots = if deepens { 0..self.node().slots() } else { new.slots() };
        self.edit(slots, Some(index))
    }

    /// The child for a hash and its buddy are one, to which the low one's link leads. Gives what has
    /// changed; `None`, and nothing has, if they are no buddies.
    pub fn join_children(&mut self, hash: KeyHash) -> Option<Edit> {
        let node = self.node();
        node.buddies(hash)?;
        let run = node.run(node.slot_of(hash));
        let (run, buddy) =
            if run.first < run.buddy().first { (run, run.buddy()) } else { (run.buddy(), run) };
        let (kept, gone) = (node.child(run.first), node.child(buddy.first));
        buddy.slots().for_each(|slot| self.set_slot(slot, kept));
        // The last link takes the place of the one that goes.
        let last = self.node().count().saturating_sub(1);
        let slots = self.node().slots();
        if gone != last {
            let link = self.page.u64(self.node().link_offset(last));
            self.set_link(gone, link);
            let of_last = |node: NodeRef<'_>, slot: usize| node.child(slot) == last;
            for slot in 0..slots {
                if of_last(self.node(), slot) {
                    self.set_slot(slot, gone);
                }
            }
        }
        self.page.set_u16(at::COUNT, last as u16);
        self.flatten();
        Some(self.edit(0..self.node().slots(), (gone != last).then_some(gone)))
    }

    /// Moves the children of the high side to another node, which gets that half of the prefix; this
    /// one keeps the low half. The depth is at least 1.
    pub fn split_into(&mut self, high: &mut NodeMut<'_>) {
        let whole = copy_of(self.page.as_ref());
        let whole = NodeRef::new(whole.page());
        self.take_half(whole, Side::Low);
        high.take_half(whole, Side::High);
    }

    /// Becomes one half of `whole`.
    pub(crate) fn take_half(&mut self, whole: NodeRef<'_>, side: Side) {
        let depth = whole.depth().saturating_sub(1);
        self.clear(whole.level(), whole.prefix().half(side), depth);
        self.push_slots(whole, whole.half(side), 0, 1);
        self.flatten();
    }

    /// Takes in the children of the node on the high side, for which there is room.
    pub fn absorb(&mut self, high: NodeRef<'_>) {
        let low = copy_of(self.page.as_ref());
        let low = NodeRef::new(low.page());
        let depth = low.depth().max(high.depth());
        self.clear(low.level(), low.prefix().whole(), depth + 1);
        for (node, first) in [(low, 0), (high, 1 << depth)] {
            self.push_slots(node, 0..node.slots(), first, 1 << (depth - node.depth()));
        }
        self.flatten();
    }

    /// Copies slots of another node and the children in them, from slot `to` on, each `times` times.
    fn push_slots(&mut self, from: NodeRef<'_>, slots: Range<usize>, mut to: usize, times: usize) {
        let mut before = None;
        for slot in slots {
            let child = from.child(slot);
            let index = match before {
                Some((known, index)) if known == child => index,
                // Links stay as they are, swizzled or not, only in their page.
                _ => match self.is_page_of(from) {
                    true => self.push_link(from.page().u64(from.link_offset(child))),
                    false => self.push_link(from.link(child)),
                },
            };
            before = Some((child, index));
            (to..to + times).for_each(|slot| self.set_slot(slot, index));
            to += times;
        }
    }

    /// Whether `other` is this page, or a copy of it.
    fn is_page_of(&self, other: NodeRef<'_>) -> bool {
        id(self.page.as_ref()) == id(other.page())
    }

    /// One bit deeper: each slot twice.
    fn deepen(&mut self) {
        let node = self.node();
        let children: Vec<usize> = (0..node.slots()).map(|slot| node.child(slot)).collect();
        let depth = (node.depth() + 1).min(max_depth(self.page.size()));
        self.page.set_u8(at::DEPTH, depth);
        for (slot, child) in children.into_iter().enumerate() {
            self.set_slot(2 * slot, child);
            self.set_slot(2 * slot + 1, child);
        }
    }

    /// `HNODE-2`: as deep as the children need.
    fn flatten(&mut self) {
        loop {
            let node = self.node();
            let slots = node.slots();
            let needed = (0..slots).step_by(2).any(|slot| node.child(slot) != node.child(slot | 1));
            if node.depth() == 0 || needed {
                return;
            }
            let children: Vec<usize> = (0..slots).step_by(2).map(|slot| node.child(slot)).collect();
            let depth = node.depth() - 1;
            self.page.set_u8(at::DEPTH, depth);
            children.into_iter().enumerate().for_each(|(slot, child)| self.set_slot(slot, child));
        }
    }

    fn push_link(&mut self, link: u64) -> usize {
        let index = self.node().count();
        if index < max_children(self.page.size()) {
            self.set_link(index, link);
            self.page.set_u16(at::COUNT, index as u16 + 1);
        }
        index
    }

    fn set_link(&mut self, index: usize, link: u64) {
        if index < max_children(self.page.size()) {
            self.page.set_u64(at::LINKS + LINK_BYTES * index, link);
        }
    }

    fn set_slot(&mut self, slot: usize, child: usize) {
        let node = self.node();
        if slot < node.slots() {
            let at = node.slots_at(node.depth()) + SLOT_BYTES * slot;
            self.page.set_u16(at, child as u16);
        }
    }

    fn edit(&self, slots: Range<usize>, link: Option<usize>) -> Edit {
        let node = self.node();
        let begin = node.slots_at(node.depth());
        Edit {
            slots: begin + SLOT_BYTES * slots.start..begin + SLOT_BYTES * slots.end,
            link: link.map(|index| node.link_offset(index)),
        }
    }
}
