//! Making the file shorter while the store is open: extents without pages are released, the last
//! extents and map pages move to free physical pages further down, and the end is cut off.
//!
//! ```text
//! M1  the space's allocation mutex and its extent map's mutex: nobody changes the map, or drops
//!     the space
//! M2  begin to note which pages are written to the extent (after the write, before the write-back
//!     leaves the extent-move gate); closing and opening the gate once makes sure that no write is
//!     under way that is not noted
//!     copy the extent's bytes to where it goes; copy what was noted again, a few times; sync the
//!     file: mostly nothing is left to do where write-backs wait (M3 to M6)
//! M3  latch the map's page exclusive, then close the extent-move gate: no write-back is under way
//! M4  copy what was noted last, and sync the file if that was anything; relocation count + 1
//!     (SeqCst); map element := the new physical page number
//! M5  each page of the extent: in flight: wait; resident: share its latch, physical page
//!     number := new, unshare
//! M6  open the gate; release the map's page; the old physical pages are free
//! ```
//!
//! F6 pairs with M4 and M5: either the faulter sees the new count and begins again, or the mover
//! sees its word in flight and waits until the metadata bears the old physical page number, and
//! mends it. Between claim and publish a faulter needs neither the gate nor a frame, so M5 does
//! not wait for ever. Under the shared latch of M5 the page cannot leave its frame. No holder of a
//! latch that M5 waits for waits for the gate: a thread that holds a latch neither evicts nor
//! writes.
//!
//! An extent without pages is released in the same order: map element := 0, relocation count + 1,
//! stale pages of it (loaded by faulters with an old link) discarded, and only then are its
//! physical pages free. That many extents are released costs one sync of the log; and blocks are
//! punched last, when it is known what is not cut off: while the file system punches, no page is
//! written. A page of a map moves by being copied to a page of another id (its id *is*
//! its physical page number); the link to it changes, the count rises, the old page is discarded.
//! The physical pages of what is freed in the maps (a space, an extent, a page of a map) are given
//! back when the log is durable.

use std::sync::{Arc, Mutex};

use polder_format::log::Operation;
use polder_format::{Extent, PageId, PageNo, PhysicalPageNo, SpaceId, header_at};

use super::array_read::file_page;
use super::extents::pages_of;
use crate::device::bounce::Bounce;
use crate::device::gate::Moving;
use crate::device::{Batch, Buffer, Direction, Request};
use crate::error::PoolError;
use crate::file_map::{PagedArray, Run};
use crate::journal::full_page_image_bytes;
use crate::latch::{Exclusive, NewPage};
use crate::page::LinkRef;
use crate::replacement::AccessHint;
use crate::shared::{Shared, SpaceCore};
use crate::space::change::{PATCH_BYTES, log_image, log_word};
use crate::sync::{Backoff, lock};
use crate::translation::Translation;

/// What is copied at a time.
const COPY_BYTES: usize = 256 << 10;
/// Spaces whose extents without pages are released at a time.
const SPACES_A_STEP: usize = 64;
/// Rounds in which pages are copied again that were written meanwhile, before the extent-move gate
/// closes.
const RECOPY_ROUNDS: usize = 4;

