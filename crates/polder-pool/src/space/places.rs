//! Which places of the file are free.
//!
//! Nowhere written down: a place is free if no map names it. That is found out by reading the maps
//! when the first place is asked for after an open, so that opening a store reads none of them and
//! there is nothing that could contradict the maps.

use std::sync::Arc;

use polder_format::{PageSize, Place, SUPERBLOCK_AREA_BYTES, SpaceId};

use crate::device::is_full;
use crate::error::PoolError;
use crate::pool::Shared;
use crate::space::{PagedArray, Runs};
use crate::sync::lock;
use crate::translation::Translation;

/// The free runs of the file.
#[derive(Debug)]
pub(crate) struct FilePlaces {
    /// The free places below `end`.
    free: Runs,
    /// Length of the file in pages.
    end: u64,
    /// Whether `free` has been found out.
    known: bool,
    /// The first place that may hold a page.
    first: u64,
}

impl FilePlaces {
    pub(crate) fn new(file_pages: u64, size: PageSize) -> FilePlaces {
        let first = SUPERBLOCK_AREA_BYTES >> size.shift();
        let end = file_pages.max(first);
        FilePlaces { free: Runs::default(), end, known: end == first, first }
    }

    /// Length of the file in pages.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The file is this long, recovery found.
    pub(crate) fn set_end(&mut self, pages: u64) {
        self.end = pages.max(self.first);
        self.known = false;
    }

    /// Everything but these runs, which must not overlap, is free.
    fn learn(&mut self, mut used: Vec<(u64, u64)>) -> Result<(), &'static str> {
        used.sort_unstable();
        let mut next = self.first;
        for (start, len) in used {
            if start < next {
                return Err("two maps name the same place of the file");
            }
            if start > next {
                self.free.insert(next, start - next);
            }
            next = start
                .checked_add(len)
                .filter(|end| *end <= self.end)
                .ok_or("a map names a place behind the end of the file")?;
        }
        if next < self.end {
            self.free.insert(next, self.end - next);
        }
        self.known = true;
        Ok(())
    }

    /// The lowest free run of this many pages, below `limit`.
    pub(super) fn take_below(&mut self, pages: u64, limit: u64) -> Option<u64> {
        let start = self.free.first_of(pages, limit).filter(|start| start + pages <= limit)?;
        self.free.remove(start, pages);
        Some(start)
    }

    /// A run of this many pages: the lowest free one, or new ones at the end of the file.
    fn take(&mut self, pages: u64) -> u64 {
        self.take_below(pages, self.end).unwrap_or_else(|| {
            // A free run at the very end is made longer.
            let start = self.cut_free_end().unwrap_or(self.end);
            self.end = start + pages;
            start
        })
    }

    /// Gives a run back.
    pub(super) fn put(&mut self, start: u64, pages: u64) {
        self.free.insert(start, pages);
    }

    /// Cuts a free run off the end of the file; gives the new length if there was one.
    pub(super) fn trim(&mut self) -> Option<u64> {
        let start = self.cut_free_end()?;
        self.end = start;
        Some(start)
    }

    fn cut_free_end(&mut self) -> Option<u64> {
        let (start, len) = self.free.last().filter(|(start, len)| start + len == self.end)?;
        self.free.remove(start, len);
        Some(start)
    }
}

impl<T: Translation> Shared<T> {
    /// Finds out which places are free, if nobody has yet.
    pub(super) fn learn_places(&self) -> Result<(), PoolError> {
        if lock(&self.core.places).known {
            return Ok(());
        }
        // One thread learns, and no map changes before it has: a second one would read maps that
        // the first one's allocations move and free. The places themselves are not locked
        // meanwhile: loading map pages may evict.
        let _learning = lock(&self.core.learning);
        if lock(&self.core.places).known {
            return Ok(());
        }
        let used = self.used_runs()?;
        lock(&self.core.places)
            .learn(used.iter().map(|run| (run.start, run.pages)).collect())
            .map_err(|what| PoolError::Broken { page: polder_format::PageId::NULL, what })
    }

    /// Every run of places that a map names, at one moment: between two relocations.
    pub(crate) fn used_runs(&self) -> Result<Vec<Run>, PoolError> {
        loop {
            let relocations = self.relocations();
            let runs = self.collect_runs();
            if self.relocations() == relocations {
                return runs;
            }
        }
    }

