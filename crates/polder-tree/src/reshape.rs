//! Splitting and merging nodes: what a tree brings to [`polder_structure::reshape`], which says
//! which pages are latched when (`RESHAPE-1` to `RESHAPE-5`).
//!
//! A split takes keys from the upper end of a node, and a merge adds some there: the lower fence of a
//! node stays what it is, which is what readers of snapshots rely on (`snapshot.rs`). Both parts of a
//! split are logged by where it was divided (the right one as a full-page image where `HALF-1` wants it),
//! what else changes as full-page images.

use polder_format::log::Operation;
use polder_pool::bytes::PageRef;
use polder_pool::{Attempt, Change, Exclusive, Optimistic, Restart, Shadow, Space, Translation};
use polder_structure::Reshape;
use polder_structure::reshape::{
    Divided, JOIN_FREE_PART, Need, Needed, is_underfull, join_at, make_room,
};

use crate::descent::{Target, TreePages};
use crate::error::TreeError;
use crate::node::{NewValue, NodeMut, NodeRef, Split};
use crate::tree::Tree;

/// What must go into a node that is to be split.
#[derive(Clone, Copy)]
pub(crate) enum Newcomer<'a> {
    Entry(&'a [u8], NewValue<'a>),
    /// Several entries of one leaf: keys, and the bytes that they take at most.
    Entries(&'a [(&'a [u8], usize)]),
    Separator(&'a [u8]),
}

impl Newcomer<'_> {
    fn key(&self) -> &[u8] {
        match self {
            Newcomer::Entry(key, _) | Newcomer::Separator(key) => key,
            Newcomer::Entries(entries) => entries.first().map_or(&[], |(key, _)| key),
        }
    }

    /// Bytes that it takes at most, slot included.
    fn bytes_at_most(&self) -> usize {
        if let Newcomer::Entries(entries) = self {
            return entries.iter().map(|(_, bytes)| bytes).sum();
        }
        let stored = match self {
            Newcomer::Entry(_, NewValue::Inline(bytes)) => bytes.len(),
            _ => 16,
        };
        self.key().len() + stored + 32
    }

    /// What of it belongs to this node, which the first key led to: others may have split it since
    /// the entries were found to have no room.
    fn within(self, node: NodeRef<'_>) -> Self {
        let Newcomer::Entries(entries) = self else { return self };
        let covered = |(key, _): &&(&[u8], usize)| node.compare_to_fences(key).is_eq();
        Newcomer::Entries(&entries[..entries.iter().take_while(covered).count()])
    }

    fn choose(&self, node: NodeRef<'_>) -> Option<Split> {
        match *self {
            Newcomer::Entry(key, value) => node.choose_leaf_split(key, value),
            Newcomer::Entries(entries) => node.choose_leaf_split_for(entries),
            Newcomer::Separator(key) => node.choose_inner_split(key),
        }
    }
}

impl<T: Translation> Tree<T> {
    /// Splits the leaf that covers the newcomer's key, so that it has room for it.
    pub(crate) fn split_leaf(&self, newcomer: Newcomer<'_>) -> Result<(), TreeError> {
        make_room::<TreePages, T>(&self.space, newcomer)?;
        Ok(())
    }

    /// The leaf that covers `key` has become small: merges it with its neighbours, as far as they have
    /// room.
    ///
    /// # Errors
    /// Those of loading pages, and of the log; nothing is lost then.
    pub fn merge_at(&self, key: &[u8]) -> Result<(), TreeError> {
        Ok(join_at::<TreePages, T>(&self.space, Target::Key(key))?)
    }
}

impl Reshape for TreePages {
    type Newcomer<'n> = Newcomer<'n>;
    type Split = Split;

    fn target<'n>(newcomer: &'n Newcomer<'_>) -> Target<'n> {
        Target::Key(newcomer.key())
    }

