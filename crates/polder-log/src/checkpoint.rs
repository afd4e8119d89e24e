//! Checkpoints: making the part of the log shorter that would be replayed. The steps K1 to K6 are
//! called by the store (`Checkpointer::checkpoint` in the crate polder), whose superblocks have to
//! tell of it.
//!
//! A sweep begins when it is worth what it writes: when the log since the last start is as long as
//! the store aims at ([`Log::await_checkpoint`]), and at the latest when it has reached half of the
//! limit. It goes only so fast that it is done when the log has grown by the same again, and well
//! before the limit: at each batch it compares the share of frames that it has visited with the
//! share of that log that was used, and rests if it is ahead. Where the log is ahead the throttle has writers wait. A sweep that cannot write makes
//! log-space reservations fail with the reason, and is tried again; nothing must be opened again
//! for that.

#![cfg(not(loom))]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use polder_format::Lsn;
use polder_format::PageId;
use polder_format::log::{Counts, Group, Operation, TableCount};
use polder_pool::journal::SharedError;
use polder_pool::worker::Call;
use polder_pool::{Pool, PoolError, Translation};

use crate::log::Log;
use crate::room::{TABLES_A_GROUP, own_bytes};
use crate::sync::lock;

/// A sweep that is ahead of the log rests so long for each batch, at most.
const REST: Duration = Duration::from_millis(2);

/// A checkpoint that has begun: what is known at its position of the log (K1).
#[derive(Debug)]
pub struct Begun {
    /// Where replay will begin.
    pub start: Lsn,
    tables: Vec<TableCount>,
}

/// What the superblocks must say before the log may be cut.
#[derive(Debug, Clone, Copy)]
pub struct CheckpointMark {
    /// Where replay begins.
    pub redo_start: Lsn,
    /// Where the checkpoint's own groups begin.
    pub checkpoint: Lsn,
    /// Up to where the log is durable.
    pub durable: Lsn,
    /// No record below `redo_start` has this version word or a higher one.
    pub next_version: u64,
}

impl Log {
    /// Lets a thread start for each checkpoint that is wanted, or for several: `run` makes them as
    /// long as [`Log::await_checkpoint`] tells it to, and returns then.
    ///
    /// # Errors
    /// That of starting a thread, if a checkpoint is wanted now.
    pub fn start_checkpoints(&self, run: impl Fn() + Send + Sync + 'static) -> io::Result<()> {
        self.checkpointer.arm("polder-checkpoint", run)
    }

    /// For the thread that makes checkpoints: waits until one is wanted. False: none was for so
    /// long, or the log is being closed, and the thread must return. `aim` tells after how many bytes
    /// of log one is worth it, as things are; it is asked when the log is as long as it was told last.
    pub fn await_checkpoint(&self, most: Duration, aim: impl Fn() -> u64) -> bool {
        loop {
            let call = self.checkpointer.wait(most);
            if call == Call::Stop {
                return false;
            }
            let asked = std::mem::take(&mut lock(&self.reservations.room).wanted);
            if !asked && self.is_due() {
                self.reservations.aim_at(aim(), &self.space);
            }
            if asked || self.is_due() {
                return true;
            }
            if call == Call::Nobody && self.checkpointer.leave() {
                return false;
            }
        }
    }

    fn is_due(&self) -> bool {
        self.reservations.wants_checkpoint(self.tail_at())
    }

    /// Asks for a checkpoint, however little the log has grown.
    pub fn want_checkpoint(&self) {
        lock(&self.reservations.room).wanted = true;
        // If no thread can be started the next one who wants a checkpoint tries it again.
        let _ = self.checkpointer.wake();
    }

    /// Has the thread that makes checkpoints end, and waits for that; no other one starts.
    pub fn stop_checkpoints(&self) {
        self.checkpointer.stop();
    }

    /// K1.
    ///
    /// # Errors
    /// What made the log unusable.
    pub fn begin_checkpoint(&self) -> Result<Begun, SharedError> {
        // Also where the sweep fails: until one has written all.
        self.sweep.begin();
        let begun = self.cut_for_checkpoint(|start, tally| {
            let tables = tally.counts();
            Begun { start, tables }
        })?;
        self.reservations.keep_for_own(own_bytes(begun.tables.len()));
        Ok(begun)
    }

