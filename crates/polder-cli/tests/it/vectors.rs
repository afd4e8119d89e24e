//! Collections of vectors: making them, loading files, looking for the nearest.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use polder::vector::VectorBuf;
use polder_testkit::Random;
use serde_json::{Value, json};

use crate::support::{Run, Store, polder, run, signal, spawn};

const DIMENSIONS: usize = 6;

fn vector(store: &Store, command: &str, args: &[&str]) -> Run {
    run(polder().args(["vector", command]).arg(store.path()).args(args))
}

/// Rows of numbers, and the file with them.
fn rows(store: &Store, name: &str, count: usize, seed: u64) -> (Vec<Vec<f32>>, PathBuf) {
    let mut random = Random::new(seed);
    let rows: Vec<Vec<f32>> =
        (0..count).map(|_| (0..DIMENSIONS).map(|_| random.below(1000) as f32).collect()).collect();
    let mut bytes = Vec::new();
    for row in &rows {
        bytes.extend((DIMENSIONS as u32).to_le_bytes());
        row.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    }
    let path = store.file(name, bytes);
    (rows, path)
}

/// Numbers of rows by how far these are.
fn nearest(rows: &[Vec<f32>], query: &[f32], count: usize) -> Vec<u64> {
    let distance = |row: &Vec<f32>| row.iter().zip(query).map(|(a, b)| (a - b) * (a - b)).sum();
    let mut all: Vec<(f32, u64)> = rows.iter().map(distance).zip(0..).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all.into_iter().take(count).map(|(_, number)| number).collect()
}

/// The numbers that are the keys of what was found.
fn found(answer: &Value) -> Vec<u64> {
    let hits = answer["hits"].as_array().unwrap().iter();
    hits.map(|hit| hit["key"].as_str().unwrap().parse().unwrap()).collect()
}

#[test]
fn a_collection_is_made_loaded_and_searched() {
    for index in ["hnsw", "vamana", "ivf"] {
        is_made_loaded_and_searched(index);
    }
}

fn is_made_loaded_and_searched(index: &str) {
    let store = Store::new();
    let (base, file) = rows(&store, "base.fvecs", 600, 1);
    let (queries, looked_for) = rows(&store, "queries.fvecs", 20, 2);
    let (file, looked_for) = (file.to_str().unwrap(), looked_for.to_str().unwrap());
    let made = ["near", "--dimensions", "6", "--index", index];
    let more: &[&str] = match index {
        "hnsw" => &["--links", "8"],
        "vamana" => &["--links", "8", "--sample", file],
        _ => &["--lists", "9", "--sample", file],
    };
    let made = vector(&store, "create", &[&made, more].concat()).ok();
    assert_eq!(made.trim(), "created near: vectors of 6 f32, compared by l2");
    let loaded = vector(&store, "load", &["near", file, "--json"]).json();
    assert_eq!((&loaded["inserted"], &loaded["passed_over"]), (&json!(600), &json!(0)));
    // Nothing is there twice.
    let said = vector(&store, "load", &["near", file]).ok();
    assert!(said.contains("inserted 0 vectors") && said.contains("600 keys were there"), "{said}");

    let search = |more: &[&str]| {
        let args = [&["near", looked_for, "-k", "5", "--json"], more].concat();
        let out = vector(&store, "search", &args).ok();
        let lines: Vec<Value> =
            out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), queries.len());
        lines
    };
    for (answer, query) in search(&["--exact"]).iter().zip(&queries) {
        assert_eq!(found(answer), nearest(&base, query, 5));
        assert_eq!(answer["exhaustive"], json!(true));
    }
    let wide = search(&["--width", "200"]);
    let hits = wide.iter().zip(&queries).map(|(answer, query)| {
        let nearest = nearest(&base, query, 5);
        found(answer).iter().filter(|number| nearest.contains(number)).count()
    });
    assert!(hits.sum::<usize>() >= 98);
    // All that begin with 12: 12, and 120 to 129.
    for (answer, query) in search(&["--prefix", "12"]).iter().zip(&queries) {
        let mut some = nearest(&base, query, 600);
        some.retain(|number| number.to_string().starts_with("12"));
        assert_eq!(found(answer), some[..5]);
    }
    let near = search(&["--within", "20000", "--exact"]);
    assert!(near.iter().any(|answer| found(answer).len() < 5));
    let lines = vector(&store, "search", &["near", looked_for, "-k", "1", "--exact"]).ok();
    let first = lines.lines().next().unwrap().to_owned();
    assert!(first.starts_with(&format!("0\t{}\t", nearest(&base, &queries[0], 1)[0])), "{first}");

    let args = ["near", looked_for, "--widths", "10,600", "--recall", "0.9", "--json"];
    let probed = vector(&store, "probe", &args).json();
    assert_eq!(probed["widths"][1]["recall"], json!(1.0));
    assert!(probed["enough"]["recall"].as_f64().unwrap() >= 0.9);
    assert!(vector(&store, "probe", &args[..4]).ok().contains("queries a second"));
    let stat = vector(&store, "stat", &["near", "--json"]).json();
    assert_eq!((&stat["vectors"], &stat["index"]), (&json!(600), &json!(index)));
    let made_with = match index {
        "hnsw" => (json!(8), json!(128), json!(null), json!(null)),
        "vamana" => (json!(8), json!(128), json!(4), json!(null)),
        _ => (json!(null), json!(null), json!(null), json!(9)),
    };
    let [links, insert_width, code_bits, lists] =
        ["links", "insert_width", "code_bits", "lists"].map(|what| stat[what].clone());
    assert_eq!((links, insert_width, code_bits, lists), made_with);
    assert!(vector(&store, "stat", &["near"]).ok().contains("600 of 6 f32"));
    assert!(store.polder("check", ["--deep"]).ok().contains("sound"));
}

