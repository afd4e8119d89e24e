//! Small questions that every kind of page is asked.

use std::ops::Range;

use polder_format::{Lsn, PageId, PageKind, PageNo, header_at};
use polder_pool::bytes::{PageBuf, PageRef};
use polder_pool::{Attempt, Exclusive, Optimistic, PoolError, Restart, Swip};

/// Passes on, or names what does not hold.
#[inline]
pub fn ensure(holds: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(otherwise) }
}

/// The link at `offset` as it may leave its page: the id that it leads to, also where it holds a
/// frame.
#[inline]
pub fn link(page: PageRef<'_>, offset: usize) -> u64 {
    Swip::new(page.u64(offset)).unswizzled(id(page).space())
}

/// The id that a page says it has.
#[inline]
pub fn id(page: PageRef<'_>) -> PageId {
    PageId::from_link(page.u64(header_at::PAGE_ID))
}

/// The number of the page that a link leads to.
pub fn page_of(link: u64) -> PageNo {
    PageId::from_link(link).page()
}

/// The page whose number stands here; none for 0. For structures that reach pages by their numbers,
/// and whose links so own nothing.
pub fn page_no(page: PageRef<'_>, offset: usize) -> Option<PageNo> {
    PageNo::new(page.u64(offset)).filter(|number| number.get() > 0)
}

/// The last change of a page, if the guard validates afterwards.
pub fn lsn_of(page: PageRef<'_>) -> Lsn {
    Lsn(page.u64(header_at::LSN))
}

/// A copy of the page that nobody else sees.
pub fn copy_of(page: PageRef<'_>) -> PageBuf {
    let mut copy = PageBuf::new(page.page_size());
    copy.copy_from(page);
    copy
}

/// Bytes of a page that is held, where no link is.
pub fn bytes_of(held: &Exclusive<'_>, range: Range<usize>) -> Vec<u8> {
    let mut bytes = Vec::new();
    held.page().append_to(range.start, range.len(), &mut bytes);
    bytes
}

/// Whether records, of which each is given by where it begins and how long it is, lie apart.
pub fn lie_apart(records: impl Iterator<Item = (usize, usize)>) -> bool {
    let mut records: Vec<_> = records.collect();
    records.sort_unstable();
    records.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0)
}

/// An error that lies in what a page holds.
pub fn broken(page: PageId, what: &'static str) -> PoolError {
    PoolError::Broken { page, what }
}

/// Ends the operation: what is wrong was seen in a page that is latched.
#[cold]
#[inline(never)]
pub fn fail(attempt: &mut Attempt<'_>, page: PageId, what: &'static str) -> Restart {
    attempt.fail(broken(page, what))
}

/// Latches a page to change what is in it, if it is still what was searched. Nobody writes to a page
/// of another kind, whatever leads there: `otherwise` is what is said of it.
#[inline(always)]
pub fn latch_kind<'p>(
    attempt: &mut Attempt<'p>,
    page: Optimistic<'p>,
    kind: PageKind,
    otherwise: &'static str,
) -> Result<Exclusive<'p>, Restart> {
    let held = attempt.upgrade(page)?;
    match held.page().u8(header_at::KIND) == kind.0 {
        true => Ok(held),
        false => Err(fail(attempt, held.id(), otherwise)),
    }
}
