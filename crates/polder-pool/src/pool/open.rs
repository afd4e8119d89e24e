//! How a pool is made of its parts.

#![cfg(not(loom))]

use std::sync::{Arc, Mutex, RwLock};

use polder_format::{ExtentSchedule, PhysicalPageNo, SpaceId};

use crate::core::Core;
use crate::device::Device;
use crate::device::bounce::Bounces;
use crate::device::data_file::DataFile;
use crate::device::gate::ExtentMoves;
use crate::device::reads::Reads;
use crate::error::PoolError;
use crate::file_map::{Deferred, FileMap, FilePages, Freed, PagedArray};
use crate::frame::{Admission, Fixed, FramePool, Frames, Moves, Partitions, Retired, Waiters};
use crate::latch::{GroupPins, HearsWrites, Latches, Metas};
use crate::machine::{Mapping, NodeId, Nodes};
use crate::page::{KindOps, PageKinds};
use crate::pool::config::{PoolConfig, TABLES_BYTES};
use crate::pool::handle::Pool;
use crate::replacement::{Heard, Replacement};
use crate::shared::{Shared, SpaceCore};
use crate::space;
use crate::sync::CachePadded;
use crate::thread::{Counters, Worker};
use crate::tier::Tiered;
use crate::translation::{PageMemory, Translation, TranslationConfig, Words};

