//! A table: keys and values in order, in the vocabulary of `BTreeMap`.

use std::ops::{Bound, RangeBounds};

use polder_tree::Change;

use crate::any::{Any, Tables, dispatch};
use crate::durability::Durability;
use crate::error::StoreError;
use crate::handle::Store;
use crate::range::{Entry, Range};

/// A table of a store. Cheap to clone; keeps the store open.
#[derive(Debug, Clone)]
pub struct Table {
    pub(crate) core: Any<Tables>,
    /// So that the store is not closed while a table of it is in use.
    store: Store,
    durability: Durability,
}

impl Table {
    pub(crate) fn new(core: Any<Tables>, store: Store) -> Table {
        let durability = store.durability();
        Table { core, store, durability }
    }

    /// The table's name. That of a table that was renamed is the new one, for all its handles.
    pub fn name(&self) -> &str {
        dispatch!(&self.core, table => table.name.get())
    }

    /// The store that it belongs to.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The same table, whose writes by this handle are durable as asked here.
    pub fn with_durability(&self, durability: Durability) -> Table {
        if let Durability::Periodic(period) = durability {
            dispatch!(&self.core, table => table.engine.log().sync_within(period));
        }
        Table { durability, ..self.clone() }
    }

    /// A copy of the value of `key`.
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        dispatch!(&self.core, table => {
            table.check()?;
            table.tree.get(key).map_err(|error| table.error(error))
        })
    }

    /// Calls `read` with the value of `key` and gives what it gave; `None` without the key.
    ///
    /// `read` sees a copy that no writer can touch. A value of at most 1 KiB in memory is looked up
    /// without a lock, a store that other threads see, or an allocation.
    ///
    /// # Errors
    /// Those of reading pages.
    #[inline]
    pub fn get_with<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        dispatch!(&self.core, table => {
            table.check()?;
            table.tree.get_with(key, read).map_err(|error| table.error(error))
        })
    }

    /// Whether `key` is there.
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn contains_key(&self, key: &[u8]) -> Result<bool, StoreError> {
        dispatch!(&self.core, table => {
            table.check()?;
            table.tree.contains_key(key).map_err(|error| table.error(error))
        })
    }

    /// The version word of `key`: another one after each write of it. `None` without the key.
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn version(&self, key: &[u8]) -> Result<Option<u64>, StoreError> {
        dispatch!(&self.core, table => {
            table.check()?;
            table.tree.version(key).map_err(|error| table.error(error))
        })
    }

    /// The value of `key` and its version word, which belong together.
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn get_versioned(&self, key: &[u8]) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        dispatch!(&self.core, table => {
            table.check()?;
            table.tree.versioned(key).map_err(|error| table.error(error))
        })
    }

    /// Calls `read` with the version word and the value of `key`, as [`Table::get_with`] does, and
    /// gives what it gave; `None` without the key.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # use polder::{Options, Store};
    /// # let store = Store::open(Options::new(dir.path().join("s")).memory_budget(8 << 20))?;
    /// let names = store.open_table("names")?;
    /// names.insert(b"1", b"Ada")?;
    /// let mut name = Vec::new();
    /// let version = names.get_versioned_with(b"1", |version, value| {
    ///     name.extend_from_slice(value);
    ///     version
    /// })?;
    /// assert_eq!((version, &name[..]), (names.version(b"1")?, &b"Ada"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading pages.
    #[inline]
    pub fn get_versioned_with<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(u64, &[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        dispatch!(&self.core, table => {
            table.check()?;
            table.tree.versioned_with(key, read).map_err(|error| table.error(error))
        })
    }

    /// Gives `key` a value. True if the key is new.
    ///
    /// # Errors
    /// [`StoreError::KeyTooLong`] (an eighth of a page), [`StoreError::ValueTooLong`] (64 MiB),
    /// [`StoreError::Full`], and those of reading pages. Nothing has changed then.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, StoreError> {
        dispatch!(&self.core, table => {
            let pass = table.engine.quiesce.enter()?;
            let version = table.engine.stamps().take();
            let applied = table.tree.insert(key, value, version).map_err(|e| table.error(e))?;
            table.count(applied.effect);
            drop(pass);
            table.engine.commit(applied.lsn, self.durability)?;
            Ok(applied.effect == polder_tree::Effect::Added)
        })
    }

    /// Removes `key`. True if it was there.
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn remove(&self, key: &[u8]) -> Result<bool, StoreError> {
        dispatch!(&self.core, table => {
            let pass = table.engine.quiesce.enter()?;
            let applied = table.tree.remove(key).map_err(|e| table.error(e))?;
            table.count(applied.effect);
            drop(pass);
            table.engine.commit(applied.lsn, self.durability)?;
            Ok(applied.effect == polder_tree::Effect::Removed)
        })
    }

    /// Reads, changes and writes one key as one step that no other write of the key comes into.
    ///
    /// `change` gets the value, or `None` without the key. It holds no latch; if the key is written
    /// meanwhile it is called again, with the new value. It may read the store, and not write to it
    /// ([`StoreError::Nested`]); nor may it wait for another thread that does.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # use polder::{Change, Options, Store};
    /// # let store = Store::open(Options::new(dir.path().join("s")).memory_budget(8 << 20))?;
    /// let counters = store.open_table("counters")?;
    /// for _ in 0..3 {
    ///     counters.update_with(b"visits", |value| {
    ///         let visits = value.map_or(0, |v| v[0]);
    ///         Change::Insert(vec![visits + 1])
    ///     })?;
    /// }
    /// assert_eq!(counters.get(b"visits")?, Some(vec![3]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Table::insert`].
    pub fn update_with(
        &self,
        key: &[u8],
        change: impl FnMut(Option<&[u8]>) -> Change,
    ) -> Result<(), StoreError> {
        dispatch!(&self.core, table => {
            let pass = table.engine.quiesce.enter()?;
            let version = || table.engine.stamps().take();
            let applied = table.tree.update_with(key, change, version);
            let applied = applied.map_err(|error| table.error(error))?;
            table.count(applied.effect);
            drop(pass);
            table.engine.commit(applied.lsn, self.durability)
        })
    }

    /// The entry with the least key.
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn first(&self) -> Result<Option<Entry>, StoreError> {
        self.iter().next().transpose()
    }

    /// The entry with the greatest key.
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn last(&self) -> Result<Option<Entry>, StoreError> {
        self.iter().next_back().transpose()
    }

    /// All entries in order.
    pub fn iter(&self) -> Range {
        self.bounded(Bound::Unbounded, Bound::Unbounded)
    }

    /// The entries whose keys lie within `bounds`, in order; `.rev()` for the other order. Bounds
    /// that contain nothing give nothing.
    ///
    /// What is written meanwhile may be seen or not; keys that are there all the time are seen just
    /// once.
    pub fn range<K: AsRef<[u8]>>(&self, bounds: impl RangeBounds<K>) -> Range {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        self.bounded(owned(bounds.start_bound()), owned(bounds.end_bound()))
    }

    /// The entries whose keys begin with `prefix`, in order.
    pub fn prefix(&self, prefix: &[u8]) -> Range {
        // Up to the next key that does not begin so: the last byte that can be raised is raised.
        let mut end = prefix.to_vec();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let end = match end.last_mut() {
            Some(last) => {
                *last += 1;
                Bound::Excluded(end)
            }
            None => Bound::Unbounded,
        };
        self.bounded(Bound::Included(prefix.to_vec()), end)
    }

    fn bounded(&self, lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>) -> Range {
        Range::new(&self.core, self.store.clone(), lower, upper)
    }

    /// The number of entries. Writes that are under way may be counted or not.
    pub fn len(&self) -> u64 {
        dispatch!(&self.core, table => table.len())
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills the empty table from ascending keys, much faster than by inserting. Gives the number
    /// of entries. The iterator may read other tables, and must not write to the store
    /// ([`StoreError::Nested`]).
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`], [`StoreError::NotSorted`], and those of [`Table::insert`]. The
    /// table is as empty as before then.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64, StoreError> {
        dispatch!(&self.core, table => {
            let pass = table.engine.quiesce.enter()?;
            let version = || table.engine.stamps().take();
            let loaded = table.tree.bulk_load(entries, version);
            let (loaded, lsn) = loaded.map_err(|error| table.error(error))?;
            table.add_entries(loaded);
            drop(pass);
            table.engine.commit(lsn, self.durability)?;
            Ok(loaded)
        })
    }
}
