//! TPC-C in stores: loaded once for all runs of a part, and copied for each of them, which change
//! it. A store has its translation from its opening and nothing of it on disk.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::thread;
use std::time::{Duration, Instant};

use polder::{Durability, OpenMode, Options, PoolStats, Stats, Store};
use serde::{Deserialize, Serialize};

use super::afresh;
use super::clock::drive_turns;
use super::measured::Measured;
use super::setup::{Setup, made_once};
use super::side::Side;
use crate::error::BenchError;
use crate::interval::median;
use crate::meter::PATIENCE;
use crate::team::Team;
use crate::tpcc::{self, Mix, Run, Tables, TpccPlan, TpccResult};

/// Budget of the store that is loaded.
const LOADING_BUDGET: u64 = 256 << 20;
/// Random numbers of the load: all runs begin with the same rows.
const LOAD_SEED: u64 = 1;
/// By how much the data of one thread grow in a second at most, and its log.
const GROWTH_BYTES_PER_S: f64 = 40e6;
const LOG_BYTES_PER_S: f64 = 150e6;
/// At least so much, however short measurements are.
const LEAST_GROWTH: u64 = 64 << 20;
/// Budget by data where all is resident.
const AMPLE: f64 = 2.0;
/// What a copy is of: the data come first.
const FILES: [&str; 2] = ["data", "log"];
/// Tables that are read at once when everything is touched.
const TOUCHING_THREADS: usize = 4;
/// Intervals that a measurement over time has at least.
const LEAST_INTERVALS: f64 = 10.0;

/// A limit of the log by which no checkpoint comes while threads work for so many seconds, those of
/// all threads together: one begins when half of the log is full.
pub(crate) fn ample_log(thread_seconds: f64) -> u64 {
    2 * (LEAST_GROWTH + (thread_seconds.ceil() * LOG_BYTES_PER_S) as u64)
}

/// By how many bytes the data grow at most while threads work for so many seconds, those of all
/// threads together.
pub(crate) fn growth_bytes(thread_seconds: f64) -> u64 {
    LEAST_GROWTH + (thread_seconds * GROWTH_BYTES_PER_S) as u64
}

/// A budget with which a store can be opened.
fn at_least_least(bytes: u64) -> u64 {
    bytes.max(Options::least_memory_budget(4096))
}

/// A store that was loaded and closed: that of which runs have copies, or such a copy.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Loaded {
    dir: PathBuf,
    warehouses: u16,
    /// Of its data file.
    bytes: u64,
}

impl Loaded {
    /// That of this part, loaded now if no run before has done it. Without a limit its log, and
    /// with it when checkpoints come, is that of any store.
    pub(crate) fn find(
        setup: &Setup<'_>,
        warehouses: u16,
        log_limit: Option<u64>,
    ) -> Result<Loaded, BenchError> {
        made_once(&setup.shared.join("tpcc.json"), || {
            let dir = setup.shared.join("tpcc");
            // Without what an earlier run did not finish.
            afresh(&dir)?;
            let mut options = Options::new(&dir)
                .mode(OpenMode::Create)
                .durability(Durability::None)
                .memory_budget(LOADING_BUDGET);
            if let Some(bytes) = log_limit {
                options = options.log_limit(bytes);
            }
            let store = Store::open(options)?;
            let tables = Tables::open(&store)?;
            let (rows, tell) = (setup.scale.tpcc, setup.tell);
            tpcc::load(&tables, rows, warehouses, LOAD_SEED, setup.interrupt, &|what| tell(what))?;
            drop(tables);
            store.close()?;
            let data = dir.join(FILES[0]);
            let bytes = fs::metadata(&data).map_err(BenchError::file(&data))?.len();
            Ok(Loaded { dir, warehouses, bytes })
        })
    }

    /// One that stays resident, and is never written, while threads work for so many seconds,
    /// those of all threads together; and the budget that it needs: that of a pool that is half
    /// full, as in the other resident parts, and what the data grow.
    pub(crate) fn resident(
        setup: &Setup<'_>,
        thread_seconds: f64,
    ) -> Result<(Loaded, u64), BenchError> {
        let log_limit = Some(ample_log(thread_seconds));
        let loaded = Loaded::find(setup, setup.scale.warehouses, log_limit)?;
        let budget = loaded.budget(AMPLE) + growth_bytes(thread_seconds);
        Ok((loaded, budget))
    }

