//! Doing again what the log says: R6 to R8 of `docs/durability.md`.
//!
//! The records of a group are done to a page if and only if the page's LSN is below that of the
//! group. Pages are found by the maps as they are when this is called.

#![cfg(not(loom))]

use std::collections::HashSet;
use std::sync::Arc;

use polder_format::log::Operation;
use polder_format::{Lsn, PageId, PageKind, PhysicalPageNo, SpaceId, header_at};

use crate::core::Core;
use crate::device::is_full;
use crate::error::PoolError;
use crate::frame::OPERATION_FRAMES;
use crate::page::{LinkRef, PageBuf, PageKinds, PageMut, PageRef};
use crate::pool::pool::Pool;
use crate::replacement::AccessHint;
use crate::shared::{Shared, SpaceCore};
use crate::space::change::mark;
use crate::sync::lock;
use crate::translation::{Translation, Words};

/// What became of the records of a group for one page.
#[derive(Debug)]
pub enum Redone {
    /// They were done; the page bears the LSN of the group now.
    Applied,
    /// The page contained them already: its LSN is not below the group's.
    Known,
    /// The page belongs to no space or extent, as the maps are now: it was freed later in the log.
    Absent,
    /// The page cannot be read, or a record does not fit it. That may turn out to be no fault:
    /// if the page is free, or its full-page image comes later.
    Suspect(PoolError),
}

/// One thread that redoes pages of a pool ([`Pool::redoing`]). It remembers the space that it
/// worked in last.
///
/// A recovery redoes the log in two passes (`docs/durability.md`, R6 to R8). First the pool's maps:
/// [`Pool::redo_directory`], [`Redo::redo`] for the pages of [`SpaceId::FILE`],
/// [`Pool::redo_backing`], [`Pool::redo_maps_done`]. Then all other pages, by as many threads as
/// there are. A page that is suspect gets no more records until its full-page image comes, and if
/// there is none, [`Pool::is_in_use`] says whether it matters.
///
/// ```
/// use polder_format::log::Operation;
/// use polder_format::{Lsn, PAGE_HEADER_BYTES, PageKind, header_at};
/// use polder_pool::{AccessHint, Array, KindOps, Pool, PoolError, Redone};
/// # use polder_format::PageSize;
/// # use polder_pool::FileState;
/// # use polder_testkit::pools;
///
/// const NOTE: KindOps = KindOps::plain(PageKind(200), "note", |_| Ok(()));
/// # let config = pools::config(1, PageSize::MIN, FileState::NEW);
/// # let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &[NOTE])?;
/// # let space = pool.create_space()?;
/// # let page = space.create()?.id();
/// # space.link(&[page.page()])?;
/// // What the log has of `page`: a group that ends at this LSN, and its records.
/// let (lsn, offset) = (Lsn(8192), PAGE_HEADER_BYTES as u32);
/// let records = [Operation::Patch { offset, backed: 0, bytes: b"hello" }];
///
/// let mut redo = pool.redoing();
/// assert!(matches!(redo.redo(page, lsn, &records)?, Redone::Applied));
/// assert!(matches!(redo.redo(page, lsn, &records)?, Redone::Known));
/// let text = space.run(AccessHint::Normal, |attempt| {
///     let page = space.page(attempt, page.page())?;
///     let text: [u8; 5] = page.page().array(PAGE_HEADER_BYTES);
///     page.validate().map(|()| text)
/// })?;
/// assert_eq!(&text, b"hello");
/// # Ok::<(), PoolError>(())
/// ```
pub struct Redo<'p, T: Translation> {
    pool: &'p Pool<T>,
    space: Option<Arc<SpaceCore<T>>>,
    released: Released,
}

/// Pages that lie nowhere by the end of the log, as they were: others may have been made of them before they
/// were freed. So many as were freed, after their images were logged, in extents that were released: as a
/// rule none. In ascending order.
#[derive(Default)]
struct Released(Vec<(PageId, PageBuf)>);

impl<T: Translation> std::fmt::Debug for Redo<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redo").field("pool", self.pool).finish_non_exhaustive()
    }
}

