//! How a pool is opened, and what its budget pays for.

#![cfg(not(loom))]

use std::sync::Arc;

use polder_format::log::slot_pages;
use polder_format::{ChecksumSeed, PageSize};

use crate::device::bounce::Bounces;
use crate::error::PoolError;
use crate::file_map::FileState;
use crate::journal::Journal;
use crate::latch::{FRAME_META_BYTES, FrameId, GroupPins, grouping};
use crate::machine::{Groups, kernel_page_bytes};
use crate::miss_ratio::Sampling;
use crate::read_mode::ReadMode;
use crate::replacement::{Heard, ReplacementKind};
use crate::tier::{TierConfig, Tiered};
use crate::translation::{Translation, Words};

/// The fewest frames that a pool works with: enough for several threads that each hold the path
/// of a deep tree and the new pages of a split.
const MIN_FRAMES: u64 = 128;
/// Memory besides what grows with the frames: counters, tables, threads.
const FIXED_BYTES: u64 = 512 << 10;
/// What tables that are vectors take for each frame, at most: those of replacement policies.
pub(crate) const TABLES_BYTES: usize = 64;
/// What is set aside for translation, replacement and holds of one frame where the budget is
/// compared before they are chosen: as much as any takes.
const MOST_TRANSLATION_BYTES: u64 = 320;

/// How to open a pool.
///
/// ```
/// use polder_format::{ChecksumSeed, PageSize, StoreId};
/// use polder_pool::{Array, PoolConfig, PoolError, ReadMode};
///
/// let seed = ChecksumSeed::new(StoreId([1; 16]));
/// let config = PoolConfig {
///     read_mode: ReadMode::Shared,
///     ..PoolConfig::new(64 << 20, PageSize::MIN, seed)
/// };
/// // The budget pays for frames, and for what the pool must know of each.
/// let frames = config.frames::<Array>()?;
/// assert!(u64::from(frames) * 4096 < config.memory_budget);
///
/// let small = PoolConfig::new(100_000, PageSize::MIN, seed).frames::<Array>();
/// assert!(matches!(small, Err(PoolError::Budget { given: 100_000, .. })));
/// # Ok::<(), PoolError>(())
/// ```
#[derive(Debug)]
pub struct PoolConfig {
    /// Bytes of memory for everything: frames, their metadata, translation, buffers. At least
    /// [`PoolConfig::least_budget`]. Where there are several tiers, that of the first, which pays for
    /// what the pool must know of all frames.
    pub memory_budget: u64,
    /// Size of all pages. That of a file never changes.
    pub page_size: PageSize,
    /// Whether the kernel is to back all frames when the pool is opened, and not as they are used.
    /// Where a page decides on its frame, or has its own address (`direct`, `vm`), this does
    /// nothing.
    pub prefault: bool,
    /// The seed of the pages' checksums. That of a file never changes.
    pub seed: ChecksumSeed,
    /// What the file holds already: [`FileState::NEW`], or what
    /// [`Pool::file_state`](crate::Pool::file_state) told when it was last flushed.
    pub file: FileState,
    /// The log, if there is one: without it nothing outlives a crash.
    pub journal: Option<Arc<dyn Journal>>,
    /// Which pages go when room is needed. A translation that never evicts does not ask.
    pub replacement: ReplacementKind,
    /// How readers hold the pages of their way. Not every translation permits every mode.
    pub read_mode: ReadMode,
    /// Slower memory behind that of the budget, and what goes there; by default none.
    pub tiers: TierConfig,
    /// Whether the pool samples its pages, to tell what more memory or less would give
    /// ([`PoolStats::miss_ratios`](crate::PoolStats)). By default it does not; nor does it without the
    /// feature `miss-ratios`.
    pub miss_ratios: Sampling,
}

impl PoolConfig {
    /// A pool on a file that holds nothing yet, without a log, and all else as it usually is; for
    /// more there is `PoolConfig { file, journal, ..PoolConfig::new(..) }`. `memory_budget` is in
    /// bytes. Nothing is checked before the pool is opened.
    pub fn new(memory_budget: u64, page_size: PageSize, seed: ChecksumSeed) -> PoolConfig {
        PoolConfig {
            memory_budget,
            page_size,
            prefault: false,
            seed,
            file: FileState::NEW,
            journal: None,
            replacement: ReplacementKind::default(),
            read_mode: ReadMode::default(),
            tiers: TierConfig::default(),
            miss_ratios: Sampling::Off,
        }
    }

    /// The least budget in bytes at this page size, for any translation and replacement policy.
    /// Readers that hold pages by groups of cores can need more, on a machine with very many of
    /// them; [`PoolError::Budget`] says how much.
    pub fn least_budget(size: PageSize) -> u64 {
        Self::least_budget_at(size, Self::frame_cost(size, MOST_TRANSLATION_BYTES))
    }

    fn least_budget_at(size: PageSize, frame_cost: u64) -> u64 {
        FIXED_BYTES + MIN_FRAMES * frame_cost + Self::bounce_bytes(MIN_FRAMES, size)
    }

