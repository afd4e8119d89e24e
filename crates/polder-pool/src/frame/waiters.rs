//! Threads that wait for a free frame while the page provider makes some.
//!
//! * `SUPPLY-1` A thread that waits counts itself and then looks for a free frame; one that frees a
//!   frame does that first and looks then whether somebody waits, with a fence between the two on
//!   either side. A thread that waits holds the lock from its look at the frames until it sleeps,
//!   and one that frees a frame takes it before it wakes somebody. So no frame that is freed while
//!   somebody waits goes unseen.
//!
//! A thread that wakes up may find that another one has taken the frame, and waits on.

#![cfg(not(loom))]

use std::thread;
use std::time::{Duration, Instant};

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use crate::sync::{Condvar, Mutex, lock};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: AtomicUsize,
    /// Guards nothing but the way from a look at the frames to sleep.
    asleep: Mutex<()>,
    freed: Condvar,
    /// The page provider has found nothing to evict: to wait for it is in vain.
    in_vain: AtomicBool,
}

/// The page provider is at work; if it ends by a panic, to wait for it is in vain from then on.
#[derive(Debug)]
pub(crate) struct Provides<'w>(pub(crate) &'w Waiters);

impl Drop for Provides<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.set_served(false);
        }
    }
}

impl Waiters {
    /// What `take` finds, at most so much later; not at all while waiting is in vain.
    pub(crate) fn wait<R>(&self, most: Duration, take: impl Fn() -> Option<R>) -> Option<R> {
        let until = Instant::now() + most;
        let mut asleep = lock(&self.asleep);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst); // SUPPLY-1
        let found = loop {
            let left = until.saturating_duration_since(Instant::now());
            let found = take();
            if found.is_some() || left.is_zero() || self.in_vain.load(Ordering::Relaxed) {
                break found;
            }
            let woken = self.freed.wait_timeout(asleep, left);
            asleep = woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        found
    }

    /// A frame was freed.
    #[inline]
    pub(crate) fn wake_one(&self) {
        fence(Ordering::SeqCst); // SUPPLY-1
        if self.waiting.load(Ordering::Relaxed) > 0 {
            drop(lock(&self.asleep));
            self.freed.notify_one();
        }
    }

    /// Whether the page provider found something to evict.
    pub(crate) fn set_served(&self, served: bool) {
        self.in_vain.store(!served, Ordering::Relaxed);
        if !served {
            drop(lock(&self.asleep));
            self.freed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FreeList;

    const LONG: Duration = Duration::from_secs(60);

    /// Threads that take a frame, or wait for one, and put it back.
    #[test]
    fn no_free_frame_goes_unseen() {
        const FRAMES: u32 = 2;
        const TURNS: u32 = 20_000;
        let (waiters, free) = (Waiters::default(), FreeList::full(FRAMES));
        let begun = Instant::now();
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for turn in 0..TURNS {
                        let taken = free.take().or_else(|| waiters.wait(LONG, || free.take()));
                        if turn % 4 == 0 {
                            thread::yield_now();
                        }
                        free.put(taken.expect("frames come back"));
                        waiters.wake_one();
                    }
                });
            }
        });
        assert_eq!((free.len(), waiters.waiting.load(Ordering::Relaxed)), (FRAMES as usize, 0));
        assert!(begun.elapsed() < LONG, "somebody slept while a frame was free");
    }

    /// Threads that wait for it evict by themselves, at once.
    #[test]
    fn nobody_waits_for_a_page_provider_that_has_panicked() {
        let waiters = Waiters::default();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| waiters.wait(LONG, || None::<()>));
            while waiters.waiting.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            let provider = scope.spawn(|| {
                let _provides = Provides(&waiters);
                panic!("as the test wants it");
            });
            assert!(provider.join().is_err());
            assert_eq!(waiting.join().unwrap(), None);
        });
        assert_eq!(waiters.wait(LONG, || None::<()>), None, "nor later");
        drop(Provides(&waiters));
        waiters.set_served(true);
        drop(Provides(&waiters));
        assert!(!waiters.in_vain.load(Ordering::Relaxed), "one that leaves comes again");
    }

    #[test]
    fn nobody_waits_in_vain() {
        let waiters = Waiters::default();
        let none = || None::<()>;
        assert_eq!(waiters.wait(Duration::from_millis(1), none), None, "it was long enough");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| waiters.wait(LONG, none));
            while waiters.waiting.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            waiters.set_served(false);
            assert_eq!(waiting.join().unwrap(), None);
        });
        assert_eq!(waiters.wait(LONG, none), None);
        waiters.set_served(true);
        assert_eq!(waiters.wait(LONG, || Some(3)), Some(3));
    }
}