/// A load whose process is killed goes on when it is made again.
#[test]
fn a_load_that_was_killed_goes_on() {
    let store = Store::new();
    vector(&store, "create", &["near", "--dimensions", "2"]).ok();
    let line = |row: usize| format!("[{}, {}]\n", row % 100, row / 100);
    let lines: String = (0..1000).map(line).collect();
    // A pipe that stays open: the load waits for more when it is killed.
    let pipe = store.dir.path().join("rows.jsonl");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let log = store.path().join("log");
    let modified = || log.metadata().unwrap().modified().unwrap();
    let mut load = polder();
    let mut load = spawn(load.args(["vector", "load"]).arg(store.path()).arg("near").arg(&pipe));
    // It has opened the store when it opens the file.
    let mut rows = OpenOptions::new().write(true).open(&pipe).unwrap();
    let before = modified();
    rows.write_all(&lines.as_bytes()[..lines.len() / 2]).unwrap();
    let begun = Instant::now();
    while modified() == before {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is written to the log");
        sleep(Duration::from_millis(10));
    }
    // What is logged is synced within a second.
    sleep(Duration::from_millis(1500));
    signal(load.id(), "KILL");
    assert!(load.wait().unwrap().code().is_none());

    assert!(store.polder("check", ["--deep"]).ok().contains("sound"));
    let there = vector(&store, "stat", &["near", "--json"]).json()["vectors"].as_u64().unwrap();
    assert!(there > 0 && there < 600, "{there} vectors are there");
    let file = store.file("all.jsonl", &lines).display().to_string();
    let loaded = vector(&store, "load", &["near", &file, "--json"]).json();
    assert_eq!(
        (&loaded["inserted"], &loaded["passed_over"]),
        (&json!(1000 - there), &json!(there))
    );
    let query = store.file("query.jsonl", "[41.2, 7.1]").display().to_string();
    let answer = vector(&store, "search", &["near", &query, "-k", "1", "--json"]).json();
    assert_eq!(found(&answer), [741]);
    assert_eq!(vector(&store, "stat", &["near", "--json"]).json()["vectors"], json!(1000));
}

