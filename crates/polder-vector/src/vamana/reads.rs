//! Looking at many places of pages at once: those whose pages are in memory one after the other, each asked
//! of the processor's memory ahead; the pages that are missing by one submission to the device, and as they
//! come (group prefetch, `calico-2026` 5.1).

use polder_format::PageId;
use polder_pool::bytes::PageRef;
use polder_pool::{Blocked, Interleaved, LinkRef, Loading, PoolError, Restart, Space, Translation};
use polder_structure::page::broken;

use super::layout::{Kind, Layout};
use super::slots::{Slot, SlotPage};
use crate::node_id::NodeId;

/// Places whose state words are asked for together.
const TOGETHER: usize = 32;
/// Places that are asked for before the first of them is looked at.
const AHEAD: usize = 4;

/// How a thread looks at places.
pub(super) struct Reads<'r, 'p, T: Translation> {
    space: &'p Space<T>,
    layout: &'r Layout,
    way: &'r mut Interleaved<'p, T>,
    /// Places whose page is on its way, each with its flight.
    awaited: Vec<(usize, NodeId)>,
    /// Places that are to be waited for when no page is on its way.
    later: Vec<NodeId>,
}

/// What is made of a place: first seen, as often as it must be, while its page may change; then, once that
/// has validated, taken. Nothing may wait in either (`MANY-4`).
pub(super) trait Look {
    /// What is seen of a place.
    type Sight;
    /// In which pages the places are.
    const KIND: Kind;

    /// What is seen of a place that the page has. What an earlier call has left means nothing.
    fn see(&mut self, id: NodeId, slot: Slot<'_>) -> Self::Sight;

    fn take(&mut self, id: NodeId, sight: Self::Sight);
}

/// What is seen of a place, if its page has one. Another page has none of the index.
#[inline(always)]
fn see<L: Look>(
    look: &mut L,
    layout: &Layout,
    page: PageRef<'_>,
    id: NodeId,
) -> Result<Option<L::Sight>, &'static str> {
    let slots = SlotPage::new(page);
    if !slots.is_of(layout, L::KIND) {
        return Err("a link of a vector index leads to a page of another kind");
    }
    Ok(slots.slot(layout, L::KIND, id.slot()).map(|slot| look.see(id, slot)))
}

impl<'r, 'p, T: Translation> Reads<'r, 'p, T> {
    pub(super) fn new(
        space: &'p Space<T>,
        layout: &'r Layout,
        way: &'r mut Interleaved<'p, T>,
    ) -> Reads<'r, 'p, T> {
        Reads { space, layout, way, awaited: Vec::new(), later: Vec::new() }
    }

    /// Looks at these places, in the order in which their pages come.
    #[inline(always)]
    pub(super) fn each<L: Look>(
        &mut self,
        places: &[NodeId],
        look: &mut L,
    ) -> Result<(), PoolError> {
        // An error may have left something.
        self.awaited.clear();
        self.later.clear();
        for places in places.chunks(TOGETHER) {
            let mut expected = [None; TOGETHER];
            for (page, place) in expected.iter_mut().zip(places) {
                *page = self.way.prefetch(self.link(*place));
            }
            for i in 0..places.len() + AHEAD {
                if let (Some(Some(page)), Some(place)) = (expected.get(i), places.get(i)) {
                    let slot = SlotPage::new(*page).expected(self.layout, L::KIND, place.slot());
                    match L::KIND {
                        Kind::Codes => slot.prefetch_entry(self.layout),
                        Kind::Nodes => slot.prefetch_node(self.layout),
                    }
                }
                let Some(place) = i.checked_sub(AHEAD).and_then(|i| places.get(i)) else {
                    continue;
                };
                if self.look(*place, look).is_err() {
                    self.await_page(*place, look);
                }
            }
        }
        if !self.awaited.is_empty() {
            self.land_all(look);
        }
        // No page is on its way: what waits, waits here (MANY-4).
        while let Some(place) = self.later.pop() {
            self.wait_for(place, look)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn look<L: Look>(&mut self, place: NodeId, look: &mut L) -> Result<(), Restart> {
        let page = self.way.visit(self.link(place))?;
        // Damage is met again, and named, by whoever waits for the page.
        let seen = see(look, self.layout, page.page(), place).map_err(|_| Restart)?;
        page.validate()?;
        seen.into_iter().for_each(|seen| look.take(place, seen));
        Ok(())
    }

    /// A place could not be read: its page is asked of the device, or waited for later.
    #[cold]
    fn await_page<L: Look>(&mut self, place: NodeId, look: &mut L) {
        if let Blocked::Missing(page, parent) = self.way.blocked() {
            if self.way.is_full() {
                self.land_all(look);
            }
            if let Loading::Flies(flight) = self.way.load(page, parent) {
                return self.awaited.push((flight, place));
            }
        }
        self.later.push(place);
    }

    /// Looks at those whose pages are on their way, as they come.
    #[cold]
    fn land_all<L: Look>(&mut self, look: &mut L) {
        self.way.hand_over(false);
        while let Some((landed, pin)) = self.way.land(true) {
            let mut awaited = std::mem::take(&mut self.awaited);
            awaited.retain(|(flight, place)| {
                if *flight != landed {
                    return true;
                }
                // An error is met again by whoever waits for the page.
                if pin.is_err() || self.look(*place, look).is_err() {
                    self.later.push(*place);
                }
                false
            });
            self.awaited = awaited;
        }
        debug_assert!(self.awaited.is_empty(), "a flight has landed that was not open");
    }

    /// Looks at a place, for whose page this may wait.
    #[cold]
    fn wait_for<L: Look>(&mut self, place: NodeId, look: &mut L) -> Result<(), PoolError> {
        // Why it was not there is no matter.
        let _ = self.way.blocked();
        let seen = self.space.run(L::KIND.hint(), |attempt| {
            let page = self.space.page(attempt, place.page())?;
            let seen = see(look, self.layout, page.page(), place);
            page.validate()?;
            seen.map_err(|what| attempt.fail(broken(page.id(), what)))
        })?;
        seen.into_iter().for_each(|seen| look.take(place, seen));
        Ok(())
    }

    #[inline(always)]
    fn link(&self, place: NodeId) -> LinkRef<'p> {
        LinkRef::Id(PageId::new(self.space.id(), place.page()))
    }
}
