//! Looking at places of many pages at once: those whose pages are in memory one after the other, each asked
//! of the processor's memory ahead; the pages that are missing many together of the device, and as they
//! come (group prefetch, `calico-2026` 5.1). A build with `--cfg polder_one_by_one` reads each by itself, in the
//! pool's read mode, to show what that is worth (`scripts/vector-ablation`).

use std::collections::VecDeque;
use std::mem;

use polder_format::{PageId, PageNo};
use polder_pool::bytes::PageRef;
use polder_pool::{
    AccessHint, Blocked, Interleaved, LinkRef, Loading, PoolError, Restart, Space, Translation,
};
use polder_structure::page::broken;

use crate::node_id::NodeId;

/// Places whose state words are asked for together.
const TOGETHER: usize = 32;
/// Conflicts after which a place is waited for.
const MOST_CONFLICTS: u8 = 8;

/// What is made of a place: first seen, as often as it must be, while its page may change; then, once that
/// has validated, taken. Nothing may wait in either (`MANY-4`).
pub(crate) trait Look {
    /// What is seen of a place.
    type Sight;
    /// Whether its pages will be wanted again.
    const HINT: AccessHint;

    /// Of how many places lines are asked for together, at least 1; half of them are not looked at until those of
    /// the next ones are asked for.
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

/// How a thread looks at places, for one search or for several that go on together (`together.rs`).
///
/// A place that a search awaits is in exactly one of the lists (`TOGETHER-1`).
pub(crate) struct Reads<'r, 'p, T: Translation> {
    space: &'p Space<T>,
    way: &'r mut Interleaved<'p, T>,
    /// The search whose turn it is.
    search: usize,
    /// Places whose pages are on their way, each with its flight.
    awaited: Vec<(usize, Awaited)>,
    /// Places that are tried again when a page has come: the device had no room, or another thread loads the
    /// page or changes it.
    put_off: VecDeque<Awaited>,
    /// Places that are waited for when no page is on its way (`MANY-4`).
    last: Vec<Awaited>,
    /// Memory for what has come.
    landed: Vec<Awaited>,
}

/// How far a list of places has been gone through: of those before `asked` the lines were asked for, and those
/// before `seen` were looked at, or are awaited.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Window {
    seen: usize,
    asked: usize,
}

impl Window {
    /// Of how many places the lines were asked for.
    #[inline(always)]
    pub(crate) fn asked(self) -> usize {
        self.asked
    }

    /// Whether the lines were asked for of everything in this list.
    #[inline(always)]
    pub(crate) fn has_asked(self, places: &[NodeId]) -> bool {
        self.asked == places.len()
    }

    /// Whether everything in it was looked at, or is awaited.
    #[inline(always)]
    pub(crate) fn is_over(self, places: &[NodeId]) -> bool {
        self.seen == places.len()
    }
}

/// A place for which a search waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Awaited {
    /// Which search.
    pub(crate) search: usize,
    pub(crate) place: NodeId,
    /// How often its page was changing, or could not be asked for.
    conflicts: u8,
}

impl<'r, 'p, T: Translation> Reads<'r, 'p, T> {
    pub(crate) fn new(space: &'p Space<T>, way: &'r mut Interleaved<'p, T>) -> Reads<'r, 'p, T> {
        let (awaited, put_off, last, landed) = Default::default();
        Reads { space, way, search: 0, awaited, put_off, last, landed }
    }

    /// Looks at these places, in the order in which their pages come. Of several searches none is under way.
    #[inline(always)]
    pub(crate) fn each<L: Look>(
        &mut self,
        places: &[NodeId],
        look: &mut L,
    ) -> Result<(), PoolError> {
        debug_assert!(self.awaits_nothing(), "another search goes on");
        match self.ask(places, look)? {
            0 => Ok(()),
            _ => self.finish(|reads, awaited, may_wait| reads.look_at(awaited, look, may_wait)),
        }
    }

    /// Looks at those of these places whose pages are here, and asks for the other pages. Gives how many places
    /// are awaited, for the search whose turn it is.
    #[inline(always)]
    pub(crate) fn ask<L: Look>(
        &mut self,
        places: &[NodeId],
        look: &mut L,
    ) -> Result<usize, PoolError> {
        self.ask_on(places, &mut Window::default(), false, look)
    }

