//! A table: keys and values in order, in the vocabulary of `BTreeMap`. Here are its handle and its
//! lookups; the rest stands in `table/`.
//!
//! A function that takes any bytes (`impl AsRef<[u8]>`) hands slices to one that does not: so what
//! is done with a table is compiled once, here, and not for each type of key in each program.

mod many;
mod order;
mod write;
mod write_many;

use std::fmt;

use polder_tree::ValueRef;

use crate::any::{Any, dispatch};
use crate::durability::Durability;
use crate::error::StoreError;
use crate::families::Tables;
use crate::handle::Store;

/// A table of a store. Cheap to clone; keeps the store open.
#[derive(Clone)]
pub struct Table {
    pub(crate) core: Any<Tables>,
    /// So that the store is not closed while a table of it is in use.
    store: Store,
    durability: Durability,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Table {
    pub(crate) fn new(core: Any<Tables>, store: Store) -> Table {
        let durability = store.durability();
        Table { core, store, durability }
    }

    /// The table's name. That of a table that was renamed is the new one, for all its handles.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// assert_eq!(store.create_table("words")?.name(), "words");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        dispatch!(&self.core, table => table.name.get())
    }

    #[cfg(feature = "async")]
    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    /// The store that it belongs to.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let words = store.create_table("words")?;
    /// assert_eq!(words.store().tables()?, ["words"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The same table, whose writes by this handle are durable as asked here.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// use polder::Durability;
    /// let events = store.create_table("events")?;
    /// // Many small ones, that may be lost with the power; and one that may not.
    /// let lazily = events.with_durability(Durability::None);
    /// for number in 0..100u64 {
    ///     lazily.put(number.to_be_bytes(), "tick")?;
    /// }
    /// events.put(100u64.to_be_bytes(), "stop")?; // durable, and so are all before it
    /// assert_eq!(events.len(), 101);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_durability(&self, durability: Durability) -> Table {
        if let Durability::Periodic(period) = durability {
            dispatch!(&self.core, table => table.engine.log().sync_within(period));
        }
        Table { durability, ..self.clone() }
    }

    /// A copy of the value of `key`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// cities.put("Delft", "109577")?;
    /// assert_eq!(cities.get("Delft")?, Some(b"109577".to_vec()));
    /// assert_eq!(cities.get("Groningen")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, StoreError> {
        self.get_copy(key.as_ref())
    }

    fn get_copy(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
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
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// cities.put("Delft", "109577")?;
    /// assert_eq!(cities.get_with("Delft", |value| value.len())?, Some(6));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading pages.
    #[inline]
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        let key = key.as_ref();
        dispatch!(&self.core, table => {
            table.check()?;
            table.tree.get_with(key, read).map_err(|error| table.error(error))
        })
    }

    /// The value of `key`, lent where it lies if it is a long one; a short one is copied.
    ///
    /// A long value, which has pages of its own, lies in the store's memory and is not copied: it stays
    /// there and does not change as long as the [`ValueRef`] is kept, whatever becomes of its key, its
    /// table or the store. This keeps nobody waiting, be it a reader or a writer, and the caller may do
    /// whatever it likes with the store meanwhile, also on the same thread. What it keeps is memory: a
    /// store whose memory is taken by values that are lent cannot read others, and says so
    /// ([`StoreError::PoolExhausted`]). A value of more than an eighth of the store's memory is copied for
    /// that reason.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let pages = store.open_table("pages")?;
    /// pages.put("index", [b'x'; 4000])?;
    /// let page = pages.get_ref("index")?.ok_or("no such page")?;
    /// // Nobody waits for those that read it, and it stays as it is.
    /// pages.put("index", "moved")?;
    /// assert_eq!(page.chunks().map(<[u8]>::len).sum::<usize>(), 4000);
    /// assert_eq!(pages.get_ref("index")?.ok_or("no such page")?.as_slice(), Some(&b"moved"[..]));
    /// assert!(pages.get_ref("about")?.is_none());
    ///
    /// let maps = store.create_table("maps")?;
    /// maps.put("Beemster", [7; 10_000])?;
    /// let Some(map) = maps.get_ref("Beemster")? else { return Ok(()) };
    /// maps.remove("Beemster")?;
    /// store.drop_table("maps")?;
    /// // It is what it was, page by page.
    /// assert_eq!(map.len(), 10_000);
    /// assert!(map.is_lent() && map.as_slice().is_none());
    /// assert!(map.chunks().flatten().all(|byte| *byte == 7));
    /// assert_eq!(map.to_vec(), [7; 10_000]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn get_ref(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueRef<'_>>, StoreError> {
        self.value_ref(key.as_ref())
    }

    fn value_ref(&self, key: &[u8]) -> Result<Option<ValueRef<'_>>, StoreError> {
        dispatch!(&self.core, table => {
            table.check()?;
            table.tree.get_ref(key).map_err(|error| table.error(error))
        })
    }

    /// Whether `key` is there.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let seen = store.open_table("seen")?;
    /// seen.put(7u64.to_be_bytes(), "")?;
    /// assert!(seen.contains_key(7u64.to_be_bytes())?);
    /// assert!(!seen.contains_key(8u64.to_be_bytes())?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool, StoreError> {
        Ok(self.version(key)?.is_some())
    }

    /// The version word of `key`: another one after each write of it. `None` without the key.
    /// What it is good for: [`WriteBatch::expect`](crate::WriteBatch::expect).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// cities.put("Delft", "109577")?;
    /// let before = cities.version("Delft")?;
    /// assert_eq!(cities.version("Delft")?, before);
    /// cities.put("Delft", "109577")?;
    /// assert_ne!(cities.version("Delft")?, before);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn version(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>, StoreError> {
        self.version_of(key.as_ref())
    }

    fn version_of(&self, key: &[u8]) -> Result<Option<u64>, StoreError> {
        dispatch!(&self.core, table => {
            table.check()?;
            table.tree.version(key).map_err(|error| table.error(error))
        })
    }

    /// The version word and the value of `key`, which belong together.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// # use polder::WriteBatch;
    /// let stock = store.open_table("stock")?;
    /// stock.put("tulips", "2")?;
    /// if let Some((version, value)) = stock.get_versioned("tulips")? {
    ///     assert_eq!(value, b"2");
    ///     // Only if nobody has written it meanwhile:
    ///     let mut batch = WriteBatch::new();
    ///     batch.expect(&stock, "tulips", Some(version)).put(&stock, "tulips", "1");
    ///     store.apply(batch)?;
    /// }
    /// # assert_eq!(stock.get("tulips")?.as_deref(), Some(&b"1"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn get_versioned(
        &self,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        self.versioned_copy(key.as_ref())
    }

    fn versioned_copy(&self, key: &[u8]) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
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
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let names = store.open_table("names")?;
    /// names.put("1", "Ada")?;
    /// let mut name = Vec::new();
    /// let version = names.get_versioned_with("1", |version, value| {
    ///     name.extend_from_slice(value);
    ///     version
    /// })?;
    /// assert_eq!((version, &name[..]), (names.version("1")?, &b"Ada"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading pages.
    #[inline]
    pub fn get_versioned_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(u64, &[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        let key = key.as_ref();
        dispatch!(&self.core, table => {
            table.check()?;
            table.tree.versioned_with(key, read).map_err(|error| table.error(error))
        })
    }

    /// The number of entries. Writes that are under way may be counted or not. Reads no page.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// cities.put("Delft", "109577")?;
    /// assert_eq!(cities.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn len(&self) -> u64 {
        dispatch!(&self.core, table => table.len())
    }

    /// Whether there is no entry.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// assert!(cities.is_empty());
    /// cities.put("Delft", "109577")?;
    /// assert!(!cities.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
