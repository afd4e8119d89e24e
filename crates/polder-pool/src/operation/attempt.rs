//! One operation on a structure, tried until it goes through.
//!
//! An operation reads pages optimistically (`optimistic.rs`) and gives up with [`Restart`] when
//! one of them changed, or is not resident. What happens then is decided outside of all latches
//! (`recover.rs`): the page is loaded and the operation goes on with a pin on it, or it waits a
//! little. After many conflicts it falls back to holding the pages on its way down shared
//! (`pessimistic.rs`), so that it cannot be overtaken for ever.

#![cfg(not(loom))]

use std::error::Error;

use polder_format::PageId;

use crate::core::Core;
use crate::error::PoolError;
use crate::frame::Admitted;
use crate::latch::{Exclusive, Holds, Optimistic, Pin, Resolved, Restart, StateCell, StateWord};
use crate::page::{LinkRef, PageRef};
use crate::replacement::AccessHint;
use crate::shared::View;
use crate::sync::Backoff;
use crate::thread::waits;
use crate::translation::Translation;

/// The state of one operation, which [`Space::run`](crate::Space::run) gives to it: what it has
/// come to, what it holds, and why it did not go through. It is handed to each step, and not used
/// beyond the operation.
#[derive(Debug)]
pub struct Attempt<'p> {
    pub(crate) hint: AccessHint,
    /// Not just optimistic: pessimistic, or the pool's read mode holds pages.
    pub(crate) holds: bool,
    /// Whether it may go by snapshots.
    pub(crate) snapshots: bool,
    /// How many pages of the space had been discarded when it took the first.
    discarded: u64,
    pub(crate) pages: u64,
    pub(crate) interrupted: Interrupted<'p>,
    pub(crate) obstacles: Obstacles<'p>,
    pub(crate) pessimistic: Pessimistic<'p>,
    /// What it holds on its way down by the pool's read mode.
    pub(crate) way: Holds<'p>,
    core: &'p Core,
}

/// What an attempt that fell back to latches holds: the pages on its way down, shared by their
/// words.
#[derive(Debug, Default)]
pub(crate) struct Pessimistic<'p> {
    /// Whether it did.
    pub(crate) active: bool,
    /// A pessimistic attempt that holds a page exclusively waits for no other one.
    exclusive: bool,
    held: Vec<&'p StateCell>,
}

impl<'p> Pessimistic<'p> {
    /// Holds a page of the way shared; once, however often the way comes by.
    pub(crate) fn share(&mut self, cell: &'p StateCell) -> Result<StateWord, Restart> {
        if self.held.iter().any(|held| std::ptr::eq(*held, cell)) {
            return Ok(cell.read());
        }
        // An attempt that waits holds nothing that others may be waiting for.
        let shared = if self.exclusive { cell.try_share() } else { wait_for_share(cell) };
        let word = shared.ok_or(Restart)?;
        self.held.push(cell);
        Ok(word)
    }

    /// Holds a page exclusively that may be one of those that are held shared.
    fn upgrade(&mut self, page: Optimistic<'p>) -> Result<Exclusive<'p>, Restart> {
        page.validate()?;
        self.exclusive = true;
        let same = |cell: &&StateCell| std::ptr::eq(*cell, page.cell());
        match self.held.iter().position(same) {
            Some(at) => {
                let exclusive = page.upgrade_shared()?;
                self.held.swap_remove(at);
                Ok(exclusive)
            }
            None => page.try_upgrade(),
        }
    }

    /// Releases all.
    fn release(&mut self) {
        self.held.drain(..).for_each(StateCell::unshare);
        self.exclusive = false;
    }
}

fn wait_for_share(cell: &StateCell) -> Option<StateWord> {
    let mut backoff = Backoff::new();
    loop {
        if let Some(word) = cell.try_share() {
            return Some(word);
        }
        let now = cell.peek();
        if now.is_evicted() || now.is_in_flight() {
            return None;
        }
        backoff.wait();
    }
}

/// A link, and the page that it stands in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step<'p> {
    page: Option<PageRef<'p>>,
    at: usize,
    id: PageId,
    is_root: bool,
    pub(crate) parent: Option<Optimistic<'p>>,
}

