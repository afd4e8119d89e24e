//! What a pool offers to the structures built on it; `space.rs` has what its spaces do.

#![cfg(not(loom))]

#[cfg(feature = "async")]
use std::task::Waker;

use polder_format::{PageId, PageSize, SpaceId, Temperature};

use crate::device::Device;
use crate::error::PoolError;
use crate::file_map::FileState;
#[cfg(feature = "async")]
use crate::paging::loader::AwaitedPage;
use crate::paging::prewarm::Prewarmed;
pub use crate::pool::handle::{Pool, Space};
use crate::read_mode::ReadMode;
use crate::thread::Counter;
use crate::translation::Translation;

impl<T: Translation> Pool<T> {
    /// The size of all pages.
    pub fn page_size(&self) -> PageSize {
        self.shared().core.page_size()
    }

    /// Bytes of memory that the pool was opened with.
    pub fn memory_budget_bytes(&self) -> u64 {
        self.shared().memory_budget
    }

    /// The device on which the pool was opened.
    pub fn device(&self) -> &dyn Device {
        &*self.shared().core.data.device
    }

    /// Writes all dirty pages and makes them durable. Called with no latch held: it waits for those
    /// that hold pages.
    ///
    /// # Errors
    /// [`PoolError::Write`], [`PoolError::Device`], or [`PoolError::Journal`] if the log does not
    /// permit a page to be written; pages that could not be written stay dirty.
    pub fn flush(&self) -> Result<(), PoolError> {
        self.shared().flush(&mut |_, _| {})
    }

    /// Ends the reading of the device, and waits for the reads that are under way. Pages that are
    /// not resident are refused from now on, with [`PoolError::Closed`]: the next owner of the
    /// device may change it.
    pub fn end_reads(&self) {
        #[cfg(feature = "async")]
        self.loader().stop();
        self.shared().core.data.reads.end();
    }

    /// Has a page loaded for a future, by a thread of the pool, and does not wait for it. `above` is the
    /// page that leads to it, if there is one. [`waits`] says which page it is.
    ///
    /// The future tries its operation again when the page has come. It may be gone again by then:
    /// nothing is kept for a future.
    ///
    /// ```
    /// use std::task::{Context, Poll};
    ///
    /// use polder_format::PageNo;
    /// use polder_pool::waits::{Refused, without_waiting};
    /// use polder_pool::{AccessHint, Array, Arrival, AwaitedPage, PoolError, Space};
    ///
    /// /// A number in a page, or not yet. (One that gives up after a few pages, or is told
    /// /// `Arrival::Elsewhere`, has a thread that may wait do it.)
    /// fn poll_number(
    ///     space: &Space<Array>,
    ///     page: PageNo,
    ///     awaited: &mut Option<AwaitedPage>,
    ///     cx: &mut Context<'_>,
    /// ) -> Poll<Result<u64, PoolError>> {
    ///     loop {
    ///         match awaited.as_mut().map(|page| page.poll(cx.waker())) {
    ///             Some(Poll::Pending) => return Poll::Pending,
    ///             Some(Poll::Ready(Arrival::Broken(error))) => return Poll::Ready(Err(error)),
    ///             _ => *awaited = None,
    ///         }
    ///         let (read, refused) = without_waiting(false, || {
    ///             space.run(AccessHint::Normal, |attempt| {
    ///                 let page = space.page(attempt, page)?;
    ///                 let number = page.page().u64(64);
    ///                 page.validate().map(|()| number)
    ///             })
    ///         });
    ///         match refused {
    ///             Some(Refused::Page(page, above)) if read.is_err() => {
    ///                 *awaited = Some(space.pool().await_page(page, above, cx.waker()));
    ///             }
    ///             _ => return Poll::Ready(read),
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// [`waits`]: crate::waits
    #[cfg(feature = "async")]
    pub fn await_page(&self, page: PageId, above: Option<PageId>, waker: &Waker) -> AwaitedPage {
        self.loader().ask(page, above, waker)
    }

    /// How readers hold pages, as [`PoolConfig`](crate::PoolConfig) said.
    pub fn read_mode(&self) -> ReadMode {
        self.shared().core.latches.hold
    }

    /// How often operations of this thread have begun again: its part of
    /// [`PoolStats::restarts`](crate::PoolStats::restarts).
    pub fn restarts_of_this_thread(&self) -> u64 {
        self.shared().core.counters.of_this_thread(Counter::Restarts)
    }

