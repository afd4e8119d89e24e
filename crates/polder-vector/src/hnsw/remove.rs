//! Removing a vector.
//!
//! ```text
//! 1  one edit: the node is *leaving*: found no more, and gone through as before
//! 2  if it is the entry: another one is
//! 3  level by level: lists that lead to the node lead to its neighbours instead. Known of them are
//!     those of its neighbours, and of the nodes that are nearest to it. On the lowest level: what it leads
//!     to is reached without it, and without any node that is leaving, or is made so. (Of two nodes that
//!     leave together one sees that the other does)
//! 4  one edit: if its lists are those of step 3, the place is free, and its page in the chain of those
//!     with room (HNSW-6). Else 2 again
//! ```
//!
//! A crash or an error behind step 1 leaves it leaving; whoever removes it again goes on.

use std::collections::HashSet;

use std::sync::atomic::Ordering::Relaxed;

use polder_pool::{PoolError, Translation};
use polder_structure::edit;
use polder_structure::levels::root;

use super::HnswIndex;
use super::meta;
use super::node::{NodePage, NodePageMut};
use super::relink::Wish;
use crate::error::VectorError;
use crate::node_id::{NodeId, State};
use crate::vectors::Vector;

/// What came of freeing a place.
enum Freed {
    Now,
    /// Somebody else removes the same node.
    ByOthers,
    /// Its lists are these by now.
    NotYet(Vec<Vec<NodeId>>),
}

/// A node that leaves: its vector, and its links on each of its levels.
struct Leaving {
    vector: Vector,
    links: Vec<Vec<NodeId>>,
}

impl<T: Translation> HnswIndex<T> {
    /// Removes the vector that was inserted with this label and lies in this node. Whether it was there.
    ///
    /// # Errors
    /// Those of loading and logging pages. If one comes in the middle, the vector is not found any more,
    /// and to remove it again goes on.
    pub fn remove(&self, label: u64, node: NodeId) -> Result<bool, VectorError> {
        if !self.is_page_of_nodes(node)? {
            return Ok(false);
        }
        // 1
        let Some(mut leaving) = self.leave(label, node)? else { return Ok(false) };
        // Each time that it begins again, others have changed its lists.
        loop {
            // 2
            self.replace_entry(node, &leaving.links)?;
            // 3
            self.lead_around(label, node, &leaving)?;
            // 4
            match self.free_place(label, node, &leaving)? {
                Freed::Now => {
                    self.core.changes.fetch_add(1, Relaxed);
                    return Ok(true);
                }
                Freed::ByOthers => return Ok(false),
                Freed::NotYet(links) => leaving.links = links,
            }
        }
    }

    /// Step 3.
    fn lead_around(&self, label: u64, node: NodeId, leaving: &Leaving) -> Result<(), PoolError> {
        for (level, links) in leaving.links.iter().enumerate().rev() {
            let level = level as u8;
            let mut nodes = links.clone();
            self.walk(&leaving.vector, |walk| {
                let Some(entry) = walk.entry()?.filter(|entry| entry.level >= level) else {
                    return Ok(());
                };
                let nearest = walk.descend(entry, level)?;
                walk.level(nearest, self.core.options.insert_width, level)?;
                nodes.extend(
                    walk.found().map(|near| near.node).filter(|near| !links.contains(near)),
                );
                Ok(())
            })?;
            self.relink(&nodes, level, Wish::Replace(node, label, links))?;
        }
        // HNSW-5
        let found = self.nearest_that_stay(&leaving.vector)?;
        let (mut reached, mut links) = (HashSet::<NodeId>::from_iter(found.clone()), Vec::new());
        for found in found {
            self.read_node(found, |_, found| {
                links.clear();
                found.links(&self.core.layout, 0, &mut links);
            })?;
            reached.extend(&links);
        }
        for link in leaving.links[0].iter().filter(|link| !reached.contains(*link)) {
            self.reconnect(*link)?;
        }
        Ok(())
    }

    /// Step 4.
    fn free_place(&self, label: u64, node: NodeId, leaving: &Leaving) -> Result<Freed, PoolError> {
        let layout = &self.core.layout;
        edit(&self.space, |edit| {
            let nodes = NodePage::new(edit.page(node.page())?);
            let found = nodes.node(layout, node.slot());
            if found.state() != State::Leaving || found.label() != label {
                return Ok(Freed::ByOthers);
            }
            let links = found.all_links(layout, nodes.level());
            let level = nodes.level();
            if links != leaving.links {
                return Ok(Freed::NotYet(links));
            }
            // HNSW-4: only what is found becomes the entry, and since step 2 it is not.
            let entry = meta::entry(edit.page(root())?);
            debug_assert!(entry.is_none_or(|entry| entry.node != node), "HNSW-4");
            NodePageMut::new(edit.page_mut(node.page())?).remove(layout, node.slot());
            meta::chain(level).put(edit, node.page())?;
            Ok(Freed::Now)
        })
    }

    /// Step 1.
    fn leave(&self, label: u64, node: NodeId) -> Result<Option<Leaving>, PoolError> {
        let layout = &self.core.layout;
        edit(&self.space, |edit| {
            let nodes = NodePage::new(edit.page(node.page())?);
            if !nodes.is_of(layout) || !nodes.has(node) {
                return Ok(None);
            }
            let found = nodes.node(layout, node.slot());
            let state = found.state();
            if state == State::Free || found.label() != label {
                return Ok(None);
            }
            let links = found.all_links(layout, nodes.level());
            let vector = found.copy(layout);
            if state == State::Live {
                let page = edit.page_mut(node.page())?;
                NodePageMut::new(page).set_state(layout, node.slot(), State::Leaving);
            }
            Ok(Some(Leaving { vector, links }))
        })
    }
}
