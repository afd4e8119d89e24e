//! Looking at entries, or at nodes, as [`Reads`](crate::reads::Reads) does at places of pages.

use polder_pool::AccessHint;
use polder_pool::bytes::PageRef;

use super::layout::{Kind, Layout};
use super::slots::{Slot, SlotPage};
use crate::node_id::NodeId;
use crate::reads::Look;

/// Places that are asked for before the first of them is looked at.
const AHEAD: usize = 4;

/// What is made of a place, as [`Look`] says.
pub(super) trait LookAtSlot {
    /// What is seen of a place.
    type Sight;
    /// In which pages the places are.
    const KIND: Kind;

    fn see(&mut self, id: NodeId, slot: Slot<'_>) -> Option<Self::Sight>;

    fn take(&mut self, id: NodeId, sight: Self::Sight);
}

/// Such a look, in the pages of an index.
pub(super) struct AtSlot<'l, L>(pub(super) &'l Layout, pub(super) &'l mut L);

impl<L: LookAtSlot> Look for AtSlot<'_, L> {
    type Sight = L::Sight;
    const HINT: AccessHint = L::KIND.hint();

    #[inline(always)]
    fn ahead(&self) -> usize {
        AHEAD
    }

    #[inline(always)]
    fn prefetch(&self, page: PageRef<'_>, id: NodeId) {
        let slot = SlotPage::new(page).expected(self.0, L::KIND, id.slot());
        match L::KIND {
            Kind::Codes => slot.prefetch_entry(self.0),
            Kind::Nodes => slot.prefetch_node(self.0),
        }
    }

    #[inline(always)]
    fn see(&mut self, page: PageRef<'_>, id: NodeId) -> Result<Option<L::Sight>, &'static str> {
        let slots = SlotPage::new(page);
        if !slots.is_of(self.0, L::KIND) {
            return Err("a link of a vector index leads to a page of another kind");
        }
        Ok(slots.slot(self.0, L::KIND, id.slot()).and_then(|slot| self.1.see(id, slot)))
    }

    #[inline(always)]
    fn take(&mut self, id: NodeId, sight: L::Sight) {
        self.1.take(id, sight);
    }
}
