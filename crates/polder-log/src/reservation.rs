//! Log-space reservation: room in the log for a change, before its first latch. `LOG-4`.

#![cfg(not(loom))]

use std::io;
use std::sync::Arc;

use polder_pool::journal::SharedError;

use crate::log::Log;
use crate::room::PAD_BYTES;
use crate::sync::lock;

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
                if self.reservations.wants_checkpoint(tail) {
                    self.checkpointer.wake();
                }
                return Ok(());
            }
            self.tail.release(bytes);
            self.make_room(end, bytes + PAD_BYTES)?;
        }
    }

    #[cold]
    fn too_large(&self, bytes: u64) -> SharedError {
        let text = format!(
            "a change takes {bytes} bytes of log at once, and {} are the most; make it smaller, or the memory budget or the log's limit larger",
            self.reservations.group_max
        );
        Arc::new(io::Error::new(io::ErrorKind::QuotaExceeded, text))
    }

    /// A1, the slow way: there is no room for `need` bytes, up to `end`.
    #[cold]
    fn make_room(&self, end: u64, need: u64) -> Result<(), SharedError> {
        self.check()?;
        if self.grow_to(end) {
            return Ok(());
        }
        let mut room = lock(&self.reservations.room);
        if end <= self.reservations.ceiling() {
            return Ok(());
        }
        if room.no_growth && need > self.room_at_least() {
            let text = format!(
                "a change takes {need} bytes of log at once, and the log cannot grow; make room on the device of the log, or the change smaller"
            );
            return Err(Arc::new(io::Error::new(io::ErrorKind::StorageFull, text)));
        }
        room.wanted = true;
        self.checkpointer.wake();
        if let Some(error) = &room.blocked {
            return Err(Arc::clone(error));
        }
        self.reservations.await_room(room);
        self.check()
    }
}
