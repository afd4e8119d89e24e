//! What goes in comes out: every command on small stores.

use serde_json::{Value, json};

use crate::support::{Store, polder, run};

#[test]
fn put_get_del() {
    let store = Store::new();
    assert_eq!(store.polder("put", ["t", "hello", "world"]).ok(), "");
    assert_eq!(store.polder("get", ["t", "hello"]).ok(), "world\n");
    assert_eq!(store.polder("get", ["t", "hello", "--raw"]).ok(), "world");
    let put = store.polder("put", ["t", "hello", "moon", "--json"]).json();
    assert_eq!(put, json!({ "key": "hello", "new": false }));
    let get = store.polder("get", ["t", "hello", "--json"]).json();
    assert_eq!(get, json!({ "key": "hello", "value": "moon" }));
    assert_eq!(store.polder("del", ["t", "hello"]).ok(), "");
    assert!(store.polder("get", ["t", "hello"]).fails(1).contains("no key hello in table t"));
    assert!(store.polder("del", ["t", "hello"]).fails(1).contains("no key hello"));
}

#[test]
fn many_keys_are_looked_up_in_their_order() {
    let store = Store::new();
    let rows: String = (0..3000).map(|i| format!("{i:05}\tvalue {i}\n")).collect();
    store.feed("import", ["--table", "t", "--format", "tsv", "-"], rows.as_bytes()).ok();
    let some = store.polder("get", ["t", "00007", "00003", "00007"]).ok();
    assert_eq!(some, "00007\tvalue 7\n00003\tvalue 3\n00007\tvalue 7\n");
    let keys: String = (0..3000).rev().map(|i| format!("{i:05}\n")).collect();
    let all = store.feed("get", ["t", "--keys-from", "-"], keys.as_bytes()).ok();
    assert!(all.lines().eq(rows.lines().rev()));
    let json = store.feed("get", ["t", "00001", "--json", "--keys-from", "-"], b"00002").ok();
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], json!({ "key": "00001", "value": "value 1" }));
    assert_eq!((lines.len(), &lines[1]["key"]), (2, &json!("00002")));
    // What is there is printed, whatever is missing.
    let run = store.polder("get", ["t", "x", "00001", "y"]);
    assert_eq!(run.out, "00001\tvalue 1\n");
    assert!(run.fails(1).contains("of 3 keys 2 are not in table t, x the first of them"));
    let run = store.feed("get", ["t", "--keys-from", "-"], b"x\n00001\n");
    assert_eq!(run.out, "00001\tvalue 1\n");
    assert!(run.fails(1).contains("no key x in table t"));
    assert_eq!(store.feed("get", ["t", "--keys-from", "-"], b"").ok(), "");
    store.polder("get", ["t", "00001", "00002", "--raw"]).fails(2);
}

#[test]
fn bytes_that_are_no_text_are_escaped_both_ways() {
    let store = Store::new();
    store.polder("put", ["t", r"k\xff", r"a\\b\x00", "--escaped"]).ok();
    store.polder("put", ["t", r"k\xff", "as it is"]).ok();
    assert_eq!(store.polder("get", ["t", r"k\xff", "--escaped"]).ok(), "a\\\\b\\x00\n");
    assert_eq!(store.polder("get", ["t", r"k\xff", "--escaped", "--raw"]).ok(), "a\\b\0");
    assert_eq!(store.polder("scan", ["t", "--keys-only"]).ok(), "k\\\\xff\nk\\xff\n");
    let scan = store.polder("scan", ["t", "--json", "--limit", "1", "--reverse"]).json();
    assert_eq!(scan, json!({ "key": { "escaped": r"k\xff" }, "value": "a\\b\0" }));

    let keys = store.polder("scan", ["t", "--keys-only"]).ok();
    let args = ["--table", "copy", "--format", "lines", "-", "--escaped"];
    store.feed("import", args, keys.as_bytes()).ok();
    assert_eq!(store.polder("scan", ["copy", "--keys-only"]).ok(), keys);
}

#[test]
fn lines_from_standard_input() {
    let store = Store::new();
    let args = ["--table", "words", "--format", "lines", "-"];
    let said = store.feed("import", args, b"pear\napple\r\nfig\napple").ok();
    assert!(said.starts_with("4 rows into words: 3 new, 1 replaced; "), "{said}");
    assert_eq!(store.polder("scan", ["words", "--keys-only"]).ok(), "apple\nfig\npear\n");
    assert_eq!(store.polder("scan", ["words", "--limit", "1"]).ok(), "apple\t\n");
}

