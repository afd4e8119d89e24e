//! The page provider: a thread that keeps the number of free frames between a low and a high
//! watermark, so that a fault seldom has to evict, and hardly ever to write, by itself.

#![cfg(not(loom))]

use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::shared::Shared;
use crate::thread::Call;
use crate::translation::Translation;

/// How long the page provider rests when a sweep freed nothing.
const REST: Duration = Duration::from_millis(10);
/// It ends when nobody has asked for so long.
const STAY: Duration = Duration::from_secs(1);
/// How many frames it frees before it looks at the watermarks again.
const GOAL: usize = 64;

/// Has a page provider start when free frames are short; dropping this stops it and waits for its
/// end.
#[derive(Debug)]
pub(crate) struct PageProvider<T: Translation>(Arc<Shared<T>>);

impl<T: Translation> PageProvider<T> {
    /// There will be one, where the translation can evict at all.
    pub(crate) fn new(shared: &Arc<Shared<T>>) -> PageProvider<T> {
        let theirs = Arc::clone(shared);
        if T::EVICTS {
            // Where no thread starts the threads that fault evict by themselves.
            let _ = shared.core.page_provider.arm("polder-writer", move || theirs.provide());
        }
        PageProvider(Arc::clone(shared))
    }
}

impl<T: Translation> Drop for PageProvider<T> {
    fn drop(&mut self) {
        self.0.core.page_provider.stop();
    }
}

impl Core {
    /// Free frames are short. If the system has no thread to give, the threads that fault evict by
    /// themselves.
    #[inline]
    pub(crate) fn call_page_provider(&self) {
        let _ = self.page_provider.wake();
    }
}

impl<T: Translation> Shared<T> {
    /// The page provider's thread.
    fn provide(&self) {
        let (worker, mut rest) = (&self.core.page_provider, false);
        loop {
            match worker.wait(STAY) {
                Call::Stop => return,
                Call::Nobody if worker.leave() => return,
                _ => {}
            }
            if rest {
                worker.rest(REST);
            }
            rest = !self.fill_reserve();
        }
    }

    /// Evicts until the high watermark is reached. False if a sweep frees nothing.
    fn fill_reserve(&self) -> bool {
        let reserve = self.reserve();
        if reserve.is_short(&self.core.frames.free, reserve.high) {
            self.reclaim_retired(0);
        }
        while reserve.is_short(&self.core.frames.free, reserve.high) {
            if self.sweep(GOAL.min(reserve.high)) == 0 {
                let (free, high) = (self.core.frames.free.len(), reserve.high);
                crate::event!(debug, free = free, wanted = high, "a sweep freed no frame");
                return false;
            }
        }
        true
    }
}
