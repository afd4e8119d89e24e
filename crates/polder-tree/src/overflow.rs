//! Values that do not fit in a leaf: chains of overflow pages.
//!
//! A chain belongs to one record and never changes: writing the value again makes a new chain and
//! frees the old one. So a reader that follows a chain page by page needs to know only, at the end,
//! that the record is still the one it began with (its version word differs with every write).

use polder_format::{PageId, PageKind, PageNo, header_at};
use polder_pool::bytes::PageRef;
use polder_pool::journal::image_bytes;
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

/// The link of the next page and the bytes of the value in an overflow page, if it is one.
pub fn overflow_piece(page: &[u8]) -> Option<(u64, &[u8])> {
    let number = |at: usize, len: usize| {
        let bytes = page.get(at..at + len)?.iter().rev();
        Some(bytes.fold(0, |number: u64, byte| number << 8 | u64::from(*byte)))
    };
    let is_one = *page.get(header_at::KIND)? == PageKind::OVERFLOW.0;
    let bytes = page.get(at::BYTES..)?.get(..number(at::LEN, 4)? as usize)?;
    is_one.then_some((number(at::NEXT, 8)?, bytes))
}

/// Checks an overflow page that came from the device.
pub(crate) fn verify_shape(page: PageRef<'_>) -> Result<(), &'static str> {
    if page.u32(at::LEN) as usize > page.size() - at::BYTES {
        return Err("an overflow page claims more bytes than it has room for");
    }
    Ok(())
}

impl<T: Translation> Tree<T> {
    /// Writes a value into new pages, which it gives as well. On an error none are left.
    pub(crate) fn write_long(&self, value: &[u8]) -> Result<(Long, Vec<PageNo>), TreeError> {
        let room = self.page_bytes() - at::BYTES;
        let mut long = Long { len: value.len() as u64, link: 0 };
        let mut pages = Vec::new();
        // From the last piece to the first, so that each page's link is known when it is made.
        for piece in value.chunks(room).rev() {
            let page = self.space.create().inspect_err(|_| self.free_pages(&pages))?;
            let logged = self.space.change(image_bytes(1, self.space.page_size()));
            let mut change = logged.inspect_err(|_| {
                pages.push(page.id().page());
                self.free_pages(&pages);
            })?;
            if let Ok(mut latched) = page.latch() {
                let mut bytes = latched.page_mut();
                bytes.set_u8(header_at::KIND, PageKind::OVERFLOW.0);
                bytes.set_u8(header_at::LAYOUT, 1);
                bytes.set_u64(at::NEXT, long.link);
                bytes.set_u32(at::LEN, piece.len() as u32);
                bytes.write(at::BYTES, piece);
                change.push_image(&mut latched, at::BYTES + piece.len()..self.page_bytes());
                change.commit(&mut [&mut latched]);
            }
            long.link = page.id().to_bits();
            pages.push(page.id().page());
        }
        Ok((long, pages))
    }

    /// The bytes of a value whose record had this version. `None` if the record is another one by
    /// now.
    pub(crate) fn read_long(
        &self,
        key: &[u8],
        version: u64,
        long: Long,
    ) -> Result<Option<Vec<u8>>, TreeError> {
        let mut bytes = Vec::new();
        let pages = self.walk_chain(long, Some(&mut bytes));
        Ok(self.if_still(key, version, pages)?.map(|_| bytes))
    }

    /// The pages of a value whose record had this version. `None` if the record is another one by
    /// now.
    pub(crate) fn pages_of_long(
        &self,
        key: &[u8],
        version: u64,
        long: Long,
    ) -> Result<Option<Vec<PageNo>>, TreeError> {
        let pages = self.walk_chain(long, None);
        self.if_still(key, version, pages)
    }

    /// What was found in a chain, or its error, if the record still has this version. Pages of a
    /// chain that was freed meanwhile may hold anything, or not be readable.
    fn if_still<R>(
        &self,
        key: &[u8],
        version: u64,
        found: Result<R, TreeError>,
    ) -> Result<Option<R>, TreeError> {
        if self.version(key)? == Some(version) { found.map(Some) } else { Ok(None) }
    }

    /// The pages of a chain; their bytes go to `out`.
    fn walk_chain(
        &self,
        long: Long,
        mut out: Option<&mut Vec<u8>>,
    ) -> Result<Vec<PageNo>, TreeError> {
        let (mut pages, mut link, mut len) = (Vec::new(), long.link, 0);
        for _ in 0..long.pages(self.page_bytes()) {
            let begin = out.as_ref().map_or(0, |out| out.len());
            let (next, piece) = self.space.run(AccessHint::Normal, |attempt| {
                let guard = self.space.page(attempt, page_of(link))?;
                let page = guard.page();
                let (kind, next) = (page.u8(header_at::KIND), page.u64(at::NEXT));
                let piece = page.u32(at::LEN);
                if let Some(out) = out.as_deref_mut() {
                    out.truncate(begin);
                    page.append_to(at::BYTES, piece as usize, out);
                }
                guard.validate()?;
                if kind != PageKind::OVERFLOW.0 {
                    return Err(attempt.fail(broken(link, "this is not an overflow page")));
                }
                Ok((next, piece))
            })?;
            pages.push(page_of(link));
            (link, len) = (next, len + u64::from(piece));
        }
        if len != long.len || link != 0 {
            return Err(broken(long.link, "a chain of overflow pages has the wrong length").into());
        }
        Ok(pages)
    }

    /// Frees reserved pages that nothing links.
    pub(crate) fn free_pages(&self, pages: &[PageNo]) {
        pages.iter().for_each(|page| self.space.free(*page));
    }
}

pub(crate) fn page_of(link: u64) -> PageNo {
    PageId::from_link(link).page()
}

fn broken(link: u64, what: &'static str) -> PoolError {
    PoolError::Broken { page: PageId::from_link(link), what }
}
