//! What a space offers to the structures built on it.

#![cfg(not(loom))]

use std::ops::Range;

use polder_format::{
    FormatError, Lsn, PageHeader, PageId, PageKind, PageNo, PageSize, SpaceId, header_at,
};

use crate::error::PoolError;
use crate::frame::OPERATION_FRAMES;
use crate::journal::mark_bytes;
use crate::latch::{Exclusive, NewPage, Optimistic, Restart};
use crate::operation::{Attempt, Discards, Interleaved, Interrupted, Obstacles};
use crate::page::{LinkRef, PageBuf, PageRef};
use crate::paging::{Exhaustion, Shadow};
use crate::pool::handle::Space;
use crate::replacement::AccessHint;
use crate::space::change::Change;
use crate::space::give_back;
use crate::sync::atomic::Ordering;
use crate::thread::waits;
use crate::translation::Translation;

impl<T: Translation> Space<T> {
    /// The space's id.
    pub fn id(&self) -> SpaceId {
        self.space_core().id
    }

    /// The size of all pages.
    #[inline]
    pub fn page_size(&self) -> PageSize {
        self.core().page_size()
    }

    /// Drops the space: its pages leave memory, its extents are free. Operations that are at work
    /// in it end with [`PoolError::Dropped`], and so do those that come later. Called with no latch
    /// held.
    ///
    /// # Errors
    /// [`PoolError::Dropped`] if it was dropped before, [`PoolError::Journal`], and those of
    /// loading its maps. Nobody works in the space any more all the same; what could not be freed
    /// then stays taken, and the space may be there again when the file is opened.
    pub fn drop_space(&self) -> Result<(), PoolError> {
        let _admitted = self.shared().admit();
        self.shared().drop_space(self.space_core())
    }
}

/// Reading, and holding what was read.
impl<T: Translation> Space<T> {
    /// Runs `operation` until it goes through, and gives what it gives. It must be ready to be run
    /// again from its beginning after each `Restart`, and must hold no latch when it returns one.
    /// `hint` says whether it will want its pages again.
    ///
    /// Called with no latch held. Waits for a frame if there is none, unless the thread holds a new
    /// page or a [`Change`]: see [`Space::when_admitted`].
    ///
    /// # Errors
    /// Those of the operation (see [`Attempt::fail`]) and those of loading pages:
    /// [`PoolError::Read`], [`PoolError::Corrupt`], [`PoolError::Unmapped`], [`PoolError::Broken`]
    /// if two pages contradict each other, [`PoolError::Dropped`], [`PoolError::Closed`],
    /// [`PoolError::Exhausted`].
    #[inline]
    pub fn run<'p, R>(
        &'p self,
        hint: AccessHint,
        operation: impl FnMut(&mut Attempt<'p>) -> Result<R, Restart>,
    ) -> Result<R, PoolError> {
        self.view().run_as::<true, R>(hint, operation)
    }

