//! What opening a store after a crash did.

use polder_format::FormatError;
use polder_log::Recovered;

/// What opening a store had to do again; in memory alone, if it was opened to read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Recovery {
    /// Bytes of the log that were replayed.
    pub log_bytes: u64,
    /// Groups of records in them: changes that are there as a whole.
    pub groups: u64,
    /// Records that were missing in the data file.
    pub redone: u64,
    /// Pages that were torn and have been restored from their second copy.
    pub restored_pages: u64,
    /// What lay behind the end of the log: a write that was cut short, which nobody was promised;
    /// or something that cannot be told from it, such as a piece that an earlier use of the log
    /// left, or the last sync, damaged since. None if the store had been closed, and where zeros
    /// lie.
    pub cut_short: Option<String>,
    /// What was wrong with one of the two superblocks, which has been written anew from the other:
    /// a crash while it was written, or damage.
    pub superblock: Option<String>,
}

impl Recovery {
    pub(crate) fn of(recovered: Recovered, superblock: Option<&FormatError>) -> Recovery {
        let Recovered { log_bytes, groups, redone, restored_pages, cut_short } = recovered;
        let superblock = superblock.map(ToString::to_string);
        Recovery { log_bytes, groups, redone, restored_pages, cut_short, superblock }
    }
}