    /// The same of a list that grows at its end: of what was appended. With `keeps`, the last ones of that are not
    /// looked at if no page was missing: their lines come while the caller does what leads to more of the list.
    #[inline(always)]
    pub(crate) fn ask_on<L: Look>(
        &mut self,
        places: &[NodeId],
        window: &mut Window,
        keeps: bool,
        look: &mut L,
    ) -> Result<usize, PoolError> {
        if cfg!(polder_one_by_one) {
            places[window.seen..].iter().try_for_each(|one| self.look_alone(*one, look, L::see))?;
            *window = Window { seen: places.len(), asked: places.len() };
            return Ok(0);
        }
        self.way.set_hint(L::HINT);
        let ahead = look.ahead();
        let (mut awaited, is_new) = (0, window.asked < places.len());
        while window.asked < places.len() {
            let together = &places[window.asked..];
            let together = &together[..together.len().min(TOGETHER)];
            let mut expected = [None; TOGETHER];
            let mut are_expected = true;
            for (page, place) in expected.iter_mut().zip(together) {
                *page = self.way.prefetch(self.link(place.page()));
                are_expected &= page.is_some();
            }
            if !are_expected {
                let unexpected =
                    expected.iter_mut().zip(together).filter(|(page, _)| page.is_none());
                let (way, space) = (&mut *self.way, self.space.id());
                let link = |place: &NodeId| LinkRef::Id(PageId::new(space, place.page()));
                unexpected.for_each(|(page, place)| *page = way.find(link(place)));
            }
            for (pages, part) in expected.chunks(ahead).zip(together.chunks(ahead)) {
                for (page, place) in pages.iter().zip(part) {
                    page.iter().for_each(|page| look.prefetch(*page, *place));
                }
                window.asked += part.len();
                let end = window.asked - part.len().min(ahead / 2);
                awaited += self.look_until(end, places, window, look);
            }
        }
        if !keeps || !is_new || awaited > 0 {
            awaited += self.look_until(places.len(), places, window, look);
        }
        if awaited > 0 {
            self.way.hand_over(false);
        }
        Ok(awaited)
    }

    /// Looks at the places up to this one, and asks for pages that are missing. Gives how many are.
    #[inline(always)]
    fn look_until<L: Look>(
        &mut self,
        end: usize,
        places: &[NodeId],
        window: &mut Window,
        look: &mut L,
    ) -> usize {
        let mut awaited = 0;
        while window.seen < end {
            let place = places[window.seen];
            window.seen += 1;
            if self.look(place, look).is_err() {
                self.load(Awaited { search: self.search, place, conflicts: 0 });
                awaited += 1;
            }
        }
        awaited
    }

    /// Looks at all that is awaited, as it comes ([`Reads::next`]).
    #[cold]
    pub(crate) fn finish(
        &mut self,
        mut look: impl FnMut(&mut Self, Awaited, bool) -> Result<bool, PoolError>,
    ) -> Result<(), PoolError> {
        while self.next(true, &mut look)? {}
        Ok(())
    }

    /// Says which search asks from here on.
    pub(crate) fn set_search(&mut self, search: usize) {
        self.search = search;
    }

    /// Whether pages are on their way.
    pub(crate) fn is_waiting(&self) -> bool {
        self.way.open() > 0
    }

    /// Whether there are places for which nothing may be on its way.
    pub(crate) fn is_draining(&self) -> bool {
        !self.last.is_empty()
    }

    /// Whether more may be on its way than what was asked for.
    pub(crate) fn has_room(&self) -> bool {
        !self.way.is_full() && self.put_off.is_empty()
    }

    /// Whether no place is awaited.
    pub(crate) fn awaits_nothing(&self) -> bool {
        self.awaited.is_empty() && self.put_off.is_empty() && self.last.is_empty()
    }

    /// Hands places that are awaited to `look`, which says whether it could look at them, and is told whether
    /// it may wait for the page ([`Reads::look_at`]): those of a page that has come, and those that were put
    /// off. With `wait`, waits for a page, and sees to that one; else to all that have come, and the device is
    /// handed all that was asked for. False if nothing is awaited.
    #[cold]
    pub(crate) fn next(
        &mut self,
        wait: bool,
        mut look: impl FnMut(&mut Self, Awaited, bool) -> Result<bool, PoolError>,
    ) -> Result<bool, PoolError> {
        if self.is_waiting() {
            match wait {
                true => self.way.hand_over(false),
                false => self.way.hand_over_all(),
            }
            self.land(wait, &mut look)?;
            while !wait && self.way.has_come() {
                self.land(false, &mut look)?;
            }
            // TOGETHER-2
            if !self.is_draining() {
                self.try_again(&mut look)?;
            }
            return Ok(true);
        }
        debug_assert!(wait, "no page is on its way");
        let mut alone = self.last.pop();
        if alone.is_none() {
            if self.try_again(&mut look)? {
                return Ok(true);
            }
            // What was put off as often as may be is among the last now.
            alone = self.put_off.pop_front().or_else(|| self.last.pop());
        }
        let Some(awaited) = alone else { return Ok(false) };
        let is_seen = look(self, awaited, true)?;
        debug_assert!(is_seen, "who may wait sees the page");
        Ok(true)
    }

