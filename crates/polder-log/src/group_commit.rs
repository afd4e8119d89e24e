//! Group commit: one thread, the leader, writes the ring out and syncs, for all.
//!
//! A thread that wants something to be durable leads, if no other one does; else it follows: it
//! sleeps until a leader has finished and looks again. So a single thread commits without another
//! one, and many share each sync.
//!
//! * `LOG-2` What was synced is never written again: each sync ends at a multiple of 4096, to
//!   which a checksummed *pad* leads (zeros alone could be a lost write), and the next group
//!   begins there. A block that is torn by a later write can only hold what nobody was promised.
//! * `LOG-3` The log is written in order, and a range is written only when every group in it is
//!   complete.

#![cfg(not(loom))]

use std::io;
use std::sync::Arc;

use polder_format::log::{LOG_BLOCK_BYTES, Pad};
use polder_format::{Lsn, PageId};
use polder_pool::device::{Batch, Buffer, Direction, Request};
use polder_pool::journal::SharedError;
use polder_pool::waits;

use crate::leader::{Leader, Syncs, WINDOW_BYTES};
use crate::log::{Identity, Log};
use crate::ring::cut;
use crate::slow_sync::timed_sync;
use crate::sync::lock;
use crate::tally::Tally;

const BLOCK: u64 = LOG_BLOCK_BYTES as u64;
/// What is written out while later groups are still waited for, as a part of the ring.
const PREFIX_PART: u64 = 4;

