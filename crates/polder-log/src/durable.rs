//! Futures that wait until the log is durable up to an LSN: group commit without a thread that waits.
//!
//! A thread that waits leads, or follows one that does (`group_commit.rs`). A future does neither: it
//! leaves its waker, and calls the log syncer, which leads for all of them, or follows, and wakes those
//! for whom the log is durable by then.
//!
//! * `DURABLE-1` A future leaves its waker first, under the mutex, and looks then how far the log is
//!   durable; the log syncer takes the wakers, under the mutex, when it has seen how far that is. So one
//!   of the two sees the other. The same holds for a log that fails, of which the log syncer is told.
//! * `DURABLE-2` Where there is no log syncer, because it was stopped or cannot be started, the future
//!   waits in its poll as a thread does: rather that than for ever.
//! * `DURABLE-3` The log syncer alone calls wakers, and when it has stopped whoever stopped it: both hold
//!   nothing. Others that make the log durable may be in the midst of a write-back, or hold mutexes, and
//!   an executor may run the task within the call.

#![cfg(not(loom))]

use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Waker};

use polder_format::Lsn;
use polder_pool::journal::SharedError;

use crate::log::Log;

/// Waits, for a future, until the log is durable up to an LSN. May be dropped at any time, but not in
/// the child of a fork.
pub struct AwaitedSync {
    log: Arc<Log>,
    lsn: Lsn,
    place: Option<usize>,
}

impl fmt::Debug for AwaitedSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AwaitedSync({})", self.lsn.0)
    }
}

impl AwaitedSync {
    /// For what was appended up to `lsn`, which the log has given.
    pub fn new(log: &Arc<Log>, lsn: Lsn) -> AwaitedSync {
        AwaitedSync { log: Arc::clone(log), lsn, place: None }
    }

    /// Whether it is. If it is not yet, `waker` is called when it may be: that of the last call alone.
    ///
    /// # Errors
    /// What made the log unusable.
    pub fn poll(&mut self, waker: &Waker) -> Poll<Result<(), SharedError>> {
        if let Some(result) = self.result() {
            return Poll::Ready(result);
        }
        let commit = &self.log.commit;
        // DURABLE-1
        self.place = Some(commit.futures.leave(self.place, self.lsn.0, waker));
        if let Some(result) = self.result() {
            return Poll::Ready(result);
        }
        commit.note_awaited();
        // DURABLE-2. Not `wake`: another thread that asks as well may fail to start one.
        if commit.log_syncer.is_stopped() || commit.log_syncer.urge().is_err() {
            return Poll::Ready(self.log.await_sync(self.lsn));
        }
        Poll::Pending
    }

    fn result(&self) -> Option<Result<(), SharedError>> {
        if self.log.commit.durable() >= self.lsn.0 {
            return Some(Ok(()));
        }
        self.log.check().err().map(Err)
    }
}

impl Drop for AwaitedSync {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.log.commit.futures.forget(place);
        }
    }
}
