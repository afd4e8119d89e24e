//! Many faults that one thread has open at once, and reads by one queue of the device.
//!
//! A thread that faults (`fault.rs`) waits for the device, so that a device is at work only as far as
//! there are threads. Here a thread *begins* a fault (F1 to F6, and hands over F7), goes on with
//! something else, and *ends* it (F8 to F10) when its read has come back; it may have as many open as a
//! device wants, and they end in the order in which the device is done, but for a few that have come back
//! together. (leanstore-2018, IV-D, has a table of pages that are being read; here a page's word says so.)
//!
//! To others a page that is in flight looks as in any fault: they wait for it, or find it abandoned.
//! That is sound because of one rule:
//!
//! * `FLIGHT-1` A thread with open faults waits for nothing but their reads. What else a fault may wait
//!   for, it does without, and the fault is put off until all that are open have ended: a page that is
//!   in flight elsewhere (F1); a page of a map that is not resident (F2); a frame, if none is free and
//!   none becomes free by evicting clean pages alone (F3: to write pages back means to wait for the log,
//!   the device and the extent-move gate, which is closed while the mover of an extent waits for pages
//!   that are in flight, M5). Code of callers runs only while no fault is open; one that waits all
//!   the same is refused (`WAIT-1`).
//!
//! So a thread that waits for a page in flight waits for a read of the device, as ever, and two threads
//! that have each a page in flight that the other wants do not wait for each other.
//! (`loom_tests/flights.rs`, which also runs threads that break the rule, and sees them stand still.)
//! Locks that are held for a moment (of a group, of a bucket, of a policy) are taken: nobody waits for a
//! flight under one.
//!
//! * `FLIGHT-3` One thread's faults take at most a share of the frames, so that others find some.
//!
//! Some devices (of virtual machines, above all) say of all reads that they have that they are done at the
//! same time, and have nothing to do until the thread has begun others. So as many faults again as are
//! under way may be open whose reads have come back: a thread begins others first.
//!
//! Flights that are dropped wait for their reads, and end their faults (`FLIGHT-2`, in `open_fault.rs`).

#![cfg(not(loom))]

use std::collections::VecDeque;

use polder_format::{PageId, PageNo};

use super::open_fault::OpenFault;
use super::spare::Spare;
use crate::device::{Request, RequestQueue};
use crate::error::PoolError;
use crate::latch::Pin;
use crate::paging::fault::Claimed;
use crate::replacement::AccessHint;
use crate::shared::{Shared, SpaceCore};
use crate::thread::waits;
use crate::translation::Translation;

/// Reads that one thread has under way at most: twice as many as keep a device at work.
const MOST: usize = 64;
/// One frame in so many may be filled by the reads of one thread that are under way (`FLIGHT-3`); as
/// many again have been filled.
const FRAMES: usize = 32;
/// Reads that are handed over together while the thread has something else to do, at most, and at least.
const TOGETHER: usize = 16;
const LEAST_TOGETHER: usize = 4;
/// Faults that are ended one behind the other before something else is done.
pub(super) const END_TOGETHER: usize = 64;
/// How often a thread may ask for what has landed until fewer are handed over: others may wait for them.
const PATIENCE: usize = 16;

/// How the beginning of a fault ended, which waited for nothing.
pub(crate) enum Begun<O> {
    /// The page is in flight, and this thread's.
    Open(O),
    /// It is resident, or was in flight before.
    Taken,
    /// That would have meant to wait.
    NotNow,
}

impl<T: Translation> Shared<T> {
    /// F1 to F6 without waiting (`FLIGHT-1`). What is an error is one when the fault is made again by a
    /// thread that may wait.
    pub(crate) fn begin_fault<'p>(
        &'p self,
        space: &'p SpaceCore<T>,
        page: PageNo,
    ) -> Begun<OpenFault<'p, T>> {
        self.begin_fault_by(space, page, |space, page| self.spare_at_once(space, page))
    }

    /// The same with a frame from `spare`, which waits for nothing either.
    pub(crate) fn begin_fault_by<'p>(
        &'p self,
        space: &'p SpaceCore<T>,
        page: PageNo,
        spare: impl FnOnce(&'p SpaceCore<T>, PageNo) -> Option<Spare<'p, T>>,
    ) -> Begun<OpenFault<'p, T>> {
        // F1
        if self.state_of(space, page).is_some_and(|cell| !cell.read().is_evicted()) {
            return Begun::Taken;
        }
        // F2
        let relocations = self.relocations();
        let Some(physical) = (self.locate_at_once)(self, space, page) else { return Begun::NotNow };
        // F3
        let Some(spare) = spare(space, page) else { return Begun::NotNow };
        // F4 to F6
        match self.claim(space, page, spare.frame, relocations) {
            Ok(Claimed::Ours(claim)) => {
                Begun::Open(OpenFault::new((self, space), page, physical, spare, claim))
            }
            Ok(Claimed::Taken) => Begun::Taken,
            Ok(Claimed::Moved) | Err(_) => Begun::NotNow,
        }
    }

    /// How many reads one thread may have under way (`FLIGHT-3`).
    pub(crate) fn most_flights(&self) -> usize {
        (self.core.frames.budget_frames as usize / FRAMES).clamp(1, MOST)
    }
}