/// Gives way for a moment; longer each time.
fn wait_a_little(tries: &mut u32) {
    if *tries < 64 {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
    *tries += 1;
}

impl Log {
    /// Waits until the log is durable up to everything that was appended so far.
    ///
    /// # Errors
    /// What made the log unusable.
    pub fn flush(&self) -> Result<(), SharedError> {
        self.await_sync(Lsn(self.tail_at()))
    }

    /// Waits until the log is durable up to `lsn`, for a caller that would rather not wait.
    pub(crate) fn await_sync(&self, lsn: Lsn) -> Result<(), SharedError> {
        if self.commit.durable() >= lsn.0 {
            return Ok(());
        }
        debug_assert!(lsn.0 <= self.tail_at(), "a fault refuses a page that is ahead of the log");
        // WAIT-1
        if waits::refuses() {
            return Err(Arc::new(io::ErrorKind::WouldBlock.into()));
        }
        self.commit.note_awaited();
        self.sync_up_to(lsn)
    }

    /// As `await_sync`, where it does not matter how long it takes.
    pub(crate) fn sync_up_to(&self, lsn: Lsn) -> Result<(), SharedError> {
        self.flush_until(|log, _| log.commit.durable() >= lsn.0)
    }

    /// Leads, or follows the threads that do, until `done` says so.
    pub(crate) fn flush_until(
        &self,
        done: impl Fn(&Log, &Syncs) -> bool,
    ) -> Result<(), SharedError> {
        let mut syncs = lock(&self.commit.syncs);
        loop {
            if done(self, &syncs) {
                return Ok(());
            }
            self.check()?;
            if syncs.leading {
                syncs.waiting += 1;
                let woken = self.commit.synced.wait(syncs);
                syncs = woken.unwrap_or_else(|poisoned| poisoned.into_inner());
                syncs.waiting -= 1;
                continue;
            }
            syncs.leading = true;
            syncs.begun += 1;
            let number = syncs.begun;
            drop(syncs);
            let led = self.cut_and_sync(|_, _| ());
            syncs = lock(&self.commit.syncs);
            syncs.leading = false;
            if led.is_ok() {
                syncs.finished = number;
            }
            // L5: wake the followers.
            if syncs.waiting > 0 {
                self.commit.synced.notify_all();
            }
            led?;
        }
    }

    /// Writes out what is complete, without a sync: for the WAL writer.
    pub(crate) fn write_complete(&self) -> Result<(), SharedError> {
        let durable = self.commit.durable();
        let unsynced = self.tail_at() - durable;
        if unsynced > 2 * WINDOW_BYTES {
            return self.sync_up_to(Lsn(durable + unsynced));
        }
        if unsynced > WINDOW_BYTES {
            // If it cannot be started somebody waits for a sync soon.
            let _ = self.commit.log_syncer.wake();
        }
        self.write_whole_blocks()
    }

    /// L2 and L3 alone, as far as groups are complete.
    fn write_whole_blocks(&self) -> Result<(), SharedError> {
        self.lead(|leader| self.write_walked(leader))
    }

    fn write_walked(&self, leader: &mut Leader) -> io::Result<()> {
        self.walk(leader, self.tail_at());
        self.write_out(leader, leader.walked / BLOCK * BLOCK)
    }

    /// The same, for a thread whose own group is not complete: another thread that leads may wait
    /// for that group, and makes room itself.
    pub(crate) fn write_if_nobody_leads(&self) {
        if let Ok(mut leader) = self.commit.leader.try_lock()
            && !self.failure.is_set()
            && let Err(error) = self.write_walked(&mut leader)
        {
            self.poison("writing the log", &error);
        }
    }

    /// One group commit. `at_cut` is told where the cut is, and the entries of all tables there.
    pub(crate) fn cut_and_sync<R>(
        &self,
        at_cut: impl FnOnce(Lsn, &Tally) -> R,
    ) -> Result<R, SharedError> {
        let (cut, result) = self.lead(|leader| {
            // L1: cut: the tail goes on to the next block, so that no group lies in between.
            let (tail, cut) = cut(&self.tail.end);
            // L2: walk from mark to mark up to where the tail was; wait for groups that are not
            //     complete yet. Whole blocks in front of them are written if the ring is full: the
            //     threads that wait for room in it (A4) lie below the tail.
            self.await_groups(leader, tail, cut)?;
            // L3: write all up to the cut, with a pad behind the last group, and give the ring
            //     back.
            self.pad(leader, cut);
            self.write_out(leader, cut)?;
            Ok((cut, at_cut(Lsn(cut), &leader.tally)))
        })?;
        // L4: sync; the log is durable up to the cut. Another leader may write on behind it
        //     meanwhile.
        self.sync_device(cut)?;
        Ok(result)
    }

    /// As `cut_and_sync`; wakes the threads that wait for what became durable by it (L5).
    pub(crate) fn cut_for_checkpoint<R>(
        &self,
        at_cut: impl FnOnce(Lsn, &Tally) -> R,
    ) -> Result<R, SharedError> {
        let result = self.cut_and_sync(at_cut)?;
        self.commit.wake_all();
        Ok(result)
    }

    /// Has the calling thread do what only one may do at a time.
    fn lead<R>(&self, work: impl FnOnce(&mut Leader) -> io::Result<R>) -> Result<R, SharedError> {
        let mut leader = lock(&self.commit.leader);
        self.check()?;
        let done = work(&mut leader);
        debug_assert!(self.is_in_order(&leader), "{self:?}: positions");
        done.map_err(|error| self.poison("writing the log", &error))
    }

    /// Whether the positions that `Log` names are in their order.
    fn is_in_order(&self, leader: &Leader) -> bool {
        let (start, durable) = (self.reservations.start(), self.commit.durable());
        let positions = [start, durable, self.buffer.written(), leader.walked, self.tail_at()];
        positions.is_sorted()
    }

    /// L2; afterwards there is room in the ring up to the cut.
    fn await_groups(&self, leader: &mut Leader, tail: u64, cut: u64) -> io::Result<()> {
        let mut tries = 0;
        loop {
            self.walk(leader, tail);
            let written = self.buffer.written();
            let whole = leader.walked / BLOCK * BLOCK;
            if leader.walked == tail && cut <= written + self.buffer.ring.len() {
                return Ok(());
            }
            // Others may wait for room in the ring before they can complete their groups.
            let is_full = self.tail_at() > written + self.buffer.ring.len();
            let much = whole - written >= self.buffer.ring.len() / PREFIX_PART;
            if whole > written && (is_full || much || leader.walked == tail) {
                self.write_out(leader, whole)?;
            } else if self.failure.is_set() {
                // A thread that waited for room in the ring has gone, and left a gap.
                return Err(io::Error::other("the log is dead"));
            } else {
                wait_a_little(&mut tries);
            }
        }
    }

    /// `LOG-2`: the next group begins at a block that was not written yet.
    fn pad(&self, leader: &mut Leader, cut: u64) {
        let (at, Identity { seed, incarnation }) = (leader.walked, self.identity);
        if cut > at {
            let pad = Pad::encode(seed, Lsn(at), (cut - at) as u32, incarnation);
            self.buffer.ring.put_pad(at, pad, cut - at);
        }
        leader.walked = cut;
    }

    /// L2, as far as groups are complete, up to `end`.
    fn walk(&self, leader: &mut Leader, end: u64) {
        while leader.walked < end {
            let Some(mark) = self.buffer.ring.take_mark(leader.walked) else { return };
            leader.tally.add_group(&self.buffer.ring, leader.walked, mark);
            leader.walked += mark.len();
        }
        debug_assert_eq!(leader.walked, end, "RING-1: a group ends where the next one begins");
    }

    /// L3: writes the ring up to `to`, a multiple of a block, and gives it back.
    fn write_out(&self, leader: &Leader, to: u64) -> io::Result<()> {
        let from = self.buffer.written();
        debug_assert!(from.is_multiple_of(BLOCK) && to.is_multiple_of(BLOCK), "LOG-2");
        debug_assert!(to <= leader.walked, "LOG-3: a group is not complete");
        if from >= to {
            return Ok(());
        }
        let mut requests = Vec::new();
        {
            let mut segments = lock(&self.space.segments);
            let mut at = from;
            while at < to {
                let (offset, end) = segments.place_to_write(at, self.identity.incarnation)?;
                let piece = self.buffer.ring.piece(at, end.min(to));
                // SAFETY: the range is complete and not given back, so that nobody writes it until
                // `written` is stored, below.
                let buffer = unsafe { Buffer::new(piece.at, piece.len) };
                requests.push(Request::new(Direction::Write, PageId::NULL, offset, buffer));
                at += piece.len as u64;
            }
        }
        self.space.device.perform(Batch::Many(requests)).outcome()?;
        self.buffer.give_back(to);
        self.written.add_groups(to - from);
        Ok(())
    }

    /// L4: syncs the log's device, which was written up to `cut` before: one thread at a time, and
    /// none behind a sync that failed (`LOG-6`).
    pub(crate) fn sync_device(&self, cut: u64) -> Result<(), SharedError> {
        let _one = lock(&self.commit.log_sync);
        self.check()?;
        timed_sync(&*self.space.device, "log").map_err(|error| {
            // Before a caller learns of it, and opens the log again.
            self.take_back();
            self.poison("syncing the log", &error)
        })?;
        debug_assert!(cut <= self.buffer.written(), "LOG-3: what is durable was written");
        self.commit.set_durable(cut);
        Ok(())
    }

    /// After a sync that failed, caches may still show what no later sync will bring to the
    /// device. A process that opens the log before they are empty must not go on behind it: so the
    /// log is made to end where it is durable.
    fn take_back(&self) {
        lock(&self.space.segments).clear_from(self.commit.durable());
    }
}
