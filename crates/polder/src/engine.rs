//! A store with a given translation: the pool, the catalogue and the open tables.

use std::any::Any as Value;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};

use polder_format::Lsn;
use polder_log::{Log, Recovered, WalWriter};
use polder_pool::fork::{self, OnFork};
use polder_pool::journal::Journal;
use polder_pool::{Pool, PoolError, Space, Translation, event, lock, waits};
use polder_tree::{BatchAction, BatchOp, BatchOutcome, Effect, Expected, Tree, apply_batch};

use crate::any::Variant;
use crate::catalogue::{MAX_TABLE_NAME_BYTES, SpaceRecord, TAG_KEY};
use crate::checkpointer::Checkpointer;
use crate::directory::Hold;
use crate::durability::Durability;
use crate::entry_count::EntryCount;
use crate::error::{CATALOGUE, OpenError, StoreError};
use crate::fair_mutex::FairMutex;
#[cfg(feature = "async")]
use crate::helpers::Helpers;
use crate::live::{Document, Live};
use crate::name::Name;
use crate::opening::{Opened, Opening, drop_orphans};
use crate::quiesce::Quiesce;
use crate::recovery::Recovery;
use crate::registry::{Handle, Registered, Registry, Spaces};
use crate::shrinker::Shrinker;
use crate::stamps::Stamps;
use crate::warm::WarmRestart;

/// What may lie in the log that no change made before a checkpoint is worth it.
const MOST_OWN_BYTES: u64 = 64 << 10;

/// An open store.
#[derive(Debug)]
pub(crate) struct Engine<T: Translation> {
    pub(crate) pool: Pool<T>,
    pub(crate) catalogue: Tree<T>,
    /// Handles of tables, by name. Making, renaming and dropping tables holds `ddl` as well.
    tables: RwLock<HashMap<String, Arc<TableCore<T>>>>,
    /// Structures of others that are open, by name; under `ddl` as well.
    pub(crate) hosted: Mutex<HashMap<String, Arc<HostedCore<T>>>>,
    pub(crate) registry: Registry,
    pub(crate) ddl: FairMutex,
    pub(crate) shrinker: Shrinker,
    pub(crate) warm: WarmRestart,
    pub(crate) quiesce: Quiesce,
    pub(crate) checkpointer: Arc<Checkpointer<T>>,
    /// What lets the threads of the log and of checkpoints start; none once the store is closed, or
    /// if it is open to read.
    threads: Mutex<Option<Threads>>,
    /// What opening the store had to do.
    pub(crate) recovery: Recovery,
    pub(crate) durability: Durability,
    /// Tells other processes of the store; none once it is closed.
    live: Mutex<Option<Live>>,
    /// Why there is none, if there should be.
    pub(crate) live_refused: OnceLock<String>,
    /// Released when the store is closed, or the last handle goes.
    directory: Mutex<Option<Hold>>,
    pub(crate) memory_budget: u64,
    /// Threads that wait for futures.
    #[cfg(feature = "async")]
    pub(crate) helpers: Helpers,
}

/// An open table.
#[derive(Debug)]
pub(crate) struct TableCore<T: Translation> {
    /// Changed by a thread that holds `ddl`.
    pub(crate) name: Name,
    pub(crate) tree: Tree<T>,
    pub(crate) engine: Arc<Engine<T>>,
    dropped: AtomicBool,
    /// What the log said when the table was opened, and what came and went.
    entries: EntryCount,
}

/// A structure of others that is open.
#[derive(Debug)]
pub(crate) struct HostedCore<T: Translation> {
    pub(crate) space: Space<T>,
    pub(crate) handle: Handle,
}

/// The threads, which start when they have work; dropping this stops them, and waits for their
/// end.
#[derive(Debug)]
struct Threads {
    log: Arc<Log>,
    /// Last: a checkpoint may need it.
    _wal_writer: WalWriter,
}

