//! The steps of many operations of one thread, interleaved: while one waits for memory or for the
//! device, others go on.
//!
//! A lookup in memory waits for one cache line after another, and one that misses waits for the
//! device. A thread that has many lookups to make needs to wait for neither: it asks for what one of
//! them reads next, and goes on with another one until that has come (asynchronous memory access
//! chaining, AMAC: Kocberber, Falsafi, Grot, VLDB 2016; CoroBase: He, Lu, Wang, VLDB 2020, which has
//! coroutines for the state machines of AMAC). What drives the state machines is above the pool; here
//! is what they are made of:
//!
//! * [`Interleaved::follow`] goes from a link to its page as an operation alone does, but for waiting:
//!   where the page is missing it says so.
//! * [`Interleaved::load`] begins a fault, and [`Interleaved::land`] ends one (`paging/flights.rs`).
//!
//! Rules for callers:
//!
//! * `MANY-1` Between two steps a machine keeps guards of pages ([`Optimistic`]), which hold nothing. A
//!   page is neither latched nor pinned while another machine goes on; the pin of a page that has been
//!   loaded is kept until the machines that waited for it have taken their next step, so that the page
//!   is there for them.
//! * `MANY-2` A machine takes a child for what its parent says only if the parent validates after the
//!   child's word was read ([`Interleaved::follow`] sees to that); and what it has read of its last
//!   page only if that validates at the end. How long lies between does not matter.
//! * `MANY-3` After a bounded number of conflicts an operation is run by itself, by
//!   [`Space::run`](crate::Space::run), where it cannot be overtaken for ever. So is one that would
//!   have to wait, and one whose page cannot be loaded: it meets the error again, and reports it as it
//!   would have by itself.
//! * `MANY-4` Whatever may wait, and all code of users, runs only while [`Interleaved::open`] is 0
//!   (`FLIGHT-1`): also a lookup by itself waits for pages, and may wait for one that this very thread has
//!   in flight. An operation that would wait then is refused, with [`PoolError::WouldWait`].
//!
//! Here no page is held by the pool's read mode: guards are optimistic in all of them, as in recovery
//! from a snapshot that led astray. They find a page that a writer has for copying unreadable, which is
//! a conflict.

#![cfg(not(loom))]

use std::fmt;

use polder_format::PageNo;

use crate::error::PoolError;
use crate::latch::{Optimistic, Pin, Restart};
use crate::operation::attempt::Attempt;
use crate::page::{LinkRef, PageRef};
use crate::paging::{Begun, Flights};
use crate::replacement::AccessHint;
use crate::shared::View;
use crate::thread::Counter;
use crate::translation::Translation;

/// What many operations of one thread go by; see the module's documentation.
pub struct Interleaved<'p, T: Translation> {
    view: View<'p, T>,
    attempt: Attempt<'p>,
    flights: Flights<'p, T>,
    /// The page that each flight loads, by its number, and the one above that.
    pages: Vec<Option<PageNo>>,
    parents: Vec<Option<Optimistic<'p>>>,
}

/// Why a step did not lead to a page.
#[derive(Debug, Clone, Copy)]
pub enum Blocked<'p> {
    /// The page must be loaded. The page above leads to it, if there is one.
    Missing(PageNo, Option<Optimistic<'p>>),
    /// Something changed: the operation begins again.
    Changed,
}

/// What came of the wish to load a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    /// It is on its way, by this flight.
    Flies(usize),
    /// It is there by now, or on its way for another thread.
    Elsewhere,
    /// Not as long as flights are open; if none is, not without waiting.
    NotNow,
}

impl<T: Translation> fmt::Debug for Interleaved<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interleaved").field("open", &self.flights.count()).finish_non_exhaustive()
    }
}

impl<'p, T: Translation> Interleaved<'p, T> {
    pub(crate) fn new(view: View<'p, T>, hint: AccessHint) -> Interleaved<'p, T> {
        let mut attempt = Attempt::new(&view.shared.core, hint);
        (attempt.holds, attempt.snapshots) = (false, false);
        let flights = Flights::new(view.shared, view.shared.most_flights(), hint);
        Interleaved { view, attempt, flights, pages: Vec::new(), parents: Vec::new() }
    }

    /// Says whether the pages that are visited and loaded from here on will be wanted again.
    #[inline(always)]
    pub fn set_hint(&mut self, hint: AccessHint) {
        self.attempt.hint = hint;
        self.flights.set_hint(hint);
    }

    /// Goes from a link to its page, as [`Space::follow`](crate::Space::follow) does, and waits for
    /// nothing.
    ///
    /// # Errors
    /// [`Restart`]: [`Interleaved::blocked`] says why. Also if a link cannot be followed because of
    /// damage: then the operation is to be run by itself, as after many conflicts.
    #[inline(always)]
    pub fn follow(
        &mut self,
        link: LinkRef<'p>,
        parent: Option<&Optimistic<'p>>,
    ) -> Result<Optimistic<'p>, Restart> {
        self.view.follow(&mut self.attempt, link, parent)
    }

