//! All of a pool but the threads, and the spaces that are open.

#![cfg(not(loom))]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};

use polder_format::{PageId, PageNo, PhysicalPageNo, SpaceId};

use crate::core::Core;
use crate::error::PoolError;
use crate::file_map::{AllocState, PagedArray, Runs};
use crate::latch::{FrameId, Resolved, StateCell};
use crate::page::{LinkRef, PageRef};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::lock;
use crate::sync::{CachePadded, Flag};
use crate::translation::{Directories, DirectoryOf, PoolContext, Translation, Words};

/// Finds out where a page lies in the file.
pub(crate) type Locate<T> =
    fn(&Shared<T>, &SpaceCore<T>, PageNo) -> Result<PhysicalPageNo, PoolError>;

/// Finds it out if that is known without waiting.
pub(crate) type LocateAtOnce<T> = fn(&Shared<T>, &SpaceCore<T>, PageNo) -> Option<PhysicalPageNo>;

/// All of a pool but the threads.
#[derive(Debug)]
pub(crate) struct Shared<T: Translation> {
    pub(crate) core: Core,
    pub(crate) translation: T,
    /// Where a page lies in the file (F2). May load pages of maps (`space/locate.rs`).
    pub(crate) locate: Locate<T>,
    /// The same without waiting.
    pub(crate) locate_at_once: LocateAtOnce<T>,
    /// Gives back what was put off (`FLIGHT-4`), for the loader, which futures alone need.
    #[cfg_attr(not(feature = "async"), expect(dead_code))]
    pub(crate) give_back: fn(&Shared<T>),
    pub(crate) spaces: RwLock<HashMap<SpaceId, Arc<SpaceCore<T>>>>,
    /// Dropped spaces of which pages are lent (`LOAN-3`).
    pub(crate) lent_spaces: Mutex<HashMap<SpaceId, Arc<SpaceCore<T>>>>,
    /// Space 0: the maps.
    pub(crate) file: Arc<SpaceCore<T>>,
    /// Element `s`: the root of the extent map of space `s`.
    pub(crate) directory: PagedArray,
    pub(crate) next_space: Mutex<SpaceId>,
    pub(crate) memory_budget: u64,
    /// Memory of replacement, slices and the sampler for each frame.
    pub(crate) beside_bytes: u64,
}

/// One open space.
#[derive(Debug)]
pub(crate) struct SpaceCore<T: Translation> {
    pub(crate) id: SpaceId,
    pub(crate) directory: Arc<DirectoryOf<T>>,
    dropped: Flag,
    /// Element `k`: where extent `k` lies.
    pub(crate) map: PagedArray,
    pub(crate) alloc: Mutex<AllocState>,
    /// Pages that are taken although their allocation bit is clear: made and not linked yet, or
    /// unlinked and not discarded yet. Held for a moment, under any latch.
    pub(crate) reserved: Mutex<Runs>,
    /// How many pages were discarded so far (`COW-5`).
    pub(crate) discarded: CachePadded<AtomicU64>,
    /// How many passes of moving pages have begun; written by the thread that begins one.
    pub(crate) passes: AtomicU64,
}

