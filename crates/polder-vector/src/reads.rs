//! Looking at places of many pages at once: those whose pages are in memory one after the other, each asked
//! of the processor's memory ahead; the pages that are missing by one submission to the device, and as they
//! come (group prefetch, `calico-2026` 5.1). A build with `--cfg polder_one_by_one` reads each by itself, in the
//! pool's read mode, to show what that is worth (`scripts/vector-ablation`).

use polder_format::PageId;
use polder_pool::bytes::PageRef;
use polder_pool::{
    AccessHint, Blocked, Interleaved, LinkRef, Loading, PoolError, Restart, Space, Translation,
};
use polder_structure::page::broken;

use crate::node_id::NodeId;

/// Places whose state words are asked for together.
const TOGETHER: usize = 32;

/// What is made of a place: first seen, as often as it must be, while its page may change; then, once that
/// has validated, taken. Nothing may wait in either (`MANY-4`).
pub(crate) trait Look {
    /// What is seen of a place.
    type Sight;
    /// How pages are read for which the thread waits.
    const HINT: AccessHint;

    /// How many places ahead of the one that is looked at lines are asked for.
    fn ahead(&self) -> usize;

    /// Asks the processor for what is seen of a place. Nothing may be believed of what is there.
    fn prefetch(&self, page: PageRef<'_>, id: NodeId);

    /// What is seen of a place, if there is something to be taken. What an earlier call has left means
    /// nothing. An error, if the page is none of the index, is met again by [`Look::see_surely`].
    fn see(&mut self, page: PageRef<'_>, id: NodeId) -> Result<Option<Self::Sight>, &'static str>;

    /// The same of a page for which the thread has waited: where [`Look::see`] looks away from what is
    /// wrong with it, this does not.
    fn see_surely(
        &mut self,
        page: PageRef<'_>,
        id: NodeId,
    ) -> Result<Option<Self::Sight>, &'static str> {
        self.see(page, id)
    }

    fn take(&mut self, id: NodeId, sight: Self::Sight);
}

/// How a thread looks at places.
pub(crate) struct Reads<'r, 'p, T: Translation> {
    space: &'p Space<T>,
    way: &'r mut Interleaved<'p, T>,
    /// Places whose page is on its way, each with its flight.
    awaited: Vec<(usize, NodeId)>,
    /// Places that are to be waited for when no page is on its way.
    later: Vec<NodeId>,
    /// How many pages were not there.
    missing: usize,
}

impl<'r, 'p, T: Translation> Reads<'r, 'p, T> {
    pub(crate) fn new(space: &'p Space<T>, way: &'r mut Interleaved<'p, T>) -> Reads<'r, 'p, T> {
        Reads { space, way, awaited: Vec::new(), later: Vec::new(), missing: 0 }
    }

    /// How many pages were not there so far.
    pub(crate) fn missing(&self) -> usize {
        self.missing
    }

    /// Looks at these places, in the order in which their pages come.
    #[inline(always)]
    pub(crate) fn each<L: Look>(
        &mut self,
        places: &[NodeId],
        look: &mut L,
    ) -> Result<(), PoolError> {
        if cfg!(polder_one_by_one) {
            return places.iter().try_for_each(|place| self.look_alone(*place, look, L::see));
        }
        // An error may have left something.
        self.awaited.clear();
        self.later.clear();
        let ahead = look.ahead();
        for places in places.chunks(TOGETHER) {
            let mut expected = [None; TOGETHER];
            for (page, place) in expected.iter_mut().zip(places) {
                *page = self.way.prefetch(self.link(*place));
            }
            for (page, place) in expected.iter_mut().zip(places).filter(|(page, _)| page.is_none())
            {
                *page = self.find(*place);
            }
            for (page, place) in expected.iter().zip(places).take(ahead) {
                page.iter().for_each(|page| look.prefetch(*page, *place));
            }
            for (i, place) in places.iter().enumerate() {
                let next = i + ahead;
                if let (Some(Some(page)), Some(place)) = (expected.get(next), places.get(next)) {
                    look.prefetch(*page, *place);
                }
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

    /// Where a page lies, of a translation that expects it nowhere: it is found by the words that were asked
    /// for.
    #[inline(never)]
    fn find(&mut self, place: NodeId) -> Option<PageRef<'p>> {
        match self.way.visit(self.link(place)) {
            Ok(page) => Some(page.page()),
            Err(Restart) => {
                // Why it is not there is asked when it is looked at.
                let _ = self.way.blocked();
                None
            }
        }
    }

    /// What `see` makes of the page of a place, which is here and does not change.
    #[inline(always)]
    pub(crate) fn read<R>(
        &mut self,
        place: NodeId,
        see: impl FnOnce(PageRef<'_>) -> R,
    ) -> Result<R, Restart> {
        if cfg!(polder_one_by_one) {
            return Err(Restart);
        }
        let page = self.way.visit(self.link(place))?;
        let seen = see(page.page());
        page.validate()?;
        Ok(seen)
    }

    #[inline(always)]
    fn look<L: Look>(&mut self, place: NodeId, look: &mut L) -> Result<(), Restart> {
        let seen = self.read(place, |page| look.see(page, place))?;
        if let Some(seen) = seen.map_err(|_| Restart)? {
            look.take(place, seen);
        }
        Ok(())
    }

    /// A place could not be read: its page is asked of the device, or waited for later.
    #[cold]
    fn await_page<L: Look>(&mut self, place: NodeId, look: &mut L) {
        if let Blocked::Missing(page, parent) = self.way.blocked() {
            self.missing += 1;
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
    pub(crate) fn wait_for<L: Look>(
        &mut self,
        place: NodeId,
        look: &mut L,
    ) -> Result<(), PoolError> {
        // Why it was not there is no matter.
        let _ = self.way.blocked();
        self.look_alone(place, look, L::see_surely)
    }

    /// Looks at a place as an operation does that has this one alone.
    #[inline(always)]
    fn look_alone<L: Look>(
        &mut self,
        place: NodeId,
        look: &mut L,
        see: impl Fn(&mut L, PageRef<'_>, NodeId) -> Result<Option<L::Sight>, &'static str>,
    ) -> Result<(), PoolError> {
        let seen = self.space.run(L::HINT, |attempt| {
            let page = self.space.page(attempt, place.page())?;
            let seen = see(look, page.page(), place);
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
