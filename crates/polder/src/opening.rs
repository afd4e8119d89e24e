//! Opening a store on its two devices: a recovery, or making a new store.

use std::io;
use std::sync::Arc;

use polder_format::{ChecksumSeed, FormatError, Lsn, PageId, SpaceId, Superblock};
use polder_log::{
    DataDevice, Log, LogError, LogFile, LogOptions, Progress, Recovered, recover_catalogue,
    recover_maps, recover_pages,
};
use polder_pool::device::Device;
use polder_pool::{FileState, Pool, PoolConfig, PoolError, Sampling, Translation, lock};
use polder_tree::Tree;

use crate::catalogue::{SpaceRecord, TAG_KEY};
use crate::checkpointer::Checkpointer;
use crate::directory::Hold;
#[cfg(feature = "tiers")]
use crate::error::OptionsError;
use crate::error::{CATALOGUE, OpenError, StoreError};
use crate::file::write_superblocks;
use crate::options::{OpenMode, Options, chosen_log_limit};
use crate::stamps::Stamps;

/// The part of the memory budget that the records of one batch may take.
const BATCH_PART: u64 = 4;

/// What opening needs to know.
pub(crate) struct Opening {
    pub(crate) options: Options,
    /// Memory for everything, in bytes: that of the options, or what the store was made with.
    pub(crate) memory_budget: u64,
    /// Of a store that is opened to read the devices are overlays.
    pub(crate) data: Arc<dyn Device>,
    pub(crate) log: Arc<dyn Device>,
    pub(crate) superblock: Superblock,
    pub(crate) superblock_damage: Option<FormatError>,
    pub(crate) is_new: bool,
    pub(crate) directory: Option<Hold>,
}

/// A store that is ready to be used, but for its threads.
pub(crate) struct Opened<T: Translation> {
    pub(crate) checkpointer: Checkpointer<T>,
    pub(crate) catalogue: Tree<T>,
    pub(crate) opening: Opening,
    pub(crate) recovered: Recovered,
}

impl Opening {
    /// Whether nothing is told to others, and nothing is written afterwards.
    pub(crate) fn is_read_only(&self) -> bool {
        self.options.mode == OpenMode::ReadOnly
    }

    fn log_options(&self) -> LogOptions {
        let chosen = self.superblock.log_limit == 0;
        let limit = match self.superblock.log_limit {
            0 => chosen_log_limit(self.memory_budget, &*self.log),
            given => given,
        };
        LogOptions {
            limit,
            chosen,
            always_double_write: self.options.always_double_write,
            buffer_bytes: LogOptions::buffer_for(self.memory_budget, self.superblock.page_size),
            group_bytes: self.memory_budget / BATCH_PART,
        }
    }

    fn pool<T: Translation>(&self, log: &Arc<Log>) -> Result<Pool<T>, OpenError> {
        let superblock = &self.superblock;
        let config = PoolConfig {
            memory_budget: self.memory_budget - self.log_options().buffer_bytes,
            page_size: superblock.page_size,
            prefault: self.options.prefault,
            seed: ChecksumSeed::new(superblock.store_id),
            file: FileState {
                space_directory: superblock.space_directory,
                next_space: superblock.next_space,
                file_pages: superblock.file_pages,
            },
            journal: Some(Arc::clone(log) as _),
            replacement: self.options.replacement,
            read_mode: self.options.read_mode,
            miss_ratios: if self.options.miss_ratios { Sampling::On } else { Sampling::Off },
            #[cfg(feature = "tiers")]
            tiers: self.options.tiers.clone(),
            #[cfg(not(feature = "tiers"))]
            tiers: Default::default(),
        };
        let kinds = self.options.registry.kinds();
        let opened = Pool::open(Box::new(DataDevice::new(log)), &config, &kinds);
        opened.map_err(|error| match error {
            #[cfg(feature = "tiers")]
            PoolError::Tiers { what } => OptionsError::Tiers { what }.into(),
            // Without slower tiers it was compared before.
            #[cfg(feature = "tiers")]
            PoolError::Budget { least, .. } if !config.tiers.slower.is_empty() => {
                let least = least + self.log_options().buffer_bytes;
                let what = format!(
                    "{} bytes of the first are too few to know of the pages in all: at least {least}",
                    self.memory_budget
                );
                OptionsError::Tiers { what }.into()
            }
            error => of_pool(error),
        })
    }

