//! Exports and imports: what goes out comes in, whatever it is; and what was damaged on the way does
//! not.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Stdio;
use std::thread;

use ::polder::{Options, Store as Library, StoreError};
use polder_testkit::effort;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::json;

use crate::support::{MORE_THAN_READ_AHEAD, Run, Store, finish, polder, run, signal, spawn};

const FORMATS: [&str; 2] = ["tsv", "jsonl"];

type Table = BTreeMap<Vec<u8>, Vec<u8>>;
type Tables = BTreeMap<String, Table>;

fn library(store: &Store) -> Library {
    Library::open(Options::new(store.path())).unwrap()
}

fn fill(store: &Store, tables: &Tables) {
    let library = library(store);
    for (name, entries) in tables {
        library.create_table(name).unwrap().bulk_load(entries).unwrap();
    }
    library.close().unwrap();
}

fn content(store: &Store) -> Tables {
    let library = library(store);
    let of = |name: String| {
        let entries = library.table(&name).unwrap().iter().collect::<Result<_, _>>();
        (name, entries.unwrap())
    };
    library.tables().unwrap().into_iter().map(of).collect()
}

fn export(store: &Store, format: &str, more: &[&str]) -> String {
    store.polder("export", ["-", "--format", format].iter().chain(more)).ok()
}

fn import(store: &Store, format: &str, more: &[&str], text: &[u8]) -> Run {
    store.feed("import", ["-", "--format", format].iter().chain(more), text)
}

/// Bytes as they are found: text of all scripts, what formats use for themselves, and any bytes.
fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    let special =
        ["\t", "\n", "\r", "\"", "\\", "\\x", "{", ",", "\0", "\u{feff}", "\u{2028}", "é"];
    let special = prop::sample::select(special.map(|text| text.as_bytes().to_vec()).to_vec());
    let lone = prop::sample::select(vec![vec![0xff], vec![0xc3], vec![0x80], b"a".to_vec()]);
    let pieces = prop::collection::vec(prop_oneof![3 => special, 1 => lone], 0..12);
    prop_oneof![
        2 => pieces.prop_map(|pieces| pieces.concat()),
        1 => ".{0,40}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..60),
        1 => (0..=most, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
    ]
    .prop_map(move |mut bytes| {
        bytes.truncate(most);
        bytes
    })
}

fn tables() -> impl Strategy<Value = Tables> {
    let name = bytes(255).prop_filter_map("names are text", |name| {
        String::from_utf8(name).ok().filter(|name| !name.is_empty())
    });
    let entries = prop::collection::btree_map(bytes(512), bytes(20_000), 0..30);
    prop::collection::btree_map(name, entries, 0..5)
}

/// By two threads: most of the time goes to starting programs, one after the other.
#[test]
fn any_bytes_of_any_size_come_back() {
    let cases = effort::steps(12, 100) as u32;
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let run = || TestRunner::new(config.clone()).run(&tables(), |tables| comes_back(&tables));
    thread::scope(|scope| {
        let other = scope.spawn(run);
        run().unwrap();
        other.join().unwrap().unwrap();
    });
}

fn comes_back(tables: &Tables) -> Result<(), TestCaseError> {
    let store = Store::new();
    fill(&store, tables);
    for format in FORMATS {
        let text = export(&store, format, &[]);
        let copy = Store::new();
        import(&copy, format, &[], text.as_bytes()).ok();
        prop_assert_eq!(&content(&copy), tables, "{}", text);
        // The same content is the same text.
        prop_assert!(export(&copy, format, &[]) == text);
    }
    // A scan is rows of a table.
    for (name, entries) in tables {
        let copy = Store::new();
        for (scan, format) in [(&[][..], "tsv"), (&["--json"], "jsonl")] {
            // A name that looks like an option is one.
            let Some(text) = scan_of(&store, name, scan) else { continue };
            import(&copy, format, &["--table", format], text.as_bytes()).ok();
            // Rows of no entries make no table.
            prop_assert_eq!(&content(&copy).remove(format).unwrap_or_default(), entries);
        }
    }
    Ok(())
}

