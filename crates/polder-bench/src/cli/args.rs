//! The arguments, with their units and defaults.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use polder::{ReadMode, ReplacementKind};

use crate::bench::Bench;
use crate::dist::Dist;
use crate::durability::Durability;
#[cfg(feature = "translations")]
use crate::ladder::{Part, Terms};
use crate::plan::LoadOrder;
use crate::record::Place;
use crate::replay::Format;
use crate::size::{parse_bytes, parse_count, parse_seconds, parse_some_seconds, parse_threads};
use crate::tpcc::Mix;

/// Workloads on storage engines, and their comparison by engines that take turns.
///
/// A single run prints one table (or one JSON line). Its write amplification is what the process
/// wrote, by what was asked of it (keys and values): /proc/self/io's write_bytes, direct writes
/// included, from the begin of the round until the engine has brought all to the device behind it.
/// For what goes by way of the page cache it is an upper bound, and can be a wide one: the kernel
/// counts whole folios. Timings on one machine change by half from
/// minute to minute; to compare engines, use `compare`.
#[derive(Debug, Parser)]
#[command(version)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What to run.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Insert all records in random order into an empty store.
    Load(RunArgs),
    /// Load all records in key order into an empty store, in the engine's best way (one thread).
    Bulk(RunArgs),
    /// Scan all entries in key order, again and again; operations are entries. Each thread scans
    /// its part of the keys.
    Scan(RunArgs),
    /// Point reads, uniform (ycsb-c with another distribution).
    Lookup(RunArgs),
    /// YCSB A: half reads, half updates, zipfian.
    YcsbA(RunArgs),
    /// YCSB B: 95% reads, 5% updates, zipfian.
    YcsbB(RunArgs),
    /// YCSB C: reads only, zipfian.
    YcsbC(RunArgs),
    /// YCSB D: 95% reads, 5% inserts, latest.
    YcsbD(RunArgs),
    /// YCSB E: 95% scans of 1 to 100 entries, 5% inserts, zipfian. A scan is one operation.
    YcsbE(RunArgs),
    /// YCSB F: half reads, half read-modify-writes, zipfian.
    YcsbF(RunArgs),
    /// Overwrite records, uniform, one or a batch of them in a commit, each complete at its
    /// --durability when the call returns. Operations are records, latencies those of commits.
    Commit(RunArgs),
    /// TPC-C: its nine tables and five transactions, on the tables and batches of Polder.
    ///
    /// Operations are transactions, those that were rolled back as the specification wants it
    /// included. A transaction is its reads and one batch that expects the versions that it read,
    /// and is tried again if another one was faster (a conflict). There is no think time. Behind
    /// the clock the consistency conditions 1 to 4 are looked at; one that does not hold is an
    /// error.
    Tpcc(TpccArgs),
    /// How soon a store is at full speed after it was opened, cold and warm, on Polder alone.
    ///
    /// A store is loaded, used for --warmup seconds and closed, and then opened in turn without the list
    /// of the pages that were in memory and with it. Shown are the time from the opening to nine tenths
    /// of full speed (of what the faster one of a round settles at), and throughput over time; beside
    /// them the pages that the device gives to as many threads. With --json one object, with all curves.
    Restart(RestartArgs),
    /// Compare engines: each in a process of its own, taking turns round by round.
    ///
    /// Each engine loads its data once and lives through the run (for load and bulk: fills a new
    /// store each round). Printed are each one's median and its ratio to the first engine: the
    /// median of the ratios of each round, with the interval of the exact sign test (at least 95%
    /// from 6 rounds on; with fewer, all rounds lie in it and its confidence is said). With --json
    /// every round gives a line, and the last line is {"bench": .., "engines": {NAME:
    /// {"median_ops_per_s", "ratio", "ratio_low", "ratio_high", ..}}}.
    Compare(CompareArgs),
    /// Replay traces on the pool's replacement policies, with simulated frames; beside them exact
    /// LRU, FIFO, random replacement and the optimum.
    ///
    /// "heard" is the share of requests that find the page and make the policy do something; all
    /// other hits cost it nothing. "writes" are pages that had been changed when they went, each
    /// of which is written to the device: with the misses, what the device has to do. They are 0
    /// where the trace does not say what is changed. Times are those of the whole replay, the
    /// simulation's own share included: compare them with each other only. "sampled LRU" is what a
    /// store would tell of such accesses (`polder stat --mrc`), for caches of at least 8,192 frames.
    Replay(ReplayArgs),
    /// The ladder of translations: each in turn, in every regime of access, on the pool and the
    /// tree themselves, without a store and without a log.
    ///
    /// Writes translations.json (all figures of all rounds, medians, criteria) and
    /// translations.html (plots) and prints what must hold and whether it does. Each run is a
    /// process of its own; ratios are medians of the ratios of each round, with the interval of the
    /// exact sign test. The figures are written after each part. Ctrl-C ends it with what was
    /// measured so far; a second one ends it at once and leaves the directory in which it works.
    #[cfg(feature = "translations")]
    Translations(TranslationsArgs),
    /// One run of the ladder; takes its job from standard input.
    #[cfg(feature = "translations")]
    #[command(hide = true)]
    TranslationsChild,
    /// One engine's process in a comparison; takes orders from standard input.
    #[command(hide = true)]
    Worker,
}

