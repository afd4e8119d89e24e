//! The WAL writer and the log syncer: the threads that write and sync the log when nobody waits
//! for it. Each starts when it has work, and ends when it has had none for a while.
//!
//! Writing without a sync is L2 and L3 alone, of whole blocks. When the unsynced stretch is longer
//! than the window a sync begins, and at two windows writing waits for it.
//!
//! The WAL writer is asked by threads that append, whenever a part of the ring was filled. The log
//! syncer cannot be: a thread that appends would have to tell it each time. How it goes, and is
//! called when the log goes on after a rest, is `IDLE-1` (`room.rs`). Before it goes, when nothing
//! came for a second and all is durable, it has the superblocks tell where the log ends.

#![cfg(not(loom))]

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polder_format::Lsn;
use polder_pool::worker::Call;

use crate::leader::{LONGEST_PERIOD, WINDOW_BYTES};
use crate::log::Log;

/// A thread that is needed again within this time does not wait to be asked.
const LONGEST_NAP: Duration = Duration::from_millis(10);

/// Has the log's threads start when there is work for them; dropping this stops them, and waits
/// for their end. One writes the log as the buffer fills; the other one syncs it, at least once in
/// each period, while the first one writes on.
pub struct WalWriter {
    log: Arc<Log>,
}

impl fmt::Debug for WalWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WalWriter({:?})", self.log)
    }
}

impl WalWriter {
    /// Lets the threads for `log` start. When nothing was appended for a second, and all of the log
    /// is durable, `on_quiet` is told where it ends.
    ///
    /// # Errors
    /// That of starting a thread, if one has work now.
    pub fn start(
        log: &Arc<Log>,
        on_quiet: impl Fn(Lsn) + Send + Sync + 'static,
    ) -> io::Result<WalWriter> {
        let wal_writer = WalWriter { log: Arc::clone(log) };
        let theirs = Arc::clone(log);
        log.wal_writer.arm("polder-log", move || write(&theirs))?;
        // The superblocks do not tell of the group that a new incarnation begins with.
        log.commit.log_syncer.wake()?;
        let theirs = Arc::clone(log);
        log.commit.log_syncer.arm("polder-sync", move || sync(&theirs, &on_quiet))?;
        Ok(wal_writer)
    }
}

/// Errors here and below are told to the threads that wait for the log, or want to append to it.
fn write(log: &Log) {
    let mut since = Instant::now();
    let mut before = log.tail_at();
    loop {
        match log.wal_writer.wait(LONGEST_PERIOD) {
            Call::Stop => return,
            Call::Nobody if log.wal_writer.leave() => return,
            _ => {}
        }
        let _ = log.write_complete();
        log.prepare(!log.wal_writer.is_asked());
        // To wake a thread takes the one that does it tens of microseconds (in a virtual machine),
        // so a thread that will be needed again soon wakes by itself.
        let (now, end) = (Instant::now(), log.tail_at());
        let share = log.buffer.wake_bytes() as f64 / (end - before).max(1) as f64;
        let time = (now - since).mul_f64(share.min(1e3));
        (since, before) = (now, end);
        if time < LONGEST_NAP {
            log.wal_writer.nap(time);
        }
    }
}

fn sync(log: &Log, on_quiet: &dyn Fn(Lsn)) {
    let syncer = &log.commit.log_syncer;
    let mut synced = Instant::now();
    let (mut end, mut since, mut told) = (log.tail_at(), Instant::now(), None);
    loop {
        let period = log.commit.period();
        if syncer.wait(period.saturating_sub(synced.elapsed())) == Call::Stop {
            return;
        }
        let tail = log.tail_at();
        let durable = log.durable().0;
        let is_awaited = log.commit.futures.wait_beyond(durable);
        if is_awaited || synced.elapsed() >= period || tail - durable > WINDOW_BYTES {
            synced = Instant::now();
            let _ = log.sync_up_to(Lsn(tail));
        }
        // DURABLE-3
        let durable = if log.failure.is_set() { u64::MAX } else { log.durable().0 };
        log.commit.futures.wake_up_to(durable);
        if tail != end {
            (end, since) = (tail, Instant::now());
        } else if since.elapsed() >= LONGEST_PERIOD && log.has_rest() {
            // What a commit has appended since then comes after this.
            let durable = log.durable();
            if told != Some(durable) {
                on_quiet(durable);
                told = Some(durable);
            } else if log.begin_rest() && syncer.leave() {
                return;
            }
        }
    }
}

impl Log {
    /// Whether nothing waits for a sync, as far as one can see.
    fn has_rest(&self) -> bool {
        self.failure.is_set() || self.tail_at() == self.durable().0
    }

    /// `IDLE-1`: from now on the thread that appends next calls the log syncer. False: one is about
    /// to append, or has.
    pub(crate) fn begin_rest(&self) -> bool {
        let durable = if self.failure.is_set() { u64::MAX } else { self.durable().0 };
        self.reservations.begin_rest(&self.tail, durable)
    }
}

impl Drop for WalWriter {
    fn drop(&mut self) {
        self.log.wal_writer.stop();
        self.log.commit.log_syncer.stop();
        // DURABLE-2
        self.log.commit.wake_all();
        self.log.commit.futures.wake_up_to(u64::MAX);
    }
}