    /// An inner node by a copy, where the pool's readers take snapshots; a leaf in place: a thread
    /// that reads it wants its latest state.
    fn latch<'p, T: Translation>(
        space: &'p Space<T>,
        attempt: &mut Attempt<'p>,
        page: Optimistic<'p>,
    ) -> Result<Shadow<'p, T>, Restart> {
        if NodeRef::new(page.page()).is_leaf() {
            attempt.upgrade(page).map(Shadow::from)
        } else {
            space.shadow(attempt, page)
        }
    }

    fn need(page: PageRef<'_>, newcomer: Newcomer<'_>) -> Needed<Split> {
        let node = NodeRef::new(page);
        let newcomer = newcomer.within(node);
        let free = node.usable_bytes().saturating_sub(node.used_bytes());
        if free >= newcomer.bytes_at_most() {
            return Ok(Need::Nothing);
        }
        match newcomer.choose(node) {
            None => Ok(Need::Nothing),
            Some(split) if node.admits(&split) => Ok(Need::Split(split)),
            // What its redo would refuse is no split: it divides keys that are not in order.
            Some(_) => Err("keys are not in order, or not within the fences"),
        }
    }

    fn has_room(parent: PageRef<'_>, split: &Split) -> bool {
        NodeRef::new(parent).has_room_for_child(&split.separator)
    }

    fn in_parent(split: &Split) -> Newcomer<'_> {
        Newcomer::Separator(&split.separator)
    }

    fn divide(change: &mut Change<'_>, split: &Split, pages: Divided<'_, '_>) {
        let [parent, node, right] = pages;
        let (separator, right_link) = (split.separator.as_slice(), right.id().to_bits());
        let inserted = NodeMut::new(parent.page_mut()).insert_child(separator, right_link);
        debug_assert!(inserted.is_ok(), "RESHAPE-3: there was room");
        let mut right_node = NodeMut::new(right.page_mut());
        NodeMut::new(node.page_mut()).split_into(&mut right_node, right_link, split);
        change.push(parent.id(), &Operation::InsertChild { link: right_link, separator });
        let left_count = split.left_count() as u32;
        change.push(node.id(), &Operation::Split { left_count, right: right_link, separator });
        let hole = NodeRef::new(right.page()).hole();
        change.push_right_half(node, right, (left_count, separator), hole);
    }

    fn divide_root(change: &mut Change<'_>, split: &Split, pages: Divided<'_, '_>) {
        let [root, left, right] = pages;
        let level = NodeRef::new(root.page()).level();
        let (left_link, right_link) = (left.id().to_bits(), right.id().to_bits());
        let mut left_node = NodeMut::new(left.page_mut());
        left_node.copy_content_from(NodeRef::new(root.page()));
        left_node.split_into(&mut NodeMut::new(right.page_mut()), right_link, split);
        let mut above = NodeMut::new(root.page_mut());
        above.init(level + 1, None, None, 0, left_link);
        let inserted = above.insert_child(&split.separator, right_link);
        debug_assert!(inserted.is_ok(), "an empty node has room for any key");
        [left, right, root].into_iter().for_each(|page| push_node(change, page));
    }

    /// With the node on the right, else with that on the left; neither if the node is full enough.
    fn neighbours(
        parent: PageRef<'_>,
        child: usize,
        page: PageRef<'_>,
    ) -> impl Iterator<Item = [usize; 2]> {
        let count = NodeRef::new(parent).count();
        let left_ones = [Some(child), child.checked_sub(1)].into_iter().flatten();
        let left_ones = left_ones.filter(move |left| *left < count);
        let few = if is_small(NodeRef::new(page)) { 2 } else { 0 };
        left_ones.take(few).map(|left| [left, left + 1])
    }

    fn is_worth_joining(left: PageRef<'_>, right: PageRef<'_>) -> bool {
        let (left, right) = (NodeRef::new(left), NodeRef::new(right));
        let usable = left.usable_bytes().min(right.usable_bytes());
        let both = left.used_bytes() + right.used_bytes();
        // An empty node goes wherever it can.
        let is_empty = left.count() == 0 || right.count() == 0;
        let reserve = if is_empty { 0 } else { usable / JOIN_FREE_PART };
        both + reserve <= usable && left.can_merge(right)
    }

    fn join(
        change: &mut Change<'_>,
        [_, right_child]: [usize; 2],
        [parent, left]: [&mut Exclusive<'_>; 2],
        right: PageRef<'_>,
    ) -> bool {
        if NodeMut::new(left.page_mut()).merge_right(NodeRef::new(right)).is_err() {
            left.set_unlogged();
            return false;
        }
        NodeMut::new(parent.page_mut()).remove_child(right_child);
        change.push(parent.id(), &Operation::RemoveChild { index: right_child as u32 });
        push_node(change, left);
        true
    }

    fn is_small(parent: PageRef<'_>) -> bool {
        let node = NodeRef::new(parent);
        is_small(node) || node.count() == 0
    }

    fn only_child(root: PageRef<'_>) -> Option<usize> {
        let node = NodeRef::new(root);
        (node.level() > 0 && node.count() == 0).then_some(0)
    }

    fn lift(change: &mut Change<'_>, root: &mut Exclusive<'_>, child: PageRef<'_>) {
        NodeMut::new(root.page_mut()).copy_content_from(NodeRef::new(child));
        push_node(change, root);
    }
}

/// Whether a node is so empty that it is worth a look at its neighbour.
pub(crate) fn is_small(node: NodeRef<'_>) -> bool {
    is_underfull(node.used_bytes(), node.usable_bytes())
}

/// Pushes a full-page image of a node.
pub(crate) fn push_node(change: &mut Change<'_>, page: &mut Exclusive<'_>) {
    let hole = NodeRef::new(page.page()).hole();
    change.push_full_page_image(page, hole);
}