    fn log_error(&self, error: polder_log::LogError) -> OpenError {
        OpenError::Log { path: self.options.path.clone(), source: error.into() }
    }

    fn io<'a>(&'a self, what: &'static str) -> impl Fn(io::Error) -> OpenError + 'a {
        move |source| OpenError::Io { what, path: self.options.path.clone(), source }
    }

    pub(crate) fn open<T: Translation>(self) -> Result<Opened<T>, OpenError> {
        if self.is_new { self.make() } else { self.reopen() }
    }

    /// A new store. It is one when its superblocks are there, which are written last.
    fn make<T: Translation>(mut self) -> Result<Opened<T>, OpenError> {
        let (id, size, options) =
            (self.superblock.store_id, self.superblock.page_size, self.log_options());
        let file = LogFile::create(Arc::clone(&self.log), id, size, &options);
        let file = file.map_err(|error| self.log_error(error))?;
        let start = Lsn(polder_format::log::LOG_BLOCK_BYTES as u64);
        let log = file.begin(Arc::clone(&self.data), size, options, self.superblock.incarnation);
        let log = log.map_err(|error| self.log_error(error))?;
        let pool: Pool<T> = self.pool(&log)?;
        let made = Tree::create(pool.create_space().map_err(of_pool)?);
        let catalogue = made.map_err(|error| StoreError::of(CATALOGUE, error))?;
        log.flush().map_err(|source| of_pool(PoolError::Journal { source }))?;
        self.superblock.redo_start = start;
        self.superblock.durable = log.durable();
        let stamps = Stamps::new(self.superblock.next_version);
        let checkpointer = Checkpointer::new(pool, log, self.superblock.clone(), stamps);
        self.mark_open(&checkpointer)?;
        // From here on the log tells that the store was made, whatever becomes of the superblocks.
        let end = checkpointer.log.durable();
        checkpointer.log.end_recovery(end).map_err(|error| self.log_error(error))?;
        Ok(Opened { checkpointer, catalogue, opening: self, recovered: Recovered::default() })
    }

