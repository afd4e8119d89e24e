//! Log-space reservation: room in the log for a change, before its first latch. `LOG-4`.

#![cfg(not(loom))]

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use polder_format::Lsn;
use polder_pool::journal::SharedError;
use polder_pool::waits;

use crate::error::ChangeTooLarge;
use crate::log::Log;
use crate::room::PAD_BYTES;
use crate::sync::lock;

/// A thread that stands in for the log syncer looks again after this time.
const STANDS_IN_FOR: Duration = Duration::from_millis(1);

impl Log {
    /// A1.
    #[inline]
    pub(crate) fn reserve_space(&self, bytes: u64) -> Result<(), SharedError> {
        self.failure.check()?;
        if bytes > self.reservations.group_max {
            return Err(self.too_large(bytes));
        }
        loop {
            let (tail, end) = self.tail.reserve(bytes);
            if end <= self.reservations.ceiling() {
                // Prefetches about where the group will go, so that the memory is there when it is
                // needed.
                self.buffer.ring.prefetch(tail, bytes);
                if self.reservations.is_alarmed(tail)
                    && let Err(error) = self.call_threads(tail)
                {
                    self.tail.release(bytes);
                    self.stand_in_for_syncer();
                    return Err(no_thread(&error));
                }
                return Ok(());
            }
            self.tail.release(bytes);
            self.make_room(end, bytes + PAD_BYTES)?;
        }
    }

    /// The log goes on after a rest, or a checkpoint is wanted. An error is that of starting the log
    /// syncer.
    #[cold]
    fn call_threads(&self, tail: u64) -> io::Result<()> {
        // Looked at first: while a checkpoint runs every reservation comes by here.
        if self.reservations.end_rest() {
            // Not `wake`: another thread that asks as well may fail to start one.
            self.commit.log_syncer.urge()?;
        }
        if self.reservations.wants_checkpoint(tail) {
            // If none can be started the log goes on until it is full.
            let _ = self.checkpointer.wake();
        }
        Ok(())
    }

    /// `IDLE-1`, of a thread that has ended the rest, but could not call the log syncer, and holds no
    /// reservation: others rely on it meanwhile. It syncs what they append, until the log is at rest
    /// again or the syncer comes.
    #[cold]
    fn stand_in_for_syncer(&self) {
        loop {
            // A log that failed is known to those who wait for it.
            let _ = self.sync_up_to(Lsn(self.tail_at()));
            if self.begin_rest() || self.commit.log_syncer.urge().is_ok() {
                return;
            }
            thread::sleep(STANDS_IN_FOR);
        }
    }

    #[cold]
    fn too_large(&self, bytes: u64) -> SharedError {
        let what = ChangeTooLarge {
            needed: bytes,
            by_log: self.reservations.group_max_by_log,
            by_memory: self.reservations.group_max_by_memory,
        };
        Arc::new(io::Error::new(io::ErrorKind::QuotaExceeded, what))
    }

    /// A1, the slow way: there is no room for `need` bytes, up to `end`.
    #[cold]
    fn make_room(&self, end: u64, need: u64) -> Result<(), SharedError> {
        self.check()?;
        // WAIT-1
        if waits::refuses() {
            return Err(Arc::new(io::ErrorKind::WouldBlock.into()));
        }
        if self.grow_to(end) {
            return Ok(());
        }
        let mut room = lock(&self.reservations.room);
        if end <= self.reservations.ceiling() {
            return Ok(());
        }
        if room.no_growth && need > self.room_at_least(room.own) {
            let text = format!(
                "a change takes {need} bytes of log at once, and the log cannot grow; make room on the device of the log, or the change smaller"
            );
            return Err(Arc::new(io::Error::new(io::ErrorKind::StorageFull, text)));
        }
        room.wanted = true;
        self.checkpointer.wake().map_err(|error| no_thread(&error))?;
        if let Some(error) = &room.blocked {
            return Err(Arc::clone(error));
        }
        self.reservations.await_room(room);
        self.check()
    }
}

/// What a change needs besides room in the log.
fn no_thread(error: &io::Error) -> SharedError {
    let text = format!("the store cannot start a thread that takes care of its log: {error}");
    Arc::new(io::Error::new(error.kind(), text))
}
