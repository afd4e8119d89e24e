//! What the pool asks of a log: before a page is written, and when one of its own maps changes.
//!
//! The pool knows no log. It (and the structures above it) hand over *groups* of records, each of
//! which takes the pages that it names from one sound state to another, while these pages are
//! latched; and it asks before it writes pages in place. `docs/durability.md`, A1 to A6 and B1 to
//! B4. A pool without a journal keeps nothing over a crash.

#![cfg(not(loom))]

use std::fmt;
use std::io;
use std::sync::Arc;

use polder_format::log::{Group, Lines};
use polder_format::{Lsn, PageId, PageNo, PageSize, PhysicalPageNo};

/// What a log says that cannot go on: an error that several waiters share.
pub type SharedError = Arc<io::Error>;

/// A page on its way to the device, as it will lie there ([`Journal::before_write`]).
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// The page.
    pub page: PageId,
    /// Where it goes in the file, in units of pages.
    pub physical: PhysicalPageNo,
    /// All bytes of the page, checksum included; aligned as the device wants it.
    pub bytes: &'a [u8],
    /// The page's full-page image is in the log, or what makes it of another page, and the page has not
    /// been written since: until it is, a recovery begins there or before it.
    pub imaged: bool,
    /// The lines in which the page may differ from what lies there: what was written there last went
    /// well, or was loaded from there. All of them for a page that was never written.
    pub lines: Lines,
}

/// The log below a pool: what a pool asks of it. Bytes are bytes of log, an [`Lsn`] is a position
/// in it. A log that has failed stays so until it is opened again; what depends on it is refused
/// with [`PoolError::Journal`](crate::PoolError::Journal).
///
/// A log in memory, which has room for all and is durable at once:
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use polder_format::log::{Group, LogSeed};
/// use polder_format::{Lsn, PageId, StoreId};
/// use polder_pool::journal::{Journal, Outgoing, SharedError};
///
/// #[derive(Debug, Default)]
/// struct InMemory(Mutex<Vec<u8>>);
///
/// impl Journal for InMemory {
///     fn reserve(&self, _bytes: u64) -> Result<(), SharedError> {
///         Ok(())
///     }
///     fn release(&self, _bytes: u64) {}
///     fn append(&self, group: &mut Group, reserved: u64) -> Lsn {
///         assert!(group.len() as u64 <= reserved);
///         let mut log = self.0.lock().unwrap();
///         let begin = Lsn(log.len() as u64);
///         log.extend_from_slice(group.seal(LogSeed::new(StoreId([1; 16])), begin, begin, 1));
///         Lsn(log.len() as u64)
///     }
///     fn append_keeping(&self, group: &mut Group, reserved: u64, kept: u64) -> Lsn {
///         self.append(group, reserved - kept)
///     }
///     fn end(&self) -> Lsn {
///         Lsn(self.0.lock().unwrap().len() as u64)
///     }
///     fn await_durable(&self, _lsn: Lsn) -> Result<(), SharedError> {
///         Ok(())
///     }
///     fn before_write(&self, _pages: &[Outgoing<'_>]) -> Result<u64, SharedError> {
///         Ok(0)
///     }
///     fn after_write(&self, _ticket: u64, _failed: &[PageId]) {}
///     fn is_trusted(&self, _page: PageId) -> bool {
///         true
///     }
/// }
///
/// # use polder_format::PageSize;
/// # use polder_pool::{Array, FileState, Pool, PoolConfig};
/// # use polder_testkit::pools;
/// # let config = pools::config(1, PageSize::MIN, FileState::NEW);
/// let log = Arc::new(InMemory::default());
/// let config = PoolConfig { journal: Some(log.clone()), ..config };
/// # let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &[])?;
/// let new = pool.create_space()?;
/// let page = new.create()?.id().page();
/// let before = log.end();
/// new.link(&[page])?; // one group: the allocation map's bit
/// assert!(log.end() > before);
/// # Ok::<(), polder_pool::PoolError>(())
/// ```
pub trait Journal: Send + Sync + fmt::Debug {
    /// A1, log-space reservation: a group of at most `bytes` bytes will be appended. Called
    /// without any latch; may wait until the log has room.
    ///
    /// # Errors
    /// The log has failed, or never has room for so many bytes. Nothing is reserved then.
    fn reserve(&self, bytes: u64) -> Result<(), SharedError>;