#[test]
fn scans_take_bounds_direction_and_limit() {
    let store = Store::new();
    store.load_lines("t", "a\nab\nabc\nb\nba\nc\n");
    let keys = |args: &[&str]| {
        let args = ["t", "--keys-only"].iter().chain(args);
        store.polder("scan", args).ok().replace('\n', " ")
    };
    assert_eq!(keys(&[]), "a ab abc b ba c ");
    assert_eq!(keys(&["--prefix", "a"]), "a ab abc ");
    assert_eq!(keys(&["--prefix", "a", "--reverse", "--limit", "2"]), "abc ab ");
    assert_eq!(keys(&["--from", "ab", "--to", "ba"]), "ab abc b ");
    assert_eq!(keys(&["--from", "ab", "--to", "ba", "--reverse"]), "b abc ab ");
    assert_eq!(keys(&["--to", "ab"]), "a ");
    assert_eq!(keys(&["--from", "bb"]), "c ");
    assert_eq!(keys(&["--from", "x"]), "");
    assert_eq!(keys(&["--limit", "0"]), "");
    assert!(
        store.polder("scan", ["t", "--from", "b", "--to", "a"]).fails(2).contains("from b to a")
    );
}

#[test]
fn rows_with_columns() {
    let store = Store::new();
    let rows = store.file("rows.tsv", "1\tParis\tFR\n2\tUlm\tDE\n3\tOslo\tNO\n");
    let load = |table: &str, more: &[&str]| {
        let mut command = store.command("import", ["--table", table, "--format", "rows"]);
        run(command.arg(&rows).args(more))
    };
    let said = load("by_name", &["--key", "2", "--json"]).json();
    assert_eq!((&said["loaded"], &said["new"]), (&json!(3), &json!(3)));
    assert_eq!(store.polder("get", ["by_name", "Ulm"]).ok(), "2\tUlm\tDE\n");
    load("by_id", &[]).ok();
    assert_eq!(store.polder("get", ["by_id", "3"]).ok(), "3\tOslo\tNO\n");
    assert!(load("x", &["--key", "0"]).fails(2).contains("--key"));
}

#[test]
fn bad_rows_stop_a_load_or_are_skipped() {
    let store = Store::new();
    let rows = store.file("rows.tsv", "1\tParis\n2\n3\tOslo\n4\n");
    let load = |more: &[&str]| {
        let args = ["--table", "t", "--format", "rows", "--key", "2"];
        run(store.command("import", args).arg(&rows).args(more))
    };
    let error = load(&[]).fails(2);
    assert!(error.contains("rows.tsv, line 2: the row has 1 column, and the key is column 2"));
    assert!(error.contains("Nothing of table t was kept") && error.contains("--skip-bad"));
    assert!(store.polder("tables", [""; 0]).ok().contains("no tables"));

    // Into a table that is there the rows before it go.
    store.polder("put", ["t", "Ulm", ""]).ok();
    let error = load(&[]).fails(2);
    assert!(error.contains("The row before it is in table t"), "{error}");
    assert_eq!(store.polder("scan", ["t", "--keys-only"]).ok(), "Paris\nUlm\n");

    let skipping = load(&["--skip-bad", "--json"]);
    // Notes are for programs as well.
    let notes = skipping.err.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let notes: Vec<String> = notes.map(|note| note["note"].as_str().unwrap().into()).collect();
    assert!(notes[1].contains("line 4: the row has 1 column"), "{skipping:?}");
    let said = skipping.json();
    assert_eq!((&said["loaded"], &said["skipped"]), (&json!(2), &json!(2)));
    assert_eq!(store.polder("scan", ["t", "--keys-only"]).ok(), "Oslo\nParis\nUlm\n");
}

