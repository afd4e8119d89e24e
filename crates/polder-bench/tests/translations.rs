//! `polder-bench translations` from end to end, on little data.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const PEERS: &[&str] = &["array", "direct", "hash", "open", "predictive", "simd", "vm", "vm-huge"];
const EVICTING: &[&str] = &["array", "hash", "open", "predictive", "simd", "vm"];
const STEPS: &[&str] = &[
    "hash+optimistic",
    "hash+optimistic+inlined",
    "array, small pages",
    "hash, small pages",
    "predictive, small pages",
];
const HOLDS: &[&str] = &[
    "hash, shared",
    "hash, group",
    "simd, shared",
    "simd, group",
    "simd, core",
    "simd, optimistic",
    "array, group",
    "array, optimistic",
];

/// What each part measures, on which sides.
const EXPECTED: &[(&str, &[&str], &[&str])] = &[
    ("scan", &["sequential", "random"], PEERS),
    ("heap", &["rows"], PEERS),
    ("graph", &["nodes", "nodes, group prefetch"], PEERS),
    ("files", &["nodes of ring"], PEERS),
    ("lookup", &["uniform", "zipfian", "uniform: cpu"], PEERS),
    ("lookup", &["uniform", "zipfian"], STEPS),
    ("lookup", &["chains"], &["hash", "predictive"]),
    ("multi", &["queries"], HOLDS),
    ("growing", &["growing", "out of memory", "out of memory: give-backs"], EVICTING),
    ("growing", &["chains"], &["hash", "predictive"]),
    ("placement", &["pages", "allowed", "accesses", "moved bytes"], &["predictive"]),
    ("memory", &["YCSB-C: all", "YCSB-D: all", "scattered hot keys: translation"], EVICTING),
];

fn translations(dir: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_polder-bench"))
        .args(["translations", "--size", "small", "--rounds", "1", "--threads", "1,2"])
        .args(["--seconds", "0.01", "--dir"])
        .arg(dir)
        .arg("--out")
        .arg(dir.join("out"))
        .args(more)
        .output()
        .unwrap()
}

fn results(dir: &Path) -> Value {
    let text = fs::read_to_string(dir.join("out/translations.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The medians of a part, metric and side.
fn medians<'r>(results: &'r Value, part: &str, metric: &str, side: &str) -> Vec<&'r Value> {
    let is = |median: &&Value| {
        median["part"] == part && median["metric"] == metric && median["side"] == side
    };
    results["medians"].as_array().unwrap().iter().filter(is).collect()
}

#[test]
fn every_side_of_every_part_is_measured_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    let ring = dir.path().join("ring.txt");
    fs::write(&ring, "4,4,u\n1,2\n2,3\n3,4\n4,1\n").unwrap();
    let output = translations(dir.path(), &["--graph", ring.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results = results(dir.path());
    assert_eq!((&results["complete"], &results["size"]), (&true.into(), &"small".into()));
    for (part, metrics, sides) in EXPECTED {
        for side in *sides {
            for metric in *metrics {
                let found = medians(&results, part, metric, side);
                assert!(!found.is_empty(), "{part}: no {metric} of {side}");
                assert!(found.iter().all(|median| median["median"].is_number()), "{found:?}");
            }
        }
    }
    let reached = medians(&results, "files", "ring: sum of depths", "array");
    assert_eq!(reached[0]["median"], 4.0);
    let criteria = results["criteria"].as_array().unwrap();
    assert_eq!(criteria.len(), 12);
    assert!(criteria.iter().all(|criterion| criterion["ratio"].is_number()), "{criteria:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.lines().count(), criteria.len());

    let html = fs::read_to_string(dir.path().join("out/translations.html")).unwrap();
    for elsewhere in ["http", "src=", "href=", "@import", "url("] {
        assert!(!html.contains(elsewhere), "{elsewhere}");
    }
    for tag in ["svg", "figure", "table", "g", "text", "title", "details", "div"] {
        let opened =
            html.matches(&format!("<{tag} ")).count() + html.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
        assert!(opened > 0, "{tag}");
    }
    assert!(!html.contains("NaN") && !html.contains("Not measured in this run"));
    let left: Vec<_> = dir.path().read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn known_graphs_are_walked_to_their_end() {
    let graph = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/graphs/facebook-combined.jlg");
    if !graph.exists() {
        eprintln!("skipped: there is no {}", graph.display());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let output =
        translations(dir.path(), &["--parts", "files", "--graph", graph.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results = results(dir.path());
    for side in PEERS {
        for (metric, expected) in
            [("nodes reached", 4039.0), ("depth", 6.0), ("sum of depths", 11428.0)]
        {
            let found = medians(&results, "files", &format!("facebook-combined: {metric}"), side);
            assert_eq!(found[0]["median"], expected, "{side}: {metric}");
        }
    }
}

#[test]
fn an_interrupt_leaves_what_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_polder-bench"))
        .args(["translations", "--size", "small", "--parts", "scan", "--seconds", "30", "--dir"])
        .arg(dir.path())
        .arg("--out")
        .arg(dir.path().join("out"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Its directory comes after it listens to signals.
    while dir.path().read_dir().unwrap().next().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(results(dir.path())["complete"], false);
    assert_eq!(dir.path().read_dir().unwrap().count(), 1, "something was left behind");
}

#[test]
fn what_there_is_not_is_said() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, why) in [
        (&["--parts", "scan,join"][..], "join"),
        (&["--parts", "files"][..], "--graph"),
        (&["--threads", "0"][..], "threads"),
    ] {
        let output = translations(dir.path(), arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(why), "{errors}");
    }
}
