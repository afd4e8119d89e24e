//! Places for new vectors: in the page of a near one if that has a free place; else in a page that is being
//! filled, or one of those in which a place became free (`VAMANA-3`); else in a new page. So what lies near
//! each other lies in few pages, where vectors come in an order that allows it.

use polder_format::PageNo;
use polder_pool::bytes::PageRef;
use polder_pool::{PoolError, Restart, Translation};
use polder_structure::Edit;
use polder_structure::levels::root;

use super::VamanaIndex;
use super::layout::Kind;
use super::meta;
use super::slots::{SlotPage, SlotPageMut};
use crate::node_id::{MOST_PAGES, NodeId};
use crate::pages::read_page;
use crate::room::Room;

/// Near vectors in whose pages there may be room.
const NEAR: usize = 4;
impl<T: Translation> VamanaIndex<T> {
    /// A page with room: that of one of these places, which are near, or one to be filled. `None` if there
    /// must be a new one.
    pub(super) fn room(
        &self,
        kind: Kind,
        near: impl Iterator<Item = NodeId>,
    ) -> Result<Option<Room>, PoolError> {
        let mut looked_at = [None; NEAR];
        for (place, at) in near.zip(0..NEAR) {
            let page = place.page();
            if looked_at.contains(&Some(page)) {
                continue;
            }
            looked_at[at] = Some(page);
            let has_room = read_page(&self.space, kind.hint(), page, |page| {
                let (slots, layout) = (SlotPage::new(page), &self.core.layout);
                slots.is_of(layout, kind) && slots.used() < layout.slots(kind)
            })?;
            if has_room {
                return Ok(Some(Room::found(page)));
            }
        }
        self.page_to_fill(kind)
    }

    /// A page that is being filled, or one of the chain (`VAMANA-3`). `None` if there must be a new one.
    pub(super) fn page_to_fill(&self, kind: Kind) -> Result<Option<Room>, PoolError> {
        let layout = &self.core.layout;
        let has_room = |page: PageRef<'_>| {
            let slots = SlotPage::new(page);
            slots.is_of(layout, kind).then(|| slots.used() < layout.slots(kind))
        };
        self.core.filling.take(&self.space, meta::chain(kind), has_room)
    }

    /// A free place, of a new page if no room is given. `None` if there is none by now.
    pub(super) fn place_in(
        &self,
        edit: &mut Edit<'_, '_, T>,
        kind: Kind,
        room: Option<Room>,
    ) -> Result<Option<NodeId>, Restart> {
        let layout = &self.core.layout;
        let Some(page) = room.map(Room::page) else {
            let page = edit.create(kind.of_page())?;
            return self.begin_page(edit, kind, page).map(Some);
        };
        let slots = SlotPage::new(edit.page(page)?);
        if !slots.is_of(layout, kind) {
            return Ok(None);
        }
        Ok(slots.free_slot(layout, kind).and_then(|slot| NodeId::new(page, 0, slot)))
    }

    /// Makes a new page an empty one of this kind. Gives its first place.
    pub(super) fn begin_page(
        &self,
        edit: &mut Edit<'_, '_, T>,
        kind: Kind,
        page: PageNo,
    ) -> Result<NodeId, Restart> {
        let mut before = None;
        if kind == Kind::Codes {
            // VAMANA-4
            before = meta::newest(edit.page(root())?);
            meta::add_page(&mut edit.page_mut(root())?, page);
        }
        let width = self.core.options.insert_width;
        SlotPageMut::new(edit.page_mut(page)?).init(&self.core.layout, width, before);
        let (what, limit) = ("the number of pages of a vector index", MOST_PAGES);
        NodeId::new(page, 0, 0).ok_or_else(|| edit.fail(PoolError::Limit { what, limit }))
    }

    /// The room that is left where a place was taken.
    pub(super) fn room_left(
        &self,
        edit: &mut Edit<'_, '_, T>,
        kind: Kind,
        place: NodeId,
        room: Option<Room>,
    ) -> Result<Option<Room>, Restart> {
        let page = place.page();
        let has_room = SlotPageMut::new(edit.page_mut(page)?).has_room(&self.core.layout, kind);
        Ok(has_room.then(|| Room::left(room, page)))
    }

    /// Makes a place free, and puts its page in the chain if it is in none (`VAMANA-3`).
    pub(super) fn free_place(
        &self,
        edit: &mut Edit<'_, '_, T>,
        kind: Kind,
        place: NodeId,
    ) -> Result<(), Restart> {
        let page = place.page();
        SlotPageMut::new(edit.page_mut(page)?).remove(&self.core.layout, kind, place.slot());
        meta::chain(kind).put(edit, page)
    }
}
