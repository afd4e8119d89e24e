//! The way of a lookup: from the root to a leaf, by whichever driver the attempt asks for.

use polder_format::PageKind;
use polder_pool::{Attempt, Exclusive, Optimistic, Restart, Space, Translation};
use polder_structure::levels::lowest;
use polder_structure::page::latch_kind;

use crate::descent::{Target, TreePages, next_link};
use crate::node::NodeRef;
use crate::snapshot;

/// Descends to the leaf for `target`. Each node is taken for what the node above says of it.
#[inline(always)]
pub(crate) fn leaf<'p, T: Translation>(
    space: &'p Space<T>,
    attempt: &mut Attempt<'p>,
    target: Target<'_>,
) -> Result<Optimistic<'p>, Restart> {
    if T::READ_MODES.no_copies.is_none() && attempt.takes_snapshots() {
        return snapshot::leaf(space, attempt, target);
    }
    // What kind of target it is, is asked once and not at each node.
    match target {
        Target::Key(key) => {
            lowest::<TreePages, T>(space, attempt, |page| NodeRef::new(page).child_at(key))
        }
        other => {
            lowest::<TreePages, T>(space, attempt, |page| next_link(NodeRef::new(page), other))
        }
    }
}

/// Latches a leaf to change it.
#[inline(always)]
pub(crate) fn latch_leaf<'p>(
    attempt: &mut Attempt<'p>,
    leaf: Optimistic<'p>,
) -> Result<Exclusive<'p>, Restart> {
    latch_kind(attempt, leaf, PageKind::TREE_LEAF, "this is not a leaf of a tree")
}
