//! How to open a store.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use polder_format::PageSize;
use polder_log::LogOptions;
use polder_pool::device::Device;
use polder_pool::replacement::ReplacementKind;
#[cfg(feature = "tiers")]
use polder_pool::{Migration, PageMoves, PoolError, Tier, TierConfig};
use polder_pool::{PoolConfig, ReadMode};
use polder_structure::Structure;

use crate::durability::Durability;
use crate::error::OptionsError;
use crate::kind::TranslationKind;
use crate::registry::{Registry, registered};

/// The budget of a new store that was given none: 256 MiB.
const DEFAULT_BUDGET: u64 = 256 << 20;
/// The limit of the log where none was given: so many times the budget, from 256 MiB to 8 GiB, as long
/// as it leaves most of the device's room to others.
const LOG_LIMIT_BUDGETS: u64 = 4;
const CHOSEN_LOG_LIMITS: (u64, u64) = (256 << 20, 8 << 30);
const LOG_PART_OF_ROOM: u64 = 8;
/// And at least so much.
const LEAST_CHOSEN_LOG_LIMIT: u64 = 64 << 20;

impl FromStr for TranslationKind {
    type Err = OptionsError;

    fn from_str(name: &str) -> Result<TranslationKind, OptionsError> {
        let found = TranslationKind::ALL.iter().copied().find(|kind| kind.name() == name);
        let name = name.to_string();
        found.ok_or(match TranslationKind::FEATURES.contains(&&*name) {
            true => OptionsError::TranslationLeftOut { name },
            false => OptionsError::Translation { name },
        })
    }
}

/// What to do if a store is there already, or is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OpenMode {
    /// Open it; make it if there is none.
    #[default]
    OpenOrCreate,
    /// Make it; an error if there is one.
    Create,
    /// Open it; an error if there is none.
    Open,
    /// Open it to read; an error if there is none. Not a byte of it is written: it may lie where
    /// nothing can be, and others may read it at the same time. A process that would write is
    /// refused meanwhile, and this opening while one has the store open.
    ///
    /// What a crash has left in the log is replayed in memory, and stays there to be recovered by
    /// the next opening that writes. What of it does not fit the memory budget goes to a temporary
    /// file without a name ([`std::env::temp_dir`]). All calls that would write answer
    /// [`StoreError::ReadOnly`](crate::StoreError::ReadOnly).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("store");
    /// use polder::{OpenMode, Options, Store, StoreError};
    /// let store = Store::open(Options::new(&path).memory_budget(16 << 20))?;
    /// store.open_table("words")?.insert(b"polder", b"land won from water")?;
    /// store.close()?;
    ///
    /// let options = Options::new(&path).mode(OpenMode::ReadOnly);
    /// let (one, other) = (Store::open(options.clone())?, Store::open(options)?);
    /// assert!(one.table("words")?.contains_key(b"polder")?);
    /// let refused = other.table("words")?.insert(b"dike", b"what keeps it dry");
    /// assert!(matches!(refused, Err(StoreError::ReadOnly)));
    /// # Ok(())
    /// # }
    /// ```
    ReadOnly,
}

/// How to open a store.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("s");
/// use polder::{Durability, Options, Store};
/// let options = Options::new(path).memory_budget(64 << 20).durability(Durability::None);
/// let store = Store::open(options)?;
/// assert_eq!(store.memory_budget(), 64 << 20);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) path: PathBuf,
    pub(crate) memory_budget: Option<u64>,
    pub(crate) page_size: Option<u32>,
    pub(crate) translation: TranslationKind,
    pub(crate) replacement: ReplacementKind,
    pub(crate) read_mode: ReadMode,
    pub(crate) prefault: bool,
    pub(crate) mode: OpenMode,
    pub(crate) durability: Durability,
    pub(crate) log_limit: Option<u64>,
    pub(crate) always_double_write: bool,
    pub(crate) progress: Option<RecoveryProgress>,
    pub(crate) registry: Registry,
    pub(crate) live_stats: bool,
    pub(crate) warm_restart: bool,
    pub(crate) miss_ratios: bool,
    #[cfg(feature = "tiers")]
    pub(crate) tiers: TierConfig,
    /// What the first tier was said to be.
    #[cfg(feature = "tiers")]
    first_tier: Option<Tier>,
}

/// A function that is told how far recovery is.
#[derive(Clone)]
pub(crate) struct RecoveryProgress(pub(crate) Arc<Progress>);

