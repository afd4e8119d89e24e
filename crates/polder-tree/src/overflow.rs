//! Values that do not fit in a leaf: chains of overflow pages.
//!
//! A chain belongs to one record and never changes: writing the value again makes a new chain and
//! frees the old one, and so does moving it to other pages (`moving.rs`). So a thread that follows
//! a chain page by page needs to know only, at the end, that the record still leads to the chain
//! that it began with:
//!
//! Its pages have numbers that follow each other, as far as that could be had: a record, and each page,
//! tells how many of those behind it do. So they are asked for together, and what is consecutive is known
//! without being read.
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

use crate::node::{MAX_VALUE_BYTES, OVERFLOW_BYTES_AT, overflow_pages};

/// Where the fields of an overflow page are; `docs/format.md`, "Overflow page".
pub(crate) mod at {
    pub(crate) const NEXT: usize = 32;
    pub(crate) const LEN: usize = 40;
    pub(crate) const NEXT_RUN: usize = 44;
    pub(crate) const BYTES: usize = super::OVERFLOW_BYTES_AT;
}

/// A value in overflow pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Long {
    /// Its length in bytes.
    pub(crate) len: u64,
    /// How many of its pages, from the first one on, have numbers that follow each other; 0 says the
    /// same as 1.
    pub(crate) run: u32,
    /// Link of the first page.
    pub(crate) link: u64,
}

impl Long {
    /// Pages of its chain.
    pub(crate) fn pages(self, page_bytes: usize) -> u64 {
        overflow_pages(page_bytes, self.len)
    }

    /// The numbers of all its pages, if they follow each other: nothing needs to be read then.
    fn consecutive(self, page_bytes: usize) -> Option<Vec<PageNo>> {
        let (pages, first) = (self.pages(page_bytes), page_of(self.link).get());
        let is_one_run = self.len <= MAX_VALUE_BYTES && pages == u64::from(self.run.max(1));
        is_one_run.then(|| (first..first + pages).filter_map(PageNo::new).collect())
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

/// The fields of an overflow page before the bytes of the value.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Header {
    kind: u8,
    next: u64,
    next_run: u32,
    len: u32,
}

impl Header {
    /// Of a page that may be changing.
    pub(crate) fn of(page: PageRef<'_>) -> Header {
        Header {
            kind: page.u8(header_at::KIND),
            next: page.u64(at::NEXT),
            next_run: page.u32(at::NEXT_RUN),
            len: page.u32(at::LEN),
        }
    }
}

/// A way along a chain, from its first page to its last one.
#[derive(Debug)]
pub(crate) struct ChainWalk {
    /// Link of the page to which it has come.
    link: u64,
    /// How many pages, from that one on, have numbers that follow each other.
    run: u32,
    /// Whether that one is the first of those.
    begins_run: bool,
    /// Bytes of the value in it and behind it.
    left: u64,
    /// Bytes of the value in a page that is full.
    room: u64,
}

impl ChainWalk {
    /// At the first page. An error if there can be no such value.
    pub(crate) fn new(long: Long, page_bytes: usize) -> Result<ChainWalk, PoolError> {
        if long.len == 0 || long.len > MAX_VALUE_BYTES {
            return Err(broken(PageId::from_link(long.link), "a long value has no such length"));
        }
        let room = (page_bytes - at::BYTES) as u64;
        let run = long.run.clamp(1, long.pages(page_bytes) as u32);
        Ok(ChainWalk { link: long.link, run, begins_run: true, left: long.len, room })
    }

    /// The page to which it has come; none behind the last one.
    pub(crate) fn page(&self) -> Option<PageNo> {
        (self.left > 0).then(|| page_of(self.link))
    }

    /// At the first one of several pages with numbers that follow each other: how many.
    pub(crate) fn new_run(&self) -> Option<u64> {
        (self.begins_run && self.run > 1).then_some(u64::from(self.run))
    }

    /// Bytes of the value in this page.
    pub(crate) fn piece(&self) -> usize {
        self.left.min(self.room) as usize
    }

