//! What can go wrong, one enum for each family of operations.
//!
//! What lies beneath an error, in a layer below, is kept as its source, for people to read; its type
//! is not a part of the API.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use polder_log::ChangeTooLarge;
use polder_pool::{PoolError, ReadMode};
use polder_tree::TreeError;

use crate::kind::TranslationKind;

/// An option has a value that it cannot have.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The path is empty.
    #[error("the path of the store is empty")]
    Path,
    /// The page size is not one.
    #[error(
        "a page size of {bytes} bytes is not possible: it is a power of two from 4096 to 65536"
    )]
    PageSize {
        /// What was asked for.
        bytes: u32,
    },
    /// The budget is too small.
    #[error(
        "a memory budget of {given} bytes is too small: with pages of {page_size} bytes the least is {least} bytes"
    )]
    Budget {
        /// What was asked for.
        given: u64,
        /// The least that is possible.
        least: u64,
        /// The page size in bytes.
        page_size: u32,
    },
    /// The limit of the log is too small.
    #[error("a log of at most {given} bytes is too small: the least limit is {least} bytes")]
    LogLimit {
        /// What was asked for.
        given: u64,
        /// The least that is possible.
        least: u64,
    },
    /// Readers cannot hold pages in this way with the translation.
    #[error(
        "readers cannot hold pages by `{read_mode}` with the translation `{translation}`: {why}; use `optimistic` or `shared`, or another translation"
    )]
    ReadMode {
        /// What was asked for.
        read_mode: ReadMode,
        /// The translation that was asked for with it.
        translation: TranslationKind,
        /// Why not.
        why: &'static str,
    },
    /// Tiers of memory that cannot be.
    #[error("the store cannot have these tiers of memory: {what}")]
    Tiers {
        /// What cannot be, and what may.
        what: String,
    },
    /// There is no such translation.
    #[error("there is no translation `{name}`; there are: {}", TranslationKind::names())]
    Translation {
        /// What was asked for.
        name: String,
    },
    /// There is such a translation, but this program was built without it.
    #[error(
        "the translation `{name}` is not built in: build with the feature `{name}` of the crate `polder`; there are: {}",
        TranslationKind::names()
    )]
    TranslationLeftOut {
        /// What was asked for, and the feature that has it.
        name: String,
    },
    /// A structure cannot be registered.
    #[error("the structure `{name}` cannot be registered: {why}")]
    Structure {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The options are not possible.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// There is no store, and none is to be made.
    #[error("there is no store in {}; make one first", path.display())]
    NotFound {
        /// Where.
        path: PathBuf,
    },
    /// There is a store, and a new one is to be made.
    #[error("there is a store in {} already", path.display())]
    Exists {
        /// Where.
        path: PathBuf,
    },
    /// Another process, or another handle in this one, has the store open: to write, or to read
    /// where this one is to write.
    #[error("the store in {} is held by {process}; close it there first", path.display())]
    Locked {
        /// Where.
        path: PathBuf,
        /// The process.
        process: String,
    },
    /// The directory holds something else.
    #[error("{} is not a Polder store: {reason}; choose an empty or a new directory", path.display())]
    Foreign {
        /// Where.
        path: PathBuf,
        /// How that was seen.
        reason: String,
    },
    /// A part of a store is left, and its data file is missing or empty.
    #[error("{} holds {found}, and its file `data` is missing or empty: save what can be read with `polder salvage`, or remove the directory to make a new store there", path.display())]
    Remains {
        /// Where.
        path: PathBuf,
        /// What there is.
        found: &'static str,
    },
    /// An older version of Polder wrote it, in a format that this one does not read.
    #[error("cannot open the store in {}", path.display())]
    Older {
        /// Where.
        path: PathBuf,
        /// What is old.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A newer version of Polder wrote it.
    #[error("cannot open the store in {}", path.display())]
    Newer {
        /// Where.
        path: PathBuf,
        /// What is new.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The log file is missing.
    #[error("the store in {} has no log file: it is not whole without; put back the file `log`, or save what can be read with `polder salvage`", path.display())]
    NoLog {
        /// Where.
        path: PathBuf,
    },
    /// The log cannot be used, or tells of damage.
    #[error("cannot open the store in {}", path.display())]
    Log {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The superblocks cannot be read.
    #[error("both superblocks of the store in {} are damaged; save what can be read with `polder salvage`", path.display())]
    Damaged {
        /// Where.
        path: PathBuf,
        /// What is wrong with them.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The store has another page size than the one asked for.
    #[error("the store in {} has pages of {found} bytes, not of {asked}; leave the page size out", path.display())]
    PageSize {
        /// Where.
        path: PathBuf,
        /// What was asked for.
        asked: u32,
        /// What it has.
        found: u32,
    },
    /// The operating system refused.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Only the structure itself can do again what a crash has left in the log of it.
    #[error("the store in {} holds `{name}`, a structure `{structure}`, and its log has changes that only this structure can do again: open it once where `{structure}` is registered (`Options::structure`), and close it there", path.display())]
    Unregistered {
        /// Where.
        path: PathBuf,
        /// What the catalogue calls it.
        name: String,
        /// Which structure it is.
        structure: String,
    },
    /// A structure that was registered has a kind of pages that another one has in the store.
    #[error("the store in {} holds `{name}`, a structure `{structure}` with the kind of pages {kind}, and `{registered}` was registered for that kind: the two cannot be in one store", path.display())]
    KindTaken {
        /// Where.
        path: PathBuf,
        /// What the catalogue calls it.
        name: String,
        /// Which structure it is.
        structure: String,
        /// The number of the kind.
        kind: u8,
        /// Which structure was registered.
        registered: String,
    },
    /// The content cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an operation on an open store failed. Nothing has changed then, unless said otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is a table of this name.
    #[error("there is a table `{name}` already")]
    TableExists {
        /// Its name.
        name: String,
    },
    /// There is no table of this name.
    #[error("there is no table `{name}`")]
    NoSuchTable {
        /// Its name.
        name: String,
    },
    /// The table was dropped.
    #[error("the table `{name}` was dropped")]
    Dropped {
        /// Its name.
        name: String,
    },
    /// A table, a structure or a collection cannot have this name.
    #[error("a table's name has 1 to 255 bytes, and a collection's 1 to 247, not {len}")]
    TableName {
        /// Its length in bytes.
        len: usize,
    },
    /// The name stands for something else: a structure, or a table.
    #[error("`{name}` is a `{found}`, and not a `{wanted}`")]
    OtherStructure {
        /// The name.
        name: String,
        /// What it is.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// A collection that lacks a table, as one does whose drop was cut off.
    #[error(
        "the collection `{name}` is not whole: a table of it is missing, as after a drop that was cut off; drop it again (`Store::drop_collection`)"
    )]
    NotWhole {
        /// Its name.
        name: String,
    },
    /// The structure was not registered when the store was opened. What is in it stays as it is.
    #[error(
        "`{name}` is a structure `{structure}`, which was not registered; open the store with `Options::structure`"
    )]
    Unregistered {
        /// The name.
        name: String,
        /// Which structure it is.
        structure: String,
    },
    /// One of many keys, or ranges of them, could not be looked up or changed
    /// ([`Table::get_many`](crate::Table::get_many), [`Table::insert_many`](crate::Table::insert_many)).
    #[error("the key or range with number {index}, counted from 0, failed")]
    Key {
        /// Which key.
        index: usize,
        /// Why not.
        source: Box<StoreError>,
    },
    /// An operation of a structure ended with an error of its own.
    #[error("an operation of the structure `{name}` failed")]
    Structure {
        /// What the catalogue calls it.
        name: String,
        /// What the structure says; [`PoolError::structure_error`] tells its type.
        source: PoolError,
    },
    /// The store was closed.
    #[error("the store was closed")]
    Closed,
    /// The store was opened to read ([`OpenMode::ReadOnly`](crate::OpenMode::ReadOnly)).
    #[error("the store is open to read alone; close it and open it in another mode to write")]
    ReadOnly,
    /// This thread is in the closure of an update of the store, or in the iterator of a bulk load:
    /// what it asks for would wait for itself, or be done again whenever the closure is called
    /// again.
    #[error(
        "a store cannot be written to, closed or checked from within the closure of an update or the entries of a bulk load; do it before or behind"
    )]
    Nested,
    /// The process was forked from the one that has the store open.
    #[error(
        "the store was opened by the process that this one was forked from, and is of use there alone; open it here, when it is closed there"
    )]
    Forked,
    /// The key has too many bytes.
    #[error("a key of {len} bytes is too long: the limit is {limit} bytes, an eighth of a page")]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The value has too many bytes.
    #[error("a value of {len} bytes is too long: the limit is {limit} bytes")]
    ValueTooLong {
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        limit: u64,
    },
    /// A bulk load's input is not in ascending order.
    #[error(
        "bulk load needs ascending keys without duplicates: entry number {number} (counted from 0) is not above the one before it"
    )]
    NotSorted {
        /// Which entry, counted from 0.
        number: u64,
    },
    /// A bulk load into a table that has entries.
    #[error("bulk load needs an empty table, and `{name}` has entries")]
    NotEmpty {
        /// Its name.
        name: String,
    },
    /// The list of the pages that were in memory cannot be used, or not be written. The store needs
    /// none, and writes one anew when it is closed.
    #[error("the list of resident pages (the file `resident` of the store) cannot be used")]
    ResidentList {
        /// Why not.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The disk is full.
    #[error("there is no room for more data; free some space and try again")]
    Full {
        /// What was to grow.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// All frames are in use, or the data does not fit a translation that never evicts.
    #[error("no memory of the store is left")]
    PoolExhausted {
        /// By what.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A batch changes more pages than one may hold at the same time. Nothing was changed.
    #[error(
        "the batch changes at least {needed} pages, and {limit} are the most that one may hold at a time: half of those that the memory budget pays for; make smaller batches, or the option `memory_budget` larger"
    )]
    BatchTooLarge {
        /// How many pages it changes, at least.
        needed: usize,
        /// How many pages it may change.
        limit: usize,
    },
    /// A batch, or another change that is logged as a whole, takes more of the log at once than it
    /// may. Nothing was changed.
    #[error(
        "the change takes {needed} bytes of log at once: a quarter of the log's limit permits {by_log} (option `log_limit`), a quarter of the memory budget {by_memory} (option `memory_budget`); make smaller batches, or the option that permits less larger"
    )]
    ChangeTooLarge {
        /// Bytes of log that it takes.
        needed: u64,
        /// Bytes that the log's limit permits.
        by_log: u64,
        /// Bytes that the memory budget permits.
        by_memory: u64,
    },
    /// The change was made, but it may not outlive this process: the log cannot be written. So it
    /// is for all writes from now on, until the store is opened again.
    #[error("the change may not be durable; open the store again, and look whether it is there")]
    NotDurable {
        /// What went wrong.
        source: Arc<io::Error>,
    },
    /// The log cannot take the change.
    #[error("the change cannot be logged")]
    Log {
        /// Why.
        source: Arc<io::Error>,
    },
    /// A page is not what was written.
    #[error("table `{table}` is damaged")]
    Corrupt {
        /// The table.
        table: String,
        /// Which page, and how.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The device failed, or the system has no memory or addresses to give.
    #[error("the data file cannot be used")]
    Io {
        /// What was tried, where, and what the system said.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// The table that an error of the catalogue speaks of.
pub(crate) const CATALOGUE: &str = "(catalogue)";

impl StoreError {
    /// An error of a tree, in the words of the table that it belongs to.
    pub(crate) fn of(table: &str, error: TreeError) -> StoreError {
        let name = || table.to_string();
        match error {
            TreeError::KeyTooLong { len, limit } => StoreError::KeyTooLong { len, limit },
            TreeError::ValueTooLong { len } => {
                StoreError::ValueTooLong { len, limit: polder_tree::node::MAX_VALUE_BYTES }
            }
            TreeError::NotSorted { number } => StoreError::NotSorted { number },
            TreeError::NotEmpty => StoreError::NotEmpty { name: name() },
            TreeError::BatchTooLarge { needed, limit } => {
                StoreError::BatchTooLarge { needed, limit }
            }
            TreeError::Pool(error) => StoreError::of_pool(table, error),
            // An error that is new in the tree says what it is itself.
            other => StoreError::Io { source: Box::new(other) },
        }
    }

    fn of_log(source: Arc<io::Error>) -> StoreError {
        match source.get_ref().and_then(|error| error.downcast_ref::<ChangeTooLarge>()) {
            Some(&ChangeTooLarge { needed, by_log, by_memory }) => {
                StoreError::ChangeTooLarge { needed, by_log, by_memory }
            }
            None => StoreError::Log { source },
        }
    }

    pub(crate) fn of_pool(table: &str, error: PoolError) -> StoreError {
        let table = || table.to_string();
        match error {
            PoolError::Full { .. } => StoreError::Full { source: error.into() },
            PoolError::Exhausted { .. }
            | PoolError::DoesNotFit { .. }
            | PoolError::NoAddresses { .. } => StoreError::PoolExhausted { source: error.into() },
            PoolError::Corrupt { .. } | PoolError::Broken { .. } | PoolError::Unmapped { .. } => {
                StoreError::Corrupt { table: table(), source: error.into() }
            }
            PoolError::Closed => StoreError::Closed,
            PoolError::Dropped { .. } => StoreError::Dropped { name: table() },
            PoolError::Journal { source } => StoreError::of_log(source),
            PoolError::Structure { .. } => StoreError::Structure { name: table(), source: error },
            _ => StoreError::Io { source: error.into() },
        }
    }
}

/// An error and its causes, in one line.
#[cfg(any(feature = "tools", feature = "vector"))]
pub(crate) fn with_causes(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