impl<'p> Step<'p> {
    /// Keeps the parts of the link, not the link itself: else the compiler would keep the link in
    /// memory, also on the common path.
    #[inline(always)]
    pub(crate) fn new(link: LinkRef<'p>, parent: Option<&Optimistic<'p>>) -> Step<'p> {
        let (page, at, id, is_root) = match link {
            LinkRef::InPage(page, at) => (Some(page), at, PageId::NULL, false),
            LinkRef::Root(id) => (None, 0, id, true),
            LinkRef::Id(id) => (None, 0, id, false),
        };
        Step { page, at, id, is_root, parent: parent.copied() }
    }

    pub(crate) fn link(&self) -> LinkRef<'p> {
        match self.page {
            Some(page) => LinkRef::InPage(page, self.at),
            None if self.is_root => LinkRef::Root(self.id),
            None => LinkRef::Id(self.id),
        }
    }
}

/// Why a single try did not go through ([`Space::run_once`](crate::Space::run_once)), and what must
/// be done before the next one, when no latch is held
/// ([`Space::make_way`](crate::Space::make_way)).
///
/// This is how more pages are latched than one operation comes to:
///
/// ```
/// use polder_format::{PAGE_HEADER_BYTES, PageNo};
/// use polder_pool::{Array, Exclusive, Interrupted, Obstacles, PoolError, Space};
/// # use polder_format::PageSize;
/// # use polder_pool::{FileState, Pool};
/// # use polder_testkit::pools;
///
/// fn latch<'p>(
///     space: &'p Space<Array>,
///     page: PageNo,
/// ) -> Result<Exclusive<'p>, Box<Interrupted<'p>>> {
///     space.run_once(|attempt| {
///         let page = space.page(attempt, page)?;
///         attempt.upgrade(page)
///     })
/// }
///
/// /// Both at once, or neither.
/// fn latch_both(
///     space: &Space<Array>,
///     pages: [PageNo; 2],
/// ) -> Result<[Exclusive<'_>; 2], PoolError> {
///     let mut obstacles = Obstacles::default();
///     loop {
///         let first = latch(space, pages[0]);
///         match first.and_then(|first| Ok([first, latch(space, pages[1])?])) {
///             Ok(both) => return Ok(both),
///             // The first one is latched no more: now it may take time.
///             Err(in_the_way) => space.make_way(*in_the_way, &mut obstacles)?,
///         }
///     }
/// }
///
/// # let config = pools::config(1, PageSize::MIN, FileState::NEW);
/// # let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &[])?;
/// let space = pool.create_space()?;
/// let pages = [space.create()?.id().page(), space.create()?.id().page()];
/// space.link(&pages)?;
/// let [from, mut to] = latch_both(&space, pages)?;
/// to.page_mut().copy_from(from.page(), PAGE_HEADER_BYTES, PAGE_HEADER_BYTES, 64);
/// # Ok::<(), PoolError>(())
/// ```
#[derive(Debug, Default)]
pub struct Interrupted<'p> {
    /// The page to load, and the parent that leads to it.
    pub(crate) miss: Option<(PageId, Option<Optimistic<'p>>)>,
    pub(crate) failure: Option<PoolError>,
}

impl Interrupted<'_> {
    /// Whether somebody else held or changed a page, so that the same may go through at once. If
    /// not, a page must be loaded, or the operation has failed.
    pub fn is_conflict(&self) -> bool {
        self.failure.is_none() && self.miss.is_none()
    }

    /// Whether a page must be loaded.
    pub fn is_missing(&self) -> bool {
        self.failure.is_none() && self.miss.is_some()
    }
}

/// What has been in the way of one operation so far, and the pages that it keeps resident until
/// this goes. An operation begins with [`Obstacles::default`]; [`Interrupted`] has an example.
#[derive(Debug, Default)]
pub struct Obstacles<'p> {
    pub(crate) conflicts: u32,
    /// A page was missing.
    pub(crate) waited: bool,
    pub(crate) unreadable: u32,
    pub(crate) kept: Option<Box<Kept<'p>>>,
}

