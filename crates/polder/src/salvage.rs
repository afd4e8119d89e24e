//! Saving what is readable of a damaged store into a new one.
//!
//! Works where opening fails: it needs no superblock, no map and no inner node, and not the whole
//! log. The damaged store is only read.
//!
//! **How.** The whole data file, and the double-write buffer in the log file, are read for leaves
//! with a right checksum. Each leaf tells what a range of keys was (all between its fences) at its
//! LSN; each insert and remove in the log tells of a key. All of this is applied to the new store
//! in the order of the LSNs, a leaf replacing everything in its range. Which leaf is newer needs
//! no map and no parent: whenever a range of keys gets another leaf, by a split or a merge, both
//! have the LSN of that change, so the leaf that has a range now is newer than all that ever had
//! it.
//!
//! Structures that are no tables are saved page by page: the newest copy of each page that is in use is
//! brought up to date by the log, as a recovery does it (`structures.rs`), and the structure says what
//! lies in it. Vectors of a collection are saved so, into other nodes than those that their keys name;
//! at the end each key is told where its vector is (`collections.rs`).
//!
//! **What is guaranteed.** With a sound log, what is in pages and log that can be read is saved as
//! it was last, and what was removed stays removed, unless the leaf that shows it was lost.
//!
//! **What is not.**
//! * Where the newest leaf of a range was lost, an older copy of it or of a leaf that was freed may
//!   bring back entries that were removed or changed since. Maps that can be read keep freed pages
//!   out; where none can be read the entries are counted as *doubtful*.
//! * Behind a gap in the log single changes of a batch may be there without the others. Changes
//!   within the gap are there only if a leaf shows them.
//! * A long value is given only if each of its pages is as old as the entry demands, and its
//!   length is right. If pages of it were in a gap of the log, an older value of the same length
//!   in the very same pages cannot be told from it.
//! * A table whose entry in the catalogue was lost is called `space-N`. One that was dropped comes
//!   back under such a name if neither catalogue nor maps nor log can tell any more.
//! * Version words and the tag of the last batch are not kept.
//! * Of a structure that is not registered nothing is saved, and that is told.
//!
//! **What is said.** What was found is compared with all that tells what there was: the maps name
//! the pages in use, the fences of the leaves of a table must meet, the log counts the entries of
//! each table and the changes of each page. What does not agree is in [`SalvageReport::losses`]. A
//! page that lies in the place of a newer copy of itself is told only if the log still has a
//! change that it lacks, or the number of entries differs.

use std::path::Path;

use polder_format::{PageKind, SpaceId};

use crate::durability::Durability;
use crate::error::{OpenError, StoreError};
use crate::handle::Store;
use crate::options::{OpenMode, Options};
use crate::page_file::PageFile;

mod catalogue;
#[cfg(feature = "vector")]
mod collections;
mod copies;
mod coverage;
mod evidence;
mod losses;
mod replay;
mod source;
mod structures;
mod tables;
mod values;

use catalogue::Catalogue;
use copies::Copies;
use replay::{Replay, Stored, decode_leaf};
use source::Source;
use structures::Guests;
use tables::Tables;

/// Unreadable pages and lost entries that are listed one by one.
const LISTED: usize = 1000;

/// What a salvage found and saved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Page size in bytes.
    pub page_size: u32,
    /// The tables of the new store, in the order of their names.
    pub tables: Vec<SalvagedTable>,
    /// Pages of the data file that were looked at.
    pub pages: u64,
    /// Leaves that were found whole, copies and freed ones included.
    pub leaves: u64,
    /// Pages that are neither whole nor empty.
    pub pages_unreadable: u64,
    /// The first thousand of them.
    pub unreadable: Vec<UnreadablePage>,
    /// Pages in use, by the maps, that are not whole where they should lie, or are older than the
    /// log says; and pages that cannot be read of which no map tells. Those that the log has whole
    /// are not counted.
    pub pages_missing: u64,
    /// The first thousand of them.
    pub missing: Vec<UnreadablePage>,
    /// Bytes of the log that were read.
    pub log_bytes: u64,
    /// Inserts and removes in them.
    pub log_records: u64,
    /// Parts of the log that cannot be read.
    pub log_gaps: Vec<LogGap>,
    /// What else was amiss: superblocks, maps, the log's header.
    pub damage: Vec<String>,
    /// All that may be missing in the new store. Empty: nothing is, as far as anybody can know;
    /// only a page that lies in the place of a newer copy of itself cannot always be told.
    pub losses: Vec<Loss>,
    /// Whether the salvage was stopped before it was done. Keys and vectors of a collection may disagree
    /// then, which a repair of the collection mends.
    pub stopped: bool,
}

/// Something that may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The table of the new store; none: it may be any.
    pub table: Option<String>,
    /// What.
    pub what: String,
}

/// A table of the new store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvagedTable {
    /// Its name in the new store.
    pub name: String,
    /// Whether the catalogue told the name; if not it is made from the number of the space.
    pub named: bool,
    /// Entries that were saved.
    pub entries: u64,
    /// Entries that the table had, as the log counts them; none if the log is not whole.
    pub counted: Option<u64>,
    /// At most so many of them come from leaves of which no map tells whether they are in use.
    pub doubtful: u64,
    /// Entries of which the key is known and the value is lost.
    pub lost: u64,
    /// The first thousand of their keys.
    pub lost_keys: Vec<Vec<u8>>,
    /// Stretches of keys of which no leaf was found, or an old one only. What the log tells of them
    /// was saved.
    pub key_gaps: u64,
    /// The first thousand of them.
    pub gaps: Vec<KeyGap>,
    /// Which structure it is, if it is no table but a structure that was registered.
    pub structure: Option<String>,
}

