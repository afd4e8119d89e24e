//! Each way to fail has its sentence and its exit code, and leaves the store closed.

use std::io::Read;
use std::process::Stdio;

use crate::support::{Store, Waiting, finish, killed_load, polder, run, signal, spawn};

#[test]
fn wrong_command_lines() {
    let store = Store::new();
    run(&mut polder()).fails(2);
    run(polder().arg("dance")).fails(2);
    store.polder("get", ["t"]).fails(2);
    store.polder("get", ["t", r"\q", "--escaped"]).fails(2);
    store.polder("stat", ["--budget", "lots"]).fails(2);
    store.polder("put", ["t", "k", "v", "--durability", "maybe"]).fails(2);
    store.polder("put", ["t", "k", "v", "--durability", "periodic:10"]).fails(2);
    store.polder("put", ["t", "k", "v", "--log-limit", "1MiB"]).fails(2);
    store.polder("stat", ["--translation", "telepathy"]).fails(2);
    store.polder("scan", ["t", "--prefix", "a", "--from", "b"]).fails(2);
    for import in [
        &["--table", "t", "--format", "lines", "--key", "1", "-"][..],
        &["--table", "t", "--format", "tsv", "--escaped", "-"],
        &["--table", "t", "--table", "u", "--format", "rows", "-"],
        &["--format", "lines", "-"],
        &["--format", "tsv", "-"],
    ] {
        store.polder("import", import).fails(2);
    }
    store.polder("put", ["t", &"k".repeat(5000), "v"]).fails(2);
    let dir = tempfile::tempdir().unwrap();
    let create = |more: &[&str]| run(polder().arg("create").arg(dir.path().join("s")).args(more));
    create(&["--budget", "4KiB"]).fails(2);
    create(&["--log-limit", "1MiB"]).fails(2);
    create(&["--page-size", "5000"]).fails(2);
    create(&["--page-size", "5GiB"]).fails(2);
}

#[test]
fn help_and_version_are_no_errors() {
    for command in ["import", "export", "check", "log", "salvage", "put", "completions"] {
        assert!(run(polder().args([command, "--help"])).ok().contains("Usage:"));
    }
    assert!(run(polder().arg("--help")).ok().contains("Exit codes:"));
    assert!(run(polder().arg("--version")).ok().starts_with("polder "));
}

#[test]
fn stores_that_cannot_be_opened() {
    let dir = tempfile::tempdir().unwrap();
    let none = dir.path().join("none");
    run(polder().arg("stat").arg(&none)).fails(3);
    assert!(!none.exists(), "looking for a store must not make one");

    let foreign = dir.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("letter.txt"), "Dear Jane").unwrap();
    run(polder().arg("stat").arg(&foreign)).fails(3);
    run(polder().arg("create").arg(&foreign)).fails(3);
    assert!(foreign.join("letter.txt").exists());

    let store = Store::new();
    store.polder("create", [""; 0]).fails(3);
}

#[test]
fn what_is_not_there() {
    let store = Store::new();
    assert!(store.polder("get", ["nowhere", "k"]).fails(1).contains("nowhere"));
    let load = store.polder("import", ["--table", "t", "--format", "lines", "/no/such/file"]);
    assert!(load.fails(4).contains("/no/such/file"));
    assert!(store.polder("tables", [""; 0]).ok().contains("no tables"));
    let folder = store.dir.path().to_owned();
    run(store.command("import", ["--table", "t", "--format", "lines"]).arg(folder)).fails(4);
    store.polder("stat", [""; 0]).ok();
}

#[test]
fn a_second_process_is_told_who_holds_the_store() {
    let store = Store::new();
    let first = Waiting::on(&store);
    let error = store.polder("tables", [""; 0]).fails(3);
    assert!(error.contains(&first.process.to_string()), "{error}");
    let lines = first.lines;
    assert_eq!(first.end().json()["loaded"], lines);
    store.polder("tables", [""; 0]).ok();
}

