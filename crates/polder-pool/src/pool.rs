//! The pool itself: what it is made of, and the handles to it and its spaces.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, RwLock};

use polder_format::log::slot_pages;
use polder_format::{ChecksumSeed, ExtentSchedule, PageNo, PageSize, Place, SpaceId};

use crate::admission::Admission;
use crate::ahead::{Ahead, Readers};
use crate::bytes::PageRef;
use crate::core::Core;
use crate::counters::{Counter, Counters};
use crate::cpu::Groups;
use crate::device::Device;
use crate::error::PoolError;
use crate::file_map::{AllocState, FilePlaces, FileState, PagedArray, Runs};
use crate::frames::Frames;
use crate::journal::Journal;
use crate::kinds::{KindOps, PageKinds};
use crate::memory::{Bounces, Reservation};
use crate::meta::FRAME_META_BYTES;
use crate::moves::Moves;
use crate::nodes::Nodes;
use crate::parking::ParkingLot;
use crate::partitions::Partitions;
use crate::pins::{GroupPins, grouping};
use crate::read_mode::Hold;
use crate::replacement::ReplacementKind;
use crate::retired::Retired;
use crate::signal::Signal;
use crate::space;
use crate::state::{FrameId, WrapCount};
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::{Alone, Flag};
use crate::translation::Settles;
use crate::translation::{Translation, TranslationConfig};
use crate::writer::Writer;

/// The fewest frames that a pool works with: enough for several threads that each hold the path
/// of a deep tree and the new pages of a split.
const MIN_FRAMES: u64 = 128;
/// Memory besides what grows with the frames: counters, tables, threads.
const FIXED_BYTES: u64 = 512 << 10;
/// What tables that are vectors take for each frame, at most: those of replacement policies.
const TABLES_BYTES: usize = 64;
/// What is set aside for translation, replacement and holds of one frame where the budget is compared
/// before they are chosen: as much as any takes.
const MOST_TRANSLATION_BYTES: u64 = 320;

/// How to open a pool.
#[derive(Debug)]
pub struct PoolConfig {
    /// Bytes of memory for everything: frames, their metadata, translation, buffers.
    pub memory_budget: u64,
    /// Size of all pages.
    pub page_size: PageSize,
    /// Have the kernel back all frames at once; where a page decides on its frame (`direct`, `vm`)
    /// they are backed as they are used.
    pub prefault: bool,
    /// Seed of the checksums.
    pub seed: ChecksumSeed,
    /// What the file holds already.
    pub file: FileState,
    /// The log, if there is one: without it nothing outlives a crash.
    pub journal: Option<Arc<dyn Journal>>,
    /// Which pages go when room is needed.
    pub replacement: ReplacementKind,
    /// How readers hold the pages of their way.
    pub hold: Hold,
}

impl PoolConfig {
    /// A pool on a file that holds nothing yet, without a log, and all else as it usually is; for more
    /// there is `PoolConfig { file, journal, ..PoolConfig::new(..) }`.
    pub fn new(memory_budget: u64, page_size: PageSize, seed: ChecksumSeed) -> PoolConfig {
        PoolConfig {
            memory_budget,
            page_size,
            prefault: false,
            seed,
            file: FileState::NEW,
            journal: None,
            replacement: ReplacementKind::default(),
            hold: Hold::default(),
        }
    }

    /// The least budget in bytes at this page size.
    pub fn least_budget(size: PageSize) -> u64 {
        Self::least_budget_at(size, Self::frame_cost(size, MOST_TRANSLATION_BYTES))
    }

    fn least_budget_at(size: PageSize, frame_cost: u64) -> u64 {
        FIXED_BYTES + MIN_FRAMES * frame_cost + Self::bounce_bytes(MIN_FRAMES, size)
    }

    /// The frames that a budget pays for with this translation.
    pub fn frames<T: Translation>(&self) -> Result<u32, PoolError> {
        self.frames_beside::<T>(self.beside_bytes(self.groups().as_ref()))
    }