/// What a load has placed and not linked is told, and linked by a repair.
#[test]
fn a_load_that_was_cut_off_is_told_and_completed() {
    let store = Store::new();
    let (base, sample) = rows(&store, "base.fvecs", 3000, 1);
    let made = ["near", "--dimensions", "6", "--index", "vamana", "--sample"];
    vector(&store, "create", &[&made[..], &[sample.to_str().unwrap()]].concat()).ok();
    {
        let store = polder::Store::open(polder::Options::new(store.path())).unwrap();
        let near = store.collection("near").unwrap();
        let rows = base.iter().zip(0_u32..);
        let rows = rows.map(|(row, key)| (key.to_string(), VectorBuf::F32(row.clone()), ""));
        // All rows are placed before the first of them counts as done.
        let mut stop = |done| done < 1000;
        assert!(near.load(rows, 1, &mut stop).unwrap().stopped);
        store.close().unwrap();
    }
    let stat = || vector(&store, "stat", &["near", "--json"]).json();
    assert_eq!(stat()["linked"], json!(false));
    assert!(vector(&store, "stat", &["near"]).ok().contains("a load was cut off"));
    assert_eq!(
        vector(&store, "repair", &["near", "--json"]).json()["links_completed"],
        json!(true)
    );
    assert_eq!(stat()["linked"], json!(true));
    assert!(!vector(&store, "stat", &["near"]).ok().contains("a load was cut off"));
    let again = vector(&store, "repair", &["near"]).ok();
    assert!(!again.contains("linked"), "{again}");
    let query = store.file("query.jsonl", format!("{:?}\n", base[2999]).into_bytes());
    let out = vector(&store, "search", &["near", query.to_str().unwrap(), "-k", "5", "--json"]);
    let answer: Value = serde_json::from_str(out.ok().trim()).unwrap();
    assert_eq!(found(&answer), nearest(&base, &base[2999], 5));
}

/// Columns with other names, in two row groups.
#[cfg(feature = "parquet")]
#[test]
fn columns_are_loaded_and_looked_for() {
    use parquet::data_type::{ByteArray, ByteArrayType, FloatType};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    let schema = "message rows { required binary id (UTF8);
        required group emb (LIST) { repeated group list { required float element; } } }";
    let mut bytes = Vec::new();
    let schema = parse_message_type(schema).unwrap().into();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Default::default()).unwrap();
    for rows in [[("a", [1.0, 2.0]), ("b", [3.0, 4.0])], [("c", [5.0, 6.0]), ("d", [7.0, 8.0])]] {
        let mut group = writer.next_row_group().unwrap();
        let mut keys = group.next_column().unwrap().unwrap();
        let bytes = rows.map(|(key, _)| ByteArray::from(key));
        keys.typed::<ByteArrayType>().write_batch(&bytes, None, None).unwrap();
        keys.close().unwrap();
        let mut vectors = group.next_column().unwrap().unwrap();
        let numbers = rows.map(|(_, numbers)| numbers).concat();
        let levels = (Some(&[1; 4][..]), Some(&[0, 1, 0, 1][..]));
        vectors.typed::<FloatType>().write_batch(&numbers, levels.0, levels.1).unwrap();
        vectors.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();

    let store = Store::new();
    let file = store.file("rows.parquet", bytes).display().to_string();
    vector(&store, "create", &["near", "--dimensions", "2"]).ok();
    let run = vector(&store, "load", &["near", &file]);
    assert_eq!(run.code, 2, "{}", run.err);
    assert!(run.err.contains("it has no column `vector`, but `id`, `emb`"), "{}", run.err);
    let names = ["near", &file, "--vector", "emb", "--key", "id", "--json"];
    let loaded = vector(&store, "load", &names).json();
    assert_eq!((&loaded["inserted"], &loaded["passed_over"]), (&json!(4), &json!(0)));
    let args = ["near", &file, "--vector", "emb", "-k", "1"];
    let lines = vector(&store, "search", &args).ok();
    assert_eq!(lines, "0\ta\t0\n1\tb\t0\n2\tc\t0\n3\td\t0\n");
    vector(&store, "create", &["far", "--dimensions", "3"]).ok();
    let run = vector(&store, "load", &["far", &file, "--vector", "emb"]);
    assert!(run.err.contains("rows.parquet, row 1 could not be inserted"), "{}", run.err);
}

/// Tables alone go out; and so the name of a collection is free where they come in.
#[test]
fn an_export_leaves_collections_out_and_says_so() {
    let store = Store::new();
    store.polder("put", ["near.else", "k", "v"]).ok();
    store.polder("put", ["far.keys", "k", "v"]).ok();
    vector(&store, "create", &["near", "--dimensions", "2"]).ok();
    let rows = store.file("rows.jsonl", "[1, 2]\n").display().to_string();
    vector(&store, "load", &["near", &rows]).ok();
    let backup = store.dir.path().join("backup").display().to_string();
    let export = store.polder("export", [&*backup, "--format", "jsonl"]);
    assert_eq!(export.err, "not exported, being no tables: near (collection)\n");
    assert!(export.ok().starts_with("2 entries of 2 tables in "));
    let copy = Store::new();
    let said = copy.polder("import", [&*backup, "--format", "jsonl", "--json"]).json();
    assert_eq!(said["tables"], json!(["far.keys", "near.else"]));
    vector(&copy, "create", &["near", "--dimensions", "2"]).ok();
    vector(&copy, "load", &["near", &rows]).ok();
    // A table that is named goes out, whatever it is.
    let export = store.polder("export", ["-", "--format", "tsv", "--table", "near.keys"]);
    assert_eq!(export.err, "");
    assert!(export.ok().contains("\nnear.keys\t0\t"));
}

