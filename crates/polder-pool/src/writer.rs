//! The background writer: a thread that keeps a reserve of free frames, so that a fault seldom has
//! to evict, and hardly ever to write, by itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::pool::Shared;
use crate::sync::lock;
use crate::translation::Translation;

/// How long the writer rests when a sweep freed nothing, or nobody asks.
const REST: Duration = Duration::from_millis(10);
/// How many frames it frees before it looks at the reserve again.
const GOAL: usize = 64;

/// How many frames should be free.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reserve {
    /// Below this the writer is woken.
    pub(crate) low: usize,
    /// Here it rests again.
    pub(crate) high: usize,
}

impl Reserve {
    /// Half a percent of the frames, and twice that.
    pub(crate) fn of(frames: u32) -> Reserve {
        let low = (frames as usize / 200).clamp(4, 2048);
        Reserve { low, high: low * 2 }
    }
}

/// By which the writer is woken and stopped.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// Somebody asked since the writer last looked. A flag before the mutex, so that asking again
    /// costs a load.
    asked: AtomicBool,
    stop: Mutex<bool>,
    condition: Condvar,
}

impl Signal {
    /// Asks for free frames.
    pub(crate) fn wake(&self) {
        if !self.asked.load(Ordering::Relaxed) && !self.asked.swap(true, Ordering::AcqRel) {
            drop(lock(&self.stop));
            self.condition.notify_one();
        }
    }

    fn stop(&self) {
        *lock(&self.stop) = true;
        self.condition.notify_all();
    }

    /// Waits to be asked. False if the writer must stop.
    fn wait(&self, rest: bool) -> bool {
        let mut stop = lock(&self.stop);
        if rest && !*stop {
            let waited = self.condition.wait_timeout(stop, REST);
            stop = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        while !*stop && !self.asked.load(Ordering::Acquire) {
            stop = self.condition.wait(stop).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        self.asked.store(false, Ordering::Release);
        !*stop
    }
}

/// The running thread; dropping this stops it and waits for its end.
#[derive(Debug)]
pub(crate) struct Writer<T: Translation> {
    shared: Arc<Shared<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Translation> Writer<T> {
    /// Starts the writer, where the translation can evict at all. If the system has no thread to
    /// give, those who fault evict by themselves.
    pub(crate) fn start(shared: &Arc<Shared<T>>) -> Writer<T> {
        let theirs = Arc::clone(shared);
        let run = move || {
            let mut rest = false;
            while theirs.core.signal.wait(rest) {
                rest = !theirs.fill_reserve();
            }
        };
        let thread = T::EVICTS
            .then(|| thread::Builder::new().name("polder-writer".into()).spawn(run).ok())
            .flatten();
        Writer { shared: Arc::clone(shared), thread }
    }
}

impl<T: Translation> Drop for Writer<T> {
    fn drop(&mut self) {
        self.shared.core.signal.stop();
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has nothing to say that the next fault would not.
            let _ = thread.join();
        }
    }
}

impl<T: Translation> Shared<T> {
    pub(crate) fn reserve(&self) -> Reserve {
        Reserve::of(self.core.frames.count())
    }

    /// Evicts until the reserve is full. False if that went nowhere.
    fn fill_reserve(&self) -> bool {
        while self.core.free.len() < self.reserve().high {
            if self.sweep(GOAL.min(self.reserve().high)).freed == 0 {
                return false;
            }
        }
        true
    }
}
