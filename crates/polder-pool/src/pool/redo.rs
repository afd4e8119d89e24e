//! Doing again what the log says: R6 to R8 of `docs/durability.md`.
//!
//! The records of a group are done to a page if and only if the page's LSN is below that of the
//! group. Pages are found by the maps as they are when this is called.

#![cfg(not(loom))]

use std::collections::HashSet;
use std::sync::Arc;

use polder_format::log::Operation;
use polder_format::{Lsn, PageHeader, PageId, PageKind, PhysicalPageNo, SpaceId, header_at};

use crate::device::is_full;
use crate::error::PoolError;
use crate::frame::OPERATION_FRAMES;
use crate::page::{LinkRef, PageKinds, PageMut};
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
#[derive(Debug)]
pub struct Redo<'p, T: Translation> {
    pool: &'p Pool<T>,
    space: Option<Arc<SpaceCore<T>>>,
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

    /// Does `operations`, all those of a group that ends at `lsn` for `page`, if they are missing
    /// there. Full-page images, patches and changes of maps are the pool's; all else is done by the
    /// page's kind ([`KindOps::redo`](crate::KindOps)).
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
        let shared = self.pool.shared();
        let Some(space) = self.enter(page.space())? else { return Ok(Redone::Absent) };
        let redo = || shared.redo(space, page, lsn, operations);
        match shared.when_admitted(OPERATION_FRAMES, redo) {
            Err(PoolError::Unmapped { .. }) => Ok(Redone::Absent),
            Err(error) if error.is_about_content() => Ok(Redone::Suspect(error)),
            result => result,
        }
    }
}

impl<T: Translation> Pool<T> {
    /// What a thread needs to redo what a log tells. Nobody else changes the pool meanwhile.
    pub fn redoing(&self) -> Redo<'_, T> {
        Redo { pool: self, space: None }
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
        let mut held = match self.latch_resident(space, page.page()) {
            Some(held) if held.page().u64(header_at::LSN) >= lsn.0 => return Ok(Redone::Known),
            Some(held) => held,
            // What the device has of it is older, or follows from this full-page image and what
            // comes after.
            None => {
                let made = self.make(space, page.page())?;
                made.latch().map_err(|_| PoolError::Dropped { space: space.id })?
            }
        };
        held.meta().set_unsure(true);
        let size = held.page().size();
        let mut bytes = held.page_mut();
        bytes.write(0, low);
        bytes.zero(low.len(), size - low.len() - high.len());
        bytes.write(size - high.len(), high);
        bytes.set_u64(header_at::PAGE_ID, page.to_bits());
        bytes.set_u64(header_at::LSN, lsn.0);
        held.set_unlogged();
        // F8: from here on others rely on its shape.
        let header = PageHeader {
            kind: PageKind(held.page().u8(header_at::KIND)),
            layout: held.page().u8(header_at::LAYOUT),
            page_id: page,
            lsn,
        };
        match self.core.kinds.check(&header, held.page()) {
            Ok(()) => Ok(Redone::Applied),
            Err(source) => {
                let physical = held.meta().physical();
                self.discard(space, held);
                Ok(Redone::Suspect(PoolError::Corrupt { page, physical, source }))
            }
        }
    }
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
        _ => return kinds.redo(operation, page),
    }
    Ok(())
}
