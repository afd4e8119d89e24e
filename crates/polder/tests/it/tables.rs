//! Tables: by name, and in the vocabulary of `BTreeMap`.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use polder::{Change, Durability, Options, ReplacementKind, Store, StoreError, TranslationKind};
use polder_testkit::{KeyShape, Mix, Model, Random, ValueShape, Workload, compare};

use crate::support::*;

#[test]
fn names_of_all_lengths_and_scripts() {
    let disk = disk();
    let store = open_on(&disk);
    let mut names: Vec<String> =
        ["a", "b c", "ärger", "表", "\u{10ffff}", "\0", "../up", "(catalogue)"]
            .map(String::from)
            .into();
    names.extend((1..=255).map(|len| "x".repeat(len)));
    names.sort();
    names.dedup();
    for (i, name) in names.iter().enumerate() {
        let table = store.create_table(name).unwrap();
        table.put(b"number", i.to_string().as_bytes()).unwrap();
        assert_eq!(table.name(), name);
    }
    assert_eq!(store.tables().unwrap(), names);
    for bad in [String::new(), "x".repeat(256)] {
        let error = store.create_table(&bad).unwrap_err();
        assert!(matches!(error, StoreError::TableName { .. }), "{error}");
        assert!(matches!(store.table(&bad), Err(StoreError::NoSuchTable { .. })));
    }
    let error = store.create_table("表").unwrap_err();
    assert!(matches!(error, StoreError::TableExists { .. }) && error.to_string().contains("表"));
    let error = store.table("missing").unwrap_err();
    assert!(error.to_string().contains("`missing`"), "{error}");
    assert_sound(&store);
    store.close().unwrap();

    let store = open_on(&disk);
    assert_eq!(store.tables().unwrap(), names);
    for (i, name) in names.iter().enumerate() {
        let table = store.table(name).unwrap();
        assert_eq!(
            (table.len(), table.get(b"number").unwrap().unwrap()),
            (1, i.to_string().into())
        );
    }
    for name in names.iter().step_by(2) {
        store.drop_table(name).unwrap();
        assert!(matches!(store.drop_table(name), Err(StoreError::NoSuchTable { .. })));
        assert!(matches!(store.table(name), Err(StoreError::NoSuchTable { .. })));
    }
    let left: Vec<_> = names.iter().skip(1).step_by(2).cloned().collect();
    assert_eq!(store.tables().unwrap(), left);
    assert_sound(&store);
    store.close().unwrap();
    assert_eq!(open_on(&disk).tables().unwrap(), left);
}

