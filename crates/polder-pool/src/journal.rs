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

use polder_format::log::Group;
use polder_format::{Lsn, PageId, PhysicalPageNo};

pub use crate::space::change::{Change, full_page_image_bytes, mark_bytes};

/// An error that several waiters share.
pub type SharedError = Arc<io::Error>;

/// A page on its way to the device, as it will lie there.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// The page.
    pub page: PageId,
    /// Where it goes.
    pub place: PhysicalPageNo,
    /// Its bytes, checksum included; aligned as the device wants it.
    pub bytes: &'a [u8],
    /// The page's full-page image is in the log, and the page has not been written since: until it
    /// is, a recovery begins at that full-page image or before it.
    pub imaged: bool,
}

/// The log below a pool: what a pool asks of it.
pub trait Journal: Send + Sync + fmt::Debug {
    /// A1, log-space reservation: a group of at most `bytes` bytes will be appended. Called
    /// without any latch; may wait.
    fn reserve(&self, bytes: u64) -> Result<(), SharedError>;

    /// Called before so many bytes are reserved, by a thread that holds nothing others wait for.
    /// May wait for a moment, so that writers go no faster than the log is made shorter.
    fn throttle(&self, _bytes: u64) {}

    /// The bytes of a reservation are not needed.
    fn release(&self, bytes: u64);

    /// A3 to A5: puts the group into the log. Called while all its pages are latched; gives the
    /// LSN that they bear from now on. The reservation, of `reserved` bytes, is used up by it.
    fn append(&self, group: &mut Group, reserved: u64) -> Lsn;

    /// Every LSN so far is at most this.
    fn end(&self) -> Lsn;

    /// Waits until the log is durable up to `lsn`.
    fn await_durable(&self, lsn: Lsn) -> Result<(), SharedError>;

    /// How many pages that are not imaged `before_write` takes at a time, of so many.
    fn pages_at_once(&self, wanted: usize) -> usize {
        wanted
    }

    /// B1 to B3: may these pages be written in place? Gives a ticket for `after_write`.
    fn before_write(&self, pages: &[Outgoing<'_>]) -> Result<u64, SharedError>;

    /// B4: the pages of this ticket's batch have been written in place, but for `failed`.
    fn after_write(&self, ticket: u64, failed: &[PageId]);

    /// Whether what the device holds of a page can be relied on: not if it was written before a
    /// sync that failed.
    fn is_trusted(&self, page: PageId) -> bool;
}

/// Bytes of log that a group of `records` records, `content` bytes in all, takes at most.
pub fn group_bytes(records: usize, content: usize) -> usize {
    use polder_format::log::{GROUP_HEADER_BYTES, RECORD_BYTES_AT_MOST};
    GROUP_HEADER_BYTES + records * RECORD_BYTES_AT_MOST + content
}
