//! From the root to a leaf by snapshots of nodes, where the pool's readers take them
//! (scalecache.txt 3.2).
//!
//! One node is held at a time, and none is validated. What a node says may be out of date: others may
//! have split its child meanwhile. Fences tell, and right links lead on, as in a B-link tree
//! (Lehman and Yao, 1981). Nodes that were freed are the pool's business: their readers start over.
//! The leaf is one in which nobody changes anything while it is held, and which covers the key: the
//! right one, whichever way led to it.

use std::cmp::Ordering;

use polder_format::{PageId, PageNo};
use polder_pool::{Attempt, LinkRef, Optimistic, Restart, Space, Translation};

use crate::descent::{ROOT, Target, next_link, too_deep};
use crate::node::NodeRef;

/// More steps down and to the right than this mean that links form a circle.
const MOST_STEPS: usize = 1 << 16;

/// Descends to the leaf for `target`.
#[cold]
#[inline(never)]
pub(crate) fn leaf<'p, T: Translation>(
    space: &'p Space<T>,
    attempt: &mut Attempt<'p>,
    target: Target<'_>,
) -> Result<Optimistic<'p>, Restart> {
    let root = PageId::new(space.id(), PageNo::new(ROOT).ok_or(Restart)?);
    let mut page = space.snapshot(attempt, LinkRef::Root(root), None)?;
    let mut level = NodeRef::new(page.page()).level();
    for _ in 0..MOST_STEPS {
        let node = NodeRef::new(page.page());
        if !node.is_node() || node.level() != level {
            return Err(Restart);
        }
        let link = match standing(node, target) {
            Ordering::Less => return Err(Restart),
            Ordering::Greater => LinkRef::Id(PageId::from_link(node.right_link())),
            Ordering::Equal if level == 0 => return Ok(page),
            Ordering::Equal => {
                level -= 1;
                LinkRef::InPage(page.page(), next_link(node, target))
            }
        };
        page = space.snapshot(attempt, link, Some(&page))?;
    }
    Err(too_deep(attempt, page))
}

/// Where the target stands to the node: `Equal` if it is the one of its level that covers it.
fn standing(node: NodeRef<'_>, target: Target<'_>) -> Ordering {
    match target {
        Target::Key(key) => node.compare_to_fences(key),
        Target::Before(key) => node.compare_below_to_fences(key),
        Target::First if node.has_lower() => Ordering::Less,
        Target::Last if node.has_upper() => Ordering::Greater,
        Target::First | Target::Last => Ordering::Equal,
    }
}