#[test]
fn a_table_is_renamed_for_all_who_use_it() {
    let disk = disk();
    let store = open_on(&disk);
    let (table, other) = (store.create_table("old").unwrap(), store.create_table("other").unwrap());
    (0..5u8).for_each(|i| _ = table.put([i], b"value").unwrap());
    let mut range = table.iter();
    range.next_entry().unwrap();
    let before = table.name();

    let wrong = [("missing", "new"), ("old", "other"), ("old", "old"), ("old", "")];
    let wrong = wrong.map(|(name, new)| store.rename_table(name, new).unwrap_err().to_string());
    assert!(wrong[0].contains("no table `missing`"), "{wrong:?}");
    assert!(wrong[1].contains("a table `other` already"), "{wrong:?}");
    assert!(wrong[2].contains("a table `old` already"), "{wrong:?}");
    assert!(wrong[3].contains("1 to 255 bytes"), "{wrong:?}");
    assert_eq!(store.tables().unwrap(), ["old", "other"]);

    store.rename_table("old", "new").unwrap();
    assert_eq!(store.tables().unwrap(), ["new", "other"]);
    assert_eq!((before, table.name()), ("old", "new"));
    assert!(matches!(store.table("old"), Err(StoreError::NoSuchTable { .. })));
    assert!(matches!(store.drop_table("old"), Err(StoreError::NoSuchTable { .. })));
    // Handles and ranges go on, and new ones are of the same table.
    assert_eq!(range.by_ref().count(), 4);
    table.insert(b"more", b"").unwrap();
    assert_eq!((store.table("new").unwrap().len(), other.len()), (6, 0));
    let stats = store.stats().tables;
    assert_eq!(stats.iter().map(|table| &table.name[..]).collect::<Vec<_>>(), ["new", "other"]);
    // The old name is free, and one handle can see many names.
    store.create_table("old").unwrap().insert(b"k", b"v").unwrap();
    for i in 0..100 {
        let (from, to) = if i % 2 == 0 { ("new", "newer") } else { ("newer", "new") };
        store.rename_table(from, to).unwrap();
        assert_eq!(table.name(), to);
    }
    store.rename_table("other", "another").unwrap();
    assert_sound(&store);
    store.close().unwrap();
    assert!(matches!(table.get(b"more"), Err(StoreError::Closed)));

    let store = open_on(&disk);
    assert_eq!(store.tables().unwrap(), ["another", "new", "old"]);
    assert_eq!(["another", "new", "old"].map(|name| store.table(name).unwrap().len()), [0, 6, 1]);
    // One that is not open.
    store.close().unwrap();
    let store = open_on(&disk);
    store.rename_table("old", "a").unwrap();
    assert_eq!(store.table("a").unwrap().get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn a_name_can_be_used_again() {
    let disk = disk();
    let store = open_on(&disk);
    for round in 0..20u8 {
        let table = store.create_table("again").unwrap();
        assert_eq!((table.len(), table.first().unwrap()), (0, None));
        for i in 0..500u64 {
            table.put(i.to_be_bytes(), [round; 100]).unwrap();
        }
        assert_eq!(table.get(7u64.to_be_bytes()).unwrap().unwrap(), [round; 100]);
        store.drop_table("again").unwrap();
        for gone in [table.get(b"k").map(drop), table.put(b"k", b"").map(drop)] {
            assert!(
                matches!(gone, Err(StoreError::Dropped { ref name }) if name == "again"),
                "{gone:?}"
            );
        }
        assert!(matches!(table.iter().next(), Some(Err(StoreError::Dropped { .. }))));
    }
    assert_sound(&store);
    let file = disk.data.allocated_bytes();
    assert!(file < 1 << 20, "{file} bytes for an empty store");
}

fn lives_as_a_model(store: impl Fn() -> Store, seed: u64) {
    let mut model = Model::default();
    for phase in 0..3 {
        let store = store();
        let table = store.open_table("t").unwrap();
        assert_content(&table, &model);
        let mix = [Mix::GROWING, Mix::BALANCED, Mix::SHRINKING][phase as usize];
        let workload = Workload::new(seed + phase)
            .keys(KeyShape::Mixed { key_bytes_max: 300 }, 2000)
            .values(ValueShape::Pages { page_bytes: 4096 })
            .mix(mix);
        let ops = workload.take((2000 * scale()) as usize);
        if let Err(difference) = compare(ops, &mut Subject(&table), &mut model) {
            panic!("{difference}");
        }
        assert_content(&table, &model);
        assert_sound(&store);
        drop(table);
        store.close().unwrap();
    }
}

#[test]
fn a_table_is_a_btree_map() {
    for page_size in [4096, 16384] {
        let dir = tempfile::tempdir().unwrap();
        let least = Options::least_memory_budget(page_size);
        let options = quick(dir.path()).page_size(page_size).memory_budget(least);
        lives_as_a_model(|| Store::open(options.clone()).unwrap(), 1);
    }
    let disk = disk();
    lives_as_a_model(|| open_on(&disk), 3);
}

#[test]
fn a_table_is_a_btree_map_by_each_translation() {
    for (i, kind) in TranslationKind::ALL.iter().copied().enumerate() {
        let evicts = kind.evicts();
        let dir = tempfile::tempdir().unwrap();
        let least = Options::least_memory_budget(4096);
        let options = Options::new(dir.path()).translation(kind).durability(Durability::None);
        let options = options.memory_budget(least * if evicts { 1 } else { 32 });
        lives_as_a_model(|| Store::open(options.clone()).unwrap(), 10 + i as u64);
    }
}

#[test]
fn a_table_is_a_btree_map_whatever_is_replaced() {
    for (i, policy) in ReplacementKind::ALL.iter().copied().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new(dir.path()).replacement(policy).durability(Durability::None);
        let options = options.memory_budget(Options::least_memory_budget(4096));
        lives_as_a_model(|| Store::open(options.clone()).unwrap(), 20 + i as u64);
    }
}

#[test]
fn a_table_is_a_btree_map_in_tiers() {
    for slower in [1, 2, 3] {
        for kind in TranslationKind::EVICTING.iter().filter(|kind| kind.why_no_tiers().is_none()) {
            let dir = tempfile::tempdir().unwrap();
            let options = Options::new(dir.path()).translation(*kind).durability(Durability::None);
            let options = in_tiers(options, Options::least_memory_budget(4096), 4096, slower);
            lives_as_a_model(|| Store::open(options.clone()).unwrap(), 40 + slower);
        }
    }
}

#[test]
fn ranges_of_all_bounds_and_from_both_ends() {
    let store = open_on(&disk());
    let table = store.open_table("t").unwrap();
    let mut map = BTreeMap::new();
    let mut keys: Vec<Vec<u8>> = vec![vec![], vec![0], vec![0, 0], vec![255], vec![255, 255]];
    keys.extend((0..400u16).map(|i| (i * 3).to_be_bytes().to_vec()));
    for key in keys {
        table.put(&key, [key.len() as u8; 100]).unwrap();
        map.insert(key.clone(), vec![key.len() as u8; 100]);
    }
    let mut random = Random::new(1);
    let ends = map.keys().cloned().collect::<Vec<_>>();
    let bound = |random: &mut Random| {
        let mut key = ends[random.index(ends.len())].clone();
        if random.chance(0.3) {
            key.push(random.below(256) as u8);
        }
        match random.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    };
    for _ in 0..1500 {
        let bounds = (bound(&mut random), bound(&mut random));
        let inside = |key: &Vec<u8>| std::ops::RangeBounds::contains(&bounds, key);
        let expected: Vec<_> = map.iter().filter(|(key, _)| inside(key)).collect();
        let expected: Vec<_> = expected.iter().map(|(k, v)| ((*k).clone(), (*v).clone())).collect();
        let found: Vec<_> = table.range(bounds.clone()).map(Result::unwrap).collect();
        assert_eq!(found, expected, "{bounds:?}");
        let mut found: Vec<_> = table.range(bounds.clone()).rev().map(Result::unwrap).collect();
        found.reverse();
        assert_eq!(found, expected, "{bounds:?} from behind");
        // Both ends in any order, until they meet; then nothing from either.
        let (mut range, mut front, mut back) = (table.range(bounds.clone()), vec![], vec![]);
        loop {
            let from_front = random.chance(0.5);
            let entry = if from_front { range.next() } else { range.next_back() };
            match entry.transpose().unwrap() {
                Some(entry) if from_front => front.push(entry),
                Some(entry) => back.push(entry),
                None => break,
            }
        }
        assert!(range.next().is_none() && range.next_back().is_none());
        back.reverse();
        assert_eq!([front, back].concat(), expected, "{bounds:?} from both ends");
    }
}

#[test]
fn prefixes() {
    let store = open_on(&disk());
    let table = store.open_table("t").unwrap();
    let bytes = [0x00, b'a', 0xfe, 0xff];
    let mut keys = vec![vec![]];
    for len in 1..=4u32 {
        for number in 0..4u32.pow(len) {
            keys.push((0..len).map(|at| bytes[(number >> (2 * at)) as usize % 4]).collect());
        }
    }
    for key in &keys {
        table.put(key, b"").unwrap();
    }
    keys.sort();
    for prefix in keys.iter().chain([&b"b"[..].to_vec(), &vec![255; 9]]) {
        let expected: Vec<_> = keys.iter().filter(|key| key.starts_with(prefix)).cloned().collect();
        let found: Vec<_> = table.prefix(prefix).map(|entry| entry.unwrap().0).collect();
        assert_eq!(found, expected, "{prefix:?}");
        let mut found: Vec<_> = table.prefix(prefix).rev().map(|e| e.unwrap().0).collect();
        found.reverse();
        assert_eq!(found, expected, "{prefix:?} from behind");
    }
    assert_eq!(table.prefix(b"").count() as u64, table.len());
}

#[test]
fn limits_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(quick(dir.path())).unwrap();
    let table = store.open_table("t").unwrap();
    table.put([1; 512], b"longest key").unwrap();
    let long = [1; 513];
    let error = table.put(long, b"").unwrap_err();
    assert!(matches!(error, StoreError::KeyTooLong { len: 513, limit: 512 }));
    assert!(error.to_string().contains("513") && error.to_string().contains("512"), "{error}");
    assert!(matches!(
        table.update_with(long, |_| Change::Insert(vec![])),
        Err(StoreError::KeyTooLong { .. })
    ));
    assert_eq!(table.get(long).unwrap(), None);
    assert!(!table.contains_key(long).unwrap() && !table.delete(long).unwrap());

    // A value of 64 MiB passes through a pool of one: the longest, and one byte too long.
    let mut value = vec![0; 64 << 20];
    Random::new(5).fill(&mut value);
    table.put(b"longest value", &value).unwrap();
    let same = table.get_with(b"longest value", |found| found == value).unwrap();
    assert_eq!(same, Some(true));
    value.push(0);
    let error = table.put(b"k", &value).unwrap_err();
    assert!(matches!(error, StoreError::ValueTooLong { limit: 67_108_864, .. }), "{error}");
    assert_eq!(table.len(), 2);
    table.delete(b"longest value").unwrap();
    assert_sound(&store);
    store.shrink().unwrap();
    assert!(store.stats().pool.file_bytes < 1 << 20);
}