    fn collect_runs(&self) -> Result<Vec<Run>, PoolError> {
        let mut runs = Vec::new();
        self.add_array_pages(&self.directory, &mut runs)?;
        for (id, root) in self.array_elements(&self.directory)? {
            let Some(space) = SpaceId::new(id) else { continue };
            let open = self.space(space);
            let closed = PagedArray::new(Place::new(root));
            let map = open.as_ref().map_or(&closed, |space| &space.map);
            self.add_array_pages(map, &mut runs)?;
            for (index, start) in self.array_elements(map)? {
                let Some(extent) = self.core.schedule.extent(index) else { continue };
                runs.push(Run { start, pages: extent.pages, owner: Some((space, index)) });
            }
        }
        Ok(runs)
    }

    fn add_array_pages(&self, array: &PagedArray, runs: &mut Vec<Run>) -> Result<(), PoolError> {
        let pages = self.array_pages(array)?;
        runs.extend(pages.iter().map(|p| Run { start: p.place.get(), pages: 1, owner: None }));
        Ok(())
    }

    /// A free run of pages, allocated on the device.
    pub(super) fn allocate_places(&self, space: SpaceId, pages: u64) -> Result<Place, PoolError> {
        self.learn_places()?;
        let start = lock(&self.core.places).take(pages);
        self.back_places(space, start, pages)?;
        Ok(Place::new(start))
    }

    /// Has the device back a run that was taken; gives it back on an error.
    pub(super) fn back_places(
        &self,
        space: SpaceId,
        start: u64,
        pages: u64,
    ) -> Result<(), PoolError> {
        let shift = self.core.page_size().shift();
        let (offset, bytes) = (start << shift, pages << shift);
        self.core.device.allocate(offset, bytes).map_err(|source| {
            let mut places = lock(&self.core.places);
            places.put(start, pages);
            places.trim();
            let source = Arc::new(source);
            match is_full(&source) {
                true => PoolError::Full { space, bytes, source },
                false => PoolError::Device { what: "allocate space in", source },
            }
        })
    }

    /// Gives a run back that no map names any more, and its blocks to the file system. Waits until
    /// that is durable: a crash must not bring an owner back whose pages are gone.
    ///
    /// If the log cannot be written the places stay taken until the next open.
    pub(super) fn release_places(&self, start: Place, pages: u64) {
        if self.settle_log().is_err() {
            return;
        }
        let shift = self.core.page_size().shift();
        // A device that fails to punch keeps its blocks; the places are free all the same.
        let _ = self.core.device.punch(start.get() << shift, pages << shift);
        lock(&self.core.places).put(start.get(), pages);
    }

    /// Cuts what is free off the end of the file. Gives the pages by which it became shorter.
    pub(super) fn trim_file(&self) -> Result<u64, PoolError> {
        let mut places = lock(&self.core.places);
        let before = places.end;
        let Some(end) = places.trim() else { return Ok(0) };
        // Under the lock, so that nobody takes places at the end meanwhile.
        self.core
            .device
            .truncate(end << self.core.page_size().shift())
            .map_err(|source| PoolError::Device { what: "truncate", source: Arc::new(source) })?;
        Ok(before - end)
    }
}

/// A run of places in use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) start: u64,
    pub(super) pages: u64,
    /// The space and the number of the extent; none for a page of a map.
    pub(crate) owner: Option<(SpaceId, u64)>,
}

impl Run {
    /// The place behind it. A map that is broken may name any number.
    pub(super) fn end(&self) -> u64 {
        self.start.saturating_add(self.pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_and_the_lowest_goes_first() {
        let mut places = FilePlaces::new(0, PageSize::MIN);
        assert_eq!((places.take(16), places.take(4), places.take(8)), (16, 32, 36));
        places.put(16, 16);
        places.put(36, 8);
        assert_eq!(places.take(2), 16);
        assert_eq!(places.trim(), Some(36));
        places.put(32, 4);
        assert_eq!(places.take(30), 18, "the free end is made longer");
        assert_eq!(places.end(), 48);
        assert_eq!(places.take_below(4, 48), None);
    }

    #[test]
    fn what_maps_name_is_not_free() {
        let mut places = FilePlaces::new(100, PageSize::MIN);
        places.learn(vec![(20, 10), (16, 1), (90, 5)]).unwrap();
        let mut free = Runs::default();
        [(17, 3), (30, 60), (95, 5)].into_iter().for_each(|(start, len)| free.insert(start, len));
        assert_eq!(places.free, free);
        assert!(FilePlaces::new(100, PageSize::MIN).learn(vec![(20, 10), (25, 1)]).is_err());
        for behind in [(99, 2), (u64::MAX - 7, 16)] {
            assert!(FilePlaces::new(100, PageSize::MIN).learn(vec![behind]).is_err());
        }
    }
}