impl<T: Translation> Pool<T> {
    /// Opens a pool on `device`, which nobody else writes. The structures above say what `kinds` of
    /// pages there are; those of the maps are known. Nothing is read before it is asked for.
    ///
    /// On a machine with several nodes of memory, frames are partitioned among those on whose
    /// cores the calling thread may run (leanstore-2018 IV-H; [`PoolStats::nodes`]).
    ///
    /// [`PoolStats::nodes`]: crate::PoolStats::nodes
    ///
    /// # Errors
    /// [`PoolError::Budget`] if the budget is below [`PoolConfig::least_budget`],
    /// [`PoolError::Memory`] if the kernel gives no addresses, or no memory for
    /// [`PoolConfig::prefault`], [`PoolError::Combination`] if the translation does not permit the
    /// read mode, [`PoolError::PageTooSmall`] if it needs larger pages (`vm`).
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
        if let Some(why) = T::READ_MODES.why_not(config.read_mode) {
            let (hold, translation) = (config.read_mode, T::NAME);
            return Err(PoolError::Combination { hold, translation, why });
        }
        let groups = config.groups();
        let beside_bytes = config.beside_bytes::<T>(groups.as_ref());
        let tier_ends = config.tier_ends_beside::<T>(beside_bytes)?;
        let (first_frames, budget_frames) = (tier_ends[0], tier_ends[tier_ends.len() - 1]);
        let why_no_tiers = match T::MEMORY.has_addresses() {
            true => T::WHY_NO_TIERS.or(config.tiers.why_not_by_address()),
            false => T::WHY_NO_TIERS,
        };
        if !config.tiers.is_one()
            && let Some(why) = why_no_tiers
        {
            let what = format!("not with the translation `{}`: {why}", T::NAME);
            return Err(PoolError::Tiers { what });
        }
        let page_size = config.page_size;
        let tier_nodes = config.tiers.nodes().map(tier_node).collect::<Result<Vec<_>, _>>()?;
        let frame_config = TranslationConfig {
            frames: budget_frames,
            first_frames,
            page_size,
            first_node: tier_nodes[0],
            page_moves: config.tiers.page_moves,
        };
        let range = T::frame_range(frame_config);
        let frames = Frames::new(
            range,
            config.page_size,
            T::MEMORY.is_in_frames(),
            !T::MEMORY.has_fixed_frames(),
        )?;
        // Tables that grow with the number of frames are made as vectors, which end the process if
        // there is no room for them.
        drop(Mapping::new("the tables of frames", budget_frames as usize * TABLES_BYTES, 1)?);
        // Where the page decides on its frame, or the frame is no memory, nobody knows which will
        // be used: memory comes from where the thread runs that first writes to it.
        let is_memory = T::MEMORY == PageMemory::Frames;
        let free_frames = if T::MEMORY.has_fixed_frames() { 0 } else { range };
        let (nodes, ends) = match config.tiers.is_one() {
            true => {
                let nodes = if is_memory { nodes } else { Nodes::one() };
                let (nodes, ends) = nodes.cut(free_frames, config.page_size);
                if ends.len() > 1 {
                    // Nobody has asked for it: without it all is as it was.
                    let _ = frames.settle(nodes.ids().map(Some), &ends);
                }
                (nodes, ends)
            }
            false => {
                if is_memory {
                    frames.settle(tier_nodes.iter().copied(), &tier_ends)?;
                }
                (Nodes::one(), tier_ends)
            }
        };
        if config.prefault && is_memory {
            frames.prefault(budget_frames)?;
        }
        let batch_pages =
            PoolConfig::batch_pages(u64::from(budget_frames), config.page_size) as usize;
        let (counters, kind) = (Counters::new(), config.replacement_for::<T>());
        let sampler = match cfg!(feature = "miss-ratios") {
            true => config.sampling::<T>().sampler(budget_frames.into()),
            false => None,
        };
        let build = |frames| -> Box<dyn Replacement> {
            let policy = kind.build(frames);
            match &sampler {
                Some(sampler) => Box::new(Heard::new(policy, frames, sampler.sampled())),
                None => policy,
            }
        };
        let tiered = (cfg!(feature = "tiers") && !config.tiers.slower.is_empty()).then(|| {
            Arc::new(Tiered::new((&ends, &tier_nodes), &config.tiers, build, counters.clone()))
        });
        let replacement: Arc<dyn Replacement> = match &tiered {
            Some(tiered) => Arc::clone(tiered) as Arc<dyn Replacement>,
            None => build(range).into(),
        };
        let pins = groups.map(|groups| GroupPins::new(range, groups)).transpose()?;
        let hears_writes = replacement.wants_writes().then(|| Box::new(Arc::clone(&replacement)));
        let latches = Latches::new(
            Metas::new(range)?,
            config.read_mode,
            pins,
            config.journal.is_some(),
            hears_writes.map(|hears| hears as Box<dyn HearsWrites>),
        );
        let core = Core {
            latches,
            frames: FramePool {
                memory: frames,
                free: Partitions::full(&ends),
                nodes,
                tiered,
                budget_frames,
                fixed: Fixed::default(),
                retired: Retired::default(),
                moves: Moves::default(),
                admission: Admission::new(budget_frames),
                waiters: Waiters::default(),
                demand: Default::default(),
            },
            data: DataFile {
                device,
                seed: config.seed,
                reads: Reads::default(),
                bounces: Bounces::new(batch_pages << config.page_size.shift())?,
                batch_pages,
                gate: ExtentMoves::default(),
                last_write_error: Mutex::default(),
            },
            map: FileMap {
                schedule: ExtentSchedule::new(config.page_size),
                pages: Mutex::new(FilePages::new(config.file.file_pages, config.page_size)),
                learning: Mutex::default(),
                relocations: CachePadded::default(),
                freed: Freed::default(),
                deferred: Deferred::default(),
            },
            journal: config.journal.clone(),
            kinds: PageKinds::new([kinds, &space::KINDS].concat()),
            replacement,
            sampler: sampler.map(Box::new),
            counters,
            page_provider: Worker::default(),
            on_taken: Default::default(),
            copied_out: T::copied_out,
        };
        let translation = T::new(frame_config)?;
        let file = Arc::new(translation.words().open(SpaceId::FILE));
        let shared = Arc::new(Shared {
            core,
            spaces: RwLock::default(),
            lent_spaces: Mutex::default(),
            file: Arc::new(SpaceCore::new(
                SpaceId::FILE,
                file,
                PagedArray::new(PhysicalPageNo::NONE),
            )),
            directory: PagedArray::new(config.file.space_directory),
            next_space: Mutex::new(config.file.next_space),
            memory_budget: config.memory_budget,
            beside_bytes,
            translation,
            locate: space::locate,
            locate_at_once: space::locate_at_once,
            give_back: space::give_back,
        });
        Ok(Pool::from_shared(shared))
    }
}

/// The node on which a tier is to be.
fn tier_node(number: Option<u16>) -> Result<Option<NodeId>, PoolError> {
    let Some(number) = number else { return Ok(None) };
    let node = NodeId::with_memory(number);
    node.map(Some).ok_or_else(|| PoolError::Tiers {
        what: format!("there is no node {number} whose memory this process may use"),
    })
}
