//! The command line.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use indicatif::ProgressBar;
use polder::{Hold, ReplacementKind};
use tempfile::TempDir;

use crate::bed::Bed;
use crate::bench::Bench;
use crate::compare::Contest;
use crate::counters::Counters;
use crate::dist::{Dist, YCSB_THETA};
use crate::durability::Durability;
use crate::engine::{EngineKind, Named, device};
use crate::error::BenchError;
use crate::interrupt::{self, Interrupt};
use crate::ladder;
use crate::plan::{self, Plan};
use crate::report::RunResult;
use crate::worker;

mod args;
mod replay;
mod translations;

use args::{Cli, Command, CommonArgs, CompareArgs, DeviceArgs, RunArgs};

/// The engine of a single run, where none is named and it is there.
const DEFAULT_ENGINE: &str = "polder:array";
/// Seconds of a warm-up, where nothing else is said.
const DEFAULT_WARMUP_SECONDS: f64 = 1.0;
/// The arguments that name engines.
const ENGINE_ARGS: [&str; 2] = ["engine", "engines"];

/// See [`crate::run`].
pub(crate) fn run(program: &'static str, engines: &[EngineKind]) -> ExitCode {
    let cli = match parse(program, engines, std::env::args_os()) {
        Ok(cli) => cli,
        // Help and version come here too; clap knows where to write and which status to give.
        Err(error) => error.exit(),
    };
    match execute(cli.command, engines) {
        Ok(()) => ExitCode::SUCCESS,
        Err(BenchError::Interrupted) => ExitCode::from(interrupt::EXIT_STATUS),
        Err(error) => {
            let _ = writeln!(io::stderr(), "{program}: {error}");
            match error {
                BenchError::Options(_) | BenchError::NoSuchEngine { .. } => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Reads arguments; the engines are listed at the end of the help of each command that takes one.
fn parse(
    program: &'static str,
    engines: &[EngineKind],
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
) -> Result<Cli, clap::Error> {
    let mut list = "Engines:\n".to_owned();
    for engine in engines {
        list += &format!("  {:<17} {}\n", engine.name, engine.about);
    }
    list += &format!(
        "\nBehind an engine of Polder may stand which pages go when room is needed, and how readers\n\
         hold pages, in place of --replacement and --hold: polder:array+lru, polder:simd+2q+group.\n\
         Policies: {}. Ways: {}.\n",
        words(&ReplacementKind::ALL),
        words(&Hold::ALL),
    );
    let command = Cli::command().name(program).bin_name(program).after_help(list.clone());
    let command = command.mut_subcommands(|sub| {
        let takes_engines =
            sub.get_arguments().any(|arg| ENGINE_ARGS.contains(&arg.get_id().as_str()));
        if takes_engines { sub.after_help(list.clone()) } else { sub }
    });
    Cli::from_arg_matches(&command.try_get_matches_from(arguments)?)
}

/// All of them, with commas between.
fn words(all: &[impl ToString]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Refuses what stands in a list twice.
fn each_once<T: PartialEq + fmt::Display>(option: &str, list: &[T]) -> Result<(), BenchError> {
    match list.iter().enumerate().find(|(i, value)| list[..*i].contains(value)) {
        Some((_, twice)) => Err(BenchError::Options(format!("{option} names {twice} twice"))),
        None => Ok(()),
    }
}

/// The engine of this name, with what `--replacement` and `--hold` say.
fn named(engines: &[EngineKind], name: &str, args: &CommonArgs) -> Result<Named, BenchError> {
    Named::find(engines, name)?.or(args.replacement, args.hold)
}

fn execute(command: Command, engines: &[EngineKind]) -> Result<(), BenchError> {
    let (bench, args) = match command {
        Command::Worker => return worker::run(engines),
        Command::Compare(args) => return compare(&args, engines),
        Command::Device(args) => return raw_device(&args),
        Command::Replay(args) => return replay::run(&args),
        Command::Translations(args) => return translations::run(&args),
        Command::TranslationsChild => return ladder::child(),
        Command::Load(args) => (Bench::Load, args),
        Command::Bulk(args) => (Bench::Bulk, args),
        Command::Scan(args) => (Bench::Scan, args),
        Command::Lookup(args) => (Bench::Lookup, args),
        Command::YcsbA(args) => (Bench::YcsbA, args),
        Command::YcsbB(args) => (Bench::YcsbB, args),
        Command::YcsbC(args) => (Bench::YcsbC, args),
        Command::YcsbD(args) => (Bench::YcsbD, args),
        Command::YcsbE(args) => (Bench::YcsbE, args),
        Command::YcsbF(args) => (Bench::YcsbF, args),
        Command::Commit(args) => (Bench::Commit, args),
    };
    single(bench, &args, engines)
}

/// One engine, one round, in this process.
fn single(bench: Bench, args: &RunArgs, engines: &[EngineKind]) -> Result<(), BenchError> {
    let default = || engines.iter().find(|engine| engine.name == DEFAULT_ENGINE);
    let name = match (&args.engine, default().or(engines.first())) {
        (Some(name), _) => name,
        (None, Some(kind)) => kind.name,
        (None, None) => return Err(BenchError::Options("there are no engines".to_owned())),
    };
    let named = named(engines, name, &args.common)?;
    check_device_size(&args.common, &[named])?;
    let dir = run_dir(args.common.dir.as_deref())?;
    let plan = resolve(bench, named, args.seconds, &args.common, dir.path())?;
    check_counters(plan.counters);
    let result = one_round(named, &plan)?;
    show(&result, args.common.json)
}

fn raw_device(args: &DeviceArgs) -> Result<(), BenchError> {
    let dir = run_dir(args.dir.as_deref())?;
    let plan = Plan {
        bench: Bench::Lookup,
        engine: device::KIND.name.to_owned(),
        dir: dir.path().to_owned(),
        records: args.size.div_ceil(device::PAGE_BYTES as u64),
        value_size: 0,
        pool_bytes: 0,
        prefault: false,
        threads: args.threads,
        seconds: args.seconds,
        warmup_seconds: 0.0,
        dist: Bench::Lookup.dist(),
        theta: YCSB_THETA,
        load: plan::LoadOrder::Sorted,
        seed: args.seed,
        counters: false,
        device_bytes: Some(args.size),
        durability: Durability::None,
        log_limit_bytes: None,
        batch: 1,
        rate: None,
    };
    let result = one_round(device::KIND.into(), &plan)?;
    show(&result, args.json)
}

fn one_round(named: Named, plan: &Plan) -> Result<RunResult, BenchError> {
    let interrupt = listen()?;
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(std::time::Duration::from_millis(200));
    let tell = |what: &str| spinner.set_message(format!("{}: {what}", plan.engine));
    let mut bed = Bed::new(named, plan, &interrupt);
    bed.prepare(&tell)?;
    let result = bed.round(&tell)?;
    spinner.finish_and_clear();
    Ok(result)
}

fn compare(args: &CompareArgs, engines: &[EngineKind]) -> Result<(), BenchError> {
    let interrupt = listen()?;
    let dir = run_dir(args.common.dir.as_deref())?;
    let (mut plans, mut all): (Vec<Plan>, Vec<Named>) = (Vec::new(), Vec::new());
    for name in &args.engines {
        let named = named(engines, name, &args.common)?;
        if let Some(same) = all.iter().find(|other| other.is_same(&named)) {
            let why = match same.to_string() == named.to_string() {
                true => format!("{named} is named twice"),
                false => format!("{same} and {named} are the same"),
            };
            return Err(BenchError::Options(why));
        }
        all.push(named);
        plans.push(resolve(args.bench, named, args.seconds, &args.common, dir.path())?);
    }
    check_device_size(&args.common, &all)?;
    check_counters(args.common.counters);
    let contest = Contest { plans, rounds: args.rounds as usize, program: own_program()? };
    let json = args.common.json;
    let mut report = |result: &RunResult| if json { show(result, true) } else { Ok(()) };
    let comparison = contest.run(&interrupt, &mut report)?;
    if json { print(&to_json(&comparison)?) } else { print(comparison.table().trim_end()) }
}

/// All options of one engine's part.
fn resolve(
    bench: Bench,
    named: Named,
    seconds: f64,
    args: &CommonArgs,
    dir: &Path,
) -> Result<Plan, BenchError> {
    if args.dist.is_some() && bench.dist().is_none() {
        let why = format!("{} touches all records: --dist means nothing to it", bench.name());
        return Err(BenchError::Options(why));
    }
    if args.batch > 1 && bench != Bench::Commit {
        return Err(BenchError::Options(format!("--batch is for commit, not {}", bench.name())));
    }
    if args.rate.is_some() && bench.mix().is_none() {
        let why = format!("{} goes as fast as it can: it has no --rate", bench.name());
        return Err(BenchError::Options(why));
    }
    if bench.fills() && (args.load.is_some() || args.warmup.is_some()) {
        let why = format!("{} begins with nothing: it has no --load or --warmup", bench.name());
        return Err(BenchError::Options(why));
    }
    if args.threads > 1 && bench == Bench::Bulk {
        let why = "bulk loads by one thread: it has no --threads";
        return Err(BenchError::Options(why.to_owned()));
    }
    let dist = args.dist.or(bench.dist());
    if args.theta.is_some() && !matches!(dist, Some(Dist::Zipfian | Dist::Latest)) {
        let dist = dist.map_or("all records", Dist::name);
        let why = format!("--theta is for zipfian and latest; {} asks for {dist}", bench.name());
        return Err(BenchError::Options(why));
    }
    named.kind.can_run(bench, args.durability).map_err(BenchError::Options)?;
    let commit_bytes = (bench == Bench::Commit).then_some(device::COMMIT_BYTES);
    let ample = || plan::ample_pool_bytes(args.records, args.value_size);
    Ok(Plan {
        bench,
        engine: named.to_string(),
        dir: dir.to_owned(),
        records: args.records,
        value_size: args.value_size,
        pool_bytes: args.pool.unwrap_or_else(ample),
        prefault: args.prefault,
        threads: args.threads,
        seconds,
        warmup_seconds: args.warmup.unwrap_or(DEFAULT_WARMUP_SECONDS),
        dist,
        theta: args.theta.unwrap_or(YCSB_THETA),
        load: args.load.unwrap_or(plan::LoadOrder::Sorted),
        seed: args.seed,
        counters: args.counters,
        device_bytes: args.device_size.or(commit_bytes),
        durability: args.durability,
        log_limit_bytes: args.log_limit,
        batch: args.batch,
        rate: args.rate,
    })
}

/// The file of `device` has a size where that is one of the engines.
fn check_device_size(args: &CommonArgs, all: &[Named]) -> Result<(), BenchError> {
    let has_device = all.iter().any(|named| named.kind.name == device::KIND.name);
    if args.device_size.is_some() && !has_device {
        let why = "--device-size is for the engine device, which is not asked for";
        return Err(BenchError::Options(why.to_owned()));
    }
    Ok(())
}

/// A directory of this run alone, removed with everything in it when dropped.
fn run_dir(parent: Option<&Path>) -> Result<TempDir, BenchError> {
    let here = PathBuf::from(".");
    let parent = parent.unwrap_or(&here);
    let made = parent
        .canonicalize()
        .and_then(|parent| tempfile::Builder::new().prefix("polder-bench-").tempdir_in(parent));
    made.map_err(BenchError::file(parent))
}

/// This program, to be run as worker. On Linux it is what runs here, also if another build has
/// taken its place meanwhile.
fn own_program() -> Result<PathBuf, BenchError> {
    let itself = Path::new("/proc/self/exe");
    if cfg!(target_os = "linux") {
        return Ok(itself.to_owned());
    }
    std::env::current_exe().map_err(BenchError::file(itself))
}

fn listen() -> Result<Interrupt, BenchError> {
    Interrupt::listen().map_err(BenchError::file(Path::new("signals")))
}

/// Says once if counters were asked for and there are none.
fn check_counters(wanted: bool) {
    if let (true, Err(error)) = (wanted, Counters::open()) {
        let _ = writeln!(
            io::stderr(),
            "no counters here: {error} (perf_event_open; see /proc/sys/kernel/perf_event_paranoid)"
        );
    }
}

fn show(result: &RunResult, json: bool) -> Result<(), BenchError> {
    if json { print(&to_json(result)?) } else { print(result.table().trim_end()) }
}

fn to_json(value: &impl serde::Serialize) -> Result<String, BenchError> {
    serde_json::to_string(value).map_err(|error| BenchError::Options(error.to_string()))
}

fn print(text: &str) -> Result<(), BenchError> {
    let mut out = io::stdout().lock();
    let printed = writeln!(out, "{text}").and_then(|()| out.flush());
    printed.map_err(BenchError::file(Path::new("standard output")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::built_in;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        let arguments = line.split_whitespace().map(Into::into);
        super::parse("polder-bench", &built_in(), arguments)
    }

    /// The plan of a single run of an engine.
    fn plan(line: &str, engine: &str) -> Result<Plan, BenchError> {
        let (bench, args) = match parse(line).unwrap().command {
            Command::Lookup(args) => (Bench::Lookup, args),
            Command::Load(args) => (Bench::Load, args),
            Command::Bulk(args) => (Bench::Bulk, args),
            Command::Scan(args) => (Bench::Scan, args),
            Command::YcsbA(args) => (Bench::YcsbA, args),
            Command::Commit(args) => (Bench::Commit, args),
            other => panic!("{other:?}"),
        };
        let named = named(&built_in(), engine, &args.common)?;
        resolve(bench, named, args.seconds, &args.common, Path::new("d"))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_are_resolved_to_a_plan() {
        let line = "x ycsb-a --records 10M --value-size 100 --pool 64MiB --threads 2 --theta 0.9";
        let plan = plan(line, "polder:array").unwrap();
        assert_eq!((plan.records, plan.value_size, plan.threads), (10_000_000, 100, 2));
        assert_eq!((plan.pool_bytes, plan.theta), (64 << 20, 0.9));
        assert_eq!(plan.dist, Some(Dist::Zipfian));
        assert!(!plan.is_resident());
    }

    #[test]
    fn commits_have_a_durability_a_batch_and_a_rate() {
        let line = "x commit --durability sync --batch 1000 --rate 20k --log-limit 4GiB";
        let found = plan(line, "device").unwrap();
        assert_eq!(found.durability, Durability::Sync);
        assert_eq!((found.batch, found.rate), (1000, Some(20_000)));
        assert_eq!(found.log_limit_bytes, Some(4 << 30));
        assert_eq!(found.device_bytes, Some(64 << 20));
        assert_eq!(found.dist, Some(Dist::Uniform));
        let found = plan("x commit", "polder:array").unwrap();
        assert_eq!((found.durability, found.batch, found.rate), (Durability::None, 1, None));
    }

    #[test]
    fn a_plan_travels_to_a_worker_as_it_is() {
        let line = "x commit --durability sync --rate 5 --log-limit 1MiB";
        let found = plan(line, "device").unwrap();
        let json = serde_json::to_string(&found).unwrap();
        let back: Plan = serde_json::from_str(&json).unwrap();
        assert_eq!(format!("{back:?}"), format!("{found:?}"));
    }

    #[test]
    fn without_a_pool_everything_is_resident() {
        let plan = plan("x lookup", "polder:array").unwrap();
        assert!(plan.is_resident());
        assert_eq!(plan.dist, Some(Dist::Uniform));
    }

    #[test]
    fn comparisons_take_a_list_of_engines() {
        let line = "x compare lookup --engines a,b --rounds 3 --seconds 0.5 --json";
        let Ok(Cli { command: Command::Compare(args) }) = parse(line) else { panic!("not parsed") };
        assert_eq!((args.bench, args.rounds, args.seconds), (Bench::Lookup, 3, 0.5));
        assert_eq!(args.engines, ["a", "b"]);
        assert!(args.common.json);
    }

    #[test]
    fn senseless_arguments_are_refused() {
        for line in [
            "x lookup --threads 0",
            "x lookup --records 0",
            "x lookup --theta 0",
            "x lookup --seconds 0",
            "x lookup --pool 5MB",
            "x commit --durability always",
            "x commit --batch 0",
            "x commit --batch 2M",
            "x commit --rate 0",
            "x commit --log-limit 4GB",
            "x compare lookup",
            "x compare lookup --engines a --rounds 0",
            "x ycsb-g",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        for line in [
            "x load --dist uniform",
            "x load --rate 1000",
            "x ycsb-a --batch 10",
            "x load --load sorted",
            "x bulk --warmup 0",
            "x bulk --threads 2",
            "x lookup --theta 0.9",
            "x ycsb-a --dist uniform --theta 0.9",
            "x scan --theta 0.9",
        ] {
            let refused = plan(line, "polder:array");
            assert!(matches!(refused, Err(BenchError::Options(_))), "{line}");
        }
        for line in ["x lookup --dist latest --theta 0.9", "x bulk --threads 1"] {
            assert!(plan(line, "polder:array").is_ok(), "{line}");
        }
        assert!(plan("x ycsb-a", "device").is_err());
        assert!(plan("x lookup", "nobody").is_err());
        for (option, possible) in [("--replacement arc", "hyperbolic"), ("--hold hard", "shared")] {
            let why = parse(&format!("x lookup {option}")).unwrap_err().to_string();
            assert!(why.contains(possible), "{why}");
        }
        for option in ["--replacement lru", "--hold shared"] {
            let refused = plan(&format!("x lookup {option}"), "device");
            let Err(BenchError::Options(why)) = refused else { panic!("{option}") };
            assert!(why.starts_with("device is not Polder"), "{why}");
        }
    }

    #[test]
    fn a_size_of_the_device_is_for_the_device() {
        let args = parse("x commit --device-size 1MiB").unwrap().command;
        let Command::Commit(args) = args else { panic!("not parsed") };
        let of = |name: &str| named(&built_in(), name, &args.common).unwrap();
        let (device, array) = (of("device"), of("polder:array"));
        assert!(check_device_size(&args.common, &[array]).is_err());
        assert!(check_device_size(&args.common, &[array, device]).is_ok());
    }

    #[test]
    fn a_plan_names_its_policy_and_its_hold() {
        let plan = plan("x lookup --replacement cooling --hold shared", "polder:hash").unwrap();
        assert_eq!(plan.engine, "polder:hash+cooling:10+shared");
    }

    #[test]
    fn an_engine_is_made_as_it_is_named() {
        let tells = EngineKind {
            name: "polder:array",
            create: |setup| {
                let name = setup.dir.file_name().unwrap_or_default().display();
                Err(format!("{name} with {} and {}", setup.replacement, setup.hold).into())
            },
            ..device::KIND
        };
        let args = parse("x lookup --hold core").unwrap().command;
        let Command::Lookup(args) = args else { panic!("not parsed") };
        let named = named(&[tells], "polder:array+cooling:20", &args.common).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let plan = resolve(Bench::Lookup, named, args.seconds, &args.common, dir.path()).unwrap();
        let made = Bed::new(named, &plan, &Interrupt::silent()).prepare(&|_| ());
        let told = made.unwrap_err().to_string();
        assert!(told.ends_with("polder-array+cooling-20+core with cooling:20 and core"), "{told}");
    }

    #[test]
    fn the_help_names_the_engines_where_there_is_a_choice() {
        let help = |command: &str| parse(&format!("x {command} --help")).unwrap_err().to_string();
        for command in ["", "compare", "lookup", "load", "commit"] {
            let help = help(command);
            assert!(help.contains("polder:vm-huge") && help.contains("+2q+group"), "{help}");
            assert!(help.contains("hyperbolic") && help.contains("optimistic"), "{help}");
        }
        for command in ["replay", "translations", "device"] {
            assert!(!help(command).contains("polder:"), "{command}");
        }
    }

    #[test]
    fn what_stands_twice_in_a_list_is_named() {
        assert!(each_once("--threads", &[1, 2, 11]).is_ok());
        let Err(BenchError::Options(why)) = each_once("--threads", &[1, 2, 1]) else { panic!() };
        assert_eq!(why, "--threads names 1 twice");
    }
}
