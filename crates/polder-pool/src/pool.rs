//! The pool itself: what it is made of, and the handles to it and its spaces.

use std::fmt;
use std::sync::{Arc, Mutex, RwLock};

use polder_format::{ExtentSchedule, PageSize, Place, SpaceId};

use crate::admission::Admission;
use crate::ahead::Readers;
use crate::bounce::Bounces;
use crate::config::{PoolConfig, TABLES_BYTES};
use crate::core::Core;
use crate::counters::{Counter, Counters};
use crate::device::Device;
use crate::error::PoolError;
use crate::file_map::{FilePlaces, PagedArray};
use crate::frames::Frames;
use crate::gate::ExtentMoves;
use crate::kinds::{KindOps, PageKinds};
use crate::latches::{HearsWrites, Latches};
use crate::memory::Reservation;
use crate::moves::Moves;
use crate::nodes::Nodes;
use crate::partitions::Partitions;
use crate::pins::GroupPins;
use crate::read_mode::Hold;
use crate::reads::Reads;
use crate::replacement::{Replacement, ReplacementKind};
use crate::retired::Retired;
use crate::shared::{Shared, SpaceCore};
use crate::signal::Signal;
use crate::space;
use crate::sync::Alone;
use crate::translation::Settles;
use crate::translation::{Translation, TranslationConfig};
use crate::writer::Writer;

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
        let replacement: Arc<dyn Replacement> = match T::EVICTS {
            true => config.replacement.build(range).into(),
            false => ReplacementKind::Clock.build(range).into(),
        };
        let pins = groups.map(|groups| GroupPins::new(range, groups)).transpose()?;
        let hears_writes = replacement.wants_writes().then(|| Box::new(Arc::clone(&replacement)));
        let latches = Latches::new(
            Arc::clone(frames.metas()),
            config.hold,
            pins,
            config.journal.is_some(),
            hears_writes.map(|hears| hears as Box<dyn HearsWrites>),
        );
        let core = Core {
            latches,
            free: Partitions::full(&ends),
            nodes,
            frames,
            device,
            journal: config.journal.clone(),
            seed: config.seed,
            kinds: PageKinds::new([kinds, &space::KINDS].concat()),
            swizzles: T::SETTLES == Settles::Link,
            counters: Counters::new(),
            schedule: ExtentSchedule::new(config.page_size),
            budget_frames,
            fixed_in_use: Alone::default(),
            replacement,
            relocations: Alone::default(),
            retired: Retired::default(),
            moves: Moves::default(),
            gate: ExtentMoves::default(),
            places: Mutex::new(FilePlaces::new(config.file.file_pages, config.page_size)),
            learning: Mutex::default(),
            bounces: Bounces::new(batch_pages << config.page_size.shift())?,
            last_write_error: Mutex::default(),
            signal: Signal::default(),
            batch_pages,
            admission: Admission::new(budget_frames),
            reads: Reads::default(),
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
        self.shared().core.reads.end();
    }

    /// How readers hold pages.
    pub fn hold(&self) -> Hold {
        self.shared().core.latches.hold
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