    /// The same, with so many bytes of replacement and slices for each frame.
    fn frames_beside<T: Translation>(&self, beside_bytes: u64) -> Result<u32, PoolError> {
        let (given, size) = (self.memory_budget, self.page_size);
        let cost = Self::frame_cost(size, T::bytes_per_frame() + beside_bytes);
        // On a machine with many groups of cores slices may take more than is set aside for them.
        let least = Self::least_budget(size).max(Self::least_budget_at(size, cost));
        if given < least {
            return Err(PoolError::Budget { given, least });
        }
        let rest = given - FIXED_BYTES;
        let frames = (rest - Self::bounce_bytes(rest / cost, size)) / cost;
        Ok(frames.min(u64::from(FrameId::MAX.get())) as u32)
    }

    /// The groups of cores by which readers hold pages, if they do by groups.
    fn groups(&self) -> Option<Groups> {
        grouping(self.hold).map(Groups::of_machine)
    }

    /// Memory of replacement and slices for each frame.
    fn beside_bytes(&self, groups: Option<&Groups>) -> u64 {
        self.replacement.bytes_per_frame() + groups.map_or(0, GroupPins::bytes_with)
    }

    fn frame_cost(size: PageSize, translation_bytes: u64) -> u64 {
        size.bytes() as u64 + FRAME_META_BYTES as u64 + translation_bytes + 1
    }

    /// Pages in one batch of write-backs.
    fn batch_pages(frames: u64, size: PageSize) -> u64 {
        (frames / 16).clamp(8, slot_pages(size) as u64)
    }

    fn bounce_bytes(frames: u64, size: PageSize) -> u64 {
        Bounces::COUNT as u64 * Self::batch_pages(frames, size) * size.bytes() as u64
    }
}

/// All of a pool but the threads.
#[derive(Debug)]
pub(crate) struct Shared<T: Translation> {
    pub(crate) core: Core,
    pub(crate) translation: T,
    spaces: RwLock<HashMap<SpaceId, Arc<SpaceCore<T>>>>,
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
    fn new(id: SpaceId, directory: Arc<T::Directory>, map: PagedArray) -> SpaceCore<T> {
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

/// A buffer pool on one device. Cheap to clone; the last handle stops its threads.
pub struct Pool<T: Translation> {
    inner: Arc<Inner<T>>,
}

pub(crate) struct Inner<T: Translation> {
    shared: Arc<Shared<T>>,
    readers: Readers<T>,
    _writer: Writer<T>,
}

impl<T: Translation> Clone for Pool<T> {
    fn clone(&self) -> Pool<T> {
        Pool { inner: Arc::clone(&self.inner) }
    }
}

impl<T: Translation> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = &self.shared().core;
        write!(
            f,
            "Pool({}, {} frames of {})",
            T::NAME,
            core.frames.count(),
            core.page_size().bytes()
        )
    }
}

impl<T: Translation> Pool<T> {
    /// Opens a pool on `device`. The structures above say what kinds of pages there are.
    ///
    /// On a machine with several nodes of memory, frames are partitioned among those on whose cores
    /// the calling thread may run (leanstore.txt IV-H; [`PoolStats::nodes`]).
    ///
    /// [`PoolStats::nodes`]: crate::PoolStats::nodes
    ///
    /// # Errors
    /// [`PoolError::Budget`] if the budget is below [`PoolConfig::least_budget`],
    /// [`PoolError::Memory`] if the kernel gives no addresses.
    pub fn open(
        device: Box<dyn Device>,
        config: &PoolConfig,
        kinds: &[KindOps],
    ) -> Result<Pool<T>, PoolError> {
        Pool::open_on(Nodes::of_machine(), device, config, kinds)
    }

