//! Atomics and locks: std's, or loom's when the small protocols are model-checked (`--cfg loom`).

#[cfg(loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic,
};
#[cfg(not(loom))]
use std::sync::TryLockError;
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(all(not(loom), not(polder_count)))]
pub(crate) use std::sync::atomic;

#[cfg(all(not(loom), polder_count))]
pub mod counted;
#[cfg(all(not(loom), polder_count))]
pub(crate) use counted as atomic;

/// What is done now and then beside a lookup: where accesses are counted, this is not.
#[inline(always)]
pub(crate) fn aside<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(all(not(loom), polder_count))]
    return counted::aside(work);
    #[cfg(not(all(not(loom), polder_count)))]
    work()
}

/// Locks a mutex whose data stays consistent even if a holder panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The same if no other thread has it.
#[cfg(not(loom))]
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Stands behind each SeqCst store whose partner stores first and loads then, too: loom orders
/// those by fences only. Nothing outside of loom.
#[inline(always)]
pub(crate) fn seq_cst_under_loom() {
    #[cfg(loom)]
    atomic::fence(atomic::Ordering::SeqCst);
}

/// Says once and for all that something is gone. A thread that raises it looks afterwards at what
/// others may be doing; they look at the flag once they have begun. So one of them sees the other:
/// SeqCst on all four.
#[derive(Debug, Default)]
pub(crate) struct Flag(atomic::AtomicBool);

impl Flag {
    /// False if it was raised already.
    pub(crate) fn raise(&self) -> bool {
        let before = self.0.swap(true, atomic::Ordering::SeqCst);
        seq_cst_under_loom();
        !before
    }

    #[inline(always)]
    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(atomic::Ordering::SeqCst)
    }
}

/// Gives way while another thread finishes a short critical section: spins first, then yields.
pub(crate) struct Backoff(u32);

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff(0)
    }

    pub(crate) fn wait(&mut self) {
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(not(loom))]
        if self.0 < 6 {
            (0..1 << self.0).for_each(|_| std::hint::spin_loop());
        } else {
            std::thread::yield_now();
        }
        self.0 += 1;
    }
}

/// Something that is written often, alone on its cache lines: what every lookup reads lies beside
/// it, and must not go with each write.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(T);

impl<T> std::ops::Deref for CachePadded<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