    /// Runs `operation` once, waiting for nothing: for a caller that holds latches of other pages.
    /// [`Interrupted`] has an example.
    ///
    /// # Errors
    /// What stood in the way, for [`Space::make_way`], once those latches are released.
    pub fn run_once<'p, R>(
        &'p self,
        operation: impl FnOnce(&mut Attempt<'p>) -> Result<R, Restart>,
    ) -> Result<R, Box<Interrupted<'p>>> {
        self.view().run_once(operation)
    }

    /// After a try that was interrupted: loads the page that was missing, and keeps it resident as
    /// long as `obstacles` lives; or waits a little for what was in the way. Called with no latch
    /// held.
    ///
    /// # Errors
    /// Those of the operation and of loading the page, as of [`Space::run`].
    pub fn make_way<'p>(
        &'p self,
        what: Interrupted<'p>,
        obstacles: &mut Obstacles<'p>,
    ) -> Result<(), PoolError> {
        self.view().make_way_beside(self.most_pages_held(), what, obstacles)
    }

    /// Goes from a link to its page. `parent` is the page that the link stands in; it is validated
    /// after the page's state was read, so that the page is the right one. [`OwnedLinks`] has an
    /// example.
    ///
    /// # Errors
    /// `Restart` if the page is not resident, or somebody has it exclusively, or the parent has
    /// changed; or with [`PoolError::Broken`] if the link leads to another space, or nowhere.
    ///
    /// [`OwnedLinks`]: crate::OwnedLinks
    #[inline(always)]
    pub fn follow<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        link: LinkRef<'p>,
        parent: Option<&Optimistic<'p>>,
    ) -> Result<Optimistic<'p>, Restart> {
        self.view().follow(attempt, link, parent)
    }

    /// Asks the processor for the whole of a page that will be read soon, if it is resident. Loads
    /// nothing from the device and is no access: a number that leads nowhere does no harm. (Pages
    /// that a translation keeps elsewhere than most, as those of sparse groups, are not asked
    /// for.)
    #[inline]
    pub fn prefetch(&self, page: PageNo) {
        self.prefetch_part(page, 0..self.page_size().bytes());
    }

    /// As [`Space::prefetch`], for a caller that soon reads these bytes of the page only. A whole page
    /// that is asked for at once keeps the processor from everything else for a while; one that is
    /// asked for bit by bit does not.
    #[inline]
    pub fn prefetch_part(&self, page: PageNo, bytes: Range<usize>) {
        let link = LinkRef::Id(PageId::new(self.id(), page));
        if let Some(found) = self.view().resolve(link).filter(|found| found.word.is_readable()) {
            let (page, end) = (found.page, bytes.end.min(found.page.size()));
            (bytes.start..end).step_by(64).for_each(|line| page.prefetch(line));
        }
    }

    /// Asks for many pages that will be read soon, all of them together (calico-2026, 5.1): for a walk
    /// that knows several next pages, as that of a graph. Each is named by a link and the offset in the
    /// page of what will be read first. The processor is asked for the cache lines of those that are
    /// resident; the others are loaded by one batch of reads, for which this waits: so it is called with
    /// no latch held. Gives how many were loaded.
    ///
    /// It promises nothing. A link that leads nowhere does no harm; of the missing pages at most a small
    /// part of the pool is loaded, and no error is told: whoever reads the page meets it.
    ///
    /// ```
    /// # use polder_format::{ChecksumSeed, PageKind, PageSize, StoreId, header_at};
    /// # use polder_pool::{AccessHint, Array, KindOps, LinkRef, Pool, PoolConfig, PoolError};
    /// # use polder_testkit::{FaultPlan, SimDisk};
    /// # const NODE: KindOps = KindOps::plain(PageKind(200), "node", |_| Ok(()));
    /// # let config = PoolConfig::new(16 << 20, PageSize::MIN, ChecksumSeed::new(StoreId([1; 16])));
    /// # let device = Box::new(SimDisk::new(FaultPlan::new(1)));
    /// # let pool: Pool<Array> = Pool::open(device, &config, &[NODE])?;
    /// # let space = pool.create_space()?;
    /// # let mut nodes = Vec::new();
    /// # for weight in 1..=5 {
    /// #     let new = space.create()?;
    /// #     space.run(AccessHint::Normal, |_| {
    /// #         let mut held = new.latch()?;
    /// #         let mut page = held.page_mut();
    /// #         page.set_u8(header_at::KIND, NODE.kind.0);
    /// #         page.set_u8(header_at::LAYOUT, 1);
    /// #         page.set_u64(64, weight);
    /// #         Ok(())
    /// #     })?;
    /// #     nodes.push(new.id());
    /// # }
    /// # space.link(&nodes.iter().map(|id| id.page()).collect::<Vec<_>>())?;
    /// // The neighbours of a node, and where in each its weight lies.
    /// let wanted: Vec<_> = nodes.iter().map(|id| (LinkRef::Id(*id), 64)).collect();
    /// space.prefetch_group(&wanted);
    /// let mut sum = 0;
    /// for node in &nodes {
    ///     sum += space.run(AccessHint::Normal, |attempt| {
    ///         let page = space.page(attempt, node.page())?;
    ///         let weight = page.page().u64(64);
    ///         page.validate()?;
    ///         Ok(weight)
    ///     })?;
    /// }
    /// assert_eq!(sum, 15);
    /// # Ok::<(), PoolError>(())
    /// ```
    pub fn prefetch_group(&self, wanted: &[(LinkRef<'_>, usize)]) -> usize {
        self.view().prefetch_group(wanted)
    }

    /// [`Space::prefetch_group`] of pages whose numbers follow each other.
    pub fn prefetch_run(&self, first: PageNo, pages: u64, offset: usize) -> usize {
        const AT_ONCE: usize = 32;
        let (mut loaded, end) = (0, first.get().saturating_add(pages));
        for from in (first.get()..end).step_by(AT_ONCE) {
            let mut wanted = [(LinkRef::Id(PageId::NULL), offset); AT_ONCE];
            let mut count = 0;
            for page in (from..end.min(from + AT_ONCE as u64)).filter_map(PageNo::new) {
                wanted[count].0 = LinkRef::Id(PageId::new(self.id(), page));
                count += 1;
            }
            loaded += self.prefetch_group(&wanted[..count]);
        }
        loaded
    }

    /// Runs `operations`, many of this thread that are interleaved, with what they go by ([`Interleaved`]).
    /// It is lent, so that it goes in any case, and what the device has of it is waited for. Called with no
    /// latch held, and no change open.
    #[inline]
    pub fn interleave<'p, R>(
        &'p self,
        hint: AccessHint,
        operations: impl FnOnce(&mut Interleaved<'p, T>) -> R,
    ) -> R {
        let result = operations(&mut Interleaved::new(self.view(), hint));
        // FLIGHT-4
        if self.shared().core.map.deferred.is_any() && waits::may_wait() && !waits::has_flights() {
            give_back(self.shared());
        }
        result
    }

    /// Whether a page is resident and can be read at once.
    pub fn is_resident(&self, page: PageNo) -> bool {
        let (shared, space) = (self.shared(), self.space_core());
        !space.is_dropped()
            && shared.state_of(space, page).is_some_and(|cell| cell.read().is_readable())
    }

    /// Whether a page lies in the frame that it prefers; `None` if it is not resident, or prefers
    /// none. To ask is no access of the page; the answer may be out of date when it is given.
    pub fn is_in_preferred_frame(&self, page: PageNo) -> Option<bool> {
        let (translation, directory) = (&self.shared().translation, &self.space_core().directory);
        let word = self.shared().state_of(self.space_core(), page)?.read();
        let preferred = translation.preferred(directory, page)?;
        word.is_readable().then(|| word.frame() == preferred)
    }

    /// Goes to the root from which all pages of the space are reached: the same page always, which
    /// a translation that swizzles finds without asking its table.
    ///
    /// # Errors
    /// As [`Space::follow`].
    #[inline(always)]
    pub fn root<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        root: PageNo,
    ) -> Result<Optimistic<'p>, Restart> {
        self.follow(attempt, LinkRef::Root(PageId::new(self.id(), root)), None)
    }

    /// Goes to a page by its number, if that cannot be freed meanwhile, as a root cannot. Otherwise
    /// [`Space::follow`] is given the page from which the number was read, and validates that.
    ///
    /// # Errors
    /// As [`Space::follow`].
    #[inline(always)]
    pub fn page<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        page: PageNo,
    ) -> Result<Optimistic<'p>, Restart> {
        self.follow(attempt, LinkRef::Id(PageId::new(self.id(), page)), None)
    }

    /// How many pages have been discarded: to be read before a number is read that is to be remembered.
    #[inline(always)]
    pub fn discards(&self) -> Discards {
        self.view().discards()
    }

    /// Goes to a page by a number that was read from another page earlier, which validated then: none if
    /// it is not resident, or if pages of the space have been discarded since. `since` is what
    /// [`Space::discards`] said before the number was read (`REMEMBER-1`). The page is the one that was
    /// meant; what it holds may have changed.
    ///
    /// # Errors
    /// `Restart` if somebody has the page exclusively.
    #[inline]
    pub fn remembered<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        page: PageNo,
        since: Discards,
    ) -> Result<Option<Optimistic<'p>>, Restart> {
        self.view().remembered(attempt, page, since)
    }

    /// Goes from a link to its page as [`Space::follow`] does, but releases all that the attempt
    /// holds and holds this page instead: until the next step its bytes stay as they are, also if
    /// the page changes meanwhile (`COW-2`), and until then it validates. What it says may be out
    /// of date. `from` is the page that the link was read from, or none for the first one of a
    /// way: the root. Whether the link may lead to a page that has replaced another is decided by
    /// it (`COW-5`).
    ///
    /// Waits if somebody has the page exclusively, so that a caller that holds a latch must
    /// not use it. Only where [`Attempt::takes_snapshots`], which has an example.
    ///
    /// # Errors
    /// `Restart` if the page is not resident, or is no longer the one that was meant; or as
    /// [`Space::follow`], with [`PoolError::Broken`].
    ///
    /// # Panics
    /// In debug builds, if the attempt takes no snapshots.
    #[inline(never)]
    pub fn snapshot<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        link: LinkRef<'p>,
        from: Option<&Optimistic<'p>>,
    ) -> Result<Optimistic<'p>, Restart> {
        self.view().snapshot(attempt, link, from)
    }

    /// Holds a page to change it, by a copy where the pool's readers take snapshots: they go on
    /// reading it as it was until the guard goes. Elsewhere, and where no frame is free for the
    /// copy, as [`Attempt::upgrade`], and like that it waits for no writer.
    ///
    /// Not for a page that readers take for one that does not change while they hold it: a reader
    /// that holds a page by a snapshot may read what is out of date.
    ///
    /// # Errors
    /// `Restart` if the page is no longer as it was, or somebody holds it.
    pub fn shadow<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        page: Optimistic<'p>,
    ) -> Result<Shadow<'p, T>, Restart> {
        if attempt.takes_snapshots() {
            // Where it cannot be copied its holders are in the way.
            attempt.release_page(&page);
            self.view().shadow(page)
        } else {
            attempt.upgrade(page).map(Shadow::from)
        }
    }

    /// Copies a page as it may leave its frame: each link in it is the id of its page, also where
    /// the translation has put a frame there. The copy, which is of the pool's page size, counts
    /// once the page has been validated.
    pub fn copy_out(&self, page: &Optimistic<'_>, copy: &mut PageBuf) {
        let core = self.core();
        copy.copy_from(page.page());
        (core.copied_out)(&core.kinds, page.page(), self.id(), 0, copy.bytes_mut());
    }

    /// Whether a page is of a kind whose pages own others, and does so.
    pub fn has_links(&self, page: PageRef<'_>) -> bool {
        self.core().kinds.has_links(page)
    }

    /// Whether a page of this space with these bytes could be loaded from the device: that its kind
    /// is known, and what the kind has to say of it. Its checksum is not looked at, nor which page
    /// it is.
    ///
    /// # Errors
    /// [`FormatError::Field`] if its kind or layout version is unknown, [`FormatError::Broken`]
    /// with what the kind's check says.
    pub fn verify(&self, page: PageRef<'_>) -> Result<(), FormatError> {
        let header = PageHeader {
            kind: PageKind(page.u8(header_at::KIND)),
            layout: page.u8(header_at::LAYOUT),
            page_id: PageId::from_link(page.u64(header_at::PAGE_ID)),
            lsn: Lsn(page.u64(header_at::LSN)),
        };
        self.core().kinds.check(&header, page)
    }

    /// Has pages loaded that a scan will come to soon, if they are not resident or on their way, by a thread
    /// of the pool's. Does not wait; gives how many pages it has asked for. That is at most a small part of
    /// the pool, and none where nothing is evicted. Errors are told when the scan comes there.
    pub fn load_ahead(&self, pages: impl Iterator<Item = PageNo>) -> usize {
        let (shared, space) = (self.shared(), self.space_core());
        let is_missing = |page: &PageNo| {
            shared.state_of(space, *page).is_none_or(|cell| cell.read().is_evicted())
        };
        self.reader().load_ahead(self.id(), pages.filter(is_missing))
    }

    /// How many pages can be asked for by [`Space::load_ahead`] and not be there yet, by all together.
    pub fn most_ahead(&self) -> usize {
        self.reader().most()
    }
}

