//! Figures of a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use polder_pool::{PoolStats, SpaceStats, Translation};

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
    /// Memory, pages and the device of the data file. The budget is that of the whole store, and the
    /// log's buffer, which is paid from it, is a part of the memory beside the frames.
    pub pool: PoolStats,
    /// Pages of the list of resident pages that was loaded
    /// ([`Options::warm_restart`](crate::Options::warm_restart)).
    pub prewarm_listed_pages: u64,
    /// Of these, those that were in memory already, or were gone.
    pub prewarm_skipped_pages: u64,
    /// How long it took to load the list, in milliseconds.
    pub prewarm_ms: u64,
    /// Pages of the list that was saved last.
    pub saved_resident_pages: u64,
    /// How long it took to save it, in milliseconds.
    pub save_resident_ms: u64,
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
    /// assert!(stats.pool.frame_bytes <= stats.pool.memory_budget_bytes);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> Stats {
        dispatch!(&self.engine, engine => stats(engine))
    }

    /// The figures now, as a JSON object on a line: those of [`Stats`] and [`PoolStats`] side by side, by the
    /// names of their fields; `version`, 1 as long as names keep their meaning; the id of the `process`, the
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
    let mut pool = engine.pool.stats();
    for (space, table) in &mut tables {
        let SpaceStats { resident_pages, dirty_pages, .. } =
            pool.spaces.get(space).copied().unwrap_or_default();
        (table.resident_pages, table.dirty_pages) = (resident_pages, dirty_pages);
    }
    let (warm, figure) = (&engine.warm.figures, |of: &AtomicU64| of.load(Ordering::Relaxed));
    tables.sort_unstable_by(|a, b| a.1.name.cmp(&b.1.name));
    let log = engine.log().written();
    // The log's buffer is paid from the same budget.
    pool.metadata_bytes += engine.memory_budget - pool.memory_budget_bytes;
    pool.memory_budget_bytes = engine.memory_budget;
    Stats {
        pool,
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
    }
}
