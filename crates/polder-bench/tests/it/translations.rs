//! `polder-bench translations` from end to end, on little data.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use polder::TranslationKind;
use polder_testkit::found;
use serde_json::Value;

/// The sides of a list of `sides.toml`, each by its name.
fn sides_of(list: &str) -> Vec<String> {
    let lists: HashMap<String, Vec<String>> =
        toml::from_str(include_str!("../../src/ladder/sides.toml")).unwrap();
    let of = |kinds: &[TranslationKind]| kinds.iter().map(|kind| kind.to_string()).collect();
    let names = |word: &String| match &**word {
        "*evicting" => of(TranslationKind::EVICTING),
        "*resident" => of(TranslationKind::RESIDENT),
        _ => vec![word.clone()],
    };
    lists[list].iter().flat_map(names).collect()
}

/// What each part measures, and on which list of sides.
const EXPECTED: &[(&str, &[&str], &str)] = &[
    ("scan", &["sequential", "random"], "engines"),
    ("heap", &["rows"], "peers"),
    ("graph", &["nodes", "nodes, group prefetch"], "engines"),
    ("files", &["nodes of ring"], "peers"),
    ("lookup", &["uniform", "zipfian", "uniform: cpu"], "steps"),
    ("multi", &["queries", "metadata"], "holds"),
    ("multi-larger", &["queries", "queries: pages read"], "holds_larger"),
    ("splits", &["descents", "restarts", "inserts"], "copying"),
    ("breakdown", &["rest", "translation", "pin", "latch", "all"], "broken_down"),
    ("growing", &["lookups", "lookups: cpu", "out of memory: give-backs"], "evicting"),
    ("growing", &["chains at fill 0.25", "chains at fill 1"], "hash_alone"),
    ("skew", &["lookups", "lookups: cpu", "lookups: pages read"], "evicting"),
    (
        "placement",
        &["pages", "allowed", "possible", "accesses", "moved bytes over time, 3"],
        "promoting",
    ),
    ("cooling", &["cooling:1", "cooling:50", "clock", "clock: lookups"], "swizzle_alone"),
    ("scans", &["large table", "small table", "pages read"], "scanned"),
    (
        "memory",
        &["YCSB-C: all", "YCSB-D: page tables of frames", "scattered hot keys: translation"],
        "evicting",
    ),
    ("memory-growing", &["translation", "reclaimed", "groups given back"], "evicting"),
    ("tiers", &["zipfian", "uniform", "uniform: pages read"], "tiered"),
    ("tier-policies", &["zipfian, tuned", "uniform, lazy"], "tiered"),
    (
        "migration",
        &[
            "pages moved",
            "pages moved, best batch",
            "lookups by still ones",
            "lookups by still ones, by processor time",
        ],
        "tiered",
    ),
    ("tpcc", &["transactions", "conflicts"], "resident_tpcc"),
    ("features", &["transactions", "conflicts"], "features"),
    ("scaling", &["one thread", "pre-faulted memory: speedup"], "swizzle_alone"),
    (
        "tpcc-larger",
        &[
            "transactions",
            "transactions over time",
            "lowest interval",
            "median interval",
            "bytes read over time",
        ],
        "evicting",
    ),
    (
        "tpcc-mixes",
        &["transactions, 0:100", "transactions, 50:50", "transactions, standard"],
        "tpcc_holds",
    ),
    (
        "tpcc-mixes-larger",
        &["transactions, 0:100", "transactions, standard", "pages read, 0:100"],
        "tpcc_holds_larger",
    ),
    (
        "tpcc-growing",
        &[
            "transactions",
            "transactions over time",
            "data over time",
            "translation and page tables",
        ],
        "designs_and_swap",
    ),
    (
        "ramp-up",
        &["transactions over time", "opening", "ramp-up", "transactions over time, warm"],
        "designs",
    ),
    ("tpcc-tiers", &["transactions", "transactions: pages read"], "designs"),
    ("tpcc-tier-policies", &["transactions, tuned", "transactions, lazy"], "designs"),
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

/// Has a turn where there is swap.
const SWAPPED: &str = "direct, swapped";

/// From this part on they are run beside the others, by another process.
const FIRST_OF_STORES: &str = "tpcc";

#[test]
fn every_side_of_every_part_is_measured_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    let ring = dir.path().join("ring.txt");
    fs::write(&ring, "4,4,u\n1,2\n2,3\n3,4\n4,1\n").unwrap();
    let counted = dir.path().join("writes.json");
    let side = |name| {
        let none = r#"{"stores":0,"updates":0,"by_neighbourhood":0}"#;
        format!(r#"{{"translation":"{name}","hold":"optimistic","a_lookup":{none}}}"#)
    };
    let sides = ["array", "predictive", "vm"].map(side).join(",");
    fs::write(&counted, format!(r#"{{"threads":4,"keys":20000,"sides":[{sides}]}}"#)).unwrap();
    let [ring, counted] = [&ring, &counted].map(|path| path.to_str().unwrap());
    let more = ["--graph", ring, "--writes", counted];

    let mut names: Vec<&str> = EXPECTED.iter().map(|(part, ..)| *part).collect();
    names.dedup();
    let first = names.iter().position(|name| *name == FIRST_OF_STORES).unwrap();
    let halves = [&names[..first], &names[first..]].map(|names| names.join(","));
    let dirs = ["pools", "stores"].map(|name| dir.path().join(name));
    let outputs = thread::scope(|scope| {
        let run = |dir, parts, more: &[_]| {
            fs::create_dir(dir).unwrap();
            let arguments = [&["--parts", parts][..], more].concat();
            scope.spawn(move || translations(dir, &arguments))
        };
        let [pools, stores] = [(0, &more[..]), (1, &["--json"])]
            .map(|(half, more)| run(&dirs[half], halves[half].as_str(), more));
        [pools.join().unwrap(), stores.join().unwrap()]
    });
    let [of_pools, of_stores] = [0, 1].map(|half| shown(&dirs[half], &outputs[half]));
    assert!(outputs[1].stdout.starts_with(b"{"), "--json");
    for (part, metrics, list) in EXPECTED {
        let of_part = names[..first].contains(part);
        let results = if of_part { &of_pools } else { &of_stores };
        // Few systems that run tests have swap, and a control group to be had.
        for side in sides_of(list).iter().filter(|side| *side != SWAPPED) {
            for metric in *metrics {
                let found = medians(results, part, metric, side);
                assert!(!found.is_empty(), "{part}: no {metric} of {side}");
                assert!(found.iter().all(|median| median["median"].is_number()), "{found:?}");
            }
        }
    }
    assert!(of_pools["skipped"].as_array().unwrap().is_empty());
    let swapped = medians(&of_stores, "tpcc-growing", "transactions", SWAPPED);
    let skipped = of_stores["skipped"].as_array().unwrap();
    assert_eq!(skipped.len(), usize::from(swapped.is_empty()), "{skipped:?}");
    for one in skipped {
        assert_eq!((&one["part"], &one["side"]), (&"tpcc-growing".into(), &SWAPPED.into()));
        let said = format!("tpcc-growing, {SWAPPED}: skipped: {}", one["why"].as_str().unwrap());
        assert!(String::from_utf8_lossy(&outputs[1].stderr).contains(&said), "{said}");
    }
    let reached = medians(&of_pools, "files", "ring: sum of depths", "array");
    assert_eq!(reached[0]["median"], 4.0);
    let [pools, stores] = [&of_pools, &of_stores].map(|of| of["criteria"].as_array().unwrap());
    assert_eq!((pools.len(), stores.len()), (CRITERIA, CRITERIA));
    for (pools, stores) in pools.iter().zip(stores) {
        let judged = [pools, stores].into_iter().filter(|of| of["ratio"].is_number()).count();
        assert_eq!(judged, 1, "{pools:?}, {stores:?}");
    }
    // What the processor counts is there where the kernel lets us ask, and so are interrupts.
    let is_missing =
        |(part, metric): &&(&str, &str)| medians(&of_pools, part, metric, "array").is_empty();
    let counters = [
        ("lookup", "uniform: instructions"),
        ("lookup", "uniform: cycles"),
        ("lookup", "uniform: branch misses"),
        ("lookup", "uniform: dTLB misses"),
        ("growing", "lookups: shootdowns"),
    ];
    let missing = [counters.iter().filter(is_missing).count(), 0];
    for (dir, missing) in dirs.iter().zip(missing) {
        let html = fs::read_to_string(dir.join("out/translations.html")).unwrap();
        assert_eq!(html.matches("Not measured in this run").count(), missing);
    }
    for dir in &dirs {
        let left: Vec<_> = dir.read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["out"]);
    }
}

/// How many criteria there are.
const CRITERIA: usize = 31;

/// The results of a run that went well, and shows them as it should.
fn shown(dir: &Path, output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results = results(dir);
    assert_eq!((&results["complete"], &results["size"]), (&true.into(), &"small".into()));
    match serde_json::from_slice::<Value>(&output.stdout) {
        Ok(printed) => assert_eq!(printed, results),
        Err(_) => {
            assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), CRITERIA);
        }
    }
    let html = fs::read_to_string(dir.join("out/translations.html")).unwrap();
    for elsewhere in ["http", "src=", "href=", "@import", "url("] {
        assert!(!html.contains(elsewhere), "{elsewhere}");
    }
    for tag in ["svg", "figure", "table", "g", "text", "title", "details", "div"] {
        let opened =
            html.matches(&format!("<{tag} ")).count() + html.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
        assert!(opened > 0, "{tag}");
    }
    assert!(!html.contains("NaN"));
    results
}

