//! Where searches begin (`HNSW-4`), and how that changes.

use polder_pool::{PoolError, Restart, Translation};
use polder_structure::levels::root;
use polder_structure::{Edit, edit};

use super::HnswIndex;
use super::meta::{self, Entry};
use super::node::NodePage;
use crate::node_id::{NodeId, State};
use crate::pages::for_each_page;

impl<T: Translation> HnswIndex<T> {
    /// The entry, which is found: while it is not, because it is leaving, another one is made the entry, by
    /// this thread or the one that removes it.
    pub(super) fn live_entry(&self) -> Result<Option<Entry>, PoolError> {
        while let Some(entry) = self.entry()? {
            let links = self.read_node(entry.node, |nodes, found| {
                let links = || found.all_links(&self.core.layout, nodes.level());
                (found.state() != State::Live).then(links)
            })?;
            let Some(links) = links.flatten() else { return Ok(Some(entry)) };
            self.replace_entry(entry.node, &links)?;
        }
        Ok(None)
    }

    /// Makes another node the entry: a neighbour, on the highest level that has one; if there is
    /// none, any node.
    pub(super) fn replace_entry(
        &self,
        old: NodeId,
        links: &[Vec<NodeId>],
    ) -> Result<(), PoolError> {
        while self.entry()?.is_some_and(|entry| entry.node == old) {
            let mut new = None;
            for node in links.iter().rev().flatten() {
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
                let is_old = meta::entry(edit.page(root())?).is_some_and(|entry| entry.node == old);
                // It may have left since it was seen: then again.
                let is_there = match new {
                    Some(new) => self.is_live(edit, new.node, None)?,
                    None => true,
                };
                if is_old && is_there {
                    meta::set_entry(&mut edit.page_mut(root())?, new);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// A node of the highest level that there is.
    fn highest(&self) -> Result<Option<Entry>, PoolError> {
        let mut highest: Option<Entry> = None;
        let mut there = Vec::new();
        for_each_page(&self.space, |page| {
            self.labels_of(page, &mut there)?;
            // All nodes of a page have the same level.
            let Some((node, _)) = there.first().copied() else { return Ok(true) };
            let level = self.read_node(node, |nodes, _| nodes.level())?.unwrap_or(0);
            if highest.is_none_or(|highest| level > highest.level) {
                highest = Some(Entry { node, level });
            }
            Ok(true)
        })?;
        Ok(highest)
    }

    /// Makes a node the entry, if it is still there, and higher than what is the entry now.
    pub(super) fn enter(&self, label: u64, new: Entry) -> Result<(), PoolError> {
        edit(&self.space, |edit| {
            let entry = meta::entry(edit.page(root())?);
            if entry.is_none_or(|entry| new.level > entry.level)
                && self.is_live(edit, new.node, Some(label))?
            {
                meta::set_entry(&mut edit.page_mut(root())?, Some(new));
            }
            Ok(())
        })
    }

    /// Whether a node is found, and has this label if one is given.
    fn is_live(
        &self,
        edit: &mut Edit<'_, '_, T>,
        node: NodeId,
        label: Option<u64>,
    ) -> Result<bool, Restart> {
        let nodes = NodePage::new(edit.page(node.page())?);
        if !nodes.is_of(&self.core.layout) || !nodes.has(node) {
            return Ok(false);
        }
        let found = nodes.node(&self.core.layout, node.slot());
        Ok(found.state() == State::Live && label.is_none_or(|label| found.label() == label))
    }
}