/// How a store is opened, and how a run on it goes.
#[derive(Debug, Args)]
pub(super) struct StoreArgs {
    /// Bytes of memory for the engine's cache, with KiB, MiB or GiB [default: everything fits].
    /// Engines without a cache of their own say in their description what they do with it.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(super) pool: Option<u64>,
    /// Have Polder touch all memory of its pool when the store is made, before the clock starts.
    /// Else the kernel clears each page when it is first used, as it does for the other engines.
    #[arg(long)]
    pub(super) prefault: bool,
    #[arg(long, value_name = "POLICY", help = replacement_help())]
    pub(super) replacement: Option<ReplacementKind>,
    #[arg(long, value_name = "MODE", help = hold_help())]
    pub(super) hold: Option<ReadMode>,
    /// Threads that work at once; bulk has one.
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = parse_threads)]
    pub(super) threads: usize,
    /// Seconds that the workload runs after loading before anything is measured; load and bulk have
    /// none [default: 1].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(super) warmup: Option<f64>,
    /// Start of the random numbers that choose records and operations.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) seed: u64,
    /// Print JSON, a line for each result.
    #[arg(long)]
    pub(super) json: bool,
    /// Count instructions, cache misses and data TLB misses per operation, in user mode, where
    /// the kernel permits it.
    #[arg(long)]
    pub(super) counters: bool,
    /// Directory in which a directory of this run is made and, at the end, removed
    /// [default: the current one].
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// What is promised of a write that has returned: that it is on the device (sync), that it will
    /// be after this time (periodic:10ms), or nothing (none).
    #[arg(long, value_name = "DURABILITY", default_value = "none")]
    pub(super) durability: Durability,
    /// How far the log may grow before what it holds is written in its place, with KiB, MiB or GiB
    /// [default: what the engine says]. Engines without such a log ignore it.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(super) log_limit: Option<u64>,
    /// Put what is printed into the section KEY of a document of results as well, with the command
    /// line, the day and the machine: docs/results.md#lookups.
    #[arg(long, value_name = "FILE#KEY")]
    pub(super) record: Option<Place>,
}

/// What all workloads on records take.
#[derive(Debug, Args)]
pub(super) struct CommonArgs {
    /// Records in the store, each with an 8-byte key (10M = 10 million) [default: 1M].
    #[arg(long, value_name = "COUNT", value_parser = some_count)]
    pub(super) records: Option<u64>,
    /// Bytes of each value [default: 120].
    #[arg(long, value_name = "BYTES", value_parser = value_size)]
    pub(super) value_size: Option<usize>,
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// Which records are asked for [default: what the workload says].
    #[arg(long, value_enum)]
    pub(super) dist: Option<Dist>,
    /// Exponent of zipfian and latest, above 0: the record of rank k is asked for in proportion
    /// to 1 / k^theta [default: 0.99, YCSB's].
    #[arg(long, value_parser = theta)]
    pub(super) theta: Option<f64>,
    /// How the data gets in before a workload that reads [default: sorted].
    #[arg(long, value_enum)]
    pub(super) load: Option<LoadOrder>,
    /// Bytes of the file of engine `device`, with KiB, MiB or GiB [default: keys, values and 16
    /// bytes for each record; for commit, 64 MiB].
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(super) device_size: Option<u64>,
    /// Records that a commit writes; for commit alone, at most a million [default: 1].
    #[arg(long, value_name = "COUNT", value_parser = batch)]
    pub(super) batch: Option<u64>,
    /// Operations that should begin in each second, in all threads together, evenly spaced,
    /// whatever became of those before (an open loop); their latencies count from when they should
    /// have begun. For lookup, ycsb-a to ycsb-f and commit [default: each thread begins one when
    /// its last has ended].
    #[arg(long, value_name = "COUNT", value_parser = some_count)]
    pub(super) rate: Option<u64>,
}

