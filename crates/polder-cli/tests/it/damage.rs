//! Looking at stores that are damaged or were not closed, and saving what is left of them.

use std::path::PathBuf;

use polder::{Hosted, Options};
use polder_hash::HashStructure;
use polder_tree::HeapStructure;
use polder_vector::{ElementKind, HnswOptions, Metric, Search, VectorShape, VectorStructure};
use serde_json::{Value, json};

use crate::support::{Run, Store, killed_load, polder, run};

/// A closed store with 20,000 rows in a table `t`.
fn sample() -> Store {
    let store = Store::new();
    let rows: String =
        (0..20_000).map(|i| format!("{i:08}\tthe value of number {i:08}\n")).collect();
    store.feed("import", ["--table", "t", "--format", "rows", "-"], rows.as_bytes()).ok();
    store
}

fn edit(store: &Store, file: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let path = store.path().join(file);
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

fn find(bytes: &[u8], needle: &[u8]) -> usize {
    bytes.windows(needle.len()).position(|window| window == needle).unwrap()
}

/// Where the newest version of a row lies in a file.
fn damage_row(store: &Store) {
    edit(store, "data", |bytes| {
        let at = find(bytes, b"the value of number 00010000");
        bytes[at] ^= 1;
    });
}

fn salvage(store: &Store, more: &[&str]) -> Run {
    let mut command = store.command("salvage", [""; 0]);
    run(command.arg(store.dir.path().join("new")).args(["--budget", "8MiB"]).args(more))
}

/// What comes with Polder and is no table.
#[test]
fn structures_are_looked_into_and_saved() {
    let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
    let store = Store::new();
    let options = |path: PathBuf| {
        let options = Options::new(path).structure::<HashStructure>();
        options.structure::<HeapStructure>().structure::<VectorStructure>()
    };
    let live = store.dir.path().join("live");
    let open = polder::Store::open(options(live.clone()).memory_budget(8 << 20)).unwrap();
    let hash = open.create_structure::<HashStructure>("hash").unwrap();
    hash.write(|hash| hash.insert(b"key", b"value")).unwrap();
    let heap = open.create_structure::<HeapStructure>("heap").unwrap();
    heap.write(|heap| heap.append(b"row")).unwrap();
    let near = open.create_structure_with("near", &HnswOptions::new(shape).into());
    let near: Hosted<VectorStructure> = near.unwrap();
    near.write(|near| near.insert(7, (&[1.0_f32, 2.0]).into())).unwrap();
    // As it is if its process is killed: only the log has what was done, some of it in records that a
    // hash index and a heap alone can do again.
    for file in ["data", "log"] {
        std::fs::copy(live.join(file), store.path().join(file)).unwrap();
    }
    open.close().unwrap();
    assert!(store.polder("log", [""; 0]).ok().contains("image"));
    let export = store.polder("export", ["-", "--format", "tsv"]);
    let others = "hash (polder.hash), heap (polder.heap), near (polder.vectors)";
    assert!(export.err.ends_with(&format!("being no tables: {others}\n")), "{export:?}");
    let said = salvage(&store, &["--json"]).json();
    let checked = store.polder("check", ["--deep", "--json"]).json();
    assert_eq!((&checked["sound"], &checked["unregistered"]), (&json!(true), &json!([])));
    assert_eq!(said["losses"], json!([]));
    let saved = said["tables"].as_array().unwrap();
    let saved: Vec<_> = saved.iter().map(|of| (&of["name"], &of["entries"])).collect();
    let one = json!(1);
    let names = ["hash", "heap", "near"].map(|name| json!(name));
    assert_eq!(saved, [(&names[0], &one), (&names[1], &one), (&names[2], &one)]);
    let new = polder::Store::open(options(store.dir.path().join("new"))).unwrap();
    let near: Hosted<VectorStructure> = new.structure("near").unwrap();
    let found = near.read(|near| near.search((&[1.0_f32, 2.0]).into(), &Search::new(1, 10)));
    assert_eq!(found.unwrap().found[0].label, 7);
}

fn in_new(store: &Store, command: &str, args: &[&str]) -> Run {
    run(polder().arg(command).arg(store.dir.path().join("new")).args(args))
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_deep_check_reads_everything() {
    let store = sample();
    let said = store.polder("check", ["--deep"]).ok();
    assert!(said.starts_with("sound: ") && said.contains("read from the disk"), "{said}");
    let said = store.polder("check", ["--deep", "--json"]).json();
    assert_eq!((&said["sound"], &said["deep"]["faults"]), (&json!(true), &json!([])));
    assert!(said["deep"]["pages"].as_u64().unwrap() >= said["pages"].as_u64().unwrap());
    assert!(said["deep"]["log_records"].as_u64().unwrap() > 0);
    assert!(store.polder("check", ["--json"]).json()["deep"].is_null());
}

#[test]
fn a_deep_check_names_file_and_byte() {
    let store = sample();
    let mut at = 0;
    edit(&store, "data", |bytes| {
        at = find(bytes, b"the value of number 00010000");
        bytes[at] ^= 1;
    });
    let run = store.polder("check", ["--deep", "--json"]);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    run.fails(1);
    assert_eq!(report["sound"], false);
    let fault = &report["deep"]["faults"][0];
    assert_eq!((&fault["file"], &fault["table"]), (&json!("data"), &json!("t")));
    assert_eq!(fault["offset"], at / 4096 * 4096);
    let run = store.polder("check", ["--deep"]);
    assert!(run.out.contains(&format!("file data, byte {}, table t", at / 4096 * 4096)), "{run:?}");
    run.fails(1);
}

#[test]
fn the_log_is_printed() {
    let store = Store::new();
    store.polder("put", ["t", r"k\xff", "value", "--escaped"]).ok();
    store.polder("del", ["t", r"k\xff", "--escaped"]).ok();
    // A closed store has nothing to replay but what closing has logged.
    let said = store.polder("log", [""; 0]).ok();
    assert!(said.contains("checkpoint"), "{said}");
    assert!(said.trim_end().ends_with("nothing was written behind it"), "{said}");

    let lines = json_lines(&store.polder("log", ["--from", "0", "--json"]).ok());
    let (end, records) = lines.split_last().unwrap();
    assert_eq!(end["end"]["reason"], "complete");
    let of = |name: &str| {
        let mut of = records.iter().filter(|record| record["operation"] == name);
        of.find(|record| record["table"] == "t").unwrap_or_else(|| panic!("{name}: {records:?}"))
    };
    let insert = of("insert");
    assert_eq!(insert["key"], json!({ "escaped": r"k\xff" }));
    assert_eq!((&insert["value_bytes"], &insert["detail"]), (&json!(5), &json!("new")));
    let remove = of("remove");
    assert!(remove["lsn"].as_u64() > insert["lsn"].as_u64());
    assert!(remove["incarnation"].as_u64() > insert["incarnation"].as_u64());
    assert!(store.polder("log", ["--from", "0"]).ok().contains(r"k\xff  value 5 B"));

    let first = &json_lines(&store.polder("log", ["--from", "0", "--limit", "1", "--json"]).ok());
    assert_eq!(
        (first.len(), &first[0], &first[1]["end"]["reason"]),
        (2, &records[0], &json!("stopped"))
    );
    let from = remove["lsn"].as_u64().unwrap().to_string();
    let later = json_lines(&store.polder("log", ["--from", &from, "--json"]).ok());
    assert_eq!(later[0]["lsn"], remove["lsn"]);
}

#[test]
fn the_log_of_a_crashed_store_is_printed_without_recovery() {
    let store = Store::new();
    killed_load(&store, "none");
    let files = || ["data", "log"].map(|file| std::fs::read(store.path().join(file)).unwrap());
    let before = files();
    let lines = json_lines(&store.polder("log", ["--json"]).ok());
    let inserts = lines.iter().filter(|line| line["operation"] == "insert" && line["table"] == "t");
    let inserts = inserts.count();
    assert!(inserts > 0 && files() == before, "something was written");
    let loaded = store.polder("scan", ["t", "--keys-only"]).ok().lines().count();
    // Other rows came with the full-page images of the leaves that were split off.
    assert!(inserts <= loaded && inserts * 4 > loaded, "{inserts} of {loaded}");
}

/// Where in the file of a log a group lies: at the same place of a block, and its header has the position.
fn group_at(log: &[u8], lsn: u64) -> usize {
    let place = (lsn / 8).to_le_bytes();
    let mut blocks = (0..log.len() - 4096).step_by(4096).map(|block| block + (lsn % 4096) as usize);
    blocks.find(|at| log[at + 8..].starts_with(&place[..5])).unwrap()
}

#[test]
fn a_damaged_log_is_said_to_be() {
    let store = Store::new();
    killed_load(&store, "periodic:1ms");
    let lines = json_lines(&store.polder("log", ["--json"]).ok());
    let middle = &lines[lines.len() / 2]["lsn"];
    let from = middle.as_u64().unwrap();
    edit(&store, "log", |bytes| {
        let at = group_at(bytes, from);
        bytes[at + 24] ^= 1;
    });
    let run = store.polder("log", ["--json"]);
    let lines = json_lines(&run.out);
    assert_eq!(lines.last().unwrap()["end"]["reason"], "damaged");
    assert!(run.fails(1).contains("is damaged at LSN"));
    store.polder("tables", [""; 0]).fails(3);
    let run = salvage(&store, &["--json"]);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["log_gaps"].as_array().unwrap().len(), 1, "{report}");
    assert!(run.fails(1).contains("changes in the log from LSN"));
    assert!(report["tables"][0]["entries"].as_u64().unwrap() > 0);
}

/// A store that crashed, and whose last sync is damaged in the log: nobody can tell that from a write
/// that the crash cut short.
#[test]
fn a_log_that_may_have_been_longer_is_told() {
    let store = Store::new();
    let live = store.dir.path().join("live");
    let open = polder::Store::open(Options::new(&live).memory_budget(8 << 20)).unwrap();
    let table = open.create_table("t").unwrap();
    (0..20_u8).for_each(|i| assert!(table.put([b'a' + i], "v").unwrap()));
    for file in ["data", "log"] {
        std::fs::copy(live.join(file), store.path().join(file)).unwrap();
    }
    open.close().unwrap();
    let lines = json_lines(&store.polder("log", ["--json"]).ok());
    let last = lines.iter().rfind(|line| line["operation"] == "insert").unwrap();
    edit(&store, "log", |bytes| {
        let at = group_at(bytes, last["lsn"].as_u64().unwrap());
        bytes[at + 24] ^= 1;
    });

    let scan = store.polder("scan", ["t", "--keys-only"]);
    let told = "behind its last whole change the log has something that cannot be read (";
    let lines: Vec<&str> = scan.err.lines().collect();
    assert_eq!(lines.len(), 2, "{scan:?}");
    assert!(lines[0].starts_with("the store had not been closed; read "), "{scan:?}");
    assert!(lines[1].starts_with(told) && lines[1].ends_with("which are lost"), "{scan:?}");
    assert_eq!((scan.code, scan.out.lines().last()), (0, Some("s")));
    let found = &store.polder("stat", ["--json"]).json()["recovery"];
    assert!(lines[1].contains(&format!("({})", found["cut_short"].as_str().unwrap())), "{found}");
    assert_eq!(found["superblock"], Value::Null);

    // A program that has recovered the store is asked.
    let open = polder::Store::open(Options::new(store.path())).unwrap();
    let page = store.polder("stat", ["--live"]).ok();
    assert!(page.contains(&format!("when it was opened: {told}")), "{page}");
    open.close().unwrap();
    assert_eq!(store.polder("check", [""; 0]).err, "", "it is told once");
}

#[test]
fn nothing_to_look_at() {
    let store = Store::new();
    let none = store.dir.path().join("none");
    run(polder().arg("log").arg(&none)).fails(3);
    run(polder().arg("salvage").arg(&none).arg(none.join("new"))).fails(3);
    assert!(!none.exists());
    store.polder("salvage", [store.path()]).fails(2);
    store.polder("log", ["--from", "soon"]).fails(2);
}

#[test]
fn a_sound_store_is_salvaged_whole() {
    let store = sample();
    let said = salvage(&store, &[]).ok();
    assert!(said.contains("20,000 entries saved in"), "{said}");
    let all = store.polder("scan", ["t"]).ok();
    assert!(in_new(&store, "scan", &["t"]).ok() == all);
    salvage(&store, &[]).fails(3);
}

#[test]
fn a_store_without_superblocks_is_salvaged() {
    let store = sample();
    let all = store.polder("scan", ["t"]).ok();
    edit(&store, "data", |bytes| bytes[..8192].fill(0));
    store.polder("scan", ["t"]).fails(3);
    let run = salvage(&store, &[]);
    assert!(run.out.starts_with("damaged: both superblocks"), "{run:?}");
    // All is there; but if the log had been longer, nothing would tell.
    let said = run.fails(1);
    assert!(said.contains("20,000 entries were saved") && said.contains("no superblock"), "{said}");
    assert!(in_new(&store, "scan", &["t"]).ok() == all);
    assert_eq!(in_new(&store, "check", &["--deep", "--json"]).json()["sound"], true);
}

#[test]
fn what_is_lost_is_said() {
    let store = sample();
    damage_row(&store);
    std::fs::remove_file(store.path().join("log")).unwrap();
    let run = salvage(&store, &["--json"]);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["pages_unreadable"], 1);
    assert_eq!(report["damage"], json!(["there is no log file"]));
    let saved = report["tables"][0]["entries"].as_u64().unwrap();
    assert!((19_800..20_000).contains(&saved), "{saved}");
    assert!(run.fails(1).contains("1 page in use, not found or not readable"));
    in_new(&store, "get", &["t", "00010000"]).fails(1);
    in_new(&store, "get", &["t", "00000001"]).ok();
}