    /// Goes on, if the page is what it should be.
    pub(crate) fn step(&mut self, page: Header) -> Result<(), PoolError> {
        let piece = self.piece() as u64;
        let is_last = piece == self.left;
        let fail = |what| Err(broken(PageId::from_link(self.link), what));
        if page.kind != PageKind::OVERFLOW.0 {
            return fail("this is not an overflow page");
        }
        if u64::from(page.len) != piece || (page.next == 0) != is_last {
            return fail("a chain of overflow pages has the wrong length");
        }
        let follows = page_of(page.next).get() == page_of(self.link).get() + 1;
        if !is_last && self.run > 1 && !follows {
            return fail("a chain of overflow pages does not lie where it should");
        }
        self.left -= piece;
        self.link = page.next;
        self.begins_run = self.run == 1;
        self.run = match self.begins_run {
            true => page.next_run.clamp(1, self.left.div_ceil(self.room).max(1) as u32),
            false => self.run - 1,
        };
        Ok(())
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
    let count = value.len().div_ceil(room).max(1);
    let Some(pages) = space.reserve(count, limit)? else { return Ok(None) };
    match write_pieces(space, value, &pages) {
        Ok(long) => Ok(Some((long, pages))),
        Err(error) => {
            free_pages(space, &pages);
            Err(error)
        }
    }
}

/// Writes the pieces of a value into pages that are reserved: from the last one to the first, so that
/// each page is older than the one that leads to it.
fn write_pieces<T: Translation>(
    space: &Space<T>,
    value: &[u8],
    pages: &[PageNo],
) -> Result<Long, PoolError> {
    let size = space.page_size().bytes();
    let mut long = Long { len: value.len() as u64, run: 0, link: 0 };
    let mut behind = None;
    for (page, piece) in pages.iter().zip(value.chunks(size - at::BYTES)).rev() {
        let page = space.make(*page)?;
        let mut change = space.change(full_page_image_bytes(1, space.page_size()))?;
        let mut latched = page.latch().map_err(|_| PoolError::Dropped { space: space.id() })?;
        let mut bytes = latched.page_mut();
        bytes.set_u8(header_at::KIND, PageKind::OVERFLOW.0);
        bytes.set_u8(header_at::LAYOUT, 1);
        bytes.set_u64(at::NEXT, long.link);
        bytes.set_u32(at::LEN, piece.len() as u32);
        bytes.set_u32(at::NEXT_RUN, long.run);
        bytes.write(at::BYTES, piece);
        change.push_full_page_image(&mut latched, at::BYTES + piece.len()..size);
        change.commit(&mut [&mut latched]);
        drop(latched);
        let number = page.id().page();
        let follows = behind == Some(number.get() + 1);
        long.run = if follows { long.run + 1 } else { 1 };
        long.link = page.id().to_bits();
        behind = Some(number.get());
    }
    Ok(long)
}

/// The pages of a chain; their bytes go to `out`.
pub(crate) fn read_chain<T: Translation>(
    space: &Space<T>,
    hint: AccessHint,
    long: Long,
    out: Option<&mut Vec<u8>>,
) -> Result<Vec<PageNo>, PoolError> {
    let size = space.page_size().bytes();
    let Some(out) = out else {
        if let Some(pages) = long.consecutive(size) {
            return Ok(pages);
        }
        return walk_chain(space, hint, long, |_, _| ());
    };
    out.reserve_exact(long.len.min(MAX_VALUE_BYTES) as usize);
    let begin = out.len();
    walk_chain(space, hint, long, |page, at| {
        out.truncate(begin + at);
        let piece = page.u32(at::LEN) as usize;
        page.append_to(at::BYTES, piece.min(long.len as usize - at), out);
    })
}

/// The pages of a chain, one after the other; `see` is called with each, and where its bytes stand in
/// the value; again, if it was changed meanwhile.
fn walk_chain<T: Translation>(
    space: &Space<T>,
    hint: AccessHint,
    long: Long,
    mut see: impl FnMut(PageRef<'_>, usize),
) -> Result<Vec<PageNo>, PoolError> {
    let mut walk = ChainWalk::new(long, space.page_size().bytes())?;
    let mut pages = Vec::with_capacity(long.pages(space.page_size().bytes()) as usize);
    let mut at = 0;
    while let Some(page) = walk.page() {
        if let Some(run) = walk.new_run() {
            space.prefetch_run(page, run, 0);
        }
        let header = space.run(hint, |attempt| {
            let guard = space.page(attempt, page)?;
            let header = Header::of(guard.page());
            see(guard.page(), at);
            guard.validate()?;
            Ok(header)
        })?;
        pages.push(page);
        at += walk.piece();
        walk.step(header)?;
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
    use polder_pool::waits::{Refused, without_waiting};
    use polder_pool::{Array, FileState, Pool};
    use polder_testkit::pools::{disk, tight};

    use crate::read::Held;
    use crate::{BatchAction, BatchOp, KINDS, Tree, apply_batch};

    /// `WAIT-1`: its pages would be read, and freed.
    #[test]
    fn a_long_value_stays_where_a_thread_may_not_wait() {
        let config = tight::<Array>(PageSize::MIN, FileState::NEW);
        let pool = Pool::<Array>::open(Box::new(disk()), &config, &KINDS).unwrap();
        let tree = Tree::create(pool.create_space().unwrap()).unwrap();
        tree.insert(b"key", &[7; 9000], 1).unwrap();
        let remove = || tree.remove(b"key").map(drop);
        let op = BatchOp { tree: &tree, key: b"key", expect: None, action: BatchAction::Remove };
        let ops = [op];
        let remove_by_batch = || apply_batch(&ops).map(drop);
        for refused in [without_waiting(false, remove), without_waiting(false, remove_by_batch)] {
            assert!(matches!(refused, (Err(_), Some(Refused::More))), "{refused:?}");
            assert_eq!(tree.get(b"key").unwrap(), Some(vec![7; 9000]));
        }
        remove_by_batch().unwrap();
        assert_eq!(tree.get(b"key").unwrap(), None);
    }

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