    /// So many times its data as a budget, or the least that there can be.
    pub(crate) fn budget(&self, times: f64) -> u64 {
        at_least_least((self.bytes as f64 * times) as u64)
    }

    /// A copy for this run alone, of which the system keeps nothing in memory. It takes the place of
    /// one that the run had before.
    pub(crate) fn copy(&self, setup: &Setup<'_>) -> Result<Loaded, BenchError> {
        (setup.tell)("copying the store");
        let dir = setup.dir.join("store");
        afresh(&dir)?;
        for name in FILES {
            let copy = dir.join(name);
            let copied = fs::copy(self.dir.join(name), &copy).and_then(|_| forget(&copy));
            copied.map_err(BenchError::file(&copy))?;
        }
        Ok(Loaded { dir, ..self.clone() })
    }

    /// Opens it as the side has it.
    pub(crate) fn open<'a>(
        &self,
        setup: &'a Setup<'a>,
        budget: u64,
        prefault: bool,
    ) -> Result<TpccStore<'a>, BenchError> {
        self.open_with(setup, budget, |options| options.prefault(prefault))
    }

    /// The same with options that the part has.
    pub(crate) fn open_with<'a>(
        &self,
        setup: &'a Setup<'a>,
        budget: u64,
        with: impl FnOnce(Options) -> Options,
    ) -> Result<TpccStore<'a>, BenchError> {
        let Side { translation, hold, replacement, .. } = setup.side;
        let translation = translation.parse();
        let options = Options::new(&self.dir)
            .mode(OpenMode::Open)
            .durability(Durability::None)
            .memory_budget(at_least_least(budget))
            .miss_ratios(false)
            .translation(translation.expect("a test finds the translation of each side"))
            .replacement(replacement)
            .read_mode(hold);
        let store = Store::open(with(options))?;
        let tables = Tables::open(&store)?;
        let plan = TpccPlan {
            warehouses: self.warehouses,
            affinity: false,
            mix: Mix::Standard,
            check: false,
        };
        Ok(TpccStore { setup, store, tables, plan, phases: AtomicU64::new(0) })
    }
}

/// Has the system write the file and drop it from its cache, for file systems where reads do not
/// pass by that anyway.
fn forget(path: &Path) -> std::io::Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    #[cfg(target_os = "linux")]
    // It advises, and what it says does not matter.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    Ok(())
}

/// An open store on which transactions run.
pub(crate) struct TpccStore<'a> {
    setup: &'a Setup<'a>,
    store: Store,
    tables: Tables,
    /// The standard mix, and threads that share all warehouses, unless somebody sets another.
    pub(crate) plan: TpccPlan,
    /// So that none repeats the input of another.
    phases: AtomicU64,
}

/// What threads have done together.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    pub(crate) per_s: f64,
    /// Pages that were not in memory, for each transaction.
    pub(crate) pages_read: f64,
    /// Tries for each transaction that another one was faster than.
    pub(crate) conflicts: f64,
    pub(crate) interval_s: f64,
    /// Transactions a second in each interval, of those that are complete.
    pub(crate) over_time: Vec<f64>,
}

