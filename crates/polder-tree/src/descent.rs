//! From the root to a leaf.
//!
//! A descent is a step function, "given this node, which link next?", and a driver that follows
//! the link. The driver here takes one step after the other for one operation; one that keeps many
//! operations going at once can use the same steps.
//!
//! Optimistic lock coupling (leanstore.txt, IV-I): the state of the child is read, then the parent
//! is validated, then the child is read. No latch is taken.
//!
//! A lookup takes each page for what the page above says of it. Whoever wants to change more than a
//! leaf, or has reason to doubt, goes by [`descend`], which compares them.

use std::cmp::Ordering;

use polder_format::{PageId, PageKind, PageNo};
use polder_pool::Translation;
use polder_pool::{AccessHint, Attempt, Exclusive, LinkRef, Optimistic, PoolError, Restart, Space};

use crate::error::TreeError;
use crate::node::NodeRef;
use crate::snapshot;
use crate::tree::Tree;

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
    if T::READ_MODES.no_copies.is_none() && attempt.takes_snapshots() {
        return snapshot::leaf(space, attempt, target);
    }
    // What kind of target it is, is asked once and not at each node.
    match target {
        Target::Key(key) => leaf_by(space, attempt, |node| node.child_at(key)),
        other => leaf_by(space, attempt, |node| next_link(node, other)),
    }
}

#[inline(always)]
fn leaf_by<'p, T: Translation>(
    space: &'p Space<T>,
    attempt: &mut Attempt<'p>,
    link_in: impl Fn(NodeRef<'_>) -> usize,
) -> Result<Optimistic<'p>, Restart> {
    let mut page = space.root(attempt, PageNo::new(ROOT).ok_or(Restart)?)?;
    for _ in 0..MAX_HEIGHT {
        let node = NodeRef::new(page.page());
        let level = node.level();
        if level == 0 {
            return Ok(page);
        }
        let link = LinkRef::InPage(page.page(), link_in(node));
        page = space.follow(attempt, link, Some(&page))?;
        if level == 1 {
            NodeRef::new(page.page()).prefetch();
        }
    }
    Err(too_deep(attempt, page))
}

/// A node, and the parent with the number of the link that led to it (none for the root).
pub(crate) struct Place<'p> {
    pub(crate) page: Optimistic<'p>,
    pub(crate) parent: Option<(Optimistic<'p>, usize)>,
}

/// Descends to the node of `level` for `target`, for who wants to change its parent as well. If the
/// tree is not that high: to the root. Levels and fences are what the page above says: so nothing
/// that follows from them goes on for ever.
pub(crate) fn descend<'p, T: Translation>(
    space: &'p Space<T>,
    attempt: &mut Attempt<'p>,
    target: Target<'_>,
    level: u8,
) -> Result<Place<'p>, Restart> {
    let root = space.root(attempt, PageNo::new(ROOT).ok_or(Restart)?)?;
    ensure(attempt, &[root], verify_root(NodeRef::new(root.page())))?;
    let mut place = Place { page: root, parent: None };
    // Each step goes down by one level.
    loop {
        let (above, node) = (place.page, NodeRef::new(place.page.page()));
        if node.level() <= level {
            return Ok(place);
        }
        let index = child_index(node, target);
        let link = LinkRef::InPage(above.page(), node.link_offset(index));
        let child = space.follow(attempt, link, Some(&above))?;
        let below = NodeRef::new(child.page());
        let seen = node.verify_child(index, below).and_then(|()| covers(below, target));
        ensure(attempt, &[child, above], seen)?;
        place = Place { page: child, parent: Some((above, index)) };
    }
}

fn verify_root(node: NodeRef<'_>) -> Result<(), &'static str> {
    node.verify_root()?;
    match usize::from(node.level()) < MAX_HEIGHT {
        true => Ok(()),
        false => Err("the tree has more levels than any tree"),
    }
}

/// That this is a node, and the one of its level that the target lies in.
pub(crate) fn covers(node: NodeRef<'_>, target: Target<'_>) -> Result<(), &'static str> {
    if !node.is_node() {
        return Err("this is not a node of a tree");
    }
    match standing(node, target) {
        Ordering::Equal => Ok(()),
        _ => Err("the fences do not enclose the keys that lead to this node"),
    }
}

