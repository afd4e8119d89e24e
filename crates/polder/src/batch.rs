//! Batches: many changes of any tables, as one. What is asked for is collected here; how it is
//! done is in `batch/apply.rs`.

pub(crate) mod apply;
mod ready;

use std::ops::Range;

#[cfg(feature = "async")]
use polder_pool::journal::group_bytes;
use polder_tree::{Change, Expected};

use crate::any::Any;
use crate::durability::Durability;
use crate::error::StoreError;
use crate::families::Tables;
#[cfg(feature = "vector")]
use crate::handle::Store;
use crate::table::Table;

/// Parts of a batch that a future tries by itself: a larger one would keep its thread from others for too
/// long.
#[cfg(feature = "async")]
const MOST_TRIED: usize = 256;

/// Changes that are made all together or not at all ([`Store::apply`](crate::Store::apply)): in
/// memory and on disk.
///
/// Several changes of one key are made in their order, and an update sees what those before it
/// have made of its key. Expectations are about what was there before the batch. A reader that is
/// at work meanwhile may see part of it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # use polder::{BatchError, Options, Store, WriteBatch};
/// # let store = Store::open(Options::new(dir.path().join("s")).memory_budget(16 << 20))?;
/// let (accounts, log) = (store.open_table("accounts")?, store.open_table("log")?);
/// accounts.put("a", "10")?;
/// let seen = accounts.version("a")?;
///
/// let transfer = |version| {
///     let mut batch = WriteBatch::new();
///     batch.expect(&accounts, "a", version);
///     batch.put(&accounts, "a", "7").put(&accounts, "b", "3");
///     batch.put(&log, "1", "a to b: 3").tag("entry 1");
///     batch
/// };
/// store.apply(transfer(seen))?;
/// assert_eq!(accounts.get("b")?, Some(b"3".to_vec()));
/// assert_eq!(store.tag()?, Some(b"entry 1".to_vec()));
/// // `a` is another one by now: nothing is done.
/// let again = store.apply(transfer(seen));
/// assert!(matches!(again, Err(BatchError::Unexpected { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct WriteBatch<'c> {
    /// Each table that a part names, once.
    tables: Vec<Any<Tables>>,
    parts: Vec<Part<'c>>,
    /// Keys and values of the parts, one behind the other.
    bytes: Vec<u8>,
    /// Changes and expectations: a part may be one of each.
    len: usize,
    tag: Option<Vec<u8>>,
    durability: Option<Durability>,
    /// What is changed beside tables.
    #[cfg(feature = "vector")]
    pub(crate) around: Option<Box<dyn Around>>,
}

/// Changes of what lies in more than tables. They are made around the batch: what makes them true is put
/// into it.
#[cfg(feature = "vector")]
pub(crate) trait Around: std::any::Any + Send {
    /// How many there are.
    fn len(&self) -> usize;

    /// Applies the batch, and these changes with it. The batch is left as it was.
    fn apply_around(&self, store: &Store, batch: &mut WriteBatch<'_>) -> Result<(), BatchError>;
}

/// How much there is in a batch, for [`WriteBatch::cut`].
#[cfg(feature = "vector")]
#[derive(Clone, Copy)]
pub(crate) struct End {
    parts: usize,
    bytes: usize,
    len: usize,
}

/// What is asked of one key. What is in `bytes` is named by its place there.
struct Part<'c> {
    /// Which of the tables.
    table: usize,
    key: Range<usize>,
    expect: Option<Expected>,
    action: Action<'c>,
}

enum Action<'c> {
    Look,
    Insert(Range<usize>),
    Remove,
    Update(Box<ChangeFn<'c>>),
}

/// What an update does, given the value that the parts before it leave.
type ChangeFn<'c> = dyn FnMut(Option<&[u8]>) -> Change + Send + 'c;

/// Why a batch was not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// An expectation did not hold.
    #[error("nothing was changed: key {} of table `{table}` is not the one that was expected", key.escape_ascii())]
    Unexpected {
        /// The table.
        table: String,
        /// The key.
        key: Vec<u8>,
        /// The version word that was expected; none: the key was not to be there.
        expected: Option<u64>,
    },
    /// A table in the batch belongs to another store.
    #[error("table `{table}` belongs to another store")]
    Foreign {
        /// The table.
        table: String,
    },
    /// It changes collections, and was to be applied by a future.
    #[cfg(all(feature = "async", feature = "vector"))]
    #[error(
        "nothing was changed: a batch that changes collections is applied by `Store::apply`, and not by a future"
    )]
    ChangesCollections,
    /// It could not be made.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl std::fmt::Debug for WriteBatch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WriteBatch({} parts)", self.len())
    }
}

