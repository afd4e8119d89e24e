//! The command line.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use indicatif::ProgressBar;
use polder::{ReadMode, ReplacementKind};
use tempfile::TempDir;

use crate::bed::Bed;
use crate::bench::Bench;
use crate::compare::Contest;
use crate::counters::Counters;
use crate::engine::{self, EngineKind, Named};
use crate::error::BenchError;
use crate::interrupt::{self, Interrupt};
#[cfg(feature = "translations")]
use crate::ladder;
use crate::plan::Plan;
use crate::record::Place;
use crate::report::RunResult;
use crate::restart::{self, RestartPlan};
use crate::worker;

mod args;
mod replay;
mod resolve;
#[cfg(feature = "translations")]
mod translations;

use args::{Cli, Command, CompareArgs, RestartArgs, RunArgs, StoreArgs, TpccArgs};
use resolve::{check_device_size, check_options, resolve, resolve_tpcc};

/// Seconds in which the device is measured beside something.
const DEVICE_SECONDS: f64 = 2.0;
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
         Policies: {}. Read modes: {}.\n\
         +many, or +many:OPS, has each client collect operations of one kind and make them by one call.\n\
         +ref has values read where they lie, each byte of them: by polder:* and lmdb.\n",
        ReplacementKind::names(),
        ReadMode::names(),
    );
    let command = Cli::command().name(program).bin_name(program).after_help(list.clone());
    let command = command.mut_subcommands(|sub| {
        let takes_engines =
            sub.get_arguments().any(|arg| ENGINE_ARGS.contains(&arg.get_id().as_str()));
        if takes_engines { sub.after_help(list.clone()) } else { sub }
    });
    Cli::from_arg_matches(&command.try_get_matches_from(arguments)?)
}

/// Refuses what stands in a list twice.
fn each_once<T: PartialEq + fmt::Display>(option: &str, list: &[T]) -> Result<(), BenchError> {
    match list.iter().enumerate().find(|(i, value)| list[..*i].contains(value)) {
        Some((_, twice)) => Err(BenchError::Options(format!("{option} names {twice} twice"))),
        None => Ok(()),
    }
}

/// The engine of this name, with what `--replacement` and `--hold` say.
fn named(engines: &[EngineKind], name: &str, args: &StoreArgs) -> Result<Named, BenchError> {
    Named::find(engines, name)?.or(args.replacement, args.hold)
}

fn execute(command: Command, engines: &[EngineKind]) -> Result<(), BenchError> {
    let (bench, args) = match command {
        Command::Worker => return worker::run(engines),
        Command::Compare(args) => return compare(&args, engines),
        Command::Replay(args) => return replay::run(&args),
        #[cfg(feature = "translations")]
        Command::Translations(args) => return translations::run(&args),
        #[cfg(feature = "translations")]
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
        Command::Tpcc(args) => return tpcc(&args, engines),
        Command::Restart(args) => return restart(&args, engines),
    };
    single(bench, &args, engines)
}

/// One engine, one round, in this process.
fn single(bench: Bench, args: &RunArgs, engines: &[EngineKind]) -> Result<(), BenchError> {
    let named = named(engines, &args.engine, &args.common.store)?;
    check_device_size(&args.common, &[named])?;
    run_one(named, &args.common.store, |dir| resolve(bench, named, args.seconds, &args.common, dir))
}

fn tpcc(args: &TpccArgs, engines: &[EngineKind]) -> Result<(), BenchError> {
    let named = named(engines, &args.engine, &args.store)?;
    run_one(named, &args.store, |dir| {
        resolve_tpcc(named, (args.seconds, args.seconds), &args.tpcc, &args.store, dir)
    })
}