    /// Opens the log that there is, and does again what it tells. Of two valid superblocks the
    /// newer one was read before (`file::look`).
    fn reopen<T: Translation>(mut self) -> Result<Opened<T>, OpenError> {
        // R1: the log's header, and those of its segments.
        let file = LogFile::open(Arc::clone(&self.log), self.superblock.store_id);
        let file = file.map_err(|error| self.log_error(error))?;
        let report = self.options.progress.take();
        let tell = |done: u64, total: u64| {
            if let Some(report) = &report {
                (report.0)(done, total);
            }
        };
        // R2: read groups from where replay begins to the first position without a valid one: the
        //     end.
        // R3: look ahead, as far as a window and a ring behind it, for groups that know better: if
        //     more was durable, a part of the log is missing.
        let found = file.find_end(&self.superblock, &mut |read| tell(read, 2 * read));
        let found = found.map_err(|error| self.log_error(error))?;
        self.superblock.incarnation = self.superblock.incarnation.max(found.incarnation) + 1;
        let mut recovered = Recovered::default();
        let again = file.again().map_err(|error| self.log_error(error))?;
        // R4: sync the log: what was read may only be in a cache of the device.
        // R5: restore what is torn in place from the double-write buffer; sync the data file.
        let log = found
            .open(
                file,
                Arc::clone(&self.data),
                self.superblock.page_size,
                self.log_options(),
                self.superblock.incarnation,
                &mut recovered,
            )
            .map_err(|error| self.log_error(error))?;
        let pool: Pool<T> = self.pool(&log)?;
        let mut progress = |at: Progress| tell(at.done, at.total);
        // R6: first the records of the maps, in order: they tell where all other pages lie.
        recover_maps(&again, &found, &pool, &mut recovered)
            .map_err(|error| self.log_error(error))?;
        // R7: then all other records, dealt to threads by page. Spaces and pages that the maps do
        //     not name are left out. Where structures are registered those of the catalogue come
        //     before: it tells whether one of them would redo what another one has logged.
        // R8: a page that cannot be read, or does not fit its record, is suspect: its records are
        //     skipped until one brings its full-page image, or it turns out that the page is free.
        //     Suspects that are left are damage: an error.
        //     (Or they belong to a structure that is not registered.)
        if self.options.registry.has_others() {
            recover_catalogue(&again, &found, &pool, &mut recovered)
                .map_err(|error| self.log_error(error))?;
            self.check_kinds(&pool)?;
        }
        recover_pages(&again, &found, &pool, &mut recovered, &mut progress).map_err(|error| {
            let unregistered = page_of(&error).and_then(|page| self.unregistered(&pool, page));
            unregistered.unwrap_or_else(|| self.log_error(error))
        })?;
        self.superblock.durable = self.superblock.durable.max(found.end);
        let next_version = self.superblock.next_version.max(found.next_version);
        let stamps = Stamps::of_life(self.superblock.incarnation, next_version);
        let checkpointer = Checkpointer::new(pool.clone(), log, self.superblock.clone(), stamps);
        // R10: a new incarnation into both superblocks; then the end-of-recovery record. (R9 comes
        //      behind it, when the store's threads run: `drop_orphans`.) One that only reads does
        //      neither: the next one finds what this one has found.
        if !self.is_read_only() {
            self.mark_open(&checkpointer)?;
            checkpointer.log.end_recovery(found.end).map_err(|error| self.log_error(error))?;
        }
        let catalogue = catalogue_of(&pool)?;
        Ok(Opened { checkpointer, catalogue, opening: self, recovered })
    }

    /// Whether no structure that is registered is taken for one that is in the store.
    fn check_kinds<T: Translation>(&self, pool: &Pool<T>) -> Result<(), OpenError> {
        for (name, record) in entries(&catalogue_of(pool)?)? {
            let Ok(SpaceRecord { lodger, .. }) = record else { continue };
            if let Some((kind, registered)) = self.options.registry.clash(&lodger) {
                let (path, structure) = (self.options.path.clone(), lodger.to_string());
                let registered = registered.to_string();
                return Err(OpenError::KindTaken { path, name, structure, kind, registered });
            }
        }
        Ok(())
    }

    /// The error of a page that the log does not fit, if it is one of a structure that is not
    /// registered.
    fn unregistered<T: Translation>(&self, pool: &Pool<T>, page: PageId) -> Option<OpenError> {
        let mut entries = entries(&catalogue_of(pool).ok()?).ok()?.into_iter();
        let (name, structure) = entries.find_map(|(name, record)| match record {
            Ok(SpaceRecord { space, lodger }) if space == page.space() => {
                Some((name, lodger.to_string()))
            }
            _ => None,
        })?;
        let is_unknown = self.options.registry.find(&structure).is_none();
        is_unknown.then(|| OpenError::Unregistered {
            path: self.options.path.clone(),
            name,
            structure,
        })
    }

    /// R10: from here on the file may hold less than what was written to the store.
    fn mark_open<T: Translation>(&self, checkpointer: &Checkpointer<T>) -> Result<(), OpenError> {
        let mut superblock = lock(&checkpointer.superblock);
        superblock.clean = false;
        if self.is_new {
            checkpointer.describe(&mut superblock);
        }
        write_superblocks(checkpointer.pool.device(), &mut superblock)
            .map_err(self.io("write the superblock of the store in"))
    }
}

