//! Places for new vectors: in the page of a near one if that has a free place; else in a page that is being
//! filled, or one of those in which a place became free (`VAMANA-3`); else in a new page. So what lies near
//! each other lies in few pages, where vectors come in an order that allows it.

use polder_format::{PageId, PageNo};
use polder_pool::{PoolError, Restart, Translation, lock};
use polder_structure::levels::root;
use polder_structure::page::broken;
use polder_structure::{Edit, edit};

use super::VamanaIndex;
use super::layout::Kind;
use super::meta;
use super::slots::{SlotPage, SlotPageMut};
use crate::node_id::{MOST_PAGES, NodeId};

/// Near vectors in whose pages there may be room.
const NEAR: usize = 4;
/// Pages that one edit takes out of a chain: others may have filled them, as those of near vectors.
const MOST_UNCHAINED: usize = 16;

/// A page in which there may be room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    page: PageNo,
    /// Whether this thread fills it, and not only finds room there. (Others may find room there.)
    is_filled: bool,
}

impl Room {
    /// A page that this thread fills.
    pub(super) fn filled(page: PageNo) -> Room {
        Room { page, is_filled: true }
    }

    pub(super) fn page(self) -> PageNo {
        self.page
    }
}

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
            let has_room = self.space.run(kind.hint(), |attempt| {
                let read = self.space.page(attempt, page)?;
                let slots = SlotPage::new(read.page());
                let layout = &self.core.layout;
                let has_room = slots.is_of(layout, kind) && slots.used() < layout.slots(kind);
                read.validate()?;
                Ok(has_room)
            })?;
            if has_room {
                return Ok(Some(Room { page, is_filled: false }));
            }
        }
        self.page_to_fill(kind)
    }

    /// A page that is being filled, or one of the chain. `None` if there must be a new one.
    pub(super) fn page_to_fill(&self, kind: Kind) -> Result<Option<Room>, PoolError> {
        let known = {
            let mut filling = lock(&self.core.filling);
            let at = filling.iter().position(|(of, _)| *of == kind);
            at.map(|at| filling.swap_remove(at).1)
        };
        let page = match known {
            Some(page) => Some(page),
            None => self.take_chained(kind)?,
        };
        Ok(page.map(Room::filled))
    }

    /// A page that may have room for more is filled by whoever comes next, if this thread had it for itself.
    pub(super) fn fill_later(&self, kind: Kind, room: Option<Room>) {
        if let Some(room) = room.filter(|room| room.is_filled) {
            lock(&self.core.filling).push((kind, room.page));
        }
    }

    /// Takes a page with free places out of the chain (`VAMANA-3`).
    fn take_chained(&self, kind: Kind) -> Result<Option<PageNo>, PoolError> {
        let layout = &self.core.layout;
        edit(&self.space, |edit| {
            let mut first = meta::chain(edit.page(root())?, kind);
            let mut found = None;
            for _ in 0..MOST_UNCHAINED {
                let Some(page) = first else { break };
                let slots = SlotPage::new(edit.page(page)?);
                if !slots.is_of(layout, kind) {
                    let what = "the chain of pages with room leads to a page of another kind";
                    return Err(edit.fail(broken(PageId::new(self.space.id(), page), what)));
                }
                first = slots.chained().flatten();
                let has_room = slots.used() < layout.slots(kind);
                SlotPageMut::new(edit.page_mut(page)?).set_chained(None);
                if has_room {
                    found = Some(page);
                    break;
                }
            }
            if meta::chain(edit.page(root())?, kind) != first {
                meta::set_chain(&mut edit.page_mut(root())?, kind, first);
            }
            Ok(found)
        })
    }

    /// A free place, of a new page if no room is given. `None` if there is none by now.
    pub(super) fn place_in(
        &self,
        edit: &mut Edit<'_, '_, T>,
        kind: Kind,
        room: Option<Room>,
    ) -> Result<Option<NodeId>, Restart> {
        let layout = &self.core.layout;
        let Some(Room { page, .. }) = room else {
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
        let is_filled = room.is_none_or(|room| room.is_filled);
        Ok(has_room.then_some(Room { page, is_filled }))
    }

    /// Makes a place free, and puts its page in the chain if it is in none (`VAMANA-3`).
    pub(super) fn free_place(
        &self,
        edit: &mut Edit<'_, '_, T>,
        kind: Kind,
        place: NodeId,
    ) -> Result<(), Restart> {
        let page = place.page();
        let is_chained = SlotPage::new(edit.page(page)?).chained().is_some();
        SlotPageMut::new(edit.page_mut(page)?).remove(&self.core.layout, kind, place.slot());
        if !is_chained {
            let first = meta::chain(edit.page(root())?, kind);
            SlotPageMut::new(edit.page_mut(page)?).set_chained(Some(first));
            meta::set_chain(&mut edit.page_mut(root())?, kind, Some(page));
        }
        Ok(())
    }
}
