//! Writing the ring out, and syncing: one thread does it for all.
//!
//! `docs/durability.md`, L1 to L5. Whoever wants something to be durable leads, if nobody does;
//! else it sleeps until a leader has finished and looks again. So a single thread commits without
//! another one, and many share each sync.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use polder_format::log::{LOG_BLOCK_BYTES, Pad};
use polder_format::{Lsn, PageId};
use polder_pool::device::{Batch, Buffer, Direction, Request};
use polder_pool::journal::SharedError;

use crate::log::{Log, lock};
use crate::ring::cut;
use crate::tally::Tally;

const BLOCK: u64 = LOG_BLOCK_BYTES as u64;
/// When so much is written and not synced, a sync begins; at twice as much writing waits for it.
pub(crate) const WINDOW_BYTES: u64 = 16 << 20;
/// What is written out while later groups are still waited for, as a part of the ring.
const PREFIX_PART: u64 = 4;

/// What only the leader knows.
#[derive(Debug)]
pub(crate) struct Leader {
    /// All groups up to here are complete.
    walked: u64,
    /// Entries of all tables at `walked`.
    pub(crate) tally: Tally,
}

impl Leader {
    pub(crate) fn new(at: u64, tally: Tally) -> Leader {
        Leader { walked: at, tally }
    }
}

/// Who leads, and how many syncs there were.
#[derive(Debug, Default)]
pub(crate) struct Syncs {
    leading: bool,
    /// Threads that sleep. (Waking nobody is a system call all the same.)
    waiting: u32,
    /// Syncs that have begun; the number of the last one.
    pub(crate) begun: u64,
    /// The last one that has ended well.
    pub(crate) finished: u64,
}

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
    /// Leads, or waits for those who do, until `done` says so.
    pub(crate) fn flush_until(
        &self,
        done: impl Fn(&Log, &Syncs) -> bool,
    ) -> Result<(), SharedError> {
        let mut syncs = lock(&self.syncs);
        loop {
            if done(self, &syncs) {
                return Ok(());
            }
            self.check()?;
            if syncs.leading {
                syncs.waiting += 1;
                let woken = self.synced.wait(syncs);
                syncs = woken.unwrap_or_else(|poisoned| poisoned.into_inner());
                syncs.waiting -= 1;
                continue;
            }
            syncs.leading = true;
            syncs.begun += 1;
            let number = syncs.begun;
            drop(syncs);
            let led = self.cut_and_sync(|_, _| ()).map(|_| ());
            syncs = lock(&self.syncs);
            syncs.leading = false;
            if led.is_ok() {
                syncs.finished = number;
            }
            if syncs.waiting > 0 {
                self.synced.notify_all();
            }
            led?;
        }
    }

    /// Writes out what is complete, without a sync: for the clerk.
    pub(crate) fn write_complete(&self) -> Result<(), SharedError> {
        let durable = self.durable.load(Ordering::Acquire);
        let unsynced = self.tail().load(Ordering::Acquire) - durable;
        if unsynced > 2 * WINDOW_BYTES {
            return self.sync_up_to(Lsn(durable + unsynced));
        }
        if unsynced > WINDOW_BYTES {
            self.syncer.wake();
        }
        self.lead(|leader| {
            self.walk(leader, self.tail().load(Ordering::Acquire));
            self.write_out(leader.walked / BLOCK * BLOCK)
        })
    }

    /// L1 to L4. `at_cut` is told where the cut is, and the entries of all tables there. Others may
    /// write on behind the cut while it is synced.
    pub(crate) fn cut_and_sync<R>(
        &self,
        at_cut: impl FnOnce(Lsn, &Tally) -> R,
    ) -> Result<R, SharedError> {
        let mut result = None;
        let mut cut = 0;
        self.lead(|leader| {
            cut = self.cut_and_write(leader)?;
            result = Some(at_cut(Lsn(cut), &leader.tally));
            Ok(())
        })?;
        self.sync_device(cut)?;
        result.ok_or_else(|| Arc::new(io::Error::other("the log was not cut")))
    }

    /// As `cut_and_sync`; who waits for what became durable by it is woken.
    pub(crate) fn cut_for_checkpoint<R>(
        &self,
        at_cut: impl FnOnce(Lsn, &Tally) -> R,
    ) -> Result<R, SharedError> {
        let result = self.cut_and_sync(at_cut)?;
        drop(lock(&self.syncs));
        self.synced.notify_all();
        Ok(result)
    }

    pub(crate) fn lead(
        &self,
        work: impl FnOnce(&mut Leader) -> io::Result<()>,
    ) -> Result<(), SharedError> {
        let mut leader = lock(&self.leader);
        self.check()?;
        work(&mut leader).map_err(|error| self.poison("writing the log", &error))
    }

    /// L1 to L3; gives the cut.
    fn cut_and_write(&self, leader: &mut Leader) -> io::Result<u64> {
        let (tail, cut) = cut(self.tail());
        let mut tries = 0;
        loop {
            self.walk(leader, tail);
            let written = self.written.load(Ordering::Relaxed);
            let whole = leader.walked / BLOCK * BLOCK;
            if leader.walked == tail && cut <= written + self.ring.len() {
                break;
            }
            // Others may wait for room in the ring before they can complete their groups.
            let is_full = self.tail().load(Ordering::Acquire) > written + self.ring.len();
            let much = whole - written >= self.ring.len() / PREFIX_PART;
            if whole > written && (is_full || much || leader.walked == tail) {
                self.write_out(whole)?;
            } else if self.poisoned.load(Ordering::Acquire) {
                // Who waited for room in the ring has gone, and left a gap.
                return Err(io::Error::other("the log is dead"));
            } else {
                wait_a_little(&mut tries);
            }
        }
        // LOG-2: the next group begins at a block that was not written yet.
        if cut > tail {
            let pad = Pad::encode(self.seed, Lsn(tail), (cut - tail) as u32, self.incarnation);
            self.ring.put_pad(tail, pad, cut - tail);
        }
        leader.walked = cut;
        self.write_out(cut)?;
        Ok(cut)
    }

    /// L2, as far as groups are complete, up to `end`.
    fn walk(&self, leader: &mut Leader, end: u64) {
        while leader.walked < end {
            let Some(mark) = self.ring.take_mark(leader.walked) else { return };
            leader.tally.add_group(&self.ring, leader.walked, mark);
            leader.walked += mark.len();
        }
    }

    /// L3 and L5: writes the ring up to `to`, a multiple of a block, and gives it back.
    fn write_out(&self, to: u64) -> io::Result<()> {
        let from = self.written.load(Ordering::Relaxed);
        if from >= to {
            return Ok(());
        }
        let mut requests = Vec::new();
        {
            let mut segments = lock(&self.segments);
            let share = segments.header().share();
            let mut at = from;
            while at < to {
                let end = to.min((at / share + 1) * share);
                let offset = segments.offset_to_write(at)?;
                let piece = self.ring.piece(at, end);
                // SAFETY: the range is complete and not given back, so that nobody writes it until
                // `written` is stored, below.
                let buffer = unsafe { Buffer::new(piece.at, piece.len) };
                requests.push(Request::new(Direction::Write, PageId::NULL, offset, buffer));
                at += piece.len as u64;
            }
        }
        let batch = self.device.complete(self.device.submit(Batch::Many(requests)));
        batch.into_requests().into_iter().try_for_each(|request| request.outcome)?;
        self.written.store(to, Ordering::Release);
        Ok(())
    }
}
