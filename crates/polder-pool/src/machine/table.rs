//! Tables in reserved memory: all zero at first, of which only what is written costs something.

#![cfg(not(loom))]

use std::marker::PhantomData;
use std::slice;

use crate::error::PoolError;
use crate::machine::memory::Mapping;

/// What zeroed memory is a valid value of, and what threads may share.
///
/// # Safety
/// Memory that is all zero is a value of the type; it changes by means of atomics alone.
pub(crate) unsafe trait Zeroed: Sync {}

/// So many values in memory of their own.
#[derive(Debug)]
pub(crate) struct Table<T> {
    memory: Mapping,
    len: usize,
    kind: PhantomData<T>,
}

// SAFETY: the values are shared by means of atomics (`Zeroed`), and have no destructor to run.
unsafe impl<T: Zeroed> Sync for Table<T> {}
// SAFETY: as above.
unsafe impl<T: Zeroed> Send for Table<T> {}

impl<T: Zeroed> Table<T> {
    /// Reserves memory for `len` values at a multiple of `align` bytes. `what` is for messages.
    pub(crate) fn new(what: &'static str, len: usize, align: usize) -> Result<Table<T>, PoolError> {
        debug_assert!(align_of::<T>() <= align);
        let memory = Mapping::new(what, len * size_of::<T>(), align)?;
        Ok(Table { memory, len, kind: PhantomData })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where they lie.
    pub(crate) fn memory(&self) -> &Mapping {
        &self.memory
    }

    /// All of them.
    #[inline(always)]
    pub(crate) fn all(&self) -> &[T] {
        // SAFETY: `new` reserved so many, aligned; zeroed memory is a valid value (`Zeroed`), and it
        // stays mapped while we live.
        unsafe { slice::from_raw_parts(self.memory.base().as_ptr().cast(), self.len) }
    }

    /// The one with this number, which is below `len`.
    ///
    /// # Safety
    /// `at` is below `len`.
    #[inline(always)]
    pub(crate) unsafe fn get_unchecked(&self, at: usize) -> &T {
        debug_assert!(at < self.len);
        // SAFETY: as in `all`; the caller knows that `at` is below `len`.
        unsafe { self.memory.base().cast::<T>().add(at).as_ref() }
    }
}
