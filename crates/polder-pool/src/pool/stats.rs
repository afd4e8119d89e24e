//! What a pool tells of itself. Counters cost the hot path nothing (see `counters.rs`); the rest
//! is found by looking when asked.

#![cfg(not(loom))]

use std::any::Any;
use std::collections::HashMap;
use std::num::NonZeroU32;

use polder_format::SpaceId;

use crate::device::Way;
use crate::frame::{FramePool, FreeList};
use crate::latch::FRAME_META_BYTES;
use crate::machine::{HUGE_PAGE_BYTES, NodeId};
use crate::miss_ratio::MissRatios;
use crate::pool::pool::Pool;
use crate::shared::Shared;
use crate::sync::lock;
use crate::thread::Counter;
use crate::tier::{Migration, TierNo};
use crate::translation::{
    Footprint, Hash, HashInlined, HashOptimistic, HashOptimisticInlined, HashPreferred, Predictive,
    PredictiveHashed, Translation, Words,
};

/// Figures of a pool. Counts are since it was opened, by all threads; memory is
/// in bytes. They are read one after the other while the pool is in use, so that they need not add
/// up.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PoolStats {
    /// The budget, in bytes.
    pub memory_budget_bytes: u64,
    /// Frames that the budget pays for.
    pub frames: u64,
    /// Frames without a page: frames of the budget that are left.
    pub frames_free: u64,
    /// The same by node of memory, in the order of frames. Empty where frames are not partitioned
    /// by nodes: on a machine with one, and where a page decides on its frame.
    pub nodes: Vec<NodeStats>,
    /// The tiers of memory, the fastest first; empty where there is one.
    pub tiers: Vec<TierStats>,
    /// Pages that went from a tier to the next faster one.
    pub tier_promotions: u64,
    /// Pages that went from a tier to the next slower one.
    pub tier_demotions: u64,
    /// Nanoseconds that this has taken.
    pub migration_nanos: u64,
    /// With which probabilities pages go from tier to tier now, where there are several: those that were
    /// given, or that the pool has found.
    pub migration: Option<Migration>,
    /// Frames taken for a page by a thread that ran on their node; 0 where they are not
    /// partitioned.
    pub frames_taken_near: u64,
    /// Frames taken by threads that ran elsewhere: a page went where it prefers to lie, or the
    /// node of the thread had none free.
    pub frames_taken_far: u64,
    /// Page size in bytes.
    pub page_size_bytes: u64,
    /// Pages that operations went to and found resident.
    pub hits: u64,
    /// Pages loaded from the device because an operation needed them.
    pub faults: u64,
    /// Pages loaded before an operation needed them, by prewarming.
    pub prewarmed_pages: u64,
    /// Pages that left memory to make room for others.
    pub evictions: u64,
    /// Of these, those that a thread evicted because it needed a frame and the page provider had
    /// none for it.
    pub foreground_evictions: u64,
    /// How often a thread found no free frame, and waited for the page provider or evicted.
    pub frame_waits: u64,
    /// Pages written to the device as they were changed, whether they left memory then or stayed.
    pub write_backs: u64,
    /// Operations begun again, after a fault or because a page changed.
    pub restarts: u64,
    /// Groups of translation entries whose memory was given back to the kernel (`array`).
    pub hole_punches: u64,
    /// System calls that gave memory of evicted pages back to the kernel, each of which makes all
    /// processors on which we run forget addresses (`vm`, `direct`).
    pub give_backs: u64,
    /// System calls that were made to move memory of pages from node to node (`vm`).
    pub page_moves: u64,
    /// Pages in memory.
    pub resident_pages: u64,
    /// Pages in memory that the device lacks as they are.
    pub dirty_pages: u64,
    /// The same for each space that has resident pages.
    pub spaces: HashMap<SpaceId, SpaceStats>,
    /// Memory of frames that hold pages, in bytes.
    pub frame_bytes: u64,
    /// Memory of what is known of each frame, in bytes: metadata, replacement, slices of read
    /// modes, and the list of free frames.
    pub metadata_bytes: u64,
    /// Memory of the translation, in bytes.
    pub translation_bytes: u64,
    /// Kernel page tables of translation and frames, in bytes, reckoned from their sizes.
    pub page_table_bytes: u64,
    /// Of these, those of frames; 0 where pages have addresses of their own (`vm`).
    pub frame_page_table_bytes: u64,
    /// Frame memory that huge pages back, in bytes.
    pub huge_page_bytes: u64,
    /// Pages that were to be read from the device, also where that failed.
    pub device_reads: u64,
    /// Pages that were to be written to the device, also where that failed.
    pub device_writes: u64,
    /// Pages that moved to the frame that they prefer.
    pub promotions: u64,
    /// Pages that were changed in a copy ([`ReadMode::Copy`](crate::ReadMode::Copy)).
    pub copies: u64,
    /// Bytes of pages that moved from frame to frame, or were changed in a copy. They were copied, but by
    /// `vm`, where the kernel moves what is behind an address.
    pub moved_bytes: u64,
    /// Where links hold frames: pages read by a link that held none, or another one, or by number.
    pub pages_by_table: u64,
    /// How requests that are under way at once reach the device.
    pub device_way: Way,
    /// The bytes of `device_reads`.
    pub device_read_bytes: u64,
    /// The bytes of `device_writes`.
    pub device_written_bytes: u64,
    /// Of these, pages of structures that a sweep wrote: a checkpoint, a flush, or a close.
    pub checkpoint_page_bytes: u64,
    /// Pages of structures that were written to be evicted.
    pub evicted_page_bytes: u64,
    /// Pages of the file's maps and of the catalogue, whoever wrote them.
    pub map_page_bytes: u64,
    /// Length of the data file in bytes.
    pub file_bytes: u64,
    /// How often accesses would miss with more memory and with less, where pages are sampled for that: if
    /// the pool was opened so, evicts, and has 8,192 frames or more.
    pub miss_ratios: Option<MissRatios>,
}

