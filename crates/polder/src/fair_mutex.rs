//! A mutex that a thread which takes it again and again does not keep from others: the standard
//! library's goes to a thread that happens to run rather than to one that must be woken.

use std::sync::{Mutex, MutexGuard};

use polder_pool::lock;

/// A thread that waits for `held` has `next`: so the one that had `held`, and wants it again, waits
/// for `next` until the other one has `held`.
#[derive(Debug, Default)]
pub(crate) struct FairMutex {
    next: Mutex<()>,
    held: Mutex<()>,
}

impl FairMutex {
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        let _next = lock(&self.next);
        lock(&self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_thread_that_takes_it_again_and_again_gives_way() {
        const TURNS: u64 = 20;
        let (mutex, taken, ended) =
            (FairMutex::default(), AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let _held = mutex.lock();
                    thread::sleep(Duration::from_micros(300));
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            });
            let mut most = 0;
            for _ in 0..TURNS {
                thread::sleep(Duration::from_millis(1));
                let before = taken.load(Ordering::Relaxed);
                drop(mutex.lock());
                most = most.max(taken.load(Ordering::Relaxed) - before);
            }
            ended.store(true, Ordering::Relaxed);
            // The one that it waited for; and another one, if it was slow to come so far.
            assert!(most <= 10, "{most} turns of the other thread came first");
        });
    }
}
