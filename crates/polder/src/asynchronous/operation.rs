//! One operation of a future: it is tried in each poll, without waiting.
//!
//! ```text
//!                     refused: a page is missing
//!        +--------+ -------------------------------> +------+
//!   -->  | tried  |                                  | page |  the pool's loader has it loaded
//!        +--------+ <------------------------------- +------+
//!          |    |            it has come                 |
//!     done |    | refused: something else, or            | it could not be loaded
//!          v    | too many pages                         v at once
//!        ready  +--------------------------------> +--------+
//!          ^                                       | helper |  a thread that may wait makes it
//!          +-------------------------------------- +--------+
//! ```
//!
//! Between two polls a future owns a place in a list at most, or a job: no page, no latch, no frame
//! (`ASK-2`, `LOAD-2`; `helpers.rs`). A page that has come may be gone again when the future is polled:
//! after [`MOST_PAGES`] pages the operation is made by a helper.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use polder_log::AwaitedSync;
use polder_pool::journal::group_bytes;
use polder_pool::waits::{Refused, without_waiting};
use polder_pool::{Arrival, AwaitedPage, PoolError};

use crate::any::{Any, dispatch};
use crate::engine::TableCore;
use crate::error::StoreError;
use crate::families::{Engines, Tables};
use crate::helpers::Job;

/// Pages that an operation waits for one by one: several times what a way from the root has.
const MOST_PAGES: u32 = 16;

/// What a future waits for.
pub(super) enum Waiting<R> {
    Nothing,
    Page(AwaitedPage),
    Helper(Job<R>),
}

/// What is to be done next.
pub(super) enum Next<R> {
    Try,
    /// A thread that may wait makes it.
    HandOver,
    Fail(PoolError),
    /// It was made.
    Done(R),
}

impl<R> Waiting<R> {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Next<R>> {
        let next = match self {
            Waiting::Nothing => Next::Try,
            Waiting::Page(page) => match page.poll(cx.waker()) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Arrival::Loaded) => Next::Try,
                Poll::Ready(Arrival::Elsewhere) => Next::HandOver,
                Poll::Ready(Arrival::Broken(error)) => Next::Fail(error),
            },
            Waiting::Helper(job) => match job.poll(cx.waker()) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(result) => Next::Done(result),
            },
        };
        *self = Waiting::Nothing;
        Poll::Ready(next)
    }

    /// After a try that was refused. False: it is to be handed over.
    pub(super) fn wait_for(
        &mut self,
        refused: Refused,
        pages: &mut u32,
        engine: &Any<Engines>,
        cx: &mut Context<'_>,
    ) -> bool {
        match refused {
            Refused::Page(page, above) if *pages < MOST_PAGES => {
                *pages += 1;
                let awaited =
                    dispatch!(engine, engine => engine.pool.await_page(page, above, cx.waker()));
                *self = Waiting::Page(awaited);
                true
            }
            _ => false,
        }
    }

    /// In the child of a fork: locks may be held by threads that are not there.
    pub(super) fn leave_forked(&mut self) {
        std::mem::forget(std::mem::replace(self, Waiting::Nothing));
    }
}

/// Whether the ring of the log has room for a group of so many bytes, which a poll would wait for (`A4`).
/// Others may take it, by their groups: so long it waits then.
pub(super) fn has_room(engine: &Any<Engines>, bytes: usize) -> bool {
    dispatch!(engine, engine => engine.log().has_room(bytes))
}

pub(super) fn is_forked(engine: &Any<Engines>) -> bool {
    dispatch!(engine, engine => engine.quiesce.is_forked())
}

/// What is done with a table, a key and a value (or none), by whatever thread.
pub(super) type Run<R> = fn(&Any<Tables>, &[u8], &[u8]) -> Result<R, StoreError>;

/// An operation on one key, which is tried until it goes through.
pub(super) struct Operation<'a, R> {
    engine: &'a Any<Engines>,
    table: &'a Any<Tables>,
    run: Run<R>,
    writes: bool,
    key: &'a [u8],
    value: &'a [u8],
    waiting: Waiting<Result<R, StoreError>>,
    /// How many pages it has waited for.
    pages: u32,
}

