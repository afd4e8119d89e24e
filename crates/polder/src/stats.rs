//! Figures of a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use polder_pool::device::Way;
use polder_pool::{
    Migration, MissRatios, NodeStats, PoolStats, SpaceStats, TierStats, Translation,
};

use crate::any::dispatch;
use crate::engine::Engine;
use crate::handle::Store;
use crate::live::Document;

mod json;

/// Figures of a store. Counts are since it was opened. Counting costs lookups nothing that other
/// threads could notice; the figures of memory are found by looking when asked.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The budget, in bytes.
    pub memory_budget_bytes: u64,
    /// Frames that the budget pays for.
    pub frames: u64,
    /// Frames without a page.
    pub frames_free: u64,
    /// The same by node of memory (NUMA), where there are several.
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
    /// given, or that the store has found.
    pub migration: Option<Migration>,
    /// System calls that moved pages from tier to tier (`vm`).
    pub page_moves: u64,
    /// Bytes of pages that moved from frame to frame, or were changed in a copy. They were copied, but by
    /// `vm`, where the kernel moves what is behind an address.
    pub moved_bytes: u64,
    /// Frames taken for a page by a thread that ran on their node; 0 where there is one node.
    pub frames_taken_near: u64,
    /// Frames taken by threads that ran elsewhere.
    pub frames_taken_far: u64,
    /// Page size in bytes.
    pub page_size_bytes: u64,
    /// Pages that operations went to and found resident.
    pub hits: u64,
    /// Pages loaded from the device because an operation needed them.
    pub faults: u64,
    /// Pages loaded before an operation needed them: those of the list that was saved before, or of
    /// tables ([`Table::prewarm`](crate::Table::prewarm)).
    pub prewarmed_pages: u64,
    /// Pages of the list that was loaded.
    pub prewarm_listed_pages: u64,
    /// Of these, those that were in memory already, or were gone.
    pub prewarm_skipped_pages: u64,
    /// How long it took to load the list, in milliseconds.
    pub prewarm_ms: u64,
    /// Pages of the list that was saved last.
    pub saved_resident_pages: u64,
    /// How long it took to save it, in milliseconds.
    pub save_resident_ms: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Of these, those that a thread evicted because it needed memory and the thread that makes
    /// room in the background had none for it.
    pub foreground_evictions: u64,
    /// How often a thread found no room for a page, and waited for it or made it.
    pub frame_waits: u64,
    /// Pages written to the device.
    pub write_backs: u64,
    /// Operations begun again, after a fault or because a page changed.
    pub restarts: u64,
    /// Groups of translation entries given back to the kernel.
    pub hole_punches: u64,
    /// Pages that moved to the frame that they prefer.
    pub promotions: u64,
    /// Pages that were changed in a copy ([`ReadMode::Copy`](crate::ReadMode::Copy)).
    pub copies: u64,
    /// Where links hold frames (`swizzle`): pages read by a link that held none, or another one,
    /// or by their number.
    pub pages_by_table: u64,
    /// Pages in memory.
    pub resident_pages: u64,
    /// Pages in memory that the device lacks as they are.
    pub dirty_pages: u64,
    /// Memory of frames that hold pages, in bytes.
    pub frame_bytes: u64,
    /// Memory beside the frames, in bytes.
    pub metadata_bytes: u64,
    /// Memory of the translation, in bytes.
    pub translation_bytes: u64,
    /// Kernel page tables of translation and frames, in bytes.
    pub page_table_bytes: u64,
    /// Frame memory that huge pages back, in bytes.
    pub huge_page_bytes: u64,
    /// Pages read from the device.
    pub device_reads: u64,
    /// Pages written to the device.
    pub device_writes: u64,
    /// How requests that are under way at once reach the device of the data file.
    pub device_way: Way,
    /// Bytes read from the device.
    pub device_read_bytes: u64,
    /// Bytes written to the device.
    pub device_written_bytes: u64,
    /// Of these, pages of tables and structures that a checkpoint wrote, a flush, or a close.
    pub checkpoint_page_bytes: u64,
    /// Pages of tables and structures that were written to make room in memory.
    pub evicted_page_bytes: u64,
    /// Pages of the file's maps and of the catalogue, whoever wrote them.
    pub map_page_bytes: u64,
    /// Bytes written to the log file, beside those of pages: groups of records.
    pub log_written_bytes: u64,
    /// Of these, full-page images.
    pub log_image_bytes: u64,
    /// Zeros written to the log file to make room in it ready.
    pub log_zeroed_bytes: u64,
    /// How many bytes the device of the data file says it writes as a whole; 0: it says nothing.
    /// Where that is less than a page, pages are written twice.
    pub atomic_write_bytes: u64,
    /// Second copies of pages, written to the log file so that none can be torn for good.
    pub double_write_bytes: u64,
    /// Length of the data file in bytes.
    pub file_bytes: u64,
    /// Bytes of the log that a recovery would read.
    pub log_replay_bytes: u64,
    /// How often a change waited because the log was full and a checkpoint was not done; those
    /// that waited long count for each tenth of a second. If it grows, the limit of the log is
    /// small for what is written.
    pub log_stops: u64,
    /// Length of the log file in bytes.
    pub log_file_bytes: u64,
    /// Most bytes that the log may take on the device.
    pub log_limit_bytes: u64,
    /// Up to where the log is durable: a position in it, in bytes.
    pub log_durable_lsn: u64,
    /// How often accesses would miss with more memory and with less. `None` where that is
    /// off (`Options::miss_ratios`), without the feature of that name, with translations that evict
    /// nothing, and in less than 8,192 pages of memory.
    pub miss_ratios: Option<MissRatios>,
    /// Why no other process can ask for these figures ([`live_stats`](crate::live_stats)), if the
    /// socket for that could not be made.
    pub live_refused: Option<String>,
    /// All tables, in the order of their names; those that are open if the catalogue cannot be read.
    pub tables: Vec<TableStats>,
}