#[test]
fn values_of_all_lengths_are_lent_and_copied() {
    let store = open_on(&disk());
    let table = store.open_table("t").unwrap();
    for len in [0, 1, 100, 1000, 1013, 1014, 1015, 1023, 1024, 1025, 4000, 4096, 50_000] {
        let mut value = vec![0; len];
        Random::new(len as u64).fill(&mut value);
        table.put(b"k", &value).unwrap();
        assert_eq!(table.get(b"k").unwrap().as_ref(), Some(&value));
        assert_eq!(table.get_with(b"k", |found| found == value).unwrap(), Some(true));
        let with = table.get_versioned_with(b"k", |version, found| (version, found.to_vec()));
        assert_eq!(with.unwrap(), table.get_versioned(b"k").unwrap());
        let mut range = table.iter();
        assert_eq!(range.next_entry().unwrap(), Some((&b"k"[..], &value[..])));
        assert_eq!(range.next_entry().unwrap(), None);
        let mut range = table.iter();
        assert_eq!(range.next_entry_back().unwrap(), Some((&b"k"[..], &value[..])));
    }
    assert_eq!(table.get_with(b"none", |_| ()).unwrap(), None);
    assert_eq!(table.get_versioned_with(b"none", |_, _| ()).unwrap(), None);
    // A reader may use the table that it reads from.
    let inner = table.get_with(b"k", |_| table.get(b"k").unwrap().unwrap().len()).unwrap();
    assert_eq!(inner, Some(50_000));
}