impl<T: Translation> SpaceCore<T> {
    pub(crate) fn new(
        id: SpaceId,
        directory: Arc<DirectoryOf<T>>,
        map: PagedArray,
    ) -> SpaceCore<T> {
        let alloc = Mutex::new(AllocState::default());
        let (reserved, discarded) = (Mutex::default(), CachePadded::default());
        let (dropped, passes) = (Flag::default(), AtomicU64::new(0));
        SpaceCore { id, directory, dropped, map, alloc, reserved, discarded, passes }
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

impl<T: Translation> Directories<T> for Shared<T> {
    fn directory(&self, space: SpaceId) -> Option<Arc<DirectoryOf<T>>> {
        self.space(space).map(|space| Arc::clone(&space.directory))
    }
}

impl<T: Translation> Shared<T> {
    /// What the translation may ask of us.
    pub(crate) fn context(&self) -> PoolContext<'_, T> {
        let Core { frames, latches, kinds, .. } = &self.core;
        PoolContext { frames: &frames.memory, latches, kinds, spaces: self }
    }

    /// An open space.
    pub(crate) fn space(&self, id: SpaceId) -> Option<Arc<SpaceCore<T>>> {
        if id == SpaceId::FILE {
            return Some(Arc::clone(&self.file));
        }
        let spaces = self.spaces.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        spaces.get(&id).cloned()
    }

    /// The state of a page that is resident, in flight or about to be ([`Words::state`]).
    pub(crate) fn state_of<'p>(
        &'p self,
        space: &'p SpaceCore<T>,
        page: PageNo,
    ) -> Option<&'p StateCell> {
        self.translation.words().state(&space.directory, page)
    }

    /// The space with this map, opened now if it was not.
    pub(crate) fn open_core(
        &self,
        id: SpaceId,
        root: PhysicalPageNo,
    ) -> Result<Arc<SpaceCore<T>>, PoolError> {
        let mut spaces = self.spaces.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(space) = spaces.get(&id) {
            return Ok(Arc::clone(space));
        }
        let directory = Arc::new(self.translation.words().open(id));
        let space = Arc::new(SpaceCore::new(id, directory, PagedArray::new(root)));
        spaces.insert(id, Arc::clone(&space));
        Ok(space)
    }

    /// A space is dropped. If pages of it are lent it is still found by whoever ends their loans.
    pub(crate) fn forget_space(&self, id: SpaceId, is_lent: bool) {
        let mut spaces = self.spaces.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(space) = spaces.remove(&id)
            && is_lent
        {
            lock(&self.lent_spaces).insert(id, space);
        }
    }

    /// A space, dropped or not, of which a page is lent.
    pub(crate) fn space_of_loan(&self, id: SpaceId) -> Option<Arc<SpaceCore<T>>> {
        let spaces = self.spaces.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        spaces.get(&id).or(lock(&self.lent_spaces).get(&id)).cloned()
    }

    /// The bytes of a page that is in this frame.
    pub(crate) fn page_in(
        &self,
        space: &SpaceCore<T>,
        page: PageNo,
        frame: FrameId,
    ) -> PageRef<'_> {
        let frames = &self.core.frames.memory;
        let at = self.translation.page_address(frames, &space.directory, page, frame);
        // SAFETY: a frame of ours, or a page of the translation: mapped with the overrun while the
        // pool lives, aligned, and written by `bytes` and the device alone.
        unsafe { PageRef::new(at, frames.page_size()) }
    }

    /// The highest frame that may hold a page.
    pub(crate) fn highest_frame(&self) -> u32 {
        match T::MEMORY.has_fixed_frames() {
            true => self.core.frames.fixed.highest(),
            false => self.core.frames.memory.count(),
        }
    }

    /// One more relocation: physical page numbers found before this may be wrong (F6). SeqCst:
    /// pairs with the load after a claim.
    pub(crate) fn note_relocation(&self) {
        self.core.map.relocations.fetch_add(1, Ordering::SeqCst);
    }

    /// How many relocations there were.
    pub(crate) fn relocations(&self) -> u64 {
        self.core.map.relocations.load(Ordering::SeqCst)
    }

    #[inline(always)]
    pub(crate) fn view<'p>(&'p self, space: &'p SpaceCore<T>) -> View<'p, T> {
        View { shared: self, space }
    }
}

/// A pool and one of its spaces, borrowed: what an operation works on.
pub(crate) struct View<'p, T: Translation> {
    pub(crate) shared: &'p Shared<T>,
    pub(crate) space: &'p SpaceCore<T>,
}

impl<T: Translation> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Translation> Copy for View<'_, T> {}

impl<'p, T: Translation> View<'p, T> {
    #[inline(always)]
    pub(crate) fn resolve(self, link: LinkRef<'_>) -> Option<Resolved<'p>> {
        self.shared.translation.resolve(
            &self.shared.core.frames.memory,
            &self.space.directory,
            link,
        )
    }

    /// Where a page is that is resident; that which `resolve` may miss while it moves, too. By
    /// value: the page of the link is held no more.
    pub(crate) fn find(self, target: PageId) -> Option<Resolved<'p>> {
        let link = LinkRef::Id(target);
        let (translation, directory) = (&self.shared.translation, &self.space.directory);
        let frames = &self.shared.core.frames.memory;
        let is_there =
            |found: &Resolved<'_>| !found.word.is_evicted() && !found.word.is_in_flight();
        let found = translation.resolve(frames, directory, link).filter(is_there);
        found
            .or_else(|| translation.resolve_elsewhere(frames, directory, target.page()))
            .filter(is_there)
            .or_else(|| {
                let cell = translation.words().state(directory, target.page())?;
                let word = cell.read();
                let frame = word.frame();
                // TABLE-2: the word may be another page's.
                let is_its = self.shared.core.latches.meta(frame).page() == target;
                is_its.then(|| {
                    let page = self.shared.page_in(self.space, target.page(), frame);
                    Resolved { cell, word, frame, page, misplaced: false }
                })
            })
            .filter(is_there)
    }
}