/// Waiting for frames.
impl<T: Translation> Space<T> {
    /// Runs an operation that is made of several steps (new pages, a [`Change`],
    /// several [`Space::run`]); if one of them finds no frame, the whole again.
    ///
    /// A step that holds something for which others may wait, a new page or a change, does not
    /// wait for a frame: it fails with [`PoolError::Exhausted`], so that the operation releases
    /// everything. Then this waits for its turn, and calls it once more. It must undo what it has
    /// begun when it fails, as it must for other errors. [`Change`] has an example.
    ///
    /// # Errors
    /// Those of the operation; [`PoolError::Exhausted`] if for seconds nothing has moved in the
    /// pool.
    #[inline(always)]
    pub fn when_admitted<R, E: Exhaustion>(
        &self,
        operation: impl FnMut() -> Result<R, E>,
    ) -> Result<R, E> {
        self.shared().when_admitted(OPERATION_FRAMES, operation)
    }

    /// As [`Space::when_admitted`], for an operation that keeps `pages` pages more from others than
    /// most do, as a batch does; at most [`Space::most_pages_held`].
    ///
    /// # Errors
    /// As [`Space::when_admitted`].
    #[inline(always)]
    pub fn when_admitted_with<R, E: Exhaustion>(
        &self,
        pages: usize,
        operation: impl FnMut() -> Result<R, E>,
    ) -> Result<R, E> {
        let pages = pages.min(self.most_pages_held()) as u32;
        self.shared().when_admitted(OPERATION_FRAMES + pages, operation)
    }

