//! Looking up many keys, or ranges of them, at once.

use std::ops::ControlFlow;

use polder_pool::Translation;
use polder_tree::{Bounds, ManyError};

use super::Table;
use crate::any::dispatch;
use crate::engine::TableCore;
use crate::error::StoreError;
use crate::key_range::KeyRange;

/// Sees an entry of the range of this index, and says whether it wants more of that.
type Visit<'v> = dyn FnMut(usize, &[u8], &[u8]) -> ControlFlow<()> + 'v;

impl Table {
    /// Looks up many keys, and calls `read` for each with its index among `keys` and its value, or
    /// `None` without the key. In any order.
    ///
    /// This is how one thread keeps memory and the device busy: while one lookup waits for either,
    /// others go on, so that many keys take a part of the time that they take one by one; most where the
    /// values do not fit into memory. Keys in order share their way. A few hundred keys for each call are
    /// enough; values are copied, at most about 1 MiB of them at a time, before `read` sees them.
    ///
    /// Each lookup is one of its own, as by [`Table::get_with`]: what others write meanwhile is seen for
    /// some keys and not for others. `read` may use the store.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// cities.put("Delft", "109577")?;
    /// cities.put("Gouda", "77125")?;
    /// let names = ["Gouda", "Groningen", "Delft"];
    /// let mut people = [None; 3];
    /// cities.get_many(&names, |i, value| {
    ///     people[i] = value.map(|digits| digits.len());
    /// })?;
    /// assert_eq!(people, [Some(5), None, Some(6)]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Key`], which names the index of the key and has as its source what
    /// [`Table::get`] would have said of it. It is the first error that was met; keys for which `read`
    /// was not called by then are not looked up.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut read: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.look_up(&keys, &mut read)
    }

    fn look_up(
        &self,
        keys: &[&[u8]],
        read: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        dispatch!(&self.core, table => {
            table.check()?;
            table.tree.get_many(keys, read).map_err(|error| of_key(table, error))
        })
    }

    /// Calls `read` for each of `keys`, with its index and whether it is there, as
    /// [`Table::get_many`] does.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let seen = store.open_table("seen")?;
    /// seen.put("b", "")?;
    /// let mut new = Vec::new();
    /// let arrived = ["a", "b", "c"];
    /// seen.contains_many(&arrived, |i, there| {
    ///     if !there {
    ///         new.push(arrived[i]);
    ///     }
    /// })?;
    /// new.sort();
    /// assert_eq!(new, ["a", "c"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Table::get_many`].
    pub fn contains_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut read: impl FnMut(usize, bool),
    ) -> Result<(), StoreError> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.find(&keys, &mut read)
    }

    fn find(&self, keys: &[&[u8]], read: &mut dyn FnMut(usize, bool)) -> Result<(), StoreError> {
        dispatch!(&self.core, table => {
            table.check()?;
            table.tree.contains_many(keys, read).map_err(|error| of_key(table, error))
        })
    }

    /// Shows the entries of many ranges to `visit`, each with the index of its range: those of one range
    /// in order, those of several mixed. [`ControlFlow::Break`] ends the range whose entry it is an
    /// answer to.
    ///
    /// It is to [`Table::try_for_each`] what [`Table::get_many`] is to [`Table::get_with`]: for many
    /// short ranges, whose leaves are read together. What is written meanwhile may be seen or not; keys
    /// that are there all the time are seen just once in each range that has them. `visit` may use the
    /// store.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// use std::ops::ControlFlow;
    ///
    /// let messages = store.open_table("messages")?;
    /// messages.put("ann/1", "hello")?;
    /// messages.put("ann/2", "are you there?")?;
    /// messages.put("bob/1", "yes")?;
    /// let mut first = [None, None, None];
    /// messages.range_many(&["ann/".."ann0", "bob/".."bob0", "eve/".."eve0"], |i, _, text| {
    ///     first[i] = Some(text.to_vec());
    ///     ControlFlow::Break(())
    /// })?;
    /// assert_eq!(first, [Some(b"hello".to_vec()), Some(b"yes".to_vec()), None]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Key`], which names the index of the range and has as its source what
    /// [`Table::for_each`] would have said of it. It is the first error that was met; others of the
    /// ranges may have been shown in part.
    pub fn range_many<R: KeyRange>(
        &self,
        ranges: &[R],
        mut visit: impl FnMut(usize, &[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let ranges: Vec<_> = ranges.iter().map(KeyRange::bounds).collect();
        self.show_many(&ranges, &mut visit)
    }

    fn show_many(&self, ranges: &[Bounds<'_>], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        dispatch!(&self.core, table => {
            table.check()?;
            table.tree.range_many(ranges, visit).map_err(|error| of_key(table, error))
        })
    }
}

fn of_key<T: Translation>(table: &TableCore<T>, error: ManyError) -> StoreError {
    StoreError::Key { index: error.index, source: Box::new(table.error(error.source)) }
}
