//! Removing a vector.
//!
//! ```text
//! 1  one edit: the node is found no more, and gone through as before
//! 2  if it is the entry: another one is
//! 3  level by level: lists that lead to the node lead to its neighbours instead. Known of them are
//!     those of its neighbours, and of the nodes that are nearest to it
//! 4  one edit: the place is free, and its page is in the chain of those with room (HNSW-6)
//! ```

use polder_pool::{PoolError, Translation};
use polder_structure::edit;
use polder_structure::levels::root;

use super::HnswIndex;
use super::meta::{self, Entry};
use super::node::{NodePage, NodePageMut, State};
use super::relink::Wish;
use crate::error::VectorError;
use crate::node_id::NodeId;
use crate::vectors::Vector;

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
    /// and its place may stay used.
    pub fn remove(&self, label: u64, node: NodeId) -> Result<bool, VectorError> {
        // 1
        let Some(leaving) = self.leave(label, node)? else { return Ok(false) };
        // 2
        if self.entry()?.is_some_and(|entry| entry.node == node) {
            self.replace_entry(node, &leaving)?;
        }
        // 3
        for (level, links) in leaving.links.iter().enumerate().rev() {
            let level = level as u8;
            let mut nodes = links.clone();
            let near = self.walk(&leaving.vector, |walk| {
                let Some((start, top)) = walk.start()? else { return Ok(Vec::new()) };
                let nearest = walk.descend(start, top, level)?;
                walk.level(&[nearest], self.core.options.insert_width, level)
            })?;
            let others = near.iter().map(|near| near.node).filter(|near| !links.contains(near));
            nodes.extend(others);
            self.relink(&nodes, level, Wish::Replace(node, links))?;
        }
        // 4
        edit(&self.space, |edit| {
            let nodes = NodePage::new(edit.page(node.page())?);
            let (level, is_chained) = (nodes.level(), nodes.chained().is_some());
            let mut page = NodePageMut::new(edit.page_mut(node.page())?);
            page.remove(&self.core.layout, node.slot());
            if !is_chained {
                let first = meta::chain(edit.page(root())?, level);
                NodePageMut::new(edit.page_mut(node.page())?).set_chained(Some(first));
                meta::set_chain(&mut edit.page_mut(root())?, level, Some(node.page()));
            }
            Ok(())
        })?;
        Ok(true)
    }

    fn leave(&self, label: u64, node: NodeId) -> Result<Option<Leaving>, PoolError> {
        let layout = &self.core.layout;
        if node.page() == root() {
            return Ok(None);
        }
        // The caller's node is no link of the index: its page may be any, or none.
        if !self.space.is_used(node.page())? {
            return Ok(None);
        }
        edit(&self.space, |edit| {
            let nodes = NodePage::new(edit.page(node.page())?);
            let is_there = node.slot() < nodes.slots() && node.is_above() == (nodes.level() > 0);
            if !nodes.is_one() || !is_there {
                return Ok(None);
            }
            let found = nodes.node(layout, node.slot());
            if found.state() != State::Live || found.label() != label {
                return Ok(None);
            }
            let mut links = vec![Vec::new(); usize::from(nodes.level()) + 1];
            for (level, links) in links.iter_mut().enumerate() {
                found.links(layout, level as u8, links);
            }
            let vector = found.copy(layout);
            let page = edit.page_mut(node.page())?;
            NodePageMut::new(page).set_state(layout, node.slot(), State::Leaving);
            Ok(Some(Leaving { vector, links }))
        })
    }

    /// Makes another node the entry: a neighbour, on the highest level that has one; if there is none,
    /// any node.
    fn replace_entry(&self, old: NodeId, leaving: &Leaving) -> Result<(), PoolError> {
        let mut new = None;
        for node in leaving.links.iter().rev().flatten() {
            let level = self.read_node(*node, |nodes, found| {
                (found.state() == State::Live).then(|| nodes.level())
            })?;
            if let Some(level) = level.flatten() {
                new = Some(Entry { node: *node, level });
                break;
            }
        }
        if new.is_none() {
            new = self.highest()?;
        }
        edit(&self.space, |edit| {
            if meta::entry(edit.page(root())?).is_some_and(|entry| entry.node == old) {
                meta::set_entry(&mut edit.page_mut(root())?, new);
            }
            Ok(())
        })
    }

    /// A node of the highest level that there is.
    fn highest(&self) -> Result<Option<Entry>, PoolError> {
        let mut highest: Option<Entry> = None;
        self.for_each_page(&mut |nodes, page| {
            let level = nodes.level();
            if highest.is_none_or(|highest| level > highest.level) {
                let is_live =
                    |slot: &usize| nodes.node(&self.core.layout, *slot).state() == State::Live;
                let slot = (0..nodes.slots()).find(is_live);
                let node = slot.and_then(|slot| NodeId::new(page, level, slot));
                highest = node.map(|node| Entry { node, level }).or(highest);
            }
        })?;
        Ok(highest)
    }
}