    /// Called before `bytes` bytes are reserved, by a thread that holds nothing others wait for.
    /// May wait for a moment, so that writers go no faster than the log is made shorter. False: it
    /// would have to, and the thread may not ([`waits`](crate::waits)).
    fn throttle(&self, _bytes: u64) -> bool {
        true
    }

    /// `bytes` bytes that were reserved are not needed: the change came to nothing.
    fn release(&self, bytes: u64);

    /// A3 to A5: puts the group into the log. Called while all its pages are latched; gives the LSN
    /// at which the group ends, which the pages bear from now on. The reservation, of `reserved`
    /// bytes, is used up by it, however many of them the group takes. It cannot fail: a log that
    /// has failed gives an LSN that never becomes durable.
    fn append(&self, group: &mut Group, reserved: u64) -> Lsn;

    /// As [`Journal::append`], where `kept` of the `reserved` bytes stay reserved, for another group.
    fn append_keeping(&self, group: &mut Group, reserved: u64, kept: u64) -> Lsn;

    /// The end of the log: every LSN that it has given is at most this. A page whose LSN is higher
    /// is not believed.
    fn end(&self) -> Lsn;

    /// Whether a checkpoint has begun whose sweep is not done, so that a recovery may soon begin behind
    /// what was appended before. While it is not, all is in the log since the full-page image of a page
    /// that is imaged ([`Outgoing::imaged`]), and a group may rely on that (`HALF-1`).
    fn is_sweeping(&self) -> bool {
        true
    }

    /// Waits until the log is durable up to `lsn`, which it has given.
    ///
    /// # Errors
    /// The log could not be written or synced, so that it is not.
    fn await_durable(&self, lsn: Lsn) -> Result<(), SharedError>;

    /// How many pages that are not imaged `before_write` takes at a time, of `wanted`: at least 1,
    /// or it is taken for 1.
    fn pages_at_once(&self, wanted: usize) -> usize {
        wanted
    }

    /// B1 to B3: called before these pages are written in place; waits until they may be. Gives a
    /// ticket, a number of the log's own choice, for `after_write`.
    ///
    /// # Errors
    /// The log does not permit it: none of these pages is written, and all stay dirty.
    fn before_write(&self, pages: &[Outgoing<'_>]) -> Result<u64, SharedError>;

    /// B4: the pages of this ticket's batch have been written in place, but for `failed`. They are
    /// not synced yet.
    fn after_write(&self, ticket: u64, failed: &[PageId]);

    /// Whether what the device holds of a page can be relied on: not if it was written before a
    /// sync that failed. A page that is not trusted is not loaded
    /// ([`PoolError::Read`](crate::PoolError::Read)).
    fn is_trusted(&self, page: PageId) -> bool;
}

/// How many bytes of log a group takes at most that has `records` records, whose content (the bytes
/// of patches, keys and values) is `content` bytes in all: what
/// [`Space::change`](crate::Space::change) is told.
///
/// ```
/// use polder_pool::journal::group_bytes;
///
/// // Two patches of 8 bytes each.
/// let most = group_bytes(2, 16);
/// assert!(most > 16 && most < 512);
/// ```
pub fn group_bytes(records: usize, content: usize) -> usize {
    use polder_format::log::{GROUP_BYTES_MIN, GROUP_HEADER_BYTES, RECORD_BYTES_AT_MOST};
    (GROUP_HEADER_BYTES + records * RECORD_BYTES_AT_MOST + content).max(GROUP_BYTES_MIN)
}

/// How many bytes of log it takes at most to mark these pages as used or free ([`Change::mark`](crate::Change::mark)).
/// Ascending numbers take the least.
pub fn mark_bytes(pages: &[PageNo]) -> usize {
    let breaks = pages.windows(2).filter(|pair| pair[0].get().abs_diff(pair[1].get()) != 1).count();
    // Runs are cut where allocation maps meet, which speak of 32 thousand pages or more. A record
    // is counted for each run, of which it may have many.
    let records = breaks + 2 + pages.len() / 32_000;
    group_bytes(records, 8 * records)
}

/// How many bytes of log the full-page images of `pages` pages of this size take at most, as one
/// group.
pub fn full_page_image_bytes(pages: usize, size: PageSize) -> usize {
    group_bytes(pages, pages * (size.bytes() + 8))
}
