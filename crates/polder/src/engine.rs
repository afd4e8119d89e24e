//! A store with a given translation: the pool, the catalogue and the open tables.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use polder_format::{ChecksumSeed, FormatError, SpaceId, Superblock};
use polder_pool::device::Device;
use polder_pool::{FileState, Pool, PoolConfig, PoolError, Translation};
use polder_tree::{Effect, KINDS, Tree};

use crate::catalogue::{MAX_NAME_BYTES, TableRecord};
use crate::directory::Directory;
use crate::error::{CATALOGUE, OpenError, StoreError};
use crate::file::{empty, write_superblock};
use crate::passage::{Passage, stripe};
use crate::stamps::Stamps;

const STRIPES: usize = 16;

/// An open store.
#[derive(Debug)]
pub(crate) struct Engine<T: Translation> {
    pub(crate) pool: Pool<T>,
    pub(crate) catalogue: Tree<T>,
    /// Handles of tables, by name. Making and dropping tables holds `ddl` as well.
    tables: RwLock<HashMap<String, Arc<TableCore<T>>>>,
    ddl: Mutex<()>,
    pub(crate) passage: Passage,
    pub(crate) stamps: Stamps,
    superblock: Mutex<Superblock>,
    /// The other superblock was damaged when the store was opened.
    pub(crate) superblock_damage: Option<FormatError>,
    /// Released when the store is closed, or the last handle goes.
    directory: Mutex<Option<Directory>>,
    pub(crate) memory_budget: u64,
}

/// An open table.
#[derive(Debug)]
pub(crate) struct TableCore<T: Translation> {
    pub(crate) name: String,
    pub(crate) tree: Tree<T>,
    pub(crate) engine: Arc<Engine<T>>,
    dropped: AtomicBool,
    /// Entries: what the catalogue said and what came and went, added up over the stripes.
    entries: [EntryCount; STRIPES],
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct EntryCount(AtomicI64);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// What opening needs to know.
pub(crate) struct Opening {
    pub(crate) device: Box<dyn Device>,
    pub(crate) superblock: Superblock,
    pub(crate) superblock_damage: Option<FormatError>,
    pub(crate) is_new: bool,
    pub(crate) memory_budget: u64,
    pub(crate) prefault: bool,
    pub(crate) directory: Option<Directory>,
}

impl<T: Translation> Engine<T> {
    pub(crate) fn open(opening: Opening) -> Result<Arc<Engine<T>>, OpenError> {
        let mut superblock = opening.superblock;
        let config = PoolConfig {
            memory_budget: opening.memory_budget,
            page_size: superblock.page_size,
            prefault: opening.prefault,
            seed: ChecksumSeed::new(superblock.store_id),
            file: FileState {
                space_directory: superblock.space_directory,
                next_space: superblock.next_space,
                file_pages: superblock.file_pages,
            },
        };
        let of_pool = |error| OpenError::Store(StoreError::of_pool(CATALOGUE, error));
        let pool: Pool<T> = Pool::open(opening.device, &config, &KINDS).map_err(of_pool)?;
        let begun = begin(&pool, &mut superblock, opening.is_new);
        let catalogue = begun.inspect_err(|_| {
            if opening.is_new {
                empty(pool.device());
            }
        })?;
        Ok(Arc::new(Engine {
            pool,
            catalogue,
            tables: RwLock::default(),
            ddl: Mutex::default(),
            passage: Passage::new(),
            stamps: Stamps::new(superblock.next_version),
            superblock: Mutex::new(superblock),
            superblock_damage: opening.superblock_damage,
            directory: Mutex::new(opening.directory),
            memory_budget: opening.memory_budget,
        }))
    }

    /// The handle of a table that exists.
    pub(crate) fn table(self: &Arc<Self>, name: &str) -> Result<Arc<TableCore<T>>, StoreError> {
        self.passage.check_open()?;
        let open = self.tables.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(table) = open.get(name) {
            return Ok(Arc::clone(table));
        }
        drop(open);
        let _ddl = lock(&self.ddl);
        let record =
            self.record(name)?.ok_or_else(|| StoreError::NoSuchTable { name: name.to_string() })?;
        let space = self.pool.open_space(record.space);
        let space = space.map_err(|error| StoreError::of_pool(name, error))?;
        Ok(self.keep(name, Tree::open(space), record.entries))
    }

