//! Edits: changes of several pages as one, which the log gets by what differs.
//!
//! An edit shows its operation private copies of pages, or some bytes of them. The operation reads and changes these as it
//! likes; when it is done, what differs is logged as one group and put into the pages. So a structure
//! that changes its pages by edits alone needs no records of its own and no redo of them, latches
//! nothing, and cannot leave a page half changed: whatever fails, fails before anything is seen or logged.
//! (PostgreSQL's generic WAL records do the same for access methods of others, in
//! `generic_xlog.c`. There the caller latches the pages; here the pages are read as any reader does,
//! and latched only when all is known, as optimistic concurrency control does.) The price is a copy and
//! a comparison of each page that is changed as a whole; of one in which few bytes are read and written
//! ([`Edit::read`], [`Edit::write`]) only these are copied and compared.
//!
//! * `EDIT-1` The pages that an operation was shown were so at one moment: whenever a page is added,
//!   all others are validated. So what an operation finds wrong in them is wrong.
//! * `EDIT-2` Nothing is latched while the operation runs. The pages that it changed are latched in the
//!   order of their numbers, and those that it only read are validated behind that: nobody has changed
//!   either since they were shown.
//! * `EDIT-3` New pages, and room in the log, are had before the first latch. An operation that turns
//!   out to need more of either is run again, when there is more.
//! * `EDIT-4` A page that the pool would refuse to load is not written: its kind is asked before. Of a page
//!   without a copy, which owns no links, it is asked under the latch, and the bytes of before come back if
//!   it refuses.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::ops::Range;

use polder_format::log::Operation;
use polder_format::{
    FormatError, Lsn, PAGE_HEADER_BYTES, PageId, PageKind, PageNo, PageSize, header_at,
};
use polder_pool::bytes::{PageBuf, PageMut, PageRef};
use polder_pool::journal::{full_page_image_bytes, group_bytes, mark_bytes};
use polder_pool::{
    AccessHint, Attempt, Change, Exclusive, LinkRef, NewPage, Optimistic, PoolError, Restart,
    Space, Translation,
};

use crate::page::{broken, lsn_of};

/// Most pages that one edit reads and makes. More would fill the log's buffer, and the pins that an
/// operation has on pages that it waited for.
pub const MOST_PAGES: usize = 32;
/// Bytes that are compared at a time, from the beginning of the page or of what is written.
const WORD: usize = 8;
/// Bytes that are compared at once first: a size of pages is a multiple of it.
const BLOCK: usize = 128;
/// A page of which at most one byte in so many has changed is logged by what differs, whatever else is in
/// it.
const FEW_CHANGED: usize = 8;
/// Bytes of copies that a thread keeps for its next edit.
const MOST_KEPT: usize = 1 << 20;
/// A gap between two changes that is not longer than the header of a record is logged with them.
const GAP: usize = 24;

/// What an operation is shown of a space, and what it makes of it. See [`edit`].
pub struct Edit<'e, 'p, T: Translation> {
    space: &'p Space<T>,
    attempt: &'e mut Attempt<'p>,
    /// New pages that are there to be used.
    spares: &'e [NewPage<'p>],
    pages: Vec<Shown<'p>>,
    /// The page of those that were read which was looked at last.
    last: usize,
    /// How many of the spares this try has asked for.
    made: usize,
}

impl<T: Translation> fmt::Debug for Edit<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Edit({} pages of {})", self.pages.len(), self.space.id())
    }
}

/// A page that an operation was shown, or has made.
struct Shown<'p> {
    number: PageNo,
    /// `None`: it is new.
    read: Option<Optimistic<'p>>,
    /// What it is, if more was asked for than some bytes.
    copy: Option<PageBuf>,
    /// What becomes of it. `None`: it stays as it is, but for the patches.
    draft: Option<PageBuf>,
    /// What is written to it that has no draft. They lie apart.
    patches: Vec<Patch>,
    freed: bool,
}