#[test]
fn updates_of_one_key_are_one_step() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(quick(dir.path())).unwrap();
    let table = store.open_table("t").unwrap();
    let calls = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for i in 0..500u32 {
                    let add = |old: Option<&[u8]>| {
                        calls.fetch_add(1, Ordering::Relaxed);
                        let old = old.map_or(0, |old| u32::from_be_bytes(old.try_into().unwrap()));
                        Change::Insert((old + 1).to_be_bytes().to_vec())
                    };
                    table.update_with((i % 5).to_be_bytes(), add).unwrap();
                }
            });
        }
    });
    for counter in 0..5u32 {
        assert_eq!(table.get(counter.to_be_bytes()).unwrap().unwrap(), 800u32.to_be_bytes());
    }
    assert!(calls.into_inner() >= 4000);
    assert_eq!(table.len(), 5);
    table.update_with(b"none", |old| if old.is_none() { Change::Keep } else { panic!() }).unwrap();
    table.update_with(b"none", |_| Change::Remove).unwrap();
    assert_eq!(table.len(), 5);
    table.update_with(0u32.to_be_bytes(), |_| Change::Remove).unwrap();
    assert_eq!(table.len(), 4);
}

/// The number of entries is right while many write, and after a reopen.
#[test]
fn the_number_of_entries() {
    let disk = disk();
    let store = open_on(&disk);
    let table = store.open_table("t").unwrap();
    thread::scope(|scope| {
        for t in 0..8u64 {
            let table = &table;
            scope.spawn(move || {
                for i in 0..1000 * scale() {
                    let key = (i * 8 + t).to_be_bytes();
                    assert!(table.put(key, b"v").unwrap());
                    assert!(!table.put(key, b"w").unwrap());
                    if i % 3 == 0 {
                        assert!(table.delete(key).unwrap());
                        assert!(!table.delete(key).unwrap());
                    }
                }
            });
        }
    });
    let expected = 8 * (1000 * scale() - (1000 * scale()).div_ceil(3));
    assert_eq!(table.len(), expected);
    let other = store.open_table("loaded").unwrap();
    assert_eq!(other.bulk_load((0..777u64).map(|i| (i.to_be_bytes(), b"x"))).unwrap(), 777);
    assert_eq!(other.len(), 777);
    let error = other.bulk_load([(b"k", b"v")]).unwrap_err();
    assert!(error.to_string().contains("`loaded`"), "{error}");
    let empty = store.open_table("empty").unwrap();
    let error = empty.bulk_load([(b"b", b""), (b"a", b"")]).unwrap_err();
    assert!(matches!(error, StoreError::NotSorted { number: 1 }), "{error}");
    assert!(empty.is_empty());
    drop((table, other, empty));
    store.close().unwrap();
    let store = open_on(&disk);
    assert_eq!(store.table("t").unwrap().len(), expected);
    assert_eq!(store.table("loaded").unwrap().len(), 777);
    assert_eq!(store.table("empty").unwrap().len(), 0);
    assert_sound(&store);
}