/// Figures of one tier of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierStats {
    /// Its frames.
    pub frames: u64,
    /// How many of these have no page, a moment ago.
    pub frames_free: u64,
    /// Accesses that found their page there; those of the first tier are all others.
    pub hits: u64,
}

/// Frames of one node of memory (NUMA).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStats {
    /// The node, as the kernel numbers it.
    pub node: NodeId,
    /// Frames whose memory is asked of it.
    pub frames: u64,
    /// How many of these have no page, a moment ago.
    pub frames_free: u64,
}

/// Pages of one space ([`PoolStats::spaces`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceStats {
    /// How many pages are in memory.
    pub resident_pages: u64,
    /// How many of these the device lacks as they are.
    pub dirty_pages: u64,
}

impl<T: Translation> Pool<T> {
    /// The figures now. Looks at every frame, so that it takes the longer the larger the pool is;
    /// no operation waits for it.
    pub fn stats(&self) -> PoolStats {
        let shared = self.shared();
        let core = &shared.core;
        let size = core.page_size().bytes() as u64;
        let sum = |counter| core.counters.sum(counter);
        let footprint = shared.translation.words().footprint();
        let beside = Footprint::on_huge_pages(shared.translation.bytes_beside());
        let spaces = self.space_stats();
        let resident_pages = spaces.values().map(|space| space.resident_pages).sum::<u64>();
        let frames = u64::from(core.frames.budget_frames);
        let huge_page_bytes =
            footprint.huge_page_bytes.unwrap_or_else(|| core.frames.memory.huge_bytes());
        // Translations that own the pages count their tables themselves.
        let frame_bytes = if T::MEMORY.is_in_frames() { resident_pages * size } else { 0 };
        let small_frame_bytes = frame_bytes.saturating_sub(huge_page_bytes);
        let frame_page_table_bytes = small_frame_bytes.div_ceil(HUGE_PAGE_BYTES as u64) * 4096;
        PoolStats {
            memory_budget_bytes: shared.memory_budget,
            frames,
            frames_free: frames.saturating_sub(resident_pages),
            nodes: shared.node_stats(),
            tiers: shared.tier_stats(),
            tier_promotions: sum(Counter::TierPromotions),
            tier_demotions: sum(Counter::TierDemotions),
            migration_nanos: sum(Counter::MigrationNanos),
            migration: core.frames.tiers().map(|tiers| tiers.migration()),
            frames_taken_near: sum(Counter::FramesNear),
            frames_taken_far: sum(Counter::FramesFar),
            page_size_bytes: size,
            hits: (sum(Counter::PagesRead) + sum(Counter::Prewarmed))
                .saturating_sub(sum(Counter::Faults)),
            faults: sum(Counter::Faults).saturating_sub(sum(Counter::Prewarmed)),
            prewarmed_pages: sum(Counter::Prewarmed),
            evictions: sum(Counter::Evictions),
            foreground_evictions: sum(Counter::ForegroundEvictions),
            frame_waits: sum(Counter::FrameWaits),
            write_backs: sum(Counter::WriteBacks),
            restarts: sum(Counter::Restarts),
            copies: sum(Counter::Copies),
            hole_punches: footprint.hole_punches,
            give_backs: footprint.give_backs,
            page_moves: footprint.page_moves,
            resident_pages,
            dirty_pages: spaces.values().map(|space| space.dirty_pages).sum(),
            spaces,
            frame_bytes: resident_pages * size,
            metadata_bytes: frames * (FRAME_META_BYTES as u64 + shared.beside_bytes)
                + FreeList::bytes(core.frames.budget_frames) as u64,
            translation_bytes: footprint.translation_bytes + beside.translation_bytes,
            page_table_bytes: footprint.page_table_bytes
                + beside.page_table_bytes
                + frame_page_table_bytes,
            frame_page_table_bytes,
            huge_page_bytes,
            promotions: sum(Counter::Promotions),
            moved_bytes: sum(Counter::MovedBytes),
            pages_by_table: sum(Counter::PagesByTable),
            device_reads: sum(Counter::DeviceReads),
            device_writes: sum(Counter::DeviceWrites),
            device_read_bytes: sum(Counter::DeviceReadBytes),
            device_way: core.data.device.way(),
            device_written_bytes: sum(Counter::DeviceWrittenBytes),
            checkpoint_page_bytes: sum(Counter::CheckpointPageBytes),
            evicted_page_bytes: sum(Counter::EvictedPageBytes),
            map_page_bytes: sum(Counter::MapPageBytes),
            file_bytes: lock(&core.map.pages).end() * size,
            miss_ratios: shared.miss_ratios(),
        }
    }

