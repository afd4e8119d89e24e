//! Changing a table, key by key, and filling it.
//!
//! Each change counts itself in as a writer, so that a thread that pauses writers waits for it, and
//! leaves before it waits for the device.

use polder_format::Lsn;
use polder_pool::Translation;
use polder_tree::{Change, Effect};

use super::Table;
use crate::any::dispatch;
use crate::engine::TableCore;
use crate::error::StoreError;
use crate::range::Entry;

impl Table {
    /// Gives `key` a value, whether it is there or not. True if the key is new.
    ///
    /// It does not look at the old value, and so costs less than [`Table::insert`], which gives it.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// assert!(cities.put("Delft", "109577")?);
    /// assert!(!cities.put("Delft", "109578")?);
    /// // Numbers in their order: most significant byte first.
    /// let years = store.open_table("years")?;
    /// years.put(1246u32.to_be_bytes(), "Delft gets its charter")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::KeyTooLong`] (an eighth of a page), [`StoreError::ValueTooLong`] (64 MiB),
    /// [`StoreError::Full`], and those of reading pages. Nothing has changed then. After
    /// [`StoreError::NotDurable`] it has.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool, StoreError> {
        self.put_bytes(key.as_ref(), value.as_ref())
    }

    fn put_bytes(&self, key: &[u8], value: &[u8]) -> Result<bool, StoreError> {
        dispatch!(&self.core, table => {
            let (is_new, lsn) = table.put(key, value)?;
            table.engine.commit(lsn, self.durability)?;
            Ok(is_new)
        })
    }

    /// Gives `key` a value, and gives the value that it had; `None` if the key is new. As
    /// `BTreeMap::insert`; a caller that has no use for the old value calls [`Table::put`].
    ///
    /// Of several threads that write one key each gets another old value: that which its own has
    /// replaced.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// assert_eq!(cities.insert("Delft", "109577")?, None);
    /// assert_eq!(cities.insert("Delft", "109578")?, Some(b"109577".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Table::put`].
    pub fn insert(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.insert_bytes(key.as_ref(), value.as_ref())
    }

    fn insert_bytes(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        dispatch!(&self.core, table => {
            let (old, lsn) = table.insert(key, value)?;
            table.engine.commit(lsn, self.durability)?;
            Ok(old)
        })
    }

    /// Deletes `key`. True if it was there.
    ///
    /// It does not look at the old value, and so costs less than [`Table::remove`], which gives it.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// cities.put("Delft", "109577")?;
    /// assert!(cities.delete("Delft")?);
    /// assert!(!cities.delete("Delft")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading pages. Nothing has changed then. After [`StoreError::NotDurable`] it has.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool, StoreError> {
        self.delete_bytes(key.as_ref())
    }

    fn delete_bytes(&self, key: &[u8]) -> Result<bool, StoreError> {
        dispatch!(&self.core, table => {
            let (was_there, lsn) = table.delete(key)?;
            table.engine.commit(lsn, self.durability)?;
            Ok(was_there)
        })
    }

    /// Removes `key`, and gives the value that it had; `None` if it was not there. As
    /// `BTreeMap::remove`; a caller that has no use for the old value calls [`Table::delete`].
    ///
    /// Of several threads that remove one key one gets the value.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// cities.put("Delft", "109577")?;
    /// assert_eq!(cities.remove("Delft")?, Some(b"109577".to_vec()));
    /// assert_eq!(cities.remove("Delft")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Table::delete`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, StoreError> {
        self.remove_bytes(key.as_ref())
    }

    fn remove_bytes(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        dispatch!(&self.core, table => {
            let (old, lsn) = table.remove(key)?;
            table.engine.commit(lsn, self.durability)?;
            Ok(old)
        })
    }

    /// Removes the entry with the least key, and gives it. Of several threads that do so each gets
    /// another entry.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let queue = store.open_table("queue")?;
    /// for (number, job) in ["sow", "reap"].iter().enumerate() {
    ///     queue.put((number as u64).to_be_bytes(), job)?;
    /// }
    /// assert_eq!(queue.pop_first()?.map(|(_, job)| job), Some(b"sow".to_vec()));
    /// assert_eq!(queue.pop_first()?.map(|(_, job)| job), Some(b"reap".to_vec()));
    /// assert_eq!(queue.pop_first()?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Table::delete`].
    pub fn pop_first(&self) -> Result<Option<Entry>, StoreError> {
        self.pop(Table::first)
    }

    /// Removes the entry with the greatest key, and gives it, as [`Table::pop_first`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let stack = store.open_table("stack")?;
    /// stack.put("1", "below")?;
    /// stack.put("2", "on top")?;
    /// assert_eq!(stack.pop_last()?, Some((b"2".to_vec(), b"on top".to_vec())));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Table::delete`].
    pub fn pop_last(&self) -> Result<Option<Entry>, StoreError> {
        self.pop(Table::last)
    }

    /// Removes the entry that `end` finds. Another thread may be faster: then that at the end by
    /// then.
    fn pop(
        &self,
        end: fn(&Table) -> Result<Option<Entry>, StoreError>,
    ) -> Result<Option<Entry>, StoreError> {
        while let Some((key, _)) = end(self)? {
            if let Some(value) = self.remove_bytes(&key)? {
                return Ok(Some((key, value)));
            }
        }
        Ok(None)
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
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// use polder::Change;
    ///
    /// let counters = store.open_table("counters")?;
    /// for _ in 0..3 {
    ///     counters.update_with("visits", |value| {
    ///         let visits = value.map_or(0, |value| value[0]);
    ///         Change::Insert(vec![visits + 1])
    ///     })?;
    /// }
    /// assert_eq!(counters.get("visits")?, Some(vec![3]));
    ///
    /// /// Takes one away, and the key with the last one.
    /// fn take_one(stock: Option<&[u8]>) -> Change {
    ///     match stock {
    ///         None => Change::Keep,
    ///         Some([0 | 1]) => Change::Remove,
    ///         Some(stock) => Change::Insert(vec![stock[0] - 1]),
    ///     }
    /// }
    /// counters.update_with("visits", take_one)?;
    /// assert_eq!(counters.get("visits")?, Some(vec![2]));
    /// assert_eq!(take_one(Some(&[1])), Change::Remove);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Table::put`].
    pub fn update_with(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Change,
    ) -> Result<(), StoreError> {
        self.update_bytes(key.as_ref(), &mut change)
    }

    fn update_bytes(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<(), StoreError> {
        dispatch!(&self.core, table => {
            let pass = table.engine.quiesce.enter()?;
            let version = || table.engine.stamps().take();
            let applied = table.tree.update_with(key, &mut *change, version);
            let applied = applied.map_err(|error| table.error(error))?;
            table.count(applied.effect);
            drop(pass);
            table.engine.commit(applied.lsn, self.durability)
        })
    }

    /// Fills the empty table from ascending keys, much faster than by single writes. Gives the
    /// number of entries. The iterator may read other tables, and must not write to the store
    /// ([`StoreError::Nested`]).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let squares = store.create_table("squares")?;
    /// let numbers = (0..1000u64).map(|n| (n.to_be_bytes(), (n * n).to_string()));
    /// assert_eq!(squares.bulk_load(numbers)?, 1000);
    /// assert_eq!(squares.get(31u64.to_be_bytes())?, Some(b"961".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`], [`StoreError::NotSorted`], and those of [`Table::put`]. The table
    /// is as empty as before then.
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

/// Changes of one key. Each gives its answer, and up to where the log must be durable for it.
impl<T: Translation> TableCore<T> {
    #[inline(always)]
    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<(bool, Lsn), StoreError> {
        let _pass = self.engine.quiesce.enter()?;
        let version = self.engine.stamps().take();
        let applied = self.tree.insert(key, value, version).map_err(|e| self.error(e))?;
        self.count(applied.effect);
        Ok((applied.effect == Effect::Added, applied.lsn))
    }

    #[inline(always)]
    pub(crate) fn insert(
        &self,
        key: &[u8],
        value: &[u8],
    ) -> Result<(Option<Vec<u8>>, Lsn), StoreError> {
        let _pass = self.engine.quiesce.enter()?;
        let version = self.engine.stamps().take();
        let replaced = self.tree.replace(key, value, version);
        let (applied, old) = replaced.map_err(|e| self.error(e))?;
        self.count(applied.effect);
        Ok((old, applied.lsn))
    }

    #[inline(always)]
    pub(crate) fn delete(&self, key: &[u8]) -> Result<(bool, Lsn), StoreError> {
        let _pass = self.engine.quiesce.enter()?;
        let applied = self.tree.remove(key).map_err(|e| self.error(e))?;
        self.count(applied.effect);
        Ok((applied.effect == Effect::Removed, applied.lsn))
    }

    #[inline(always)]
    pub(crate) fn remove(&self, key: &[u8]) -> Result<(Option<Vec<u8>>, Lsn), StoreError> {
        let _pass = self.engine.quiesce.enter()?;
        let (applied, old) = self.tree.take(key).map_err(|e| self.error(e))?;
        self.count(applied.effect);
        Ok((old, applied.lsn))
    }
}
