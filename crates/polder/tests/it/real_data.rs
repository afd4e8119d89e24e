//! Words and cities, on a budget far below the data: looked up, and in the order that sorting
//! gives.

use std::path::Path;
use std::process::Command;

use polder::{Options, Store};
use polder_testkit::{Model, found};

use crate::support::*;

/// A file of the data folder, taken apart by a program. `None`, and a message, without either.
fn data(file: &str, program: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let path = found::data(Path::new("kv").join(file))?;
    found::output_of(Command::new(program).args(arguments).arg(path))
}

/// Loads the entries one by one in the order that they come in; compares, closes, opens, compares.
fn stored(entries: Vec<(Vec<u8>, Vec<u8>)>, prefix: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    let model = Model { entries: entries.iter().cloned().collect() };
    assert!(model.entries.len() > 10_000, "this is not the data that was meant");
    let bytes: usize = entries.iter().map(|(key, value)| key.len() + value.len()).sum();
    let least = Options::least_memory_budget(4096);
    assert!(bytes as u64 > 2 * least, "{bytes} bytes of data, a budget of {least}");

    let store = Store::open(quick(dir.path())).unwrap();
    let table = store.open_table("t").unwrap();
    for (key, value) in &entries {
        table.put(key, value).unwrap();
    }
    assert_content(&table, &model);
    let found: Vec<_> = table.prefix(prefix).map(|entry| entry.unwrap().0).collect();
    let expected: Vec<_> =
        model.entries.keys().filter(|k| k.starts_with(prefix)).cloned().collect();
    assert!(!expected.is_empty() && found == expected);
    assert_sound(&store);

    let bulk = store.create_table("bulk").unwrap();
    assert_eq!(bulk.bulk_load(&model.entries).unwrap(), model.entries.len() as u64);
    drop((table, bulk));
    store.close().unwrap();
    let store = Store::open(quick(dir.path())).unwrap();
    for name in ["t", "bulk"] {
        assert_content(&store.table(name).unwrap(), &model);
    }
    assert_sound(&store);
    let pages = |i: usize| store.stats().tables[i].pages;
    assert!(pages(0) < pages(1), "bulk load makes the smaller table");
}

#[test]
fn words() {
    let Some(words) = data("american-english-huge.txt.gz", "gzip", &["-dc"]) else { return };
    let lines = words.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    stored(lines.map(|word| (word.to_vec(), Vec::new())).collect(), b"app");
}

#[test]
fn cities() {
    let Some(cities) = data("cities15000.zip", "unzip", &["-p"]).or_else(|| {
        let unzip = "import sys,zipfile; z=zipfile.ZipFile(sys.argv[1]); \
                     sys.stdout.buffer.write(z.read(z.namelist()[0]))";
        data("cities15000.zip", "python3", &["-c", unzip])
    }) else {
        return;
    };
    let lines = cities.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let entry = |line: &[u8]| {
        let tab = line.iter().position(|byte| *byte == b'\t').unwrap();
        (line[..tab].to_vec(), line[tab + 1..].to_vec())
    };
    stored(lines.map(entry).collect(), b"2988507");
}