fn restart(args: &RestartArgs, engines: &[EngineKind]) -> Result<(), BenchError> {
    let (common, store) = (&args.run.common, &args.run.common.store);
    let named = named(engines, &args.run.engine, store)?;
    let Some(translation) = engine::translation_of(named.kind.name) else {
        return Err(BenchError::Options(format!("{named} is not Polder: restart is for Polder")));
    };
    let said = [
        ("--dist", common.dist.is_some()),
        ("--load", common.load.is_some()),
        ("--rate", common.rate.is_some()),
        ("--batch", common.batch.is_some()),
        ("--device-size", common.device_size.is_some()),
        ("--counters", store.counters),
        ("--prefault", store.prefault),
        ("--log-limit", store.log_limit.is_some()),
        ("+many", named.many() > 1),
    ];
    if let Some((option, _)) = said.iter().find(|(_, is_said)| *is_said) {
        return Err(BenchError::Options(format!("restart has no {option}")));
    }
    let dir = run_dir(store.dir.as_deref())?;
    let plan = resolve(Bench::YcsbC, named, args.run.seconds, common, dir.path())?;
    let beside = Named::find(engines, engine::device::KIND.name)?;
    let beside_plan = Plan {
        bench: Bench::Lookup,
        engine: beside.to_string(),
        seconds: DEVICE_SECONDS,
        warmup_seconds: 0.0,
        dist: Bench::Lookup.dist(),
        ..plan.clone()
    };
    let device = one_round(beside, &beside_plan)?;
    let interrupt = listen()?;
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(std::time::Duration::from_millis(200));
    let tell = |what: &str| spinner.set_message(format!("{}: {what}", plan.engine));
    let restarts = RestartPlan {
        engine: plan.engine.clone(),
        records: plan.records,
        value_size: plan.value_size,
        pool_bytes: plan.pool_bytes,
        threads: plan.threads,
        seconds: plan.seconds,
        warmup_seconds: plan.warmup_seconds,
        rounds: args.rounds,
        theta: plan.theta,
        seed: plan.seed,
    };
    let result = restart::run(
        restarts,
        (named, translation),
        dir.path(),
        device.ops_per_s,
        &interrupt,
        &tell,
    )?;
    spinner.finish_and_clear();
    show(&result, &result.table(), store)
}

fn run_one(
    named: Named,
    args: &StoreArgs,
    plan: impl FnOnce(&Path) -> Result<Plan, BenchError>,
) -> Result<(), BenchError> {
    let dir = run_dir(args.dir.as_deref())?;
    let plan = plan(dir.path())?;
    check_counters(plan.counters);
    let result = one_round(named, &plan)?;
    show(&result, &result.table(), args)
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
    check_options(args.bench, &args.tpcc, &args.common)?;
    let interrupt = listen()?;
    let store = &args.common.store;
    let dir = run_dir(store.dir.as_deref())?;
    let all_seconds = args.seconds * f64::from(args.rounds);
    let (mut plans, mut all): (Vec<Plan>, Vec<Named>) = (Vec::new(), Vec::new());
    for name in &args.engines {
        let named = named(engines, name, store)?;
        if let Some(same) = all.iter().find(|other| other.is_same(&named)) {
            let why = match same.to_string() == named.to_string() {
                true => format!("{named} is named twice"),
                false => format!("{same} and {named} are the same"),
            };
            return Err(BenchError::Options(why));
        }
        all.push(named);
        plans.push(match args.bench {
            Bench::Tpcc => {
                let seconds = (args.seconds, all_seconds);
                resolve_tpcc(named, seconds, &args.tpcc, store, dir.path())?
            }
            bench => resolve(bench, named, args.seconds, &args.common, dir.path())?,
        });
    }
    check_device_size(&args.common, &all)?;
    check_counters(store.counters);
    let contest = Contest { plans, rounds: args.rounds as usize, program: own_program()? };
    let mut report =
        |result: &RunResult| if store.json { print(&to_json(result)?) } else { Ok(()) };
    let comparison = contest.run(&interrupt, &mut report)?;
    show(&comparison, &comparison.table(), store)
}

/// Leaves what was printed, or would be for people, in a document of results, if that is wanted.
fn record(place: Option<&Place>, table: impl FnOnce() -> String) -> Result<(), BenchError> {
    place.map_or(Ok(()), |place| place.record(&table()))
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

/// Prints a result, or its table, which also goes into a document of results if that is wanted.
fn show(result: &impl serde::Serialize, table: &str, args: &StoreArgs) -> Result<(), BenchError> {
    if args.json { print(&to_json(result)?) } else { print(table.trim_end()) }?;
    record(args.record.as_ref(), || table.to_owned())
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
mod tests;