/// Latches a leaf to change it. Nobody writes to a page that is no leaf, whatever leads there.
#[inline(always)]
pub(crate) fn latch_leaf<'p>(
    attempt: &mut Attempt<'p>,
    leaf: Optimistic<'p>,
) -> Result<Exclusive<'p>, Restart> {
    let leaf = attempt.upgrade(leaf)?;
    match NodeRef::new(leaf.page()).kind() {
        PageKind::TREE_LEAF => Ok(leaf),
        _ => Err(fail(attempt, leaf.id(), "this is not a leaf of a tree")),
    }
}

/// The number of the link to follow.
fn child_index(node: NodeRef<'_>, target: Target<'_>) -> usize {
    match target {
        Target::Key(key) => node.child_index(key),
        Target::Before(key) => node.child_index_before(key),
        Target::First => 0,
        Target::Last => node.count(),
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

/// Ends the operation if what was seen in these pages contradicts itself, and they were so at one
/// time. The first of them is the one that is named.
pub(crate) fn ensure<'p>(
    attempt: &mut Attempt<'p>,
    pages: &[Optimistic<'p>],
    seen: Result<(), &'static str>,
) -> Result<(), Restart> {
    match (seen, pages) {
        (Err(what), [page, ..]) => Err(contradiction(attempt, *page, pages, what)),
        _ => Ok(()),
    }
}

/// Ends the operation: what is wrong was seen in a page that is latched.
#[cold]
#[inline(never)]
pub(crate) fn fail(attempt: &mut Attempt<'_>, page: PageId, what: &'static str) -> Restart {
    attempt.fail(PoolError::Broken { page, what })
}

#[cold]
#[inline(never)]
fn contradiction<'p>(
    attempt: &mut Attempt<'p>,
    page: Optimistic<'p>,
    pages: &[Optimistic<'p>],
    what: &'static str,
) -> Restart {
    let broken = PoolError::Broken { page: page.id(), what };
    match pages.iter().try_for_each(Optimistic::validate) {
        Ok(()) => attempt.fail(broken),
        Err(restart) => restart,
    }
}

#[cold]
#[inline(never)]
fn too_deep<'p>(attempt: &mut Attempt<'p>, page: Optimistic<'p>) -> Restart {
    contradiction(attempt, page, &[page], "the tree's links form a circle")
}

/// Rounds in which an operation made what it needed, and did not find it afterwards.
const MOST_ROUNDS: u32 = 4096;
/// After each so many of them the way to the key is examined.
pub(crate) const EXAMINED_EACH: u32 = 16;

/// How often an operation has begun again. Others may be in its way, but not for ever; pages whose
/// shape is wrong would be.
#[derive(Default)]
pub(crate) struct Rounds(u32);

impl Rounds {
    /// One round more.
    ///
    /// # Errors
    /// [`PoolError::Broken`], if the way to `key` is not sound, or after very many rounds.
    pub(crate) fn next<T: Translation>(
        &mut self,
        tree: &Tree<T>,
        key: &[u8],
    ) -> Result<(), TreeError> {
        self.0 += 1;
        if self.0.is_multiple_of(EXAMINED_EACH) {
            tree.examine(key)?;
        }
        if self.0 < MOST_ROUNDS {
            return Ok(());
        }
        let page = tree.space.run(AccessHint::Normal, |attempt| {
            let leaf = leaf(&tree.space, attempt, Target::Key(key))?;
            let page = leaf.id();
            leaf.validate()?;
            Ok(page)
        })?;
        let what = "the leaf is not what the ways to it say, however often it is changed";
        Err(PoolError::Broken { page, what }.into())
    }
}

impl<T: Translation> Tree<T> {
    /// Looks at each node on the way to `key`, and whether it is what the one above says of it.
    ///
    /// # Errors
    /// [`PoolError::Broken`], which names what is not sound, and those of loading pages.
    #[cold]
    pub(crate) fn examine(&self, key: &[u8]) -> Result<(), TreeError> {
        let mut level = 0;
        loop {
            let is_root = self.space.run(AccessHint::Normal, |attempt| {
                let place = descend(&self.space, attempt, Target::Key(key), level)?;
                let seen = NodeRef::new(place.page.page()).verify_whole();
                ensure(attempt, &[place.page], seen)?;
                Ok(place.parent.is_none())
            })?;
            if is_root {
                return Ok(());
            }
            level += 1;
        }
    }
}
