//! The page provider: a thread that keeps the number of free frames between a low and a high
//! watermark, so that a fault hardly ever has to evict, or to write, by itself.
//!
//! A sweep of its own takes as many pages as are missing to the high watermark, and writes those
//! that are dirty in batches, sorted by where they lie. How high the watermarks are follows from how
//! many frames are taken meanwhile (`watermarks.rs`). A thread that finds no free frame all the same
//! waits for it a little, unless it has panicked, before it evicts by itself: many threads that each write a few pages would
//! take its time and that of the device. What they evict is counted.

#![cfg(not(loom))]

use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::frame::Provides;
use crate::paging::watermarks::Watermarks;
use crate::shared::Shared;
use crate::sync::atomic::Ordering;
use crate::thread::Call;
use crate::translation::Translation;

/// How long the page provider rests when a sweep freed nothing.
const REST: Duration = Duration::from_millis(10);
/// It ends when nobody has asked for so long.
const STAY: Duration = Duration::from_secs(1);
/// How many frames it frees at least before it looks at the watermarks again.
const LEAST_GOAL: usize = 64;
/// What it remembers of the demand loses an eighth with each sweep.
const DECAY: usize = 8;

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
    /// Free frames are short. False if the system has no thread to give: the threads that fault
    /// evict by themselves.
    #[inline]
    pub(crate) fn call_page_provider(&self) -> bool {
        self.page_provider.wake().is_ok()
    }
}

impl<T: Translation> Shared<T> {
    /// The page provider's thread.
    fn provide(&self) {
        let (worker, mut rest) = (&self.core.page_provider, false);
        let _provides = Provides(&self.core.frames.waiters);
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
        let frames = &self.core.frames;
        let is_short = |reserve: Watermarks| reserve.is_short(&frames.free, reserve.high);
        if is_short(self.reserve()) {
            // What was in vain a while ago may not be any more.
            frames.waiters.set_served(true);
            self.reclaim_retired(0);
        }
        loop {
            let (reserve, before) = (self.reserve(), frames.free.len());
            if !is_short(reserve) {
                return true;
            }
            let missing = reserve.high.saturating_sub(before).max(LEAST_GOAL);
            let freed = self.sweep(missing.min(self.core.data.batch_pages).min(reserve.high));
            frames.waiters.set_served(freed > 0);
            if freed == 0 {
                crate::event!(
                    debug,
                    free = before,
                    wanted = reserve.high,
                    "a sweep freed no frame"
                );
                return false;
            }
            let taken = (before + freed).saturating_sub(frames.free.len());
            let of_late = frames.demand.load(Ordering::Relaxed);
            let demand = taken.max(of_late - of_late.div_ceil(DECAY));
            frames.demand.store(demand, Ordering::Relaxed);
        }
    }
}
