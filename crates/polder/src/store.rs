//! What is done with a store: opening it, tables by name, closing it.

use std::io;
use std::sync::Arc;

use polder_pool::device::OverlayDevice;

use crate::any::{Any, Variant, dispatch, map_any, with_kind};
use crate::auto_shrink;
use crate::auto_warm;
use crate::catalogue::{Lodger, SpaceRecord};
use crate::device::Device;
use crate::directory::{DATA, Directory, Hold, LOG, ReadOnly};
use crate::engine::Engine;
use crate::error::{OpenError, StoreError};
use crate::families::{Engines, Tables};
use crate::file::{Lies, clear_for_new, look, new_superblock, read_superblock, unmake};
use crate::handle::{Closer, Store};
use crate::kind::TranslationKind;
use crate::opening::Opening;
use crate::options::{OpenMode, Options};
use crate::recovery::Recovery;
use crate::table::Table;

impl Store {
    /// Opens the store in a directory, or makes it, as [`Options`] say.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use polder::{Options, Store};
    /// let store = Store::open(Options::new(dir.path().join("store")).memory_budget(8 << 20))?;
    /// store.create_table("words")?;
    /// assert_eq!(store.tables()?, ["words"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`OpenError`] says what is in the way, and what to do.
    pub fn open(options: Options) -> Result<Store, OpenError> {
        options.validate()?;
        if options.mode == OpenMode::ReadOnly {
            return Store::open_to_read(options);
        }
        let (mut directory, is_new) = Directory::lock(&options.path, options.mode)?;
        let data = directory.open(DATA)?;
        if !is_new && !directory.has(LOG)? {
            // What is no store misses no log.
            read_superblock(&*data, None, &options.path)?;
            return Err(OpenError::NoLog { path: options.path });
        }
        let log = directory.open(LOG)?;
        if is_new {
            directory.sync()?;
        }
        Store::open_devices(data, log, Some(Arc::new(directory)), options)
    }

    /// Opens the store in a directory of which not a byte is written.
    fn open_to_read(options: Options) -> Result<Store, OpenError> {
        let directory = ReadOnly::lock_store(&options.path)?;
        match directory.files.clone() {
            [Some(data), Some(log)] => {
                Store::open_devices(data, log, Some(Arc::new(directory)), options)
            }
            [Some(data), None] => {
                // What is no store misses no log.
                read_superblock(&*data, None, &options.path)?;
                Err(OpenError::NoLog { path: options.path })
            }
            [None, _] => Err(OpenError::NotFound { path: options.path }),
        }
    }