impl<T: Translation> Shared<T> {
    /// Makes the file as short as it can be without moving single pages. Gives the bytes by which
    /// it became shorter.
    pub(crate) fn shrink(&self) -> Result<u64, PoolError> {
        self.learn_file_pages()?;
        let before = self.file_state().file_pages;
        let mut released = Some(SpaceId::FILE);
        while let Some(last) = released {
            released = self.release_free(last)?;
        }
        let moved = loop {
            match self.move_last() {
                Ok(Some(_)) => {}
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.punch_free();
        let pages = before.saturating_sub(self.file_state().file_pages);
        moved.map(|()| pages << self.core.page_size().shift())
    }

    /// Releases the extents without pages of the next spaces behind `space`, and cuts off what is
    /// free at the end of the file. Gives the last one of those spaces; none: there were no more.
    pub(crate) fn release_free(&self, space: SpaceId) -> Result<Option<SpaceId>, PoolError> {
        self.learn_file_pages()?;
        let (mut runs, mut outcome) = (Vec::new(), Ok(()));
        let mut spaces = self.listed_spaces()?;
        spaces.retain(|id| *id > space);
        spaces.sort_unstable();
        spaces.truncate(SPACES_A_STEP);
        for id in spaces.iter().copied() {
            outcome = self.space_if_there(id).and_then(|space| match space {
                Some(space) => self.take_free_extents(&space, &mut runs),
                None => Ok(()),
            });
            if outcome.is_err() {
                break;
            }
        }
        // Also what was taken before an error.
        let trimmed = self.release_and_trim(&runs);
        outcome.and(trimmed).map(|_| spaces.last().copied())
    }

    /// Moves what lies last in the file further down, and cuts off what is free then. Gives the
    /// bytes by which the file became shorter; none if nothing can be moved.
    pub(crate) fn move_last(&self) -> Result<Option<u64>, PoolError> {
        self.learn_file_pages()?;
        match self.move_last_run()? {
            Some(run) => self.release_and_trim(&[run]).map(Some),
            None => Ok(None),
        }
    }

    /// A space, unless it was dropped since it was listed.
    fn space_if_there(&self, id: SpaceId) -> Result<Option<Arc<SpaceCore<T>>>, PoolError> {
        match self.admitted_space(id) {
            Err(PoolError::Dropped { .. }) => Ok(None),
            result => result,
        }
    }

    /// Takes the extents from a space in which no page is in use, after the allocation maps that
    /// speak of no other page. Adds where they lay.
    fn take_free_extents(
        &self,
        space: &SpaceCore<T>,
        runs: &mut Vec<(PhysicalPageNo, u64)>,
    ) -> Result<(), PoolError> {
        {
            let mut state = lock(&space.alloc);
            if space.check_not_dropped().is_err() {
                return Ok(());
            }
            self.drop_last_maps(space, &mut state)?;
        }
        for (index, _) in self.array_elements(&space.map)? {
            let Some(extent) = self.core.map.schedule.extent(index) else { continue };
            let mut state = lock(&space.alloc);
            if space.check_not_dropped().is_err() {
                return Ok(());
            }
            if self.extent_is_free(space, &mut state, extent)? {
                let start = self.take_extent(space, extent)?;
                runs.extend((start != PhysicalPageNo::NONE).then_some((start, extent.pages)));
            }
        }
        Ok(())
    }

    /// Moves what lies last in the file further down, if there is room. Gives where it lay.
    fn move_last_run(&self) -> Result<Option<(PhysicalPageNo, u64)>, PoolError> {
        let runs = Run::in_order(self.used_runs()?);
        // If the last one fits nowhere, others that go down may leave room for it.
        let found = runs.into_iter().rev().find_map(|run| {
            Some((run, lock(&self.core.map.pages).take_below(run.pages, run.start)?))
        });
        let Some((last, to)) = found else { return Ok(None) };
        let (from, to) = (PhysicalPageNo::new(last.start), PhysicalPageNo::new(to));
        self.back_places(SpaceId::FILE, to.get(), last.pages)?;
        let moved = match last.owner {
            Some((id, index)) => self.space_if_there(id).and_then(|space| match space {
                Some(space) => self.move_extent(&space, index, from, to),
                None => Ok(false),
            }),
            None => self.move_array_page(from, to),
        };
        match moved {
            Ok(true) => Ok(Some((from, last.pages))),
            // It was dropped or moved meanwhile, or could not be copied: nothing refers to `to`.
            other => {
                match last.owner {
                    Some(_) => self.release_file_pages(to, last.pages),
                    None => self.free_array_page(to),
                }
                other.map(|_| None)
            }
        }
    }

    fn move_extent(
        &self,
        space: &SpaceCore<T>,
        index: u64,
        from: PhysicalPageNo,
        to: PhysicalPageNo,
    ) -> Result<bool, PoolError> {
        let Some(extent) = self.core.map.schedule.extent(index) else { return Ok(false) };
        // M1  nobody else changes the map, or drops the space, meanwhile.
        let _alloc = lock(&space.alloc);
        let _change = lock(&space.map.change);
        if space.check_not_dropped().is_err() || self.array_get(&space.map, index)? != from.get() {
            return Ok(false);
        }
        // M2  writes to it are noted until M6
        let noted = Mutex::default();
        let moving = Arc::new(Moving { from, pages: extent.pages, noted });
        *self.core.data.gate.close() = Some(Arc::clone(&moving));
        // M2 to M6
        let result = self.copy_and_switch(space, extent, &moving, to);
        if result.is_err() {
            *self.core.data.gate.close() = None;
        }
        result.map(|()| true)
    }

    /// M2 to M6, as soon as writes to the extent are noted.
    fn copy_and_switch(
        &self,
        space: &SpaceCore<T>,
        extent: Extent,
        moving: &Moving,
        to: PhysicalPageNo,
    ) -> Result<(), PoolError> {
        // M2  the bytes, and what was written meanwhile
        let mut bounce = Bounce::new(COPY_BYTES)?;
        let all = 0..extent.pages;
        self.copy_places(all.collect(), moving.from, to, &mut bounce)?;
        for _ in 0..RECOPY_ROUNDS {
            let noted = std::mem::take(&mut *lock(&moving.noted));
            self.copy_places(noted.into_iter().collect(), moving.from, to, &mut bounce)?;
        }
        self.sync_copies()?;
        // M3 the map's page before the gate: it must not have to be loaded afterwards (loading may
        // evict, evicting may write, and writing goes through the gate)
        let mut change = self.change(PATCH_BYTES)?;
        let (mut map, at) = self.latch_element(&space.map, extent.index)?;
        let mut gate = self.core.data.gate.close();
        // M4  the copy is whole, and durable before the map can name it
        let noted = std::mem::take(&mut *lock(&moving.noted));
        if !noted.is_empty() {
            self.copy_places(noted.into_iter().collect(), moving.from, to, &mut bounce)?;
            self.sync_copies()?;
        }
        self.note_relocation();
        map.page_mut().set_u64(at, to.get());
        log_word(&mut change, &mut map, at, extent.pages);
        // M5  what is resident, or on its way, bears the new physical page number
        for (i, page) in pages_of(extent).enumerate() {
            self.set_physical(space, page, PhysicalPageNo::new(to.get() + i as u64));
        }
        // M6
        *gate = None;
        Ok(())
    }

    fn sync_copies(&self) -> Result<(), PoolError> {
        let synced = self.core.data.device.sync();
        synced.map_err(|e| PoolError::Device { what: "sync", source: Arc::new(e) })
    }

    /// M5 for one page.
    fn set_physical(&self, space: &SpaceCore<T>, page: PageNo, physical: PhysicalPageNo) {
        let mut backoff = Backoff::new();
        // Looked up each time: it may have gone, or its word have moved.
        while let Some(cell) = self.state_of(space, page) {
            let word = cell.read_after_flag();
            if word.is_in_flight() {
                cell.await_flight(&self.core.latches.lot);
            } else if let Some(word) = cell.try_share() {
                // Under the latch the page cannot leave its frame; but the word may be another's
                // (TABLE-2), and the page gone and back with its new physical page number.
                let meta = self.core.latches.meta(word.frame());
                let is_ours = meta.page() == PageId::new(space.id, page);
                if is_ours {
                    debug_assert!(cell.peek().is_shared(), "M5");
                    meta.set_physical(physical);
                }
                cell.unshare();
                if is_ours {
                    return;
                }
            } else {
                backoff.wait();
            }
        }
    }

    /// Copies these pages of a run of physical pages to another run.
    fn copy_places(
        &self,
        pages: Vec<u64>,
        from: PhysicalPageNo,
        to: PhysicalPageNo,
        bounce: &mut Bounce,
    ) -> Result<(), PoolError> {
        for run in pages.chunk_by(|a, b| a + 1 == *b) {
            for part in run.chunks(COPY_BYTES >> self.core.page_size().shift()) {
                let at = |start: PhysicalPageNo| PhysicalPageNo::new(start.get() + part[0]);
                self.transfer(Direction::Read, at(from), part.len(), bounce)?;
                self.transfer(Direction::Write, at(to), part.len(), bounce)?;
            }
        }
        Ok(())
    }

    fn transfer(
        &self,
        direction: Direction,
        physical: PhysicalPageNo,
        pages: usize,
        bounce: &mut Bounce,
    ) -> Result<(), PoolError> {
        let size = self.core.page_size();
        let page = file_page(physical);
        // SAFETY: the bounce buffer has room for COPY_BYTES, and is ours until the batch is
        // complete.
        let buffer = unsafe { Buffer::new(bounce.base(), pages << size.shift()) };
        let request = Request::new(direction, page, physical.offset(size), buffer);
        self.core.data.device.perform(Batch::One(request)).outcome().map_err(|e| match direction {
            Direction::Read => PoolError::Read { page, physical, source: Arc::new(e) },
            Direction::Write => PoolError::Write { page, physical, source: Arc::new(e) },
        })
    }

    /// Moves one page of a map. Its id is its physical page number, so that it becomes another
    /// page, and what refers to it changes.
    fn move_array_page(&self, from: PhysicalPageNo, to: PhysicalPageNo) -> Result<bool, PoolError> {
        if let Some(parent) = self.find_array_page(&self.directory, from)? {
            let _change = lock(&self.directory.change);
            return self.replace_array_page(&self.directory, None, parent, from, to);
        }
        for id in self.listed_spaces()? {
            let Some(space) = self.space_if_there(id)? else { continue };
            if let Some(parent) = self.find_array_page(&space.map, from)? {
                let _alloc = lock(&space.alloc);
                if space.check_not_dropped().is_err() {
                    return Ok(false);
                }
                let _change = lock(&space.map.change);
                return self.replace_array_page(&space.map, Some(&space), parent, from, to);
            }
        }
        Ok(false)
    }

    /// The parent of the page at `physical`, if the array has that page; an inner `None` for its
    /// root.
    #[allow(clippy::option_option)]
    fn find_array_page(
        &self,
        array: &PagedArray,
        physical: PhysicalPageNo,
    ) -> Result<Option<Option<(PhysicalPageNo, usize)>>, PoolError> {
        let pages = self.array_pages(array)?;
        Ok(pages.into_iter().find(|page| page.physical == physical).map(|page| page.parent))
    }

    /// The caller holds the array's mutex. `owner`: the space whose map the array is.
    fn replace_array_page(
        &self,
        array: &PagedArray,
        owner: Option<&SpaceCore<T>>,
        parent: Option<(PhysicalPageNo, usize)>,
        from: PhysicalPageNo,
        to: PhysicalPageNo,
    ) -> Result<bool, PoolError> {
        let still = self.find_array_page(array, from)?;
        if still != Some(parent) {
            return Ok(false);
        }
        let old = file_page(from);
        let new = self.copy_array_page(old, file_page(to).page())?;
        // What leads to the page and that it is gone change as one: behind this nothing may fail.
        let mut change = self.change(2 * PATCH_BYTES)?;
        let _directory =
            (owner.is_some() && parent.is_none()).then(|| lock(&self.directory.change));
        let leads_there = self.latch_link(owner, parent)?;
        change.push(old, &Operation::Freed);
        match leads_there {
            Some((mut page, at)) => {
                // A link between pages is an id, an element of the directory a physical page
                // number.
                let word = if parent.is_some() { new.id().to_bits() } else { to.get() };
                page.page_mut().set_u64(at, word);
                log_word(&mut change, &mut page, at, 0);
            }
            None => {
                change.push(PageId::NULL, &Operation::Directory { physical: to });
                change.commit(&mut []);
            }
        }
        if parent.is_none() {
            array.set_root(to);
        }
        array.note_move();
        self.note_relocation();
        if let Some(held) = self.latch_resident(&self.file, old.page()) {
            self.discard(&self.file, held);
        }
        Ok(true)
    }

    /// Makes a page with what a page of a map holds, and logs it.
    fn copy_array_page(&self, old: PageId, number: PageNo) -> Result<NewPage<'_>, PoolError> {
        let new = self.make(&self.file, number)?;
        let mut change = self.change(full_page_image_bytes(1, self.core.page_size()))?;
        let view = self.view(&self.file);
        view.run(AccessHint::Normal, |attempt| {
            let page = view.follow(attempt, LinkRef::Id(old), None)?;
            let mut copy = new.latch()?;
            let id = copy.page().u64(header_at::PAGE_ID);
            let size = page.page().size();
            let mut bytes = copy.page_mut();
            bytes.copy_from(page.page(), 0, 0, size);
            bytes.set_u64(header_at::PAGE_ID, id);
            copy.set_unlogged();
            page.validate()?;
            log_image(&mut change, &mut copy);
            change.commit(&mut [&mut copy]);
            Ok(())
        })?;
        Ok(new)
    }

    /// Latches the page whose word leads to a page of a map, and says where the word is: in the
    /// page above, or in the space directory. None: the root of the directory itself.
    fn latch_link(
        &self,
        owner: Option<&SpaceCore<T>>,
        parent: Option<(PhysicalPageNo, usize)>,
    ) -> Result<Option<(Exclusive<'_>, usize)>, PoolError> {
        let Some((parent, at)) = parent else {
            let element = |space: &SpaceCore<T>| {
                self.latch_element(&self.directory, u64::from(space.id.get()))
            };
            return owner.map(element).transpose();
        };
        let view = self.view(&self.file);
        let page = view.run(AccessHint::Normal, |attempt| {
            let page = view.follow(attempt, LinkRef::Id(file_page(parent)), None)?;
            attempt.upgrade(page)
        })?;
        Ok(Some((page, at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Step, at, create, is_planned, pool};
    use crate::{Array, Pool, Space};

    /// Moves the root of a space's map, and has the map of a new space begin where it was.
    fn give_away_root(pool: &Pool<Array>, space: &Space<Array>) {
        let shared = pool.shared();
        let from = space.space_core().map.root();
        let to = shared.allocate_file_pages(SpaceId::FILE, 1).unwrap();
        assert!(shared.move_array_page(from, to).unwrap());
        shared.release_file_pages(from, 1);
        let heir = pool.create_space().unwrap();
        create(&heir);
        assert_eq!(heir.space_core().map.root(), from);
    }

    /// What lies where the root was is a sound page of an array, and says nothing of this one.
    #[test]
    fn a_reader_that_was_overtaken_by_a_move_of_the_root_begins_again() {
        let (_dir, pool) = pool::<Array>(4 << 20);
        let space = pool.create_space().unwrap();
        let page = create(&space);
        let (shared, core) = (pool.shared(), space.space_core());
        let physical = (shared.locate)(shared, core, page).unwrap();
        let (same_pool, same_space) = (pool.clone(), space.clone());
        at(Step::ArrayRootRead, move || give_away_root(&same_pool, &same_space));
        assert_eq!((shared.locate)(shared, core, page).unwrap(), physical);
        assert!(!is_planned());
    }

    /// A list of all elements is made page by page, each named by its physical page number alone.
    #[test]
    fn a_list_that_was_overtaken_by_a_move_is_made_again() {
        let (_dir, pool) = pool::<Array>(4 << 20);
        let space = pool.create_space().unwrap();
        create(&space);
        let (shared, map) = (pool.shared(), &space.space_core().map);
        let lists = || (shared.array_elements(map).unwrap(), shared.used_runs().unwrap().len());
        let (elements, runs) = lists();
        let (same_pool, same_space) = (pool.clone(), space.clone());
        at(Step::ArrayPageNamed, move || give_away_root(&same_pool, &same_space));
        assert_eq!(shared.array_elements(map).unwrap(), elements);
        assert!(!is_planned());
        // The new space has an extent and a map.
        assert_eq!(lists(), (elements, runs + 2));
    }
}
