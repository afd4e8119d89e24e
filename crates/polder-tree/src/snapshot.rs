//! From the root to a leaf by snapshots of nodes, where the pool's readers take them
//! (scalecache-2025 3.2).
//!
//! One node is held at a time, and none is validated. What a node says may be out of date: others
//! may have split its child meanwhile. Fences tell, and right links lead on, as in a B-link tree
//! (Lehman and Yao, 1981). Nodes that were freed are the pool's business: their readers start over.
//! The leaf is one in which nobody changes anything while it is held, and which covers the key: the
//! right one, whichever way led to it.
//!
//! The lower fence of a node stays what it is as long as the node lives: splits take keys from its
//! upper end, and merges add some there. So a right link leads to where the upper fence beside it
//! says, however old the snapshot, and as a node's fences ascend, right links never lead back. How
//! many of them there are to follow says nothing: others may add nodes while a reader sleeps.

use std::cmp::Ordering;

use polder_format::{PageId, PageNo};
use polder_pool::{Attempt, LinkRef, Optimistic, Restart, Space, Translation};
use polder_structure::levels::{ROOT, descend};
use polder_structure::page::{fail, id};

use crate::descent::{Target, TreePages, next_link, standing};
use crate::node::NodeRef;

/// After so many steps to the right the way from the root is shorter.
const STEPS_ASIDE: usize = 1 << 10;

/// Descends to the leaf for `target`.
#[cold]
#[inline(never)]
pub(crate) fn leaf<'p, T: Translation>(
    space: &'p Space<T>,
    attempt: &mut Attempt<'p>,
    target: Target<'_>,
) -> Result<Optimistic<'p>, Restart> {
    let root = PageId::new(space.id(), PageNo::new(ROOT).ok_or(Restart)?);
    let page = space.snapshot(attempt, LinkRef::Root(root), None)?;
    below(space, attempt, target, page)
}

/// Descends from the root, of which there is a snapshot.
fn below<'p, T: Translation>(
    space: &'p Space<T>,
    attempt: &mut Attempt<'p>,
    target: Target<'_>,
    mut page: Optimistic<'p>,
) -> Result<Optimistic<'p>, Restart> {
    let mut level = NodeRef::new(page.page()).level();
    for _ in 0..STEPS_ASIDE {
        let node = NodeRef::new(page.page());
        page = match standing(node, target) {
            // Damage, perhaps: validation tells.
            _ if !node.is_node() || node.level() != level => break,
            Ordering::Less => break,
            Ordering::Greater => aside(space, attempt, page)?,
            Ordering::Equal if level == 0 => return Ok(page),
            Ordering::Equal => {
                level -= 1;
                let link = LinkRef::InPage(page.page(), next_link(node, target));
                space.snapshot(attempt, link, Some(&page))?
            }
        };
    }
    descend::<TreePages, T>(space, attempt, target, 0).map(|place| place.page)
}

/// Goes to the right neighbour (N4 of the pool's `operation/snapshot.rs`).
fn aside<'p, T: Translation>(
    space: &'p Space<T>,
    attempt: &mut Attempt<'p>,
    page: Optimistic<'p>,
) -> Result<Optimistic<'p>, Restart> {
    let node = NodeRef::new(page.page());
    let (right, upper) = (PageId::from_link(node.right_link()), node.upper_fence());
    let left = id(page.page());
    let page = space.snapshot(attempt, LinkRef::Id(right), Some(&page))?;
    let node = NodeRef::new(page.page());
    let (lower, above) = (node.lower_fence(), node.upper_fence());
    let ascends = lower < above || above.is_none();
    if !node.is_node() || lower != upper || !ascends {
        let what = "the right link leads to a node that does not begin where this one ends";
        return Err(fail(attempt, left, what));
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use polder_format::{ChecksumSeed, PageSize, StoreId};
    use polder_pool::{AccessHint, Array, Pool, PoolConfig, ReadMode};
    use polder_testkit::{FaultPlan, SimDisk};

    use super::*;
    use crate::{KINDS, Tree};

    fn key(number: u64) -> [u8; 8] {
        number.to_be_bytes()
    }

    /// A reader has the root in its hand and sleeps, while others append more leaves than it will
    /// step over one by one.
    #[test]
    fn a_reader_may_sleep_through_any_number_of_splits() {
        let config = PoolConfig {
            read_mode: ReadMode::Copy,
            ..PoolConfig::new(64 << 20, PageSize::MIN, ChecksumSeed::new(StoreId([1; 16])))
        };
        let disk = Box::new(SimDisk::new(FaultPlan::new(1)));
        let pool: Pool<Array> = Pool::open(disk, &config, &KINDS).unwrap();
        let tree = Tree::create(pool.create_space().unwrap()).unwrap();
        let value = [7; 900];
        let append = |range: std::ops::Range<u64>| {
            for number in range {
                tree.insert(&key(number), &value, 1).unwrap();
            }
        };
        append(0..100);
        let (last, mut tries) = (5 * STEPS_ASIDE as u64, 0);
        let root = PageId::new(tree.space.id(), PageNo::new(ROOT).unwrap());
        let found = tree.space.run(AccessHint::Normal, |attempt| {
            let page = tree.space.snapshot(attempt, LinkRef::Root(root), None)?;
            tries += 1;
            if tries == 1 {
                append(100..last + 1);
            }
            let key = key(last);
            let leaf = below(&tree.space, attempt, Target::Key(&key), page)?;
            let found = NodeRef::new(leaf.page()).search_covered(&key).is_ok();
            leaf.validate()?;
            Ok(found)
        });
        assert!(found.unwrap(), "after {tries} tries");
    }
}
