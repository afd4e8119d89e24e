//! The thread that writes the log when nobody waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use polder_pool::journal::Journal;

use crate::log::{Log, lock};

/// By which a thread of the log is woken and stopped.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// Somebody asked since the thread last looked. A flag before the mutex, so that asking again
    /// costs a load.
    asked: AtomicBool,
    stop: Mutex<bool>,
    condition: Condvar,
}

impl Signal {
    #[inline]
    pub(crate) fn wake(&self) {
        if !self.asked.load(Ordering::Relaxed) && !self.asked.swap(true, Ordering::AcqRel) {
            drop(lock(&self.stop));
            self.condition.notify_one();
        }
    }

    fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        *lock(&self.stop) = true;
        self.condition.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *lock(&self.stop)
    }

    /// Waits to be asked, at most so long. False: the thread must end.
    pub(crate) fn wait(&self, most: Duration) -> bool {
        let mut stop = lock(&self.stop);
        if !*stop && !self.asked.load(Ordering::Acquire) {
            let waited = self.condition.wait_timeout(stop, most);
            stop = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        self.asked.store(false, Ordering::Release);
        !*stop
    }
}

/// The running thread; dropping this stops it, and waits for its end. It writes the log as the
/// buffer fills, and syncs it at least once in each period.
#[derive(Debug)]
pub struct Clerk {
    log: Arc<Log>,
    thread: Option<JoinHandle<()>>,
}

impl Clerk {
    /// Starts the thread for `log`.
    pub fn start(log: &Arc<Log>) -> Clerk {
        let works_for = Arc::clone(log);
        let thread = thread::Builder::new()
            .name("polder-log".to_string())
            .spawn(move || run(&works_for))
            .ok();
        Clerk { log: Arc::clone(log), thread }
    }
}

fn run(log: &Log) {
    let mut synced = Instant::now();
    loop {
        let period = Duration::from_nanos(log.period.load(Ordering::Relaxed));
        if !log.clerk.wait(period.saturating_sub(synced.elapsed())) {
            return;
        }
        if synced.elapsed() >= period {
            synced = Instant::now();
            // Who waits for the log, or wants to append to it, is told of the error.
            let _ = log.await_durable(log.end());
        } else {
            let _ = log.write_complete();
        }
        if !log.clerk.is_asked() {
            log.prepare();
        }
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        self.log.clerk.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