/// A stretch of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyGap {
    /// The first key that may lie in it; empty: it begins with the first key of the table.
    pub from: Vec<u8>,
    /// The first key behind it; none: it goes to the last key of the table.
    pub to: Option<Vec<u8>>,
}

/// A page that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnreadablePage {
    /// Where it begins in the data file, in bytes.
    pub offset: u64,
    /// Which page lies there, if the maps tell.
    pub page: Option<String>,
    /// What is wrong with it.
    pub what: String,
}

/// A part of the log that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogGap {
    /// The LSN where it begins.
    pub from: u64,
    /// The LSN of the next record that can be read.
    pub to: u64,
    /// What is wrong.
    pub what: String,
}

/// What a salvage is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SalvagePhase {
    /// Looking for pages in the data file; counted in pages.
    Scanning,
    /// Reading the log for the names of tables; counted in bytes.
    Names,
    /// Writing tables to the new store; counted in bytes of leaves and of the log.
    Saving,
    /// Writing structures that are no tables to the new store; counted in pages.
    Structures,
    /// Making keys, rows and vectors of collections agree; counted in those that were compared, and how
    /// many there are is an estimate. (With the feature `vector`.)
    Collections,
}

/// Why nothing could be saved, or not all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SalvageError {
    /// The damaged store cannot be read at all.
    #[error(transparent)]
    Source(OpenError),
    /// Neither superblocks nor log tell which store it is, without which no checksum can be
    /// checked.
    #[error("neither the superblocks nor the log of {path} tell which store it was: {what}")]
    NoIdentity {
        /// Where.
        path: String,
        /// What is wrong with the superblocks.
        what: String,
    },
    /// The new store must not be the damaged one.
    #[error("the new store must have another directory than the damaged one")]
    SameDirectory,
    /// The new store cannot be made.
    #[error("cannot make the new store")]
    Target(#[source] OpenError),
    /// The new store cannot be written.
    #[error("cannot write the new store")]
    Write(#[from] StoreError),
}

/// Copies what is readable of the store in the directory `from` into a new store, which `to`
/// describes. Its page size is that of the damaged one, unless `to` says otherwise. (With the feature
/// `tools`.)
///
/// `progress` is told how much is done and how much there is, and stops the salvage by returning
/// false; what was saved by then is in the new store.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let report = polder::salvage("damaged".as_ref(), polder::Options::new("new"), &mut |_, _, _| true)?;
/// for table in &report.tables {
///     println!("{}: {} entries", table.name, table.entries);
/// }
/// for loss in &report.losses {
///     println!("may be missing: {}", loss.what);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`SalvageError`]. Damage of the old store is no error, but is in the report:
/// [`SalvageReport::losses`] is empty only if nothing is known to be missing.
pub fn salvage(
    from: &Path,
    to: Options,
    progress: &mut dyn FnMut(SalvagePhase, u64, u64) -> bool,
) -> Result<SalvageReport, SalvageError> {
    if is_same(from, &to.path) {
        return Err(SalvageError::SameDirectory);
    }
    let mut source = Source::open(from)?;
    let mut report = SalvageReport { page_size: source.size.bytes() as u32, ..Default::default() };
    let registry = to.registry.clone();
    let copies = Copies::find(&mut source, &registry, &mut report, &mut |done, all| {
        progress(SalvagePhase::Scanning, done, all)
    });
    let mut catalogue = Catalogue::default();
    let names = Replay { source: &source, copies: &copies };
    report.stopped |=
        !names.run(&mut catalogue, &mut |done, all| progress(SalvagePhase::Names, done, all))?;
    losses::of_catalogue(&catalogue.gaps(), &mut report);
    let page_size = to.page_size.unwrap_or(report.page_size);
    let options = to.mode(OpenMode::Create).page_size(page_size).durability(Durability::None);
    let store = Store::open(options).map_err(SalvageError::Target)?;
    let mut of_spaces = catalogue.names();
    let guests = Guests::find(&source, &copies, &registry, &mut of_spaces);
    let mut tables = Tables::new(&store, &source, &copies, of_spaces.clone());
    if !report.stopped {
        report.stopped =
            !names.run(&mut tables, &mut |done, all| progress(SalvagePhase::Saving, done, all))?;
    }
    report.log_records = tables.records;
    report.tables = tables.finish()?;
    if !report.stopped {
        let tell = &mut |done, all| progress(SalvagePhase::Structures, done, all);
        guests.save(&store, &of_spaces, &mut report, tell)?;
        #[cfg(feature = "vector")]
        if !report.stopped {
            let tell = &mut |done, all| progress(SalvagePhase::Collections, done, all);
            collections::repair(&store, &mut report, tell)?;
        }
    }
    report.tables.sort_by(|a, b| a.name.cmp(&b.name));
    store.close()?;
    source.describe(&mut report);
    losses::sum_up(&mut report);
    Ok(report)
}

/// Names and records in a page, if it is a leaf of the catalogue that is whole.
pub(crate) fn catalogue_entries(file: &PageFile, bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let Ok(header) = file.identify(bytes) else { return Vec::new() };
    if header.kind != PageKind::TREE_LEAF || header.page_id.space() != SpaceId::CATALOGUE {
        return Vec::new();
    }
    let leaf = decode_leaf(file.size, header.page_id, header.lsn, false, bytes);
    let inline = |(key, value)| match value {
        Stored::Inline(value) => Some((key, value)),
        Stored::Long(_) => None,
    };
    leaf.map(|leaf| leaf.entries.into_iter().filter_map(inline).collect()).unwrap_or_default()
}

/// Whether two paths are the same directory, as far as that can be seen.
fn is_same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}