    /// Looks at the places of a page that has come.
    fn land(
        &mut self,
        wait: bool,
        look: &mut impl FnMut(&mut Self, Awaited, bool) -> Result<bool, PoolError>,
    ) -> Result<(), PoolError> {
        let Some((flight, pin)) = self.way.land(wait) else { return Ok(()) };
        let mut landed = mem::take(&mut self.landed);
        let of_flight = self.awaited.extract_if(.., |(of, _)| *of == flight);
        landed.extend(of_flight.map(|(_, awaited)| awaited));
        for awaited in landed.drain(..) {
            if pin.is_err() {
                // The error is met again by whoever waits for the page.
                self.last.push(awaited);
            } else if !look(self, awaited, false)? {
                self.load(awaited);
            }
        }
        self.landed = landed;
        Ok(())
    }

    /// Looks at what was put off, or asks for its pages, as long as the device has room. Whether that has led
    /// to anything.
    fn try_again(
        &mut self,
        look: &mut impl FnMut(&mut Self, Awaited, bool) -> Result<bool, PoolError>,
    ) -> Result<bool, PoolError> {
        let mut is_seen = false;
        for _ in 0..self.put_off.len() {
            let Some(awaited) = self.put_off.pop_front() else { break };
            if look(self, awaited, false)? {
                is_seen = true;
            } else if !self.load(awaited) {
                break;
            }
        }
        if self.is_waiting() {
            self.way.hand_over(false);
        }
        Ok(is_seen || self.is_waiting())
    }