    /// How many chains have how many entries if the pages that are resident now are in a table of so many
    /// buckets: element `n` is the number of chains with `n` entries (predictive-2026, figure 10). `None`
    /// if the translation has no chains.
    pub fn chain_lengths(&self, buckets: NonZeroU32) -> Option<Vec<u64>> {
        let translation: &dyn Any = self.translation();
        macro_rules! first_of {
            ($($chained:ident),*) => {
                None$(.or_else(|| Some(translation.downcast_ref::<$chained>()?.chain_lengths(buckets))))*
            };
        }
        first_of!(
            Hash,
            HashOptimistic,
            HashInlined,
            HashPreferred,
            HashOptimisticInlined,
            PredictiveHashed,
            Predictive
        )
    }

    fn space_stats(&self) -> HashMap<SpaceId, SpaceStats> {
        let shared = self.shared();
        let mut spaces: HashMap<SpaceId, SpaceStats> = HashMap::new();
        let mut open = HashMap::new();
        for frame in shared.core.frames.memory.ids().take(shared.highest_frame() as usize) {
            let meta = shared.core.latches.meta(frame);
            let page = meta.page();
            if page.is_null() {
                continue;
            }
            let id = page.space();
            let core = open.entry(id).or_insert_with(|| shared.space(id));
            let cell = core.as_ref().and_then(|core| shared.state_of(core, page.page()));
            let stats = spaces.entry(id).or_default();
            stats.resident_pages += 1;
            stats.dirty_pages += u64::from(cell.is_some_and(|cell| {
                let word = cell.read();
                word.frame() == frame && meta.is_dirty(word)
            }));
        }
        spaces
    }
}

impl<T: Translation> Shared<T> {
    fn node_stats(&self) -> Vec<NodeStats> {
        let FramePool { free, nodes, .. } = &self.core.frames;
        let is_cut = self.core.frames.is_cut_by_nodes();
        let by_node = nodes.ids().zip(free.each()).filter(|_| is_cut);
        let stats = by_node.map(|(node, (frames, free))| NodeStats {
            node,
            frames: u64::from(frames.end() - frames.start() + 1),
            frames_free: free as u64,
        });
        stats.collect()
    }

    fn miss_ratios(&self) -> Option<MissRatios> {
        let (core, frames) = (&self.core, &self.core.frames);
        let sampler = core.sampler()?;
        let ends: Vec<u64> = match frames.tiers() {
            Some(_) => frames.free.each().map(|(of_tier, _)| u64::from(*of_tier.end())).collect(),
            None => vec![frames.budget_frames.into()],
        };
        let accesses = core.counters.sum(Counter::PagesRead);
        Some(sampler.ratios(accesses, &ends, core.page_size().bytes() as u64))
    }

    fn tier_stats(&self) -> Vec<TierStats> {
        let (core, frames) = (&self.core, &self.core.frames);
        let Some(tiers) = frames.tiers() else { return Vec::new() };
        let sum = |counter| core.counters.sum(counter);
        let all = (sum(Counter::PagesRead) + sum(Counter::Prewarmed))
            .saturating_sub(sum(Counter::Faults));
        let mut slower = 0;
        let mut stats: Vec<TierStats> = frames
            .free
            .each()
            .enumerate()
            .map(|(number, (frames, free))| {
                let hits = tiers.accesses(TierNo::new(number)).unwrap_or(0);
                slower += hits;
                let frames = u64::from(frames.end() - frames.start() + 1);
                TierStats { frames, frames_free: free as u64, hits }
            })
            .collect();
        stats[0].hits = all.saturating_sub(slower);
        stats
    }
}
