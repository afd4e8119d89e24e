//! A hash index in a store.

use std::ops::ControlFlow;
use std::sync::Arc;

use polder_pool::bytes::PageRef;
use polder_pool::{KindOps, PoolError, Space, Translation};
use polder_structure::{Effect, Report, Structure};

use crate::bucket::BucketRef;
use crate::error::HashError;
use crate::handle::HashIndex;
use crate::kinds::KINDS;

/// The structure that a store hosts: byte keys to byte values, in no order.
#[derive(Debug)]
pub enum HashStructure {}

/// Is shown an entry, key and value, and may break off.
pub type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

/// What a hash index in a store can do: as the methods of [`HashIndex`] that have the same names.
pub trait ByteMap: Send + Sync {
    /// The value of `key`.
    ///
    /// # Errors
    /// Those of loading pages.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, HashError>;

    /// Whether `key` is there.
    ///
    /// # Errors
    /// Those of loading pages.
    fn contains_key(&self, key: &[u8]) -> Result<bool, HashError>;

    /// Gives `key` this value. Whether it was there.
    ///
    /// # Errors
    /// As [`HashIndex::insert`].
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<Effect, HashError>;

    /// Removes `key`, if it is there.
    ///
    /// # Errors
    /// As [`HashIndex::remove`].
    fn remove(&self, key: &[u8]) -> Result<Effect, HashError>;

    /// Shows all entries, in no order, until `visit` breaks off.
    ///
    /// # Errors
    /// Those of loading pages.
    fn for_each(&self, visit: &mut Visit<'_>) -> Result<(), HashError>;
}

impl<T: Translation> ByteMap for HashIndex<T> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, HashError> {
        HashIndex::get(self, key)
    }

    fn contains_key(&self, key: &[u8]) -> Result<bool, HashError> {
        HashIndex::contains_key(self, key)
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<Effect, HashError> {
        HashIndex::insert(self, key, value).map(|applied| applied.effect)
    }

    fn remove(&self, key: &[u8]) -> Result<Effect, HashError> {
        HashIndex::remove(self, key).map(|applied| applied.effect)
    }

    fn for_each(&self, visit: &mut Visit<'_>) -> Result<(), HashError> {
        let mut cursor = self.cursor();
        while let Some((key, value)) = cursor.next()? {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl Structure for HashStructure {
    const NAME: &'static str = "polder.hash";
    const KINDS: &'static [KindOps] = &KINDS;
    const COUNTS_ENTRIES: bool = true;
    type Options = ();
    type Handle = dyn ByteMap;

    fn create<T: Translation>(space: &Space<T>, _: &()) -> Result<(), PoolError> {
        HashIndex::create(space.clone()).map(drop).map_err(PoolError::from)
    }

    fn open<T: Translation>(space: Space<T>) -> Result<Arc<dyn ByteMap>, PoolError> {
        Ok(Arc::new(HashIndex::open(space)))
    }

    fn check<T: Translation>(
        space: &Space<T>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Report, PoolError> {
        Ok(HashIndex::open(space.clone()).check(progress)?)
    }

    fn entries(page: PageRef<'_>, entry: &mut dyn FnMut(&[u8], &[u8])) {
        let bucket = BucketRef::new(page);
        if !bucket.is_bucket() || bucket.verify_whole().is_err() {
            return;
        }
        let bytes = |run: crate::bucket::Run| {
            let mut bytes = Vec::with_capacity(run.len);
            page.append_to(run.at, run.len, &mut bytes);
            bytes
        };
        for at in 0..bucket.count() {
            entry(&bytes(bucket.key(at)), &bytes(bucket.value(at)));
        }
    }

    fn restore(index: &dyn ByteMap, key: &[u8], value: &[u8]) -> Result<(), PoolError> {
        Ok(index.insert(key, value).map(drop)?)
    }
}
