//! Long values of a damaged store.
//!
//! A chain of overflow pages belongs to one record, was written before it, and never changes. So
//! of each page the newest copy counts that is not newer than the record; and since a chain is
//! written from its end, each page must be older than the one before it. A chain that was freed,
//! and of which a page was written anew, is thus seen to be none.

use std::collections::HashMap;

use polder_format::{Lsn, PageId};
use polder_tree::node::MAX_VALUE_BYTES;
use polder_tree::overflow_piece;

use super::copies::{Copies, Copy};
use super::replay::{LongValue, read_copy};
use super::source::Source;

/// Where the overflow pages are.
pub(super) struct Values<'s> {
    source: &'s Source,
    copies: &'s Copies,
    /// The last full-page image of each page so far: the LSN of the page, and where its group
    /// begins.
    logged: HashMap<PageId, (Lsn, Lsn)>,
}

impl<'s> Values<'s> {
    pub(super) fn new(source: &'s Source, copies: &'s Copies) -> Values<'s> {
        Values { source, copies, logged: HashMap::new() }
    }

    /// The log holds a full-page image of a page.
    pub(super) fn note(&mut self, page: PageId, lsn: Lsn, group: Lsn) {
        self.logged.insert(page, (lsn, group));
    }

    /// The value that a record had at `as_of`; `None` if it is lost.
    pub(super) fn read(&self, long: LongValue, as_of: Lsn) -> Option<Vec<u8>> {
        if long.len > MAX_VALUE_BYTES {
            return None;
        }
        let (mut value, mut link) = (Vec::with_capacity(long.len as usize), long.link);
        let mut newest = as_of;
        while link != 0 {
            let (lsn, bytes) = self.page(PageId::from_link(link), newest)?;
            let (next, piece) = overflow_piece(&bytes)?;
            value.extend_from_slice(piece);
            if piece.is_empty() || value.len() as u64 > long.len || lsn.0 == 0 {
                return None;
            }
            (link, newest) = (next, Lsn(lsn.0 - 1));
        }
        (value.len() as u64 == long.len).then_some(value)
    }

    /// The newest copy of a page that is not newer than `as_of`.
    fn page(&self, page: PageId, as_of: Lsn) -> Option<(Lsn, Vec<u8>)> {
        let copies = &self.copies.overflow;
        let behind = copies.partition_point(|copy| (copy.page, copy.lsn) <= (page, as_of));
        let copy = behind.checked_sub(1).map(|at| copies[at]).filter(|copy| copy.page == page);
        let logged = self.logged.get(&page).filter(|(lsn, _)| *lsn <= as_of);
        match (copy, logged) {
            (Some(Copy { lsn, lies, .. }), logged)
                if logged.is_none_or(|(logged, _)| *logged <= lsn) =>
            {
                Some((lsn, read_copy(self.source, lies)?))
            }
            (_, Some((lsn, group))) => Some((*lsn, self.source.image(page, *group)?)),
            (_, None) => None,
        }
    }
}
