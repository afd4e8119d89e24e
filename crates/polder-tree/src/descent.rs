//! From the root to a leaf.
//!
//! A descent is a step function, "given this node, which link next?", and a driver that follows
//! the link. The driver here takes one step after the other for one operation; one that keeps many
//! operations going at once can use the same steps.
//!
//! Optimistic lock coupling (leanstore.txt, IV-I): the state of the child is read, then the parent
//! is validated, then the child is read. No latch is taken.

use polder_format::PageNo;
use polder_pool::{Attempt, LinkRef, Optimistic, PoolError, Restart, Space, Translation};

use crate::node::NodeRef;
use crate::snapshot;

/// Page 1 of a space is the root of its tree, always.
pub(crate) const ROOT: u64 = 1;
/// A tree of more levels than this would have more leaves than there are page numbers.
pub(crate) const MAX_HEIGHT: usize = 40;

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

/// The driver: descends to the leaf for `target`, one step after the other.
#[inline(always)]
pub(crate) fn leaf<'p, T: Translation>(
    space: &'p Space<T>,
    attempt: &mut Attempt<'p>,
    target: Target<'_>,
) -> Result<Optimistic<'p>, Restart> {
    if T::NOT_BY_COPY.is_none() && attempt.takes_snapshots() {
        return snapshot::leaf(space, attempt, target);
    }
    let mut page = space.root(attempt, PageNo::new(ROOT).ok_or(Restart)?)?;
    for _ in 0..MAX_HEIGHT {
        let node = NodeRef::new(page.page());
        let level = node.level();
        if level == 0 {
            return Ok(page);
        }
        let link = LinkRef::InPage(page.page(), next_link(node, target));
        page = space.follow(attempt, link, Some(&page))?;
        if level == 1 {
            NodeRef::new(page.page()).prefetch();
        }
    }
    Err(too_deep(attempt, page))
}

/// A node, and the parent with the link that led to it (none for the root).
pub(crate) struct Place<'p> {
    pub(crate) page: Optimistic<'p>,
    pub(crate) parent: Option<(Optimistic<'p>, usize)>,
}

/// Descends to the node of `level` that covers `key`, for who wants to change its parent as well.
/// If the tree is not that high: to the root.
pub(crate) fn descend<'p, T: Translation>(
    space: &'p Space<T>,
    attempt: &mut Attempt<'p>,
    key: &[u8],
    level: u8,
) -> Result<Place<'p>, Restart> {
    let root = PageNo::new(ROOT).ok_or(Restart)?;
    let mut place = Place { page: space.root(attempt, root)?, parent: None };
    for _ in 0..MAX_HEIGHT {
        let node = NodeRef::new(place.page.page());
        if node.level() <= level {
            return Ok(place);
        }
        let at = next_link(node, Target::Key(key));
        let link = LinkRef::InPage(place.page.page(), at);
        let child = space.follow(attempt, link, Some(&place.page))?;
        place = Place { page: child, parent: Some((place.page, at)) };
    }
    Err(too_deep(attempt, place.page))
}

#[cold]
pub(crate) fn too_deep(attempt: &mut Attempt<'_>, page: Optimistic<'_>) -> Restart {
    let broken = PoolError::Broken { page: page.id(), what: "the tree's links form a circle" };
    match page.validate() {
        Ok(()) => attempt.fail(broken),
        Err(restart) => restart,
    }
}
