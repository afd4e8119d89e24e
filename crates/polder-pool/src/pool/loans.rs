//! Pages that are lent, for structures whose pages never change once they are linked
//! (`space/loan.rs`).

#![cfg(not(loom))]

use std::fmt;
use std::slice;

use polder_format::{PageId, PageNo, PageSize};

use crate::error::PoolError;
use crate::latch::{Optimistic, Pin};
use crate::page::bytes::prefetch_line;
use crate::page::{LinkRef, PageRef};
use crate::pool::handle::Space;
use crate::replacement::AccessHint;
use crate::space::loan::{Loan, NotLent};
use crate::thread::Holding;
use crate::translation::Translation;

/// So many lines of a page are asked for at its beginning; then the processor sees where it goes.
const PREFETCHED_LINES: usize = 6;

/// So many lines of the first page that is borrowed are asked for at once: it is the one that is read
/// first, and nothing else can be done before it comes. 4 KiB pages have four times as many.
const FIRST_LINES: usize = 16;

/// A space, for what is lent there.
trait Lender: Sync {
    /// G5: whether the page may be one that leaves with this loan.
    fn release(&self, loan: &Loan) -> bool;

    /// The rest of G5, where [`Lender::release`] says so.
    fn end_leaving(&self, loan: &Loan);
}

impl<T: Translation> Lender for Space<T> {
    #[inline]
    fn release(&self, loan: &Loan) -> bool {
        self.core().latches.meta(loan.frame).end_loan()
    }

    #[cold]
    fn end_leaving(&self, loan: &Loan) {
        self.shared().end_leaving(loan.frame);
    }
}

/// Pages of one space whose bytes are lent: they stay in memory and do not change as long as this is
/// kept, whatever becomes of what led to them. It holds no latch, and nothing that others wait for but
/// the frames of its pages. A [`Borrower`] makes it.
pub struct Loans<'p> {
    lender: &'p dyn Lender,
    page_size: PageSize,
    /// The first one needs no allocation.
    first: Option<Loan>,
    more: Vec<Loan>,
}

// SAFETY: it gives shared access to bytes that nobody changes (LOAN-2), and ends its loans in metadata
// and tables that any thread may go to.
unsafe impl Send for Loans<'_> {}
// SAFETY: as above.
unsafe impl Sync for Loans<'_> {}

impl fmt::Debug for Loans<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loans({} pages)", self.len())
    }
}

impl Loans<'_> {
    /// How many pages.
    #[inline]
    pub fn len(&self) -> usize {
        self.more.len() + usize::from(self.first.is_some())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// All bytes of the page that was lent as the `index`th, from 0 on.
    #[inline]
    pub fn page(&self, index: usize) -> Option<&[u8]> {
        let loan = match index.checked_sub(1) {
            None => self.first.as_ref(),
            Some(index) => self.more.get(index),
        }?;
        // SAFETY: the page is lent as long as `self` is there: it lies there, in memory that is mapped
        // as long as the space, which `lender` borrows (LOAN-1), and nobody writes to it (LOAN-2).
        Some(unsafe { slice::from_raw_parts(loan.base.as_ptr(), self.page_size.bytes()) })
    }

    /// Asks the processor for the beginning of a page that will be read soon: it does not see by itself
    /// that a run of bytes goes on in another page.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        for line in self.page(index).iter().flat_map(|page| page.chunks(64).take(PREFETCHED_LINES))
        {
            prefetch_line(&line[0]);
        }
    }

    /// Ends all loans, before any page leaves: that waits for a mutex, whose owner may wait for one of
    /// these frames (`LOAN-4`).
    #[inline]
    fn clear(&mut self) {
        let first = self.first.take().filter(|loan| self.lender.release(loan));
        self.more.retain(|loan| self.lender.release(loan));
        first.iter().chain(&self.more).for_each(|loan| self.lender.end_leaving(loan));
        self.more.clear();
    }
}

impl Drop for Loans<'_> {
    #[inline]
    fn drop(&mut self) {
        self.clear();
    }
}

