//! Which physical pages of the file are free.
//!
//! This is written down nowhere: a physical page is free if no map names it. The pool finds that
//! out by reading the maps when the first one is asked for after an open, so that opening a store
//! reads none of them and there is nothing that could contradict the maps.

use std::sync::Arc;

use polder_format::{PhysicalPageNo, SpaceId};

use crate::device::is_full;
use crate::error::PoolError;
use crate::file_map::{PagedArray, Run};
use crate::shared::Shared;
use crate::sync::lock;
use crate::translation::Translation;

impl<T: Translation> Shared<T> {
    /// Finds out which physical pages are free, if no thread has yet.
    pub(super) fn learn_file_pages(&self) -> Result<(), PoolError> {
        if lock(&self.core.map.pages).is_known() {
            return Ok(());
        }
        // One thread learns, and no map changes before it has: a second one would read maps that
        // the first one's allocations move and free. The set of pages itself is not locked
        // meanwhile: loading map pages may evict.
        let _learning = lock(&self.core.map.learning);
        if lock(&self.core.map.pages).is_known() {
            return Ok(());
        }
        let used = self.used_runs()?;
        lock(&self.core.map.pages)
            .learn(used.iter().map(|run| (run.start, run.pages)).collect())
            .map_err(|what| PoolError::Broken { page: polder_format::PageId::NULL, what })
    }

    /// Every run of physical pages that a map names, at one moment: between two relocations.
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
            let closed = PagedArray::new(PhysicalPageNo::new(root));
            let map = open.as_ref().map_or(&closed, |space| &space.map);
            self.add_array_pages(map, &mut runs)?;
            for (index, start) in self.array_elements(map)? {
                let Some(extent) = self.core.map.schedule.extent(index) else { continue };
                runs.push(Run { start, pages: extent.pages, owner: Some((space, index)) });
            }
        }
        Ok(runs)
    }

    fn add_array_pages(&self, array: &PagedArray, runs: &mut Vec<Run>) -> Result<(), PoolError> {
        let pages = self.array_pages(array)?;
        runs.extend(pages.iter().map(|p| Run { start: p.physical.get(), pages: 1, owner: None }));
        Ok(())
    }

    /// A free run of pages, allocated on the device.
    pub(super) fn allocate_file_pages(
        &self,
        space: SpaceId,
        pages: u64,
    ) -> Result<PhysicalPageNo, PoolError> {
        self.learn_file_pages()?;
        let start = lock(&self.core.map.pages).take(pages);
        self.back_places(space, start, pages)?;
        Ok(PhysicalPageNo::new(start))
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
        self.core.data.device.allocate(offset, bytes).map_err(|source| {
            let mut places = lock(&self.core.map.pages);
            places.put(start, pages);
            places.trim();
            let source = Arc::new(source);
            match is_full(&source) {
                true => PoolError::Full { space, bytes, source },
                false => PoolError::Device { what: "allocate space in", source },
            }
        })
    }

    /// Gives a run back that no map names, and its blocks to the file system. Waits until
    /// that is durable: a crash must not bring an owner back whose pages are gone.
    ///
    /// If the log cannot be written the run stays taken until the next open.
    pub(super) fn release_file_pages(&self, start: PhysicalPageNo, pages: u64) {
        if self.settle_log().is_err() {
            return;
        }
        let shift = self.core.page_size().shift();
        // A device that fails to punch keeps its blocks; the run is free all the same.
        let _ = self.core.data.device.punch(start.get() << shift, pages << shift);
        lock(&self.core.map.pages).put(start.get(), pages);
    }

    /// Gives runs back that no map names, all at once, and cuts off what is free then. Blocks of
    /// what is not cut off stay until [`Shared::punch_free`]. Gives the bytes by which the file
    /// became shorter.
    ///
    /// If the log cannot be written the runs stay taken until the next open.
    pub(super) fn release_and_trim(
        &self,
        runs: &[(PhysicalPageNo, u64)],
    ) -> Result<u64, PoolError> {
        if !runs.is_empty() {
            self.settle_log()?;
            let mut places = lock(&self.core.map.pages);
            runs.iter().for_each(|(start, pages)| places.put(start.get(), *pages));
        }
        self.trim_file()
    }

    /// Gives the blocks of all that is free within the file to the file system.
    pub(crate) fn punch_free(&self) {
        let shift = self.core.page_size().shift();
        let runs = lock(&self.core.map.pages).free_runs();
        for (start, pages) in runs {
            // Taken meanwhile, so that nobody has it when it is punched.
            if lock(&self.core.map.pages).take_this(start, pages) {
                // A device that fails to punch keeps its blocks; the run is free all the same.
                let _ = self.core.data.device.punch(start << shift, pages << shift);
                lock(&self.core.map.pages).put(start, pages);
            }
        }
    }

    /// Cuts what is free off the end of the file. Gives the bytes by which it became shorter.
    pub(super) fn trim_file(&self) -> Result<u64, PoolError> {
        let mut places = lock(&self.core.map.pages);
        let before = places.end();
        let Some(end) = places.trim() else { return Ok(0) };
        // Under the lock, so that nobody takes pages at the end meanwhile.
        self.core
            .data
            .device
            .truncate(end << self.core.page_size().shift())
            .map_err(|source| PoolError::Device { what: "truncate", source: Arc::new(source) })?;
        Ok((before - end) << self.core.page_size().shift())
    }
}