impl<'a, R> Operation<'a, R> {
    pub(super) fn new(
        (engine, table): (&'a Any<Engines>, &'a Any<Tables>),
        (run, writes): (Run<R>, bool),
        key: &'a [u8],
        value: &'a [u8],
    ) -> Operation<'a, R> {
        let waiting = Waiting::Nothing;
        Operation { engine, table, run, writes, key, value, waiting, pages: 0 }
    }
}

impl<R: Send + 'static> Future for Operation<'_, R> {
    type Output = Result<R, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if is_forked(this.engine) {
            return Poll::Ready(Err(StoreError::Forked));
        }
        loop {
            let Poll::Ready(next) = this.waiting.poll(cx) else { return Poll::Pending };
            let hand_over = match next {
                Next::Done(result) => return Poll::Ready(result),
                Next::Fail(error) => {
                    let name = dispatch!(this.table, table => table.name.get());
                    return Poll::Ready(Err(StoreError::of_pool(name, error)));
                }
                Next::HandOver => true,
                Next::Try if this.writes && !has_room(this.engine, this.logged_bytes()) => true,
                Next::Try => {
                    let try_it = || (this.run)(this.table, this.key, this.value);
                    let (result, refused) = without_waiting(this.pages > 0, try_it);
                    match (result, refused) {
                        (Err(_), Some(refused)) => {
                            !this.waiting.wait_for(refused, &mut this.pages, this.engine, cx)
                        }
                        (result, None) => return Poll::Ready(result),
                        (Ok(result), Some(_)) => {
                            this.tidy();
                            return Poll::Ready(Ok(result));
                        }
                    }
                }
            };
            if hand_over {
                let (table, run) = (this.table.clone(), this.run);
                let (key, value) = (this.key.to_vec(), this.value.to_vec());
                let work = move || run(&table, &key, &value);
                let helpers = dispatch!(this.engine, engine => &engine.helpers);
                let crew = if this.writes { &helpers.writers } else { &helpers.readers };
                let job = crew.begin(work);
                this.waiting = Waiting::Helper(job);
            }
        }
    }
}

impl<R> Operation<'_, R> {
    /// What a write takes of the log, about.
    fn logged_bytes(&self) -> usize {
        group_bytes(1, self.key.len() + self.value.len())
    }

    /// It has left a leaf that is almost empty, which nobody has merged (`WAIT-2`).
    #[cold]
    fn tidy(&self) {
        let (table, key) = (self.table.clone(), self.key.to_vec());
        let work = move || dispatch!(&table, table => merge(table, &key));
        dispatch!(self.engine, engine => engine.helpers.writers.give(Box::new(work)));
    }
}

pub(super) fn merge<T: polder_pool::Translation>(table: &TableCore<T>, key: &[u8]) {
    if let Ok(_pass) = table.engine.quiesce.enter() {
        // A leaf that stays small is no fault.
        let _ = table.tree.merge_at(key);
    }
}

impl<R> Drop for Operation<'_, R> {
    fn drop(&mut self) {
        if is_forked(self.engine) {
            self.waiting.leave_forked();
        }
    }
}

/// Waits until a change is durable.
pub(super) struct Commit<'a> {
    engine: &'a Any<Engines>,
    /// None where it is not waited for.
    awaited: Option<AwaitedSync>,
}

impl<'a> Commit<'a> {
    pub(super) fn new(engine: &'a Any<Engines>, awaited: Option<AwaitedSync>) -> Commit<'a> {
        Commit { engine, awaited }
    }
}

impl Future for Commit<'_> {
    type Output = Result<(), StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if is_forked(self.engine) {
            return Poll::Ready(Err(StoreError::Forked));
        }
        let Some(awaited) = &mut self.awaited else { return Poll::Ready(Ok(())) };
        let polled = awaited.poll(cx.waker());
        polled.map_err(|source| StoreError::NotDurable { source })
    }
}

impl Drop for Commit<'_> {
    fn drop(&mut self) {
        if self.awaited.is_some() && is_forked(self.engine) {
            std::mem::forget(self.awaited.take());
        }
    }
}