impl TpccStore<'_> {
    /// Reads all rows, a few tables at once, so that all pages that find room are in memory.
    pub(crate) fn touch(&self) -> Result<(), BenchError> {
        let Setup { tell, interrupt, .. } = self.setup;
        tell("touching everything");
        let (names, next) = (self.store.tables()?, AtomicUsize::new(0));
        drive_turns(TOUCHING_THREADS, names.len() as u64, interrupt, |_| {
            || {
                let table = self.store.table(&names[next.fetch_add(1, Relaxed)])?;
                let mut entries = table.range(..);
                while entries.next_entry()?.is_some() {
                    interrupt.check()?;
                }
                Ok(())
            }
        })
    }

    /// Has threads do transactions for as long as a measurement takes.
    pub(crate) fn run(&self, threads: usize) -> Result<Ran, BenchError> {
        self.run_for(threads, self.setup.seconds, self.setup.seconds, None)
    }

    /// The same for so many seconds, in intervals of `step_s`, or until somebody sets `until`.
    pub(crate) fn run_for(
        &self,
        threads: usize,
        seconds: f64,
        step_s: f64,
        until: Option<&AtomicBool>,
    ) -> Result<Ran, BenchError> {
        let Self { setup, plan, .. } = *self;
        (setup.tell)(&format!("{} mix, {threads} threads", plan.mix));
        let before = self.store.stats().pool.faults;
        let run = Run {
            store: &self.store,
            tables: &self.tables,
            scale: setup.scale.tpcc,
            plan,
            team: Team { threads, counts: false, limit: None, interrupt: setup.interrupt },
            seed: setup.round,
            number: self.phases.fetch_add(1, Relaxed),
            seconds,
            interval: interval(seconds, step_s),
            until,
            many: false,
            tasks: None,
        };
        let (outcome, tally) = run.run()?;
        let TpccResult { summary, interval_s, per_s: mut over_time, .. } =
            TpccResult::new(plan, &tally, outcome.seconds, None);
        over_time.truncate((outcome.seconds / interval_s + 1e-6) as usize);
        let faults = self.store.stats().pool.faults - before;
        Ok(Ran {
            per_s: outcome.ops as f64 / outcome.seconds.max(1e-9),
            pages_read: faults as f64 / outcome.ops.max(1) as f64,
            conflicts: summary.conflicts_per_op,
            interval_s,
            over_time,
        })
    }

    /// The same while somebody looks at the store at the end of each interval; `enough` of what is
    /// seen ends the run.
    pub(crate) fn run_watched(
        &self,
        threads: usize,
        seconds: f64,
        step_s: f64,
        enough: impl Fn(&Stats) -> bool + Sync,
    ) -> Result<(Ran, Vec<Stats>), BenchError> {
        let (until, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let step = interval(seconds, step_s);
        let watch = || {
            let (started, mut seen) = (Instant::now(), Vec::new());
            while !is_over.load(Relaxed) {
                let next = step * (seen.len() as u32 + 1);
                let left = next.saturating_sub(started.elapsed());
                if !left.is_zero() {
                    thread::sleep(left.min(PATIENCE));
                    continue;
                }
                let stats = self.stats();
                until.fetch_or(enough(&stats), Relaxed);
                seen.push(stats);
            }
            seen
        };
        thread::scope(|scope| {
            let watcher = scope.spawn(watch);
            let ran = self.run_for(threads, seconds, step_s, Some(&until));
            is_over.store(true, Relaxed);
            let seen = watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((ran?, seen))
        })
    }

    /// Closes it, which leaves a list of the pages that are in memory.
    pub(crate) fn close(self) -> Result<(), BenchError> {
        let Self { store, tables, .. } = self;
        drop(tables);
        Ok(store.close()?)
    }

    /// What the store says of itself.
    pub(crate) fn stats(&self) -> Stats {
        self.store.stats()
    }

    /// An error unless everything stayed in memory and nothing was written but the log.
    pub(crate) fn check_resident(&self) -> Result<(), BenchError> {
        let PoolStats { evictions, write_backs, .. } = self.stats().pool;
        if evictions == 0 && write_backs == 0 {
            return Ok(());
        }
        Err(BenchError::Options(format!(
            "not everything stayed in memory: {evictions} pages were evicted and {write_backs} written"
        )))
    }
}

/// How long an interval is: `step_s`, or less in a run that would have few of them.
fn interval(seconds: f64, step_s: f64) -> Duration {
    Duration::from_secs_f64(step_s.min(seconds / LEAST_INTERVALS).max(1e-3))
}

impl Ran {
    /// Adds the throughput of each interval, at the second at which it ended.
    pub(crate) fn push_over_time(&self, metric: &str, measured: &mut Measured) {
        for (per_s, number) in self.over_time.iter().zip(1..) {
            measured.push(metric, self.ended_at(number), *per_s);
        }
    }

    /// When so many intervals were over. In whole milliseconds, so that rounds have the same
    /// places.
    pub(crate) fn ended_at(&self, intervals: u32) -> f64 {
        (f64::from(intervals) * self.interval_s * 1e3).round() / 1e3
    }

    /// Of the intervals, the lowest and the median.
    pub(crate) fn lowest_and_median(&self) -> Option<(f64, f64)> {
        let lowest = self.over_time.iter().copied().reduce(f64::min)?;
        Some((lowest, median(self.over_time.iter().copied())?))
    }

    /// Seconds until throughput first came to nine tenths of what it settles at: the median over
    /// the last third.
    pub(crate) fn ramp_up_s(&self) -> Option<f64> {
        let settled = median(self.over_time.iter().copied().skip(self.over_time.len() * 2 / 3))?;
        let reached = self.over_time.iter().position(|per_s| *per_s >= 0.9 * settled)?;
        Some(self.ended_at(reached as u32 + 1))
    }
}

#[cfg(test)]
mod tests;