    /// As [`Space::when_admitted`], for a step of an operation that cannot be begun again, and
    /// holds a few new pages all the time: a bulk load, whose input is used up. It waits although
    /// the thread holds them.
    ///
    /// # Errors
    /// As [`Space::when_admitted`].
    pub fn when_admitted_holding<R, E: Exhaustion>(
        &self,
        step: impl FnMut() -> Result<R, E>,
    ) -> Result<R, E> {
        self.shared().when_admitted_holding(step)
    }

    /// How many pages one operation may keep resident or latched at the same time, so that others
    /// can go on: half of the pool.
    pub fn most_pages_held(&self) -> usize {
        self.core().frames.budget_frames as usize / 2
    }
}

/// Changing pages, making and freeing them.
impl<T: Translation> Space<T> {
    /// Begins a change that logs at most `most` bytes
    /// ([`group_bytes`](crate::journal::group_bytes)). Called without any latch: it may have to
    /// wait until there is room in the log.
    ///
    /// # Errors
    /// [`PoolError::Journal`] if the log cannot take the change, [`PoolError::Memory`] if there is
    /// no memory for a large one.
    #[inline]
    pub fn change(&self, most: usize) -> Result<Change<'_>, PoolError> {
        self.shared().change_at_pace(most)
    }

    /// Whether changes are logged: whether the pool has a journal.
    pub fn is_logged(&self) -> bool {
        self.core().latches.is_logged
    }

    /// Marks pages that were made as in use, in a change of its own: for structures that link
    /// nothing else at the same time. Called with no latch held.
    ///
    /// # Errors
    /// Those of loading the allocation maps, and of the log; [`PoolError::Broken`] if one of the
    /// pages is marked so already. Nothing has changed then.
    pub fn link(&self, pages: &[PageNo]) -> Result<(), PoolError> {
        self.mark_alone(pages, true)
    }

    /// Marks pages to which nothing leads as free, in a change of its own. They are
    /// reserved until they are given back ([`Space::free`]). Called with no latch held.
    ///
    /// # Errors
    /// As [`Space::link`].
    pub fn unlink(&self, pages: &[PageNo]) -> Result<(), PoolError> {
        self.mark_alone(pages, false)
    }

    fn mark_alone(&self, pages: &[PageNo], used: bool) -> Result<(), PoolError> {
        self.when_admitted(|| {
            let mut change = self.change(mark_bytes(pages))?;
            self.run(AccessHint::Normal, |attempt| {
                change.clear();
                change.mark(self, attempt, pages, used)?;
                change.commit(&mut []);
                Ok(())
            })
        })
    }

    /// A new page with the lowest number that is free, all zeros behind its header. The caller
    /// writes its kind and its layout: a page without a kind is refused when it comes back from the
    /// device.
    ///
    /// Called with no latch held. The page is the caller's: to be linked by a change that marks it
    /// as used ([`Change::mark`]), or freed ([`Space::free`]).
    ///
    /// # Errors
    /// [`PoolError::Full`] if the device has no room, [`PoolError::Exhausted`] if the pool has no
    /// frame, [`PoolError::Limit`] if the space has no number left, [`PoolError::Dropped`], and
    /// those of the maps and of the log; nothing has changed then.
    pub fn create(&self) -> Result<NewPage<'_>, PoolError> {
        let none = PoolError::Limit { what: "a space's pages", limit: PageNo::MAX.get() };
        self.create_before(PageNo::MAX)?.ok_or(none)
    }

    /// As [`Space::create`], if a page in front of `limit` is free; else `None`: for moving pages
    /// down.
    ///
    /// # Errors
    /// As [`Space::create`].
    pub fn create_before(&self, limit: PageNo) -> Result<Option<NewPage<'_>>, PoolError> {
        // WAIT-1: for its place in the file, a map, a frame.
        if waits::refuses() {
            return Err(PoolError::WouldWait);
        }
        self.shared().create_page(self.space_core(), limit)
    }

    /// A page with this number, which the caller has reserved ([`Space::reserve`]) and makes once; else
    /// as [`Space::create`].
    ///
    /// # Errors
    /// As [`Space::create`]. The number is still reserved then.
    pub fn make(&self, page: PageNo) -> Result<NewPage<'_>, PoolError> {
        // WAIT-1
        if waits::refuses() {
            return Err(PoolError::WouldWait);
        }
        self.when_admitted(|| self.shared().make(self.space_core(), page))
    }

    /// Reserves so many numbers of free pages, in ascending order, for pages that belong together: if
    /// possible a run without gaps, else the lowest ones. `None`, if there are not as many in front of
    /// `limit`. Each is to be made ([`Space::make`]) or freed ([`Space::free`]). Called with no latch
    /// held.
    ///
    /// # Errors
    /// As [`Space::create`]; nothing is reserved then.
    pub fn reserve(&self, count: usize, limit: PageNo) -> Result<Option<Vec<PageNo>>, PoolError> {
        // WAIT-1
        if waits::refuses() {
            return Err(PoolError::WouldWait);
        }
        self.shared().reserve_pages(self.space_core(), count, limit)
    }

    /// Drops a page that nothing refers to from memory, and gives its id. Its number is still
    /// reserved: it is given back with [`Space::give_back`] once no latch is held. Not for pages that
    /// may be lent, for whose return this would wait: those are freed by [`Space::free`].
    pub fn discard(&self, page: Exclusive<'_>) -> PageId {
        let id = page.id();
        self.shared().discard(self.space_core(), page);
        id
    }

    /// Gives the number of a discarded page back, which was reserved and is marked as free. Called
    /// with no latch held.
    pub fn give_back(&self, page: PageId) {
        self.shared().free_page(self.space_core(), page.page());
    }

    /// Frees a reserved page that nothing refers to, resident or not; it is never loaded for that. A
    /// page that is lent ([`Borrower`](crate::Borrower)) is free when it is not any more.
    /// Called with no latch held.
    pub fn free(&self, page: PageNo) {
        self.shared().discard_and_free(self.space_core(), page);
    }

    /// Whether the maps say that a page is in use. A page that is reserved is not.
    ///
    /// # Errors
    /// Those of loading the allocation maps.
    pub fn is_used(&self, page: PageNo) -> Result<bool, PoolError> {
        self.shared().is_used(self.space_core(), page)
    }

    /// How many pages of the space are in use, allocation maps included.
    ///
    /// # Errors
    /// Those of loading the allocation maps.
    pub fn pages_in_use(&self) -> Result<u64, PoolError> {
        self.shared().pages_in_use(self.space_core())
    }

    /// The numbers of all pages in use but the allocation maps, in ascending order.
    ///
    /// # Errors
    /// Those of loading the allocation maps.
    pub fn used_pages(&self) -> Result<Vec<PageNo>, PoolError> {
        self.shared().used_pages(self.space_core())
    }

    /// The first of [`Space::used_pages`] from page number `from` on: all of them, or at least
    /// `enough`.
    ///
    /// # Errors
    /// Those of loading the allocation maps.
    pub fn used_pages_from(&self, from: PageNo, enough: usize) -> Result<Vec<PageNo>, PoolError> {
        self.shared().used_pages_from(self.space_core(), from.get(), enough)
    }
}