type Progress = dyn Fn(u64, u64) + Send + Sync;

impl fmt::Debug for RecoveryProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecoveryProgress")
    }
}

impl Options {
    /// The store in the directory `path`, all else as it is best for most.
    pub fn new(path: impl Into<PathBuf>) -> Options {
        Options {
            path: path.into(),
            memory_budget: None,
            page_size: None,
            translation: TranslationKind::default(),
            replacement: ReplacementKind::default(),
            read_mode: ReadMode::default(),
            prefault: false,
            mode: OpenMode::default(),
            durability: Durability::default(),
            log_limit: None,
            always_double_write: false,
            progress: None,
            registry: Registry::default(),
            live_stats: true,
            warm_restart: true,
            miss_ratios: true,
            #[cfg(feature = "tiers")]
            tiers: TierConfig::default(),
            #[cfg(feature = "tiers")]
            first_tier: None,
        }
    }

    /// Memory for everything that the store keeps of its data, in bytes: at least
    /// [`Options::least_memory_budget`]. By default what the store was made with; for a new one
    /// 256 MiB.
    ///
    /// Beside it stand the stacks of threads, a few KiB for each open table, the kernel's page
    /// tables, 2 MiB once pages that lie one behind the other were read, while a batch is applied its
    /// records, of at most a quarter of the budget, and as much while many vectors are loaded into a
    /// collection by runs, with 64 bytes for each of its vectors at most.
    ///
    /// ```
    /// use polder::Options;
    /// let options = Options::new("store").memory_budget(64 << 20);
    /// assert!(options.validate().is_ok());
    /// assert!(Options::new("store").memory_budget(1000).validate().is_err());
    /// ```
    pub fn memory_budget(mut self, bytes: u64) -> Options {
        self.memory_budget = Some(bytes);
        self
    }

    /// Memory in tiers, the fastest first, at most four: frames in fast memory, in slower memory (that of
    /// another socket, or CXL memory, which are nodes), and then the device. What is used comes up from
    /// tier to tier, what is not goes down, without the kernel ([`Options::migration`]).
    ///
    /// The bytes of the first tier are the [memory budget](Options::memory_budget), which pays for all
    /// that the store must know of the pages in every tier; those of the others are for pages alone. With
    /// the translations `direct` and `vm-huge` there is one tier. With `vm` a page has one address, and it
    /// is the kernel that moves the memory behind it ([`Options::page_moves`]): from node to node, so that
    /// either each tier has a node or, for experiments on a machine with one, none.
    ///
    /// ```
    /// use polder::{Options, Tier};
    /// let near = Tier::new(64 << 20).on_node(0);
    /// let far = Tier::new(256 << 20);
    /// let options = Options::new("store").tiers([near, far]);
    /// assert!(options.validate().is_ok());
    /// assert!(options.tiers([near, Tier::new(1000)]).validate().is_err());
    /// ```
    #[cfg(feature = "tiers")]
    pub fn tiers(mut self, tiers: impl IntoIterator<Item = Tier>) -> Options {
        let mut tiers = tiers.into_iter();
        self.first_tier = tiers.next();
        self.tiers.first_node = self.first_tier.and_then(|first| first.node);
        self.tiers.slower = tiers.collect();
        self.memory_budget = self.first_tier.map(|first| first.bytes).or(self.memory_budget);
        self
    }

    /// With which probabilities pages go from tier to tier; of use where there are several. Without
    /// this the store finds them out, and goes on finding them out while it runs: by how much longer an
    /// access to a slower tier takes, what a page from the device costs, and the move of a page.
    /// `Stats` says what they are.
    ///
    /// ```
    /// use polder::{Migration, Options, Tier};
    /// let options = Options::new("store").tiers([Tier::new(64 << 20), Tier::new(64 << 20)]);
    /// let always = Migration { read_promotes: 1.0, ..Migration::default() };
    /// assert!(options.clone().migration(always).validate().is_ok());
    /// let never_ever = Migration { read_promotes: -1.0, ..always };
    /// assert!(options.migration(never_ever).validate().is_err());
    /// ```
    #[cfg(feature = "tiers")]
    pub fn migration(mut self, migration: Migration) -> Options {
        self.tiers.migration = Some(migration);
        self
    }

