//! Buffers through which pages are written, and copied within the file.

#![cfg(not(loom))]

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

use crate::error::PoolError;
use crate::machine::{Mapping, OS_PAGE_BYTES};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::lock;

/// Page-aligned scratch memory for direct I/O.
#[derive(Debug)]
pub(crate) struct Bounce(Mapping);

impl Bounce {
    pub(crate) fn new(bytes: usize) -> Result<Bounce, PoolError> {
        Mapping::new("bounce buffers", bytes, OS_PAGE_BYTES).map(Bounce)
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.0.base()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The bytes, for the owner alone.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: a private mapping of `len` bytes that is borrowed, so that nobody writes it.
        unsafe { std::slice::from_raw_parts(self.0.base().as_ptr(), self.0.len()) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: a private mapping of `len` bytes that is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.0.base().as_ptr(), self.0.len()) }
    }
}

/// The buffers through which pages are written: as many as the budget pays for, taken in turn.
///
/// A thread that finds none idle waits, holding no latch, until another thread has written its
/// batch; a thread that has one waits for the log and the device, and for no thread that could
/// wait for a buffer.
#[derive(Debug)]
pub(crate) struct Bounces {
    all: [Mutex<Bounce>; Bounces::COUNT],
    turn: AtomicUsize,
}

impl Bounces {
    /// One for the page provider, and one for a thread that evicts by itself.
    pub(crate) const COUNT: usize = 2;

    /// Addresses for all of them, of so many bytes each; the kernel backs them as they are used.
    pub(crate) fn new(bytes: usize) -> Result<Bounces, PoolError> {
        let all = [Bounce::new(bytes)?, Bounce::new(bytes)?].map(Mutex::new);
        Ok(Bounces { all, turn: AtomicUsize::new(0) })
    }

    /// One of them, when it is idle.
    pub(crate) fn take(&self) -> MutexGuard<'_, Bounce> {
        let idle = self.all.iter().find_map(|bounce| bounce.try_lock().ok());
        idle.unwrap_or_else(|| {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            lock(&self.all[turn % Bounces::COUNT])
        })
    }
}
