//! Extents of a space: taken when the first of their pages is given out, released when none is in
//! use.

use polder_format::{Extent, PageNo, PhysicalPageNo};

use crate::error::PoolError;
use crate::file_map::AllocState;
use crate::shared::{Shared, SpaceCore};
use crate::sync::lock;
use crate::translation::Translation;

impl<T: Translation> Shared<T> {
    /// Allocates the extent of `page`, if it is not. True if it is new.
    pub(super) fn ensure_extent(
        &self,
        space: &SpaceCore<T>,
        state: &mut AllocState,
        page: PageNo,
    ) -> Result<bool, PoolError> {
        let extent = self.core.map.schedule.of_page(page);
        let fresh = self.array_get(&space.map, extent.index)? == 0;
        if fresh {
            let start = self.allocate_file_pages(space.id, extent.pages)?;
            let _change = lock(&space.map.change);
            if let Err(error) = self.array_set(&space.map, extent.index, start.get(), extent.pages)
            {
                self.release_file_pages(start, extent.pages);
                return Err(error);
            }
        }
        // Not only when this call changed the root: the thread that did may have failed to record
        // it.
        let root = space.map.root();
        if state.recorded != Some(root) {
            if let Err(error) = self.set_space_root(space) {
                if fresh {
                    self.release_extent(space, extent)?;
                }
                return Err(error);
            }
            state.recorded = Some(root);
        }
        Ok(fresh)
    }

    /// The root of the space's extent map into the space directory.
    fn set_space_root(&self, space: &SpaceCore<T>) -> Result<(), PoolError> {
        let _change = lock(&self.directory.change);
        let root = space.map.root();
        self.array_set(&self.directory, u64::from(space.id.get()), root.get(), 0)
    }

    /// Takes an extent without pages from a space, and gives its physical pages back. The caller
    /// holds the space's mutex.
    pub(super) fn release_extent(
        &self,
        space: &SpaceCore<T>,
        extent: Extent,
    ) -> Result<(), PoolError> {
        let start = self.take_extent(space, extent)?;
        if start != PhysicalPageNo::NONE {
            self.release_file_pages(start, extent.pages);
        }
        Ok(())
    }

    /// Takes an extent without pages from a space. Gives where its physical pages begin, which are
    /// free when that is durable. The caller holds the space's mutex.
    pub(super) fn take_extent(
        &self,
        space: &SpaceCore<T>,
        extent: Extent,
    ) -> Result<PhysicalPageNo, PoolError> {
        let change = lock(&space.map.change);
        let start = self.array_get(&space.map, extent.index)?;
        self.array_set(&space.map, extent.index, 0, 0)?;
        drop(change);
        self.note_relocation();
        // Faulters with an old link may have loaded pages that are free: they must go with the
        // extent.
        for page in pages_of(extent) {
            // One that is lent is free only by maps that are damaged.
            if let Some(stale) = self.latch_resident(space, page)
                && !stale.leaves_later()
            {
                self.discard(space, stale);
            }
        }
        Ok(PhysicalPageNo::new(start))
    }
}

/// The pages of an extent.
pub(super) fn pages_of(extent: Extent) -> impl Iterator<Item = PageNo> {
    (extent.first.get()..extent.first.get() + extent.pages).filter_map(PageNo::new)
}