impl Threads {
    fn start<T: Translation>(checkpointer: &Arc<Checkpointer<T>>) -> io::Result<Threads> {
        let log = Arc::clone(&checkpointer.log);
        let theirs = Arc::clone(checkpointer);
        let _wal_writer = WalWriter::start(&log, move |end| theirs.note_end(end))?;
        let threads = Threads { log, _wal_writer };
        checkpointer.start()?;
        Ok(threads)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.log.stop_checkpoints();
    }
}

impl<T: Translation> Engine<T> {
    /// Starts a store that was opened.
    pub(crate) fn start(opened: Opened<T>) -> Result<Arc<Engine<T>>, OpenError> {
        let Opened { checkpointer, catalogue, opening, recovered } = opened;
        tell_opened(&opening, &recovered);
        let checkpointer = Arc::new(checkpointer);
        let is_read_only = opening.is_read_only();
        let (quiesce, threads) = match is_read_only {
            true => (Quiesce::read_only(), None),
            false => {
                let threads = Engine::begin(&checkpointer, &catalogue, &opening, &recovered)?;
                (Quiesce::new(), Some(threads))
            }
        };
        let Opening { options, superblock, directory, .. } = opening;
        let store = (superblock.store_id, superblock.page_size);
        // The process may go to another directory.
        let path = || std::path::absolute(&options.path).unwrap_or_else(|_| options.path.clone());
        let place = directory.is_some().then(|| (path(), store));
        let is_live = options.live_stats && !is_read_only && directory.is_some();
        let engine = Arc::new(Engine {
            pool: checkpointer.pool.clone(),
            catalogue,
            tables: RwLock::default(),
            hosted: Mutex::default(),
            ddl: FairMutex::default(),
            registry: options.registry,
            shrinker: Shrinker::default(),
            warm: WarmRestart::new(place, is_read_only, options.warm_restart),
            quiesce,
            checkpointer,
            threads: Mutex::new(threads),
            live: Mutex::default(),
            live_refused: OnceLock::new(),
            recovery: Recovery::of(recovered, opening.superblock_damage.as_ref()),
            durability: options.durability,
            directory: Mutex::new(directory),
            memory_budget: opening.memory_budget,
            #[cfg(feature = "async")]
            helpers: Helpers::default(),
        });
        fork::watch(Arc::downgrade(&engine) as Weak<dyn OnFork>);
        if is_live {
            engine.tell_others(&options.path);
        }
        Ok(engine)
    }

    /// Answers other processes that ask for figures, if it can.
    fn tell_others(self: &Arc<Self>, directory: &Path) {
        match Live::start(directory, Arc::downgrade(self) as Weak<dyn Document>) {
            Ok(live) => *lock(&self.live) = Some(live),
            // LIVE-3
            Err(error) => drop(self.live_refused.set(error.to_string())),
        }
    }

    /// Starts what a store that is written needs, and ends what a crash has cut short.
    fn begin(
        checkpointer: &Arc<Checkpointer<T>>,
        catalogue: &Tree<T>,
        opening: &Opening,
        recovered: &Recovered,
    ) -> Result<Threads, OpenError> {
        if let Durability::Periodic(period) = opening.options.durability {
            checkpointer.log.sync_within(period);
        }
        if recovered.groups > 0 || recovered.log_bytes >= MOST_OWN_BYTES {
            // What was replayed is written soon, so that the next crash need not do it again; and
            // incarnations that only began leave no log behind for ever.
            checkpointer.log.want_checkpoint();
        }
        let what = "start a thread for the store in";
        let threads = Threads::start(checkpointer).map_err(|source| OpenError::Io {
            what,
            path: opening.options.path.clone(),
            source,
        })?;
        if recovered.log_bytes > 0 {
            drop_orphans(&checkpointer.pool, catalogue)?;
        }
        Ok(threads)
    }

    pub(crate) fn log(&self) -> &Log {
        &self.checkpointer.log
    }

    pub(crate) fn stamps(&self) -> &Stamps {
        &self.checkpointer.stamps
    }

    /// Waits as `durability` asks, for a change that is durable when the log is up to `lsn`.
    /// Called by a writer that has left, so that a thread that pauses writers does not wait for
    /// the device.
    #[inline]
    pub(crate) fn commit(&self, lsn: Lsn, durability: Durability) -> Result<(), StoreError> {
        match durability {
            Durability::Sync => self.await_durable(lsn),
            Durability::Periodic(_) | Durability::None => Ok(()),
        }
    }

