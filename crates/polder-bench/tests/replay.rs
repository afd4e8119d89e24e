//! `polder-bench replay` from end to end.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

fn replay(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_polder-bench"));
    command.arg("replay").args(line.split_whitespace()).output().unwrap()
}

#[test]
fn each_policy_and_reference_gives_a_line_of_json() {
    let output = replay("zipf:1 --pages 1000 --requests 20k --frames 50,100 --json");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let policies = [
        "clock",
        "cooling:10",
        "lru",
        "2q",
        "watt",
        "hyperbolic",
        "exact LRU",
        "FIFO",
        "random",
        "optimum",
    ];
    assert_eq!(rows.len(), 2 * policies.len());
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(row["policy"], policies[i % policies.len()]);
        assert_eq!(row["frames"], if i < policies.len() { 50 } else { 100 });
        assert_eq!(row["requests"], 16_000);
        let figure = |name: &str| row[name].as_u64().unwrap();
        assert_eq!(figure("hits") + figure("misses"), 16_000);
        let best = &rows[i / policies.len() * policies.len() + policies.len() - 1];
        assert!(figure("hits") <= best["hits"].as_u64().unwrap(), "{row}");
    }
}

#[test]
fn several_traces_stand_below_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one.lis"), dir.path().join("two.txt"));
    fs::write(&one, "0 4 0 0\n0 4 0 1\n").unwrap();
    fs::write(&two, "9\n9\n9\n").unwrap();
    let files = format!("{} {}", one.display(), two.display());
    let output = replay(&format!("{files} --policy lru --frames 4"));
    let text = String::from_utf8(output.stdout).unwrap();
    let figures: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.trim_start().starts_with("lru"))
        .map(|line| line.split_whitespace().take(4).collect())
        .collect();
    assert_eq!(figures, [["lru", "4", "50.000%", "4"], ["lru", "2", "66.667%", "1"]], "{text}");
    assert!(text.starts_with("one.lis, 4 frames, 8 requests"), "{text}");
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bad.lis");
    fs::write(&path, "1 1 0 0\nnothing\n").unwrap();
    let path = path.display();
    for (line, status, why) in [
        (format!("{path} --frames 10"), 1, "bad.lis:2"),
        ("/nowhere/a.lis --frames 10".to_owned(), 1, "/nowhere/a.lis"),
        ("zipf:1 --requests 1k --pages 10 --bytes 1MiB".to_owned(), 2, "--frames"),
        (format!("{path}"), 2, "--frames"),
        (format!("{path} --frames 10 --policy arc"), 2, "hyperbolic"),
        (format!("{path} --frames 10 --policy cooling:95"), 2, "90"),
    ] {
        let output = replay(&line);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{line}: {errors}");
        assert!(errors.contains(why), "{line}: {errors}");
    }
}