fn scan_of(store: &Store, table: &str, more: &[&str]) -> Option<String> {
    let can_be_given = !table.contains('\0') && !table.starts_with('-');
    can_be_given.then(|| store.polder("scan", [table].iter().chain(more)).ok())
}

/// In a long run it is the largest that there can be.
#[test]
fn a_large_value_comes_back() {
    let store = Store::new();
    let len = if effort::is_long() { ::polder::MAX_VALUE_BYTES } else { 4 << 20 };
    let largest = vec![0; len as usize];
    fill(&store, &Tables::from([("t".into(), Table::from([(b"k".to_vec(), largest)]))]));
    for format in FORMATS {
        let file = store.dir.path().join(format);
        let path = file.to_str().unwrap();
        store.polder("export", [path, "--format", format]).ok();
        let copy = Store::new();
        copy.polder("import", [path, "--format", format]).ok();
        assert!(content(&copy) == content(&store), "{format}");
        let longer = file.metadata().unwrap().len() / len;
        assert!(longer < 7, "{format}: {longer} times as long");
    }
}

/// Some tables: one in order, an empty one, one of bytes that are no text.
fn sample() -> (Store, Tables) {
    let store = Store::new();
    let rows = (0..1000).map(|i| (format!("{i:05}").into(), format!("number {i}").into()));
    let tables = Tables::from([
        ("bytes".into(), Table::from([(vec![0xff, 0], vec![b'\\', b'"', b'\t'])])),
        ("empty".into(), Table::new()),
        ("rows".into(), rows.collect()),
    ]);
    fill(&store, &tables);
    (store, tables)
}