impl<'c> WriteBatch<'c> {
    /// A batch of nothing.
    pub fn new() -> WriteBatch<'c> {
        WriteBatch::default()
    }

    /// Empties the batch and keeps its memory, and its handles of tables, so that the next one
    /// needs no new: see [`Store::apply_mut`](crate::Store::apply_mut).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// use polder::WriteBatch;
    /// let words = store.create_table("words")?;
    /// let mut batch = WriteBatch::new();
    /// for chunk in [["dike", "dijk"], ["mill", "molen"]] {
    ///     batch.clear();
    ///     batch.put(&words, chunk[0], chunk[1]);
    ///     store.apply_mut(&mut batch)?;
    /// }
    /// assert_eq!(words.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn clear(&mut self) {
        self.parts.clear();
        self.bytes.clear();
        self.len = 0;
        self.tag = None;
        self.durability = None;
        #[cfg(feature = "vector")]
        self.around.take();
    }

    /// Where it ends, but for what is around it.
    #[cfg(feature = "vector")]
    pub(crate) fn end(&self) -> End {
        End { parts: self.parts.len(), bytes: self.bytes.len(), len: self.len }
    }

    /// Takes out what was put in behind this end.
    #[cfg(feature = "vector")]
    pub(crate) fn cut(&mut self, end: End) {
        self.parts.truncate(end.parts);
        self.bytes.truncate(end.bytes);
        self.len = end.len;
    }

    /// How many changes there are around it.
    fn len_around(&self) -> usize {
        #[cfg(feature = "vector")]
        return self.around.as_ref().map_or(0, |around| around.len());
        #[cfg(not(feature = "vector"))]
        0
    }

    /// Whether a future may try it: it runs no code of its user's (`WAIT-3`), and is not long.
    #[cfg(feature = "async")]
    pub(crate) fn may_be_tried(&self) -> bool {
        let has_updates = self.parts.iter().any(|part| matches!(part.action, Action::Update(_)));
        self.parts.len() <= MOST_TRIED && !has_updates
    }

    /// What it takes of the log, about.
    #[cfg(feature = "async")]
    pub(crate) fn logged_bytes(&self) -> usize {
        group_bytes(self.parts.len(), self.bytes.len())
    }

    /// The keys that it removes, with their tables.
    #[cfg(feature = "async")]
    pub(crate) fn removed(&self) -> impl Iterator<Item = (&Any<Tables>, &[u8])> {
        let removes = |part: &&Part<'_>| matches!(part.action, Action::Remove);
        let named = |part: &Part<'_>| (&self.tables[part.table], &self.bytes[part.key.clone()]);
        self.parts.iter().filter(removes).map(named)
    }

    fn push(
        &mut self,
        table: &Table,
        key: &[u8],
        expect: Option<Expected>,
        action: Action<'c>,
    ) -> &mut Self {
        self.len += 1;
        let table = self.number_of(&table.core);
        let key = self.keep(key);
        self.parts.push(Part { table, key, expect, action });
        self
    }

    /// A write. If the part before is an expectation about the same key, both are one.
    fn write(&mut self, table: &Table, key: &[u8], action: Action<'c>) -> &mut Self {
        if let Some(last) = self.parts.last_mut()
            && matches!(last.action, Action::Look)
            && &self.bytes[last.key.clone()] == key
            && self.tables[last.table].is_same(&table.core)
        {
            last.action = action;
            self.len += 1;
            return self;
        }
        self.push(table, key, None, action)
    }

    /// Which of the tables this is. A batch has few of them, and several parts for each in a row.
    fn number_of(&mut self, table: &Any<Tables>) -> usize {
        let known = self.tables.iter().rposition(|known| known.is_same(table));
        known.unwrap_or_else(|| {
            self.tables.push(table.clone());
            self.tables.len() - 1
        })
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        begin..self.bytes.len()
    }

    /// Gives `key` a value, whether it is there or not, as [`Table::put`] does.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// use polder::WriteBatch;
    /// let words = store.create_table("words")?;
    /// let mut batch = WriteBatch::new();
    /// batch.put(&words, "dike", "dijk").put(&words, "mill", "molen");
    /// store.apply(batch)?;
    /// assert_eq!(words.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "insert")]
    pub fn put(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        let value = self.keep(value.as_ref());
        self.write(table, key.as_ref(), Action::Insert(value))
    }

    /// Deletes `key`, if it is there, as [`Table::delete`] does.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// use polder::WriteBatch;
    /// let words = store.create_table("words")?;
    /// words.put("old", "value")?;
    /// let mut batch = WriteBatch::new();
    /// batch.delete(&words, "old").put(&words, "new", "value"); // moved: never gone, never twice
    /// store.apply(batch)?;
    /// assert_eq!(words.first()?.map(|(key, _)| key), Some(b"new".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "remove")]
    pub fn delete(&mut self, table: &Table, key: impl AsRef<[u8]>) -> &mut Self {
        self.write(table, key.as_ref(), Action::Remove)
    }

    /// Changes `key` as [`Table::update_with`] does. `change` sees what the parts before this one
    /// make of the key; it is called again if what was there before the batch was changed
    /// meanwhile. It may read the store, and not write to it ([`StoreError::Nested`]).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// use polder::{Change, WriteBatch};
    /// let counts = store.create_table("counts")?;
    /// let raise = |old: Option<&[u8]>| Change::Insert(vec![old.map_or(1, |old| old[0] + 1)]);
    /// let mut batch = WriteBatch::new();
    /// batch.update_with(&counts, "all", raise).update_with(&counts, "today", raise);
    /// batch.update_with(&counts, "all", raise); // sees what the first one has made
    /// store.apply(batch)?;
    /// assert_eq!(counts.get("all")?, Some(vec![2]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn update_with(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Change + Send + 'c,
    ) -> &mut Self {
        self.push(table, key.as_ref(), None, Action::Update(Box::new(change)))
    }

    /// Lets the batch be done only if `key` still has this version word ([`Table::version`]), or is
    /// still not there (`None`).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// use polder::{BatchError, WriteBatch};
    /// let names = store.create_table("names")?;
    /// let claim = |who| {
    ///     let mut batch = WriteBatch::new();
    ///     batch.expect(&names, "polder", None).put(&names, "polder", who);
    ///     store.apply(batch)
    /// };
    /// claim("first")?;
    /// assert!(matches!(claim("second"), Err(BatchError::Unexpected { .. })));
    /// assert_eq!(names.get("polder")?, Some(b"first".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn expect(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        version: Option<u64>,
    ) -> &mut Self {
        self.push(table, key.as_ref(), Some(Expected(version)), Action::Look)
    }

    /// Bytes that are kept with the batch, in place of those of the batch before: an index of a
    /// replicated log that was applied, say. [`Store::tag`](crate::Store::tag) reads them. At most
    /// 64 MiB, as a value.
    pub fn tag(&mut self, tag: impl AsRef<[u8]>) -> &mut Self {
        self.tag = Some(tag.as_ref().to_vec());
        self
    }

    /// When the batch is durable; by default as the store's other writes.
    pub fn durability(&mut self, durability: Durability) -> &mut Self {
        self.durability = Some(durability);
        self
    }

    /// How many changes and expectations there are.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// use polder::WriteBatch;
    /// let words = store.create_table("words")?;
    /// let mut batch = WriteBatch::new();
    /// batch.expect(&words, "dike", None).put(&words, "dike", "dijk");
    /// assert_eq!(batch.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn len(&self) -> usize {
        self.len + self.len_around()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.tag.is_none() && self.len_around() == 0
    }
}

#[cfg(all(test, feature = "async"))]
mod tests {
    use super::*;
    use crate::Options;

    #[test]
    fn a_poll_tries_small_batches_without_code_of_users() {
        let dir = tempfile::tempdir().unwrap();
        let store = crate::Store::open(Options::new(dir.path().join("s"))).unwrap();
        let table = store.open_table("t").unwrap();
        let mut batch = WriteBatch::new();
        for number in 0..MOST_TRIED as u32 {
            assert!(batch.may_be_tried());
            batch.put(&table, number.to_be_bytes(), []);
        }
        assert!(batch.may_be_tried());
        batch.delete(&table, "more");
        assert!(!batch.may_be_tried());
        let removed: Vec<_> = batch.removed().map(|(_, key)| key).collect();
        assert_eq!(removed, [b"more"]);
        batch.clear();
        batch.update_with(&table, "a", |_| Change::Remove);
        assert!(!batch.may_be_tried());
    }
}
