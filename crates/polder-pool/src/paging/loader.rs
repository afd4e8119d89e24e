//! The loader: one thread that loads pages for futures, many at once.
//!
//! A future waits for no page: it asks for it (`wanted.rs`), and this thread begins the fault among as
//! many as the device wants, ends those whose reads have come back, and wakes the futures. It starts
//! with the first page that is asked for, ends when nothing was for a while, and stops with the pool.
//!
//! ```text
//!   asleep --asked--> begins what is wanted --> waits for a read, ends it, tells --+
//!      ^                   ^                                                       |
//!      |                   +----------- a read is open, or more is wanted ---------+
//!      |                                                                           |
//!      +-- nothing for KEEP: the pins go -- no read is open, nothing is wanted <---+
//! ```
//!
//! * `LOAD-1` The thread waits for the reads of its open faults alone (`FLIGHT-1`). A page that cannot
//!   be begun without waiting (it is in flight elsewhere, its place in the file is not known, no frame
//!   is free) is put off until one of its own has ended; if none is open the futures are told that it
//!   does not come this way ([`Arrival::Elsewhere`]), and have their operations made by a thread that
//!   may wait. So they are with a page that could not be loaded: the operation meets the error again,
//!   and reports it as it would have without futures.
//! * `LOAD-2` A page that has come keeps its frame until those that wait for it have had a chance to
//!   come by: it is pinned until as many others have come as may be open at once, or nothing has for
//!   `KEEP`, or no frame is free for another. So the pins are few, none outlives that time, and a
//!   future that is never polled again, or dropped, keeps nothing.
//! * `LOAD-3` If the thread ends by a panic, all are told to go elsewhere, then and from then on.

#![cfg(not(loom))]

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use polder_format::PageId;

use super::flights::{Begun, Flights};
use super::spaces::Spaces;
use super::wanted::{Wanted, Wish};
use crate::error::PoolError;
use crate::latch::Pin;
use crate::replacement::AccessHint;
use crate::shared::Shared;
use crate::thread::{Call, Worker, waits};
use crate::translation::Translation;

/// It ends when nothing has been asked for so long.
const STAY: Duration = Duration::from_secs(1);
/// How long the last pages that have come are kept for those that wait for them (`LOAD-2`).
const KEEP: Duration = Duration::from_millis(5);

/// What has become of a page that a future waits for.
#[derive(Debug, Clone)]
pub enum Arrival {
    /// It was resident a moment ago.
    Loaded,
    /// It does not come this way: a thread that may wait makes the operation.
    Elsewhere,
    /// It is not what the page above says of it.
    Broken(PoolError),
}

/// A page that a future waits for ([`Pool::await_page`](crate::Pool::await_page)). May be dropped at
/// any time, but not in the child of a fork.
#[derive(Debug)]
pub struct AwaitedPage {
    wanted: Arc<Wanted<Arrival>>,
    /// None once the answer was given.
    place: Option<usize>,
}

impl AwaitedPage {
    /// What has become of it. If nothing has yet, `waker` is called when something has: that of the
    /// last call alone.
    pub fn poll(&mut self, waker: &Waker) -> Poll<Arrival> {
        let Some(place) = self.place else { return Poll::Ready(Arrival::Elsewhere) };
        let Some(answer) = self.wanted.poll(place, waker) else { return Poll::Pending };
        self.place = None;
        Poll::Ready(answer)
    }
}

impl Drop for AwaitedPage {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.wanted.forget(place);
        }
    }
}

/// Has the loader start when a page is asked for; dropping this stops it and waits for its end.
#[derive(Debug)]
pub(crate) struct Loader {
    wanted: Arc<Wanted<Arrival>>,
    worker: Arc<Worker>,
}

impl Loader {
    pub(crate) fn new<T: Translation>(shared: &Arc<Shared<T>>) -> Loader {
        let (wanted, worker) = (Arc::<Wanted<Arrival>>::default(), Arc::<Worker>::default());
        let theirs = (Arc::clone(shared), Arc::clone(&wanted), Arc::clone(&worker));
        // Nobody has asked yet, so that no thread starts that could fail to.
        let _ = worker.arm("polder-loader", move || {
            let (shared, wanted, worker) = &theirs;
            let end = EndOnPanic(wanted);
            shared.load_wanted(worker, wanted);
            drop(end);
        });
        Loader { wanted, worker }
    }

    pub(crate) fn ask(&self, page: PageId, above: Option<PageId>, waker: &Waker) -> AwaitedPage {
        let place = self.wanted.ask(Wish { page, above }, waker);
        let mut awaited = AwaitedPage { wanted: Arc::clone(&self.wanted), place };
        // Not `wake`: another thread that asks as well may fail to start one.
        if self.worker.urge().is_err()
            && let Some(place) = awaited.place.take()
        {
            // There is no thread to be had.
            self.wanted.forget(place);
        }
        awaited
    }