#[test]
fn what_cannot_be_is_said() {
    let store = Store::new();
    let says = |command: &str, args: &[&str], code: i32, text: &str| {
        let run = vector(&store, command, args);
        assert_eq!(run.code, code, "{}", run.err);
        assert!(run.err.contains(text), "{}", run.err);
    };
    says("create", &["near", "--dimensions", "0"], 2, "the number of dimensions is 0");
    says("create", &["near", "--dimensions", "8", "--element", "bit"], 2, "hamming");
    says("create", &["near", "--dimensions", "9000"], 2, "take larger pages");
    let code_bits = ["near", "--dimensions", "2", "--code-bits", "2"];
    says("create", &code_bits, 2, "--code-bits is not for --index hnsw");
    let steered = ["near", "--dimensions", "2", "--index", "vamana"];
    says("create", &[&steered[..], &["--code-bits", "3"]].concat(), 2, "bits of a code");
    let sample = store.file("sample.jsonl", "[1, 2]\n[1, 2, 3]\n").display().to_string();
    says("create", &[&steered[..], &["--sample", &sample]].concat(), 2, "sample.jsonl, row 2");
    let none = ["near", "--dimensions", "0", "--index", "vamana", "--sample", &sample];
    says("create", &none, 2, "polder: the number of dimensions is 0");
    let lists = ["near", "--dimensions", "2", "--index", "ivf", "--lists", "2"];
    says("create", &lists, 2, "--index ivf needs --lists N, and --sample FILE");
    says("create", &[&lists[..], &["--links", "8"]].concat(), 2, "--links is not for --index ivf");
    let lists_of = |sample| [&lists[..], &["--sample", sample]].concat();
    says("create", &lists_of(&sample), 2, "sample.jsonl, row 2: the vector has 3 dimensions");
    let few = store.file("few.jsonl", "[1, 2]\n").display().to_string();
    says("create", &lists_of(&few), 2, "the sample has 1 vectors, and 2 lists need");
    let cut = store.file("cut.jsonl", "[1, 2]\n[1,").display().to_string();
    says("create", &lists_of(&cut), 2, "cut.jsonl, row 2: it is no JSON");
    vector(&store, "create", &["near", "--dimensions", "2"]).ok();
    says("create", &["near", "--dimensions", "2"], 2, "near");
    let file = |name: &str, content: &str| store.file(name, content).display().to_string();
    let good = file("good.jsonl", "[1, 2]\n{\"key\": 9, \"vector\": [3, 4], \"payload\": {}}\n");
    says("load", &["far", &good], 1, "far");
    // Rows in front of a bad one are in.
    let bad = file("bad.jsonl", "[1, 2]\n[1, 2, 3]\n");
    says("load", &["near", &bad, "--threads", "1"], 2, "bad.jsonl, row 2");
    assert_eq!(vector(&store, "stat", &["near", "--json"]).json()["vectors"], json!(1));
    says("load", &["near", &file("cut.jsonl", "[1, 2]\n[1,")], 2, "row 2: it is no JSON");
    says("load", &["near", &file("a.txt", "")], 2, "is no file of vectors");
    says("load", &["near", "not there.npy"], 4, "cannot read not there.npy");
    says("search", &["near", &bad], 2, "the vector has 3 dimensions");
    says("probe", &["near", &good, "--recall", "95"], 2, "--recall is a part of all");
    // The keys that a file says, and payloads.
    vector(&store, "load", &["near", &good, "--prefix", "1"]).ok();
    let answers = vector(&store, "search", &["near", &good, "--exact", "--json"]).ok();
    let answers: Vec<Value> =
        answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(found(&answers[1]), [19, 0, 10]);
    let lines = vector(&store, "search", &["near", &good, "-k", "1", "--payloads"]).ok();
    assert_eq!(lines.lines().last().unwrap(), "1\t19\t0\t{}");
    vector(&store, "drop", &["near"]).ok();
    says("stat", &["near"], 1, "near");
    assert!(store.polder("tables", [""; 0]).ok().contains("there are no tables"));
}
