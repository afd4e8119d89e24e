//! The steps of a descent: given this node, which link is next?
//!
//! The steps know no driver. The drivers that follow the links are those of all structures
//! ([`polder_structure::levels`]) and, where the pool's readers take snapshots, the one of
//! `snapshot.rs`.

use std::cmp::Ordering;

use polder_pool::bytes::PageRef;
use polder_structure::Levels;
use polder_structure::levels::Seen;

use crate::node::NodeRef;

/// Where a descent goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'k> {
    /// To the leaf that covers this key.
    Key(&'k [u8]),
    /// To the leaf that covers the keys just below this one.
    Before(&'k [u8]),
    /// To the first leaf.
    First,
    /// To the last leaf.
    Last,
}

/// Which way a walk goes, and how far: the last key that is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Course<'k> {
    /// To higher keys.
    Up(Option<&'k [u8]>),
    /// To lower keys.
    Down(Option<&'k [u8]>),
}

/// The step function: the offset of the link to follow.
#[inline(always)]
pub(crate) fn next_link(node: NodeRef<'_>, target: Target<'_>) -> usize {
    match target {
        Target::Key(key) => node.child_at(key),
        Target::Before(key) => node.child_before(key),
        Target::First => node.link_offset(0),
        Target::Last => node.link_offset(node.count()),
    }
}

/// The pages of a tree, as its descents see them.
pub(crate) enum TreePages {}

impl Levels for TreePages {
    type Target<'t> = Target<'t>;

    #[inline(always)]
    fn level(page: PageRef<'_>) -> u8 {
        NodeRef::new(page).level()
    }

    #[inline(always)]
    fn prefetch(page: PageRef<'_>) {
        NodeRef::new(page).prefetch();
    }

    #[inline(always)]
    fn prefetch_inner(page: PageRef<'_>) {
        NodeRef::new(page).prefetch_hints();
    }

    fn child(page: PageRef<'_>, target: Target<'_>) -> usize {
        let node = NodeRef::new(page);
        match target {
            Target::Key(key) => node.child_index(key),
            Target::Before(key) => node.child_index_before(key),
            Target::First => 0,
            Target::Last => node.count(),
        }
    }

    fn link_offset(page: PageRef<'_>, child: usize) -> usize {
        NodeRef::new(page).link_offset(child)
    }

    fn verify_root(page: PageRef<'_>) -> Seen {
        NodeRef::new(page).verify_root()
    }

    fn verify_child(page: PageRef<'_>, child: usize, below: PageRef<'_>) -> Seen {
        NodeRef::new(page).verify_child(child, NodeRef::new(below))
    }

    /// That this is a node, and the one of its level that the target lies in.
    fn covers(page: PageRef<'_>, target: Target<'_>) -> Seen {
        let node = NodeRef::new(page);
        if !node.is_node() {
            return Err("this is not a node of a tree");
        }
        match standing(node, target) {
            Ordering::Equal => Ok(()),
            _ => Err("the fences do not enclose the keys that lead to this node"),
        }
    }

    fn verify_whole(page: PageRef<'_>) -> Seen {
        NodeRef::new(page).verify_whole()
    }
}

/// Where the target stands to the node: `Equal` if it is the one of its level that covers it.
pub(crate) fn standing(node: NodeRef<'_>, target: Target<'_>) -> Ordering {
    match target {
        Target::Key(key) => node.compare_to_fences(key),
        Target::Before(key) => node.compare_below_to_fences(key),
        Target::First if node.has_lower() => Ordering::Less,
        Target::Last if node.has_upper() => Ordering::Greater,
        Target::First | Target::Last => Ordering::Equal,
    }
}