    fn await_durable(&self, lsn: Lsn) -> Result<(), StoreError> {
        self.log().await_durable(lsn).map_err(|source| StoreError::NotDurable { source })
    }

    /// The handle of a table that exists.
    pub(crate) fn table(self: &Arc<Self>, name: &str) -> Result<Arc<TableCore<T>>, StoreError> {
        self.quiesce.check_open()?;
        let open = self.tables.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(table) = open.get(name) {
            return Ok(Arc::clone(table));
        }
        drop(open);
        let _ddl = self.ddl.lock();
        let record =
            self.record(name)?.ok_or_else(|| StoreError::NoSuchTable { name: name.to_string() })?;
        record.check_is(name, self.registry.tables().name())?;
        let space = self.pool.open_space(record.space);
        let space = space.map_err(|error| StoreError::of_pool(name, error))?;
        // Nobody has written the table since the store was opened: that needs a handle.
        let entries = self.log().entries(record.space);
        Ok(self.keep(name, Tree::open(space), entries))
    }

    /// What the catalogue says of a name.
    pub(crate) fn record(&self, name: &str) -> Result<Option<SpaceRecord>, StoreError> {
        let bytes = self.catalogue.get(name.as_bytes());
        let bytes = bytes.map_err(|error| StoreError::of(CATALOGUE, error))?;
        bytes.map(|bytes| decode_record(&bytes, &self.catalogue)).transpose()
    }

    /// All tables and structures, in the order of their names.
    pub(crate) fn records(&self) -> Result<Vec<(String, SpaceRecord)>, StoreError> {
        self.quiesce.check_open()?;
        let of_tree = |error| StoreError::of(CATALOGUE, error);
        let mut cursor = self.catalogue.cursor_first().map_err(of_tree)?;
        let mut records = Vec::new();
        while let Some((name, record)) = cursor.next().map_err(of_tree)? {
            if name == TAG_KEY {
                continue;
            }
            let record = decode_record(record, &self.catalogue)?;
            records.push((String::from_utf8_lossy(name).into_owned(), record));
        }
        Ok(records)
    }

    fn keep(self: &Arc<Self>, name: &str, tree: Tree<T>, entries: u64) -> Arc<TableCore<T>> {
        let mut open = self.tables.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        // A thread that waited for `ddl` may find that another one has opened the table.
        Arc::clone(open.entry(name.to_string()).or_insert_with(|| {
            Arc::new(TableCore {
                name: Name::new(name),
                tree,
                engine: Arc::clone(self),
                dropped: AtomicBool::new(false),
                entries: EntryCount::new(entries),
            })
        }))
    }

    pub(crate) fn drop_table(self: &Arc<Self>, name: &str) -> Result<(), StoreError> {
        let _pass = self.quiesce.enter()?;
        let table = self.table(name)?;
        let _ddl = self.ddl.lock();
        // Meanwhile it may have gone, or got another name.
        if table.name.get() != name || table.dropped.swap(true, Ordering::SeqCst) {
            return Err(StoreError::NoSuchTable { name: name.to_string() });
        }
        let removed = self.remove_record(name).inspect_err(|_| {
            table.dropped.store(false, Ordering::SeqCst);
        })?;
        self.tables.write().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(name);
        self.drop_space(table.tree.space(), removed)
    }

    /// Takes a name out of the catalogue. Gives up to where the log must be durable for that.
    pub(crate) fn remove_record(&self, name: &str) -> Result<Lsn, StoreError> {
        let removed = self.catalogue.remove(name.as_bytes());
        removed.map(|applied| applied.lsn).map_err(|error| StoreError::of(CATALOGUE, error))
    }

