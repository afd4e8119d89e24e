//! What can go wrong in the pool.

#![cfg(not(loom))]

use std::error::Error;
use std::io;
use std::sync::Arc;

use polder_format::{FormatError, PageId, PhysicalPageNo, SpaceId};

use crate::read_mode::ReadMode;

/// Why the pool could not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// No frame could be freed.
    #[error(
        "all {frames} frames of the buffer pool are in use: {pinned} pinned, {latched} latched, {in_flight} being loaded, {dirty} changed and not written yet{}; use fewer threads or a larger memory budget",
        last_write_error.as_ref().map(|e| format!(" (the last write failed: {e})")).unwrap_or_default()
    )]
    Exhausted {
        /// Frames in the pool.
        frames: u64,
        /// Held by pins.
        pinned: u64,
        /// Held by latches.
        latched: u64,
        /// Being loaded.
        in_flight: u64,
        /// Changed, and not written yet.
        dirty: u64,
        /// What the device said, if the last write failed.
        last_write_error: Option<Arc<io::Error>>,
    },
    /// A translation that never evicts has used its budget.
    #[error(
        "the data does not fit into the memory budget of {frames} pages, and the translation `{translation}` never evicts; use a larger budget or the translation `array`"
    )]
    DoesNotFit {
        /// Frames that the budget pays for.
        frames: u64,
        /// The translation.
        translation: &'static str,
    },
    /// A translation that gives each page an address of its own has no more of them.
    #[error(
        "no address is left for {page}: the translation `{translation}` has them for {frames} pages, a few times what the budget pays for, and spaces that were larger or have gone keep theirs; use a larger budget or the translation `array`"
    )]
    NoAddresses {
        /// The page.
        page: PageId,
        /// Pages for which there are addresses.
        frames: u64,
        /// The translation.
        translation: &'static str,
    },
    /// A read mode and a translation that do not go together.
    #[error(
        "readers cannot hold pages by `{hold}` with the translation `{translation}`: {why}; use `optimistic` or `shared`, or another translation"
    )]
    Combination {
        /// The way.
        hold: ReadMode,
        /// The translation.
        translation: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// The pages are smaller than what the kernel can take back in one piece.
    #[error(
        "the translation `{translation}` needs pages of at least {kernel_bytes} bytes on this machine, as the kernel's are, and these have {page_bytes}; use a larger page size or the translation `array`"
    )]
    PageTooSmall {
        /// Size of all pages.
        page_bytes: u64,
        /// Size of the kernel's.
        kernel_bytes: u64,
        /// The translation.
        translation: &'static str,
    },
    /// The device could not read a page.
    #[error("cannot read {page} at {place} of the data file")]
    Read {
        /// The page.
        page: PageId,
        /// Where it lies.
        place: PhysicalPageNo,
        /// What the device said.
        source: Arc<io::Error>,
    },
    /// The device could not write a page.
    #[error("cannot write {page} at {place} of the data file")]
    Write {
        /// The page.
        page: PageId,
        /// Where it lies.
        place: PhysicalPageNo,
        /// What the device said.
        source: Arc<io::Error>,
    },
    /// A page is not what was written.
    #[error("{page} at {place} of the data file is damaged")]
    Corrupt {
        /// The page.
        page: PageId,
        /// Where it lies.
        place: PhysicalPageNo,
        /// What is wrong with it.
        source: FormatError,
    },
    /// A page that is linked lies in no extent.
    #[error("{page} is referred to, but lies in no extent of its space: the extent map is damaged")]
    Unmapped {
        /// The page.
        page: PageId,
    },
    /// The device has no room for more data.
    #[error("the disk is full: cannot allocate {bytes} bytes for {space}")]
    Full {
        /// The space that was to grow.
        space: SpaceId,
        /// By how many bytes.
        bytes: u64,
        /// What the device said.
        source: Arc<io::Error>,
    },
    /// Some other operation of the device failed.
    #[error("cannot {what} the data file")]
    Device {
        /// What was tried.
        what: &'static str,
        /// What the device said.
        source: Arc<io::Error>,
    },
    /// The log can neither take nor keep what is logged.
    #[error("the log cannot be written")]
    Journal {
        /// Why.
        source: Arc<io::Error>,
    },
    /// The space was dropped.
    #[error("{space} was dropped")]
    Dropped {
        /// The space.
        space: SpaceId,
    },
    /// The store that the pool serves was closed: the pool reads nothing for it.
    #[error("the buffer pool was closed")]
    Closed,
    /// There is no such space.
    #[error("{space} does not exist")]
    NoSuchSpace {
        /// The space.
        space: SpaceId,
    },
    /// A number has reached its limit.
    #[error("{what} has reached its limit of {limit}")]
    Limit {
        /// What is used up.
        what: &'static str,
        /// How many there can be.
        limit: u64,
    },
    /// The kernel gave no memory or addresses.
    #[error(
        "cannot reserve {bytes} bytes of address space for {what}; allow the process more (`ulimit -v`), or use a smaller memory budget"
    )]
    Memory {
        /// What for.
        what: &'static str,
        /// How much.
        bytes: u64,
        /// What the kernel said.
        source: Arc<io::Error>,
    },
    /// The budget does not pay for the smallest pool.
    #[error(
        "a memory budget of {given} bytes is too small: {least} bytes are the least at this page size"
    )]
    Budget {
        /// What was given.
        given: u64,
        /// What is needed.
        least: u64,
    },
    /// Something in a page contradicts something else.
    #[error("{page}: {what}")]
    Broken {
        /// The page.
        page: PageId,
        /// The contradiction.
        what: &'static str,
    },
    /// An operation of a structure ended with an error of its own
    /// ([`Attempt::fail`](crate::Attempt::fail)).
    #[error(transparent)]
    Structure {
        /// What the structure says.
        source: Arc<dyn Error + Send + Sync>,
    },
}

impl PoolError {
    /// An error of a structure. One that is the pool's stays what it is.
    pub fn of_structure(error: impl Into<Box<dyn Error + Send + Sync>>) -> PoolError {
        match error.into().downcast::<PoolError>() {
            Ok(error) => *error,
            Err(error) => PoolError::Structure { source: Arc::from(error) },
        }
    }

    /// The error of a structure that this is, if it is one of this type.
    pub fn structure_error<E: Error + 'static>(&self) -> Option<&E> {
        match self {
            PoolError::Structure { source } => source.downcast_ref(),
            _ => None,
        }
    }

    /// Whether this speaks of what the device holds (and so may be news of a page that was freed
    /// meanwhile).
    pub(crate) fn is_about_content(&self) -> bool {
        matches!(
            self,
            PoolError::Read { .. } | PoolError::Corrupt { .. } | PoolError::Unmapped { .. }
        )
    }

    /// Whether this speaks of what maps hold (and so may be news of a page that was another map's
    /// by the time that it was read).
    pub(crate) fn is_about_maps(&self) -> bool {
        self.is_about_content() || matches!(self, PoolError::Broken { .. })
    }
}