/// Bytes that are written to a page of which there is no copy.
struct Patch {
    at: usize,
    bytes: Vec<u8>,
    /// What is there now.
    old: Vec<u8>,
}

impl Patch {
    fn range(&self) -> Range<usize> {
        self.at..self.at + self.bytes.len()
    }

    /// What of it differs from what is there.
    fn differences(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut runs = Vec::new();
        compare(&self.old, &self.bytes, 0..self.bytes.len(), &mut runs);
        runs.into_iter().map(|run| (self.at + run.start, &self.bytes[run]))
    }
}

thread_local! {
    /// Copies of pages that the edits of this thread are done with: to clear new ones takes as long as to
    /// copy a page.
    static KEPT: RefCell<Vec<PageBuf>> = const { RefCell::new(Vec::new()) };
}

/// Room for a copy of a page, in which anything may be.
fn buffer(size: PageSize) -> PageBuf {
    let kept = KEPT.with_borrow_mut(Vec::pop).filter(|kept| kept.bytes().len() == size.bytes());
    kept.unwrap_or_else(|| PageBuf::new(size))
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        let copies = self.copy.take().into_iter().chain(self.draft.take());
        // When the thread ends, there may be none.
        let _ = KEPT.try_with(|kept| {
            for copy in copies {
                let (mut kept, bytes) = (kept.borrow_mut(), copy.bytes().len());
                if (kept.len() + 1) * bytes <= MOST_KEPT {
                    kept.push(copy);
                }
            }
        });
    }
}

/// How a try ended that was not in the way of others.
enum Tried {
    Done(Done),
    /// More new pages, or bytes of log, are needed.
    Wants {
        pages: usize,
        bytes: usize,
    },
}

struct Done {
    lsn: Lsn,
    /// New pages that are in use now.
    linked: Vec<PageNo>,
    /// Pages that nothing leads to any more: they are to leave memory, and their numbers are to be
    /// given back.
    freed: Vec<PageNo>,
}

/// A page that an operation has made is not one that its kind admits.
#[derive(Debug, thiserror::Error)]
#[error("{page} is not written: it could not be loaded again")]
pub struct Refused {
    page: PageId,
    source: FormatError,
}

/// Runs an operation on copies of pages of a space, and makes what it has changed true, as one: all of
/// it or nothing, for other threads and after a crash. Gives what the operation gave. In a store, its
/// handle of the structure waits until that is durable (`polder::Hosted::write`).
///
/// The operation is run again from its beginning where others changed what it was shown, or a page must
/// be loaded: it hands on each [`Restart`] by `?`, and changes nothing outside. Its own errors go out by
/// `Err(edit.fail(error))`, and nothing has changed then. It may hold no latch, and run no other edit.
///
/// ```
/// # use polder_format::{ChecksumSeed, PAGE_HEADER_BYTES, PageKind, PageSize, StoreId};
/// # use polder_pool::{Array, KindOps, Pool, PoolConfig, PoolError};
/// # use polder_testkit::{FaultPlan, SimDisk};
/// use polder_structure::edit;
///
/// const NOTE: KindOps = KindOps::plain(PageKind(200), "note", |_| Ok(()));
/// # let config = PoolConfig::new(16 << 20, PageSize::MIN, ChecksumSeed::new(StoreId([1; 16])));
/// # let device = Box::new(SimDisk::new(FaultPlan::new(1)));
/// let pool: Pool<Array> = Pool::open(device, &config, &[NOTE])?;
/// let space = pool.create_space()?;
/// let note = edit(&space, |edit| {
///     let note = edit.create(NOTE.kind)?;
///     edit.page_mut(note)?.set_u64(PAGE_HEADER_BYTES, 7);
///     Ok(note)
/// })?;
/// assert_eq!(edit(&space, |edit| Ok(edit.page(note)?.u64(PAGE_HEADER_BYTES)))?, 7);
/// # Ok::<(), PoolError>(())
/// ```
///
/// # Errors
/// Those of the operation, and those of the pool: of loading and making pages, and of the log.
/// [`PoolError::Broken`] for a page that its own kind refuses, and for more than [`MOST_PAGES`] pages.
/// Nothing has changed then.
pub fn edit<'p, T: Translation, R>(
    space: &'p Space<T>,
    operation: impl FnMut(&mut Edit<'_, 'p, T>) -> Result<R, Restart>,
) -> Result<R, PoolError> {
    edit_logged(space, operation).map(|(result, _)| result)
}