    /// Drops a space whose name was removed up to `removed`.
    pub(crate) fn drop_space(&self, space: &Space<T>, removed: Lsn) -> Result<(), StoreError> {
        let freed = space.drop_space();
        self.log().forget_table(space.id());
        match freed {
            // Its physical pages are free only when the log is durable: there is nothing more to
            // wait for.
            Ok(()) => Ok(()),
            // The table is gone all the same. What could not be freed no table names: the next open
            // frees it (R9).
            Err(_) => self.commit(removed, self.durability),
        }
    }

    /// Gives a table another name: in the catalogue by one batch, so that a crash leaves it with the
    /// old one or the new one, and then in memory.
    pub(crate) fn rename_table(self: &Arc<Self>, name: &str, new: &str) -> Result<(), StoreError> {
        check_name(new)?;
        let pass = self.quiesce.enter()?;
        let ddl = self.ddl.lock();
        let record =
            self.record(name)?.ok_or_else(|| StoreError::NoSuchTable { name: name.to_string() })?;
        record.check_is(name, self.registry.tables().name())?;
        let exists = || StoreError::TableExists { name: new.to_string() };
        if self.record(new)?.is_some() {
            return Err(exists());
        }
        let record = record.encode();
        let op = |key, expect, action| BatchOp { tree: &self.catalogue, key, expect, action };
        let version = self.stamps().take();
        let mut ops = [
            op(name.as_bytes(), None, BatchAction::Remove),
            op(new.as_bytes(), Some(Expected(None)), BatchAction::Insert(&record, version)),
        ];
        if new < name {
            ops.reverse();
        }
        let outcome = apply_batch(&ops).map_err(|error| StoreError::of(CATALOGUE, error))?;
        let BatchOutcome::Done { lsn, .. } = outcome else { return Err(exists()) };
        let mut open = self.tables.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(table) = open.remove(name) {
            table.name.set(new);
            open.insert(new.to_string(), table);
        }
        drop(open);
        drop((ddl, pass));
        self.commit(lsn, self.durability)
    }

    /// Handles of all tables that are open now.
    pub(crate) fn open_tables(&self) -> Vec<Arc<TableCore<T>>> {
        let open = self.tables.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        open.values().cloned().collect()
    }

    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        self.quiesce.check_open()?;
        self.await_durable(self.log().end())
    }

    pub(crate) fn checkpoint(&self) -> Result<(), StoreError> {
        self.quiesce.check_may_write()?;
        self.write_in_place()
    }

    /// The same, also where the device is an overlay and keeps it for itself.
    pub(crate) fn write_in_place(&self) -> Result<(), StoreError> {
        self.quiesce.check_open()?;
        match self.checkpointer.checkpoint(true, false) {
            Ok(true) => Ok(()),
            Ok(false) => Err(StoreError::Closed),
            Err(error) => Err(StoreError::of_pool(CATALOGUE, error)),
        }
    }

    /// Writes everything down and marks the file clean. No thread can use the store afterwards.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        // WAIT-1: in a waker, reads may be under way that this thread alone can end.
        if waits::refuses() {
            return Err(StoreError::Io { source: PoolError::WouldWait.into() });
        }
        self.quiesce.close()?;
        // Readers among what they do end with pages that are there still.
        #[cfg(feature = "async")]
        self.helpers.stop();
        self.shrinker.close();
        self.warm.stop();
        self.warm.save_at_close(&self.pool);
        let live = lock(&self.live).take();
        drop(live);
        let written = if self.quiesce.is_read_only() { Ok(()) } else { self.write_down() };
        match &written {
            Ok(()) => event!(info, "store closed"),
            Err(error) => event!(error, error = error, "store closed, and not written down"),
        }
        // A reader that came before may still want pages, which the next process may soon change.
        self.pool.end_reads();
        lock(&self.directory).take();
        // Handles of tables keep the engine, and the engine keeps them.
        self.tables.write().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
        lock(&self.hosted).clear();
        written
    }

    fn write_down(&self) -> Result<(), StoreError> {
        let threads = lock(&self.threads).take();
        threads.iter().for_each(|threads| threads.log.stop_checkpoints());
        let written = self.checkpointer.checkpoint(true, true);
        drop(threads);
        written.map(drop).map_err(|error| StoreError::of_pool(CATALOGUE, error))
    }
}

