//! What can go wrong with the log when a store is opened.

#![cfg(not(loom))]

use std::io;
use std::sync::Arc;

use polder_format::{FormatError, Lsn};
use polder_pool::PoolError;

/// A change, which the log takes as a whole, is larger than that may be. It is what an error of
/// kind [`io::ErrorKind::QuotaExceeded`] holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a change takes {needed} bytes of log at once; the log's limit permits {by_log}, the memory budget {by_memory}: make it smaller, or what permits less larger"
)]
pub struct ChangeTooLarge {
    /// Bytes that it takes.
    pub needed: u64,
    /// What the log's limit permits: a part of it, so that others find room beside it.
    pub by_log: u64,
    /// What the memory budget permits.
    pub by_memory: u64,
}

/// Why the log of a store could not be used.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file is not the log of this store, or its first block is damaged.
    #[error(
        "the log file is not the log of this store, or damaged at byte {offset}; put back the file `log` that belongs to it, or save what can be read with `polder salvage`"
    )]
    Header {
        /// Where in the file.
        offset: u64,
        /// What is wrong.
        source: FormatError,
    },
    /// A part of the log that was durable is damaged.
    #[error(
        "the log is damaged at LSN {}, byte {offset} of the log file: it was durable up to LSN {}; restore a copy, or save what can be read with `polder salvage`",
        lsn.0, durable.0
    )]
    Damaged {
        /// Where the last readable group ends.
        lsn: Lsn,
        /// Where that is in the file.
        offset: u64,
        /// How far the log must reach.
        durable: Lsn,
        /// What is wrong there.
        source: FormatError,
    },
    /// A record cannot be understood, although its group is whole.
    #[error(
        "the log cannot be replayed from LSN {}, byte {offset} of the log file; restore a copy, or save what can be read with `polder salvage`",
        lsn.0
    )]
    Record {
        /// Where the group begins.
        lsn: Lsn,
        /// Where that is in the file.
        offset: u64,
        /// What is wrong with it.
        source: FormatError,
    },
    /// The device failed.
    #[error("cannot {what} the log file")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the device said.
        source: Arc<io::Error>,
    },
    /// The pool could not.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

impl LogError {
    pub(crate) fn io(what: &'static str) -> impl Fn(io::Error) -> LogError {
        move |source| LogError::Io { what, source: Arc::new(source) }
    }
}

/// Makes room for `more` elements, or says that there is no memory for them. Buffers that are large
/// are made with this: elsewhere the process ends where the system gives no more.
pub(crate) fn reserve<T>(buffer: &mut Vec<T>, more: usize) -> Result<(), LogError> {
    buffer.try_reserve(more).map_err(|_| no_memory((more * size_of::<T>()) as u64))
}

/// There is no memory for a buffer of so many bytes.
pub(crate) fn no_memory(bytes: u64) -> LogError {
    let text = format!(
        "the system does not give {bytes} bytes of memory; allow the process more (`ulimit -v`), or use a smaller memory budget"
    );
    let source = Arc::new(io::Error::new(io::ErrorKind::OutOfMemory, text));
    LogError::Io { what: "make a buffer for", source }
}