/// The same for callers that wait for durability themselves: gives as well up to where the log must be
/// durable for what the operation did, or for what it saw if it changed nothing.
///
/// # Errors
/// Those of [`edit`].
pub fn edit_logged<'p, T: Translation, R>(
    space: &'p Space<T>,
    mut operation: impl FnMut(&mut Edit<'_, 'p, T>) -> Result<R, Restart>,
) -> Result<(R, Lsn), PoolError> {
    let mut result = None;
    let lsn = run_admitted(space, &mut |edit| {
        result = Some(operation(edit)?);
        Ok(())
    })?;
    Ok((result.expect("the last try of an operation gave something"), lsn))
}

/// What of an edit does not depend on what its operation gives: it is compiled once.
type Run<'o, 'p, T> = dyn FnMut(&mut Edit<'_, 'p, T>) -> Result<(), Restart> + 'o;

fn run_admitted<'p, T: Translation>(
    space: &'p Space<T>,
    operation: &mut Run<'_, 'p, T>,
) -> Result<Lsn, PoolError> {
    space.when_admitted(|| {
        let mut spares = Vec::new();
        let done = run(space, operation, &mut spares);
        let unused: Vec<_> = spares.drain(..).map(|spare: NewPage<'p>| spare.id().page()).collect();
        unused.into_iter().for_each(|page| space.free(page));
        done
    })
}

fn run<'p, T: Translation>(
    space: &'p Space<T>,
    operation: &mut Run<'_, 'p, T>,
    spares: &mut Vec<NewPage<'p>>,
) -> Result<Lsn, PoolError> {
    // Enough for a small change that comes to a new page.
    let mut room = full_page_image_bytes(1, space.page_size()) + group_bytes(4, 256);
    loop {
        let mut change = space.change(room)?;
        let tried = space.run(AccessHint::Normal, |attempt| {
            change.clear();
            let mut edit = Edit { space, attempt, spares, pages: Vec::new(), last: 0, made: 0 };
            let result = operation(&mut edit);
            if edit.made > spares.len() {
                return Ok(Tried::Wants { pages: edit.made, bytes: room });
            }
            result?;
            edit.finish(&mut change, room)
        })?;
        // A thread that has room in the log asks for nothing else.
        drop(change);
        match tried {
            Tried::Done(Done { lsn, linked, freed }) => {
                freed.into_iter().for_each(|page| space.free(page));
                spares.retain(|spare| !linked.contains(&spare.id().page()));
                return Ok(lsn);
            }
            Tried::Wants { pages, bytes } => {
                // EDIT-3
                make_spares(space, pages.saturating_sub(spares.len()), spares)?;
                room = bytes;
            }
        }
    }
}

/// Makes so many pages more, next to each other if they can lie so.
fn make_spares<'p, T: Translation>(
    space: &'p Space<T>,
    count: usize,
    spares: &mut Vec<NewPage<'p>>,
) -> Result<(), PoolError> {
    if count == 0 {
        return Ok(());
    }
    let none = PoolError::Limit { what: "a space's pages", limit: PageNo::MAX.get() };
    let mut numbers = space.reserve(count, PageNo::MAX)?.ok_or(none)?.into_iter();
    while let Some(number) = numbers.next() {
        let made = space.make(number).inspect_err(|_| {
            space.free(number);
            numbers.by_ref().for_each(|number| space.free(number));
        });
        spares.push(made?);
    }
    Ok(())
}