/// A table is dropped while others read, scan and write it: they hear that it was dropped, and see
/// nothing wrong before.
fn dropped_in_use(store: &Store) {
    let stays = store.open_table("stays").unwrap();
    for i in 0..2000u64 {
        stays.put(i.to_be_bytes(), [0xee; 64]).unwrap();
    }
    for round in 0..12 * scale() {
        let table = store.create_table("goes").unwrap();
        let mark = [round as u8; 300];
        let long = [round as u8; 9000];
        for i in 0..1500u64 {
            let value = if i % 100 == 0 { &long[..] } else { &mark[..] };
            table.put(i.to_be_bytes(), value).unwrap();
        }
        let begun = Instant::now();
        thread::scope(|scope| {
            for t in 0..6u64 {
                let (table, stays) = (&table, &stays);
                scope.spawn(move || {
                    let mut random = Random::new(t);
                    let error = loop {
                        let key = random.below(1500);
                        let bytes = key.to_be_bytes();
                        let fine = |value: &[u8]| value.iter().all(|byte| *byte == round as u8);
                        let done = match t % 3 {
                            0 => table.get(bytes).map(|v| assert!(fine(&v.unwrap()))),
                            1 => table.put(bytes, mark).map(|new| assert!(!new)),
                            _ => table.range(bytes..).take(200).try_for_each(|entry| {
                                entry.map(|(_, value)| assert!(fine(&value)))
                            }),
                        };
                        if let Err(error) = done {
                            break error;
                        }
                        let other = stays.get(key.to_be_bytes()).unwrap().unwrap();
                        assert_eq!(other, [0xee; 64]);
                    };
                    assert!(matches!(error, StoreError::Dropped { .. }), "{}", full_text(&error));
                });
            }
            thread::sleep(Duration::from_millis(5));
            store.drop_table("goes").unwrap();
        });
        assert!(begun.elapsed() < Duration::from_secs(30));
        // The next one may use the same frames and physical pages at once.
        let next = store.create_table("next").unwrap();
        next.put(b"k", b"v").unwrap();
        assert!(matches!(table.get(1u64.to_be_bytes()), Err(StoreError::Dropped { .. })));
        store.drop_table("next").unwrap();
    }
    assert_sound(store);
    store.shrink().unwrap();
    let file = store.stats().pool.file_bytes;
    assert!(file < 600 << 10, "{file} bytes are left");
}

#[test]
fn a_table_is_dropped_while_it_is_used() {
    dropped_in_use(&open_on(&disk()));
}

#[test]
fn a_table_is_dropped_while_it_is_used_direct() {
    let direct = Options::new("simulated").translation(TranslationKind::Direct);
    dropped_in_use(&disk().open(direct).unwrap());
}

#[test]
fn room_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(quick(dir.path())).unwrap();
    let file = || std::fs::metadata(dir.path().join("data")).unwrap().len();
    let (first, second) = (store.open_table("a").unwrap(), store.open_table("b").unwrap());
    for i in 0..10_000u64 {
        first.put(i.to_be_bytes(), [1; 300]).unwrap();
        second.put(i.to_be_bytes(), [2; 300]).unwrap();
    }
    store.checkpoint().unwrap();
    let full = file();
    assert_eq!(full, store.stats().pool.file_bytes);
    store.drop_table("a").unwrap();
    let gone = store.shrink().unwrap();
    assert!(file() < full * 6 / 10, "{} of {full} are left, {gone} less", file());
    for i in 0..9_900u64 {
        assert!(second.delete(i.to_be_bytes()).unwrap());
    }
    store.shrink().unwrap();
    assert!(file() < 1 << 20, "{} of {full} are left", file());
    assert_sound(&store);
    store.close().unwrap();
    let store = Store::open(quick(dir.path())).unwrap();
    assert_eq!(store.table("b").unwrap().iter().count(), 100);
}