    /// Stops the thread, and sends away all that wait, now and later.
    pub(crate) fn stop(&self) {
        self.wanted.end(&Arrival::Elsewhere, waits::wake);
        self.worker.stop();
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.stop();
    }
}

/// `LOAD-3`
struct EndOnPanic<'w>(&'w Wanted<Arrival>);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end(&Arrival::Elsewhere, waits::wake);
        }
    }
}

impl<T: Translation> Shared<T> {
    /// The thread.
    fn load_wanted(&self, worker: &Worker, wanted: &Wanted<Arrival>) {
        loop {
            match worker.wait(STAY) {
                Call::Stop => return,
                Call::Nobody if worker.leave() => return,
                Call::Nobody => {}
                Call::Asked => {
                    let spaces = Spaces::none();
                    if Loading::new(self, &spaces, wanted).run(worker) == Call::Stop {
                        return;
                    }
                }
            }
        }
    }
}

/// What the thread does until nothing is wanted any more.
struct Loading<'p, T: Translation> {
    shared: &'p Shared<T>,
    spaces: &'p Spaces<T>,
    wanted: &'p Wanted<Arrival>,
    flights: Flights<'p, T>,
    /// What each flight is for.
    open: Vec<Option<Wish>>,
    put_off: VecDeque<Wish>,
    /// `LOAD-2`
    pins: VecDeque<Pin<'p>>,
}

impl<'p, T: Translation> Loading<'p, T> {
    fn new(
        shared: &'p Shared<T>,
        spaces: &'p Spaces<T>,
        wanted: &'p Wanted<Arrival>,
    ) -> Loading<'p, T> {
        let flights = Flights::new(shared, shared.most_flights(), AccessHint::Normal);
        let (open, put_off, pins) = (Vec::new(), VecDeque::new(), VecDeque::new());
        Loading { shared, spaces, wanted, flights, open, put_off, pins }
    }

    fn run(mut self, worker: &Worker) -> Call {
        loop {
            // FLIGHT-4
            if !self.shared.core.map.deferred.is_any() {
                self.begin();
            }
            if self.flights.count() > 0 {
                self.land();
                continue;
            }
            if self.shared.core.map.deferred.is_any() {
                (self.shared.give_back)(self.shared);
                continue;
            }
            // LOAD-1
            let put_off = std::mem::take(&mut self.put_off);
            if !put_off.is_empty() {
                put_off.iter().for_each(|wish| self.tell(wish.page, &Arrival::Elsewhere));
                continue;
            }
            match worker.wait(KEEP) {
                Call::Asked => {}
                call => return call,
            }
        }
    }

    fn tell(&self, page: PageId, arrival: &Arrival) {
        self.wanted.tell(page, arrival, waits::wake);
    }

    /// Begins as many as can be open; each that was put off is tried once more.
    fn begin(&mut self) {
        let mut again = std::mem::take(&mut self.put_off);
        while !self.flights.is_full() {
            let Some(wish) = again.pop_front().or_else(|| self.wanted.next()) else { break };
            let Some(space) = self.spaces.get(self.shared, wish.page.space()) else {
                self.tell(wish.page, &Arrival::Elsewhere);
                continue;
            };
            match self.flights.begin(space, wish.page.page()) {
                Begun::Open(flight) => {
                    if self.open.len() <= flight {
                        self.open.resize(flight + 1, None);
                    }
                    self.open[flight] = Some(wish);
                }
                Begun::Taken => {
                    let cell = self.shared.state_of(space, wish.page.page());
                    match cell.is_some_and(|cell| cell.read().is_in_flight()) {
                        true => self.put_off.push_back(wish),
                        false => self.tell(wish.page, &Arrival::Loaded),
                    }
                }
                Begun::NotNow => {
                    // LOAD-2
                    self.pins.clear();
                    self.put_off.push_back(wish);
                    break;
                }
            }
        }
        self.put_off.append(&mut again);
    }

    /// Waits for a read, and ends all faults whose reads have come back.
    fn land(&mut self) {
        let mut wait = true;
        while let Some(landed) = self.flights.land(wait) {
            wait = false;
            let Some(wish) = self.open.get_mut(landed.number).and_then(Option::take) else {
                continue;
            };
            let arrival = match landed.outcome {
                Ok((page, pin)) => {
                    let checked = match self.spaces.get(self.shared, page.space()) {
                        Some(space) => {
                            self.shared.view(space).check_link_below(page, wish.above, pin)
                        }
                        None => Ok(pin),
                    };
                    match checked {
                        Ok(pin) => {
                            self.pins.push_back(pin);
                            if self.pins.len() > self.shared.most_flights() {
                                self.pins.pop_front();
                            }
                            Arrival::Loaded
                        }
                        Err(error) => Arrival::Broken(error),
                    }
                }
                Err(_) => Arrival::Elsewhere,
            };
            self.tell(wish.page, &arrival);
        }
    }
}
