//! Atomics: std's, or loom's when the ring is model-checked (`--cfg loom`). And how a mutex is
//! locked.

use std::ops::Range;
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

/// Memory whose use by several threads loom checks: that its readers come after its writers.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Watched(Box<[loom::cell::UnsafeCell<()>]>);

#[cfg(loom)]
impl Watched {
    pub(crate) fn new(cells: usize) -> Watched {
        Watched((0..cells).map(|_| loom::cell::UnsafeCell::new(())).collect())
    }

    pub(crate) fn write(&self, cells: Range<usize>) {
        self.0[cells].iter().for_each(|cell| cell.with_mut(|_| ()));
    }

    pub(crate) fn read(&self, cells: Range<usize>) {
        self.0[cells].iter().for_each(|cell| cell.with(|_| ()));
    }
}

/// Memory as it is.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct Watched;

#[cfg(not(loom))]
impl Watched {
    pub(crate) fn new(_cells: usize) -> Watched {
        Watched
    }

    #[inline(always)]
    pub(crate) fn write(&self, _cells: Range<usize>) {}

    #[inline(always)]
    pub(crate) fn read(&self, _cells: Range<usize>) {}
}

/// Locks a mutex. A thread that panicked while it held it has left nothing half done.
#[cfg(not(loom))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