#[test]
fn known_graphs_are_walked_to_their_end() {
    let Some(graph) = found::data("graphs/facebook-combined.jlg") else { return };
    let dir = tempfile::tempdir().unwrap();
    let output =
        translations(dir.path(), &["--parts", "files", "--graph", graph.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results = results(dir.path());
    for side in &sides_of("peers") {
        for (metric, expected) in
            [("nodes reached", 4039.0), ("depth", 6.0), ("sum of depths", 11428.0)]
        {
            let found = medians(&results, "files", &format!("facebook-combined: {metric}"), side);
            assert_eq!(found[0]["median"], expected, "{side}: {metric}");
        }
    }
}

#[test]
fn an_interrupt_ends_it_and_leaves_its_file_alone() {
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
    // Its directory comes after it listens to signals, and its files come after that.
    let patience = Instant::now() + Duration::from_secs(60);
    while !dir.path().join("out").exists() {
        if let Some(status) = child.try_wait().unwrap() {
            panic!("it ended before it began: {status}");
        }
        if Instant::now() > patience {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it never began");
        }
        thread::sleep(Duration::from_millis(10));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(results(dir.path())["complete"], false);
    assert_eq!(dir.path().read_dir().unwrap().count(), 1, "something was left behind");
}

/// By then another build may have taken its place.
#[test]
fn children_are_what_the_parent_is() {
    let dir = tempfile::tempdir().unwrap();
    // A second name of it, where there can be one.
    let beside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = beside.path().join("polder-bench");
    fs::hard_link(env!("CARGO_BIN_EXE_polder-bench"), &program).unwrap();
    let mut child = Command::new(&program)
        .args(["translations", "--size", "small", "--parts", "scan", "--side", "direct"])
        .args(["--rounds", "3", "--seconds", "0.2", "--dir"])
        .arg(dir.path())
        .arg("--out")
        .arg(dir.path().join("out"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !dir.path().join("out").exists() && child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(10));
    }
    let next = beside.path().join("next");
    fs::write(&next, "no program").unwrap();
    fs::rename(&next, &program).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(results(dir.path())["runs"].as_array().unwrap().len(), 3);
}

#[test]
fn what_there_is_not_is_said() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, why) in [
        (&["--parts", "scan,join"][..], "join"),
        (&["--parts", "files"][..], "--graph"),
        (&["--parts", "scan", "--graph", "/"][..], "the part files"),
        (&["--threads", "1,2,1"][..], "--threads names 1 twice"),
        (&["--threads", "0"][..], "threads"),
    ] {
        let output = translations(dir.path(), arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(why), "{errors}");
        assert_eq!(dir.path().read_dir().unwrap().count(), 0, "something was made");
    }
}

#[test]
fn graphs_are_read_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (good, cut) = (dir.path().join("good.txt"), dir.path().join("cut.txt"));
    fs::write(&good, "2,1\n1,2\n").unwrap();
    fs::write(&cut, "3,2\n1,2\n").unwrap();
    let [good, cut] = [&good, &cut].map(|path| path.to_str().unwrap());
    let output = translations(dir.path(), &["--graph", good, "--graph", cut]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("cut.txt:2: the file ends after 1 edges"), "{errors}");
    let output = translations(dir.path(), &["--graph", good, "--graph", good]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert_eq!(dir.path().read_dir().unwrap().count(), 2, "something was made");
}

#[test]
fn results_of_another_run_stay() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out/translations.json");
    fs::create_dir(dir.path().join("out")).unwrap();
    fs::write(&file, "precious").unwrap();
    let output = translations(dir.path(), &["--parts", "scan"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("out/translations.json is there already"), "{errors}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    assert_eq!(dir.path().read_dir().unwrap().count(), 1, "something was left behind");
}

/// With few addresses, there are none for the stacks of so many threads. Stacks are large here: what is
/// left when there is no room for another one is enough for what the others allocate.
#[test]
fn threads_that_cannot_be_had_are_said() {
    let dir = tempfile::tempdir().unwrap();
    let line = "ulimit -v 1000000 && exec \"$0\" translations --size small --rounds 1 \
                --threads 1024 --seconds 0.01 --parts multi --side 'hash, shared' --dir \"$1\" \
                --out \"$1/out\"";
    let output = Command::new("sh")
        .args(["-c", line, env!("CARGO_BIN_EXE_polder-bench")])
        .env("RUST_MIN_STACK", (64 << 20).to_string())
        .arg(dir.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let results = results(dir.path());
    let why = results["failures"][0]["why"].as_str().unwrap();
    assert!(why.contains("of 1024 threads could be started"), "{why}");
}

/// With few addresses, some translations get none for their maps.
#[test]
fn a_run_that_fails_is_told_once_and_counted_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let line = "ulimit -v 1000000 && exec \"$0\" translations --size small --rounds 1 --threads 1 \
                --seconds 0.01 --parts scan --dir \"$1\" --out \"$1/out\"";
    let output = Command::new("sh")
        .args(["-c", line, env!("CARGO_BIN_EXE_polder-bench")])
        .arg(dir.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let results = results(dir.path());
    let failures = results["failures"].as_array().unwrap();
    assert!(!failures.is_empty(), "{errors}");
    assert_eq!((&results["complete"], failures[0]["part"].as_str()), (&true.into(), Some("scan")));
    for failure in failures {
        let [side, why] = ["side", "why"].map(|field| failure[field].as_str().unwrap());
        assert_eq!(errors.matches(&format!("scan, {side}: {why}")).count(), 1, "{errors}");
    }
    let mut whys: Vec<&str> = failures.iter().map(|one| one["why"].as_str().unwrap()).collect();
    whys.sort_unstable();
    whys.dedup();
    let told: usize = whys.iter().map(|why| errors.matches(why).count()).sum();
    assert_eq!(told, failures.len(), "{errors}");
    let end = format!("polder-bench: {} of the runs failed: ", failures.len());
    let last = errors.lines().last().unwrap();
    assert!(last.starts_with(&end) && last.ends_with("out/translations.json says why"), "{last}");
}
