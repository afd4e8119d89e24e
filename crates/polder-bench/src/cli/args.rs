//! The arguments, with their units and defaults.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use polder::ReplacementKind;
use polder_pool::FrameId;

use crate::bench::Bench;
#[cfg(feature = "translations")]
use crate::ladder::{Part, Terms};
use crate::plan::Plan;
use crate::record::Place;
use crate::replay::{Format, MOST_REQUESTS};
use crate::size::{parse_bytes, parse_count, parse_some_seconds, within};

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
    /// A workload, in one round on one engine. There is a command of its name for each.
    #[command(skip)]
    Workload(Bench, RunArgs),
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

/// Where results go.
#[derive(Debug, Args)]
pub(super) struct Output {
    /// Print JSON, a line for each result.
    #[arg(long)]
    pub(super) json: bool,
    /// Put what is printed for people into the section KEY of a document of results as well, with the
    /// command line, the day and the machine: docs/results.md#lookups.
    #[arg(long, value_name = "FILE#KEY")]
    pub(super) record: Option<Place>,
}

/// Where runs work.
#[derive(Debug, Args)]
pub(super) struct WorkDir {
    /// Directory in which a directory of this run is made and, at the end, removed.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(super) dir: PathBuf,
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
    pub(super) plan: Plan,
    #[command(flatten)]
    pub(super) work: WorkDir,
    #[command(flatten)]
    pub(super) output: Output,
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
    pub(super) plan: Plan,
    #[command(flatten)]
    pub(super) work: WorkDir,
    #[command(flatten)]
    pub(super) output: Output,
}

/// What a replay takes.
#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// Files; zipf:THETA for a made trace of --requests to --pages; tpcc-like for the pages that
    /// the transactions of TPC-C come to on ten warehouses; leanstore-vi-b for the lookups of
    /// leanstore-2018, VI-B at full size.
    #[arg(value_name = "TRACE", required = true)]
    pub(super) traces: Vec<String>,
    #[arg(long, value_name = "POLICIES", value_delimiter = ',', help = policy_help())]
    pub(super) policy: Vec<ReplacementKind>,
    /// Frames of the pool, with commas between; each page takes one.
    #[arg(long, value_name = "COUNTS", value_delimiter = ',',
          value_parser = some_at_most(FrameId::MAX.get()))]
    pub(super) frames: Vec<u32>,
    /// Sizes of a cache that counts bytes, with KiB, MiB or GiB, and commas between. For traces
    /// whose objects know their sizes, and for the references alone: policies know frames.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = within(parse_bytes, 1..=u64::MAX))]
    pub(super) bytes: Vec<u64>,
    /// How requests stand in files; each may be packed with zstd (.zst) [default: by the name:
    /// .lis, .bin or .oracleGeneral, .spc, else ids].
    #[arg(long, value_enum)]
    pub(super) format: Option<Format>,
    /// Pages of a zipf trace [default: 1M].
    #[arg(long, value_name = "COUNT", value_parser = some_at_most(u32::MAX))]
    pub(super) pages: Option<u32>,
    /// How many requests of a zipf trace in a hundred change their page [default: 0].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(super) writes: Option<u8>,
    /// Requests of a made trace; the first fifth fills the cache and is not counted [default: 20M].
    #[arg(long, value_name = "COUNT", value_parser = some_at_most(MOST_REQUESTS))]
    pub(super) requests: Option<u32>,
    #[command(flatten)]
    pub(super) output: Output,
}

/// What the ladder takes.
#[cfg(feature = "translations")]
#[derive(Debug, Args)]
pub(super) struct TranslationsArgs {
    #[command(flatten)]
    pub(super) terms: Terms,
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = Part::find,
          help = parts_help())]
    pub(super) parts: Vec<&'static Part>,
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
    #[command(flatten)]
    pub(super) work: WorkDir,
    /// Directory of the two files, in which there must be none from another run.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(super) out: PathBuf,
    /// JSON is what stands in translations.json; for people there is the table of the criteria, which
    /// is recorded with all medians.
    #[command(flatten)]
    pub(super) output: Output,
}

fn policy_help() -> String {
    format!("Policies, with commas between: {} [default: all]", ReplacementKind::names())
}

#[cfg(feature = "translations")]
fn parts_help() -> String {
    format!("Parts, with commas between: {} [default: all; files only with --graph]", Part::names())
}

/// A count that is not zero, and at most so large.
fn some_at_most(most: u32) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| within(parse_count, 1..=most.into())(text).map(|count| count as u32)
}
