//! What can go wrong in a tree.

use polder_pool::PoolError;

use crate::node::MAX_VALUE_BYTES;

/// Why a tree could not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The key has too many bytes for a page of this size.
    #[error("a key of {len} bytes is too long: the limit is {limit} bytes, an eighth of a page")]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The value has too many bytes.
    #[error("a value of {len} bytes is too long: the limit is {MAX_VALUE_BYTES} bytes")]
    ValueTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// A bulk load's input is not in ascending order.
    #[error(
        "bulk load needs ascending keys without duplicates: key number {number} is not above the one before it"
    )]
    NotSorted {
        /// Which entry, counted from 0.
        number: u64,
    },
    /// A bulk load into a tree that has entries.
    #[error("bulk load needs an empty table")]
    NotEmpty,
    /// A batch changes more pages at the same time than one may hold.
    #[error(
        "the batch changes at least {needed} pages, and {limit} are the most that one may hold at a time: half of those that the memory budget pays for"
    )]
    BatchTooLarge {
        /// How many it changes, at least.
        needed: usize,
        /// How many it may hold.
        limit: usize,
    },
    /// The pool could not.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

polder_structure::exhaustion_of!(TreeError);
