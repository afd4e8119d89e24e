//! A table, by futures.

use polder_format::Lsn;
use polder_log::AwaitedSync;

use super::operation::{Commit, Operation, Run};
use super::range::AsyncRange;
use crate::any::{Any, dispatch};
use crate::durability::Durability;
use crate::error::StoreError;
use crate::families::Tables;
use crate::key_range::KeyRange;
use crate::range::Entry;
use crate::table::Table;

/// A table whose operations are futures: for programs that serve many requests with few threads.
/// Cheap to clone; [`Table::asynchronous`] makes one.
///
/// It belongs to no runtime: any executor polls its futures, one that blocks its thread as well.
///
/// * **A poll does not wait**, for the device, for a lock of others, or for room. What is in memory is
///   answered by the first poll, at the cost of the call of [`Table`]; a page that is not is loaded by
///   a thread of the store's, as many at once as the device wants, for all futures that wait. Where an
///   operation has to wait for more (a leaf that must be split, a full log, a value of many pages) one
///   of a few threads of the store's makes it. All of these start when they are needed.
/// * **A future may be dropped at any time.** It holds nothing between two polls. A read that is dropped
///   has not happened; a write has happened whole or not at all, and which of the two is not known, as
///   long as it was polled once. (One that was not polled has not begun.) Waiting for it to be durable
///   is the last that it does: a write that is dropped then has happened, and is durable soon.
/// * Futures do not share an order: those that are polled together are made in any order. Who writes a
///   key after another write of it waits for that one first.
/// * Errors are those of [`Table`], and keys and values are copied only where a thread of the store's
///   makes the operation.
///
/// The handle keeps the store open. That handle or future which goes last closes the store, and waits for
/// that: better let [`AsyncStore::close`](crate::AsyncStore::close) do it. Opening stores and tables and
/// loading in bulk have no futures: they belong where one may wait (`spawn_blocking`, in tokio's words).
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
/// # use futures_lite::future::{block_on, zip};
/// let cities = store.open_table("cities")?.asynchronous();
/// block_on(async {
///     cities.put("Delft", "109577").await?;
///     cities.put("Gouda", "77125").await?;
///     // At the same time.
///     let (delft, gouda) = zip(cities.get("Delft"), cities.get("Gouda")).await;
///     assert_eq!(delft?, Some(b"109577".to_vec()));
///     assert_eq!(gouda?, Some(b"77125".to_vec()));
///     let mut range = cities.range("E"..);
///     while let Some((name, _)) = range.next().await.transpose()? {
///         assert_eq!(name, b"Gouda");
///     }
///     Ok(())
/// })
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct AsyncTable {
    table: Table,
}

impl Table {
    /// The same table, by futures.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// # use futures_lite::future::block_on;
    /// let words = store.open_table("words")?;
    /// words.put("dike", "dijk")?;
    /// let later = words.asynchronous();
    /// assert_eq!(block_on(later.get("dike"))?, words.get("dike")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn asynchronous(&self) -> AsyncTable {
        AsyncTable { table: self.clone() }
    }
}

fn get(table: &Any<Tables>, key: &[u8], _: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    dispatch!(table, table => {
        table.check()?;
        table.tree.get(key).map_err(|error| table.error(error))
    })
}

fn version(table: &Any<Tables>, key: &[u8], _: &[u8]) -> Result<Option<u64>, StoreError> {
    dispatch!(table, table => {
        table.check()?;
        table.tree.version(key).map_err(|error| table.error(error))
    })
}

fn versioned(
    table: &Any<Tables>,
    key: &[u8],
    _: &[u8],
) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
    dispatch!(table, table => {
        table.check()?;
        table.tree.versioned(key).map_err(|error| table.error(error))
    })
}

fn put(table: &Any<Tables>, key: &[u8], value: &[u8]) -> Result<(bool, Lsn), StoreError> {
    dispatch!(table, table => table.put(key, value))
}

fn insert(
    table: &Any<Tables>,
    key: &[u8],
    value: &[u8],
) -> Result<(Option<Vec<u8>>, Lsn), StoreError> {
    dispatch!(table, table => table.insert(key, value))
}

fn delete(table: &Any<Tables>, key: &[u8], _: &[u8]) -> Result<(bool, Lsn), StoreError> {
    dispatch!(table, table => table.delete(key))
}

fn remove(table: &Any<Tables>, key: &[u8], _: &[u8]) -> Result<(Option<Vec<u8>>, Lsn), StoreError> {
    dispatch!(table, table => table.remove(key))
}