    /// K2 and K3: writes all that is dirty, as fast as the log needs it, and has writers wait
    /// where that is not fast enough, until there is room in the log (K6). `in_haste`: without
    /// rests.
    ///
    /// # Errors
    /// Those of writing pages; they stay dirty, and all can be tried again.
    pub fn sweep<T: Translation>(
        &self,
        begun: &Begun,
        pool: &Pool<T>,
        in_haste: bool,
    ) -> Result<(), PoolError> {
        let begin = begun.start.0;
        // What may be appended until the sweep should be done.
        let room = (self.reservations.start() + self.reservations.target() / 8 * 7)
            .saturating_sub(begin)
            .max(self.reservations.target() / 16);
        self.throttle.swept(begin, room, 0.0);
        let done = pool.sweep(&mut |visited, frames| {
            let swept = visited as f64 / frames.max(1) as f64;
            self.throttle.swept(begin, room, swept);
            let used = (self.tail_at() - begin) as f64 / room as f64;
            if !in_haste && swept > used && !self.checkpointer.is_stopped() {
                let ahead = (swept - used).min(0.5);
                std::thread::sleep(REST.mul_f64(2.0 * ahead));
            }
        });
        done.inspect(|()| self.sweep.end()).inspect_err(|_| self.throttle.end())
    }

    /// K4 to K6. `mark` writes both superblocks, durably, one after the other.
    ///
    /// # Errors
    /// What made the log unusable; an error of `mark` does. That its device has no room for what
    /// the checkpoint appends: then all can be tried again.
    pub fn finish_checkpoint(
        &self,
        begun: &Begun,
        next_version: u64,
        mark: impl FnOnce(CheckpointMark) -> io::Result<()>,
    ) -> Result<(), SharedError> {
        self.finish(begun, next_version, mark).inspect_err(|_| self.throttle.end())
    }

    fn finish(
        &self,
        begun: &Begun,
        next_version: u64,
        mark: impl FnOnce(CheckpointMark) -> io::Result<()>,
    ) -> Result<(), SharedError> {
        self.check()?;
        // K4
        if !self.make_room_for_own(own_bytes(begun.tables.len())) {
            return Err(self.no_room_for_own("have a checkpoint"));
        }
        let mut first = None;
        let mut parts: Vec<&[TableCount]> = begun.tables.chunks(TABLES_A_GROUP).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        let last = parts.len() - 1;
        let mut end = Lsn(0);
        for (i, tables) in parts.into_iter().enumerate() {
            let (start, more) = (begun.start, i < last);
            let counts = Counts { start, next_version, tables: tables.to_vec(), more };
            let mut group = Group::new();
            group.push(PageId::NULL, &Operation::Checkpoint(counts));
            let len = group.len() as u64;
            end = self.append_own(&mut group);
            first.get_or_insert(Lsn(end.0 - len));
        }
        self.await_sync(end)?;
        let mark_of = CheckpointMark {
            redo_start: begun.start,
            checkpoint: first.unwrap_or(begun.start),
            durable: self.durable(),
            next_version,
        };
        debug_assert!(begun.start <= mark_of.checkpoint && mark_of.checkpoint <= mark_of.durable);
        // K5, K6
        mark(mark_of).map_err(|error| self.poison("writing the superblocks", &error))?;
        self.set_start(begun.start);
        Ok(())
    }

    /// `LOG-7`: why the device has no room for an own group; what made the log unusable, if it is.
    pub(crate) fn no_room_for_own(&self, what: &str) -> SharedError {
        let text = format!(
            "the log is full and its device has no room for more, so that the store cannot {what}; make room on the device of the log"
        );
        let full = || Arc::new(io::Error::new(io::ErrorKind::StorageFull, text));
        self.check().err().unwrap_or_else(full)
    }

    /// A checkpoint could not be made: the threads that wait for room in the log are told why.
    pub fn checkpoint_failed(&self, error: SharedError) {
        lock(&self.reservations.room).blocked = Some(error);
        self.reservations.wake_all();
    }
}