#[test]
fn a_key_is_the_same_to_all_commands() {
    let store = Store::new();
    store.polder("put", ["t", "", "of nothing"]).ok();
    assert_eq!(store.polder("get", ["t", ""]).ok(), "of nothing\n");
    store.load_lines("l", "\nb\n");
    assert_eq!(store.polder("scan", ["l"]).ok(), "\t\nb\t\n");
    assert_eq!(store.polder("get", ["l", ""]).ok(), "\n");
    store.polder("del", ["t", ""]).ok();
    let long = "k".repeat(513);
    assert!(store.polder("put", ["new", &long, "v"]).fails(2).contains("513 bytes is too long"));
    let args = ["--table", "new", "--format", "lines", "-"];
    assert!(store.feed("import", args, long.as_bytes()).fails(2).contains("513 bytes is too long"));
    let args = ["--table", "", "--format", "lines", "-"];
    assert!(store.feed("import", args, b"key").fails(2).contains("a table's name has 1 to 255"));
    let args = ["--table", "none", "--format", "lines", "-", "--json"];
    assert_eq!(store.feed("import", args, b"").json()["loaded"], 0);
    let tables = store.polder("tables", ["--json"]).json();
    let names: Vec<_> = tables["tables"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
    assert_eq!(names, ["l", "t"], "a table was left behind");
    store.polder("put", ["new", &long[1..], "v"]).ok();
}

#[test]
fn rename_checkpoint_and_shrink() {
    let store = Store::new();
    store.load_lines("words", "a\nb\nc\n");
    store.load_lines("more", "a\n");
    assert_eq!(store.polder("rename", ["words", "letters"]).ok(), "");
    assert_eq!(store.polder("scan", ["letters", "--keys-only"]).ok(), "a\nb\nc\n");
    assert!(store.polder("scan", ["words"]).fails(1).contains("words"));
    assert!(store.polder("rename", ["words", "w"]).fails(1).contains("no table `words`"));
    assert!(store.polder("rename", ["more", "letters"]).fails(2).contains("`letters` already"));
    let long = "x".repeat(256);
    assert!(store.polder("rename", ["more", &long]).fails(2).contains("255 bytes"));
    let said = store.polder("rename", ["letters", "words", "--json"]).json();
    assert_eq!(said, json!({ "renamed": "letters", "to": "words" }));

    let said = store.polder("checkpoint", ["--json"]).json();
    assert!(said["log_replay_bytes"].as_u64().unwrap() < 64 << 10, "{said}");
    assert!(store.polder("checkpoint", [""; 0]).ok().starts_with("all is in place"));
    let rows: String = (0..20_000).map(|i| format!("{i:08}\tvalue\n")).collect();
    let args = ["--table", "big", "--format", "rows", "-"];
    store.feed("import", args, rows.as_bytes()).ok();
    store.polder("shrink", [""; 0]).ok();
    let before = store.path().join("data").metadata().unwrap().len();
    store.polder("drop", ["big"]).ok();
    let said = store.polder("shrink", ["--json"]).json();
    let after = store.path().join("data").metadata().unwrap().len();
    assert!(after < before && said["file_bytes"] == after, "{before}, {after}, {said}");
    assert_eq!(store.polder("scan", ["words", "--keys-only"]).ok(), "a\nb\nc\n");
}

#[test]
fn tables_are_prewarmed_for_the_next_opening() {
    let store = Store::new();
    let rows: String = (0..60_000).map(|i| format!("{i:08}\tvalue\n")).collect();
    let args = ["--table", "big", "--format", "rows", "-"];
    store.feed("import", args, rows.as_bytes()).ok();
    store.load_lines("small", "a\n");
    let list = store.path().join("resident");
    assert!(!list.exists(), "a command leaves a list");
    let said = store.polder("prewarm", ["--json"]).json();
    assert_eq!((&said["loaded_pages"], &said["listed_pages"]), (&json!(0), &json!(0)), "{said}");
    assert!(store.polder("prewarm", ["--table", "none"]).fails(1).contains("no table `none`"));
    let tables = ["--table", "big", "--table", "small", "--json"];
    let said = store.polder("prewarm", tables).json();
    let loaded = said["loaded_pages"].as_u64().unwrap();
    assert!(loaded > 256 && said["memory_full"] == false, "{said}");
    let before = std::fs::read(&list).unwrap();
    // Other commands do not load it, and leave it to others.
    store.polder("put", ["small", "b", "v"]).ok();
    let said = store.polder("prewarm", [""; 0]).ok();
    let pages = said.split(' ').nth(1).unwrap().replace(',', "").parse::<u64>().unwrap();
    assert!(pages + 20 > loaded && said.contains("on the list"), "{loaded}: {said}");
    assert_eq!(std::fs::read(&list).unwrap(), before);
    // With little memory it takes what there is, and says so.
    let least = ["--table", "big", "--budget", "2MiB"];
    assert!(store.polder("prewarm", least).ok().contains("no memory for more"));
    std::fs::write(&list, b"nonsense").unwrap();
    let error = store.polder("prewarm", [""; 0]).fails(4);
    assert!(error.contains("the list of resident pages") && error.contains("cut off"), "{error}");
    assert_eq!(store.polder("get", ["small", "b"]).ok(), "v\n");
}

#[test]
fn a_key_too_long_is_a_bad_row() {
    let store = Store::new();
    let input = format!("a\n{}\nb\n", "x".repeat(5000));
    let args = ["--table", "t", "--format", "lines", "-"];
    assert!(
        store.feed("import", args, input.as_bytes()).fails(2).contains("standard input, line 2")
    );
    let args = ["--table", "t", "--format", "lines", "-", "--skip-bad"];
    assert!(store.feed("import", args, input.as_bytes()).ok().contains("1 skipped"));
    assert_eq!(store.polder("scan", ["t", "--keys-only"]).ok(), "a\nb\n");
}

#[test]
fn tables_stat_check_and_drop() {
    let store = Store::new();
    assert!(store.polder("tables", [""; 0]).ok().contains("no tables"));
    store.load_lines("words", "a\nb\nc\n");
    store.load_lines("more", "a\n");
    let names = |value: &Value| {
        let tables = value["tables"].as_array().unwrap();
        tables.iter().map(|t| (t["name"].clone(), t["entries"].clone())).collect::<Vec<_>>()
    };
    let expected = [(json!("more"), json!(1)), (json!("words"), json!(3))];
    assert_eq!(names(&store.polder("tables", ["--json"]).json()), expected);
    let stat = store.polder("stat", ["--json", "--budget", "16MiB"]).json();
    assert_eq!(names(&stat), expected);
    assert_eq!(stat["memory_budget_bytes"], 16 << 20);
    assert_eq!(stat["page_size_bytes"], 4096);
    let stat = store.polder("stat", [""; 0]).ok();
    assert!(stat.contains("8 MiB") && stat.contains("4 in 2 tables"), "{stat}");

    let check = store.polder("check", ["--json"]).json();
    assert_eq!((&check["sound"], &check["faults"]), (&json!(true), &json!([])));
    assert!(store.polder("check", [""; 0]).ok().starts_with("sound: "));

    assert!(store.polder("drop", ["words"]).ok().starts_with("dropped words"));
    assert!(store.polder("scan", ["words"]).fails(1).contains("words"));
    assert!(store.polder("drop", ["words"]).fails(1).contains("words"));
}

#[test]
fn writes_take_a_durability_and_the_log_a_limit() {
    let store = Store::new();
    for durability in ["sync", "none", "periodic:10ms"] {
        store.polder("put", ["t", durability, "v", "--durability", durability]).ok();
        store
            .feed(
                "import",
                ["--table", "l", "--format", "lines", "-", "--durability", durability],
                durability.as_bytes(),
            )
            .ok();
    }
    store.polder("del", ["t", "none", "--durability", "none", "--log-limit", "8MiB"]).ok();
    assert_eq!(store.polder("scan", ["t", "--keys-only"]).ok(), "periodic:10ms\nsync\n");
    assert_eq!(store.polder("scan", ["l", "--keys-only"]).ok(), "none\nperiodic:10ms\nsync\n");
    let stat = store.polder("stat", ["--json"]).json();
    assert_eq!(stat["log_limit_bytes"], 8 << 20, "a limit that was given stays");
    let file = store.path().join("log").metadata().unwrap().len();
    assert_eq!(stat["log_file_bytes"], file);
    assert!(stat["log_durable_lsn"].as_u64().unwrap() > 0);
    assert!(stat["log_replay_bytes"].as_u64().unwrap() < 1 << 20);
    assert!(store.polder("stat", [""; 0]).ok().contains("of at most 8 MiB"));
}

#[test]
fn create_sets_page_size_and_budget() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let create = |more: &[&str]| run(polder().arg("create").arg(&path).args(more));
    let said = create(&["--budget", "32MiB", "--page-size", "8KiB", "--json"]).json();
    assert_eq!(said["page_size_bytes"], 8192);
    assert_eq!(said["log_limit_bytes"], 256 << 20);
    let stat = run(polder().arg("stat").arg(&path).arg("--json")).json();
    assert_eq!(stat["page_size_bytes"], 8192);
    assert_eq!(stat["memory_budget_bytes"], 32 << 20);
    let put = run(polder().arg("put").arg(&path).args(["t", "k", "v", "--translation", "direct"]));
    put.ok();
    let stat = run(polder().arg("stat").arg(&path).args(["--json", "--translation", "direct"]));
    assert_eq!(stat.json()["translation"], "direct");
}