impl AsyncTable {
    /// The table, for what may wait.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The same table, whose writes by this handle are durable as asked here
    /// ([`Table::with_durability`]).
    pub fn with_durability(&self, durability: Durability) -> AsyncTable {
        self.table.with_durability(durability).asynchronous()
    }

    fn read<'a, R>(&'a self, run: Run<R>, key: &'a [u8]) -> Operation<'a, R> {
        Operation::new((&self.table.store().engine, &self.table.core), (run, false), key, &[])
    }

    /// A change, and then that it is durable as this handle asks.
    async fn change<R: Send + 'static>(
        &self,
        run: Run<(R, Lsn)>,
        key: &[u8],
        value: &[u8],
    ) -> Result<R, StoreError> {
        let engine = &self.table.store().engine;
        let places = (engine, &self.table.core);
        let (answer, lsn) = Operation::new(places, (run, true), key, value).await?;
        let awaited = (self.table.durability() == Durability::Sync)
            .then(|| dispatch!(engine, engine => AwaitedSync::new(&engine.checkpointer.log, lsn)));
        Commit::new(engine, awaited).await?;
        Ok(answer)
    }

    /// A copy of the value of `key`: as [`Table::get`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// # futures_lite::future::block_on(async {
    /// let cities = store.open_table("cities")?.asynchronous();
    /// cities.put("Delft", "109577").await?;
    /// assert_eq!(cities.get("Delft").await?, Some(b"109577".to_vec()));
    /// assert_eq!(cities.get("Groningen").await?, None);
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(get, key.as_ref()).await
    }

    /// Whether `key` is there: as [`Table::contains_key`].
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub async fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool, StoreError> {
        Ok(self.version(key).await?.is_some())
    }

    /// The version word of `key`: as [`Table::version`].
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub async fn version(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>, StoreError> {
        self.read(version, key.as_ref()).await
    }

    /// The version word and the value of `key`, which belong together: as [`Table::get_versioned`].
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub async fn get_versioned(
        &self,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        self.read(versioned, key.as_ref()).await
    }

    /// Gives `key` a value, whether it is there or not. True if the key is new: as [`Table::put`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// # futures_lite::future::block_on(async {
    /// let cities = store.open_table("cities")?.asynchronous();
    /// // Durable when the future is ready, as with a call: of many that are awaited together, many by
    /// // one sync.
    /// assert!(cities.put("Delft", "109577").await?);
    /// assert!(!cities.put("Delft", "109578").await?);
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Table::put`].
    pub async fn put(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool, StoreError> {
        self.change(put, key.as_ref(), value.as_ref()).await
    }

    /// Gives `key` a value, and gives the value that it had: as [`Table::insert`].
    ///
    /// # Errors
    /// Those of [`Table::put`].
    pub async fn insert(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.change(insert, key.as_ref(), value.as_ref()).await
    }

    /// Deletes `key`. True if it was there: as [`Table::delete`].
    ///
    /// # Errors
    /// Those of [`Table::delete`].
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool, StoreError> {
        self.change(delete, key.as_ref(), &[]).await
    }

    /// Removes `key`, and gives the value that it had: as [`Table::remove`].
    ///
    /// # Errors
    /// Those of [`Table::delete`].
    pub async fn remove(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, StoreError> {
        self.change(remove, key.as_ref(), &[]).await
    }

    /// The entry with the least key: as [`Table::first`].
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub async fn first(&self) -> Result<Option<Entry>, StoreError> {
        self.range(..).next().await.transpose()
    }

    /// The entry with the greatest key: as [`Table::last`].
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub async fn last(&self) -> Result<Option<Entry>, StoreError> {
        self.range(..).backward().next().await.transpose()
    }

    /// Entries in the order of their keys, as a stream: as [`Table::range`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// # futures_lite::future::block_on(async {
    /// use futures_lite::StreamExt; // or that of the crate `futures`
    /// let words = store.open_table("words")?.asynchronous();
    /// words.put("dike", "dijk").await?;
    /// words.put("mill", "molen").await?;
    /// let words = words.range("a".."k").map(|entry| entry.map(|(word, _)| word));
    /// let words: Vec<_> = words.try_collect().await?;
    /// assert_eq!(words, [b"dike"]);
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    pub fn range(&self, bounds: impl KeyRange) -> AsyncRange {
        AsyncRange::new(self.table.store().engine.clone(), self.table.range(bounds))
    }

    /// Entries whose keys begin so, as a stream: as [`Table::prefix`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> AsyncRange {
        AsyncRange::new(self.table.store().engine.clone(), self.table.prefix(prefix))
    }
}
