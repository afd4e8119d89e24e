//! The WAL writer and the log syncer: the threads that write and sync the log when nobody waits
//! for it.
//!
//! Writing without a sync is L2 and L3 alone, of whole blocks. When the unsynced stretch is longer
//! than the window a sync begins, and at two windows writing waits for it.

#![cfg(not(loom))]

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use polder_format::Lsn;

use crate::leader::{LONGEST_PERIOD, WINDOW_BYTES};
use crate::log::Log;

/// A thread that is needed again within this time does not wait to be asked.
const LONGEST_NAP: Duration = Duration::from_millis(10);

/// The running threads; dropping this stops them, and waits for their end. One writes the log as
/// the buffer fills; the other one syncs it, at least once in each period, while the first one
/// writes on.
#[derive(Debug)]
pub struct WalWriter {
    log: Arc<Log>,
    threads: Vec<JoinHandle<()>>,
}

impl WalWriter {
    /// Starts the threads for `log`.
    ///
    /// # Errors
    /// That of starting a thread.
    pub fn start(log: &Arc<Log>) -> io::Result<WalWriter> {
        let mut wal_writer = WalWriter { log: Arc::clone(log), threads: Vec::new() };
        for (name, run) in [("polder-log", write as fn(&Log)), ("polder-sync", sync)] {
            let log = Arc::clone(log);
            let thread = thread::Builder::new().name(name.to_string());
            wal_writer.threads.push(thread.spawn(move || run(&log))?);
        }
        Ok(wal_writer)
    }
}

/// Errors here and below are told to the threads that wait for the log, or want to append to it.
fn write(log: &Log) {
    let mut since = Instant::now();
    let mut before = log.tail_at();
    while log.wal_writer.wait(LONGEST_PERIOD) {
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

fn sync(log: &Log) {
    let mut synced = Instant::now();
    loop {
        let period = log.commit.period();
        if !log.commit.log_syncer.wait(period.saturating_sub(synced.elapsed())) {
            return;
        }
        let durable = log.durable().0;
        if synced.elapsed() >= period || log.tail_at() - durable > WINDOW_BYTES {
            synced = Instant::now();
            let _ = log.sync_up_to(Lsn(log.tail_at()));
        }
    }
}

impl Drop for WalWriter {
    fn drop(&mut self) {
        self.log.wal_writer.stop();
        self.log.commit.log_syncer.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