/// Moving pages to lower numbers, so that the space needs less of the file.
impl<T: Translation> Space<T> {
    /// In front of which page number all pages in use would have room, were they moved down as far
    /// as they can be. Pages that others make meanwhile may need more. A structure moves what lies
    /// behind it to pages of [`Space::create_before`]; then [`Pool::shrink`](crate::Pool::shrink)
    /// makes the file shorter.
    ///
    /// # Errors
    /// Those of loading the allocation maps.
    pub fn dense_end(&self) -> Result<PageNo, PoolError> {
        self.shared().dense_end(self.space_core())
    }

    /// Begins a pass in which pages are moved that other threads know by their numbers alone.
    /// Within a pass no page comes back to a number that it had before; so a thread that has seen
    /// the same number of [`passes`](Space::passes) before and after can tell by its number whether
    /// a page has moved.
    pub fn begin_pass(&self) {
        // AcqRel: pairs with the load of `passes`.
        self.space_core().passes.fetch_add(1, Ordering::AcqRel);
    }

    /// How many passes have begun since the space was opened ([`Space::begin_pass`]).
    pub fn passes(&self) -> u64 {
        self.space_core().passes.load(Ordering::Acquire)
    }
}

impl<'p> Change<'p> {
    /// Latches the allocation maps of these pages of a space, so that `commit` marks them as used
    /// (`used`) or free. Waits as little as [`Attempt::upgrade`]; to be called after all other
    /// pages are latched, and before anything is changed that must not stay if it fails. It takes
    /// [`mark_bytes`] at most.
    ///
    /// # Errors
    /// `Restart`, also when a map must be loaded first: then this call has left no map latched,
    /// but earlier ones may have ([`Change::clear`]). A page that is marked so already is
    /// [`PoolError::Broken`].
    pub fn mark<T: Translation>(
        &mut self,
        space: &'p Space<T>,
        attempt: &mut Attempt<'p>,
        pages: &[PageNo],
        used: bool,
    ) -> Result<(), Restart> {
        self.mark_in(space.view(), attempt, pages, used)
    }
}