/// What TPC-C takes beside what every run does.
#[derive(Debug, Default, Args)]
pub(super) struct TpccOptions {
    /// Warehouses of TPC-C, about 120 MB each [default: 10].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(super) warehouses: Option<u16>,
    /// Transactions of TPC-C: standard (45% new-order, 43% payment, 4% each of order-status,
    /// delivery and stock-level), or percentages of new-order and stock-level alone, as in 20:80
    /// [default: standard].
    #[arg(long, value_name = "MIX")]
    pub(super) mix: Option<Mix>,
    /// Each thread of TPC-C keeps to home warehouses of its own, which it shares with none if there
    /// are enough; else each transaction has its home in any.
    #[arg(long)]
    pub(super) affinity: bool,
    /// Do not look at the consistency conditions of TPC-C behind each round.
    #[arg(long)]
    pub(super) no_check: bool,
}

/// What a single run of TPC-C takes.
#[derive(Debug, Args)]
pub(super) struct TpccArgs {
    /// The engine, one of Polder, with what may stand behind its name.
    #[arg(long, value_name = "NAME", default_value = "polder:array")]
    pub(super) engine: String,
    /// Seconds to measure.
    #[arg(long, default_value = "10", value_parser = parse_some_seconds)]
    pub(super) seconds: f64,
    #[command(flatten)]
    pub(super) tpcc: TpccOptions,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

/// What a single run takes.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The engine, with what may stand behind its name.
    #[arg(long, value_name = "NAME", default_value = "polder:array")]
    pub(super) engine: String,
    /// Seconds to measure; load and bulk take as long as they take.
    #[arg(long, default_value = "10", value_parser = parse_some_seconds)]
    pub(super) seconds: f64,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// What restarts take.
#[derive(Debug, Args)]
pub(super) struct RestartArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// How often each side has its turn, 1 to 1000.
    #[arg(long, value_name = "COUNT", default_value = "3",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
}

/// What a comparison takes.
#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// The workload.
    #[arg(value_enum)]
    pub(super) bench: Bench,
    /// Engines, with commas between; ratios are to the first. To compare replacement policies:
    /// polder:array,polder:array+lru,polder:array+watt.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
    pub(super) engines: Vec<String>,
    /// How often each engine has its turn, 1 to 1000.
    #[arg(long, value_name = "COUNT", default_value = "9",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
    /// Seconds of each turn; load and bulk take as long as they take.
    #[arg(long, default_value = "3", value_parser = parse_some_seconds)]
    pub(super) seconds: f64,
    #[command(flatten)]
    pub(super) tpcc: TpccOptions,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// What a replay takes.
