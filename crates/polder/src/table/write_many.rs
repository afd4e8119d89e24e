//! Changing many keys by one call.
//!
//! Each change is the one that is made alone, and they are made in the order in which they are given. What
//! is done for many together is what they would wait for: leaves are made ready before they are written
//! ([`Warmed`]), and the log is made durable once, behind the last change.

use polder_format::Lsn;
use polder_pool::Translation;
use polder_tree::Warmed;

use super::Table;
use crate::any::dispatch;
use crate::engine::TableCore;
use crate::error::StoreError;

/// Gets the index of a key and the value that it had.
type Replaced<'r> = dyn FnMut(usize, Option<&[u8]>) + 'r;

impl Table {
    /// Gives many keys their values, whether they are there or not. Gives how many of them were new.
    ///
    /// The same as [`Table::put`] for each pair in order, and faster: while one waits for the device or
    /// for memory the leaves of others are looked for, most where the data does not fit into memory. A
    /// few hundred pairs for each call are enough. Each pair is a write of its own: others may see some
    /// and not yet the others (a [`WriteBatch`](crate::WriteBatch) is one write). If a key comes twice
    /// its last value stays. All are durable when the call returns, as the table's durability says.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// cities.put("Delft", "109577")?;
    /// let new = cities.put_many(&[("Gouda", "77125"), ("Delft", "109578"), ("Breda", "189013")])?;
    /// assert_eq!((new, cities.len()), (2, 3));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Key`], which names the index of the first pair that failed and has as its source
    /// what [`Table::put`] would have said of it: all pairs in front of it have been written, it and
    /// those behind it have not. After [`StoreError::NotDurable`] all have been. Where both happen the
    /// first is told; whether the log still works the next write says.
    pub fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(K, V)],
    ) -> Result<u64, StoreError> {
        let (keys, values) = lent(pairs);
        self.change_many(&keys, Some(&values), None)
    }

    /// As [`Table::put_many`], and calls `replaced` for each pair, in order, with its index and the value
    /// that its key had; `None` if the key was new. It is called when the pair has been written, and
    /// durable only when the call returns; it may use the store.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// let mut before = Vec::new();
    /// cities.insert_many(&[("Delft", "109577"), ("Delft", "109578")], |i, old| {
    ///     before.push((i, old.map(<[u8]>::to_vec)));
    /// })?;
    /// assert_eq!(before, [(0, None), (1, Some(b"109577".to_vec()))]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Table::put_many`].
    pub fn insert_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(K, V)],
        mut replaced: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<u64, StoreError> {
        let (keys, values) = lent(pairs);
        self.change_many(&keys, Some(&values), Some(&mut replaced))
    }

    /// Deletes many keys. Gives how many of them were there. It is to [`Table::delete`] what
    /// [`Table::put_many`] is to [`Table::put`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// cities.put_many(&[("Gouda", "77125"), ("Delft", "109577")])?;
    /// assert_eq!(cities.delete_many(&["Delft", "Groningen", "Delft"])?, 1);
    /// assert_eq!(cities.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Key`], as of [`Table::put_many`]: the keys in front of it have been deleted.
    pub fn delete_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<u64, StoreError> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.change_many(&keys, None, None)
    }

    /// As [`Table::delete_many`], and calls `removed` for each key, in order, with its index and the
    /// value that it had; `None` if it was not there.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let jobs = store.open_table("jobs")?;
    /// jobs.put_many(&[("1", "sow"), ("2", "reap")])?;
    /// let mut mine = Vec::new();
    /// jobs.remove_many(&["1", "3"], |_, job| mine.extend(job.map(<[u8]>::to_vec)))?;
    /// assert_eq!(mine, [b"sow"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Table::delete_many`].
    pub fn remove_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut removed: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<u64, StoreError> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.change_many(&keys, None, Some(&mut removed))
    }

    /// Gives keys these values, or removes them; gives how many came, or went.
    fn change_many(
        &self,
        keys: &[&[u8]],
        values: Option<&[&[u8]]>,
        mut replaced: Option<&mut Replaced<'_>>,
    ) -> Result<u64, StoreError> {
        dispatch!(&self.core, table => {
            table.check()?;
            let (mut warmed, mut changed, mut end) = (Warmed::default(), 0, Lsn::default());
            let mut all = Ok(());
            for (index, key) in keys.iter().enumerate() {
                let value = values.map(|values| values[index]);
                let ready = warmed.reach(&table.tree, keys, index);
                let done = ready.map_err(|error| table.error(error));
                match done.and_then(|()| table.change_one(index, key, value, &mut replaced)) {
                    Ok((is_change, lsn)) => {
                        changed += u64::from(is_change);
                        end = end.max(lsn);
                    }
                    Err(error) => {
                        all = Err(StoreError::Key { index, source: Box::new(error) });
                        break;
                    }
                }
            }
            // Also of what was done before an error, which says more than that it may not be durable.
            let durable = table.engine.commit(end, self.durability);
            all.and(durable).map(|()| changed)
        })
    }
}

impl<T: Translation> TableCore<T> {
    /// Makes one of many changes. Gives whether the key came, or went, and up to where the log must be
    /// durable for it.
    fn change_one(
        &self,
        index: usize,
        key: &[u8],
        value: Option<&[u8]>,
        replaced: &mut Option<&mut Replaced<'_>>,
    ) -> Result<(bool, Lsn), StoreError> {
        let Some(replaced) = replaced else {
            return match value {
                Some(value) => self.put(key, value),
                None => self.delete(key),
            };
        };
        let (old, lsn) = match value {
            Some(value) => self.insert(key, value)?,
            None => self.remove(key)?,
        };
        replaced(index, old.as_deref());
        Ok((old.is_some() != value.is_some(), lsn))
    }
}

fn lent<K: AsRef<[u8]>, V: AsRef<[u8]>>(pairs: &[(K, V)]) -> (Vec<&[u8]>, Vec<&[u8]>) {
    pairs.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).unzip()
}
