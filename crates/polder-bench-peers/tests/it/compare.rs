//! The command line from end to end, on engines that need no store of ours.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const PEERS: &str =
    if cfg!(feature = "rocksdb") { "btreemap,lmdb,redb,rocksdb" } else { "btreemap,lmdb,redb" };
/// Those that can sync.
const STORES: &str = if cfg!(feature = "rocksdb") { "lmdb,redb,rocksdb" } else { "lmdb,redb" };

/// Runs the program on tiny data, in a directory of its own that must be empty afterwards.
fn run(arguments: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_polder-bench-peers"))
        .args(arguments)
        .arg("--dir")
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(is_empty(dir.path()), "{arguments:?} left something behind");
    output
}

fn is_empty(dir: &Path) -> bool {
    dir.read_dir().unwrap().next().is_none()
}

/// Its standard output, line by line, as JSON.
fn json_lines(arguments: &[&str]) -> Vec<Value> {
    let output = run(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn compare(bench: &str, engines: &str, more: &[&str]) -> Vec<Value> {
    let mut arguments = vec!["compare", bench, "--engines", engines, "--json", "--rounds", "3"];
    arguments.extend(["--records", "3000", "--seconds", "0.05"]);
    if !matches!(bench, "load" | "bulk") {
        arguments.extend(["--warmup", "0.02"]);
    }
    arguments.extend(more);
    json_lines(&arguments)
}

/// Fails unless the last line is a comparison of exactly these engines.
fn assert_comparison(lines: &[Value], bench: &str, engines: &str) {
    let last = lines.last().unwrap().as_object().unwrap();
    assert_eq!(last.keys().collect::<Vec<_>>(), ["bench", "engines"]);
    assert_eq!(last["bench"], bench);
    let names: Vec<&str> = engines.split(',').collect();
    assert_eq!(last["engines"].as_object().unwrap().len(), names.len());
    assert_eq!(lines.len(), names.len() * 3 + 1);
    for name in &names {
        let engine = &last["engines"][name];
        let figure = |field: &str| engine[field].as_f64().unwrap();
        assert!(figure("median_ops_per_s") > 0.0, "{bench}, {name}");
        assert!(figure("ratio_low") <= figure("ratio"));
        assert!(figure("ratio") <= figure("ratio_high"));
        assert!(figure("peak_rss_bytes") > 0.0);
    }
    assert_eq!(last["engines"][names[0]]["ratio"], 1.0);
}

#[test]
fn engines_take_turns_in_every_workload() {
    for bench in
        ["lookup", "scan", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f", "commit"]
    {
        let lines = compare(bench, PEERS, &["--threads", "2"]);
        assert_comparison(&lines, bench, PEERS);
        let names: Vec<&str> = PEERS.split(',').collect();
        let count = names.len();
        for (at, line) in lines[..2 * count].iter().enumerate() {
            assert_eq!(line["engine"], names[(at + at / count) % count]);
        }
    }
}

#[test]
fn loads_fill_a_store_each_round() {
    for (bench, threads) in [("load", "1"), ("load", "2"), ("bulk", "1")] {
        let lines = compare(bench, PEERS, &["--threads", threads]);
        assert_comparison(&lines, bench, PEERS);
        let rounds = &lines[..lines.len() - 1];
        assert!(rounds.iter().all(|line| line["ops"] == 3000));
        assert!(rounds.iter().all(|line| line["user_bytes_written"] == 3000 * 128));
    }
}

/// Whether the file system of temporary directories has direct I/O.
fn has_direct_io() -> bool {
    let output = run(&["commit", "--engine", "device", "--seconds", "0.01", "--warmup", "0"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("allows no direct I/O") {
        eprintln!("without the device: {errors}");
    } else {
        assert!(output.status.success(), "{errors}");
    }
    output.status.success()
}

#[test]
fn synced_commits_are_compared_with_the_device() {
    let engines = if has_direct_io() { format!("device,{STORES}") } else { STORES.to_owned() };
    let lines = compare("commit", &engines, &["--durability", "sync", "--threads", "2"]);
    assert_comparison(&lines, "commit", &engines);
    for line in &lines[..lines.len() - 1] {
        assert_eq!(line["durability"], "sync");
        assert_eq!(line["commits_per_s"], line["ops_per_s"]);
        // Each engine puts at least what it was given on the device; a file system in memory
        // counts nothing.
        let amplification = line["write_amplification"].as_f64().unwrap();
        assert!(amplification == 0.0 || amplification >= 1.0, "{line}");
    }
}

#[test]
fn batches_and_rates_hold_for_every_engine() {
    let more = ["--batch", "50", "--rate", "10000", "--durability", "sync", "--log-limit", "4GiB"];
    for line in &compare("commit", STORES, &more)[..3] {
        assert_eq!(line["ops"].as_u64().unwrap() % 50, 0);
        assert_eq!((&line["batch"], &line["rate_per_s"]), (&50.into(), &10_000.into()));
        assert!(line["ops"].as_u64().unwrap() <= 500, "{line}");
    }
    let lines = compare("ycsb-a", STORES, &["--rate", "2000", "--threads", "2"]);
    assert!(lines[..6].iter().all(|line| line["ops"].as_u64().unwrap() <= 100));
}

#[test]
fn random_loads_other_value_sizes_and_small_pools_work() {
    let more = ["--load", "random", "--value-size", "500", "--pool", "256KiB"];
    for (bench, skew) in [("ycsb-a", &["--theta", "1"][..]), ("scan", &[])] {
        let maps = "btreemap,btreemap:inline";
        assert_comparison(&compare(bench, maps, &[]), bench, maps);
        let lines = compare(bench, PEERS, &[&more[..], skew].concat());
        assert_comparison(&lines, bench, PEERS);
    }
}

#[test]
fn a_single_run_prints_one_line_or_a_table() {
    let tiny = ["--records", "2000", "--seconds", "0.05", "--warmup", "0"];
    let run_with = |first: &[&'static str], last: &[&'static str]| {
        [first, &["--engine", "btreemap"], &tiny, last].concat()
    };
    let lines = json_lines(&run_with(&["ycsb-e"], &["--json"]));
    assert_eq!(lines.len(), 1);
    for field in ["ops_per_s", "cpu_s_per_op", "p50_ns", "p99_ns", "p999_ns"] {
        assert!(lines[0][field].as_f64().unwrap() > 0.0, "{field}");
    }
    let output = run(&run_with(&["lookup"], &[]));
    assert!(String::from_utf8(output.stdout).unwrap().contains("throughput"));
}

#[test]
fn mistakes_are_said_and_leave_nothing_behind() {
    let output = run(&["lookup", "--engine", "nobody"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("btreemap"));
    let output = run(&["compare", "scan", "--engines", "btreemap,device", "--records", "100"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("lookup and commit only"));
    for (engine, durability, why) in [
        ("btreemap", "sync", "in memory alone"),
        ("lmdb", "periodic:10ms", "each commit or none"),
        ("redb", "periodic:10ms", "each commit or none"),
    ] {
        let output = run(&["commit", "--engine", engine, "--durability", durability]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{engine}");
    }
}

#[test]
fn ctrl_c_stops_a_comparison_and_cleans_up() {
    let dir = tempfile::tempdir().unwrap();
    let mut parent = Command::new(env!("CARGO_BIN_EXE_polder-bench-peers"))
        .args(["compare", "lookup", "--engines", "btreemap,lmdb", "--records", "1000"])
        .args(["--seconds", "600", "--dir"])
        .arg(dir.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The second engine's directory is there, so the first one's worker is, too.
    let patience = Instant::now() + Duration::from_secs(60);
    let is_there = |name: &str| {
        let runs = dir.path().read_dir().unwrap();
        runs.flatten().any(|run| run.path().join(name).exists())
    };
    while !is_there("lmdb") {
        assert!(Instant::now() < patience, "it never began");
        std::thread::sleep(Duration::from_millis(20));
    }
    let killed = Command::new("kill").args(["-INT", &parent.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(parent.wait().unwrap().code(), Some(130));
    assert!(is_empty(dir.path()));
}
