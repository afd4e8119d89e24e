//! The threads that write and sync the log when nobody waits for it.

#![cfg(not(loom))]

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use polder_format::Lsn;

use crate::leader::{LONGEST_PERIOD, WINDOW_BYTES};
use crate::log::Log;

/// Whoever is needed again within this time does not wait to be asked.
const LONGEST_NAP: Duration = Duration::from_millis(10);

/// The running threads; dropping this stops them, and waits for their end. One writes the log as the
/// buffer fills; the other one syncs it, at least once in each period, while the first one writes
/// on.
#[derive(Debug)]
pub struct Clerk {
    log: Arc<Log>,
    threads: Vec<JoinHandle<()>>,
}

impl Clerk {
    /// Starts the threads for `log`.
    ///
    /// # Errors
    /// That of starting a thread.
    pub fn start(log: &Arc<Log>) -> io::Result<Clerk> {
        let mut clerk = Clerk { log: Arc::clone(log), threads: Vec::new() };
        for (name, run) in [("polder-log", write as fn(&Log)), ("polder-sync", sync)] {
            let log = Arc::clone(log);
            let thread = thread::Builder::new().name(name.to_string());
            clerk.threads.push(thread.spawn(move || run(&log))?);
        }
        Ok(clerk)
    }
}

/// Who waits for the log, or wants to append to it, is told of errors here and below.
fn write(log: &Log) {
    let mut since = Instant::now();
    let mut before = log.tail_at();
    while log.clerk.wait(LONGEST_PERIOD) {
        let _ = log.write_complete();
        log.prepare(!log.clerk.is_asked());
        // To wake a thread takes tens of microseconds of who does it (in a virtual machine), so a
        // thread that will be needed again soon wakes by itself.
        let (now, end) = (Instant::now(), log.tail_at());
        let share = log.buffer.wake_bytes() as f64 / (end - before).max(1) as f64;
        let time = (now - since).mul_f64(share.min(1e3));
        (since, before) = (now, end);
        if time < LONGEST_NAP {
            log.clerk.nap(time);
        }
    }
}

fn sync(log: &Log) {
    let mut synced = Instant::now();
    loop {
        let period = log.commit.period();
        if !log.commit.syncer.wait(period.saturating_sub(synced.elapsed())) {
            return;
        }
        let durable = log.durable().0;
        if synced.elapsed() >= period || log.tail_at() - durable > WINDOW_BYTES {
            synced = Instant::now();
            let _ = log.sync_up_to(Lsn(log.tail_at()));
        }
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        self.log.clerk.stop();
        self.log.commit.syncer.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
