//! Atomics: std's, or loom's when the ring is model-checked (`--cfg loom`). Memory of the ring. And
//! how a mutex is locked.

#[cfg(not(loom))]
use std::marker::PhantomData;
use std::ops::{Deref, Range};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

/// So many elements, all zero, at a multiple of a block. The system backs them with memory as they
/// are written: a log that little is appended to takes little.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct Zeroed<T> {
    memory: polder_pool::Mapping,
    count: usize,
    of: PhantomData<T>,
}

/// Types of which zeros are a value.
///
/// # Safety
/// All bits zero are a valid value, and nothing has to be dropped.
#[cfg(not(loom))]
pub(crate) unsafe trait Zero {}
// SAFETY: the value 0.
#[cfg(not(loom))]
unsafe impl Zero for std::cell::UnsafeCell<u64> {}
// SAFETY: the value 0.
#[cfg(not(loom))]
unsafe impl Zero for AtomicU64 {}

#[cfg(not(loom))]
impl<T: Zero> Zeroed<T> {
    pub(crate) fn new(count: usize, _zero: impl Fn() -> T) -> Result<Zeroed<T>, NoMemory> {
        let memory = polder_pool::Mapping::new("the log's buffer", count * size_of::<T>(), 1);
        Ok(Zeroed { memory: memory.map_err(|_| NoMemory)?, count, of: PhantomData })
    }
}

#[cfg(not(loom))]
impl<T: Zero> Deref for Zeroed<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: so many zeros lie there, aligned to a page, until the mapping is dropped.
        unsafe { std::slice::from_raw_parts(self.memory.base().as_ptr().cast(), self.count) }
    }
}

#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Zeroed<T>(Box<[T]>);

#[cfg(loom)]
impl<T> Zeroed<T> {
    pub(crate) fn new(count: usize, zero: impl Fn() -> T) -> Result<Zeroed<T>, NoMemory> {
        Ok(Zeroed((0..count).map(|_| zero()).collect()))
    }
}

#[cfg(loom)]
impl<T> Deref for Zeroed<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// The system gives no memory.
#[derive(Debug)]
pub(crate) struct NoMemory;

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
