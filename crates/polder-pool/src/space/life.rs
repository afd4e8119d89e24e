//! Making, opening and dropping spaces.
//!
//! A space is dropped in this order: *dropped* is set (SeqCst); its word in the space directory is
//! cleared, and that is logged; then each of its pages that has a word is taken out: one in flight
//! is awaited, another one latched exclusive and discarded, until none has one. A faulter claims
//! first and looks at *dropped* then (F6); the dropper sets *dropped* first and looks at the words
//! then: one of them sees the other. A writer in the middle of an operation finds its next page
//! gone, restarts, and gets the error from the fault. Chunks of entries go back to the pool and
//! serve other spaces: a stale reader's word can match no word of another life (`POOL-3`).

use std::sync::Arc;

use polder_format::{PageId, PageNo, PhysicalPageNo, SpaceId};

use crate::error::PoolError;
use crate::file_map::{AllocState, FileState, Run};
use crate::shared::{Shared, SpaceCore};
use crate::sync::atomic::{Ordering, fence};
use crate::sync::lock;
use crate::translation::{Translation, Words};

impl<T: Translation> Shared<T> {
    /// A new, empty space with an id that was never used.
    pub(crate) fn create_space(&self) -> Result<Arc<SpaceCore<T>>, PoolError> {
        let id = {
            let mut next = lock(&self.next_space);
            let id = *next;
            let limit = u64::from(SpaceId::MAX.get());
            *next = SpaceId::new(u64::from(id.get()) + 1)
                .ok_or(PoolError::Limit { what: "the number of spaces", limit })?;
            id
        };
        self.open_core(id, PhysicalPageNo::NONE)
    }

    /// All spaces that have pages.
    pub(crate) fn listed_spaces(&self) -> Result<Vec<SpaceId>, PoolError> {
        let elements = self.array_elements(&self.directory)?;
        Ok(elements.into_iter().filter_map(|(id, _)| SpaceId::new(id)).collect())
    }

    /// A space that users may have, for a thread that may wait for frames.
    pub(crate) fn admitted_space(
        &self,
        id: SpaceId,
    ) -> Result<Option<Arc<SpaceCore<T>>>, PoolError> {
        if id == SpaceId::FILE {
            return Ok(None);
        }
        let _admitted = self.admit();
        self.find_space(id)
    }

    /// What must be kept to open the file again.
    pub(crate) fn file_state(&self) -> FileState {
        FileState {
            space_directory: self.directory.root(),
            next_space: *lock(&self.next_space),
            file_pages: lock(&self.core.map.pages).end(),
        }
    }

    /// Each disagreement of the maps as a sentence.
    pub(crate) fn check_maps(&self) -> Result<Vec<String>, PoolError> {
        let runs = Run::in_order(self.used_runs()?);
        let name = |run: &Run| match run.owner {
            Some((space, index)) => format!("extent {index} of {space}"),
            None => "a map".to_string(),
        };
        let mut faults = Vec::new();
        for pair in runs.windows(2) {
            if pair[0].end() > pair[1].start {
                let physical = PhysicalPageNo::new(pair[1].start);
                let (one, other) = (name(&pair[0]), name(&pair[1]));
                faults.push(format!("{physical} belongs to {one} and to {other}"));
            }
        }
        let end = lock(&self.core.map.pages).end();
        for run in runs.iter().filter(|run| run.end() > end) {
            faults.push(format!("{} lies behind the end of the file", name(run)));
        }
        Ok(faults)
    }

    /// An existing space, opened if it is not.
    pub(crate) fn find_space(&self, id: SpaceId) -> Result<Option<Arc<SpaceCore<T>>>, PoolError> {
        if let Some(space) = self.space(id) {
            return Ok(Some(space));
        }
        // Nobody drops it between the look at the directory and the opening.
        let _change = lock(&self.directory.change);
        match self.array_get(&self.directory, u64::from(id.get()))? {
            0 => Ok(None),
            root => self.open_core(id, PhysicalPageNo::new(root)).map(Some),
        }
    }

    /// Drops a space: its pages leave memory, its extents are free.
    pub(crate) fn drop_space(&self, space: &SpaceCore<T>) -> Result<(), PoolError> {
        // *Dropped* is set first: whatever fails behind this, nobody writes what will be gone.
        if !space.set_dropped() {
            return Err(PoolError::Dropped { space: space.id });
        }
        // Which physical pages are free must be known before more come back.
        self.learn_file_pages()?;
        // While this is held no thread allocates in the space; the next one sees that it is gone.
        let mut alloc = lock(&space.alloc);
        // The directory first: a checkpoint does not see pages that have left memory, so that no
        // recovery may miss them.
        {
            let _change = lock(&self.directory.change);
            let known = self.array_get(&self.directory, u64::from(space.id.get()))? != 0;
            if known {
                self.array_set(&self.directory, u64::from(space.id.get()), 0, 0)?;
            }
        }
        self.close_words(space, &mut alloc);
        let extents = self.array_elements(&space.map)?;
        let pages = self.array_pages(&space.map)?;
        self.log_freed(pages.iter().map(|page| page.physical))?;
        self.settle_log()?;
        space.map.note_move();
        self.note_relocation();
        for page in pages {
            self.free_array_page(page.physical);
        }
        for (index, start) in extents {
            if let Some(extent) = self.core.map.schedule.extent(index) {
                self.release_file_pages(PhysicalPageNo::new(start), extent.pages);
            }
        }
        self.forget_space(space.id, alloc.awaits_loans.is_some());
        self.trim_file()?;
        Ok(())
    }

    /// The pages of a dropped space leave memory, and the memory of their words serves others, unless
    /// some are lent: then the thread that ends the last loan comes here again (`LOAN-3`). The caller
    /// holds the space's mutex.
    pub(crate) fn close_words(&self, space: &SpaceCore<T>, alloc: &mut AllocState) {
        let lent = self.evacuate(space);
        alloc.awaits_loans = (lent > 0).then_some(lent);
        if lent == 0 {
            self.translation.words().close(&space.directory);
        }
    }

    /// Discards all pages of a dropped space but those that are lent; faulters that did not know yet
    /// find out. Gives how many are left, each of which is *leaving*. That there are no others is
    /// believed if there are as many as the words count: a scan may miss a page that moves, and what is
    /// leaving does not move.
    fn evacuate(&self, space: &SpaceCore<T>) -> u64 {
        let words = self.translation.words();
        loop {
            words.for_each_present(&space.directory, &mut |page| {
                if let Some(held) = self.latch_resident(space, page)
                    && !held.leaves_later()
                {
                    self.discard(space, held);
                }
            });
            let mut leaving = 0;
            fence(Ordering::SeqCst);
            words.for_each_present(&space.directory, &mut |page| {
                leaving += u64::from(self.is_leaving(space, page));
            });
            if words.present(&space.directory) == leaving {
                return leaving;
            }
        }
    }

    /// Whether a page is resident and leaving.
    fn is_leaving(&self, space: &SpaceCore<T>, page: PageNo) -> bool {
        self.state_of(space, page).map(|cell| cell.read()).is_some_and(|word| {
            let is_there = !word.is_evicted() && !word.is_in_flight();
            let meta = is_there.then(|| self.core.latches.meta(word.frame()));
            meta.is_some_and(|meta| meta.is_leaving() && meta.page() == PageId::new(space.id, page))
        })
    }
}
