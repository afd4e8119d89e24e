//! The log of a store that is not open, record by record: for people who want to see what happened,
//! and for tools that look after stores. (With the feature `tools`.)
//!
//! Nothing is recovered and nothing is written.

use std::collections::HashMap;
use std::path::Path;

use polder_format::log::{GroupHeader, LoggedValue, Operation, Record, Records};
use polder_format::{Lsn, PageId, SpaceId, StoreId, Superblock};
use polder_log::{LogError, LogFile};

use crate::catalogue::SpaceRecord;
use crate::closed::ClosedStore;
use crate::error::{CATALOGUE, OpenError};
use crate::maps::Maps;
use crate::page_file::PageFile;
use crate::salvage::catalogue_entries;

/// One record of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogRecord {
    /// Where its group begins: records of a group are durable all together or not at all.
    pub lsn: u64,
    /// Where its group ends: the LSN of the pages that the group changed.
    pub end: u64,
    /// How far the log was durable at least when the group was written, where a block of 4096 begins; zero:
    /// the group does not say.
    pub durable: u64,
    /// In which opening of the store it was written, counted from 1.
    pub incarnation: u32,
    /// What was done: `insert`, `remove`, `split`, `image`, ...
    pub operation: &'static str,
    /// The space of the page, if it is about one.
    pub space: Option<u32>,
    /// The table that the space is, if that is known.
    pub table: Option<String>,
    /// The number of the page in its space, if it is about one.
    pub page: Option<u64>,
    /// The key, or the separator.
    pub key: Option<Vec<u8>>,
    /// The version word of the entry.
    pub version: Option<u64>,
    /// Length of the value in bytes.
    pub value_bytes: Option<u64>,
    /// Bytes that the record takes in the log.
    pub bytes: u64,
    /// What else there is to say.
    pub detail: String,
}

/// Why the log ends where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogEndReason {
    /// Nothing was written behind it.
    Complete,
    /// Behind it lies what a crash cut short, or an earlier incarnation left: nobody was
    /// promised it.
    CutShort,
    /// It was durable further, and cannot be read.
    Damaged,
    /// Superblocks are damaged, so that it is not known how far it should reach.
    Unknown,
    /// The visitor had enough.
    Stopped,
}

/// Where the log ends.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogEnd {
    /// The LSN.
    pub lsn: u64,
    /// Where that is in the log file, in bytes; zero if no segment holds it.
    pub offset: u64,
    /// Why.
    pub reason: LogEndReason,
    /// The same for people.
    pub what: String,
    /// Where a recovery begins to read, if the superblocks tell.
    pub replay_from: Option<u64>,
}

/// Calls `visit` with each record of the log of the store in the directory `path`, in order, until
/// it returns false. `from`: the LSN to begin at, or behind it at the next block where a group
/// begins; by default where a recovery would begin. The store must not be open.
///
/// ```no_run
/// # fn main() -> Result<(), polder::OpenError> {
/// let end = polder::log_dump::dump("store".as_ref(), None, &mut |record| {
///     println!("{} {}", record.lsn, record.operation);
///     true
/// })?;
/// println!("{}", end.what);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`OpenError`]. That the log is damaged is no error; [`LogEnd`] says so.
pub fn dump(
    path: &Path,
    from: Option<u64>,
    visit: &mut dyn FnMut(&LogRecord) -> bool,
) -> Result<LogEnd, OpenError> {
    let closed = ClosedStore::open(path)?;
    let (log, superblock) = match (closed.superblock(), closed.store_of_log()) {
        (Ok(superblock), _) => (closed.log_file(superblock.store_id)?, Some(superblock)),
        (Err(_), Some(id)) => (closed.log_file(id)?, None),
        (Err(fault), None) => return Err(fault.of(path)),
    };
    let mut names = superblock.as_ref().map(|block| names(&closed, block)).unwrap_or_default();
    let mut end = end_of(&log, superblock.as_ref());
    let (first, last) = log.extent();
    let start = from.map_or(superblock.map_or(first, |block| block.redo_start), Lsn);
    let limit = if start.0 < end.lsn { Lsn(end.lsn) } else { last };
    let mut stopped = None;
    log.visit_readable(start.max(first), limit, &mut |header, group| {
        for record in Records::of_group(group) {
            let goes_on = match record {
                Ok(record) => {
                    learn_names(&mut names, &record);
                    visit(&describe(header, &record, &names))
                }
                // Groups have checksums: a newer version wrote it.
                Err(_) => visit(&unknown(header, group)),
            };
            if !goes_on {
                stopped = Some(header.lsn);
                return false;
            }
        }
        true
    });
    if let Some(lsn) = stopped {
        (end.lsn, end.offset) = (lsn.0, log.offset(lsn));
        end.reason = LogEndReason::Stopped;
        end.what = "more follows".to_string();
    }
    Ok(end)
}

/// Where the log ends, and why.
fn end_of(log: &LogFile, superblock: Option<&Superblock>) -> LogEnd {
    let Some(superblock) = superblock else {
        let lsn = log.extent().1;
        return LogEnd {
            lsn: lsn.0,
            offset: 0,
            reason: LogEndReason::Unknown,
            what: "the superblocks are damaged, so that nothing tells where the log should end"
                .to_string(),
            replay_from: None,
        };
    };
    let (lsn, reason, what) = match log.find_end(superblock, &mut |_| {}) {
        Ok(found) => match found.behind {
            None if superblock.clean => (
                found.end,
                LogEndReason::Complete,
                "the store was closed cleanly, and the log ends here: nothing was written behind it"
                    .to_string(),
            ),
            None => (
                found.end,
                LogEndReason::Complete,
                "the log ends here: nothing was written behind it".to_string(),
            ),
            Some(behind) => (
                found.end,
                LogEndReason::CutShort,
                format!(
                    "the store was not closed; the log ends here, and the next opening goes on from \
                     here. What lies behind it nobody was promised: {behind}"
                ),
            ),
        },
        Err(error) => {
            let lsn = match &error {
                LogError::Damaged { lsn, .. } | LogError::Record { lsn, .. } => *lsn,
                _ => superblock.redo_start,
            };
            (lsn, LogEndReason::Damaged, crate::error::with_causes(&error))
        }
    };
    let (offset, replay_from) = (log.offset(lsn), Some(superblock.redo_start.0));
    LogEnd { lsn: lsn.0, offset, reason, what, replay_from }
}