/// What an operation that met obstacles keeps until its end. In a box: most meet none.
#[derive(Debug, Default)]
pub(crate) struct Kept<'p> {
    pub(crate) pins: Vec<Pin<'p>>,
    pub(crate) admitted: Option<Admitted<'p>>,
}

impl Drop for Obstacles<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take() {
            release_all(kept);
        }
    }
}

/// A function of its own, so that an operation that met no obstacle runs none of its code.
#[cold]
#[inline(never)]
fn release_all(kept: Box<Kept<'_>>) {
    drop(kept);
}

impl<'p> Attempt<'p> {
    #[inline(always)]
    pub(crate) fn new(core: &'p Core, hint: AccessHint) -> Attempt<'p> {
        Attempt {
            hint,
            holds: core.latches.holds_all,
            snapshots: core.latches.copies,
            discarded: 0,
            pages: 0,
            interrupted: Interrupted::default(),
            obstacles: Obstacles::default(),
            pessimistic: Pessimistic::default(),
            way: Holds::default(),
            core,
        }
    }

    /// Whether it goes to its leaf by [`Space::snapshot`], and changes nodes by [`Space::shadow`]:
    /// where the pool's read mode is [`ReadMode::Copy`](crate::ReadMode), unless the attempt has
    /// met so many conflicts that it holds pages shared.
    ///
    /// ```
    /// # use polder_format::{PAGE_HEADER_BYTES as AT, PageSize};
    /// # use polder_testkit::pools;
    /// # use polder_pool::{AccessHint, Array, FileState, Pool, PoolConfig, PoolError};
    /// use polder_pool::{LinkRef, ReadMode};
    ///
    /// # let config = pools::config(1, PageSize::MIN, FileState::NEW);
    /// let config = PoolConfig { read_mode: ReadMode::Copy, ..config };
    /// # let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &[])?;
    /// # let space = pool.create_space()?;
    /// # let id = space.create()?.id();
    /// # space.link(&[id.page()])?;
    /// // A writer works on a copy, which readers see when it is complete.
    /// space.run(AccessHint::Normal, |attempt| {
    ///     let page = space.page(attempt, id.page())?;
    ///     let mut copy = space.shadow(attempt, page)?;
    ///     let count = copy.page().u64(AT);
    ///     copy.page_mut().set_u64(AT, count + 1);
    ///     Ok(())
    /// })?;
    /// // A reader holds the page: what it reads stays as it is, and need not be validated.
    /// let count = space.run(AccessHint::Normal, |attempt| {
    ///     if attempt.takes_snapshots() {
    ///         return Ok(space.snapshot(attempt, LinkRef::Id(id), None)?.page().u64(AT));
    ///     }
    ///     let page = space.page(attempt, id.page())?;
    ///     let count = page.page().u64(AT);
    ///     page.validate().map(|()| count)
    /// })?;
    /// assert_eq!(count, 1);
    /// # Ok::<(), PoolError>(())
    /// ```
    ///
    /// [`Space::snapshot`]: crate::Space::snapshot
    /// [`Space::shadow`]: crate::Space::shadow
    #[inline(always)]
    pub fn takes_snapshots(&self) -> bool {
        self.snapshots
    }

    pub(crate) fn begin_snapshots(&mut self, discarded: u64) {
        self.discarded = discarded;
    }

    /// Whether no page of the space was discarded since it took its first snapshot.
    pub(crate) fn began_snapshots_at(&self, discarded: u64) -> bool {
        self.discarded == discarded
    }

    /// Releases this page, if it is held by a snapshot.
    pub(crate) fn release_page(&mut self, page: &Optimistic<'p>) {
        self.way.release_page(&self.core.latches, page.cell());
    }

    /// Releases the page that it holds by a snapshot, if it does.
    pub(crate) fn release_snapshot(&mut self) {
        self.way.clear(&self.core.latches);
    }

    /// Holds the page that was found, and no other, if it still is as it was.
    pub(crate) fn hold_this(&mut self, found: &Resolved<'p>) -> bool {
        self.holds = true;
        let held = self.way.hold_this(&self.core.latches, found);
        self.pages += u64::from(held);
        held
    }

    /// An access to a marked page.
    pub(crate) fn access(&self, cell: &StateCell, seen: StateWord) {
        self.core.access(self.hint, cell, seen);
    }

    /// The page must be loaded.
    pub(crate) fn miss(&mut self, page: PageId, parent: Option<&Optimistic<'p>>) -> Restart {
        self.interrupted.miss = Some((page, parent.map(Optimistic::without_hold)));
        Restart
    }

    /// False if it was something else than a missing page that interrupted it.
    pub(crate) fn forget_miss(&mut self) -> bool {
        self.interrupted.miss.take().is_some()
    }

    /// Whether the operation has come to a page that had to be loaded, in this try or one before.
    pub fn has_waited(&self) -> bool {
        self.obstacles.waited || waits::has_waited()
    }

    /// Ends the operation with an error: to be returned as `Err(attempt.fail(...))`. That is a
    /// [`PoolError`], or any other error, or a text: the operation gives it as
    /// [`PoolError::Structure`] then, in which [`PoolError::structure_error`] finds it again.
    ///
    /// ```
    /// # use polder_format::{ChecksumSeed, PageKind, PageSize, StoreId};
    /// # use polder_pool::{AccessHint, Array, Pool, PoolConfig, PoolError};
    /// # use polder_testkit::{FaultPlan, SimDisk};
    /// # let config = PoolConfig::new(16 << 20, PageSize::MIN, ChecksumSeed::new(StoreId([1; 16])));
    /// # let device = Box::new(SimDisk::new(FaultPlan::new(1)));
    /// # let pool: Pool<Array> = Pool::open(device, &config, &[])?;
    /// # let space = pool.create_space()?;
    /// let found: Result<(), PoolError> = space.run(AccessHint::Normal, |attempt| {
    ///     Err(attempt.fail(std::fmt::Error))
    /// });
    /// assert!(found.unwrap_err().structure_error::<std::fmt::Error>().is_some());
    /// # Ok::<(), PoolError>(())
    /// ```
    #[cold]
    pub fn fail(&mut self, error: impl Into<Box<dyn Error + Send + Sync>>) -> Restart {
        self.interrupted.failure = Some(PoolError::of_structure(error));
        Restart
    }

    /// Holds an optimistically read page exclusively, as it was read. Waits for no writer, and only
    /// a moment for readers that hold the page by the pool's read mode.
    ///
    /// # Errors
    /// `Restart` if the page is no longer as it was, or others hold it.
    #[inline(always)]
    pub fn upgrade(&mut self, page: Optimistic<'p>) -> Result<Exclusive<'p>, Restart> {
        if self.holds { self.upgrade_held(page) } else { page.try_upgrade() }
    }

    #[cold]
    fn upgrade_held(&mut self, page: Optimistic<'p>) -> Result<Exclusive<'p>, Restart> {
        self.way.release_page(&self.core.latches, page.cell());
        if self.pessimistic.active {
            return self.pessimistic.upgrade(page);
        }
        // A writer that waits for others holds nothing for which they may be waiting. (What it has
        // read validates without being held, or it begins again.)
        if page.is_held_by_others() {
            self.way.clear(&self.core.latches);
        }
        page.try_upgrade()
    }

    /// Releases all that it holds.
    pub(crate) fn release(&mut self) {
        self.pessimistic.release();
        self.way.clear(&self.core.latches);
    }
}

impl Drop for Attempt<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.holds {
            self.release();
        }
    }
}

impl<'p, T: Translation> View<'p, T> {
    /// A word that was read without a parent to validate is one of our space, unless that was
    /// dropped before: then it may serve another one.
    #[inline(always)]
    pub(crate) fn check_own(self, attempt: &mut Attempt<'p>) -> Result<(), Restart> {
        if self.space.is_dropped() {
            return Err(attempt.fail(PoolError::Dropped { space: self.space.id }));
        }
        Ok(())
    }
}
