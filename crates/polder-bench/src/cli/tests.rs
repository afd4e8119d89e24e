use super::*;
use crate::dist::Dist;
use crate::durability::Durability;
use crate::engine::{built_in, device};

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
        for way in ReadMode::ALL {
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

#[cfg(feature = "translations")]
#[test]
fn tpcc_has_warehouses_a_mix_and_homes() {
    let plan = tpcc_plan("x tpcc", "polder:array").unwrap();
    let tpcc = plan.tpcc.unwrap();
    assert_eq!((tpcc.warehouses, tpcc.mix.to_string()), (10, "standard".to_owned()));
    assert!(!tpcc.affinity && tpcc.check);
    let line = "x tpcc --warehouses 3 --mix 20:80 --affinity --no-check --threads 2 --pool 1GiB";
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
        "x lookup --pool 5XB",
        "x commit --durability always",
        "x commit --batch 0",
        "x commit --batch 2M",
        "x commit --rate 0",
        "x commit --log-limit 4XB",
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
    let plan = plan("x lookup --replacement cooling --hold shared", "polder:array").unwrap();
    assert_eq!(plan.engine, "polder:array+cooling:10+shared");
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

#[cfg(feature = "translations")]
#[test]
fn the_help_names_the_engines_where_there_is_a_choice() {
    let help = |command: &str| parse(&format!("x {command} --help")).unwrap_err().to_string();
    for command in ["", "compare", "lookup", "load", "commit"] {
        let help = help(command);
        assert!(help.contains("polder:vm-huge") && help.contains("+2q+group"), "{help}");
        assert!(help.contains("hyperbolic") && help.contains("optimistic"), "{help}");
    }
    for command in ["replay", "translations"] {
        assert!(!help(command).contains("polder:"), "{command}");
    }
}

#[test]
fn what_stands_twice_in_a_list_is_named() {
    assert!(each_once("--threads", &[1, 2, 11]).is_ok());
    let Err(BenchError::Options(why)) = each_once("--threads", &[1, 2, 1]) else { panic!() };
    assert_eq!(why, "--threads names 1 twice");
}
