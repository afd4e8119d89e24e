//! Reading ahead: what a scan will come to is loaded while it is busy with what lies before it
//! (leanstore-2018 IV-I, "I/O prefetching").
//!
//! A scan that has met a page that was missing asks for those that it will come to. One thread of the
//! pool's loads them, many at once (`flights.rs`): by F1 to F10, as a scan's, so that they go first, and a
//! reader that comes to such a page before it is there waits at F1. It begins what was asked for in that
//! order, and hands its reads over together, so that pages that lie one behind the other in the file are
//! one request: most devices read 64 KiB in little more time than one page. To ask never waits, and may
//! come to nothing; an error is met again by the scan itself. Two scans that ask for the same page have it
//! read once, as it is in flight or resident when its second turn comes, unless it was evicted again by then.
//! Numbers may be out of date: a page that was freed meanwhile is loaded for nothing, or refused, as by a
//! fault that came too late.
//!
//! ```text
//!   asleep --asked--> begins what was asked for --> waits for a read, and ends its fault --+
//!      ^                       ^                                                           |
//!      |                       +------------- a read is open, or more is asked for --------+
//!      +------------------ nothing is open, nothing is asked for <-------------------------+
//! ```
//!
//! * `AHEAD-1` The thread waits for the reads of its open faults alone (`FLIGHT-1`). A page that cannot be
//!   begun without waiting is put off until none is open; then it is loaded as by any thread.
//!
//! The thread starts when something is asked for, so that a pool that is never scanned has none, and
//! ends when nothing was for a while.

#![cfg(not(loom))]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use polder_format::{PageNo, SpaceId};

use super::flights::{Begun, END_TOGETHER, Flights};
use super::spaces::Spaces;
use crate::replacement::AccessHint;
use crate::shared::Shared;
use crate::sync::lock;
use crate::thread::{Call, Worker};
use crate::translation::Translation;

/// Pages that may wait for their turn.
const MOST: usize = 1024;
/// Faults that are open at once, at most: several large requests of the device.
const OPEN: usize = 512;
/// Pages that are begun until spaces that were dropped are let go.
const ROUND: usize = 1 << 16;
/// One frame in so many may be filled ahead; a pool of fewer does without.
const FRAMES: usize = 32;
/// The thread ends when nothing has been asked for so long.
const STAY: Duration = Duration::from_secs(1);

type Page = (SpaceId, PageNo);

/// Pages that were asked for, in that order.
#[derive(Debug, Default)]
struct Ahead(Mutex<VecDeque<Page>>);

impl Ahead {
    /// Adds as many as there is room for; gives how many.
    fn ask(&self, asked: Vec<Page>, most: usize) -> usize {
        let mut order = lock(&self.0);
        let count = most.saturating_sub(order.len()).min(asked.len());
        order.extend(asked.into_iter().take(count));
        count
    }

    fn next(&self) -> Option<Page> {
        lock(&self.0).pop_front()
    }
}

/// Has the thread start when pages are asked for; dropping this stops it and waits for its end.
#[derive(Debug)]
pub(crate) struct Reader {
    /// How many pages may wait for their turn.
    most: usize,
    ahead: Arc<Ahead>,
    worker: Arc<Worker>,
}

impl Reader {
    pub(crate) fn new<T: Translation>(shared: &Arc<Shared<T>>) -> Reader {
        let most = match T::EVICTS {
            true => MOST.min(shared.core.frames.memory.count() as usize / FRAMES),
            false => 0,
        };
        let (ahead, worker) = (Arc::<Ahead>::default(), Arc::<Worker>::default());
        let theirs = (Arc::clone(shared), Arc::clone(&ahead), Arc::clone(&worker));
        if most > 0 {
            // Nobody has asked yet, so that no thread starts that could fail to.
            let _ = worker.arm("polder-reader", move || {
                let (shared, ahead, worker) = &theirs;
                shared.read_ahead(worker, ahead, most.min(OPEN));
            });
        }
        Reader { most, ahead, worker }
    }

    /// How many pages may wait for their turn.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Has these pages loaded, as many as there is room for; gives how many were asked for.
    pub(crate) fn load_ahead(&self, space: SpaceId, pages: impl Iterator<Item = PageNo>) -> usize {
        if self.most == 0 {
            return 0;
        }
        let asked = self.ahead.ask(pages.map(|page| (space, page)).collect(), self.most);
        // Without a thread the scan loads them itself.
        if asked > 0 && self.worker.wake().is_err() {
            return 0;
        }
        asked
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.worker.stop();
    }
}

impl<T: Translation> Shared<T> {
    /// The thread.
    fn read_ahead(&self, worker: &Worker, ahead: &Ahead, most: usize) {
        loop {
            match worker.wait(STAY) {
                Call::Stop => return,
                Call::Nobody if worker.leave() => return,
                Call::Nobody => {}
                Call::Asked => while self.read_round(worker, ahead, most) {},
            }
        }
    }

    /// Loads what is asked for until nothing is, or for some time; then whether it was some time. Begins
    /// nothing once the thread must end.
    fn read_round(&self, worker: &Worker, ahead: &Ahead, most: usize) -> bool {
        let spaces = Spaces::none();
        let mut flights = Flights::new(self, most, AccessHint::Scan);
        let (mut put_off, mut begun, mut handed_over) = (None, 0, 0);
        loop {
            let is_stopped = worker.is_stopped();
            while begun < ROUND
                && !is_stopped
                && put_off.is_none()
                && !flights.is_full()
                && let Some((space, page)) = ahead.next()
            {
                begun += 1;
                let Some(space) = spaces.get(self, space) else { continue };
                if matches!(flights.begin(space, page), Begun::NotNow) {
                    put_off = Some((space, page));
                }
            }
            if flights.count() > 0 {
                // Reads that were begun are under way while those that have come are seen to, a few at a
                // time; the scan asks for others meanwhile.
                let waits = !flights.has_come();
                if waits || begun > handed_over {
                    flights.reap(waits);
                    handed_over = begun;
                }
                for _ in 0..END_TOGETHER {
                    if !flights.has_come() {
                        break;
                    }
                    // An error is met again by the scan.
                    drop(flights.land(false));
                }
            } else if let Some((space, page)) = put_off.take_if(|_| !is_stopped) {
                // AHEAD-1
                let _ = self.fault(space, page, AccessHint::Scan);
            } else {
                return begun >= ROUND && !is_stopped;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_asked_for_in_their_order_and_up_to_a_number() {
        let ahead = Ahead::default();
        let page = |number| (SpaceId::CATALOGUE, PageNo::new(number).unwrap());
        let ask = |pages: &[u64]| ahead.ask(pages.iter().map(|number| page(*number)).collect(), 3);
        assert_eq!((ask(&[0, 1]), ask(&[2, 3])), (2, 1));
        assert_eq!(ahead.next(), Some(page(0)));
        assert_eq!((ask(&[4]), ask(&[5])), (1, 0));
        let rest: Vec<_> = std::iter::from_fn(|| ahead.next()).collect();
        assert_eq!(rest, [1, 2, 4].map(page));
    }
}