    /// The same from a link that stands in no page, to a page of which the lines that are wanted have
    /// been asked for ([`Interleaved::prefetch`]): nothing else of it is fetched.
    ///
    /// # Errors
    /// As [`Interleaved::follow`].
    #[inline(always)]
    pub fn visit(&mut self, link: LinkRef<'p>) -> Result<Optimistic<'p>, Restart> {
        self.view.follow_to::<false>(&mut self.attempt, link, None)
    }

    /// Why the last step did not lead to a page.
    #[cold]
    #[inline(never)]
    pub fn blocked(&mut self) -> Blocked<'p> {
        let what = std::mem::take(&mut self.attempt.interrupted);
        match what.miss {
            Some((page, parent)) => Blocked::Missing(page.page(), parent),
            None => Blocked::Changed,
        }
    }

    /// Asks the processor for what following this link reads before the page itself. Gives the page as
    /// it lies where it is expected, so that its lines can be asked for as well; nothing may be believed
    /// of what is there.
    #[inline(always)]
    pub fn prefetch(&self, link: LinkRef<'p>) -> Option<PageRef<'p>> {
        let View { shared, space } = self.view;
        shared.translation.prefetch(&shared.core.frames.memory, &space.directory, link)
    }

    /// Where the page of a link lies, of a translation that expects it nowhere ([`Interleaved::prefetch`]): it
    /// is found by what was asked for. `None` if it is not here, or changes at the moment.
    #[inline(never)]
    pub fn find(&mut self, link: LinkRef<'p>) -> Option<PageRef<'p>> {
        match self.visit(link) {
            Ok(page) => {
                // It is counted when it is read.
                self.attempt.pages -= 1;
                Some(page.page())
            }
            Err(Restart) => {
                // Why it is not here is asked when it is wanted.
                let _ = self.blocked();
                None
            }
        }
    }

    /// How many flights are open.
    #[inline(always)]
    pub fn open(&self) -> usize {
        self.flights.count()
    }

    /// Whether no more can be opened as long as no read comes back, and no flight is ended.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.flights.is_full()
    }

    /// Whether a read has come back whose flight can be ended.
    #[inline(always)]
    pub fn has_come(&self) -> bool {
        self.flights.has_come()
    }

    /// Hands the device what was begun, if that is enough together. With `wait`, waits for a read as
    /// well; there is a flight that has not come.
    pub fn hand_over(&mut self, wait: bool) {
        self.flights.hand_over(wait);
    }

    /// Hands the device all that was begun, and finds out what has come back.
    pub fn hand_over_all(&mut self) {
        self.flights.reap(false);
    }

    /// Begins to load a page that was missing below `parent`, unless one of the flights does.
    pub fn load(&mut self, page: PageNo, parent: Option<Optimistic<'p>>) -> Loading {
        if let Some(flight) = self.pages.iter().position(|loads| *loads == Some(page)) {
            return Loading::Flies(flight);
        }
        match self.flights.begin(self.view.space, page) {
            Begun::Open(flight) => {
                if self.pages.len() <= flight {
                    self.pages.resize(flight + 1, None);
                    self.parents.resize(flight + 1, None);
                }
                (self.pages[flight], self.parents[flight]) = (Some(page), parent);
                Loading::Flies(flight)
            }
            Begun::Taken => Loading::Elsewhere,
            Begun::NotNow => Loading::NotNow,
        }
    }

    /// Ends a flight whose page has come; with `wait`, waits for one if any is open. The page stays as
    /// long as its pin is kept.
    ///
    /// The error beside the flight's number: why the page could not be loaded, or that it is not what
    /// the page above says of it ([`PoolError::Broken`]).
    pub fn land(&mut self, wait: bool) -> Option<(usize, Result<Pin<'p>, PoolError>)> {
        let landed = self.flights.land(wait)?;
        let parent = self.parents.get_mut(landed.number).and_then(Option::take);
        self.pages.get_mut(landed.number).and_then(Option::take);
        let outcome =
            landed.outcome.and_then(|(page, pin)| self.view.check_link(page, parent, pin));
        Some((landed.number, outcome))
    }
}

impl<T: Translation> Drop for Interleaved<'_, T> {
    fn drop(&mut self) {
        // What nobody waits for any more is looked at all the same: it stays in memory.
        while self.land(true).is_some() {}
        let pages = std::mem::take(&mut self.attempt.pages);
        self.view.shared.core.counters.add(Counter::PagesRead, pages);
    }
}
