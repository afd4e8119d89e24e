//! Waking and stopping a thread that works behind others.

#![cfg(not(loom))]

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::lock;

/// By which a thread is asked to work, and told to end.
#[derive(Debug, Default)]
pub struct Signal {
    /// Somebody asked since the thread last looked. A flag before the mutex, so that asking again
    /// costs a load.
    asked: AtomicBool,
    stop: Mutex<bool>,
    condition: Condvar,
}

impl Signal {
    /// Asks.
    #[inline]
    pub fn wake(&self) {
        if !self.asked.load(Ordering::Relaxed) && !self.asked.swap(true, Ordering::AcqRel) {
            self.notify();
        }
    }

    /// Asks, and ends a rest, too.
    pub fn urge(&self) {
        self.asked.store(true, Ordering::Release);
        self.notify();
    }

    fn notify(&self) {
        // A thread that has seen that nobody asked sleeps by now.
        drop(lock(&self.stop));
        self.condition.notify_one();
    }

    /// Whether somebody asked since the last wait.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// The thread must end.
    pub fn stop(&self) {
        *lock(&self.stop) = true;
        self.condition.notify_all();
    }

    /// Whether it must.
    pub fn is_stopped(&self) -> bool {
        *lock(&self.stop)
    }

    /// For the thread: waits to be asked, at most so long. False: it must end.
    pub fn wait(&self, most: Duration) -> bool {
        let mut stop = lock(&self.stop);
        if !*stop && !self.asked.load(Ordering::Acquire) {
            let waited = self.condition.wait_timeout(stop, most);
            stop = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        self.asked.store(false, Ordering::Release);
        !*stop
    }

    /// For the thread: sleeps so long although somebody asked, unless it is urged.
    pub fn rest(&self, time: Duration) {
        let stop = lock(&self.stop);
        if !*stop {
            drop(self.condition.wait_timeout(stop, time));
        }
    }

    /// As `rest`, and goes on by itself: nobody needs to ask meanwhile.
    pub fn nap(&self, time: Duration) {
        self.asked.store(true, Ordering::Release);
        self.rest(time);
    }
}