    /// How many frames the budget pays for with this translation.
    ///
    /// # Errors
    /// [`PoolError::Budget`] if the budget is too small for a pool.
    pub fn frames<T: Translation>(&self) -> Result<u32, PoolError> {
        self.frames_beside::<T>(self.beside_bytes::<T>(self.groups().as_ref()))
    }

    /// The same, with so many bytes of replacement and slices for each frame: those of all tiers.
    pub(crate) fn frames_beside<T: Translation>(
        &self,
        beside_bytes: u64,
    ) -> Result<u32, PoolError> {
        Ok(self.tier_ends_beside::<T>(beside_bytes)?.last().copied().unwrap_or(0))
    }

    /// The last frame of each tier.
    pub(crate) fn tier_ends_beside<T: Translation>(
        &self,
        beside_bytes: u64,
    ) -> Result<Vec<u32>, PoolError> {
        let (given, size) = (self.memory_budget, self.page_size);
        self.tiers.validate(size)?;
        let translation_bytes =
            T::Words::bytes_per_frame() + T::bytes_per_frame_beside() + beside_bytes;
        let cost = Self::frame_cost(size, translation_bytes);
        let slower = self.tiers.slower.iter().map(|tier| tier.bytes >> size.shift());
        let slower: Vec<u64> = slower.collect();
        // A tier ends where a page of the kernel does: so its memory can be asked of a node.
        let whole = (kernel_page_bytes() >> size.shift()).max(1) as u64;
        let all_slower: u64 = slower.iter().sum();
        // What is known of the frames of slower tiers.
        let beside = all_slower * (cost - size.bytes() as u64);
        // On a machine with many groups of cores slices may take more than is set aside for them.
        let least = Self::least_budget(size).max(Self::least_budget_at(size, cost)) + beside;
        // Batches are as large as the whole pool asks for.
        let bounces = |first: u64| Self::bounce_bytes(first + all_slower, size);
        let least = least + bounces(MIN_FRAMES) - Self::bounce_bytes(MIN_FRAMES, size);
        if given < least {
            return Err(PoolError::Budget { given, least });
        }
        let rest = given - FIXED_BYTES - beside;
        let first = (rest - bounces(rest / cost)) / cost;
        let most = u64::from(FrameId::MAX.get());
        if cfg!(feature = "tiers") && !slower.is_empty() && first + all_slower > most {
            let what =
                format!("{} frames are more than {most}; give less memory", first + all_slower);
            return Err(PoolError::Tiers { what });
        }
        let first = match slower.is_empty() {
            true => first.min(most),
            // Frame 0 does not exist, but has its place in memory.
            false => (first + 1) / whole * whole - 1,
        };
        let slower = slower.iter().map(|frames| frames / whole * whole);
        let ends = [first].into_iter().chain(slower).scan(0, |end, frames| {
            *end += frames;
            Some(*end as u32)
        });
        Ok(ends.collect())
    }

    /// The groups of cores by which readers hold pages, if they do by groups.
    pub(crate) fn groups(&self) -> Option<Groups> {
        grouping(self.read_mode).map(Groups::of_machine)
    }

    /// The policy that is built: where nothing is evicted the one that keeps nothing.
    pub(crate) fn replacement_for<T: Translation>(&self) -> ReplacementKind {
        if T::EVICTS { self.replacement } else { ReplacementKind::Clock }
    }

    /// How accesses are sampled: not at all where all pages stay in memory.
    pub(crate) fn sampling<T: Translation>(&self) -> Sampling {
        let can = T::EVICTS && cfg!(feature = "miss-ratios");
        if can { self.miss_ratios } else { Sampling::Off }
    }

    /// Memory of replacement, slices, the sampler and tiers for each frame.
    pub(crate) fn beside_bytes<T: Translation>(&self, groups: Option<&Groups>) -> u64 {
        let slices = groups.map_or(0, GroupPins::bytes_with);
        let sampler = match self.sampling::<T>() {
            Sampling::Off => 0,
            sampling => sampling.bytes_per_frame() + Heard::BYTES_PER_FRAME,
        };
        let tuner = if self.tiers.is_tuned() { Tiered::TUNED_BYTES_PER_FRAME } else { 0 };
        self.replacement_for::<T>().bytes_per_frame() + slices + sampler + tuner
    }

    fn frame_cost(size: PageSize, translation_bytes: u64) -> u64 {
        size.bytes() as u64 + FRAME_META_BYTES as u64 + translation_bytes + 1
    }

    /// Pages in one batch of write-backs.
    pub(crate) fn batch_pages(frames: u64, size: PageSize) -> u64 {
        (frames / 16).clamp(8, slot_pages(size) as u64)
    }

    fn bounce_bytes(frames: u64, size: PageSize) -> u64 {
        Bounces::COUNT as u64 * Self::batch_pages(frames, size) * size.bytes() as u64
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
        let slices = (2 * crate::machine::cores::MAX_GROUPS) as u64;
        let refused = config(least).frames_beside::<Array>(slices);
        let Err(PoolError::Budget { given, least: needed }) = refused else {
            panic!("{refused:?}");
        };
        assert!(given == least && needed > least);
        assert!(u64::from(config(needed).frames_beside::<Array>(slices).unwrap()) >= MIN_FRAMES);
        assert!(u64::from(config(least).frames::<Array>().unwrap()) >= MIN_FRAMES);
    }
}