    /// The translation, for what it can say of itself. Its name is `T::NAME`.
    pub fn translation(&self) -> &T {
        &self.shared().translation
    }

    /// What the translation finds that contradicts itself, as sentences: swizzled links that are
    /// not their owners'. None, where all is well or links hold no frames. Means something while
    /// nobody but the pool's own threads uses the pool.
    pub fn check_links(&self) -> Vec<String> {
        let shared = self.shared();
        shared.translation.check(&shared.context())
    }

    /// Writes every page that is dirty when this begins (or that somebody holds then), and makes
    /// them durable: K2 and K3. `pace` is told how many frames were visited, of how many, from time
    /// to time and at the end, and may sleep. Called with no latch held.
    ///
    /// # Errors
    /// As [`Pool::flush`].
    pub fn sweep(&self, pace: &mut dyn FnMut(u64, u64)) -> Result<(), PoolError> {
        self.shared().flush(pace)
    }

    /// A new, empty space with an id that was never used. It is known to this pool alone until its
    /// first page is made: a space without pages is not found when the file is opened again.
    ///
    /// # Errors
    /// [`PoolError::Limit`] when all ids are used.
    pub fn create_space(&self) -> Result<Space<T>, PoolError> {
        Ok(self.space_handle(self.shared().create_space()?))
    }

    /// An existing space. All handles to it are handles to the same one.
    ///
    /// # Errors
    /// [`PoolError::NoSuchSpace`], also for [`SpaceId::FILE`], which is the pool's own; or those of
    /// loading the space directory.
    pub fn open_space(&self, id: SpaceId) -> Result<Space<T>, PoolError> {
        let space = self.shared().admitted_space(id)?;
        Ok(self.space_handle(space.ok_or(PoolError::NoSuchSpace { space: id })?))
    }

    /// The pages of spaces that are in memory, and how hot each is, in the order in which they lie in
    /// the file: to be loaded again by [`Pool::prewarm`] when the file is opened the next time. Looks
    /// at every frame; no operation waits for it. It takes 40 bytes of memory for each page, which
    /// are not of the budget.
    pub fn resident_pages(&self) -> Vec<(PageId, Temperature)> {
        self.shared().resident_pages()
    }

    /// Loads pages that nobody has asked for yet, in the order of `wanted`, which is best that in
    /// which they lie in the file, many by one request. Called with no latch held.
    ///
    /// It takes free frames only, and ends where so few are left that others would be evicted. While
    /// other threads read from the device it leaves them half of the time. What cannot be loaded is
    /// skipped: a page that was freed since, or one of a space that was dropped. `goes_on` hears how
    /// far it is after each batch, and says whether it goes on; and once more at the end.
    ///
    /// ```
    /// # use std::error::Error;
    /// # use polder_format::{PageKind, PageSize, header_at};
    /// # use polder_pool::{AccessHint, Array, FileState, KindOps, Pool, PrewarmEnd};
    /// # use polder_testkit::pools;
    /// # const NOTE: KindOps = KindOps::plain(PageKind(200), "note", |_| Ok(()));
    /// # let disk = pools::disk();
    /// # let config = pools::config(1, PageSize::MIN, FileState::NEW);
    /// # let pool: Pool<Array> = Pool::open(Box::new(disk.clone()), &config, &[NOTE])?;
    /// # let space = pool.create_space()?;
    /// # let new = space.create()?;
    /// # space.run(AccessHint::Normal, |_| {
    /// #     let mut held = new.latch()?;
    /// #     held.page_mut().set_u8(header_at::KIND, NOTE.kind.0);
    /// #     held.page_mut().set_u8(header_at::LAYOUT, 1);
    /// #     Ok(())
    /// # })?;
    /// # space.link(&[new.id().page()])?;
    /// # drop(new);
    /// # pool.flush()?;
    /// let pages = pool.resident_pages();
    /// // The file is opened again.
    /// # let config = pools::config(1, PageSize::MIN, pool.file_state());
    /// # drop((space, pool));
    /// # let pool: Pool<Array> = Pool::open(Box::new(disk), &config, &[NOTE])?;
    /// let done = pool.prewarm(pages.iter().copied(), |_| true);
    /// assert_eq!((done.loaded, done.end), (pages.len() as u64, Some(PrewarmEnd::All)));
    /// # Ok::<(), Box<dyn Error>>(())
    /// ```
    pub fn prewarm(
        &self,
        wanted: impl IntoIterator<Item = (PageId, Temperature)>,
        mut goes_on: impl FnMut(Prewarmed) -> bool,
    ) -> Prewarmed {
        let shared = self.shared();
        let open = |space| shared.admitted_space(space).ok().flatten();
        shared.prewarm(&open, &mut wanted.into_iter(), &mut goes_on)
    }