    /// How the kernel is asked to move pages from tier to tier, with the translation `vm`; no other asks it.
    ///
    /// ```
    /// use polder::{Options, PageMoves, Tier};
    /// let options = Options::new("store").tiers([Tier::new(64 << 20), Tier::new(64 << 20)]);
    /// let few = PageMoves { batch: 16, ..PageMoves::default() };
    /// assert!(options.clone().page_moves(few).validate().is_ok());
    /// assert!(options.page_moves(PageMoves { batch: 0, ..few }).validate().is_err());
    /// ```
    #[cfg(feature = "tiers")]
    pub fn page_moves(mut self, page_moves: PageMoves) -> Options {
        self.tiers.page_moves = page_moves;
        self
    }

    /// Size of all pages of a new store, in bytes: a power of two from 4096 to 65536, by default
    /// 4096. An existing store keeps its own; asking it for another is an error.
    ///
    /// ```
    /// use polder::Options;
    /// assert!(Options::new("store").page_size(16 << 10).validate().is_ok());
    /// assert!(Options::new("store").page_size(5000).validate().is_err());
    /// ```
    pub fn page_size(mut self, bytes: u32) -> Options {
        self.page_size = Some(bytes);
        self
    }

    /// How a page id becomes a frame; [`TranslationKind::Array`] by default. Nothing on disk
    /// depends on it.
    ///
    /// ```
    /// use polder::{Options, TranslationKind};
    /// let options = Options::new("store").translation("array".parse()?);
    /// # let _ = options.translation(TranslationKind::Array);
    /// # Ok::<(), polder::OptionsError>(())
    /// ```
    pub fn translation(mut self, translation: TranslationKind) -> Options {
        self.translation = translation;
        self
    }

    /// Which pages go when room is needed; [`ReplacementKind::S3Fifo`] by default.
    ///
    /// ```
    /// use polder::{Options, ReplacementKind};
    /// let options = Options::new("store").replacement(ReplacementKind::TwoQueues);
    /// # assert!(options.validate().is_ok());
    /// ```
    pub fn replacement(mut self, replacement: ReplacementKind) -> Options {
        self.replacement = replacement;
        self
    }

    /// How readers take the pages of their way; [`ReadMode::Optimistic`] by default. Not every mode
    /// goes with every translation ([`TranslationKind::why_not`]). By groups of cores, a group is all cores that
    /// are online and share their last cache, or at most so many of them ([`ReadMode::GroupOf`],
    /// [`ReadMode::CopyOf`]).
    ///
    /// ```
    /// use polder::{Options, ReadMode};
    /// let options = Options::new("store").read_mode(ReadMode::Shared);
    /// # assert!(options.validate().is_ok());
    /// ```
    pub fn read_mode(mut self, read_mode: ReadMode) -> Options {
        self.read_mode = read_mode;
        self
    }

    /// Whether to have the kernel back the whole budget with memory when the store is opened, and
    /// not as it is used; by default not.
    ///
    /// ```
    /// use polder::Options;
    /// let options = Options::new("store").memory_budget(64 << 20).prefault(true);
    /// # assert!(options.validate().is_ok());
    /// ```
    pub fn prefault(mut self, prefault: bool) -> Options {
        self.prefault = prefault;
        self
    }

    /// What to do if a store is there already, or is not.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("s");
    /// use polder::{OpenError, OpenMode, Options, Store};
    /// let found = Store::open(Options::new(path).mode(OpenMode::Open));
    /// assert!(matches!(found, Err(OpenError::NotFound { .. })));
    /// ```
    pub fn mode(mut self, mode: OpenMode) -> Options {
        self.mode = mode;
        self
    }

    /// When writes are durable; [`Durability::Sync`] by default. Each write can choose for itself
    /// ([`Table::with_durability`](crate::Table::with_durability)).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use polder::{Durability, Options};
    /// let tenth = Duration::from_millis(100);
    /// let options = Options::new("store").durability(Durability::Periodic(tenth));
    /// # assert!(options.validate().is_ok());
    /// ```
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// Most bytes that the log takes on the device, now and by default later, at least 4 MiB and never
    /// more than 1 TiB. The longer the log, the less often pages are written, and the longer a
    /// recovery reads, which is half of it or a little more.
    ///
    /// Of a store that was given none it is chosen each time that the store is opened: four times the
    /// memory budget, at least 256 MiB and at most 8 GiB, but no more than an eighth of the room that
    /// the device has (and at least 64 MiB). Checkpoints come earlier then if there is less data:
    /// when the log is twice as long as what they may have to write.
    ///
    /// ```
    /// use polder::Options;
    /// assert!(Options::new("store").log_limit(1 << 30).validate().is_ok());
    /// assert!(Options::new("store").log_limit(1 << 20).validate().is_err());
    /// ```
    pub fn log_limit(mut self, bytes: u64) -> Options {
        self.log_limit = Some(bytes);
        self
    }

