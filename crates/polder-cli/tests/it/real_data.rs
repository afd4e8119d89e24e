//! Words and cities: in, looked up, scanned in order, compared with `sort`.

use std::process::Command;

use polder_testkit::found::{data, output_of};

use crate::support::Store;

/// What `LC_ALL=C sort` makes of a file.
fn sorted(path: &std::path::Path) -> Option<Vec<u8>> {
    output_of(Command::new("sort").env("LC_ALL", "C").arg(path))
}

#[test]
fn words() {
    let Some(archive) = data("kv/american-english-huge.txt.gz") else {
        return;
    };
    let Some(words) = output_of(Command::new("gzip").arg("-dc").arg(archive)) else {
        return;
    };
    let store = Store::new();
    let file = store.file("words.txt", &words);
    let args = ["--table", "words", "--format", "lines", "-", "--json"];
    let said = store.feed("import", args, &words).json();
    assert_eq!((&said["loaded"], &said["new"]), (&348_454.into(), &348_454.into()));

    let scan = store.polder("scan", ["words", "--prefix", "app", "--limit", "5", "--keys-only"]);
    let expected: Vec<&str> = {
        let text = std::str::from_utf8(&words).unwrap();
        let mut app: Vec<&str> = text.lines().filter(|word| word.starts_with("app")).collect();
        app.sort_unstable();
        app.into_iter().take(5).collect()
    };
    assert_eq!(scan.ok().lines().collect::<Vec<_>>(), expected);
    assert_eq!(store.polder("get", ["words", "zymurgy"]).ok(), "\n");
    store.polder("get", ["words", "qwertzuiop"]).fails(1);

    let Some(sorted) = sorted(&file) else { return };
    let forward = store.polder("scan", ["words", "--keys-only"]).ok();
    assert!(forward.as_bytes() == sorted, "the scan differs from sort");
    let backward = store.polder("scan", ["words", "--keys-only", "--reverse"]).ok();
    let reversed: Vec<&str> = backward.lines().rev().collect();
    assert!(forward.lines().eq(reversed), "backwards is not the reverse of forwards");
    assert_eq!(store.polder("check", ["--json"]).json()["sound"], true);
}

#[test]
fn cities() {
    let Some(archive) = data("kv/cities15000.zip") else {
        return;
    };
    let Some(rows) = output_of(Command::new("unzip").arg("-p").arg(archive)) else {
        return;
    };
    let store = Store::new();
    let file = store.file("cities15000.txt", &rows);
    let path = file.to_str().unwrap();
    let args = ["--table", "cities", "--format", "rows", "--key", "1", path, "--json"];
    let said = store.polder("import", args).json();
    assert_eq!((&said["loaded"], &said["new"]), (&32_847.into(), &32_847.into()));
    let paris = store.polder("get", ["cities", "2988507"]).ok();
    assert!(paris.starts_with("2988507\tParis\t"), "{paris}");

    let scan = store.polder("scan", ["cities", "--json"]).ok();
    let entries: Vec<serde_json::Value> =
        scan.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for entry in &entries {
        assert_eq!(entry["key"].as_str(), entry["value"].as_str().unwrap().split('\t').next());
    }
    let mut sort = Command::new("sort");
    sort.env("LC_ALL", "C").args(["-t", "\t", "-k", "1,1"]).arg(&file);
    let Some(sorted) = output_of(&mut sort) else {
        return;
    };
    let sorted = String::from_utf8(sorted).unwrap();
    let values = entries.iter().map(|entry| entry["value"].as_str().unwrap());
    assert!(sorted.lines().eq(values), "the scan differs from sort");
}
