//! The errors of all families of operations, as one.

use polder_format::tuple::TupleError;

use crate::batch::BatchError;
use crate::error::{OpenError, StoreError};
#[cfg(feature = "tools")]
use crate::salvage::SalvageError;

/// Any error of this crate, for functions that open a store, use it and apply batches: `?` makes it
/// of each of them.
///
/// ```
/// use polder::{Options, Store, WriteBatch};
///
/// fn count_a_visit(path: &std::path::Path) -> Result<u64, polder::Error> {
///     let store = Store::open(Options::new(path))?;
///     let visits = store.open_table("visits")?;
///     let mut batch = WriteBatch::new();
///     batch.put(&visits, visits.len().to_be_bytes(), "");
///     store.apply(batch)?;
///     store.close()?;
///     Ok(visits.len())
/// }
/// # let dir = tempfile::tempdir().unwrap();
/// assert_eq!(count_a_visit(dir.path()).unwrap(), 1);
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A store could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An operation on an open store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A batch was not applied.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Nothing could be salvaged, or not all.
    #[cfg(feature = "tools")]
    #[error(transparent)]
    Salvage(#[from] SalvageError),
    /// A tuple could not be encoded, or bytes are not one.
    #[error(transparent)]
    Tuple(#[from] TupleError),
}
