//! The demo with small numbers.

use std::time::Duration;

use crate::support::{Run, finish, polder, run, signal, spawn};

fn demo(dir: &std::path::Path, more: &[&str]) -> Run {
    let args = ["--budget", "8MiB", "--records", "200000", "--seconds", "0.2"];
    run(polder().args(["demo", "--dir"]).arg(dir).args(args).args(more))
}

#[test]
fn it_prints_a_page_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let page = demo(dir.path(), &[]).ok();
    assert!(page.contains("Lookups, what fits in memory") && page.contains("8 MiB"), "{page}");
    let widths: Vec<usize> = page.lines().map(|line| line.chars().count()).collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "{page}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn it_speaks_to_programs_and_can_leave_its_store() {
    let dir = tempfile::tempdir().unwrap();
    let said = demo(dir.path(), &["--json", "--keep"]).json();
    assert_eq!(said["records"], 200_000);
    assert_eq!(said["durability"], "none");
    assert_eq!(said["parts"].as_array().unwrap().len(), 5);
    for part in said["parts"].as_array().unwrap() {
        assert!(part["ops_per_s"].as_f64().unwrap() > 0.0, "{part}");
        let ratio = part["hit_ratio"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&ratio), "{part}");
    }
    let own = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    let stat = run(polder().arg("tables").arg(own.join("store")).arg("--json")).json();
    let entries = said["inserted"].as_u64().unwrap() + 200_000;
    assert_eq!(stat["tables"][0]["entries"], entries);
}

#[test]
fn ctrl_c_ends_it_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--budget", "8MiB", "--records", "20000", "--seconds", "20"];
    let child = spawn(polder().args(["demo", "--dir"]).arg(dir.path()).args(args));
    let process = child.id();
    let ended = std::thread::spawn(move || finish(child));
    let files = || std::fs::read_dir(dir.path()).unwrap().count();
    while files() == 0 && !ended.is_finished() {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Somewhere in the middle; the test holds wherever that is.
    std::thread::sleep(Duration::from_millis(300));
    signal(process, "INT");
    ended.join().unwrap().fails(130);
    assert_eq!(files(), 0);
}