#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// Files; zipf:THETA for a made trace of --requests to --pages; tpcc-like for the pages that
    /// the transactions of TPC-C come to on ten warehouses; leanstore-vi-b for the lookups of
    /// leanstore-2018, VI-B at full size, with what the paper says beside each figure.
    #[arg(value_name = "TRACE", required = true)]
    pub(super) traces: Vec<String>,
    #[arg(long, value_name = "POLICIES", value_delimiter = ',', help = policy_help())]
    pub(super) policy: Vec<ReplacementKind>,
    /// Frames of the pool, with commas between; each page takes one.
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = some_count)]
    pub(super) frames: Vec<u64>,
    /// Sizes of a cache that counts bytes, with KiB, MiB or GiB, and commas between. For traces
    /// whose objects know their sizes, and for the references alone: policies know frames.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = some_bytes)]
    pub(super) bytes: Vec<u64>,
    /// How requests stand in files; each may be packed with zstd (.zst) [default: by the name:
    /// .lis, .bin or .oracleGeneral, .spc, else ids].
    #[arg(long, value_enum)]
    pub(super) format: Option<Format>,
    /// Pages of a zipf trace [default: 1M].
    #[arg(long, value_name = "COUNT", value_parser = some_count)]
    pub(super) pages: Option<u64>,
    /// How many requests of a zipf trace in a hundred change their page [default: 0].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(super) writes: Option<u8>,
    /// Requests of a made trace; the first fifth fills the cache and is not counted [default: 20M].
    #[arg(long, value_name = "COUNT", value_parser = some_count)]
    pub(super) requests: Option<u64>,
    /// Print JSON, a line for each result.
    #[arg(long)]
    pub(super) json: bool,
    /// Put what is printed into the section KEY of a document of results as well, with the command
    /// line, the day and the machine: docs/results.md#lookups.
    #[arg(long, value_name = "FILE#KEY")]
    pub(super) record: Option<Place>,
}

/// What the ladder takes.
#[cfg(feature = "translations")]
#[derive(Debug, Args)]
pub(super) struct TranslationsArgs {
    #[command(flatten)]
    pub(super) terms: Terms,
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help = parts_help())]
    pub(super) parts: Vec<String>,
    /// A translation, or a step or a read mode that a part has as one of its sides; all others
    /// have no turn. May be given several times.
    #[arg(long, value_name = "NAME")]
    pub(super) side: Vec<String>,
    /// A file with what `scripts/shared-writes --json` printed, to be shown and judged with the
    /// rest: what lookups write to cache lines that other threads use.
    #[arg(long, value_name = "FILE")]
    pub(super) writes: Option<PathBuf>,
    /// A file with a graph for the part files: a line `nodes,edges`, then an edge `source,target` a
    /// line, counted from 1; packed by gzip or not. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub(super) graph: Vec<PathBuf>,
    /// Directory in which a directory of this run is made and, at the end, removed
    /// [default: the current one].
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Directory of the two files, in which there must be none from another run [default: the
    /// current one].
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Print what stands in translations.json, and not the table of the criteria.
    #[arg(long)]
    pub(super) json: bool,
    /// Put the table of the criteria, and all medians, into the section KEY of a document of results as
    /// well, with the command line, the day and the machine: docs/results.md#lookups.
    #[arg(long, value_name = "FILE#KEY")]
    pub(super) record: Option<Place>,
}

fn replacement_help() -> String {
    format!(
        "Which pages Polder evicts when room is needed: {} [default: {}]. An engine can say otherwise \
         by its name, as in polder:array+lru",
        ReplacementKind::names(),
        ReplacementKind::default(),
    )
}

fn hold_help() -> String {
    format!(
        "How Polder's readers hold pages: {} [default: {}]. An engine can say otherwise by its name, \
         as in polder:array+group",
        ReadMode::names(),
        ReadMode::default(),
    )
}

fn policy_help() -> String {
    format!("Policies, with commas between: {} [default: all]", ReplacementKind::names())
}

#[cfg(feature = "translations")]
fn parts_help() -> String {
    format!("Parts, with commas between: {} [default: all; files only with --graph]", Part::names())
}

fn some_count(text: &str) -> Result<u64, String> {
    match parse_count(text)? {
        0 => Err("at least one is needed".to_owned()),
        count => Ok(count),
    }
}

fn some_bytes(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        0 => Err("at least one byte is needed".to_owned()),
        bytes => Ok(bytes),
    }
}

fn batch(text: &str) -> Result<u64, String> {
    const MOST: u64 = 1_000_000;
    match some_count(text)? {
        count if count > MOST => Err("a commit writes at most a million records".to_owned()),
        count => Ok(count),
    }
}

fn value_size(text: &str) -> Result<usize, String> {
    const MOST: u64 = 64 << 20;
    match parse_bytes(text)? {
        bytes if bytes > MOST => Err("values have at most 64 MiB".to_owned()),
        bytes => Ok(bytes as usize),
    }
}

pub(super) fn theta(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(theta) if theta > 0.0 && theta <= 10.0 => Ok(theta),
        _ => Err("a number above 0, at most 10".to_owned()),
    }
}