/// Figures of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStats {
    /// Its name.
    pub name: String,
    /// Keys in it.
    pub entries: u64,
    /// Pages in use, in memory or not; zero if the maps that tell cannot be read.
    pub pages: u64,
    /// Pages in memory.
    pub resident_pages: u64,
    /// Pages in memory that the device lacks as they are.
    pub dirty_pages: u64,
}

impl Store {
    /// The figures now.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// store.create_table("words")?.put("dike", "dijk")?;
    /// let stats = store.stats();
    /// assert_eq!(stats.tables[0].entries, 1);
    /// assert!(stats.frame_bytes <= stats.memory_budget_bytes);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> Stats {
        dispatch!(&self.engine, engine => stats(engine))
    }

    /// The figures now, as a JSON object on a line: those of [`Stats`] by the names of their
    /// fields; `version`, 1 as long as names keep their meaning; the id of the `process`, the
    /// `translation`, whether the store is `read_only`, and what opening it had to do (`recovery`).
    pub fn stats_json(&self) -> String {
        dispatch!(&self.engine, engine => Arc::clone(engine).document())
    }
}

impl<T: Translation> Document for Engine<T> {
    fn document(self: Arc<Self>) -> String {
        let about = json::About {
            translation: T::NAME,
            read_only: self.quiesce.is_read_only(),
            recovery: &self.recovery,
        };
        json::document(&about, &stats(&self))
    }
}