impl<T: Translation> Redo<'_, T> {
    /// Reads pages that will be redone soon, those of each space together, in ascending order. It promises
    /// nothing: what cannot be read, or not without waiting for something else, is met by [`Redo::redo`].
    pub fn load(&mut self, pages: &[PageId]) {
        let shared = self.pool.shared();
        for of_space in pages.chunk_by(|a, b| a.space() == b.space()) {
            let Ok(Some(space)) = self.enter(of_space[0].space()) else { continue };
            for together in of_space.chunks(shared.most_flights()) {
                shared.view(space).load_group(together, AccessHint::Normal);
            }
        }
    }

    fn enter(&mut self, id: SpaceId) -> Result<Option<&SpaceCore<T>>, PoolError> {
        if self.space.as_ref().is_none_or(|space| space.id != id) {
            let _admitted = self.pool.shared().admit();
            self.space = self.pool.shared().find_space(id)?;
        }
        Ok(self.space.as_deref())
    }

    /// What an [`Operation::RightHalf`] of a group that ends at `lsn` makes its page: of the left one, to which
    /// nothing of that group has been redone. `None` if that is not to be had as it was before.
    ///
    /// # Errors
    /// [`PoolError::Exhausted`] if the pool has no frame, and those of reading the maps.
    pub fn right_half(
        &mut self,
        left: PageId,
        lsn: Lsn,
        half: &Operation<'_>,
    ) -> Result<Option<PageBuf>, PoolError> {
        let mut made = None;
        self.reach(left, lsn, std::slice::from_ref(half), Some(&mut made)).map(|_| made)
    }

    /// Does `operations`, all those of a group that ends at `lsn` for `page`, if they are missing
    /// there; a full-page image in any case, if the page's kind has records of its own, so that it is what
    /// it was then, and can be asked for its right half ([`Redo::right_half`]). Full-page images, patches and
    /// changes of maps are the pool's; all else is done by the page's kind
    /// ([`KindOps::redo`](crate::KindOps)).
    /// Several threads may do so for different pages.
    ///
    /// # Errors
    /// [`PoolError::Exhausted`] if the pool has no frame, [`PoolError::Broken`] if a full-page
    /// image has the size of another pool's pages, and those of reading the maps. What is wrong
    /// with the page itself is told by [`Redone::Suspect`].
    pub fn redo(
        &mut self,
        page: PageId,
        lsn: Lsn,
        operations: &[Operation<'_>],
    ) -> Result<Redone, PoolError> {
        self.reach(page, lsn, operations, None)
    }

    /// Both: the half is wanted, or what was done to the page.
    fn reach(
        &mut self,
        page: PageId,
        lsn: Lsn,
        operations: &[Operation<'_>],
        mut half: Option<&mut Option<PageBuf>>,
    ) -> Result<Redone, PoolError> {
        let shared = self.pool.shared();
        let Some(space) = self.enter(page.space())? else { return Ok(Redone::Absent) };
        let mut redo = || shared.redo(space, page, lsn, operations, &mut half);
        match shared.when_admitted(OPERATION_FRAMES, &mut redo) {
            Err(PoolError::Unmapped { .. }) => {
                self.released.redo(&shared.core, page, lsn, operations, half);
                Ok(Redone::Absent)
            }
            Err(error) if error.is_about_content() => Ok(Redone::Suspect(error)),
            result => result,
        }
    }
}

impl Released {
    fn find(&self, page: PageId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&page, |(page, _)| *page)
    }

    /// From its image on, of a page whose kind can redo what comes then.
    fn redo(
        &mut self,
        core: &Core,
        page: PageId,
        lsn: Lsn,
        operations: &[Operation<'_>],
        half: Option<&mut Option<PageBuf>>,
    ) {
        let found = self.find(page);
        if let Some(half) = half {
            let left = found.ok().map(|at| self.0[at].1.page());
            *half = left.and_then(|left| half_of(&core.kinds, left, lsn, operations));
            return;
        }
        let done = if let [Operation::FullPageImage { low, high, .. }] = *operations {
            let mut image = PageBuf::new(core.page_size());
            write_image(&mut image.page_mut(), page, lsn, (low, high));
            let kind = PageKind(image.page().u8(header_at::KIND));
            let is_kept = core.kinds.redoes(kind) && core.kinds.check_made(image.page()).is_ok();
            is_kept.then_some(image)
        } else if let Ok(at) = found {
            let mut copy = std::mem::replace(&mut self.0[at].1, PageBuf::new(core.page_size()));
            let kinds = &core.kinds;
            let fits = operations.iter().all(|op| change(kinds, copy.page_mut(), op).is_ok());
            copy.page_mut().set_u64(header_at::LSN, lsn.0);
            fits.then_some(copy)
        } else {
            return;
        };
        match (found, done) {
            (Ok(at), Some(page)) => self.0[at].1 = page,
            (Err(at), Some(copy)) => self.0.insert(at, (page, copy)),
            (Ok(at), None) => drop(self.0.remove(at)),
            (Err(_), None) => {}
        }
    }
}

impl<T: Translation> Pool<T> {
    /// What a thread needs to redo what a log tells. Nobody else changes the pool meanwhile.
    pub fn redoing(&self) -> Redo<'_, T> {
        Redo { pool: self, space: None, released: Released::default() }
    }

    /// Whether `page` is in use, as the maps say: what a suspect page must be asked in the end. Of
    /// a page of [`SpaceId::FILE`]: whether it is part of a map.
    ///
    /// # Errors
    /// Those of reading the maps.
    pub fn is_in_use(&self, page: PageId) -> Result<bool, PoolError> {
        let shared = self.shared();
        if page.space() == SpaceId::FILE {
            let place = page.page().get();
            let _admitted = shared.admit();
            let runs = shared.used_runs()?;
            return Ok(runs.iter().any(|run| run.owner.is_none() && run.start == place));
        }
        match self.open_space(page.space()) {
            Ok(space) => space.is_used(page.page()),
            Err(PoolError::NoSuchSpace { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// From now on the root of the space directory lies at this physical page number, as the log
    /// says.
    pub fn redo_directory(&self, root: PhysicalPageNo) {
        self.shared().directory.set_root(root);
    }

    /// Has the device back runs of physical pages again that the log says were backed: the crash
    /// may have taken that back. Each run is its first physical page number and how many pages it
    /// has. Runs that no map names are left out. Where the device has no room for that, a thread
    /// that writes those pages is told so; they can be read, and freed.
    ///
    /// # Errors
    /// [`PoolError::Device`], and those of reading the maps.
    pub fn redo_backing(&self, runs: &[(u64, u64)]) -> Result<(), PoolError> {
        let shift = self.page_size().shift();
        let _admitted = self.shared().admit();
        let used: HashSet<u64> =
            self.shared().used_runs()?.into_iter().map(|run| run.start).collect();
        for (start, pages) in runs.iter().filter(|(start, _)| used.contains(start)) {
            let (offset, bytes) = (start << shift, pages << shift);
            let device = |what| move |e| PoolError::Device { what, source: Arc::new(e) };
            match self.device().allocate(offset, bytes) {
                Ok(()) => {}
                // They are part of the file all the same.
                Err(error) if is_full(&error) => {
                    if self.file_bytes()? < offset + bytes {
                        self.device().truncate(offset + bytes).map_err(device("lengthen"))?;
                    }
                }
                Err(error) => return Err(device("allocate space in")(error)),
            }
        }
        Ok(())
    }

    fn file_bytes(&self) -> Result<u64, PoolError> {
        let error = |e| PoolError::Device { what: "find out the length of", source: Arc::new(e) };
        self.device().len().map_err(error)
    }

    /// Ends the redoing of the maps: what they say of the file counts from now on. `next_space`:
    /// the log shows that all ids below were used. `changed`: whether there was anything to redo.
    ///
    /// # Errors
    /// [`PoolError::Device`], and those of reading the maps.
    pub fn redo_maps_done(&self, next_space: SpaceId, changed: bool) -> Result<(), PoolError> {
        let shared = self.shared();
        if changed {
            let _admitted = shared.admit();
            shared.discard_strays()?;
        }
        let len = self.file_bytes()?;
        lock(&shared.core.map.pages).set_end(len >> self.page_size().shift());
        let mut next = lock(&shared.next_space);
        *next = (*next).max(next_space);
        Ok(())
    }
}

impl<T: Translation> Shared<T> {
    /// Pages of maps that were made and not linked: their physical page numbers are free, and
    /// may soon be given to others.
    fn discard_strays(&self) -> Result<(), PoolError> {
        let used = self.used_runs()?;
        // One that moves meanwhile could be missed.
        let _stopped = self.core.frames.moves.stop();
        self.translation.words().for_each_present(&self.file.directory, &mut |page| {
            let is_used = used.iter().any(|run| run.owner.is_none() && run.start == page.get());
            if !is_used && let Some(held) = self.latch_resident(&self.file, page) {
                self.discard(&self.file, held);
            }
        });
        Ok(())
    }

    fn redo(
        &self,
        space: &SpaceCore<T>,
        page: PageId,
        lsn: Lsn,
        operations: &[Operation<'_>],
        half: &mut Option<&mut Option<PageBuf>>,
    ) -> Result<Redone, PoolError> {
        // A group that brings the whole page brings nothing else of it.
        if let [Operation::FullPageImage { size, low, high }] = *operations {
            let size_here = self.core.page_size().bytes();
            if size as usize != size_here {
                return Err(PoolError::Broken {
                    page,
                    what: "an image in the log has another size",
                });
            }
            return self.redo_image(space, page, lsn, (low, high));
        }
        let view = self.view(space);
        let (misfit, done) = view.run(AccessHint::Normal, |attempt| {
            let guard = view.follow(attempt, LinkRef::Id(page), None)?;
            let mut held = attempt.upgrade(guard)?;
            if let Some(half) = half {
                **half = half_of(&self.core.kinds, held.page(), lsn, operations);
                return Ok((None, Redone::Known));
            }
            held.meta().set_unsure(true);
            if held.page().u64(header_at::LSN) >= lsn.0 {
                // It is written again all the same: what the device shows may not be durable, if a
                // sync failed before the store was opened again.
                held.meta().set_never_written();
                return Ok((None, Redone::Known));
            }
            let kinds = &self.core.kinds;
            let misfit = operations.iter().find_map(|op| change(kinds, held.page_mut(), op).err());
            held.page_mut().set_u64(header_at::LSN, lsn.0);
            held.set_unlogged();
            Ok((misfit.map(|what| (what, held)), Redone::Applied))
        })?;
        let Some((what, held)) = misfit else { return Ok(done) };
        // What was made of it is nothing to keep, nor to write.
        self.discard(space, held);
        Ok(Redone::Suspect(PoolError::Broken { page, what }))
    }

    fn redo_image(
        &self,
        space: &SpaceCore<T>,
        page: PageId,
        lsn: Lsn,
        (low, high): (&[u8], &[u8]),
    ) -> Result<Redone, PoolError> {
        // What there is of it is older, or follows from this full-page image and what comes after: it goes
        // back, for who makes halves of it, unless nobody here can do what comes after.
        let kind = low.get(header_at::KIND).map(|kind| PageKind(*kind));
        let goes_back = kind.is_some_and(|kind| self.core.kinds.redoes(kind));
        let mut held = match self.latch_resident(space, page.page()) {
            Some(held) if !goes_back && held.page().u64(header_at::LSN) >= lsn.0 => {
                return Ok(Redone::Known);
            }
            Some(held) => held,
            None => {
                let made = self.make(space, page.page())?;
                made.latch().map_err(|_| PoolError::Dropped { space: space.id })?
            }
        };
        held.meta().set_unsure(true);
        write_image(&mut held.page_mut(), page, lsn, (low, high));
        held.set_unlogged();
        // F8: from here on others rely on its shape.
        match self.core.kinds.check_made(held.page()) {
            Ok(()) => Ok(Redone::Applied),
            Err(source) => {
                let physical = held.meta().physical();
                self.discard(space, held);
                Ok(Redone::Suspect(PoolError::Corrupt { page, physical, source }))
            }
        }
    }
}

/// What a page that is to be split by a group that ends at `lsn` gives away.
fn half_of(
    kinds: &PageKinds,
    left: PageRef<'_>,
    lsn: Lsn,
    half: &[Operation<'_>],
) -> Option<PageBuf> {
    let mut made = PageBuf::new(left.page_size());
    made.copy_from(left);
    let is_older = made.page().u64(header_at::LSN) < lsn.0;
    let fits = is_older && half.iter().all(|half| kinds.redo(half, made.page_mut()).is_ok());
    fits.then_some(made)
}

/// The page becomes its full-page image of a group that ends at `lsn`.
fn write_image(to: &mut PageMut<'_>, page: PageId, lsn: Lsn, (low, high): (&[u8], &[u8])) {
    let size = to.size();
    to.write(0, low);
    to.zero(low.len(), size - low.len() - high.len());
    to.write(size - high.len(), high);
    to.set_u64(header_at::PAGE_ID, page.to_bits());
    to.set_u64(header_at::LSN, lsn.0);
}

/// A record of the pool's own, or of the structure that the page belongs to.
fn change(
    kinds: &PageKinds,
    mut page: PageMut<'_>,
    operation: &Operation<'_>,
) -> Result<(), &'static str> {
    match operation {
        Operation::Patch { offset, bytes, .. } => {
            let at = *offset as usize;
            if at + bytes.len() > page.size() {
                return Err("a change in the log lies outside of its page");
            }
            page.write(at, bytes);
        }
        Operation::Mark { used, runs } => {
            runs.iter().for_each(|(first, count)| mark(&mut page, *first, *count, *used));
        }
        Operation::RightHalf { .. } => return Err("the page of which it was a part is gone"),
        _ => return kinds.redo(operation, page),
    }
    Ok(())
}