    /// Opens the store on two devices of one's own, for data and log, or makes it if no store was
    /// ever made there. Nothing keeps others from the devices; the path of the options is only for
    /// messages.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_on(
        data: Box<dyn Device>,
        log: Box<dyn Device>,
        options: Options,
    ) -> Result<Store, OpenError> {
        options.validate()?;
        Store::open_devices(Arc::from(data), Arc::from(log), None, options)
    }

    fn open_devices(
        data: Arc<dyn Device>,
        log: Arc<dyn Device>,
        directory: Option<Hold>,
        options: Options,
    ) -> Result<Store, OpenError> {
        let path = options.path.clone();
        let read_only = options.mode == OpenMode::ReadOnly;
        let io = |what| {
            let path = path.clone();
            move |source| OpenError::Io { what, path, source }
        };
        let is_new = match look(Some(&*data), Some(&*log)).map_err(io("read"))? {
            Lies::Nothing if read_only => return Err(OpenError::NotFound { path }),
            Lies::Nothing => true,
            Lies::Something => false,
            Lies::Remains(found) => return Err(OpenError::Remains { path, found }),
        };
        let (mut superblock, superblock_damage) = if is_new {
            let size = options.new_page_size()?;
            let cleared = clear_for_new(&*data, &*log);
            cleared.inspect_err(|_| unmake(&*data, &*log)).map_err(io("write"))?;
            let (budget, limit) = (options.new_budget(size), options.log_limit.unwrap_or(0));
            (new_superblock(size, budget, limit).map_err(io("make"))?, None)
        } else {
            read_superblock(&*data, Some(&*log), &path)?
        };
        let [data, log] = match read_only {
            true => [overlay(data).map_err(io("read"))?, overlay(log).map_err(io("read"))?],
            false => [data, log],
        };
        superblock.log_limit = options.log_limit.unwrap_or(superblock.log_limit);
        let found = superblock.page_size.bytes() as u32;
        if let Some(asked) = options.page_size.filter(|asked| *asked != found) {
            return Err(OpenError::PageSize { path, asked, found });
        }
        let memory_budget = options.memory_budget.unwrap_or(superblock.default_budget);
        options.clone().page_size(found).memory_budget(memory_budget).validate()?;
        let kind = options.translation;
        let opening = Opening {
            options,
            memory_budget,
            data: Arc::clone(&data),
            log: Arc::clone(&log),
            superblock,
            superblock_damage,
            is_new,
            // If making the store fails the caller still holds it while what was made is removed.
            directory: directory.clone(),
        };
        let engine = start(opening, kind);
        let engine = engine.inspect_err(|_| {
            if is_new {
                unmake(&*data, &*log);
            }
        })?;
        drop(directory);
        let closer = Arc::new(Closer {
            engine: engine.clone(),
            path,
            #[cfg(feature = "vector")]
            labels: Default::default(),
        });
        Ok(Store { engine, closer })
    }

    fn handle(&self, table: Any<Tables>) -> Table {
        Table::new(table, self.clone())
    }

    /// Makes an empty table.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// use polder::StoreError;
    /// store.create_table("words")?;
    /// let again = store.create_table("words");
    /// assert!(matches!(again, Err(StoreError::TableExists { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::TableExists`], [`StoreError::TableName`], and those of writing.
    pub fn create_table(&self, name: &str) -> Result<Table, StoreError> {
        Ok(self.handle(map_any!(&self.engine, engine => engine.create_table(name)?)))
    }

    /// A table that exists.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// use polder::StoreError;
    /// store.create_table("words")?.put("dike", "dijk")?;
    /// assert_eq!(store.table("words")?.get("dike")?, Some(b"dijk".to_vec()));
    /// assert!(matches!(store.table("wrods"), Err(StoreError::NoSuchTable { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::NoSuchTable`], and those of reading.
    pub fn table(&self, name: &str) -> Result<Table, StoreError> {
        Ok(self.handle(map_any!(&self.engine, engine => engine.table(name)?)))
    }

    /// A table that exists, or is made now.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// store.open_table("words")?.put("dike", "dijk")?;
    /// assert_eq!(store.open_table("words")?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Store::table`] and [`Store::create_table`].
    pub fn open_table(&self, name: &str) -> Result<Table, StoreError> {
        loop {
            match self.table(name) {
                Err(StoreError::NoSuchTable { .. }) => {}
                found => return found,
            }
            match self.create_table(name) {
                Err(StoreError::TableExists { .. }) => {}
                made => return made,
            }
        }
    }

    /// Drops a table and all that is in it. The space in the file is free at once. A caller that
    /// uses the table meanwhile gets [`StoreError::Dropped`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let words = store.create_table("words")?;
    /// store.drop_table("words")?;
    /// assert!(store.tables()?.is_empty());
    /// assert!(words.put("dike", "dijk").is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::NoSuchTable`], and those of reading and writing.
    pub fn drop_table(&self, name: &str) -> Result<(), StoreError> {
        dispatch!(&self.engine, engine => engine.drop_table(name))
    }

    /// Gives a table another name, which none may have. Handles of the table, and ranges over it,
    /// go on under the new name. A crash leaves it with the old name or with the new one.
    ///
    /// So a table can be filled under another name, and appear when it is whole:
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # use polder::{Options, Store};
    /// # let store = Store::open(Options::new(dir.path().join("s")).memory_budget(8 << 20))?;
    /// let table = store.create_table("words.new")?;
    /// table.bulk_load([("apple", "1"), ("pear", "2")])?;
    /// store.rename_table("words.new", "words")?;
    /// assert_eq!(store.tables()?, ["words"]);
    /// assert_eq!(table.name(), "words");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::NoSuchTable`], [`StoreError::TableExists`] (also where both names are one),
    /// [`StoreError::TableName`], and those of reading and writing.
    pub fn rename_table(&self, name: &str, new: &str) -> Result<(), StoreError> {
        dispatch!(&self.engine, engine => engine.rename_table(name, new))
    }

    /// The names of all tables, in order.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// store.create_table("words")?;
    /// store.create_table("cities")?;
    /// assert_eq!(store.tables()?, ["cities", "words"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn tables(&self) -> Result<Vec<String>, StoreError> {
        let records = dispatch!(&self.engine, engine => engine.records())?;
        let is_table =
            |(name, record): (String, SpaceRecord)| (record.lodger == Lodger::Own).then_some(name);
        Ok(records.into_iter().filter_map(is_table).collect())
    }

    /// Waits until everything that was written so far is durable, whatever it asked for.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// use polder::Durability;
    /// let words = store.create_table("words")?.with_durability(Durability::None);
    /// words.bulk_load((0..100u32).map(|n| (n.to_be_bytes(), "")))?;
    /// words.put("dike", "dijk")?;
    /// store.flush()?; // from here on it survives a loss of power
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::NotDurable`].
    pub fn flush(&self) -> Result<(), StoreError> {
        dispatch!(&self.engine, engine => engine.flush())
    }

    /// Writes all changed pages in place now, so that the log that a recovery would read is as
    /// short as it can be. That also happens by itself, whenever the log has grown to half its
    /// limit.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// store.create_table("words")?.put("dike", "dijk")?;
    /// store.checkpoint()?;
    /// assert_eq!(store.stats().pool.dirty_pages, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], and those of writing; what could not be written stays in memory,
    /// and in the log.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        dispatch!(&self.engine, engine => engine.checkpoint())
    }

    /// What opening the store had to do again; nothing if it had been closed.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// // It is new: there was nothing to do again.
    /// assert_eq!(store.recovery().redone, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn recovery(&self) -> Recovery {
        dispatch!(&self.engine, engine => engine.recovery.clone())
    }

    /// Writes everything down and closes the store, for all clones. Waits for writers that are at
    /// work; every later use gets [`StoreError::Closed`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let words = store.create_table("words")?;
    /// store.close()?;
    /// assert!(words.get("dike").is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of writing. The store is closed all the same; what is missing in place will be
    /// replayed from the log when it is opened.
    pub fn close(self) -> Result<(), StoreError> {
        dispatch!(&self.engine, engine => engine.close())
    }
}

/// A device that keeps what it has: what a recovery changes goes elsewhere.
fn overlay(device: Arc<dyn Device>) -> io::Result<Arc<dyn Device>> {
    Ok(Arc::new(OverlayDevice::new(device, std::env::temp_dir())?))
}

/// Opens the store and starts its threads, with the translation that was asked for.
fn start(opening: Opening, kind: TranslationKind) -> Result<Any<Engines>, OpenError> {
    fn with<T: Variant>(opening: Opening) -> Result<Any<Engines>, OpenError> {
        opening
            .open::<T>()
            .and_then(Engine::start)
            .inspect(auto_shrink::watch)
            .inspect(auto_warm::watch)
            .map(T::wrap)
    }
    with_kind!(kind, T => with::<T>(opening))
}
