//! Whether a thread may wait.
//!
//! Most threads may. One that runs the futures of others may not: an operation that is made there is
//! *tried* ([`without_waiting`]), and where it would have to wait it is refused, with
//! [`PoolError::WouldWait`](crate::PoolError::WouldWait), and what it would have waited for is noted:
//! a page that has to be loaded, or something else. Its caller waits for that in another way, and
//! tries again.
//!
//! * `WAIT-1` Whatever waits for the device, for a frame, for room in the log or for writers to be let
//!   in asks here first ([`refuses`]); on a way that is not the common one, so that those who may wait
//!   pay nothing. Waiting for a latch is not refused: nobody waits for the device under one (`POOL-8`).
//! * `WAIT-2` An operation that is refused has not changed anything. Where it has, what is left to be
//!   done can be left out.
//! * `WAIT-3` While a thread may not wait it runs no code of users but wakers ([`wake`]).

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use polder_format::PageId;

/// What an operation would have waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// This page must be loaded. A link in the second one leads to it, if there is one.
    Page(PageId, Option<PageId>),
    /// It is more than one page, or something else.
    More,
}

struct Here {
    may_wait: Cell<bool>,
    /// Faults that the thread has open: as long as there are some it waits for nothing but their reads
    /// (`FLIGHT-1`).
    flights: Cell<usize>,
    /// The operation that is tried has waited for a page before.
    has_waited: Cell<bool>,
    /// The first thing that was refused.
    refused: Cell<Option<Refused>>,
}

thread_local! {
    static HERE: Here = const {
        Here {
            may_wait: Cell::new(true),
            flights: Cell::new(0),
            has_waited: Cell::new(false),
            refused: Cell::new(None),
        }
    };
}

/// Puts back what was there before, also after a panic.
struct PutBack {
    may_wait: bool,
    has_waited: bool,
    refused: Option<Refused>,
}

impl PutBack {
    fn instead_of(may_wait: bool, has_waited: bool) -> PutBack {
        HERE.with(|here| PutBack {
            may_wait: here.may_wait.replace(may_wait),
            has_waited: here.has_waited.replace(has_waited),
            refused: here.refused.replace(None),
        })
    }
}

impl Drop for PutBack {
    fn drop(&mut self) {
        HERE.with(|here| {
            here.may_wait.set(self.may_wait);
            here.has_waited.set(self.has_waited);
            here.refused.set(self.refused);
        });
    }
}

/// Tries an operation in which this thread waits for nothing. What was refused to it is told as well,
/// if anything was: the operation has failed then, or was done without something that can be left out.
/// `has_waited`: whether the operation has been tried before, and has waited for a page since.
///
/// ```
/// use polder_pool::waits::{Refused, refuses, without_waiting};
///
/// let nap = || if refuses() { Err("no time") } else { Ok("slept well") };
/// assert_eq!(nap(), Ok("slept well"));
/// assert_eq!(without_waiting(false, nap), (Err("no time"), Some(Refused::More)));
/// ```
#[inline]
pub fn without_waiting<R>(has_waited: bool, operation: impl FnOnce() -> R) -> (R, Option<Refused>) {
    let _put_back = PutBack::instead_of(false, has_waited);
    let result = operation();
    (result, HERE.with(|here| here.refused.get()))
}

/// Whether this thread may wait, whatever for.
pub fn may_wait() -> bool {
    HERE.with(|here| here.may_wait.get())
}

/// So many faults of this thread are open more, or fewer (`FLIGHT-1`).
pub(crate) fn count_flights(change: isize) {
    HERE.with(|here| here.flights.set(here.flights.get().wrapping_add_signed(change)));
}

/// Whether faults of this thread are open.
pub(crate) fn has_flights() -> bool {
    HERE.with(|here| here.flights.get() > 0)
}

/// Asked by one that has to wait now (`WAIT-1`): whether it is refused, which is noted.
#[cold]
pub fn refuses() -> bool {
    refuses_what(Refused::More)
}

/// The same of a page that has to be loaded.
#[cold]
pub(crate) fn refuses_page(page: PageId, above: Option<PageId>) -> bool {
    refuses_what(Refused::Page(page, above))
}

fn refuses_what(what: Refused) -> bool {
    HERE.with(|here| {
        let refuses = !here.may_wait.get() || here.flights.get() > 0;
        if refuses && here.refused.get().is_none() {
            here.refused.set(Some(what));
        }
        refuses
    })
}

/// Whether the operation that this thread tries has waited for a page before.
pub(crate) fn has_waited() -> bool {
    HERE.with(|here| here.has_waited.get())
}

/// Wakes a task. A waker is code of an executor's, which may go as far as to run the task, or to drop
/// it with all that it holds: it is called with no lock held, waits for nothing, and a panic of it ends
/// here.
pub fn wake(waker: Waker) {
    let _ = catch_unwind(AssertUnwindSafe(|| without_waiting(false, || waker.wake())));
}
