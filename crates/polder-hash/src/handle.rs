//! The handle of an index: making one and opening it.

use std::fmt;

use polder_format::log::{LoggedValue, Operation};
use polder_pool::{Space, Translation};
use polder_structure::create_root;

use crate::bucket::{BucketMut, BucketRef, max_entry_len};
use crate::error::HashError;
use crate::hash::Prefix;

/// A hash index in a space of a pool. Cheap to clone.
///
/// ```
/// # use polder_format::{ChecksumSeed, PageSize, StoreId};
/// # use polder_pool::{Array, Pool, PoolConfig};
/// # use polder_testkit::{FaultPlan, SimDisk};
/// use polder_hash::{Effect, HashIndex, KINDS};
///
/// # let (size, seed) = (PageSize::MIN, ChecksumSeed::new(StoreId([1; 16])));
/// # let config = PoolConfig::new(PoolConfig::least_budget(size), size, seed);
/// # let device = Box::new(SimDisk::new(FaultPlan::new(1)));
/// let pool: Pool<Array> = Pool::open(device, &config, &KINDS)?;
/// let index = HashIndex::create(pool.create_space()?)?;
/// assert_eq!(index.insert(b"polder", b"land")?.effect, Effect::Added);
/// assert_eq!(index.insert(b"polder", b"new land")?.effect, Effect::Same);
/// assert_eq!(index.get(b"polder")?.as_deref(), Some(&b"new land"[..]));
/// assert_eq!(index.get_with(b"polder", <[u8]>::len)?, Some(8));
/// assert_eq!(index.remove(b"polder")?.effect, Effect::Removed);
/// assert!(!index.contains_key(b"polder")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HashIndex<T: Translation> {
    pub(crate) space: Space<T>,
}

impl<T: Translation> Clone for HashIndex<T> {
    fn clone(&self) -> HashIndex<T> {
        HashIndex { space: self.space.clone() }
    }
}

impl<T: Translation> fmt::Debug for HashIndex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashIndex({:?})", self.space)
    }
}

impl<T: Translation> HashIndex<T> {
    /// Makes an empty index in a new space.
    ///
    /// # Errors
    /// Those of making a page; [`PoolError::Broken`](polder_pool::PoolError::Broken) if the space is
    /// not empty.
    pub fn create(space: Space<T>) -> Result<HashIndex<T>, HashError> {
        create_root(&space, "the space of a new hash index is not empty", |page| {
            BucketMut::new(page.page_mut()).init(Prefix::ALL);
            BucketRef::new(page.page()).hole()
        })?;
        Ok(HashIndex { space })
    }

    /// The index of a space that has one.
    pub fn open(space: Space<T>) -> HashIndex<T> {
        HashIndex { space }
    }

    /// Its space.
    pub fn space(&self) -> &Space<T> {
        &self.space
    }

    /// The longest entry in bytes, key and value together.
    pub fn max_entry_len(&self) -> usize {
        max_entry_len(self.space.page_size().bytes())
    }
}

/// The record of an insert. Entries have no version word.
pub(crate) fn inserted<'a>(key: &'a [u8], value: &'a [u8], added: bool) -> Operation<'a> {
    Operation::Insert { added, version: 0, key, value: LoggedValue::Inline(value) }
}