    /// What `see` makes of a page that is here and does not change.
    #[inline(always)]
    pub(crate) fn read_here<R>(
        &mut self,
        page: PageNo,
        see: impl FnOnce(PageRef<'_>) -> R,
    ) -> Option<R> {
        let seen = self.read(page, see);
        if seen.is_err() {
            // Why it could not be read is asked for another place.
            let _ = self.way.blocked();
        }
        seen.ok()
    }

    #[inline(always)]
    fn read<R>(&mut self, page: PageNo, see: impl FnOnce(PageRef<'_>) -> R) -> Result<R, Restart> {
        if cfg!(polder_one_by_one) {
            return Err(Restart);
        }
        let page = self.way.visit(self.link(page))?;
        let seen = see(page.page());
        page.validate()?;
        Ok(seen)
    }

    #[inline(always)]
    fn look<L: Look>(&mut self, place: NodeId, look: &mut L) -> Result<(), Restart> {
        let seen = self.read(place.page(), |page| look.see(page, place))?;
        if let Some(seen) = seen.map_err(|_| Restart)? {
            look.take(place, seen);
        }
        Ok(())
    }

    /// Looks at a place that was awaited. False if that must wait, and may not.
    ///
    /// # Errors
    /// If it may wait: why the page cannot be loaded, or is none of the index.
    pub(crate) fn look_at<L: Look>(
        &mut self,
        awaited: Awaited,
        look: &mut L,
        may_wait: bool,
    ) -> Result<bool, PoolError> {
        if may_wait {
            return self.look_alone(awaited.place, look, L::see_surely).map(|()| true);
        }
        self.way.set_hint(L::HINT);
        Ok(self.look(awaited.place, look).is_ok())
    }

    /// Asks for the page of a place that could not be looked at, or puts that off. False if no other page
    /// need be asked for now.
    #[cold]
    fn load(&mut self, awaited: Awaited) -> bool {
        match self.way.blocked() {
            Blocked::Missing(page, parent) => match self.way.load(page, parent) {
                Loading::Flies(flight) => self.awaited.push((flight, awaited)),
                Loading::Elsewhere => self.put_off.push_back(awaited),
                Loading::NotNow if self.way.is_full() => {
                    self.put_off.push_back(awaited);
                    return false;
                }
                // There is no frame, or it is not known where the page lies.
                Loading::NotNow => {
                    self.put_off_again(awaited);
                    return false;
                }
            },
            Blocked::Changed => self.put_off_again(awaited),
        }
        true
    }

    /// A place could not be looked at for a reason that will pass, or not: then it is waited for (`MANY-3`).
    fn put_off_again(&mut self, awaited: Awaited) {
        match awaited.conflicts == MOST_CONFLICTS {
            true => self.last.push(awaited),
            false => {
                let conflicts = awaited.conflicts + 1;
                self.put_off.push_back(Awaited { conflicts, ..awaited });
            }
        }
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
    fn link(&self, page: PageNo) -> LinkRef<'p> {
        LinkRef::Id(PageId::new(self.space.id(), page))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use polder_format::PageSize;
    use polder_pool::{Array, FileState, Pool};
    use polder_testkit::pools;

    use super::*;
    use crate::element::ElementKind;
    use crate::hnsw::HnswIndex;
    use crate::metric::Metric;
    use crate::options::HnswOptions;
    use crate::vectors::VectorShape;

    /// Remembers what it has looked at.
    #[derive(Default)]
    pub(crate) struct Seen(pub(crate) Vec<NodeId>);

    impl Look for Seen {
        type Sight = ();
        const HINT: AccessHint = AccessHint::Normal;

        fn ahead(&self) -> usize {
            4
        }

        fn prefetch(&self, _: PageRef<'_>, _: NodeId) {}

        fn see(&mut self, _: PageRef<'_>, _: NodeId) -> Result<Option<()>, &'static str> {
            Ok(Some(()))
        }

        fn take(&mut self, place: NodeId, (): ()) {
            self.0.push(place);
        }
    }

    /// Sees only those for which it may wait.
    #[derive(Default)]
    struct Shy(Seen);

    impl Look for Shy {
        type Sight = ();
        const HINT: AccessHint = AccessHint::Normal;

        fn ahead(&self) -> usize {
            1
        }

        fn prefetch(&self, _: PageRef<'_>, _: NodeId) {}

        fn see(&mut self, _: PageRef<'_>, _: NodeId) -> Result<Option<()>, &'static str> {
            Err("not yet")
        }

        fn see_surely(&mut self, _: PageRef<'_>, _: NodeId) -> Result<Option<()>, &'static str> {
            Ok(Some(()))
        }

        fn take(&mut self, place: NodeId, (): ()) {
            self.0.take(place, ());
        }
    }

    /// However often places were put off, all are looked at in the end.
    #[test]
    fn what_was_put_off_is_looked_at() {
        let (_pool, space, nodes) = nodes(2);
        for conflicts in 0..=MOST_CONFLICTS {
            let mut shy = Shy::default();
            space.interleave(AccessHint::Normal, |way| {
                let mut reads = Reads::new(&space, way);
                let put_off = |place: &NodeId| Awaited { search: 0, place: *place, conflicts };
                reads.put_off.extend(nodes.iter().map(put_off));
                let look = |reads: &mut Reads<'_, '_, Array>, awaited, may_wait| {
                    reads.look_at(awaited, &mut shy, may_wait)
                };
                reads.finish(look).unwrap();
                assert!(reads.awaits_nothing(), "after {conflicts} conflicts");
            });
            shy.0.0.sort_unstable();
            assert_eq!(shy.0.0, nodes);
        }
    }

    /// An index of so many vectors, and their nodes.
    fn nodes(count: u64) -> (Pool<Array>, Space<Array>, Vec<NodeId>) {
        let config = pools::config(4, PageSize::MIN, FileState::NEW);
        let pool: Pool<Array> =
            Pool::open(Box::new(pools::disk()), &config, &crate::KINDS).unwrap();
        let space = pool.create_space().unwrap();
        let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
        let index = HnswIndex::create(space.clone(), &HnswOptions::new(shape)).unwrap();
        let nodes =
            (0..count).map(|label| index.insert(label, &[label as f32, 0.0]).unwrap()).collect();
        (pool, space, nodes)
    }

    /// Of a list that grows the last places are kept until more are asked for, and no longer; each is looked at
    /// once, in its turn.
    #[test]
    fn the_last_places_are_kept_while_there_are_more() {
        let (_pool, space, nodes) = nodes(100);
        let (mut window, mut seen) = (Window::default(), Seen::default());
        // How many places there are, whether the last ones are kept, and how many are looked at then.
        let steps = [
            (0, true, 0),
            (3, true, 1),
            (10, true, 8),
            (10, true, 10),
            (11, true, 10),
            (90, true, 88),
            (97, false, 97),
            (100, true, 98),
            (100, false, 100),
        ];
        space.interleave(AccessHint::Normal, |way| {
            let mut reads = Reads::new(&space, way);
            for (count, keeps, looked_at) in steps {
                let places = &nodes[..count];
                assert_eq!(reads.ask_on(places, &mut window, keeps, &mut seen).unwrap(), 0);
                assert_eq!(seen.0, nodes[..looked_at], "of {count}");
                assert!(window.has_asked(places));
                assert_eq!(window.is_over(places), looked_at == count);
            }
        });
    }
}
