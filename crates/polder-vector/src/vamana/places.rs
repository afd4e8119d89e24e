//! Places of vectors as an edit sees them.

use polder_format::PageId;
use polder_pool::{Restart, Translation};
use polder_structure::Edit;
use polder_structure::page::broken;

use super::VamanaIndex;
use super::layout::Kind;
use super::slots::{Slot, SlotPage};
use crate::node_id::{NodeId, State};

impl<T: Translation> VamanaIndex<T> {
    /// The node of an entry that is leaving, and has this label.
    pub(super) fn leaving_in(
        &self,
        edit: &mut Edit<'_, '_, T>,
        id: NodeId,
        label: u64,
    ) -> Result<Option<NodeId>, Restart> {
        edit.read(id.page(), |page| {
            let slot = SlotPage::new(page).slot(&self.core.layout, Kind::Codes, id.slot());
            let slot = slot.filter(|slot| slot.state() == State::Leaving && slot.label() == label);
            slot.and_then(Slot::partner)
        })
    }

    /// The node of an entry that is in the tree.
    pub(super) fn node_in(
        &self,
        edit: &mut Edit<'_, '_, T>,
        entry: NodeId,
    ) -> Result<NodeId, Restart> {
        let layout = &self.core.layout;
        let slots = SlotPage::new(edit.page(entry.page())?);
        let is_one = slots.is_of(layout, Kind::Codes);
        let slot = slots.slot(layout, Kind::Codes, entry.slot()).filter(|_| is_one);
        let slot = slot.filter(|slot| slot.state() != State::Free);
        let Some(node) = slot.and_then(Slot::partner) else {
            return Err(self.no_tree(edit, entry));
        };
        let slot = self.slot_in(edit, node)?;
        // VAMANA-1
        if slot.partner() != Some(entry) || slot.state() == State::Free {
            return Err(self.no_tree(edit, entry));
        }
        Ok(node)
    }

    /// A place of a page of nodes.
    pub(super) fn slot_in<'e>(
        &self,
        edit: &'e mut Edit<'_, '_, T>,
        node: NodeId,
    ) -> Result<Slot<'e>, Restart> {
        let layout = &self.core.layout;
        let slots = SlotPage::new(edit.page(node.page())?);
        let is_one = slots.is_of(layout, Kind::Nodes) && node.slot() < layout.slots(Kind::Nodes);
        if !is_one {
            return Err(self.no_tree(edit, node));
        }
        Ok(SlotPage::new(edit.page(node.page())?).expected(layout, Kind::Nodes, node.slot()))
    }

    #[cold]
    pub(super) fn no_tree(&self, edit: &mut Edit<'_, '_, T>, place: NodeId) -> Restart {
        let page = PageId::new(self.space.id(), place.page());
        edit.fail(broken(page, "the tree of nodes leads to a place without one"))
    }
}
