//! What can go wrong in a hash index.

use polder_pool::PoolError;

use crate::page::MAX_CHAIN;

/// Why a hash index could not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum HashError {
    /// Key and value have too many bytes for a page of this size.
    #[error(
        "key and value have {len} bytes together, which is too long: the limit is {limit} bytes, a quarter of a page"
    )]
    EntryTooLong {
        /// Their length in bytes.
        len: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The keys with the hash of this one fill as many pages as they may. Keys of random bytes, or of
    /// any that know nothing of the hash, do not come to that.
    #[error(
        "there is no room for the key: others with its hash fill {MAX_CHAIN} pages, which is the limit"
    )]
    Crowded,
    /// The pool could not.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

polder_structure::exhaustion_of!(HashError);

impl From<HashError> for PoolError {
    fn from(error: HashError) -> PoolError {
        match error {
            HashError::Pool(error) => error,
            other => PoolError::of_structure(other),
        }
    }
}