    /// The same on a machine with these nodes.
    pub(crate) fn open_on(
        nodes: Nodes,
        device: Box<dyn Device>,
        config: &PoolConfig,
        kinds: &[KindOps],
    ) -> Result<Pool<T>, PoolError> {
        let why_not = match config.hold {
            Hold::Optimistic | Hold::Shared => None,
            Hold::Group | Hold::GroupOf(_) | Hold::Core => T::NOT_BY_SLICES,
            Hold::Copy | Hold::CopyOf(_) => T::NOT_BY_COPY,
        };
        if let Some(why) = why_not {
            let (hold, translation) = (config.hold, T::NAME);
            return Err(PoolError::Combination { hold, translation, why });
        }
        let groups = config.groups();
        let beside_bytes = config.beside_bytes(groups.as_ref());
        let budget_frames = config.frames_beside::<T>(beside_bytes)?;
        let frame_config = TranslationConfig { frames: budget_frames, page_size: config.page_size };
        let range = T::frame_range(frame_config);
        let frames = Frames::new(range, config.page_size, !T::OWNS_PAGES, !T::FIXED_FRAMES)?;
        // Tables that grow with the number of frames are made as vectors, which end the process if
        // there is no room for them.
        drop(Reservation::new("the tables of frames", budget_frames as usize * TABLES_BYTES, 1)?);
        // Where the page decides on its frame, or the frame is no memory, nobody knows which will
        // be used: memory comes from where the thread runs that first writes to it.
        let is_memory = !T::OWNS_PAGES && !T::FIXED_FRAMES;
        let free_frames = if T::FIXED_FRAMES { 0 } else { range };
        let nodes = if is_memory { nodes } else { Nodes::one() };
        let (nodes, ends) = nodes.cut(free_frames, config.page_size);
        if ends.len() > 1 {
            frames.settle(&nodes, &ends);
        }
        if config.prefault && is_memory {
            frames.prefault(budget_frames)?;
        }
        let batch_pages =
            PoolConfig::batch_pages(u64::from(budget_frames), config.page_size) as usize;
        // Where nothing is evicted the one that keeps nothing.
        let replacement = match T::EVICTS {
            true => config.replacement.build(range),
            false => ReplacementKind::Clock.build(range),
        };
        let core = Core {
            free: Partitions::full(&ends),
            nodes,
            frames,
            wraps: WrapCount::default(),
            lot: ParkingLot::new(),
            device,
            journal: config.journal.clone(),
            seed: config.seed,
            kinds: PageKinds::new([kinds, &space::KINDS].concat()),
            swizzles: T::SETTLES == Settles::Link,
            counters: Counters::new(),
            schedule: ExtentSchedule::new(config.page_size),
            budget_frames,
            fixed_in_use: Alone::default(),
            tells_writes: replacement.wants_writes(),
            replacement,
            relocations: Alone::default(),
            hold: config.hold,
            holds_all: config.hold.holds_all(),
            copies: config.hold.copies(),
            pins: groups.map(|groups| GroupPins::new(range, groups)).transpose()?,
            retired: Retired::default(),
            moves: Moves::default(),
            gate: RwLock::new(None),
            places: Mutex::new(FilePlaces::new(config.file.file_pages, config.page_size)),
            learning: Mutex::default(),
            bounces: Bounces::new(batch_pages << config.page_size.shift())?,
            last_write_error: Mutex::default(),
            signal: Signal::default(),
            ahead: Ahead::default(),
            batch_pages,
            admission: Admission::new(budget_frames),
            loading: Alone::default(),
            reads_ended: AtomicBool::new(false),
        };
        let translation = T::new(frame_config)?;
        let file = translation.open(SpaceId::FILE)?;
        let shared = Arc::new(Shared {
            core,
            spaces: RwLock::default(),
            file: Arc::new(SpaceCore::new(SpaceId::FILE, file, PagedArray::new(Place::NONE))),
            directory: PagedArray::new(config.file.space_directory),
            next_space: Mutex::new(config.file.next_space),
            memory_budget: config.memory_budget,
            beside_bytes,
            translation,
        });
        let (writer, readers) = (Writer::start(&shared), Readers::new(&shared));
        Ok(Pool { inner: Arc::new(Inner { shared, readers, _writer: writer }) })
    }

