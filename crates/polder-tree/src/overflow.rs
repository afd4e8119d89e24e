//! Values that do not fit in a leaf: chains of overflow pages.
//!
//! A chain belongs to one record and never changes: writing the value again makes a new chain and
//! frees the old one. So a reader that follows a chain page by page needs to know only, at the end,
//! that the record is still the one it began with (its version word differs with every write).

use polder_format::{PageId, PageKind, PageNo, header_at};
use polder_pool::bytes::PageRef;
use polder_pool::{AccessHint, PoolError, Translation};

use crate::error::TreeError;
use crate::tree::Tree;

/// Where the fields of an overflow page are; `docs/format.md`, "Overflow page".
pub(crate) mod at {
    pub(crate) const NEXT: usize = 32;
    pub(crate) const LEN: usize = 40;
    pub(crate) const BYTES: usize = 48;
}

/// A value in overflow pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Long {
    /// Its length in bytes.
    pub(crate) len: u64,
    /// Link of the first page.
    pub(crate) link: u64,
}

impl Long {
    /// Pages of its chain.
    pub(crate) fn pages(self, page_bytes: usize) -> u64 {
        self.len.div_ceil((page_bytes - at::BYTES) as u64).max(1)
    }
}

/// Checks an overflow page that came from the device.
pub(crate) fn verify_shape(page: PageRef<'_>) -> Result<(), &'static str> {
    if page.u32(at::LEN) as usize > page.size() - at::BYTES {
        return Err("an overflow page claims more bytes than it has room for");
    }
    Ok(())
}

impl<T: Translation> Tree<T> {
    /// Writes a value into new pages. On an error none are left.
    pub(crate) fn write_long(&self, value: &[u8]) -> Result<Long, TreeError> {
        let room = self.page_bytes() - at::BYTES;
        let mut long = Long { len: value.len() as u64, link: 0 };
        // From the last piece to the first, so that each page's link is known when it is made.
        for piece in value.chunks(room).rev() {
            let page = self.space.create().inspect_err(|_| {
                // The first error is the one to report.
                let _ = self.free_chain(long.link);
            })?;
            if let Ok(mut latched) = page.latch() {
                let mut bytes = latched.page_mut();
                bytes.set_u8(header_at::KIND, PageKind::OVERFLOW.0);
                bytes.set_u8(header_at::LAYOUT, 1);
                bytes.set_u64(at::NEXT, long.link);
                bytes.set_u32(at::LEN, piece.len() as u32);
                bytes.write(at::BYTES, piece);
            }
            long.link = page.id().to_bits();
        }
        Ok(long)
    }

    /// The bytes of a value whose record had this version. `None` if the record is another one by
    /// now.
    pub(crate) fn read_long(
        &self,
        key: &[u8],
        version: u64,
        long: Long,
    ) -> Result<Option<Vec<u8>>, TreeError> {
        let bytes = self.read_chain(long);
        // Pages of a chain that was freed meanwhile may hold anything, or not be readable.
        if self.version(key)? != Some(version) {
            return Ok(None);
        }
        bytes.map(Some)
    }

    fn read_chain(&self, long: Long) -> Result<Vec<u8>, TreeError> {
        let mut bytes = Vec::new();
        let mut link = long.link;
        for _ in 0..long.pages(self.page_bytes()) {
            let before = bytes.len();
            link = self.space.run(AccessHint::Normal, |attempt| {
                bytes.truncate(before);
                let guard = self.space.page(attempt, page_of(link))?;
                let page = guard.page();
                let (kind, next) = (page.u8(header_at::KIND), page.u64(at::NEXT));
                page.append_to(at::BYTES, page.u32(at::LEN) as usize, &mut bytes);
                guard.validate()?;
                if kind != PageKind::OVERFLOW.0 {
                    return Err(attempt.fail(broken(link, "this is not an overflow page")));
                }
                Ok(next)
            })?;
        }
        if bytes.len() as u64 != long.len || link != 0 {
            return Err(broken(long.link, "a chain of overflow pages has the wrong length").into());
        }
        Ok(bytes)
    }

    /// Frees the pages of a value whose record is gone.
    pub(crate) fn free_long(&self, long: Long) -> Result<(), TreeError> {
        self.free_chain(long.link)
    }

    fn free_chain(&self, mut link: u64) -> Result<(), TreeError> {
        while link != 0 {
            let (id, next) = self.space.run(AccessHint::Normal, |attempt| {
                let guard = self.space.page(attempt, page_of(link))?;
                let page = attempt.upgrade(guard)?;
                if page.page().u8(header_at::KIND) != PageKind::OVERFLOW.0 {
                    return Err(attempt.fail(broken(link, "this is not an overflow page")));
                }
                let next = page.page().u64(at::NEXT);
                Ok((self.space.discard(page), next))
            })?;
            self.space.give_back(id)?;
            link = next;
        }
        Ok(())
    }
}

pub(crate) fn page_of(link: u64) -> PageNo {
    PageId::from_link(link).page()
}

fn broken(link: u64, what: &'static str) -> PoolError {
    PoolError::Broken { page: PageId::from_link(link), what }
}
