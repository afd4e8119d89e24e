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
use crate::engine::{EngineKind, Named, device};
use crate::error::BenchError;
use crate::interrupt::{self, Interrupt};
use crate::ladder;
use crate::plan::Plan;
use crate::record::Place;
use crate::report::RunResult;
use crate::worker;

mod args;
mod replay;
mod resolve;
mod translations;

use args::{Cli, Command, CompareArgs, DeviceArgs, RunArgs, StoreArgs, TpccArgs};
use resolve::{check_device_size, check_options, resolve, resolve_tpcc};

/// The engine of a single run, where none is named and it is there.
const DEFAULT_ENGINE: &str = "polder:array";
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
        ReplacementKind::names(),
        Hold::names(),
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
        Command::Tpcc(args) => return tpcc(&args, engines),
    };
    single(bench, &args, engines)
}

/// One engine, one round, in this process.
fn single(bench: Bench, args: &RunArgs, engines: &[EngineKind]) -> Result<(), BenchError> {
    let named = engine_of(args.engine.as_deref(), engines, &args.common.store)?;
    check_device_size(&args.common, &[named])?;
    run_one(named, &args.common.store, |dir| resolve(bench, named, args.seconds, &args.common, dir))
}

fn tpcc(args: &TpccArgs, engines: &[EngineKind]) -> Result<(), BenchError> {
    let named = engine_of(args.engine.as_deref(), engines, &args.store)?;
    run_one(named, &args.store, |dir| {
        resolve_tpcc(named, (args.seconds, args.seconds), &args.tpcc, &args.store, dir)
    })
}

/// The engine of a single run.
fn engine_of(
    name: Option<&str>,
    engines: &[EngineKind],
    args: &StoreArgs,
) -> Result<Named, BenchError> {
    let default = || engines.iter().find(|engine| engine.name == DEFAULT_ENGINE);
    let name = match (name, default().or(engines.first())) {
        (Some(name), _) => name,
        (None, Some(kind)) => kind.name,
        (None, None) => return Err(BenchError::Options("there are no engines".to_owned())),
    };
    named(engines, name, args)
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
    show(&result, args.json)?;
    record(args.record.as_ref(), || result.table())
}

fn raw_device(args: &DeviceArgs) -> Result<(), BenchError> {
    let dir = run_dir(args.dir.as_deref())?;
    let name = device::KIND.name.to_owned();
    let plan = Plan {
        records: args.size.div_ceil(device::PAGE_BYTES as u64),
        threads: args.threads,
        dist: Bench::Lookup.dist(),
        seed: args.seed,
        device_bytes: Some(args.size),
        ..Plan::new(Bench::Lookup, name, dir.path(), args.seconds)
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
    let json = store.json;
    let mut report = |result: &RunResult| if json { show(result, true) } else { Ok(()) };
    let comparison = contest.run(&interrupt, &mut report)?;
    print(&if json { to_json(&comparison)? } else { comparison.table().trim_end().to_owned() })?;
    record(store.record.as_ref(), || comparison.table())
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
    use crate::dist::Dist;
    use crate::durability::Durability;
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
        let named = named(&built_in(), engine, &args.common.store)?;
        resolve(bench, named, args.seconds, &args.common, Path::new("d"))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_names_each_policy_and_way() {
        let words = |command: &str, id: &str| -> Vec<String> {
            let mut cli = Cli::command();
            let command = cli.find_subcommand_mut(command).unwrap();
            let arg = command.get_arguments().find(|arg| arg.get_id() == id).unwrap();
            let help = arg.get_help().unwrap().to_string();
            help.split([' ', ',', ':', '.']).map(str::to_owned).collect()
        };
        for command in ["lookup", "tpcc", "compare"] {
            let ways = words(command, "hold");
            for way in Hold::ALL {
                assert!(ways.contains(&way.to_string()), "{command}: {way} is not in {ways:?}");
            }
        }
        for (command, id) in [("lookup", "replacement"), ("replay", "policy")] {
            let policies = words(command, id);
            for policy in ReplacementKind::ALL {
                let policy = policy.to_string();
                let name = policy.split(':').next().unwrap();
                assert!(policies.iter().any(|word| word == name), "{command}: {name}");
            }
        }
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
        assert!(args.common.store.json);
    }

    fn tpcc_plan(line: &str, engine: &str) -> Result<Plan, BenchError> {
        let Command::Tpcc(args) = parse(line).unwrap().command else { panic!("{line}") };
        let named = named(&built_in(), engine, &args.store)?;
        let seconds = (args.seconds, args.seconds);
        resolve_tpcc(named, seconds, &args.tpcc, &args.store, Path::new("d"))
    }

    #[test]
    fn tpcc_has_warehouses_a_mix_and_homes() {
        let plan = tpcc_plan("x tpcc", "polder:array").unwrap();
        let tpcc = plan.tpcc.unwrap();
        assert_eq!((tpcc.warehouses, tpcc.mix.to_string()), (10, "standard".to_owned()));
        assert!(!tpcc.affinity && tpcc.check);
        let line =
            "x tpcc --warehouses 3 --mix 20:80 --affinity --no-check --threads 2 --pool 1GiB";
        let plan = tpcc_plan(line, "polder:simd+lru").unwrap();
        let tpcc = plan.tpcc.unwrap();
        assert_eq!((tpcc.warehouses, tpcc.mix.to_string()), (3, "20:80".to_owned()));
        assert!(tpcc.affinity && !tpcc.check);
        assert_eq!((plan.threads, plan.pool_bytes, plan.bench), (2, 1 << 30, Bench::Tpcc));
        assert_eq!(plan.engine, "polder:simd+lru");
        let Err(BenchError::Options(why)) = tpcc_plan("x tpcc", "device") else { panic!() };
        assert!(why.starts_with("device is not Polder"), "{why}");
        for line in ["x tpcc --mix 20:90", "x tpcc --warehouses 0", "x tpcc --records 5"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_comparison_refuses_what_its_workload_has_not() {
        let check = |line: &str| {
            let Command::Compare(args) = parse(line).unwrap().command else { panic!("{line}") };
            check_options(args.bench, &args.tpcc, &args.common)
        };
        let line = |rest: &str| format!("x compare {rest} --engines polder:array");
        for rest in ["tpcc --warehouses 1 --mix 50:50 --affinity", "lookup --records 5"] {
            assert!(check(&line(rest)).is_ok(), "{rest}");
        }
        for (rest, option) in [
            ("tpcc --records 5", "--records"),
            ("tpcc --batch 1", "--batch"),
            ("tpcc --dist uniform", "--dist"),
            ("lookup --warehouses 1", "--warehouses"),
            ("ycsb-a --affinity", "--affinity"),
        ] {
            let Err(BenchError::Options(why)) = check(&line(rest)) else { panic!("{rest}") };
            assert!(why.ends_with(&format!("has no {option}")), "{why}");
        }
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
        let of = |name: &str| named(&built_in(), name, &args.common.store).unwrap();
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
        let named = named(&[tells], "polder:array+cooling:20", &args.common.store).unwrap();
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