/// A fault that has ended.
pub(crate) struct Landed<'p> {
    /// Which one.
    pub(crate) number: usize,
    /// The page, which stays while its pin is kept; or why there is none.
    pub(crate) outcome: Result<(PageId, Pin<'p>), PoolError>,
}

/// The faults that one thread has open, each with a number.
pub(crate) struct Flights<'p, T: Translation> {
    shared: &'p Shared<T>,
    /// So many reads are under way at most, and so many have come back (`FLIGHT-3`).
    most: usize,
    /// Whether those that begin from here on will be wanted again.
    hint: AccessHint,
    /// Made for the first one. It goes before the faults, also where their end panics: it waits for
    /// what the device has (`FLIGHT-2`).
    queue: Option<Box<dyn RequestQueue + 'p>>,
    /// Each with the hint with which it began.
    open: Vec<Option<(OpenFault<'p, T>, AccessHint)>>,
    /// Numbers below the length of `open` that are given to no fault.
    free: Vec<usize>,
    count: usize,
    /// Reads that were pushed since reads were last handed over, and how often it was asked since.
    pushed: usize,
    asked: usize,
    /// Reads that have come back, whose faults are still open, in the order in which these end.
    done: VecDeque<(u64, Request)>,
    /// Memory for those that come back.
    come: Vec<(u64, Request)>,
}

impl<'p, T: Translation> Flights<'p, T> {
    pub(crate) fn new(shared: &'p Shared<T>, most: usize, hint: AccessHint) -> Flights<'p, T> {
        let (open, free, done, come) = (Vec::new(), Vec::new(), VecDeque::new(), Vec::new());
        let (count, queue, pushed, asked) = (0, None, 0, 0);
        Flights { shared, most, hint, open, free, count, queue, pushed, asked, done, come }
    }

    /// Says whether the pages that are loaded from here on will be wanted again.
    #[inline(always)]
    pub(crate) fn set_hint(&mut self, hint: AccessHint) {
        self.hint = hint;
    }

    /// How many are open.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether as many are under way, or open, as may be.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.count - self.done.len() == self.most || self.count == 2 * self.most
    }

    /// Whether a read is known to have come back.
    #[inline(always)]
    pub(crate) fn has_come(&self) -> bool {
        !self.done.is_empty()
    }

    /// Hands over what was begun if that is enough together, and finds out what has come back; with
    /// `wait`, in any case, and waits for a read.
    pub(crate) fn hand_over(&mut self, wait: bool) {
        // The less the device has, the less is enough.
        let under_way = self.count - self.done.len() - self.pushed;
        let is_enough = self.pushed >= under_way.clamp(LEAST_TOGETHER, TOGETHER);
        if wait || is_enough {
            self.reap(wait);
        }
    }

    /// Hands over what was begun, and finds out what has come back.
    #[inline(never)]
    pub(crate) fn reap(&mut self, wait: bool) {
        let Some(queue) = &mut self.queue else { return };
        (self.pushed, self.asked) = (0, 0);
        queue.reap(wait, &mut self.come);
        into_order(&mut self.come);
        self.done.extend(self.come.drain(..));
    }