    /// What the catalogue says of a table.
    fn record(&self, name: &str) -> Result<Option<TableRecord>, StoreError> {
        let bytes = self.catalogue.get(name.as_bytes());
        let bytes = bytes.map_err(|error| StoreError::of(CATALOGUE, error))?;
        bytes.map(|bytes| decode_record(&bytes, &self.catalogue)).transpose()
    }

    /// All tables, in the order of their names.
    pub(crate) fn records(&self) -> Result<Vec<(String, TableRecord)>, StoreError> {
        self.passage.check_open()?;
        let of_tree = |error| StoreError::of(CATALOGUE, error);
        let mut cursor = self.catalogue.cursor_first().map_err(of_tree)?;
        let mut records = Vec::new();
        while let Some((name, record)) = cursor.next().map_err(of_tree)? {
            let record = decode_record(record, &self.catalogue)?;
            records.push((String::from_utf8_lossy(name).into_owned(), record));
        }
        Ok(records)
    }

    fn keep(self: &Arc<Self>, name: &str, tree: Tree<T>, entries: u64) -> Arc<TableCore<T>> {
        let mut open = self.tables.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        // A thread that waited for `ddl` may find that another one has opened the table.
        Arc::clone(open.entry(name.to_string()).or_insert_with(|| {
            let counts: [EntryCount; STRIPES] = Default::default();
            counts[0].0.store(entries as i64, Ordering::Relaxed);
            Arc::new(TableCore {
                name: name.to_string(),
                tree,
                engine: Arc::clone(self),
                dropped: AtomicBool::new(false),
                entries: counts,
            })
        }))
    }

    pub(crate) fn create_table(
        self: &Arc<Self>,
        name: &str,
    ) -> Result<Arc<TableCore<T>>, StoreError> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(StoreError::TableName { len: name.len() });
        }
        let _pass = self.passage.enter()?;
        let _ddl = lock(&self.ddl);
        if self.record(name)?.is_some() {
            return Err(StoreError::TableExists { name: name.to_string() });
        }
        let of_pool = |error| StoreError::of_pool(name, error);
        let space = self.pool.create_space().map_err(of_pool)?;
        let made = Tree::create(space.clone()).and_then(|tree| {
            let record = TableRecord { space: space.id(), entries: 0 }.encode();
            self.catalogue.insert(name.as_bytes(), &record, self.stamps.take())?;
            Ok(tree)
        });
        match made {
            Ok(tree) => Ok(self.keep(name, tree, 0)),
            Err(error) => {
                // The first error is the one to report.
                let _ = space.drop_space();
                Err(StoreError::of(name, error))
            }
        }
    }

    pub(crate) fn drop_table(self: &Arc<Self>, name: &str) -> Result<(), StoreError> {
        let _pass = self.passage.enter()?;
        let table = self.table(name)?;
        let _ddl = lock(&self.ddl);
        if table.dropped.swap(true, Ordering::SeqCst) {
            return Err(StoreError::NoSuchTable { name: name.to_string() });
        }
        let removed = self.catalogue.remove(name.as_bytes());
        if let Err(error) = removed {
            table.dropped.store(false, Ordering::SeqCst);
            return Err(StoreError::of(CATALOGUE, error));
        }
        self.tables.write().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(name);
        table.tree.space().drop_space().map_err(|error| StoreError::of_pool(name, error))
    }

    /// Handles of all tables that are open now.
    pub(crate) fn open_tables(&self) -> Vec<Arc<TableCore<T>>> {
        let open = self.tables.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        open.values().cloned().collect()
    }

    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        self.passage.check_open()?;
        self.pool.flush().map_err(|error| StoreError::of_pool(CATALOGUE, error))
    }

    pub(crate) fn shrink(&self) -> Result<u64, StoreError> {
        let _pass = self.passage.enter()?;
        self.pool.shrink().map_err(|error| StoreError::of_pool(CATALOGUE, error))
    }

    /// Writes everything down and marks the file clean. Nobody can use the store afterwards.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        self.passage.close()?;
        let written = self.write_down();
        lock(&self.directory).take();
        // Handles of tables keep the engine, and the engine keeps them.
        self.tables.write().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
        written
    }

    fn write_down(&self) -> Result<(), StoreError> {
        for table in self.open_tables() {
            table.write_count()?;
        }
        let of_pool = |error| StoreError::of_pool(CATALOGUE, error);
        self.pool.flush().map_err(of_pool)?;
        let state = self.pool.file_state();
        let mut superblock = lock(&self.superblock);
        superblock.clean = true;
        superblock.space_directory = state.space_directory;
        superblock.next_space = state.next_space;
        superblock.file_pages = state.file_pages;
        superblock.next_version = self.stamps.next();
        let written = write_superblock(self.pool.device(), &mut superblock);
        written.map_err(|e| of_pool(device_error(e)))
    }
}

