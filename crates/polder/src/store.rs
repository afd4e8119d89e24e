//! The store: opening, tables by name, closing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use polder_pool::device::{Device, FileDevice, OpenKind};
use polder_pool::{Array, Direct};

use crate::any::{Any, dispatch, map_any};
use crate::directory::Directory;
use crate::engine::{Engine, Opening};
use crate::error::{OpenError, StoreError};
use crate::file::{empty, make_superblock_area, new_superblock, read_superblock};
use crate::options::{Options, TranslationKind};
use crate::table::Table;

/// An open store. Cheap to clone; all clones are the same store.
///
/// Close it with [`Store::close`], which tells of errors. If the last handle (of the store, its
/// tables and ranges) goes without, that is tried as well, and an error goes unheard.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) engine: Any<Arc<Engine<Array>>, Arc<Engine<Direct>>>,
    path: PathBuf,
    /// Closes the store with the last clone.
    closer: Arc<Closer>,
}

/// Closes the store when the last clone of the handle goes.
#[derive(Debug)]
struct Closer(Any<Arc<Engine<Array>>, Arc<Engine<Direct>>>);

impl Drop for Closer {
    fn drop(&mut self) {
        // Who wants to hear of errors calls `close`. If that was done this does nothing.
        let _ = dispatch!(&self.0, engine => engine.close());
    }
}

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
        let (directory, is_new) = Directory::lock(&options.path, options.mode)?;
        let data = directory.data_file();
        let io = |what| {
            let path = data.clone();
            move |source| OpenError::Io { what, path, source }
        };
        let kind = if data.exists() { OpenKind::Existing } else { OpenKind::Create };
        let device = FileDevice::open(&data, kind).map_err(io("open"))?;
        if is_new {
            directory.sync().map_err(io("sync the directory of"))?;
        }
        Store::open_device(Box::new(device), Some(directory), is_new, options)
    }

    /// Opens the store on a device of one's own, or makes it if the device is empty. Nothing keeps
    /// others from the device; the path of the options is only for messages.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_on(device: Box<dyn Device>, options: Options) -> Result<Store, OpenError> {
        options.validate()?;
        let io = |source| OpenError::Io { what: "look at", path: options.path.clone(), source };
        let is_new = device.is_empty().map_err(io)?;
        Store::open_device(device, None, is_new, options)
    }

    fn open_device(
        device: Box<dyn Device>,
        directory: Option<Directory>,
        is_new: bool,
        options: Options,
    ) -> Result<Store, OpenError> {
        let path = options.path.clone();
        let io = |what| {
            let path = path.clone();
            move |source| OpenError::Io { what, path, source }
        };
        let (superblock, superblock_damage) = if is_new {
            let size = options.new_page_size()?;
            let made = make_superblock_area(&*device);
            made.inspect_err(|_| empty(&*device)).map_err(io("write"))?;
            let superblock = new_superblock(size, options.new_budget(size)).map_err(io("make"))?;
            (superblock, None)
        } else {
            read_superblock(&*device, &path)?
        };
        if !is_new && !superblock.clean {
            return Err(OpenError::NotClosed { path, damage: superblock_damage });
        }
        let found = superblock.page_size.bytes() as u32;
        if let Some(asked) = options.page_size.filter(|asked| *asked != found) {
            return Err(OpenError::PageSize { path, asked, found });
        }
        let memory_budget = options.memory_budget.unwrap_or(superblock.default_budget);
        options.clone().page_size(found).memory_budget(memory_budget).validate()?;
        let prefault = options.prefault;
        let opening = Opening {
            device,
            superblock,
            superblock_damage,
            is_new,
            memory_budget,
            prefault,
            directory,
        };
        let engine = match options.translation {
            TranslationKind::Array => Any::Array(Engine::<Array>::open(opening)?),
            TranslationKind::Direct => Any::Direct(Engine::<Direct>::open(opening)?),
        };
        let closer = Arc::new(Closer(engine.clone()));
        Ok(Store { engine, path, closer })
    }

    fn handle(&self, table: crate::table::AnyTable) -> Table {
        Table::new(table, self.clone())
    }

    /// Makes an empty table.
    ///
    /// # Errors
    /// [`StoreError::TableExists`], [`StoreError::TableName`], and those of writing.
    pub fn create_table(&self, name: &str) -> Result<Table, StoreError> {
        Ok(self.handle(map_any!(&self.engine, engine => engine.create_table(name)?)))
    }

    /// A table that exists.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTable`], and those of reading.
    pub fn table(&self, name: &str) -> Result<Table, StoreError> {
        Ok(self.handle(map_any!(&self.engine, engine => engine.table(name)?)))
    }

    /// A table that exists, or is made now.
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

    /// Drops a table and all that is in it. The space in the file is free at once. Whoever uses
    /// the table meanwhile gets [`StoreError::Dropped`].
    ///
    /// # Errors
    /// [`StoreError::NoSuchTable`], and those of reading and writing.
    pub fn drop_table(&self, name: &str) -> Result<(), StoreError> {
        dispatch!(&self.engine, engine => engine.drop_table(name))
    }

    /// The names of all tables, in order.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn tables(&self) -> Result<Vec<String>, StoreError> {
        let records = dispatch!(&self.engine, engine => engine.records())?;
        Ok(records.into_iter().map(|(name, _)| name).collect())
    }

    /// Writes all changed pages to the device and has it make them durable.
    ///
    /// # Errors
    /// Those of writing; what could not be written stays in memory.
    pub fn flush(&self) -> Result<(), StoreError> {
        dispatch!(&self.engine, engine => engine.flush())
    }

    /// Makes the file as short as it can be, moving data down to free places. Others may work on.
    /// Gives the bytes by which it became shorter.
    ///
    /// # Errors
    /// Those of reading and writing; what was not moved stays where it was.
    pub fn shrink(&self) -> Result<u64, StoreError> {
        dispatch!(&self.engine, engine => engine.shrink())
    }

    /// Writes everything down and closes the store, for all clones. Waits for writers that are at
    /// work; every later use gets [`StoreError::Closed`].
    ///
    /// # Errors
    /// Those of writing. The store is closed all the same, and will be refused as not closed when it
    /// is opened.
    pub fn close(self) -> Result<(), StoreError> {
        dispatch!(&self.closer.0, engine => engine.close())
    }

    /// The directory of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size of all pages in bytes.
    pub fn page_size(&self) -> u32 {
        dispatch!(&self.engine, engine => engine.pool.page_size().bytes() as u32)
    }

    /// Memory for everything, in bytes.
    pub fn memory_budget(&self) -> u64 {
        dispatch!(&self.engine, engine => engine.memory_budget)
    }

    /// How a page id becomes a frame.
    pub fn translation(&self) -> TranslationKind {
        match self.engine {
            Any::Array(_) => TranslationKind::Array,
            Any::Direct(_) => TranslationKind::Direct,
        }
    }
}
