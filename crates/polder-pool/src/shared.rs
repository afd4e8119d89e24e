//! All of a pool but the threads, and the spaces that are open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};

use polder_format::{PageNo, Place, SpaceId};

use crate::bytes::PageRef;
use crate::core::Core;
use crate::error::PoolError;
use crate::file_map::{AllocState, PagedArray, Runs};
use crate::state::FrameId;
use crate::sync::atomic::AtomicU64;
use crate::sync::{Alone, Flag};
use crate::translation::Translation;

/// All of a pool but the threads.
#[derive(Debug)]
pub(crate) struct Shared<T: Translation> {
    pub(crate) core: Core,
    pub(crate) translation: T,
    pub(crate) spaces: RwLock<HashMap<SpaceId, Arc<SpaceCore<T>>>>,
    /// Space 0: the maps.
    pub(crate) file: Arc<SpaceCore<T>>,
    /// Element `s`: the root of the extent map of space `s`.
    pub(crate) directory: PagedArray,
    pub(crate) next_space: Mutex<SpaceId>,
    pub(crate) memory_budget: u64,
    /// Memory of replacement and slices for each frame.
    pub(crate) beside_bytes: u64,
}

/// One open space.
#[derive(Debug)]
pub(crate) struct SpaceCore<T: Translation> {
    pub(crate) id: SpaceId,
    pub(crate) directory: Arc<T::Directory>,
    dropped: Flag,
    /// Element `k`: where extent `k` lies.
    pub(crate) map: PagedArray,
    pub(crate) alloc: Mutex<AllocState>,
    /// Pages that are taken although their allocation bit is clear: made and not linked yet, or
    /// unlinked and not discarded yet. Held for a moment, under any latch.
    pub(crate) reserved: Mutex<Runs>,
    /// How many pages were discarded so far (`COW-5`).
    pub(crate) discarded: Alone<AtomicU64>,
}

impl<T: Translation> SpaceCore<T> {
    pub(crate) fn new(id: SpaceId, directory: Arc<T::Directory>, map: PagedArray) -> SpaceCore<T> {
        let alloc = Mutex::new(AllocState::default());
        let (reserved, discarded) = (Mutex::default(), Alone::default());
        SpaceCore { id, directory, dropped: Flag::default(), map, alloc, reserved, discarded }
    }

    #[inline(always)]
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.is_raised()
    }

    /// F6: after the claim.
    pub(crate) fn check_not_dropped(&self) -> Result<(), PoolError> {
        if self.is_dropped() {
            return Err(PoolError::Dropped { space: self.id });
        }
        Ok(())
    }

    /// False if it was dropped already.
    pub(crate) fn set_dropped(&self) -> bool {
        self.dropped.raise()
    }
}

impl<T: Translation> Shared<T> {
    /// An open space.
    pub(crate) fn space(&self, id: SpaceId) -> Option<Arc<SpaceCore<T>>> {
        if id == SpaceId::FILE {
            return Some(Arc::clone(&self.file));
        }
        let spaces = self.spaces.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        spaces.get(&id).cloned()
    }

    /// The space with this map, opened now if it was not.
    pub(crate) fn open_core(
        &self,
        id: SpaceId,
        root: Place,
    ) -> Result<Arc<SpaceCore<T>>, PoolError> {
        let mut spaces = self.spaces.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(space) = spaces.get(&id) {
            return Ok(Arc::clone(space));
        }
        let directory = self.translation.open(id)?;
        let space = Arc::new(SpaceCore::new(id, directory, PagedArray::new(root)));
        spaces.insert(id, Arc::clone(&space));
        Ok(space)
    }

    pub(crate) fn forget_space(&self, id: SpaceId) {
        self.spaces.write().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&id);
    }

    /// The bytes of a page that is in this frame.
    pub(crate) fn page_in(
        &self,
        space: &SpaceCore<T>,
        page: PageNo,
        frame: FrameId,
    ) -> PageRef<'_> {
        let frames = &self.core.frames;
        let at = self.translation.page_address(frames, &space.directory, page, frame);
        // SAFETY: a frame of ours, or a page of the translation: mapped with the overrun while the
        // pool lives, aligned, and written by `bytes` and the device alone.
        unsafe { PageRef::new(at, frames.page_size()) }
    }

    /// The highest frame that may hold a page.
    pub(crate) fn highest_frame(&self) -> u32 {
        self.core.frames.count().min(self.translation.frames_in_use())
    }
}