/// The catalogue, made now if the store is new; and the mark that the store is open.
fn begin<T: Translation>(
    pool: &Pool<T>,
    superblock: &mut Superblock,
    is_new: bool,
) -> Result<Tree<T>, StoreError> {
    let of_pool = |error| StoreError::of_pool(CATALOGUE, error);
    let catalogue = if is_new {
        let made = Tree::create(pool.create_space().map_err(of_pool)?);
        made.map_err(|error| StoreError::of(CATALOGUE, error))?
    } else {
        Tree::open(pool.open_space(SpaceId::CATALOGUE).map_err(of_pool)?)
    };
    // From here on the file may hold less than what was written to the store.
    superblock.clean = false;
    write_superblock(pool.device(), superblock).map_err(|e| of_pool(device_error(e)))?;
    Ok(catalogue)
}

fn decode_record<T: Translation>(
    bytes: &[u8],
    catalogue: &Tree<T>,
) -> Result<TableRecord, StoreError> {
    TableRecord::decode(bytes).map_err(|what| {
        let page = polder_format::PageId::new(catalogue.space().id(), first_page());
        StoreError::of_pool(CATALOGUE, PoolError::Broken { page, what })
    })
}

fn first_page() -> polder_format::PageNo {
    polder_format::PageNo::new(1).unwrap_or(polder_format::PageNo::MAX)
}

pub(crate) fn device_error(source: std::io::Error) -> PoolError {
    PoolError::Device { what: "write the superblock of", source: Arc::new(source) }
}

impl<T: Translation> TableCore<T> {
    /// Readers: whether the store is open and the table there.
    #[inline(always)]
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.engine.passage.check_open()
    }

    #[cold]
    pub(crate) fn error(&self, error: polder_tree::TreeError) -> StoreError {
        StoreError::of(&self.name, error)
    }

    pub(crate) fn count(&self, effect: Effect) {
        let change = match effect {
            Effect::Added => 1,
            Effect::Removed => -1,
            Effect::Same => return,
        };
        self.entries[stripe()].0.fetch_add(change, Ordering::Relaxed);
    }

    pub(crate) fn add_entries(&self, entries: u64) {
        self.entries[stripe()].0.fetch_add(entries as i64, Ordering::Relaxed);
    }

    pub(crate) fn len(&self) -> u64 {
        let sum: i64 = self.entries.iter().map(|count| count.0.load(Ordering::Relaxed)).sum();
        sum.max(0) as u64
    }

    /// The number of entries into the catalogue.
    fn write_count(&self) -> Result<(), StoreError> {
        if self.dropped.load(Ordering::SeqCst) {
            return Ok(());
        }
        let record = TableRecord { space: self.tree.space().id(), entries: self.len() }.encode();
        let engine = &self.engine;
        let written = engine.catalogue.insert(self.name.as_bytes(), &record, engine.stamps.take());
        written.map(|_| ()).map_err(|error| StoreError::of(CATALOGUE, error))
    }
}