/// What an operation is offered.
impl<'p, T: Translation> Edit<'_, 'p, T> {
    /// A page in use, as the operation has left it. Also one whose number was read in another page of
    /// this edit; one that nothing leads to any more is not met (`EDIT-1`).
    ///
    /// # Errors
    /// [`Restart`], to be handed on.
    pub fn page(&mut self, number: PageNo) -> Result<PageRef<'_>, Restart> {
        let at = self.copied(number)?;
        let shown = &self.pages[at];
        shown.draft.as_ref().or(shown.copy.as_ref()).map(PageBuf::page).ok_or(Restart)
    }

    /// The same, to be changed. Its header, but for kind and layout, is the pool's.
    ///
    /// # Errors
    /// [`Restart`], to be handed on.
    pub fn page_mut(&mut self, number: PageNo) -> Result<PageMut<'_>, Restart> {
        let at = self.copied(number)?;
        Ok(self.pages[at].draft(self.space.page_size()).page_mut())
    }

    /// What `read` finds in a page, as the operation has left it. It reads the page where it lies, and its
    /// answer counts only if nobody has changed the page meanwhile; so it must bear any bytes, and may be
    /// asked again. Links lie there as the pool has them. Cheaper than [`Edit::page`] where little is read.
    ///
    /// # Errors
    /// [`Restart`], to be handed on.
    pub fn read<R>(
        &mut self,
        number: PageNo,
        read: impl FnOnce(PageRef<'_>) -> R,
    ) -> Result<R, Restart> {
        let at = self.shown(number)?;
        let shown = &self.pages[at];
        match (&shown.read, &shown.copy) {
            (Some(page), None) if shown.patches.is_empty() => {
                let found = read(page.page());
                page.validate()?;
                Ok(found)
            }
            _ => self.page(number).map(read),
        }
    }

    /// Writes some bytes of a page behind its header, of which the rest need not be looked at, and where no
    /// link of the pool's lies. Cheaper than [`Edit::page_mut`] where they are few.
    ///
    /// # Errors
    /// [`Restart`], to be handed on. [`PoolError::Broken`] if they lie outside of the page.
    pub fn write(&mut self, number: PageNo, at: usize, bytes: Vec<u8>) -> Result<(), Restart> {
        let (size, range) = (self.space.page_size().bytes(), at..at.saturating_add(bytes.len()));
        if range.start < PAGE_HEADER_BYTES || range.end > size {
            let page = PageId::new(self.space.id(), number);
            return Err(self.fail(broken(page, "an edit writes to what is not behind its header")));
        }
        let place = self.shown(number)?;
        let shown = &mut self.pages[place];
        let is_apart = |patch: &Patch| patch.range().end <= at || range.end <= patch.at;
        // Links that a page owns may lie in it as the kind's check does not know them (EDIT-4).
        let is_plain = shown.read.as_ref().is_some_and(|page| !self.space.has_links(page.page()));
        if is_plain && shown.draft.is_none() && shown.patches.iter().all(is_apart) {
            shown.patches.push(Patch { at, bytes, old: Vec::new() });
            return Ok(());
        }
        self.page_mut(number)?.write(at, &bytes);
        Ok(())
    }

    /// A new page of this kind, of layout 1 and zeros behind its header.
    ///
    /// # Errors
    /// [`Restart`], to be handed on.
    pub fn create(&mut self, kind: PageKind) -> Result<PageNo, Restart> {
        self.check_number(1)?;
        let spare = self.spares.get(self.made);
        self.made += 1;
        let id = spare.ok_or(Restart)?.id();
        Ok(self.draft_new(kind, id))
    }

    /// So many new pages, as [`Edit::create`] gives them, in ascending order: next to each other in the
    /// file if they can lie so, for pages that are read together.
    ///
    /// # Errors
    /// [`Restart`], to be handed on.
    pub fn create_run(&mut self, kind: PageKind, count: usize) -> Result<Vec<PageNo>, Restart> {
        self.check_number(count)?;
        self.made += count;
        let spares = self.spares.get(self.made - count..self.made).ok_or(Restart)?;
        let mut ids: Vec<PageId> = spares.iter().map(NewPage::id).collect();
        ids.sort_unstable_by_key(|id| id.page());
        Ok(ids.into_iter().map(|id| self.draft_new(kind, id)).collect())
    }

    fn draft_new(&mut self, kind: PageKind, id: PageId) -> PageNo {
        let mut draft = PageBuf::new(self.space.page_size());
        let mut page = draft.page_mut();
        page.set_u8(header_at::KIND, kind.0);
        page.set_u8(header_at::LAYOUT, 1);
        page.set_u64(header_at::PAGE_ID, id.to_bits());
        let number = id.page();
        let draft = Some(draft);
        let patches = Vec::new();
        self.pages.push(Shown { number, read: None, copy: None, draft, patches, freed: false });
        number
    }

    /// Makes all of a page behind its header what it is in another one.
    ///
    /// # Errors
    /// [`Restart`], to be handed on.
    pub fn copy(&mut self, from: PageNo, to: PageNo) -> Result<(), Restart> {
        let mut bytes = vec![0; self.space.page_size().bytes() - PAGE_HEADER_BYTES];
        self.page(from)?.copy_to(PAGE_HEADER_BYTES, &mut bytes);
        self.page_mut(to)?.write(PAGE_HEADER_BYTES, &bytes);
        Ok(())
    }

    /// Frees a page, to which nothing may lead that the operation leaves.
    ///
    /// # Errors
    /// [`Restart`], to be handed on.
    pub fn free(&mut self, number: PageNo) -> Result<(), Restart> {
        let at = self.shown(number)?;
        self.pages[at].freed = true;
        Ok(())
    }

    /// Ends the operation with an error of its own; see [`Attempt::fail`].
    #[cold]
    pub fn fail(&mut self, error: impl Into<Box<dyn Error + Send + Sync>>) -> Restart {
        self.attempt.fail(error)
    }

    /// Where among the pages a page is.
    fn shown(&mut self, number: PageNo) -> Result<usize, Restart> {
        let known = self.pages.iter().position(|page| page.number == number);
        let at = match known {
            Some(at) if self.pages[at].freed => {
                let page = PageId::new(self.space.id(), number);
                return Err(self.fail(broken(page, "an edit uses a page that it has freed")));
            }
            Some(at) => at,
            None => self.show(number)?,
        };
        if self.pages[at].read.is_some() {
            self.last = at;
        }
        Ok(at)
    }

    fn show(&mut self, number: PageNo) -> Result<usize, Restart> {
        self.check_number(1)?;
        // The number was most likely read in the page that was looked at last. Where that has changed,
        // what cannot be loaded is no damage.
        let last = self.pages.get(self.last).and_then(|page| page.read.as_ref());
        let link = LinkRef::Id(PageId::new(self.space.id(), number));
        let page = self.space.follow(self.attempt, link, last)?;
        // EDIT-1
        self.pages.iter().flat_map(|page| &page.read).try_for_each(Optimistic::validate)?;
        let (copy, draft, patches, freed) = Default::default();
        self.pages.push(Shown { number, read: Some(page), copy, draft, patches, freed });
        Ok(self.pages.len() - 1)
    }

    /// A page of which there is a copy, and all that is written to it in its draft.
    fn copied(&mut self, number: PageNo) -> Result<usize, Restart> {
        let (at, size) = (self.shown(number)?, self.space.page_size());
        let shown = &mut self.pages[at];
        if let (Some(page), None) = (&shown.read, &shown.copy) {
            let mut copy = buffer(size);
            self.space.copy_out(page, &mut copy);
            // EDIT-1: it is what it was when it was shown.
            page.validate()?;
            shown.copy = Some(copy);
        }
        for Patch { at, bytes, .. } in std::mem::take(&mut shown.patches) {
            shown.draft(size).page_mut().write(at, &bytes);
        }
        Ok(at)
    }

    /// Whether there can be so many pages more.
    fn check_number(&mut self, more: usize) -> Result<(), Restart> {
        match self.pages.len() + more <= MOST_PAGES {
            true => Ok(()),
            false => {
                let limit = MOST_PAGES as u64;
                Err(self.fail(PoolError::Limit { what: "the number of pages of an edit", limit }))
            }
        }
    }
}

