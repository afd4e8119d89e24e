//! `polder-bench replay` from end to end.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn replay(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_polder-bench"));
    command.arg("replay").args(line.split_whitespace()).output().unwrap()
}

/// The rows that a replay prints as JSON.
fn rows(line: &str) -> Vec<Value> {
    let output = replay(&format!("{line} --json"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn hits(rows: &[Value], policy: &str, frames: usize) -> u64 {
    let is = |row: &&Value| row["policy"] == policy && row["frames"] == frames;
    rows.iter().find(is).unwrap()["hits"].as_u64().unwrap()
}

/// What a replay should come to, by the plainest of models: a list of pages, the next to go in
/// front.
#[derive(Clone, Copy)]
enum Model {
    Lru,
    Fifo,
    Optimum,
}

impl Model {
    fn hits(self, requests: &[u64], frames: usize) -> u64 {
        let (mut list, mut hits) = (Vec::<u64>::new(), 0);
        for (at, page) in requests.iter().enumerate() {
            let found = list.iter().position(|resident| resident == page);
            hits += u64::from(found.is_some());
            match (self, found) {
                (Model::Lru, Some(i)) => {
                    list.remove(i);
                }
                (_, Some(_)) => continue,
                (_, None) if list.len() < frames => {}
                (Model::Lru | Model::Fifo, None) => {
                    list.remove(0);
                }
                (Model::Optimum, None) => {
                    let next = |of: &u64| requests[at..].iter().position(|page| page == of);
                    let due = |of: &u64| next(of).unwrap_or(usize::MAX);
                    let last = (0..list.len()).max_by_key(|&i| due(&list[i])).unwrap();
                    list.remove(last);
                }
            }
            list.push(*page);
        }
        hits
    }
}

/// The string of A. Silberschatz, P. Galvin and G. Gagne, "Operating System Concepts", 9.4, whose
/// faults with three frames are counted there by hand: 15 for FIFO, 12 for LRU, 9 at least.
const TEXTBOOK: [u64; 20] = [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1];

#[test]
fn the_string_of_the_textbook_has_its_known_answers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/textbook.lis");
    let rows = rows(&format!("{} --frames 1,2,3,4,5,6", path.display()));
    assert!(rows.iter().all(|row| row["trace"] == "textbook.lis" && row["requests"] == 20));
    for (policy, faults) in [("FIFO", 15), ("exact LRU", 12), ("lru", 12), ("optimum", 9)] {
        assert_eq!(20 - hits(&rows, policy, 3), faults, "{policy}");
    }
    for frames in 1..=6 {
        for (policy, model) in
            [("FIFO", Model::Fifo), ("exact LRU", Model::Lru), ("optimum", Model::Optimum)]
        {
            let expected = model.hits(&TEXTBOOK, frames);
            assert_eq!(hits(&rows, policy, frames), expected, "{policy} at {frames}");
        }
        for policy in
            ["s3-fifo", "clock", "cooling:10", "lru", "2q", "watt", "hyperbolic", "random"]
        {
            assert!(hits(&rows, policy, frames) <= hits(&rows, "optimum", frames), "{policy}");
        }
    }
}

#[test]
fn a_longer_trace_comes_out_as_the_model_says() {
    let (mut state, mut requests, mut text) = (7u64, Vec::new(), String::new());
    for _ in 0..5000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // The smaller of two, so that low numbers come more often.
        requests.push((state >> 33).min(state >> 13 & 0x7FFF_FFFF) % 97);
        writeln!(text, "{}", requests.last().unwrap()).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ids.txt");
    fs::write(&path, text).unwrap();
    let rows = rows(&format!("{} --frames 3,20,60,97 --policy lru", path.display()));
    for frames in [3, 20, 60, 97] {
        for (policy, model) in [
            ("FIFO", Model::Fifo),
            ("exact LRU", Model::Lru),
            ("lru", Model::Lru),
            ("optimum", Model::Optimum),
        ] {
            let expected = model.hits(&requests, frames);
            assert_eq!(hits(&rows, policy, frames), expected, "{policy} at {frames}");
        }
    }
}

#[test]
fn each_policy_and_reference_gives_a_line_of_json() {
    let rows = rows("zipf:1 --pages 1000 --requests 20k --frames 50,100");
    let policies = [
        "s3-fifo",
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
fn dirty_pages_that_go_stand_beside_the_misses() {
    let dir = tempfile::tempdir().unwrap();
    let (csv, spc) = (dir.path().join("ids.csv"), dir.path().join("disk.spc"));
    // Pages 1, 2, 3, 1 and 2 in two frames: all miss, and of the three that go 1 and 3 are dirty.
    fs::write(&csv, "pages,is_write\n1,1\n2,0\n3,1\n1,0\n2,0\n").unwrap();
    fs::write(
        &spc,
        "0,8,512,W,0.1\n0,16,512,R,0.2\n0,24,512,W,0.3\n0,8,512,R,0.4\n0,16,512,R,0.5\n",
    )
    .unwrap();
    for file in [csv, spc] {
        for row in rows(&format!("{} --frames 2 --policy lru", file.display())) {
            if ["lru", "exact LRU", "FIFO"].contains(&row["policy"].as_str().unwrap()) {
                assert_eq!((&row["misses"], &row["writes"]), (&5.into(), &2.into()), "{row}");
            }
        }
    }
    let line = "zipf:1 --pages 1000 --requests 20k --frames 50 --policy watt";
    let (clean, written) = (rows(line), rows(&format!("{line} --writes 100")));
    for (clean, written) in clean.iter().zip(&written) {
        assert_eq!(clean["writes"], 0, "{clean}");
        // Each page that goes was changed, and each that comes in drives one out.
        assert_eq!(written["writes"], written["misses"], "{written}");
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
    let (path, unknown) = (dir.path().join("bad.lis"), dir.path().join("t.lis.gz"));
    fs::write(&path, "1 1 0 0\nnothing\n").unwrap();
    fs::write(&unknown, "\u{1F}packed").unwrap();
    let (path, unknown) = (path.display(), unknown.display());
    for (line, status, why) in [
        (format!("{path} --frames 10"), 1, "bad.lis:2"),
        ("/nowhere/a.lis --frames 10".to_owned(), 1, "/nowhere/a.lis"),
        ("zipf:1 --requests 1k --pages 10 --bytes 1MiB".to_owned(), 2, "--frames"),
        (format!("{unknown} --frames 10"), 1, "--format lis, oracle or spc"),
        ("zipf:1 /nowhere/a.lis --frames 10".to_owned(), 1, "/nowhere/a.lis"),
        (format!("zipf:1 {path} --frames 10 --bytes 1MiB"), 2, "zipf:1: its pages have no sizes"),
        (format!("{path} --frames 10 --bytes 1MiB"), 2, "bad.lis: its pages have no sizes"),
        (format!("{path} --frames 10 --pages 10"), 2, "--pages"),
        (format!("{path}"), 2, "--frames"),
        (format!("{path} --frames 10 --policy arc"), 2, "hyperbolic"),
        (format!("{path} --frames 10 --policy cooling:95"), 2, "90"),
    ] {
        let output = replay(&line);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{line}: {errors}");
        assert!(errors.contains(why), "{line}: {errors}");
        assert!(output.stdout.is_empty(), "{line}: something was played");
    }
}

#[test]
fn what_was_played_stands_there_when_something_fails_later() {
    let dir = tempfile::tempdir().unwrap();
    let (good, bad) = (dir.path().join("good.txt"), dir.path().join("bad.lis"));
    fs::write(&good, "9\n9\n").unwrap();
    fs::write(&bad, "nothing\n").unwrap();
    let output = replay(&format!("{} {} --frames 4", good.display(), bad.display()));
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("good.txt, 4 frames") && text.contains("optimum"), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("bad.lis:1"));
}