/// Borrows pages of a space, one after the other. A page can be lent if its structure never changes it
/// in place: it is written before it is linked, and freed ([`Space::free`]) when it is linked no more.
///
/// ```
/// # use polder_format::{PAGE_HEADER_BYTES, PageKind, PageNo, PageSize, header_at};
/// # use polder_pool::{AccessHint, Array, FileState, KindOps, Pool, PoolError};
/// # use polder_testkit::pools;
/// use polder_pool::{Borrower, NotLent};
/// # const NOTE: KindOps = KindOps::plain(PageKind(200), "note", |_| Ok(()));
/// # const LINK: usize = PAGE_HEADER_BYTES;
/// # let config = pools::config(1, PageSize::MIN, FileState::NEW);
/// # let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &[NOTE])?;
/// # let space = pool.create_space()?;
/// # let pages = [space.create()?.id().page(), space.create()?.id().page()];
/// # for page in pages {
/// #     space.run(AccessHint::Normal, |attempt| {
/// #         let page = space.page(attempt, page)?;
/// #         let mut page = attempt.upgrade(page)?;
/// #         page.page_mut().set_u8(header_at::KIND, NOTE.kind.0);
/// #         page.page_mut().set_u8(header_at::LAYOUT, 1);
/// #         page.page_mut().set_u64(LINK, pages[1].get());
/// #         Ok(())
/// #     })?;
/// # }
/// # space.link(&pages)?;
/// # let root = pages[0];
/// let loans = loop {
///     // The page that leads there, to be looked at again when the other one is lent.
///     let (parent, wanted) = space.run(AccessHint::Normal, |attempt| {
///         let parent = space.page(attempt, root)?;
///         let wanted = parent.page().u64(LINK);
///         parent.validate()?;
///         Ok((parent.without_hold(), wanted))
///     })?;
///     let Some(wanted) = PageNo::new(wanted) else { continue };
///     let mut borrower = Borrower::new(&space);
///     match borrower.borrow(wanted, &parent) {
///         // SAFETY: nobody changes a note.
///         Ok(()) => break unsafe { borrower.into_loans() },
///         Err(NotLent::Missing) => drop(borrower.load(wanted)?),
///         Err(_) => {}
///     }
/// };
/// // Nothing leads there any more, and the page is free when the loan ends.
/// space.unlink(&pages[1..])?;
/// space.free(pages[1]);
/// assert_eq!(loans.page(0).map(<[u8]>::len), Some(4096));
/// # assert!(space.create()?.id().page() > pages[1]);
/// # Ok::<(), PoolError>(())
/// ```
pub struct Borrower<'p, T: Translation> {
    space: &'p Space<T>,
    loans: Loans<'p>,
}

impl<T: Translation> fmt::Debug for Borrower<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.loans.fmt(f)
    }
}

impl<'p, T: Translation> Borrower<'p, T> {
    /// Has borrowed nothing yet.
    #[inline]
    pub fn new(space: &'p Space<T>) -> Borrower<'p, T> {
        let (first, more) = (None, Vec::new());
        let loans = Loans { lender: space, page_size: space.page_size(), first, more };
        Borrower { space, loans }
    }

    /// Makes room for so many.
    pub fn reserve(&mut self, pages: usize) {
        self.loans.more.reserve(pages.saturating_sub(1));
    }

    /// Borrows the page to which `parent` leads, as was read there.
    ///
    /// # Errors
    /// Why not. All that was borrowed before is still lent.
    #[inline]
    pub fn borrow(&mut self, page: PageNo, parent: &Optimistic<'_>) -> Result<(), NotLent> {
        let is_first = self.loans.first.is_none();
        let soon = 64 * if is_first { FIRST_LINES } else { 1 };
        let loan = self.space.view().lend(page, parent, soon)?;
        match is_first {
            true => self.loans.first = Some(loan),
            false => self.loans.more.push(loan),
        }
        Ok(())
    }

    /// Asks for pages that will be borrowed next, whose numbers follow each other: those that are
    /// missing are loaded by one batch of reads, as by [`Space::prefetch_group`].
    pub fn prefetch_run(&self, first: PageNo, pages: u64) {
        let (view, latches) = (self.space.view(), &self.space.core().latches);
        let mut is_missing = false;
        for page in (first.get()..first.get().saturating_add(pages)).filter_map(PageNo::new) {
            let link = LinkRef::Id(PageId::new(self.space.id(), page));
            match view.resolve(link).filter(|found| found.word.is_readable()) {
                Some(found) => {
                    prefetch_line(latches.meta(found.frame));
                    found.page.prefetch(0);
                }
                None => is_missing = true,
            }
        }
        if is_missing {
            self.space.prefetch_run(first, pages, 0);
        }
    }

    /// Loads a page that was missing, and keeps it there until what this gives goes; `None` if another
    /// thread has loaded it. Waits for a frame if there is none and nothing was borrowed before
    /// (`LOAN-4`).
    ///
    /// # Errors
    /// Those of loading pages ([`Space::run`]). They mean something only if what led to the page still
    /// does.
    pub fn load(&self, page: PageNo) -> Result<Option<Pin<'p>>, PoolError> {
        let space = self.space;
        let _holding = (!self.loans.is_empty()).then(Holding::new); // ADMIT-1
        space.when_admitted(|| space.shared().fault(space.space_core(), page, AccessHint::Normal))
    }

    /// What was borrowed last, which may be no such page as the borrower expects: what led to it may be
    /// damaged.
    #[inline]
    pub fn last(&self) -> Option<PageRef<'_>> {
        let loan = self.loans.more.last().or(self.loans.first.as_ref())?;
        // SAFETY: the page is lent as long as `self.loans` is there: it lies there, in memory that is
        // mapped as long as the space, which `space` borrows (LOAN-1).
        Some(unsafe { PageRef::new(loan.base, self.loans.page_size) })
    }

    /// Gives everything back.
    pub fn clear(&mut self) {
        self.loans.clear();
    }

    /// All that was borrowed.
    ///
    /// # Safety
    /// Nobody changes the bytes of these pages as long as they are lent (`LOAN-2`): each is a page of a
    /// structure that never changes it once it is linked, as the caller has read there
    /// ([`Borrower::last`]).
    #[inline]
    pub unsafe fn into_loans(self) -> Loans<'p> {
        self.loans
    }
}