impl<T: Variant> Engine<T> {
    pub(crate) fn create_table(
        self: &Arc<Self>,
        name: &str,
    ) -> Result<Arc<TableCore<T>>, StoreError> {
        let _pass = self.quiesce.enter()?;
        let _ddl = self.ddl.lock();
        let space = self.create_named(name, self.registry.tables(), &())?;
        Ok(self.keep(name, Tree::open(space), 0))
    }

    /// Makes an empty structure in a space of its own, and its name in the catalogue. Called by a writer
    /// that holds `ddl`.
    pub(crate) fn create_named(
        &self,
        name: &str,
        structure: &dyn Registered,
        options: &dyn Value,
    ) -> Result<Space<T>, StoreError> {
        check_name(name)?;
        if let Some(record) = self.record(name)? {
            record.check_is(name, structure.name())?;
            return Err(StoreError::TableExists { name: name.to_string() });
        }
        let of_pool = |error| StoreError::of_pool(name, error);
        let space = self.pool.create_space().map_err(of_pool)?;
        let made = structure.create(&T::wrap::<Spaces>(space.clone()), options).map_err(of_pool);
        let made = made.and_then(|()| {
            let record = SpaceRecord { space: space.id(), lodger: structure.lodger() }.encode();
            let made = self.catalogue.insert(name.as_bytes(), &record, self.stamps().take());
            made.map_err(|error| StoreError::of(name, error))
        });
        match made {
            Ok(applied) => {
                self.commit(applied.lsn, self.durability)?;
                Ok(space)
            }
            Err(error) => {
                // The first error is the one to report.
                let _ = space.drop_space();
                Err(error)
            }
        }
    }
}

impl SpaceRecord {
    /// That this is what is asked for.
    pub(crate) fn check_is(&self, name: &str, wanted: &str) -> Result<(), StoreError> {
        if self.lodger.name() == wanted {
            return Ok(());
        }
        let (found, wanted) = (self.lodger.to_string(), wanted.to_string());
        Err(StoreError::OtherStructure { name: name.to_string(), found, wanted })
    }
}

/// An open store is an event; so is what had to be recovered, which is for operators to look at.
fn tell_opened(opening: &Opening, recovered: &Recovered) {
    let (store, groups) = (opening.options.path.display(), recovered.groups);
    let torn = recovered.restored_pages;
    if groups > 0 || torn > 0 {
        event!(warn, store = store, groups = groups, torn_pages = torn, "recovered from the log");
    }
    event!(info, store = store, "store opened");
}

impl<T: Translation> OnFork for Engine<T> {
    fn forked(&self) {
        self.quiesce.set_forked();
    }
}

fn check_name(name: &str) -> Result<(), StoreError> {
    match name.len() {
        1..=MAX_TABLE_NAME_BYTES => Ok(()),
        len => Err(StoreError::TableName { len }),
    }
}

fn decode_record<T: Translation>(
    bytes: &[u8],
    catalogue: &Tree<T>,
) -> Result<SpaceRecord, StoreError> {
    SpaceRecord::decode(bytes).map_err(|what| {
        let page = polder_format::PageId::new(catalogue.space().id(), first_page());
        StoreError::of_pool(CATALOGUE, PoolError::Broken { page, what })
    })
}

fn first_page() -> polder_format::PageNo {
    polder_format::PageNo::new(1).unwrap_or(polder_format::PageNo::MAX)
}

impl<T: Translation> TableCore<T> {
    /// Readers: whether the store is open and the table there.
    #[inline(always)]
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.engine.quiesce.check_open()
    }

    #[cold]
    pub(crate) fn error(&self, error: polder_tree::TreeError) -> StoreError {
        StoreError::of(self.name.get(), error)
    }

    pub(crate) fn count(&self, effect: Effect) {
        let change = match effect {
            Effect::Added => 1,
            Effect::Removed => -1,
            Effect::Same => return,
        };
        self.entries.add(change);
    }

    pub(crate) fn add_entries(&self, entries: u64) {
        self.entries.add(entries as i64);
    }

    pub(crate) fn len(&self) -> u64 {
        self.entries.get()
    }
}
