//! Appending a group to the log: A3 to A5.

#![cfg(not(loom))]

use std::sync::atomic::Ordering;
use std::time::Duration;

use polder_format::Lsn;
use polder_format::log::Group;

use crate::log::Log;
use crate::ring::Change;

impl Log {
    /// A3 to A5; a reservation of `reserved` bytes is used up by it.
    #[inline]
    pub(crate) fn append_reserved(&self, group: &mut Group, reserved: u64) -> Lsn {
        let start = self.tail.end.fetch_add(group.len() as u64, Ordering::AcqRel);
        // Here and not later: an atomic operation waits for all stores before it, and those to the
        // ring and to the pages are slow ones.
        self.tail.release(reserved);
        self.put(group, start)
    }

    /// A3 to A5, without a reservation: for what the spare segment is there for.
    pub(crate) fn append_spare(&self, group: &mut Group) -> Lsn {
        let start = self.tail.end.fetch_add(group.len() as u64, Ordering::AcqRel);
        self.put(group, start)
    }

    /// A4 and A5.
    #[inline]
    fn put(&self, group: &mut Group, start: u64) -> Lsn {
        let end = start + group.len() as u64;
        if !self.buffer.has_room(end) && !self.await_ring(end) {
            return Lsn(end);
        }
        let lag = start.saturating_sub(self.commit.durable_at_least());
        let lag = u32::try_from(lag).unwrap_or(u32::MAX);
        let change = change_of(group);
        let bytes = group.seal(self.identity.seed, Lsn(start), lag, self.identity.incarnation);
        self.buffer.ring.put(start, bytes, change);
        if self.buffer.wakes(start, end) {
            self.wal_writer.wake();
        }
        Lsn(end)
    }

    /// A4. False: the log is dead, and what is appended goes nowhere.
    #[cold]
    fn await_ring(&self, end: u64) -> bool {
        let mut tries = 0u32;
        while !self.buffer.has_room(end) {
            if self.failure.is_set() {
                return false;
            }
            self.wal_writer.urge();
            if tries < 10 {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(50));
            }
            tries += 1;
        }
        true
    }
}

/// How a group changes the numbers of entries.
#[inline]
fn change_of(group: &Group) -> Change {
    match group.counting() {
        None => Change::Nothing,
        Some((space, change @ (1 | -1))) => Change::One(space, change),
        Some(_) => Change::More,
    }
}