/// The names of tables as the catalogue in the data file has them.
fn names(closed: &ClosedStore, superblock: &Superblock) -> HashMap<SpaceId, String> {
    let mut names = HashMap::new();
    let Some(data) = closed.data.clone() else { return names };
    let id: StoreId = superblock.store_id;
    let file = PageFile::new(data, superblock.page_size, id);
    let maps = Maps::read(file.clone(), Some(superblock.space_directory));
    for extent in maps.extents().iter().filter(|extent| extent.space == SpaceId::CATALOGUE) {
        file.run(extent.physical.get(), extent.pages, &mut |_, bytes| {
            let found = bytes.ok().map(|bytes| catalogue_entries(&file, bytes));
            for (name, record) in found.unwrap_or_default() {
                learn(&mut names, &name, &record);
            }
            true
        });
    }
    names
}

/// Names that the log tells.
fn learn_names(names: &mut HashMap<SpaceId, String>, record: &Record<'_>) {
    if record.page.space() == SpaceId::CATALOGUE
        && let Operation::Insert { key, value: LoggedValue::Inline(value), .. } = record.operation
    {
        learn(names, key, value);
    }
}

fn learn(names: &mut HashMap<SpaceId, String>, name: &[u8], record: &[u8]) {
    if let Ok(record) = SpaceRecord::decode(record) {
        names.insert(record.space, String::from_utf8_lossy(name).into_owned());
    }
}

fn describe(
    header: &GroupHeader,
    record: &Record<'_>,
    names: &HashMap<SpaceId, String>,
) -> LogRecord {
    let space = record.page.space();
    let table = match space {
        SpaceId::CATALOGUE => Some(CATALOGUE.to_string()),
        space => names.get(&space).cloned(),
    };
    let of_page = !record.page.is_null();
    let mut out = LogRecord {
        operation: record.operation.name(),
        space: of_page.then_some(space.get()),
        table,
        page: of_page.then_some(record.page.page().get()),
        bytes: record.stored_len() as u64,
        ..blank(header)
    };
    match &record.operation {
        Operation::Insert { added, version, key, value } => {
            out.key = Some(key.to_vec());
            out.version = Some(*version);
            out.value_bytes = Some(match value {
                LoggedValue::Inline(bytes) => bytes.len() as u64,
                LoggedValue::Long { len, .. } => *len,
            });
            let long = matches!(value, LoggedValue::Long { .. });
            let words = [(*added, "new"), (!*added, "replaced"), (long, "in overflow pages")];
            let words = words.iter().filter(|(holds, _)| *holds).map(|(_, word)| *word);
            out.detail = words.collect::<Vec<_>>().join(", ");
        }
        Operation::Remove { key } => out.key = Some(key.to_vec()),
        Operation::InsertChild { separator, .. } => out.key = Some(separator.to_vec()),
        Operation::Split { separator, left_count, .. } => {
            out.key = Some(separator.to_vec());
            out.detail = format!("{left_count} entries stay");
        }
        Operation::RightHalf { left, left_count, separator } => {
            out.key = Some(separator.to_vec());
            let left = PageId::from_link(*left).page().get();
            out.detail = format!("of page {left}, where {left_count} entries stay");
        }
        Operation::FullPageImage { size, low, high } => {
            out.detail = format!("{} of {size} bytes", low.len() + high.len());
        }
        Operation::Patch { offset, bytes, .. } => {
            out.detail = format!("{} bytes at {offset}", bytes.len());
        }
        Operation::Mark { runs, .. } => {
            let run = |(first, count): &(u32, u32)| match count {
                1 => format!("{first}"),
                count => format!("{first} to {}", first.saturating_add(count - 1)),
            };
            out.detail = format!("pages {}", runs.iter().map(run).collect::<Vec<_>>().join(", "));
        }
        Operation::Directory { physical } => out.detail = physical.to_string(),
        Operation::Loaded { entries } => out.detail = format!("{entries} entries"),
        Operation::Checkpoint(counts) => {
            out.detail = format!("replay from {}, {} tables", counts.start.0, counts.tables.len());
        }
        Operation::EndOfRecovery { end } => {
            out.detail = format!("the log before it ended at {}", end.0)
        }
        Operation::RemoveChild { index } => out.detail = format!("link {index}"),
        Operation::Freed => {}
    }
    out
}

fn unknown(header: &GroupHeader, group: &[u8]) -> LogRecord {
    let detail = "a newer version of Polder wrote the rest of this group".to_string();
    LogRecord { bytes: group.len() as u64, detail, ..blank(header) }
}

fn blank(header: &GroupHeader) -> LogRecord {
    LogRecord {
        lsn: header.lsn.0,
        end: header.end().0,
        durable: header.durable.0,
        incarnation: header.incarnation,
        operation: "unknown",
        space: None,
        table: None,
        page: None,
        key: None,
        version: None,
        value_bytes: None,
        bytes: 0,
        detail: String::new(),
    }
}