#[test]
fn the_formats_are_as_documented() {
    let store = Store::new();
    store.polder("put", ["t", "a", "tab\there"]).ok();
    store.polder("put", ["t", r"b\xff", r#"say "hi"\x0a\\"#, "--escaped"]).ok();
    let tsv = export(&store, "tsv", &[]);
    let lines: Vec<&str> = tsv.lines().collect();
    assert_eq!(
        lines[..3],
        ["table\tkey\tvalue", "t\ta\t\"tab\there\"", "t\tb\\xff\t\"say \"\"hi\"\"\\x0a\\\\\""]
    );
    assert!(lines[3].starts_with("\tt\tentries=2 crc32c="), "{tsv}");
    assert_eq!(lines[4..], ["\t\ttables=1"]);
    let jsonl = export(&store, "jsonl", &[]);
    let lines: Vec<&str> = jsonl.lines().collect();
    assert_eq!(
        lines[..3],
        [
            r#"{"polder_export":1}"#,
            r#"{"table":"t","key":"a","value":"tab\there"}"#,
            r#"{"table":"t","key":{"escaped":"b\\xff"},"value":"say \"hi\"\n\\"}"#,
        ]
    );
    assert!(lines[3].starts_with(r#"{"table":"t","entries":2,"crc32c":""#), "{jsonl}");
    assert_eq!(lines[4..], [r#"{"tables":1}"#]);
}

#[test]
fn some_tables_go_out_and_in() {
    let (store, tables) = sample();
    for format in FORMATS {
        let some = export(&store, format, &["--table", "empty", "--table", "rows"]);
        let copy = Store::new();
        let said = import(&copy, format, &["--json"], some.as_bytes()).json();
        assert_eq!((&said["tables"], &said["loaded"]), (&json!(["empty", "rows"]), &json!(1000)));
        assert_eq!(content(&copy).keys().collect::<Vec<_>>(), ["empty", "rows"]);

        let all = export(&store, format, &[]);
        let copy = Store::new();
        import(&copy, format, &["--table", "bytes"], all.as_bytes()).ok();
        assert_eq!(content(&copy), Tables::from([("bytes".into(), tables["bytes"].clone())]));
        let missing = import(&copy, format, &["--table", "nowhere"], all.as_bytes()).fails(1);
        assert!(missing.contains("no table `nowhere` in standard input"), "{missing}");
    }
    assert!(
        store.polder("export", ["-", "--format", "tsv", "--table", "no"]).fails(1).contains("`no`")
    );
}

#[test]
fn files_of_others_are_read() {
    let store = Store::new();
    // Windows, quotes where none are needed, lines within quotes, no end of the last line.
    let rows = b"\"a\"\t1\r\nb\t\"two\nlines\"\r\n\r\nc\t\"a \"\"quote\"\"\"";
    import(&store, "tsv", &["--table", "t"], rows).ok();
    assert_eq!(store.polder("get", ["t", "b"]).ok(), "two\\x0alines\n");
    assert_eq!(store.polder("scan", ["t", "--from", "c"]).ok(), "c\t\"a \"\"quote\"\"\"\n");
    let rows = b"{\"value\": \"1\", \"key\": \"\\u00e9\"}\n  {\"key\":{\"escaped\":\"\\\\xff\"},\"value\":\"\"}";
    import(&store, "jsonl", &["--table", "j"], rows).ok();
    assert_eq!(store.polder("scan", ["j"]).ok(), "é\t1\n\\xff\t\n");
}

/// Every way of damaging an export is told with the line, and no table is there that is not whole.
#[test]
fn a_damaged_export_is_refused() {
    let (store, tables) = sample();
    for format in FORMATS {
        let text = export(&store, format, &[]);
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let without = |at: usize| [&lines[..at], &lines[at + 1..]].concat().concat();
        let changed = |from: &str, to: &str| {
            assert!(text.contains(from));
            text.replacen(from, to, 1)
        };
        let last = lines.len();
        let damaged = [
            ("cut between lines", lines[..500].concat(), 500),
            ("cut within a line", text[..text.len() / 2].to_owned(), 0),
            ("cut before the end", lines[..last - 1].concat(), last - 1),
            ("cut before a table", lines[..3].concat(), 3),
            ("a line less", without(500), last - 2),
            ("no end of a table", without(2), 3),
            ("no head", without(0), 0),
            ("an end of nothing", without(1), 2),
            ("a line twice", lines[..10].concat() + &lines[9..].concat(), last),
            (
                "lines in another order",
                [&lines[..10], &lines[11..12], &lines[10..11], &lines[12..]].concat().concat(),
                last - 1,
            ),
            ("another value", changed("number 700", "number 7OO"), last - 1),
            ("another table", changed("rows", "bows"), 6),
            ("another count", changed("1000", "1001"), last - 1),
            (
                "a table less",
                changed(
                    ["tables=3", "\"tables\":3"][usize::from(format == "jsonl")],
                    ["tables=4", "\"tables\":4"][usize::from(format == "jsonl")],
                ),
                last,
            ),
            ("more behind the end", text.clone() + lines[1], last + 1),
        ];
        for (what, text, line) in damaged {
            let copy = Store::new();
            let error = import(&copy, format, &[], text.as_bytes()).fails(2);
            assert!(
                line == 0 || error.contains(&format!(", line {line}: ")),
                "{what}: {line}: {error}"
            );
            for (name, entries) in content(&copy) {
                assert!(tables[&name] == entries, "{what}: a part of {name} was kept");
            }
        }
    }
}

/// Each byte of an export that is changed is noticed, unless it says the same as before.
#[test]
fn no_changed_byte_goes_unnoticed() {
    let store = Store::new();
    store.polder("put", ["t", "k\\xff", "a\tvalue \"of\" bytes \\x00", "--escaped"]).ok();
    store.polder("put", ["t", "z", ""]).ok();
    let expected = content(&store);
    for format in FORMATS {
        let text = export(&store, format, &[]);
        let step = if effort::is_long() { 1 } else { 5 };
        for at in (0..text.len()).step_by(step) {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 0x15;
            let copy = Store::new();
            let run = import(&copy, format, &[], &bytes);
            let found = content(&copy);
            assert!(
                found == expected || run.code == 2 && found.is_empty(),
                "{format}, byte {at}: {run:?}, {found:?}"
            );
        }
    }
}

#[test]
fn what_can_be_read_of_a_damaged_export_is_taken() {
    let (store, tables) = sample();
    for format in FORMATS {
        let text = export(&store, format, &[]);
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let damaged =
            [&lines[..500], &["what\tis this\tfor a\tline?\n"], &lines[501..900]].concat();
        let copy = Store::new();
        let run = import(&copy, format, &["--skip-bad"], damaged.concat().as_bytes());
        assert!(run.err.contains("line 501: ") && run.err.contains("it was cut off"), "{run:?}");
        run.ok();
        let found = content(&copy);
        assert_eq!((&found["bytes"], &found["empty"]), (&tables["bytes"], &tables["empty"]));
        assert_eq!(found["rows"].len(), 895, "{format}");
    }
}

/// A row that reads as one of no table is left out, and not what comes behind it.
#[test]
fn a_row_that_lost_its_table_takes_no_other_table_with_it() {
    let (store, tables) = sample();
    let text = export(&store, "tsv", &[]);
    assert!(text.contains("\nbytes\t"), "{text}");
    let lost_a_tab = text.replacen("\nbytes\t", "\nbytes", 1);
    let line = "{\"table\":\"bytes\",\"key\"";
    let jsonl = export(&store, "jsonl", &[]);
    assert!(jsonl.contains(line), "{jsonl}");
    let lost_its_table = jsonl.replacen(line, "{\"key\"", 1);
    for (format, damaged) in [("tsv", lost_a_tab), ("jsonl", lost_its_table)] {
        let copy = Store::new();
        assert!(import(&copy, format, &[], damaged.as_bytes()).fails(2).contains(", line 2: "));
        assert_eq!(content(&copy), Tables::new());
        let run = import(&copy, format, &["--skip-bad"], damaged.as_bytes());
        assert!(run.err.contains("line 2: an entry without a table"), "{run:?}");
        run.ok();
        let found = content(&copy);
        assert!(found.get("bytes").is_none_or(Table::is_empty), "{format}");
        for name in ["empty", "rows"] {
            assert!(found.get(name) == Some(&tables[name]), "{format}: {name}");
        }
    }
}

#[test]
fn of_two_exports_in_one_file_the_second_is_not_lost_silently() {
    let (store, tables) = sample();
    let more = Store::new();
    more.load_lines("more", "a\n");
    for format in FORMATS {
        let both = export(&store, format, &[]) + &export(&more, format, &[]);
        for options in [&[][..], &["--skip-bad"]] {
            let copy = Store::new();
            let error = import(&copy, format, options, both.as_bytes()).fails(2);
            assert!(
                error.contains("behind the end of the export")
                    || options.is_empty() && error.contains("an export begins in the middle"),
                "{error}"
            );
            assert!(content(&copy) == tables, "{format}");
        }
    }
}

/// In a tab-separated export it reads as the head does.
#[test]
fn an_entry_that_reads_as_the_head_comes_back() {
    let store = Store::new();
    let entry = |key: &str, value: &str| Table::from([(key.into(), value.into())]);
    let tables =
        Tables::from([("a".into(), entry("b", "c")), ("table".into(), entry("key", "value"))]);
    fill(&store, &tables);
    for format in FORMATS {
        let text = export(&store, format, &[]);
        let copy = Store::new();
        import(&copy, format, &[], text.as_bytes()).ok();
        assert_eq!(content(&copy), tables, "{format}");
    }
}

/// The line is that of the quote; and of the rows that the quote would swallow none is.
#[test]
fn a_quote_without_an_end_is_told_with_its_line() {
    let export = "table\tkey\tvalue\nt\ta\t\"1\n";
    for (rows, line, behind) in [
        ("a\t1\nb\t\"2\nc\t3\nd\t4\n", 2, "2 lines"),
        ("a\t1\nb\t\"2\nc\t3", 2, "1 line"),
        // A row of two lines, of which the second one has the quote.
        ("a\t1\n\"b\n\"\t\"2\nc\t3\n", 3, "1 line"),
        ("a\t1\r\n\r\n\"b\t2\r\nc\t3\r\n", 3, "1 line"),
        ("a\t1\nb\t\"2", 2, ""),
        ("a\t1\nb\t\"2\"\"", 2, ""),
        ("a\t1\nb\t\"2\n\n", 2, ""),
        (export, 2, ""),
    ] {
        for options in [&[][..], &["--skip-bad"]] {
            let store = Store::new();
            let table = ["--table", "t"].iter().filter(|_| rows != export);
            let options: Vec<_> = options.iter().chain(table).copied().collect();
            let run = import(&store, "tsv", &options, rows.as_bytes());
            let said = format!("line {line}: a quote begins in this line, and has no end");
            assert!(run.err.contains(&said) && run.err.contains(behind), "{rows:?}: {run:?}");
            if behind.is_empty() && options.contains(&"--skip-bad") {
                run.ok();
                let found = content(&store);
                let whole = Tables::from([("t".into(), Table::from([("a".into(), "1".into())]))]);
                let whole = if rows == export { Tables::new() } else { whole };
                assert_eq!(found, whole, "{rows:?}");
            } else {
                run.fails(2);
                assert_eq!(content(&store), Tables::new());
            }
        }
    }
    // What is complete is taken, however it ends.
    for rows in ["a\t\"1\"", "a\t\"1\"\n", "a\t\"1\"\r", "a\t1", "a\t1\r\n", "\u{feff}a\t1"] {
        let store = Store::new();
        import(&store, "tsv", &["--table", "t"], rows.as_bytes()).ok();
        assert_eq!(content(&store)["t"], Table::from([(b"a".to_vec(), b"1".to_vec())]), "{rows:?}");
    }
    let store = Store::new();
    import(&store, "tsv", &["--table", "t"], b"a\t\"1\n\"").ok();
    assert_eq!(content(&store)["t"][&b"a"[..]], b"1\n");
}

#[test]
fn rows_in_any_order_go_in() {
    let store = Store::new();
    let rows: String = (0..3000).map(|i| format!("{:04}\t{i}\n", i * 7 % 3000)).collect();
    let said = import(&store, "tsv", &["--table", "t", "--json"], rows.as_bytes()).json();
    assert_eq!((&said["loaded"], &said["new"]), (&json!(3000), &json!(3000)));
    let more = "0000\tagain\n0001\tagain\nx\tnew\n0000\tonce more\n";
    let said = import(&store, "tsv", &["--table", "t", "--json"], more.as_bytes()).json();
    assert_eq!((&said["new"], &said["replaced"]), (&json!(1), &json!(3)));
    assert_eq!(store.polder("get", ["t", "0000"]).ok(), "once more\n");
    assert_eq!(store.polder("check", ["--json"]).json()["entries"], 3001);
}

/// An import of a new table from standard input that has begun and waits for more.
fn waiting(store: &Store, sorted: bool) -> (std::process::Child, std::process::ChildStdin) {
    let args = ["--table", "new", "--format", "lines", "-", "--json"];
    let mut child = spawn(store.command("import", args).stdin(Stdio::piped()));
    let mut stdin = child.stdin.take().unwrap();
    let key = |i: u64| if sorted { i } else { i * 7919 % 1_000_003 };
    let lines = MORE_THAN_READ_AHEAD as u64 / 9 + 1;
    let text: String = (0..lines).map(|i| format!("{:08}\n", key(i))).collect();
    stdin.write_all(text.as_bytes()).unwrap();
    (child, stdin)
}

#[test]
fn a_table_is_there_as_a_whole_or_not_at_all() {
    for (signal_name, sorted) in [("INT", true), ("INT", false), ("KILL", true), ("KILL", false)] {
        let store = Store::new();
        store.load_lines("old", "a\n");
        let (mut child, stdin) = waiting(&store, sorted);
        signal(child.id(), signal_name);
        let what = format!("{signal_name}, sorted: {sorted}");
        if signal_name == "INT" {
            let run = finish(child);
            let said: serde_json::Value = serde_json::from_str(&run.out).unwrap();
            assert_eq!((&said["interrupted"], &said["loaded"]), (&json!(true), &json!(0)));
            assert_eq!(run.code, 130, "{what}");
            assert_eq!(content(&store).keys().collect::<Vec<_>>(), ["old"], "{what}");
        } else {
            assert!(child.wait().unwrap().code().is_none());
            let left = content(&store);
            assert!(!left.contains_key("new"), "{what}");
        }
        drop(stdin);
        // What a process left that was killed is in nobody's way, and is told.
        let left = content(&store);
        let again = import(&store, "lines", &["--table", "new"], b"b\nc\n");
        assert_eq!(again.err.contains("`(import)`"), left.contains_key("(import)"), "{again:?}");
        again.ok();
        if left.contains_key("(import)") {
            assert_eq!(content(&store)["(import)"], left["(import)"], "{what}");
            store.polder("drop", ["(import)"]).ok();
        }
        assert_eq!(content(&store).keys().collect::<Vec<_>>(), ["new", "old"], "{what}");
        assert_eq!(store.polder("check", ["--json"]).json()["sound"], true);
    }
}

#[test]
fn an_export_replaces_a_file_when_it_is_whole() {
    let (store, _) = sample();
    let file = store.file("backup", "of yesterday");
    let path = file.to_str().unwrap();
    let export = ["--format", "jsonl", path];
    store.polder("export", export.iter().chain(&["--table", "no"])).fails(1);
    assert_eq!(std::fs::read(&file).unwrap(), b"of yesterday");
    let said = store.polder("export", export).ok();
    assert!(said.starts_with("1,001 entries of 3 tables in "), "{said}");
    let said = store.polder("export", export.iter().chain(&["--json"])).json();
    assert_eq!((&said["entries"], &said["tables"]), (&json!(1001), &json!(3)));
    let beside = std::fs::read_dir(store.dir.path()).unwrap().count();
    assert_eq!(beside, 2, "something is left beside the store and the export");
    // Where there is no ordinary file, nothing takes its place.
    store.polder("export", ["--format", "jsonl", "/dev/null"]).ok();
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    let text = std::fs::read(&file).unwrap();
    let copy = Store::new();
    run(copy.command("import", ["--format", "jsonl", path]).stdin(Stdio::null())).ok();
    assert_eq!(content(&copy), content(&store));
    assert!(text.ends_with(b"{\"tables\":3}\n"));
    let nowhere = store.dir.path().join("no/such/place");
    store.polder("export", ["--format", "tsv", nowhere.to_str().unwrap()]).fails(4);
}

#[test]
fn completions_and_manual_pages_name_every_command() {
    let help = run(polder().arg("--help")).ok();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.len() > 15 && commands.contains(&"export"), "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(polder().args(["completions", shell])).ok();
        assert!(commands.iter().all(|command| script.contains(command)), "{shell}");
    }
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man/man1");
    run(polder().arg("man").arg(&pages)).ok();
    for command in commands.iter().filter(|command| **command != "help") {
        let page = std::fs::read_to_string(pages.join(format!("polder-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{command}");
    }
    assert!(std::fs::read_to_string(pages.join("polder.1")).unwrap().contains("Exit codes"));
}

#[test]
fn a_name_that_imports_use_is_a_name() {
    let store = Store::new();
    store.load_lines("(import)", "a\n");
    assert_eq!(content(&store).keys().collect::<Vec<_>>(), ["(import)"]);
    let library = library(&store);
    assert!(matches!(library.table("new"), Err(StoreError::NoSuchTable { .. })));
    library.close().unwrap();
    // Neither such a table that is there nor one that comes is touched, empty or not.
    let entry = |key: &str| Table::from([(key.into(), b"".to_vec())]);
    let mut tables = Tables::from([
        ("(import 2)".into(), Table::new()),
        ("(import 3)".into(), entry("b")),
        ("(import x)".into(), entry("c")),
        ("(import)".into(), Table::new()),
        ("after".into(), entry("d")),
    ]);
    let from = Store::new();
    fill(&from, &tables);
    for format in FORMATS {
        let text = export(&from, format, &[]);
        let copy = Store::new();
        import(&copy, format, &[], text.as_bytes()).ok();
        assert_eq!(content(&copy), tables, "{format}");
        // A failed one leaves them alone, too.
        let cut = &text[..text.len() - 2];
        import(&copy, format, &["--table", "after"], cut.as_bytes()).fails(2);
        assert_eq!(content(&copy), tables, "{format}");
    }
    let said = import(&from, "lines", &["--table", "new"], b"e\n");
    let told = ["`(import)`", "`(import 2)`", "`(import 3)`"];
    assert!(told.iter().all(|name| said.err.contains(name)), "{said:?}");
    assert!(!said.err.contains("(import x)"), "{said:?}");
    said.ok();
    tables.insert("new".into(), entry("e"));
    assert_eq!(content(&from), tables);
}