fn stats<T: Translation>(engine: &Arc<Engine<T>>) -> Stats {
    // A table that nobody has used is counted like all others. One that cannot be opened is told of
    // by those who want it.
    for (name, _) in engine.records().unwrap_or_default() {
        let _ = engine.table(&name);
    }
    // Before the pool is looked at: counting pages may load maps.
    let mut tables: Vec<_> = engine
        .open_tables()
        .into_iter()
        .map(|table| {
            let pages = table.tree.space().pages_in_use().unwrap_or(0);
            let stats = TableStats {
                name: table.name.get().to_string(),
                entries: table.len(),
                pages,
                ..TableStats::default()
            };
            (table.tree.space().id(), stats)
        })
        .collect();
    let pool = engine.pool.stats();
    for (space, table) in &mut tables {
        let SpaceStats { resident_pages, dirty_pages, .. } =
            pool.spaces.get(space).copied().unwrap_or_default();
        (table.resident_pages, table.dirty_pages) = (resident_pages, dirty_pages);
    }
    let (warm, figure) = (&engine.warm.figures, |of: &AtomicU64| of.load(Ordering::Relaxed));
    tables.sort_unstable_by(|a, b| a.1.name.cmp(&b.1.name));
    let log = engine.log().written();
    Stats {
        memory_budget_bytes: engine.memory_budget,
        // The log's buffer is paid from the same budget.
        metadata_bytes: pool.metadata_bytes + (engine.memory_budget - pool.memory_budget_bytes),
        log_written_bytes: log.groups,
        log_image_bytes: log.images,
        log_zeroed_bytes: log.zeros,
        double_write_bytes: log.slots,
        prewarm_listed_pages: figure(&warm.listed),
        prewarm_skipped_pages: figure(&warm.skipped),
        prewarm_ms: figure(&warm.load_ms),
        saved_resident_pages: figure(&warm.saved),
        save_resident_ms: figure(&warm.save_ms),
        log_replay_bytes: engine.log().replay_bytes(),
        log_stops: engine.log().write_stalls(),
        log_file_bytes: engine.log().file_bytes(),
        log_limit_bytes: engine.log().limit(),
        atomic_write_bytes: match engine.pool.device().atomic_write_bytes() {
            u64::MAX => 0,
            bytes => bytes,
        },
        log_durable_lsn: engine.log().durable().0,
        live_refused: engine.live_refused.get().cloned(),
        tables: tables.into_iter().map(|(_, table)| table).collect(),
        ..of_pool(&pool)
    }
}

fn of_pool(pool: &PoolStats) -> Stats {
    Stats {
        memory_budget_bytes: pool.memory_budget_bytes,
        frames: pool.frames,
        frames_free: pool.frames_free,
        nodes: pool.nodes.clone(),
        tiers: pool.tiers.clone(),
        page_moves: pool.page_moves,
        tier_promotions: pool.tier_promotions,
        tier_demotions: pool.tier_demotions,
        migration_nanos: pool.migration_nanos,
        migration: pool.migration,
        moved_bytes: pool.moved_bytes,
        frames_taken_near: pool.frames_taken_near,
        frames_taken_far: pool.frames_taken_far,
        page_size_bytes: pool.page_size_bytes,
        hits: pool.hits,
        faults: pool.faults,
        prewarmed_pages: pool.prewarmed_pages,
        evictions: pool.evictions,
        foreground_evictions: pool.foreground_evictions,
        frame_waits: pool.frame_waits,
        write_backs: pool.write_backs,
        restarts: pool.restarts,
        hole_punches: pool.hole_punches,
        promotions: pool.promotions,
        copies: pool.copies,
        pages_by_table: pool.pages_by_table,
        resident_pages: pool.resident_pages,
        dirty_pages: pool.dirty_pages,
        frame_bytes: pool.frame_bytes,
        metadata_bytes: pool.metadata_bytes,
        translation_bytes: pool.translation_bytes,
        page_table_bytes: pool.page_table_bytes,
        huge_page_bytes: pool.huge_page_bytes,
        device_reads: pool.device_reads,
        device_writes: pool.device_writes,
        device_way: pool.device_way,
        device_read_bytes: pool.device_read_bytes,
        device_written_bytes: pool.device_written_bytes,
        checkpoint_page_bytes: pool.checkpoint_page_bytes,
        evicted_page_bytes: pool.evicted_page_bytes,
        map_page_bytes: pool.map_page_bytes,
        file_bytes: pool.file_bytes,
        miss_ratios: pool.miss_ratios.clone(),
        ..Stats::default()
    }
}
