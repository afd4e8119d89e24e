use polder::Durability;

use super::*;
use crate::engine::built_in;

fn parse(line: &str) -> Result<Command, clap::Error> {
    let arguments = line.split_whitespace().map(Into::into);
    super::parse("polder-bench", &built_in(), arguments)
}

/// The plan of a single run of an engine.
fn plan(line: &str, engine: &str) -> Result<Plan, BenchError> {
    let Command::Workload(bench, args) = parse(line).unwrap() else { panic!("{line}") };
    let named = Named::find(&built_in(), engine)?;
    args.plan.resolved(bench, &named, args.seconds, args.seconds)
}

fn command() -> clap::Command {
    super::command("polder-bench", &built_in())
}

#[test]
fn the_command_line_is_consistent() {
    command().debug_assert();
}

#[test]
fn the_help_names_each_policy_and_way() {
    let words = |help: String| -> Vec<String> {
        help.split([' ', '\n', ',', ':', '.', '[', ']']).map(str::to_owned).collect()
    };
    let mut all = command();
    for name in ["lookup", "tpcc", "compare"] {
        let help = all.find_subcommand_mut(name).unwrap().get_after_help().unwrap().to_string();
        let help = words(help);
        for way in ReadMode::ALL {
            let way = way.to_string();
            let way = way.split(':').next().unwrap();
            assert!(help.iter().any(|word| word == way), "{name}: {way} is not in {help:?}");
        }
        for policy in ReplacementKind::ALL {
            let policy = policy.to_string();
            let policy = policy.split(':').next().unwrap();
            assert!(help.iter().any(|word| word == policy), "{name}: {policy}");
        }
    }
    let replay = all.find_subcommand_mut("replay").unwrap();
    let arg = replay.get_arguments().find(|arg| arg.get_id() == "policy").unwrap();
    let help = words(arg.get_help().unwrap().to_string());
    for policy in ReplacementKind::ALL {
        let policy = policy.to_string();
        let policy = policy.split(':').next().unwrap();
        assert!(help.iter().any(|word| word == policy), "replay: {policy}");
    }
}

#[test]
fn options_are_resolved_to_a_plan() {
    let line = "x ycsb-a --records 10M --value-size 100 --pool 64MiB --threads 2 --theta 0.9";
    let plan = plan(line, "polder:array").unwrap();
    assert_eq!((plan.bench, plan.engine.as_str()), (Bench::YcsbA, "polder:array"));
    let plan = plan.conditions;
    assert_eq!((plan.records, plan.value_size, plan.threads), (10_000_000, 100, 2));
    assert_eq!((plan.pool_bytes, plan.theta), (64 << 20, 0.9));
    assert_eq!(plan.dist, Some(Dist::Zipfian));
    assert!(!plan.is_resident());
}

#[test]
fn commits_have_a_durability_a_batch_and_a_rate() {
    let line = "x commit --durability sync --batch 1000 --rate 20k --log-limit 4GiB";
    let found = plan(line, "device").unwrap().conditions;
    assert_eq!(found.durability, Durability::Sync);
    assert_eq!((found.batch, found.rate_per_s), (1000, Some(20_000)));
    assert_eq!(found.log_limit_bytes, Some(4 << 30));
    assert_eq!(found.dist, Some(Dist::Uniform));
    let found = plan("x commit", "polder:array").unwrap().conditions;
    assert_eq!((found.durability, found.batch, found.rate_per_s), (Durability::None, 1, None));
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
    let plan = plan("x lookup", "polder:array").unwrap().conditions;
    assert!(plan.is_resident());
    assert_eq!(plan.dist, Some(Dist::Uniform));
}

#[test]
fn comparisons_take_a_list_of_engines() {
    let line = "x compare lookup --engines a,b --rounds 3 --seconds 0.5 --json";
    let Ok(Command::Compare(args)) = parse(line) else { panic!("not parsed") };
    assert_eq!((args.bench, args.rounds, args.seconds), (Bench::Lookup, 3, 0.5));
    assert_eq!(args.engines, ["a", "b"]);
    assert!(args.output.json);
}

#[cfg(feature = "translations")]
#[test]
fn tpcc_has_warehouses_a_mix_and_homes() {
    let tpcc = plan("x tpcc", "polder:array").unwrap().tpcc;
    assert_eq!((tpcc.warehouses, tpcc.mix.to_string()), (10, "standard".to_owned()));
    assert!(!tpcc.affinity && tpcc.check);
    let line = "x tpcc --warehouses 3 --mix 20:80 --affinity --no-check --threads 2 --pool 1GiB";
    let found = plan(line, "polder:simd+lru").unwrap();
    let tpcc = found.tpcc;
    assert_eq!((tpcc.warehouses, tpcc.mix.to_string()), (3, "20:80".to_owned()));
    assert!(tpcc.affinity && !tpcc.check);
    assert_eq!((found.conditions.threads, found.conditions.pool_bytes), (2, 1 << 30));
    assert_eq!((found.engine.as_str(), found.bench), ("polder:simd+lru", Bench::Tpcc));
    let Err(BenchError::Options(why)) = plan("x tpcc", "device") else { panic!() };
    assert!(why.starts_with("device is not Polder"), "{why}");
    for line in ["x tpcc --mix 20:90", "x tpcc --warehouses 0", "x tpcc --records 5"] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn a_comparison_refuses_what_its_workload_has_not() {
    let line = |rest: &str| format!("x compare {rest} --engines polder:array");
    for rest in ["tpcc --warehouses 1 --mix 50:50 --affinity", "lookup --records 5"] {
        assert!(parse(&line(rest)).is_ok(), "{rest}");
    }
    for (rest, option) in [
        ("tpcc --records 5", "--records"),
        ("tpcc --batch 1", "--batch"),
        ("tpcc --dist uniform", "--dist"),
        ("lookup --warehouses 1", "--warehouses"),
        ("ycsb-a --affinity", "--affinity"),
    ] {
        let why = parse(&line(rest)).unwrap_err().to_string();
        assert!(why.contains(&format!("has no {option}\n")), "{why}");
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
        assert!(parse(line).is_err(), "{line}");
    }
    for line in ["x lookup --dist latest --theta 0.9", "x bulk --threads 1"] {
        assert!(plan(line, "polder:array").is_ok(), "{line}");
    }
    assert!(plan("x ycsb-a", "device").is_err());
    assert!(plan("x lookup", "nobody").is_err());
}

#[test]
fn an_engine_is_made_as_it_is_named() {
    let tells = EngineKind {
        name: "polder:array",
        create: |setup| {
            let name = setup.dir.file_name().unwrap_or_default().display();
            Err(format!("{name} with {} and {}", setup.named.replacement(), setup.named.hold())
                .into())
        },
        ..crate::engine::device::KIND
    };
    let named = Named::find(&[tells], "polder:array+cooling:20+core").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let plan = plan("x lookup", "polder:array").unwrap();
    let interrupt = Interrupt::silent();
    let made = Bed::prepare(named, &plan, dir.path(), &interrupt, &|_| ());
    let told = made.err().unwrap().to_string();
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
    assert!(help("").contains("Point reads, uniform") && help("load").contains("in random order"));
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
