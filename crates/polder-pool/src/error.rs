//! What can go wrong in the pool.

#![cfg(not(loom))]

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use polder_format::{FormatError, PageId, PhysicalPageNo, SpaceId};

use crate::read_mode::ReadMode;

/// Why the pool could not do what it was asked.
/// The message says what happened, where, and what to do where there is something to be done; the
/// source, where there is one, is what the device, the kernel or the structure said.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// No frame could be freed. Each frame that is in use counts once, by the first of these that
    /// it is: pinned or lent, being loaded, latched, dirty.
    #[error(
        "all {frames} frames of the buffer pool are in use: {pinned} pinned or lent, {latched} latched, {in_flight} being loaded, {dirty} changed and not written yet{}; use fewer threads, keep fewer values lent, or use a larger memory budget",
        last_write_error.as_ref().map(|e| format!(" (the last write failed: {e})")).unwrap_or_default()
    )]
    Exhausted {
        /// How many frames the pool has.
        frames: u64,
        /// Frames whose pages are held resident by pins.
        pinned: u64,
        /// Frames whose pages are latched.
        latched: u64,
        /// Frames into which a page is being loaded.
        in_flight: u64,
        /// Frames whose pages were changed and are not written yet.
        dirty: u64,
        /// What the device or the log said, if the last write of pages failed.
        last_write_error: Option<Arc<io::Error>>,
    },
    /// A translation that never evicts has used its budget.
    #[error(
        "the data does not fit into the memory budget of {frames} pages, and the translation `{translation}` never evicts; use a larger budget or the translation `array`"
    )]
    DoesNotFit {
        /// Frames that the budget pays for, as many pages as there can be.
        frames: u64,
        /// The name of the translation.
        translation: &'static str,
    },
    /// A translation that gives each page an address of its own has no more of them.
    #[error(
        "no address is left for {page}: the translation `{translation}` has them for {frames} pages, a few times what the budget pays for, and spaces that were larger or have gone keep theirs; use a larger budget or the translation `array`"
    )]
    NoAddresses {
        /// The page that was to be loaded or made.
        page: PageId,
        /// How many pages there are addresses for.
        frames: u64,
        /// The name of the translation.
        translation: &'static str,
    },
    /// Tiers of memory that cannot be.
    #[error("tiers: {what}")]
    Tiers {
        /// What cannot be, and what may.
        what: String,
    },
    /// A read mode and a translation that do not go together.
    #[error(
        "readers cannot hold pages by `{hold}` with the translation `{translation}`: {why}; use `optimistic` or `shared`, or another translation"
    )]
    Combination {
        /// The read mode.
        hold: ReadMode,
        /// The name of the translation.
        translation: &'static str,
        /// Why the two do not go together.
        why: &'static str,
    },
    /// The pages are smaller than what the kernel can take back in one piece.
    #[error(
        "the translation `{translation}` needs pages of at least {kernel_bytes} bytes on this machine, as the kernel's are, and these have {page_bytes}; use a larger page size or the translation `array`"
    )]
    PageTooSmall {
        /// Size of the pool's pages in bytes.
        page_bytes: u64,
        /// Size of the kernel's pages in bytes.
        kernel_bytes: u64,
        /// The name of the translation.
        translation: &'static str,
    },
    /// The device could not read a page, or what it has of the page cannot be relied on, because a
    /// sync has failed behind the write ([`Journal::is_trusted`](crate::Journal::is_trusted)).
    #[error("cannot read {page} at {physical} of the data file")]
    Read {
        /// The page.
        page: PageId,
        /// Where it lies in the file, in units of pages.
        physical: PhysicalPageNo,
        /// What the device said.
        source: Arc<io::Error>,
    },
    /// The device could not write a page. The page stays dirty.
    #[error("cannot write {page} at {physical} of the data file")]
    Write {
        /// The page.
        page: PageId,
        /// Where it lies in the file, in units of pages.
        physical: PhysicalPageNo,
        /// What the device said.
        source: Arc<io::Error>,
    },
    /// A page is not what was written: its checksum, its id, its kind or what the kind's own check
    /// looks at ([`KindOps::check`](crate::KindOps)) is wrong.
    #[error("{page} at {physical} of the data file is damaged")]
    Corrupt {
        /// The page.
        page: PageId,
        /// Where it lies in the file, in units of pages.
        physical: PhysicalPageNo,
        /// What is wrong with it.
        source: FormatError,
    },
    /// A page that is linked lies in no extent.
    #[error("{page} is referred to, but lies in no extent of its space: the extent map is damaged")]
    Unmapped {
        /// The page to which something leads.
        page: PageId,
    },
    /// The device has no room for more data.
    #[error("the disk is full: cannot allocate {bytes} bytes for {space}")]
    Full {
        /// The space that was to grow.
        space: SpaceId,
        /// By how many bytes it was to grow.
        bytes: u64,
        /// What the device said.
        source: Arc<io::Error>,
    },
    /// Some other operation of the device failed.
    #[error("cannot {what} the data file")]
    Device {
        /// What was tried, as a verb: it fills the gap in "cannot ... the data file".
        what: &'static str,
        /// What the device said.
        source: Arc<io::Error>,
    },
    /// The log can neither take nor keep what is logged.
    #[error("the log cannot be written")]
    Journal {
        /// What the log said.
        source: Arc<io::Error>,
    },
    /// The space was dropped, by this operation's thread or another one.
    #[error("{space} was dropped")]
    Dropped {
        /// The space that is gone.
        space: SpaceId,
    },
    /// The store that the pool serves was closed: the pool reads nothing for it any more
    /// ([`Pool::end_reads`](crate::Pool::end_reads)).
    #[error("the buffer pool was closed")]
    Closed,
    /// It would have had to wait, in a thread that may not ([`waits`](crate::waits)).
    #[error(
        "this would have to wait, and a thread that runs futures, or a waker, may not wait for the store"
    )]
    WouldWait,
    /// There is no such space.
    #[error("{space} does not exist")]
    NoSuchSpace {
        /// The id that no space has.
        space: SpaceId,
    },
    /// A number has reached its limit.
    #[error("{what} has reached its limit of {limit}")]
    Limit {
        /// What is used up, as a noun.
        what: &'static str,
        /// How many of it there can be.
        limit: u64,
    },
    /// The kernel gave no memory or addresses.
    #[error(
        "cannot reserve {bytes} bytes of address space for {what}; allow the process more (`ulimit -v`), or use a smaller memory budget"
    )]
    Memory {
        /// What the memory was for, as a noun.
        what: &'static str,
        /// How many bytes were asked for.
        bytes: u64,
        /// What the kernel said.
        source: Arc<io::Error>,
    },
    /// The budget does not pay for the smallest pool.
    #[error(
        "a memory budget of {given} bytes is too small: {least} bytes are the least at this page size"
    )]
    Budget {
        /// The budget that was given, in bytes.
        given: u64,
        /// The smallest budget that does, in bytes.
        least: u64,
    },
    /// Something in a page contradicts something else: another page, a record of the log, or what
    /// the caller said of the page.
    #[error("{page}: {what}")]
    Broken {
        /// The page where it was found.
        page: PageId,
        /// What contradicts what.
        what: &'static str,
    },
    /// An operation of a structure ended with an error of its own
    /// ([`Attempt::fail`](crate::Attempt::fail)).
    #[error(transparent)]
    Structure {
        /// The structure's error, as it was given.
        source: Arc<dyn Error + Send + Sync>,
    },
}