    /// How many pages [`Pool::prewarm`] would load now, if it was given enough.
    pub fn prewarm_room(&self) -> u64 {
        self.shared().prewarm_room() as u64
    }

    /// Has `told` called now and then when many frames were taken for pages: when what is resident is
    /// likely not what it was. The thread that has taken the last one calls; it must not have to wait.
    /// Only the first call of this function counts.
    pub fn tell_of_frames_taken(&self, told: impl Fn() + Send + Sync + 'static) {
        self.shared().core.on_taken.set(Box::new(told));
    }

    /// The ids of all spaces that have pages, in ascending order.
    ///
    /// # Errors
    /// Those of loading the space directory.
    pub fn spaces(&self) -> Result<Vec<SpaceId>, PoolError> {
        let _admitted = self.shared().admit();
        self.shared().listed_spaces()
    }

    /// What must be kept to open the file again: [`PoolConfig::file`](crate::PoolConfig). It says
    /// what the device has if everything was flushed before, and nothing was changed since.
    pub fn file_state(&self) -> FileState {
        self.shared().file_state()
    }

    /// Whether all maps agree: no physical page belongs to two extents or map pages, none lies
    /// behind the end of the file. Gives each disagreement as a sentence, none if all is well.
    /// Reads all extent maps.
    ///
    /// # Errors
    /// Those of loading the maps.
    pub fn check_maps(&self) -> Result<Vec<String>, PoolError> {
        let _admitted = self.shared().admit();
        self.shared().check_maps()
    }

    /// Has `told` called with how many pages of spaces were freed so far: when the first one is,
    /// and for each 1024 after that. The thread that has freed the page calls, without any latch;
    /// it must not have to wait. Only the first call of this function counts.
    pub fn tell_of_freed(&self, told: impl Fn(u64) + Send + Sync + 'static) {
        self.shared().core.map.freed.tell(Box::new(told));
    }

    /// How many pages of spaces were freed since the pool was opened.
    pub fn freed_pages(&self) -> u64 {
        self.shared().core.map.freed.pages()
    }

    /// Makes the file as short as it can be without moving single pages: moves whole extents and
    /// pages of maps. Gives the bytes by which it became shorter. Other operations go on meanwhile.
    ///
    /// # Errors
    /// Those of reading and writing; what was not moved stays where it was.
    pub fn shrink(&self) -> Result<u64, PoolError> {
        let _admitted = self.shared().admit();
        self.shared().shrink()
    }

    /// One of the first steps of [`Pool::shrink`]: gives back extents in which no page is in use, of
    /// the next few spaces whose ids are greater than `space`, and cuts off the end of the file.
    /// Gives the last one of them, to go on behind; `None` if there is no other one. The first call
    /// is given [`SpaceId::FILE`].
    ///
    /// # Errors
    /// Those of reading and writing; what was found free by then is given back all the same.
    pub fn release_free_behind(&self, space: SpaceId) -> Result<Option<SpaceId>, PoolError> {
        let _admitted = self.shared().admit();
        self.shared().release_free(space)
    }

    /// Each further step of [`Pool::shrink`]: moves what lies last in the file, at most 64 MiB,
    /// further down. Gives the bytes by which the file became shorter, which may be none; `None`
    /// if nothing can be moved.
    ///
    /// # Errors
    /// Those of reading and writing; what was not moved stays where it was.
    pub fn move_last(&self) -> Result<Option<u64>, PoolError> {
        let _admitted = self.shared().admit();
        self.shared().move_last()
    }

    /// The last step of [`Pool::shrink`], also where the others ended early: gives the blocks of all
    /// that is free within the file to the file system. It is no error if that cannot do so.
    pub fn punch_free(&self) {
        let _admitted = self.shared().admit();
        self.shared().punch_free();
    }
}