    pub(crate) fn shared(&self) -> &Shared<T> {
        &self.inner.shared
    }

    pub(crate) fn space_handle(&self, space: Arc<SpaceCore<T>>) -> Space<T> {
        Space { inner: Arc::clone(&self.inner), space }
    }

    /// The size of all pages.
    pub fn page_size(&self) -> PageSize {
        self.shared().core.page_size()
    }

    /// The device.
    pub fn device(&self) -> &dyn Device {
        &*self.shared().core.device
    }

    /// Writes all dirty pages and makes them durable.
    ///
    /// # Errors
    /// [`PoolError::Write`] or [`PoolError::Device`]; pages that could not be written stay dirty.
    pub fn flush(&self) -> Result<(), PoolError> {
        self.shared().flush(&mut |_, _| {})
    }

    /// Ends the reading of the device, and waits for the reads that are under way. Pages that are not
    /// resident are refused from now on, with [`PoolError::Closed`]: whoever gets the device next may
    /// change it.
    pub fn end_reads(&self) {
        self.shared().core.end_reads();
    }

    /// How readers hold pages.
    pub fn hold(&self) -> Hold {
        self.shared().core.hold
    }

    /// How often operations of this thread have begun again: its part of
    /// [`PoolStats::restarts`](crate::PoolStats::restarts).
    pub fn restarts_of_this_thread(&self) -> u64 {
        self.shared().core.counters.of_this_thread(Counter::Restarts)
    }

    /// Writes every page that is dirty when this begins (or that somebody holds then), and makes
    /// them durable: K2 and K3. `pace` is told how many frames were visited, of how many, and may
    /// sleep.
    ///
    /// # Errors
    /// As [`Pool::flush`].
    pub fn sweep(&self, pace: &mut dyn FnMut(u64, u64)) -> Result<(), PoolError> {
        self.shared().flush(pace)
    }
}

/// A space of a pool: a run of page ids that belong together. Cheap to clone.
pub struct Space<T: Translation> {
    inner: Arc<Inner<T>>,
    space: Arc<SpaceCore<T>>,
}

impl<T: Translation> Clone for Space<T> {
    fn clone(&self) -> Space<T> {
        Space { inner: Arc::clone(&self.inner), space: Arc::clone(&self.space) }
    }
}

impl<T: Translation> fmt::Debug for Space<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.space.id)
    }
}

impl<T: Translation> Space<T> {
    /// The space's id.
    pub fn id(&self) -> SpaceId {
        self.space.id
    }

    /// The size of all pages.
    #[inline]
    pub fn page_size(&self) -> PageSize {
        self.core().page_size()
    }

    /// The pool.
    pub fn pool(&self) -> Pool<T> {
        Pool { inner: Arc::clone(&self.inner) }
    }

    pub(crate) fn readers(&self) -> &Readers<T> {
        &self.inner.readers
    }

    #[inline(always)]
    pub(crate) fn core(&self) -> &Core {
        &self.inner.shared.core
    }

    #[inline(always)]
    pub(crate) fn shared(&self) -> &Shared<T> {
        &self.inner.shared
    }

    #[inline(always)]
    pub(crate) fn space_core(&self) -> &SpaceCore<T> {
        &self.space
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Array;
    use crate::testing::config;

    /// As many slices as there can be: a pool of fewer frames than it works with is refused.
    #[test]
    fn slices_of_many_cores_are_paid_for() {
        let least = PoolConfig::least_budget(PageSize::MIN);
        let slices = (2 * crate::cpu::MAX_GROUPS) as u64;
        let refused = config(least).frames_beside::<Array>(slices);
        let Err(PoolError::Budget { given, least: needed }) = refused else {
            panic!("{refused:?}");
        };
        assert!(given == least && needed > least);
        assert!(u64::from(config(needed).frames_beside::<Array>(slices).unwrap()) >= MIN_FRAMES);
        assert!(u64::from(config(least).frames::<Array>().unwrap()) >= MIN_FRAMES);
    }
}
