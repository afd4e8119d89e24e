//! A comparison from end to end: Polder's translations, on tiny data.

use std::process::Command;

use serde_json::Value;

const ENGINES: [&str; 2] = ["polder:direct", "polder:array"];
/// One translation with each policy.
const POLICIES: [&str; 6] = [
    "polder:array",
    "polder:array+cooling:10",
    "polder:array+lru",
    "polder:array+2q",
    "polder:array+watt",
    "polder:array+hyperbolic",
];

fn compare(bench: &str, more: &[&str]) -> Value {
    compare_of(&ENGINES, bench, "3000", more)
}

fn compare_of(engines: &[&str], bench: &str, records: &str, more: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_polder-bench"))
        .args(["compare", bench, "--engines", &engines.join(","), "--json", "--rounds", "2"])
        .args(["--records", records, "--seconds", "0.05"])
        .args(if matches!(bench, "load" | "bulk") { &[][..] } else { &["--warmup", "0.02"] })
        .args(more)
        .arg("--dir")
        .arg(dir.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{bench}: {errors}");
    assert!(dir.path().read_dir().unwrap().next().is_none(), "{bench} left something behind");
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn translations_take_turns_in_every_workload() {
    for bench in [
        "load", "bulk", "scan", "lookup", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e",
        "ycsb-f", "commit",
    ] {
        let last = compare(bench, &[]);
        assert_eq!(last["bench"], bench);
        for engine in ENGINES {
            assert!(last["engines"][engine]["median_ops_per_s"].as_f64().unwrap() > 0.0);
        }
        assert_eq!(last["engines"][ENGINES[0]]["ratio"], 1.0);
    }
}

#[test]
fn tpcc_takes_turns_and_says_what_came_of_each_transaction() {
    // On a disk: what is written to memory is not counted.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_polder-bench"))
        .args(["compare", "tpcc", "--engines", &ENGINES.join(","), "--json", "--rounds", "1"])
        .args(["--warehouses", "1", "--threads", "2", "--affinity", "--pool", "512MiB"])
        .args(["--seconds", "0.5", "--warmup", "0.1", "--dir"])
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(dir.path().read_dir().unwrap().next().is_none(), "something was left behind");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [rounds @ .., last] = &lines[..] else { panic!("{text}") };
    assert_eq!(rounds.len(), ENGINES.len());
    for round in rounds {
        let tpcc = &round["tpcc"];
        assert_eq!((&tpcc["mix"], &tpcc["affinity"]), (&"standard".into(), &true.into()));
        assert!(tpcc["check_s"].as_f64().unwrap() > 0.0 && tpcc["tpmc"].as_f64().unwrap() > 0.0);
        let transactions = tpcc["transactions"].as_array().unwrap();
        let ended = |kind: &Value| kind["count"].as_u64().unwrap();
        assert_eq!(transactions.iter().map(ended).sum::<u64>(), round["ops"].as_u64().unwrap());
        assert!(tpcc["rolled_back"].as_u64().unwrap() <= ended(&transactions[0]));
        // Intervals of 100 ms; the last transactions may end behind them.
        let per_s = tpcc["per_s"].as_array().unwrap();
        let counted = per_s.iter().map(|per_s| per_s.as_f64().unwrap() * 0.1).sum::<f64>();
        assert_eq!(per_s.len(), 5);
        assert!(counted <= round["ops"].as_f64().unwrap() + 0.5);
        assert!(round["write_amplification"].as_f64().unwrap() > 0.0);
    }
    for engine in ENGINES {
        assert_eq!(last["engines"][engine]["tpcc"]["warehouses"], 1);
    }
}

#[test]
fn threads_and_random_loads_work() {
    compare("ycsb-a", &["--threads", "2", "--load", "random"]);
    compare("ycsb-e", &["--threads", "2", "--dist", "latest"]);
}

#[test]
fn commits_are_counted_and_paced() {
    let last = compare("commit", &["--threads", "2", "--batch", "10", "--rate", "20k"]);
    for engine in ENGINES {
        let summary = &last["engines"][engine];
        assert_eq!((&summary["batch"], &summary["rate_per_s"]), (&10.into(), &20_000.into()));
        assert_eq!(summary["durability"], "none");
        let figure = |name: &str| summary[name].as_f64().unwrap();
        assert!(figure("commits_per_s") > 0.0);
        assert!(figure("max_ns") >= figure("p999_ns"));
        assert!(figure("write_amplification") >= 0.0);
    }
}

#[test]
fn policies_take_turns_out_of_memory() {
    let more = ["--pool", "6MiB", "--dist", "zipfian"];
    let last = compare_of(&POLICIES, "lookup", "100k", &more);
    assert_eq!(last["engines"].as_object().unwrap().len(), POLICIES.len());
    for engine in POLICIES {
        let reads = last["engines"][engine]["device_reads_per_s"].as_f64();
        assert!(reads.unwrap() > 0.0, "{engine} reads nothing");
    }
}

#[cfg(feature = "translations")]
#[test]
fn ways_of_holding_take_turns() {
    let ways = ["polder:simd", "polder:simd+shared", "polder:simd+group", "polder:simd+core+lru"];
    let last = compare_of(&ways, "ycsb-a", "3000", &["--threads", "2"]);
    // What is said in the order of its own is put into ours.
    let names = ["polder:simd", "polder:simd+shared", "polder:simd+group", "polder:simd+lru+core"];
    for name in names {
        assert!(last["engines"][name]["median_ops_per_s"].as_f64().unwrap() > 0.0, "{name}");
    }
}

#[cfg(feature = "translations")]
#[test]
fn what_cannot_be_compared_is_said_once() {
    for (arguments, status, why) in [
        (&["--engines", "polder:array,polder:array+s3-fifo"][..], 2, "are the same"),
        (&["--engines", "polder:array+lru,polder:array+lru"], 2, "named twice"),
        (&["--engines", "polder:array+arc"], 2, "hyperbolic"),
        (&["--engines", "polder:predictive,polder:predictive+group"], 2, "optimistic and shared"),
        (&["--engines", "polder:array,device+shared"], 2, "device is not Polder"),
        (&["--engines", "polder:direct+lru"], 2, "never evicts"),
        // This one is known in the process of the engine alone.
        (&["--engines", "polder:array", "--pool", "1KiB"], 1, "1024"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_polder-bench"))
            .args(["compare", "lookup", "--records", "1000", "--seconds", "0.01"])
            .args(arguments)
            .arg("--dir")
            .arg(dir.path())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {errors}");
        assert_eq!(errors.matches(why).count(), 1, "{arguments:?}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{arguments:?}: {errors}");
    }
}

#[test]
fn what_an_engine_cannot_do_is_said_before_anything_is_loaded() {
    for arguments in
        [&["tpcc", "--engine", "device"][..], &["compare", "tpcc", "--engines", "device"]]
    {
        let output =
            Command::new(env!("CARGO_BIN_EXE_polder-bench")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("device is not Polder"), "{errors}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_polder-bench"))
        .args(["commit", "--durability", "periodic:10ms", "--engine", "device"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("device"));
}