/// Bytes that are to be written, and where.
type Runs<'a> = Vec<(usize, &'a [u8])>;

/// What of a page is to be logged and written.
struct Written<'a, 'p> {
    held: Exclusive<'p>,
    page: &'a Shown<'p>,
    /// `None`: the whole page.
    runs: Option<Runs<'a>>,
}

/// Pages to which patches are written. If they are taken back, by a refusal or a panic of a kind's check, each
/// is what it was.
struct Tries<'t, 'a, 'p> {
    pages: &'t mut [Written<'a, 'p>],
    are_taken_back: bool,
}

impl Drop for Tries<'_, '_, '_> {
    fn drop(&mut self) {
        if self.are_taken_back {
            self.pages.iter_mut().for_each(Written::take_back);
        }
    }
}

impl<'p, T: Translation> Edit<'_, 'p, T> {
    /// Makes true what the operation has made of its pages.
    fn finish(mut self, change: &mut Change<'p>, room: usize) -> Result<Tried, Restart> {
        // 1. What differs, page by page in the order of their numbers (EDIT-2).
        let mut pages = in_order(std::mem::take(&mut self.pages));
        pages.iter_mut().for_each(Shown::read_patched);
        let runs: Vec<_> = pages.iter().map(Shown::differences).collect();
        let numbers = |of: fn(&Shown<'_>) -> bool| -> Vec<PageNo> {
            pages.iter().filter(|page| of(page)).map(|page| page.number).collect()
        };
        let (linked, freed) = (numbers(|page| page.read.is_none()), numbers(|page| page.freed));
        // 2. Is that possible (EDIT-4), and is there room for it (EDIT-3)?
        let mut bytes = mark_bytes(&linked) + mark_bytes(&freed);
        for (page, runs) in pages.iter().zip(&runs).filter(|(_, runs)| is_changed(runs)) {
            if let Some(draft) = &page.draft {
                self.verify(page.number, draft.page())?;
            }
            bytes += match runs {
                Some(runs) => group_bytes(runs.len(), runs.iter().map(|(_, run)| run.len()).sum()),
                None => full_page_image_bytes(1, self.space.page_size()),
            };
        }
        if bytes > room {
            return Ok(Tried::Wants { pages: self.made, bytes });
        }
        if freed.is_empty() && !runs.iter().any(is_changed) {
            // EDIT-1: they were so when the last of them was shown. How far a page without a copy is logged, and
            // that patches change nothing, was read just now.
            let lsn = |page: &Shown<'_>| match (&page.copy, &page.read) {
                (Some(copy), _) => Ok(lsn_of(copy.page())),
                (None, Some(read)) => {
                    let lsn = lsn_of(read.page());
                    read.validate().map(|()| lsn)
                }
                (None, None) => Ok(Lsn(0)),
            };
            let lsn = pages.iter().try_fold(Lsn(0), |last, page| Ok(last.max(lsn(page)?)))?;
            return Ok(Tried::Done(Done { lsn, linked, freed: Vec::new() }));
        }
        // 3. What changes is latched, then what was read is validated, then the maps are latched.
        let (mut written, mut gone, mut reads) = (Vec::new(), Vec::new(), Vec::new());
        for (page, runs) in pages.iter().zip(runs) {
            let held = match &page.read {
                // Also one that was given to be changed and has stayed as it was.
                Some(read) if !page.freed && !is_changed(&runs) => {
                    reads.push(read);
                    continue;
                }
                Some(read) => self.attempt.upgrade(*read)?,
                None => {
                    let spare = self.spares.iter().find(|spare| spare.id().page() == page.number);
                    spare.ok_or(Restart)?.latch()?
                }
            };
            match page.freed {
                false => written.push(Written { held, page, runs }),
                true => gone.push(held),
            }
        }
        reads.into_iter().try_for_each(Optimistic::validate)?;
        let mut mark = |pages: &[PageNo], used| match pages {
            [] => Ok(()),
            pages => change.mark(self.space, self.attempt, pages, used),
        };
        let marked = mark(&linked, true).and_then(|()| mark(&freed, false));
        // No latch is held while the next try is waited for.
        marked.inspect_err(|_| change.clear())?;
        // 4. Patches are tried (EDIT-4). From there on nothing fails.
        let mut tried = Tries { pages: &mut written, are_taken_back: true };
        if let Err(refused) = tried.pages.iter_mut().try_for_each(|page| self.patch(page)) {
            change.clear();
            return Err(refused);
        }
        tried.are_taken_back = false;
        drop(tried);
        written.iter_mut().for_each(|page| page.write(change));
        let mut named: Vec<_> = written.iter_mut().map(|page| &mut page.held).collect();
        let lsn = change.commit(&mut named);
        // 5. All latches are released before what was freed leaves memory, which may wait for the device.
        Ok(Tried::Done(Done { lsn, linked, freed }))
    }

    /// Writes the patches of a page, if it could be loaded so.
    fn patch(&mut self, Written { held, page, runs }: &mut Written<'_, 'p>) -> Result<(), Restart> {
        if page.patches.is_empty() {
            return Ok(());
        }
        let mut bytes = held.page_mut();
        runs.iter().flatten().for_each(|(at, run)| bytes.write(*at, run));
        self.verify(page.number, held.page())
    }

    /// Whether a page could be loaded so.
    fn verify(&mut self, number: PageNo, page: PageRef<'_>) -> Result<(), Restart> {
        self.space.verify(page).map_err(|source| {
            let page = PageId::new(self.space.id(), number);
            self.fail(Refused { page, source })
        })
    }
}

