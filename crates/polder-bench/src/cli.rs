//! The command line.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches, ValueEnum};
use polder::{ReadMode, ReplacementKind};
use tempfile::TempDir;

use crate::bed::Bed;
use crate::bench::Bench;
use crate::compare;
use crate::counters::Counters;
use crate::dist::Dist;
use crate::engine::{EngineKind, Named};
use crate::error::BenchError;
use crate::interrupt::{self, Interrupt};
#[cfg(feature = "translations")]
use crate::ladder;
use crate::plan::Plan;
use crate::progress::{spinner, tell};
use crate::report::RunResult;

mod args;
mod replay;
#[cfg(feature = "translations")]
mod translations;

use args::{Cli, Command, CompareArgs, Output, RunArgs, WorkDir};

/// See [`crate::run`].
pub(crate) fn run(program: &'static str, engines: &[EngineKind]) -> ExitCode {
    let command = match parse(program, engines, std::env::args_os()) {
        Ok(command) => command,
        // Help and version come here too; clap knows where to write and which status to give.
        Err(error) => error.exit(),
    };
    match execute(command, engines) {
        Ok(()) => ExitCode::SUCCESS,
        Err(BenchError::Interrupted) => ExitCode::from(interrupt::EXIT_STATUS),
        Err(error) => {
            let _ = writeln!(io::stderr(), "{program}: {error}");
            match error {
                BenchError::Options(_) => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// All commands: one for each workload, and the others. The engines are listed at the end of the help of
/// each that takes one.
fn command(program: &'static str, engines: &[EngineKind]) -> clap::Command {
    let mut list = "Engines:\n".to_owned();
    for engine in engines {
        list += &format!("  {:<17} {}\n", engine.name, engine.about);
    }
    list += &format!(
        "\nBehind an engine of Polder may stand which pages go when room is needed, and how readers\n\
         hold pages: polder:array+lru, polder:simd+2q+group.\n\
         Policies: {} [default: {}]. Read modes: {} [default: {}].\n\
         +many, or +many:KEYS, has each client collect lookups and make them by one call.\n\
         +tasks:TERMINALS has each thread serve as many terminals of TPC-C at once.\n\
         +ref has values read where they lie, each byte of them: by polder:* and lmdb.\n",
        ReplacementKind::names(),
        ReplacementKind::default(),
        ReadMode::names(),
        ReadMode::default(),
    );
    let workloads = Bench::value_variants().iter().map(|bench| {
        let value = bench.to_possible_value();
        let about = value.and_then(|value| value.get_help().cloned()).unwrap_or_default();
        RunArgs::augment_args(clap::Command::new(bench.name())).about(about)
    });
    let all = clap::Command::new(program).bin_name(program).subcommands(workloads);
    Cli::augment_args(all).after_help(list.clone()).mut_subcommands(|sub| {
        let takes_engines =
            sub.get_arguments().any(|arg| arg.get_id().as_str().starts_with("engine"));
        if takes_engines { sub.after_help(list.clone()) } else { sub }
    })
}

/// Reads arguments, and refuses options that say nothing to the workload.
fn parse(
    program: &'static str,
    engines: &[EngineKind],
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Command, clap::Error> {
    let mut all = command(program, engines);
    let matches = all.try_get_matches_from_mut(arguments)?;
    let (name, of_command) = matches.subcommand().expect("a command is required");
    let command = match Bench::from_str(name, false) {
        Ok(bench) => Command::Workload(bench, RunArgs::from_arg_matches(of_command)?),
        Err(_) => Cli::from_arg_matches(&matches)?.command,
    };
    let bench = match &command {
        Command::Workload(bench, _) => *bench,
        Command::Compare(args) => args.bench,
        _ => return Ok(command),
    };
    match why_useless(bench, of_command) {
        Some(why) => Err(all.error(clap::error::ErrorKind::ArgumentConflict, why)),
        None => Ok(command),
    }
}

/// Why an option says nothing to a workload, if one that was given does not.
fn why_useless(bench: Bench, given: &ArgMatches) -> Option<String> {
    let (is_tpcc, begins_empty) = (bench == Bench::Tpcc, bench.fills());
    let dist = given.get_one("dist").copied().or(bench.dist());
    let means_something = [
        ("warehouses", is_tpcc),
        ("mix", is_tpcc),
        ("affinity", is_tpcc),
        ("no-check", is_tpcc),
        ("records", !is_tpcc),
        ("value_size", !is_tpcc),
        // Where all records are touched none is chosen.
        ("dist", bench.dist().is_some()),
        ("theta", matches!(dist, Some(Dist::Zipfian | Dist::Latest))),
        ("load", !is_tpcc && !begins_empty),
        ("warmup", !begins_empty),
        ("batch", bench == Bench::Commit),
        // What is no mix of operations goes as fast as it can.
        ("rate", bench.mix().is_some()),
        // A bulk load is one thread's work in every engine.
        ("threads", bench != Bench::Bulk || given.get_one("threads") == Some(&1usize)),
    ];
    let is_given = |option: &str| given.value_source(option) == Some(ValueSource::CommandLine);
    let useless = means_something.iter().find(|(option, means)| !means && is_given(option));
    let name = bench.name();
    useless.map(|(option, _)| match (*option, dist) {
        ("theta", Some(dist)) => format!("--theta is for zipfian and latest; {name} is {dist}"),
        _ => format!("{name} has no --{}", option.replace('_', "-")),
    })
}

/// Refuses what stands in a list twice.
fn each_once<T: PartialEq + fmt::Display>(option: &str, list: &[T]) -> Result<(), BenchError> {
    match list.iter().enumerate().find(|(i, value)| list[..*i].contains(value)) {
        Some((_, twice)) => Err(BenchError::Options(format!("{option} names {twice} twice"))),
        None => Ok(()),
    }
}

fn execute(command: Command, engines: &[EngineKind]) -> Result<(), BenchError> {
    match command {
        Command::Workload(bench, args) => workload(bench, &args, engines),
        Command::Compare(args) => compare(&args, engines),
        Command::Replay(args) => replay::run(&args),
        #[cfg(feature = "translations")]
        Command::Translations(args) => translations::run(&args),
        #[cfg(feature = "translations")]
        Command::TranslationsChild => ladder::child(),
        Command::Worker => compare::serve(engines),
    }
}

/// One engine, one round, in this process.
fn workload(bench: Bench, args: &RunArgs, engines: &[EngineKind]) -> Result<(), BenchError> {
    let named = Named::find(engines, &args.engine)?;
    let plan = args.plan.resolved(bench, &named, args.seconds, args.seconds)?;
    check_counters(&plan);
    let dir = args.work.make()?;
    let interrupt = Interrupt::listen()?;
    let spinner = spinner();
    let tell = tell(&spinner, &plan.engine);
    let result = Bed::prepare(named, &plan, dir.path(), &interrupt, &tell)?.round(&tell)?;
    spinner.finish_and_clear();
    args.output.show(&result, &result.table())
}

fn compare(args: &CompareArgs, engines: &[EngineKind]) -> Result<(), BenchError> {
    let all_seconds = args.seconds * f64::from(args.rounds);
    let (mut plans, mut all): (Vec<Plan>, Vec<Named>) = (Vec::new(), Vec::new());
    for name in &args.engines {
        let named = Named::find(engines, name)?;
        if let Some(same) = all.iter().find(|other| other.is_same(&named)) {
            let why = match same.to_string() == named.to_string() {
                true => format!("{named} is named twice"),
                false => format!("{same} and {named} are the same"),
            };
            return Err(BenchError::Options(why));
        }
        plans.push(args.plan.resolved(args.bench, &named, args.seconds, all_seconds)?);
        all.push(named);
    }
    check_counters(&args.plan);
    let interrupt = Interrupt::listen()?;
    let dir = args.work.make()?;
    let is_json = args.output.json;
    let mut report = |result: &RunResult| match is_json {
        true => print(&serde_json::to_string(result)?),
        false => Ok(()),
    };
    let rounds = args.rounds as usize;
    let comparison = compare::run(&plans, dir.path(), rounds, &interrupt, &mut report)?;
    args.output.show(&comparison, &comparison.table())
}

/// Says once if counters were asked for and there are none.
fn check_counters(plan: &Plan) {
    if let (true, Err(error)) = (plan.counters, Counters::start()) {
        let why = "perf_event_open; see /proc/sys/kernel/perf_event_paranoid";
        let _ = writeln!(io::stderr(), "no counters here: {error} ({why})");
    }
}

impl WorkDir {
    /// A directory of this run alone, removed with everything in it when dropped.
    fn make(&self) -> Result<TempDir, BenchError> {
        let made = self
            .dir
            .canonicalize()
            .and_then(|parent| tempfile::Builder::new().prefix("polder-bench-").tempdir_in(parent));
        made.map_err(BenchError::file(&self.dir))
    }
}

impl Output {
    /// Prints a result, or its table, which is also recorded if that is wanted.
    fn show(&self, result: &impl serde::Serialize, table: &str) -> Result<(), BenchError> {
        match self.json {
            true => print(&serde_json::to_string(result)?)?,
            false => print(table.trim_end())?,
        }
        self.record(|| table.to_owned())
    }

    /// Leaves what was printed, or would be for people, in a document of results, if that is wanted.
    fn record(&self, table: impl FnOnce() -> String) -> Result<(), BenchError> {
        self.record.as_ref().map_or(Ok(()), |place| place.record(&table()))
    }
}

fn print(text: &str) -> Result<(), BenchError> {
    let mut out = io::stdout().lock();
    let printed = writeln!(out, "{text}").and_then(|()| out.flush());
    printed.map_err(BenchError::file(Path::new("standard output")))
}

#[cfg(test)]
mod tests;
