//! Removing a vector.
//!
//! ```text
//! 1  one edit: entry and node are *leaving*: found no more, and gone through as before
//! 2  lists that are found to lead to it lead to some of its neighbours instead
//! 3  as long as it has children, one edit for each: a child takes its place in the tree, and it becomes a
//!    child of that. (Of a child that has no room for it one of that one's children becomes its own)
//! 4  one edit: it is no child any more, and its places are free
//!
//!    3        p                 p                    g is handed over only if c has no room;
//!             |                 |                    x has as many children as before then, and
//!             x       ->        c                    fewer nodes below it
//!            / \               / \
//!           c   d             x   ...
//!          / \               / \
//!         g   ...           d  (g)
//! ```
//!
//! A crash or an error behind step 1 leaves it leaving; whoever removes it again goes on. The tree is whole
//! behind each edit (`VAMANA-5`). No node gets a child by an insert that is leaving, so that step 3 ends.

use polder_pool::{PoolError, Restart, Translation};
use polder_structure::levels::root;
use polder_structure::{Edit, edit};

use super::VamanaIndex;
use super::layout::Kind;
use super::link::Wish;
use super::meta::{self, Entry};
use super::node::List;
use super::slots::{Slot, SlotPage, SlotPageMut};
use super::walk::About;
use crate::error::VectorError;
use crate::node_id::{NodeId, State};
use crate::vectors::Vector;

/// How far a removal has come.
enum Sunk {
    /// It has children.
    NotYet,
    Freed,
    /// Somebody else has removed the same vector.
    ByOthers,
}

impl<T: Translation> VamanaIndex<T> {
    /// Removes the vector that was inserted with this label and lies there. Whether it was there.
    ///
    /// # Errors
    /// Those of loading and logging pages. If one comes in the middle, the vector is not found any more,
    /// and to remove it again goes on.
    pub fn remove(&self, label: u64, node: NodeId) -> Result<bool, VectorError> {
        let id = node;
        if self.node_of(label, id)?.is_none() {
            return Ok(false);
        }
        // 1
        let Some((vector, list)) = self.leave(label, id)? else { return Ok(false) };
        // 2
        let (found, _) = self.expand(&self.core.sought(vector), About::LinksTo(id))?;
        let leads = found.iter().filter(|one| one.leads && one.state == State::Live);
        let leads: Vec<NodeId> = leads.map(|one| one.entry).collect();
        self.relink(&leads, Wish::Replace { id, label, others: &list.links })?;
        loop {
            match edit(&self.space, |edit| self.sink(edit, id, label))? {
                Sunk::NotYet => {}
                Sunk::Freed => return Ok(true),
                Sunk::ByOthers => return Ok(false),
            }
        }
    }

    /// Step 1. Gives the vector and its links.
    fn leave(&self, label: u64, id: NodeId) -> Result<Option<(Vector, List)>, PoolError> {
        let layout = &self.core.layout;
        edit(&self.space, |edit| {
            let slot = SlotPage::new(edit.page(id.page())?).slot(layout, Kind::Codes, id.slot());
            let slot = slot.filter(|slot| slot.state() != State::Free && slot.label() == label);
            let Some(state) = slot.map(Slot::state) else { return Ok(None) };
            let node = self.node_in(edit, id)?;
            let slot = self.slot_in(edit, node)?;
            let left = (slot.copy(layout), slot.list(layout));
            if state == State::Live {
                for (kind, place) in [(Kind::Codes, id), (Kind::Nodes, node)] {
                    let page = edit.page_mut(place.page())?;
                    SlotPageMut::new(page).set_state(layout, kind, place.slot(), State::Leaving);
                }
            }
            Ok(Some(left))
        })
    }

    /// Steps 3 and 4.
    fn sink(&self, edit: &mut Edit<'_, '_, T>, id: NodeId, label: u64) -> Result<Sunk, Restart> {
        let layout = &self.core.layout;
        let Some(node) = self.leaving_in(edit, id, label)? else { return Ok(Sunk::ByOthers) };
        let slot = self.slot_in(edit, node)?;
        let (parent, mut list) = (slot.parent(), slot.list(layout));
        let Some(child) = list.children().first().copied() else {
            // 4
            match parent {
                Some(parent) => self.change_list(edit, parent, id, |list| list.remove(id))?,
                None => meta::set_entry(&mut edit.page_mut(root())?, None),
            }
            self.free_place(edit, Kind::Nodes, node)?;
            self.free_place(edit, Kind::Codes, id)?;
            return Ok(Sunk::Freed);
        };
        // 3
        let risen = self.node_in(edit, child)?;
        let slot = self.slot_in(edit, risen)?;
        let (mut of_child, vector) = (slot.list(layout), slot.copy(layout));
        // VAMANA-5
        if child == id || slot.parent() != Some(id) || of_child.links.contains(&child) {
            return Err(self.no_tree(edit, risen));
        }
        list.remove(child);
        if of_child.children < layout.most_children() {
            of_child.add_child(id, layout.links);
        } else if let Some(given) = of_child.children().first().copied() {
            of_child.replace_child(given, id);
            list.add_child(given, layout.links);
            let (name, given) = (given, self.node_in(edit, given)?);
            // VAMANA-5
            if name == id || self.slot_in(edit, given)?.parent() != Some(child) {
                return Err(self.no_tree(edit, given));
            }
            let page = edit.page_mut(given.page())?;
            SlotPageMut::new(page).set_parent(layout, given.slot(), Some(id));
        }
        for (node, parent, list) in [(node, Some(child), &list), (risen, parent, &of_child)] {
            let mut page = SlotPageMut::new(edit.page_mut(node.page())?);
            page.set_list(layout, node.slot(), list);
            page.set_parent(layout, node.slot(), parent);
        }
        match parent {
            Some(parent) => {
                self.change_list(edit, parent, id, |list| list.replace_child(id, child))?;
            }
            None => {
                // VAMANA-7
                let distance = self.core.coder.residual(&vector).square;
                let entry = Some(Entry { id: child, distance });
                meta::set_entry(&mut edit.page_mut(root())?, entry);
            }
        }
        Ok(Sunk::NotYet)
    }

    /// Changes the list of an entry that has this child.
    fn change_list(
        &self,
        edit: &mut Edit<'_, '_, T>,
        entry: NodeId,
        child: NodeId,
        change: impl Fn(&mut List),
    ) -> Result<(), Restart> {
        let layout = &self.core.layout;
        let node = self.node_in(edit, entry)?;
        let mut list = self.slot_in(edit, node)?.list(layout);
        // VAMANA-5
        if !list.children().contains(&child) {
            return Err(self.no_tree(edit, node));
        }
        change(&mut list);
        SlotPageMut::new(edit.page_mut(node.page())?).set_list(layout, node.slot(), &list);
        Ok(())
    }
}
