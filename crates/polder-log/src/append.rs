//! Appending a group to the log.
//!
//! A leaf is changed behind A5 and not before: the lines that will be written come into the cache
//! while the group is copied, and no atomic operation waits for them. (A load of several words
//! that were just stored one by one, like a locked instruction, waits until all stores before it
//! are in the cache.)

#![cfg(not(loom))]

use std::sync::atomic::Ordering;
use std::time::Duration;

use polder_format::Lsn;
use polder_format::log::{Group, LOG_BLOCK_BYTES};

use crate::log::Log;
use crate::ring::Change;
use crate::room::PAD_BYTES;

impl Log {
    /// Puts a group into the log, and gives the LSN at which it ends. A log-space reservation of
    /// `reserved` bytes is used up by it.
    #[inline]
    pub(crate) fn append_reserved(&self, group: &mut Group, reserved: u64) -> Lsn {
        // A1: before its first latch the caller has reserved log space (`reserve_space`).
        debug_assert!(group.len() as u64 <= reserved, "LOG-4: more than was reserved");
        // A2: it holds the latches of all pages that the group names, has decided what to do, and
        //     knows that nothing can fail any more.
        // A3: the group gets its position in the log. A thread that changes one of these pages
        //     holds its latch here, so that for each page the order of LSNs is the order of its
        //     changes.
        let start = self.tail.end.fetch_add(group.len() as u64, Ordering::AcqRel);
        // Here and not later: an atomic operation waits for all stores before it, and those to the
        // ring and to the pages are slow ones.
        self.tail.release(reserved);
        // A4: wait until the ring has room for it. The leader, which makes room, needs no latch.
        //     If the log has failed nobody makes room: go on, as if it were there.
        // A5: copy header and records; last of all store the group's mark.
        self.put(group, start)
        // A6: the caller changes the pages, sets their LSN to what this gives, and unlatches them.
    }

    /// The same, where `kept` bytes stay reserved for another group.
    pub(crate) fn append_and_keep(&self, group: &mut Group, reserved: u64, kept: u64) -> Lsn {
        let most = reserved.saturating_sub(kept + PAD_BYTES);
        debug_assert!(group.len() as u64 <= most, "LOG-4: more than was reserved");
        let start = self.tail.end.fetch_add(group.len() as u64, Ordering::AcqRel);
        self.tail.release_all_but(reserved, kept);
        self.put(group, start)
    }

    /// A3 to A5, without a reservation: of an own group, for which there is room (`LOG-7`).
    pub(crate) fn append_own(&self, group: &mut Group) -> Lsn {
        let start = self.tail.end.fetch_add(group.len() as u64, Ordering::AcqRel);
        self.put(group, start)
    }

    /// A4 and A5.
    #[inline]
    fn put(&self, group: &mut Group, start: u64) -> Lsn {
        if group.image_bytes() > 0 {
            self.written.add_images(group.image_bytes());
        }
        let end = start + group.len() as u64;
        if group.len() as u64 > self.buffer.ring.longest_whole() {
            return self.put_parts(group, start);
        }
        if !self.buffer.has_room(end) && !self.await_ring(end) {
            return Lsn(end);
        }
        let durable = Lsn(self.commit.durable_at_least());
        let change = change_of(group);
        let bytes = group.seal(self.identity.seed, Lsn(start), durable, self.identity.incarnation);
        self.buffer.ring.put(start, bytes, change);
        if self.buffer.wakes(start, end) {
            // A thread that finds the ring full writes it out by itself if need be.
            let _ = self.wal_writer.wake();
        }
        Lsn(end)
    }

    /// A4 and A5 of a group that is too long to go into the ring as a whole: of one part after the
    /// other.
    #[cold]
    fn put_parts(&self, group: &mut Group, start: u64) -> Lsn {
        let lsn = Lsn(start + group.len() as u64);
        let durable = Lsn(self.commit.durable_at_least());
        let counts = group.counting().is_some();
        let bytes = group.seal(self.identity.seed, Lsn(start), durable, self.identity.incarnation);
        for part in self.buffer.ring.parts_of(bytes) {
            let (from, to) = (start + part.start as u64, start + part.end as u64);
            debug_assert!(
                (part.len() + LOG_BLOCK_BYTES) as u64 <= self.buffer.ring.len(),
                "a record is too long for the ring, which would never have room for it"
            );
            if !self.buffer.has_room(to) && !self.await_ring(to) {
                break;
            }
            let change = match (counts, part.start) {
                (false, _) => Change::Nothing,
                (true, 0) => Change::More,
                (true, _) => Change::Continued,
            };
            self.buffer.ring.put(from, &bytes[part], change);
            // As above.
            let _ = self.wal_writer.wake();
        }
        lsn
    }

    /// A4. False: the log is dead, and what is appended goes nowhere.
    #[cold]
    fn await_ring(&self, end: u64) -> bool {
        let mut tries = 0u32;
        while !self.buffer.has_room(end) {
            if self.failure.is_set() {
                return false;
            }
            if self.wal_writer.urge().is_err() {
                // No thread can be started: the leader needs no latch, so any thread may lead.
                self.write_if_nobody_leads();
            } else if tries < 10 {
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
