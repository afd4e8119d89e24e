//! That the log cannot be used any more, and why.
//!
//! * `LOG-6` A write or sync of the log that fails, a sync of the data file, or a write of a
//!   superblock, poisons the log: no LSN becomes durable any more, no checkpoint advances,
//!   reservations are refused (A1). It is not tried again: a kernel that failed a sync may have
//!   dropped the pages. Each of the two files is synced by one thread at a time, and by none
//!   behind a sync that failed: of several threads that sync, a kernel tells only one that a write
//!   was lost.

#![cfg(not(loom))]

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use polder_pool::journal::SharedError;

/// The error that ended the log, if there was one. It never goes away: the store has to be opened
/// again.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    first: OnceLock<SharedError>,
    /// Set (Release) when `first` is there; a thread that sees it (Acquire) finds the error.
    is_set: AtomicBool,
}

impl Failure {
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn check(&self) -> Result<(), SharedError> {
        if self.is_set() { Err(self.error()) } else { Ok(()) }
    }

    #[cold]
    fn error(&self) -> SharedError {
        let unknown = || Arc::new(io::Error::other("the log cannot be used"));
        self.first.get().cloned().unwrap_or_else(unknown)
    }

    /// Only the first error counts, which is given back.
    pub(crate) fn set(&self, what: &str, error: &io::Error) -> SharedError {
        let first = self.first.get_or_init(|| {
            let text = format!(
                "{what} failed ({error}); nothing is durable any more: open the store again"
            );
            Arc::new(io::Error::new(error.kind(), text))
        });
        self.is_set.store(true, Ordering::Release);
        Arc::clone(first)
    }
}