/// Those that there are, or were, by their numbers.
fn in_order(mut pages: Vec<Shown<'_>>) -> Vec<Shown<'_>> {
    pages.retain(|page| !page.freed || page.read.is_some());
    pages.sort_unstable_by_key(|page| page.number);
    pages
}

/// Whether anything of a page differs.
fn is_changed(runs: &Option<Runs<'_>>) -> bool {
    runs.as_ref().is_none_or(|runs| !runs.is_empty())
}

impl Shown<'_> {
    /// The draft of a page that is new, or of which there is a copy.
    fn draft(&mut self, size: PageSize) -> &mut PageBuf {
        self.draft.get_or_insert_with(|| {
            let mut draft = buffer(size);
            self.copy.iter().for_each(|copy| draft.copy_from(copy.page()));
            draft
        })
    }

    /// Reads what lies where the patches will. It counts once the page has been latched as it was.
    fn read_patched(&mut self) {
        for page in self.read.iter().filter(|_| !self.freed) {
            for patch in &mut self.patches {
                page.page().append_to(patch.at, patch.bytes.len(), &mut patch.old);
            }
        }
    }

    /// What is to be written, of what differs. `None`: the whole page is to be logged.
    fn differences(&self) -> Option<Runs<'_>> {
        self.read.as_ref()?;
        if self.freed {
            return Some(Vec::new());
        }
        let (Some(draft), Some(copy)) = (&self.draft, &self.copy) else {
            return Some(self.patches.iter().flat_map(Patch::differences).collect());
        };
        let (copy, draft) = (copy.bytes(), draft.bytes());
        let runs = differences(copy, draft);
        let logged: usize = runs.iter().map(|run| run.len() + GAP).sum();
        let is_small = logged <= draft.len() / FEW_CHANGED;
        let runs = || runs.into_iter().map(|run| (run.start, &draft[run])).collect();
        (is_small || logged <= draft.len() - zeros(draft).len()).then(runs)
    }
}

