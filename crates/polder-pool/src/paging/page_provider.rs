//! The page provider: a thread that keeps the number of free frames between a low and a high
//! watermark, so that a fault seldom has to evict, and hardly ever to write, by itself.

#![cfg(not(loom))]

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::shared::Shared;
use crate::translation::Translation;

/// How long the page provider rests when a sweep freed nothing, or nobody asks.
const REST: Duration = Duration::from_millis(10);
/// How many frames it frees before it looks at the watermarks again.
const GOAL: usize = 64;

/// The running thread; dropping this stops it and waits for its end.
#[derive(Debug)]
pub(crate) struct PageProvider<T: Translation> {
    shared: Arc<Shared<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Translation> PageProvider<T> {
    /// Starts the page provider, where the translation can evict at all. If the system has no
    /// thread to give, the threads that fault evict by themselves.
    pub(crate) fn start(shared: &Arc<Shared<T>>) -> PageProvider<T> {
        let theirs = Arc::clone(shared);
        let run = move || {
            let mut rest = false;
            while theirs.core.signal.wait(Duration::MAX) {
                if rest {
                    theirs.core.signal.rest(REST);
                }
                rest = !theirs.fill_reserve();
            }
        };
        let thread = T::EVICTS
            .then(|| thread::Builder::new().name("polder-writer".into()).spawn(run).ok())
            .flatten();
        PageProvider { shared: Arc::clone(shared), thread }
    }
}

impl<T: Translation> Drop for PageProvider<T> {
    fn drop(&mut self) {
        self.shared.core.signal.stop();
        if let Some(thread) = self.thread.take() {
            // A page provider that panicked has nothing to say that the next fault would not.
            let _ = thread.join();
        }
    }
}

impl<T: Translation> Shared<T> {
    /// Evicts until the high watermark is reached. False if a sweep frees nothing.
    fn fill_reserve(&self) -> bool {
        let reserve = self.reserve();
        if reserve.is_short(&self.core.frames.free, reserve.high) {
            self.reclaim_retired(0);
        }
        while reserve.is_short(&self.core.frames.free, reserve.high) {
            if self.sweep(GOAL.min(reserve.high)) == 0 {
                return false;
            }
        }
        true
    }
}