impl PoolError {
    /// An error of a structure, as one of the pool: for functions of a structure that give a
    /// `PoolError`. One that is the pool's already stays what it is. A text does as well.
    ///
    /// ```
    /// use polder_pool::PoolError;
    ///
    /// let error = PoolError::of_structure("the stack is empty");
    /// assert_eq!(error.to_string(), "the stack is empty");
    /// let error = PoolError::of_structure(std::fmt::Error);
    /// assert!(error.structure_error::<std::fmt::Error>().is_some());
    /// assert!(matches!(PoolError::of_structure(PoolError::Closed), PoolError::Closed));
    /// ```
    pub fn of_structure(error: impl Into<Box<dyn Error + Send + Sync>>) -> PoolError {
        match error.into().downcast::<PoolError>() {
            Ok(error) => *error,
            Err(error) => PoolError::Structure { source: Arc::from(error) },
        }
    }

    /// The error of a structure that this is ([`PoolError::Structure`]), if it is one of type `E`;
    /// else `None`.
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

/// The name of the variant, what it says, and its source. (A derived one would be compiled into each
/// part of a program that has an error in its hand.)
impl fmt::Debug for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            PoolError::Exhausted { .. } => "Exhausted",
            PoolError::DoesNotFit { .. } => "DoesNotFit",
            PoolError::NoAddresses { .. } => "NoAddresses",
            PoolError::Tiers { .. } => "Tiers",
            PoolError::Combination { .. } => "Combination",
            PoolError::PageTooSmall { .. } => "PageTooSmall",
            PoolError::Read { .. } => "Read",
            PoolError::Write { .. } => "Write",
            PoolError::Corrupt { .. } => "Corrupt",
            PoolError::Unmapped { .. } => "Unmapped",
            PoolError::Full { .. } => "Full",
            PoolError::Device { .. } => "Device",
            PoolError::Journal { .. } => "Journal",
            PoolError::Dropped { .. } => "Dropped",
            PoolError::Closed => "Closed",
            PoolError::WouldWait => "WouldWait",
            PoolError::NoSuchSpace { .. } => "NoSuchSpace",
            PoolError::Limit { .. } => "Limit",
            PoolError::Memory { .. } => "Memory",
            PoolError::Budget { .. } => "Budget",
            PoolError::Broken { .. } => "Broken",
            PoolError::Structure { .. } => "Structure",
        };
        write!(f, "{name}: {self}")?;
        self.source().map_or(Ok(()), |source| write!(f, " ({source:?})"))
    }
}