    /// Whether pages are written twice, so that a loss of power can tear none for good, even where the
    /// device says that it writes each page as a whole; by default they are not there. (On Linux that
    /// is what the kernel says of a disk's logical blocks. Where pages are larger than those, or
    /// nothing is known, they are always written twice.)
    ///
    /// ```
    /// use polder::Options;
    /// let options = Options::new("store").always_double_write(true);
    /// # assert!(options.validate().is_ok());
    /// ```
    pub fn always_double_write(mut self, always: bool) -> Options {
        self.always_double_write = always;
        self
    }

    /// Calls `progress` while the log is replayed that a crash has left: bytes done, and bytes in
    /// all.
    ///
    /// ```
    /// use polder::Options;
    /// let options = Options::new("store").on_recovery(|done, all| eprintln!("{done} of {all} bytes"));
    /// # assert!(options.validate().is_ok());
    /// ```
    pub fn on_recovery(mut self, progress: impl Fn(u64, u64) + Send + Sync + 'static) -> Options {
        self.progress = Some(RecoveryProgress(Arc::new(progress)));
        self
    }

    /// Lets the store host structures of a kind of one's own, beside its tables
    /// ([`structure`](crate::structure)). A store that holds one can be opened without, too: what is in
    /// it stays as it is, unless a crash has left changes in the log that only the structure can do
    /// again.
    pub fn structure<S: Structure>(mut self) -> Options {
        self.registry.add(registered::<S>());
        self
    }

    /// Whether other processes may ask for the store's figures while it is open ([`live_stats`],
    /// `polder stat --live`): by a socket `stats` in its directory, for whoever may read the store;
    /// by default they may. It takes a thread, which sleeps until somebody asks, and three file
    /// descriptors. A store that is open to read has none.
    ///
    /// [`live_stats`]: crate::live_stats
    pub fn live_stats(mut self, live_stats: bool) -> Options {
        self.live_stats = live_stats;
        self
    }

    /// Whether the store is warm soon after it is opened; by default it is. When it is closed, and every
    /// five minutes in which much was loaded, it writes a list of the pages that are in memory to the
    /// file `resident` of its directory. When it is opened a thread loads these again, in the order in
    /// which they lie in the file, into memory that nobody has used by then; where the budget has become
    /// smaller, the hottest of them. While others read from the device they have half of its time.
    ///
    /// A list that is damaged is not used, and no error. A store that is open to read writes none; one
    /// that was opened on devices of one's own has none. [`Store::prewarm`](crate::Store::prewarm) loads
    /// the list for a caller that waits for it, also where this is off.
    ///
    /// ```
    /// use polder::Options;
    /// // For a program that looks up a few keys and ends.
    /// let options = Options::new("store").warm_restart(false);
    /// # assert!(options.validate().is_ok());
    /// ```
    pub fn warm_restart(mut self, warm_restart: bool) -> Options {
        self.warm_restart = warm_restart;
        self
    }

    /// Whether the store finds out how often accesses would miss with more memory and with less
    /// ([`PoolStats::miss_ratios`](crate::PoolStats), `polder stat --mrc`); by default it does. It hears of the
    /// accesses to one page in 128, or fewer; those to other pages take not one instruction more. Memory
    /// for it, 3 bytes of the budget for each page in memory, is taken all the same where there are too
    /// few pages for it.
    ///
    /// ```
    /// use polder::Options;
    /// let options = Options::new("store").miss_ratios(false);
    /// # assert!(options.validate().is_ok());
    /// ```
    #[cfg(feature = "miss-ratios")]
    pub fn miss_ratios(mut self, miss_ratios: bool) -> Options {
        self.miss_ratios = miss_ratios;
        self
    }

    /// The least memory budget in bytes for pages of `page_size` bytes (the nearest allowed size).
    ///
    /// ```
    /// use polder::Options;
    /// let least = Options::least_memory_budget(4096);
    /// assert!(Options::new("store").memory_budget(least).validate().is_ok());
    /// assert!(Options::new("store").memory_budget(least - 1).validate().is_err());
    /// ```
    pub fn least_memory_budget(page_size: u32) -> u64 {
        let size = page_size.clamp(4096, 65536).next_power_of_two();
        PageSize::new(size)
            .map_or(0, |size| PoolConfig::least_budget(size) + LogOptions::buffer_for(0, size))
    }