impl Written<'_, '_> {
    /// Puts what differs into the page, unless patches have, and its records into the change.
    fn write(&mut self, change: &mut Change<'_>) {
        let (id, mut page) = (self.held.id(), self.held.page_mut());
        let Some(runs) = &self.runs else {
            let bytes = self.page.draft.as_ref().map_or(&[][..], PageBuf::bytes);
            page.write(header_at::KIND, &bytes[header_at::KIND..header_at::PAGE_ID]);
            page.write(PAGE_HEADER_BYTES, &bytes[PAGE_HEADER_BYTES..]);
            return change.push_full_page_image(&mut self.held, zeros(bytes));
        };
        for (at, bytes) in runs {
            if self.page.patches.is_empty() {
                page.write(*at, bytes);
            }
            change.push(id, &Operation::Patch { offset: *at as u32, backed: 0, bytes });
        }
    }

    /// Puts back what was where patches were put.
    fn take_back(&mut self) {
        if self.page.patches.is_empty() {
            return;
        }
        let mut page = self.held.page_mut();
        self.page.patches.iter().for_each(|patch| page.write(patch.at, &patch.old));
        self.held.set_unlogged();
    }
}

/// The words in which two pages differ, as runs: kind and layout, and all behind the header.
fn differences(old: &[u8], new: &[u8]) -> Vec<Range<usize>> {
    let (mut of_header, mut runs) = (Vec::new(), Vec::new());
    // What lies between the header's first word and its end is the pool's.
    compare(old, new, 0..WORD, &mut of_header);
    compare(old, new, PAGE_HEADER_BYTES..BLOCK, &mut runs);
    // Most of a page is the same, and is found to be so at once.
    for block in (BLOCK..new.len()).step_by(BLOCK).map(|at| at..at + BLOCK) {
        if old[block.clone()] != new[block.clone()] {
            compare(old, new, block, &mut runs);
        }
    }
    of_header.append(&mut runs);
    of_header
}

