//! A comparison from end to end: Polder's translations, on tiny data.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use serde_json::Value;

const ENGINES: [&str; 2] = ["polder:direct", "polder:array"];

fn compare(bench: &str, more: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_polder-bench"))
        .args(["compare", bench, "--engines", &ENGINES.join(","), "--json", "--rounds", "2"])
        .args(["--records", "3000", "--seconds", "0.05", "--warmup", "0.02"])
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
fn what_an_engine_cannot_do_is_said_before_anything_is_loaded() {
    let output = Command::new(env!("CARGO_BIN_EXE_polder-bench"))
        .args(["commit", "--durability", "periodic:10ms", "--engine", "device"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("device"));
}