    /// Begins to load a page; gives the fault's number.
    pub(crate) fn begin(&mut self, space: &'p SpaceCore<T>, page: PageNo) -> Begun<usize> {
        let shared = self.shared;
        if self.is_full() {
            return Begun::NotNow;
        }
        let mut open = match shared.begin_fault(space, page) {
            Begun::Open(open) => open,
            Begun::Taken => return Begun::Taken,
            Begun::NotNow => return Begun::NotNow,
        };
        let Ok(request) = open.request() else { return Begun::NotNow };
        let device = &shared.core.data.device;
        let queue = self.queue.get_or_insert_with(|| device.queue());
        let number = self.free.pop().unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        self.open[number] = Some((open, self.hint));
        self.count += 1;
        waits::count_flights(1);
        queue.push(number as u64, request);
        self.pushed += 1;
        Begun::Open(number)
    }

    /// Ends a fault whose read has come back, if there is one; with `wait`, waits for one if any is
    /// open.
    #[inline(never)]
    pub(crate) fn land(&mut self, wait: bool) -> Option<Landed<'p>> {
        if self.done.is_empty() {
            if self.count == 0 {
                return None;
            }
            self.asked += 1;
            let is_time = self.pushed >= TOGETHER || self.asked >= PATIENCE;
            if self.pushed > 0 && !wait && !is_time {
                return None;
            }
            self.reap(wait);
        }
        let (number, read) = self.done.pop_front()?;
        let number = number as usize;
        let (open, hint) = self.open.get_mut(number).and_then(Option::take)?;
        self.free.push(number);
        self.count -= 1;
        waits::count_flights(-1);
        let page = open.id();
        let outcome = open.finish(read.outcome, hint).map(|pin| (page, pin));
        Some(Landed { number, outcome })
    }
}

/// Pages that were read together end in their order, a few at a time; the first of these last, as it is the
/// one that a scan waits for: it is woken once for them.
fn into_order<R>(come: &mut [R]) {
    come.chunks_mut(END_TOGETHER).for_each(<[_]>::reverse);
}

impl<T: Translation> Drop for Flights<'_, T> {
    fn drop(&mut self) {
        // FLIGHT-2
        while self.count > 0 {
            self.land(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use polder_format::SpaceId;
    use tempfile::TempDir;

    use super::super::spaces::Spaces;
    use super::*;
    use crate::testing::{create, pool};
    use crate::{Array, Pool};

    /// A space most of whose pages are on the device alone.
    fn larger_than_memory() -> (TempDir, Pool<Array>, SpaceId, Vec<PageNo>) {
        let (dir, pool) = pool::<Array>(4 << 20);
        let space = pool.create_space().unwrap();
        let pages = (0..3000).map(|_| create(&space)).collect();
        pool.flush().unwrap();
        (dir, pool, space.id(), pages)
    }

    #[test]
    fn numbers_of_faults_that_have_ended_are_given_again() {
        let (_dir, pool, id, pages) = larger_than_memory();
        let (shared, spaces) = (pool.shared(), Spaces::none());
        let space = spaces.get(shared, id).unwrap();
        let mut flights = Flights::new(shared, 2, AccessHint::Scan);
        let mut begun = 0;
        for page in pages {
            if let Begun::Open(number) = flights.begin(space, page) {
                assert!(number < 4, "FLIGHT-3: {number}");
                begun += 1;
            }
            if flights.is_full() {
                flights.land(true).unwrap().outcome.unwrap();
            }
        }
        assert!(begun > 100, "{begun}");
    }

    /// What came back first ends first, also if more has come back meanwhile: a scan waits for it.
    #[test]
    fn faults_end_in_the_order_in_which_their_reads_have_come_back() {
        let (_dir, pool, id, pages) = larger_than_memory();
        let (shared, spaces) = (pool.shared(), Spaces::none());
        let space = spaces.get(shared, id).unwrap();
        let mut flights = Flights::new(shared, 8, AccessHint::Scan);
        let mut begun = Vec::new();
        for page in pages {
            if let Begun::Open(_) = flights.begin(space, page) {
                begun.push(page);
                flights.reap(true);
            }
            if begun.len() == 8 {
                break;
            }
        }
        assert_eq!(begun.len(), 8);
        let ended = std::iter::from_fn(|| flights.land(false));
        let ended: Vec<_> = ended.map(|landed| landed.outcome.unwrap().0.page()).collect();
        assert_eq!(ended, begun);
        let mut come: Vec<_> = (0..END_TOGETHER + 2).collect();
        into_order(&mut come);
        assert_eq!((come[0], come[END_TOGETHER - 1]), (END_TOGETHER - 1, 0));
        assert_eq!(come[END_TOGETHER..], [END_TOGETHER + 1, END_TOGETHER]);
    }
}