    /// Whether the options are possible.
    ///
    /// # Errors
    /// Which is not, and what it may be.
    pub fn validate(&self) -> Result<(), OptionsError> {
        if self.path.as_os_str().is_empty() {
            return Err(OptionsError::Path);
        }
        let page_size = self.page_size.unwrap_or(PageSize::MIN.bytes() as u32);
        PageSize::new(page_size).map_err(|_| OptionsError::PageSize { bytes: page_size })?;
        let (read_mode, translation) = (self.read_mode, self.translation);
        if let Some(why) = translation.why_not(read_mode) {
            return Err(OptionsError::ReadMode { read_mode, translation, why });
        }
        self.registry.validate()?;
        #[cfg(feature = "tiers")]
        self.validate_tiers(page_size)?;
        if let Some(given) = self.log_limit.filter(|limit| *limit < LogOptions::LEAST_LIMIT) {
            return Err(OptionsError::LogLimit { given, least: LogOptions::LEAST_LIMIT });
        }
        if let Some(given) = self.memory_budget {
            let least = Self::least_memory_budget(page_size);
            if given < least {
                return Err(OptionsError::Budget { given, least, page_size });
            }
        }
        Ok(())
    }

    #[cfg(feature = "tiers")]
    fn validate_tiers(&self, page_size: u32) -> Result<(), OptionsError> {
        let refuse = |what: String| Err(OptionsError::Tiers { what });
        let by_address = self.translation.has_addresses().then(|| self.tiers.why_not_by_address());
        let why = self.translation.why_no_tiers().or(by_address.flatten());
        if let Some(why) = why.filter(|_| !self.tiers.is_one()) {
            return refuse(format!("not with the translation `{}`: {why}", self.translation));
        }
        if self.first_tier.is_some_and(|first| !first.simulated_latency.is_zero()) {
            return refuse("the first one is the fastest: it cannot have a latency".to_owned());
        }
        let size =
            PageSize::new(page_size).map_err(|_| OptionsError::PageSize { bytes: page_size })?;
        self.tiers.validate(size).map_err(|error| match error {
            PoolError::Tiers { what } => OptionsError::Tiers { what },
            error => OptionsError::Tiers { what: error.to_string() },
        })
    }

    pub(crate) fn new_page_size(&self) -> Result<PageSize, OptionsError> {
        let bytes = self.page_size.unwrap_or(PageSize::MIN.bytes() as u32);
        PageSize::new(bytes).map_err(|_| OptionsError::PageSize { bytes })
    }

    pub(crate) fn new_budget(&self, size: PageSize) -> u64 {
        let least = Self::least_memory_budget(size.bytes() as u32);
        self.memory_budget.unwrap_or(DEFAULT_BUDGET.max(least))
    }
}

/// The limit of a log on this device of a store that was given none.
pub(crate) fn chosen_log_limit(memory_budget: u64, log: &dyn Device) -> u64 {
    let (least, most) = CHOSEN_LOG_LIMITS;
    let wanted = memory_budget.saturating_mul(LOG_LIMIT_BUDGETS).clamp(least, most);
    let room = log.free_bytes().map_or(u64::MAX, |free| free + log.len().unwrap_or(0));
    wanted.min(room / LOG_PART_OF_ROOM).max(LEAST_CHOSEN_LOG_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_options_are_refused_by_name() {
        let ok = Options::new("x");
        assert!(ok.validate().is_ok());
        assert!(matches!(Options::new("").validate(), Err(OptionsError::Path)));
        for bytes in [0, 5000, 2048, 131_072] {
            let bad = ok.clone().page_size(bytes).validate();
            assert!(matches!(bad, Err(OptionsError::PageSize { .. })));
        }
        let least = Options::least_memory_budget(8192);
        let tight = ok.clone().page_size(8192).memory_budget(least);
        assert!(tight.validate().is_ok());
        let bad = tight.memory_budget(least - 1).validate();
        assert!(matches!(bad, Err(OptionsError::Budget { .. })));
        assert_eq!("direct".parse::<TranslationKind>().unwrap(), TranslationKind::Direct);
        let unknown = "hush".parse::<TranslationKind>().unwrap_err().to_string();
        for kind in TranslationKind::ALL {
            assert!(unknown.contains(&format!(" {kind}")), "{unknown} does not list {kind}");
        }
    }
}
