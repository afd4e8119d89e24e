//! Values that do not fit in a leaf: chains of overflow pages.
//!
//! A chain belongs to one record and never changes: writing the value again makes a new chain and
//! frees the old one, and so does moving it to other pages (`moving.rs`). So a thread that follows
//! a chain page by page needs to know only, at the end, that the record still leads to the chain
//! that it began with:
//!
//! * `CHAIN-1` A chain is the same if version word and first page are the same, and no pass of
//!   moving pages has begun meanwhile. The version word differs with every write; a move leaves it
//!   as it is, but within a pass no chain is moved twice, so that none comes back to its first
//!   page with other pages behind it. "Meanwhile" is since the record led to the chain: passes are
//!   counted before the leaf is validated from which the record was read, or under its latch
//!   ([`SeenChain`]). If they were counted later, a pass could move the chain away before the count, and
//!   the next one write it anew from the same first page on, behind the back of the reader.

use polder_format::{PageId, PageKind, PageNo, header_at};
use polder_pool::bytes::PageRef;
use polder_pool::journal::full_page_image_bytes;
use polder_pool::{AccessHint, PoolError, Space, Translation};
use polder_structure::page::{broken, page_of};

/// Where the fields of an overflow page are; `docs/format.md`, "Overflow page".
pub(crate) mod at {
    pub(crate) const NEXT: usize = 32;
    pub(crate) const LEN: usize = 40;
    pub(crate) const BYTES: usize = 48;
}

/// A value in overflow pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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

/// A chain as a record was seen to lead to it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SeenChain {
    /// The version word of the record.
    pub(crate) version: u64,
    pub(crate) long: Long,
    /// How many passes of moving pages had begun then (`CHAIN-1`).
    pub(crate) pass: u64,
}

impl SeenChain {
    /// The caller validates the leaf of the record afterwards, or has it latched.
    pub(crate) fn new<T: Translation>(space: &Space<T>, version: u64, long: Long) -> SeenChain {
        SeenChain { version, long, pass: space.passes() }
    }
}

/// A chain whose pages are known.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    pub(crate) seen: SeenChain,
    pub(crate) pages: Vec<PageNo>,
}

impl Chain {
    /// Whether it is the one to which a record leads that is latched (`CHAIN-1`).
    pub(crate) fn is<T: Translation>(&self, space: &Space<T>, version: u64, link: u64) -> bool {
        !self.pages.is_empty()
            && (self.seen.version, self.seen.long.link) == (version, link)
            && self.seen.pass == space.passes()
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

/// Writes a value into new pages, which it gives as well. On an error none are left.
pub(crate) fn write_chain<T: Translation>(
    space: &Space<T>,
    value: &[u8],
) -> Result<(Long, Vec<PageNo>), PoolError> {
    let none = PoolError::Limit { what: "a space's pages", limit: PageNo::MAX.get() };
    write_chain_before(space, value, PageNo::MAX)?.ok_or(none)
}

/// The same in pages in front of `limit`; `None` if not enough of them are free.
pub(crate) fn write_chain_before<T: Translation>(
    space: &Space<T>,
    value: &[u8],
    limit: PageNo,
) -> Result<Option<(Long, Vec<PageNo>)>, PoolError> {
    let room = space.page_size().bytes() - at::BYTES;
    let mut long = Long { len: value.len() as u64, link: 0 };
    let mut pages = Vec::new();
    // From the last piece to the first, so that each page's link is known when it is made.
    for piece in value.chunks(room).rev() {
        let made = space.create_before(limit);
        let Some(page) = made.inspect_err(|_| free_pages(space, &pages))? else {
            free_pages(space, &pages);
            return Ok(None);
        };
        let logged = space.change(full_page_image_bytes(1, space.page_size()));
        let mut change = logged.inspect_err(|_| {
            pages.push(page.id().page());
            free_pages(space, &pages);
        })?;
        if let Ok(mut latched) = page.latch() {
            let mut bytes = latched.page_mut();
            bytes.set_u8(header_at::KIND, PageKind::OVERFLOW.0);
            bytes.set_u8(header_at::LAYOUT, 1);
            bytes.set_u64(at::NEXT, long.link);
            bytes.set_u32(at::LEN, piece.len() as u32);
            bytes.write(at::BYTES, piece);
            change.push_full_page_image(
                &mut latched,
                at::BYTES + piece.len()..space.page_size().bytes(),
            );
            change.commit(&mut [&mut latched]);
        }
        long.link = page.id().to_bits();
        pages.push(page.id().page());
    }
    Ok(Some((long, pages)))
}

/// The pages of a chain; their bytes go to `out`.
pub(crate) fn read_chain<T: Translation>(
    space: &Space<T>,
    hint: AccessHint,
    long: Long,
    mut out: Option<&mut Vec<u8>>,
) -> Result<Vec<PageNo>, PoolError> {
    let (mut pages, mut link, mut len) = (Vec::new(), long.link, 0);
    for _ in 0..long.pages(space.page_size().bytes()) {
        let begin = out.as_ref().map_or(0, |out| out.len());
        let (next, piece) = space.run(hint, |attempt| {
            let guard = space.page(attempt, page_of(link))?;
            let page = guard.page();
            let (kind, next) = (page.u8(header_at::KIND), page.u64(at::NEXT));
            let piece = page.u32(at::LEN);
            if let Some(out) = out.as_deref_mut() {
                out.truncate(begin);
                page.append_to(at::BYTES, piece as usize, out);
            }
            guard.validate()?;
            if kind != PageKind::OVERFLOW.0 {
                return Err(
                    attempt.fail(broken(PageId::from_link(link), "this is not an overflow page"))
                );
            }
            Ok((next, piece))
        })?;
        pages.push(page_of(link));
        (link, len) = (next, len + u64::from(piece));
    }
    if len != long.len || link != 0 {
        return Err(broken(
            PageId::from_link(long.link),
            "a chain of overflow pages has the wrong length",
        ));
    }
    Ok(pages)
}

/// Frees reserved pages that nothing links.
pub(crate) fn free_pages<T: Translation>(space: &Space<T>, pages: &[PageNo]) {
    pages.iter().for_each(|page| space.free(*page));
}

#[cfg(test)]
mod tests {
    use polder_format::PageSize;
    use polder_pool::{Array, FileState, Pool};
    use polder_testkit::pools::{disk, tight};

    use crate::read::Held;
    use crate::{KINDS, Tree};

    /// `CHAIN-1`: the record leads to the chain as before, and nothing was moved since the chain is
    /// read; but something may have been since the record was.
    #[test]
    fn a_pass_since_the_record_was_read_makes_a_chain_unknown() {
        let config = tight::<Array>(PageSize::MIN, FileState::NEW);
        let pool = Pool::<Array>::open(Box::new(disk()), &config, &KINDS).unwrap();
        let tree = Tree::create(pool.create_space().unwrap()).unwrap();
        tree.insert(b"key", &[7; 9000], 1).unwrap();
        let record = tree.record_and_lsn(b"key").unwrap().0.unwrap();
        let Held::Long(seen) = record.value else { panic!("it lies in its leaf") };
        assert_eq!(tree.read_long(b"key", seen).unwrap(), Some(vec![7; 9000]));
        tree.space().begin_pass();
        assert_eq!(tree.read_long(b"key", seen).unwrap(), None);
        assert_eq!(tree.get(b"key").unwrap(), Some(vec![7; 9000]));
    }
}
