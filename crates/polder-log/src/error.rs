//! What can go wrong with the log when a store is opened.

use std::io;
use std::sync::Arc;

use polder_format::{FormatError, Lsn};
use polder_pool::PoolError;

/// Why the log of a store could not be used.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file is not the log of this store, or its first block is damaged.
    #[error("the log file is not the log of this store, or damaged at byte {offset}")]
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
    #[error("the log cannot be replayed from LSN {}, byte {offset} of the log file", lsn.0)]
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