/// Adds the words of a range in which two slices differ.
fn compare(old: &[u8], new: &[u8], range: Range<usize>, runs: &mut Vec<Range<usize>>) {
    for at in range.clone().step_by(WORD) {
        let end = (at + WORD).min(range.end);
        if old[at..end] == new[at..end] {
            continue;
        }
        match runs.last_mut() {
            Some(last) if at - last.end <= GAP => last.end = end,
            _ => runs.push(at..end),
        }
    }
}

/// The longest run of zeros behind the header, which an image leaves out.
fn zeros(page: &[u8]) -> Range<usize> {
    let (mut longest, mut begin) = (0..0, PAGE_HEADER_BYTES);
    for at in (PAGE_HEADER_BYTES..page.len()).step_by(WORD) {
        if page[at..at + WORD] != [0; WORD] {
            begin = at + WORD;
        } else if at + WORD - begin > longest.len() {
            longest = begin..at + WORD;
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_what_differs_and_small_gaps() {
        let old = vec![0; 4096];
        let with = |changes: &[usize]| {
            let mut new = old.clone();
            changes.iter().for_each(|at| new[*at] = 1);
            differences(&old, &new)
        };
        assert_eq!(with(&[]), []);
        assert_eq!(with(&[header_at::LSN, header_at::PAGE_ID]), []);
        assert_eq!(with(&[header_at::KIND, 32]), [0..8, 32..40]);
        assert_eq!(with(&[47, 4095]), [40..48, 4088..4096]);
        assert_eq!(with(&[40, 72, 112]), [40..80, 112..120]);
    }

    #[test]
    fn the_longest_run_of_zeros_is_left_out() {
        let mut page = vec![0; 4096];
        assert_eq!(zeros(&page), 32..4096);
        (page[1000], page[4095]) = (1, 1);
        assert_eq!(zeros(&page), 1008..4088);
        page.fill(1);
        assert_eq!(zeros(&page).len(), 0);
    }
}