#[test]
fn errors_are_objects_for_programs() {
    let store = Store::new();
    let of = |run: crate::support::Run, kind: &str, code: i32| {
        let last = run.err.lines().last().unwrap_or_default();
        let said: serde_json::Value = serde_json::from_str(last).unwrap();
        let error = &said["error"];
        assert_eq!((&error["kind"], &error["exit_code"]), (&kind.into(), &code.into()), "{error}");
        assert!(!error["message"].as_str().unwrap().contains("polder: "), "{error}");
        assert_eq!((run.code, run.out.as_str()), (code, ""));
        error.clone()
    };
    let json = |command: &str, args: &[&str]| store.polder(command, args.iter().chain(&["--json"]));
    let error = of(json("get", &["nowhere", "k"]), "no_such_table", 1);
    assert!(error["hint"].as_str().unwrap().contains("polder tables"), "{error}");
    store.polder("put", ["t", "k", "v"]).ok();
    let error = of(json("get", &["t", "x"]), "not_found", 1);
    assert_eq!((&error["hint"], &error["line"]), (&serde_json::Value::Null, &error["input"]));
    of(json("put", &["t", &"k".repeat(600), "v"]), "key_too_long", 2);
    of(json("rename", &["t", "t"]), "table_exists", 2);
    let error = of(json("stat", &["--budget", "lots"]), "usage", 2);
    assert!(error["message"].as_str().unwrap().contains("invalid value 'lots'"), "{error}");
    of(json("create", &[]), "store_exists", 3);
    let none = store.dir.path().join("none");
    of(run(polder().args(["stat", "--json"]).arg(none)), "no_store", 3);
    let rows = store.file("rows", "{\"key\":\"a\",\"value\":\"\"}\n{\"key\":\"b\"}\n");
    let args = ["--table", "new", "--format", "jsonl", rows.to_str().unwrap()];
    let error = of(json("import", &args), "bad_input", 2);
    assert_eq!((&error["input"], &error["line"]), (&rows.to_str().into(), &2.into()));
    of(json("import", &["--table", "t", "--format", "tsv", "/no/such"]), "io", 4);
}

#[test]
fn sizes_are_read_as_they_are_written() {
    let store = Store::new();
    store.polder("stat", ["--budget", "0.5MiB"]).fails(2);
    let budget = |text| store.polder("stat", ["--json", "--budget", text]).json();
    for (text, bytes) in [("16M", 16_000_000), ("16MB", 16_000_000), ("15.5 MiB", 31 << 19)] {
        assert_eq!(budget(text)["memory_budget_bytes"], bytes, "{text}");
    }
}

#[test]
fn ctrl_c_ends_a_load_in_good_order() {
    for name in ["INT", "TERM"] {
        let store = Store::new();
        let load = Waiting::on(&store);
        signal(load.process, name);
        let run = load.finish();
        let said: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(said["interrupted"], true);
        assert!(run.fails(130).contains("stopped"));
        let loaded = said["loaded"].as_u64().unwrap();
        assert!(loaded > 0);
        let keys = store.polder("scan", ["t", "--keys-only"]).ok();
        let expected: String = (0..loaded).map(|i| format!("{i:08}\n")).collect();
        assert!(keys == expected, "{loaded} lines were said to be loaded");
        store.polder("check", [""; 0]).ok();
    }
}

#[test]
fn what_a_killed_process_leaves_is_recovered() {
    let store = Store::new();
    killed_load(&store, "none");
    // Commands that only read find all of it each time, and leave it there.
    let keys = [(); 2].map(|()| {
        let scan = store.polder("scan", ["t", "--keys-only"]);
        assert!(scan.err.starts_with("the store had not been closed; read "), "{}", scan.err);
        scan.ok()
    });
    let loaded = keys[0].lines().count();
    let expected: String = (0..loaded).map(|i| format!("{i:08}\n")).collect();
    assert!(loaded > 0 && keys == [&*expected, &*expected], "{loaded} lines: not the first ones");
    let put = store.polder("put", ["u", "k", "v"]);
    assert!(put.err.starts_with("the store had not been closed; recovered "), "{}", put.err);
    put.ok();
    assert!(store.polder("scan", ["t", "--keys-only"]).ok() == expected);
    assert_eq!(store.polder("check", [""; 0]).err, "", "the second opening has nothing to recover");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let store = Store::new();
    let lines: String = (0..100_000).map(|i| format!("{i:08}\n")).collect();
    store.load_lines("t", &lines);
    for arg in ["--keys-only", "--json"] {
        let mut scan = spawn(store.command("scan", ["t", arg]).stdin(Stdio::null()));
        let mut some = [0; 100];
        scan.stdout.take().unwrap().read_exact(&mut some).unwrap();
        let run = finish(scan);
        assert_eq!((run.code, run.err.as_str()), (0, ""));
    }
    store.polder("check", [""; 0]).ok();
}

#[test]
fn a_changed_byte_is_found() {
    let store = Store::new();
    let rows: String =
        (0..20_000).map(|i| format!("{i:08}\tthe value of number {i:08}\n")).collect();
    let args = ["--table", "t", "--format", "rows", "-"];
    store.feed("import", args, rows.as_bytes()).ok();

    let data = store.path().join("data");
    let mut bytes = std::fs::read(&data).unwrap();
    let needle = b"the value of number 00010000";
    let at = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&data, bytes).unwrap();

    let run = store.polder("check", [""; 0]);
    assert!(run.out.contains("table `t`, page "), "{run:?}");
    assert!(run.fails(1).contains("damaged"));
    let run = store.polder("check", ["--json"]);
    let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["sound"], false);
    assert!(!report["faults"].as_array().unwrap().is_empty());
    run.fails(1);
}
