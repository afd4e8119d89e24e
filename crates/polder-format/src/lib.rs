//! What lies on disk in a Polder store: identifiers, page header, superblock, maps and codecs.
//!
//! This crate does no I/O and trusts no byte: every decoder returns a [`FormatError`] for what it
//! does not understand. `docs/format.md` draws each structure.
#![forbid(unsafe_code)]

// All of Polder's crates need this one, so that this is the only error elsewhere.
#[cfg(not(target_os = "linux"))]
compile_error!(
    "Polder runs on Linux only: its buffer pool needs system calls that other systems do not have"
);

mod array_page;
mod extents;
mod header;
mod ids;
pub mod log;
mod resident;
mod superblock;
pub mod tuple;

pub use array_page::{
    ALLOC_MAP_BITS_AT, ALLOC_MAP_NEXT_AT, ALLOC_MAP_USED_AT, ARRAY_HEIGHT_AT, ARRAY_WORDS_AT,
};
pub use array_page::{array_fanout, pages_per_alloc_map};
pub use extents::{Extent, ExtentSchedule};
pub use header::{ChecksumSeed, PAGE_HEADER_BYTES, PageHeader, PageKind, header_at};
pub use ids::{Lsn, PageId, PageNo, PageSize, PhysicalPageNo, SpaceId, StoreId};
pub use resident::{RESIDENT_HEADER_BYTES, RESIDENT_PAGE_BYTES, ResidentHeader, Temperature};
pub use superblock::{SUPERBLOCK_AREA_BYTES, SUPERBLOCK_BYTES, Superblock, choose};

/// Why bytes from a device were not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The checksum over the bytes is not the one stored with them.
    #[error("checksum {found:#010x} where {expected:#010x} was expected")]
    Checksum {
        /// What the bytes amount to.
        found: u32,
        /// What is stored with them.
        expected: u32,
    },
    /// A page that belongs elsewhere.
    #[error("the page says that it is {found}, but {expected} was asked for")]
    WrongPage {
        /// The id in the page.
        found: PageId,
        /// The id that was asked for.
        expected: PageId,
    },
    /// A field holds what it cannot.
    #[error("{field} is {found}; {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// What it holds.
        found: u64,
        /// What it may hold.
        expected: &'static str,
    },
    /// The bytes end too early.
    #[error("{what} is cut off: {found} bytes where {expected} were expected")]
    Short {
        /// What was read.
        what: &'static str,
        /// Its length in bytes.
        found: usize,
        /// The length that it must have at least, in bytes.
        expected: usize,
    },
    /// Not a Polder file.
    #[error("this is not a Polder store: it does not begin with Polder's mark")]
    Foreign,
    /// Written by an earlier version of Polder, in a format that this one does not read.
    #[error(
        "the store was written by an older Polder (format {version}) than this one can read; open it with that version, and copy what it holds into a new store"
    )]
    Older {
        /// Format version of the store.
        version: u32,
    },
    /// Written by a later version of Polder.
    #[error(
        "the store was written by a newer Polder (format {version}, feature bits {bits:#x}); open it with that version"
    )]
    Newer {
        /// Format version of the store.
        version: u32,
        /// The incompatible feature bits that this version does not know.
        bits: u64,
    },
    /// A page is newer than the log that should tell of it.
    #[error("its last change lies at {} of the log, which ends at {}: a part of the log is missing", lsn.0, end.0)]
    AheadOfLog {
        /// The page's LSN.
        lsn: Lsn,
        /// The end of the log.
        end: Lsn,
    },
    /// An invariant inside a page does not hold.
    #[error("{0}")]
    Broken(&'static str),
}