/// Ends what making or dropping a table has begun. The threads of the store are running: the log
/// may be full, and need a checkpoint.
pub(crate) fn drop_orphans<T: Translation>(
    pool: &Pool<T>,
    catalogue: &Tree<T>,
) -> Result<(), OpenError> {
    // R9: drop spaces that no table and no structure names. If a record cannot be understood nothing
    //     is dropped.
    let mut known = vec![SpaceId::CATALOGUE];
    for (_, record) in entries(catalogue)? {
        // A table that this version cannot open is no orphan; which space it has, nobody knows.
        let Ok(record) = record else { return Ok(()) };
        known.push(record.space);
    }
    for space in pool.spaces().map_err(of_pool)? {
        if known.contains(&space) {
            continue;
        }
        match pool.open_space(space).and_then(|space| space.drop_space()) {
            // There is no room in the log for that: the next open will try it again.
            Err(PoolError::Journal { .. }) => return Ok(()),
            dropped => dropped.map_err(of_pool)?,
        }
    }
    Ok(())
}

/// The page that the log does not fit.
fn page_of(error: &LogError) -> Option<PageId> {
    match error {
        LogError::Pool(PoolError::Broken { page, .. } | PoolError::Corrupt { page, .. }) => {
            Some(*page)
        }
        _ => None,
    }
}

fn catalogue_of<T: Translation>(pool: &Pool<T>) -> Result<Tree<T>, OpenError> {
    Ok(Tree::open(pool.open_space(SpaceId::CATALOGUE).map_err(of_pool)?))
}

/// A name, and what the catalogue says of it.
type Entry = (String, Result<SpaceRecord, &'static str>);

/// What the catalogue says, name by name.
fn entries<T: Translation>(catalogue: &Tree<T>) -> Result<Vec<Entry>, OpenError> {
    let of_tree = |error| OpenError::Store(StoreError::of(CATALOGUE, error));
    let mut entries = Vec::new();
    let mut cursor = catalogue.cursor_first().map_err(of_tree)?;
    while let Some((name, record)) = cursor.next().map_err(of_tree)? {
        if name != TAG_KEY {
            let name = String::from_utf8_lossy(name).into_owned();
            entries.push((name, SpaceRecord::decode(record)));
        }
    }
    Ok(entries)
}

fn of_pool(error: PoolError) -> OpenError {
    OpenError::Store(StoreError::of_pool(CATALOGUE, error))
}

#[cfg(test)]
mod tests {
    use polder_testkit::{FaultPlan, SimDisk};

    use crate::any::Any;
    use crate::{Options, Store};

    fn open(data: &SimDisk, log: &SimDisk) -> Store {
        let options = Options::new("simulated").memory_budget(8 << 20);
        Store::open_on(Box::new(data.clone()), Box::new(log.clone()), options).unwrap()
    }

    fn spaces(store: &Store) -> usize {
        let Any::Array(engine) = &store.engine;
        engine.pool.spaces().unwrap().len()
    }

    /// What a newer version of Polder wrote is not taken for what a crash left.
    #[test]
    fn a_table_that_cannot_be_understood_is_no_orphan() {
        let [data, log] = [1, 2].map(|seed| SimDisk::new(FaultPlan::new(seed)));
        let store = open(&data, &log);
        store.create_table("known").unwrap();
        let table = store.create_table("newer").unwrap();
        table.put(b"key", b"value").unwrap();
        let Any::Array(engine) = &store.engine;
        let mut record = engine.catalogue.get(b"newer").unwrap().unwrap();
        record[0] += 1;
        engine.catalogue.insert(b"newer", &record, 1 << 40).unwrap();
        store.flush().unwrap();
        assert_eq!(spaces(&store), 3);
        let [data, log] = SimDisk::crash_all([&data, &log], 1);
        let store = open(&data, &log);
        assert!(store.recovery().groups > 0);
        assert_eq!(spaces(&store), 3);
    }
}