/// The report of a salvage that must have said by its exit code that something may be missing.
fn report_of_loss(store: &Store) -> Value {
    let run = salvage(store, &["--json"]);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    let said = run.fails(1);
    assert!(said.contains("may be missing"), "{said}");
    let losses = report["losses"].as_array().unwrap();
    assert!(losses.iter().any(|loss| said.contains(loss["what"].as_str().unwrap())), "{said}");
    report
}

#[test]
fn a_data_file_cut_in_half_is_a_loss() {
    let store = sample();
    std::fs::remove_file(store.path().join("log")).unwrap();
    edit(&store, "data", |bytes| bytes.truncate(bytes.len() / 2));
    let report = report_of_loss(&store);
    let table = &report["tables"][0];
    let saved = table["entries"].as_u64().unwrap();
    assert!((1..20_000).contains(&saved), "{saved}");
    assert!(report["pages_missing"].as_u64().unwrap() > 10, "{report}");
    assert_eq!(report["missing"][0]["what"], "the file ends before it");
    assert!(table["key_gaps"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn a_leaf_of_zeros_is_a_loss() {
    let store = sample();
    std::fs::remove_file(store.path().join("log")).unwrap();
    let mut at = 0;
    edit(&store, "data", |bytes| {
        at = find(bytes, b"the value of number 00010000") / 4096 * 4096;
        bytes[at..at + 4096].fill(0);
    });
    let report = report_of_loss(&store);
    assert_eq!((&report["pages_missing"], &report["pages_unreadable"]), (&json!(1), &json!(0)));
    assert_eq!(report["missing"][0]["offset"], at);
    let gap = &report["tables"][0]["gaps"][0];
    let (from, to) = (gap["from"].as_str().unwrap(), gap["to"].as_str().unwrap());
    assert!(from <= "00010000" && "00010000" < to, "{gap}");
}
