//! Many changes by one call: what is there is what single changes leave, each whole, and errors tell
//! how far it came.

use std::collections::BTreeMap;
use std::thread;

use polder::{Durability, OpenMode, Store, StoreError, Table, TranslationKind};
use polder_testkit::{Errno, FaultPlan, Operation, Random, When};

use crate::support::*;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// With values as long as here, several times what fits into the least memory.
const NUMBERS: u64 = 20_000;

fn key(number: u64) -> Vec<u8> {
    polder_testkit::random::scramble(number).to_be_bytes()[..3 + (number % 5) as usize].to_vec()
}

/// A key of one length.
fn wide(number: u64) -> Vec<u8> {
    polder_testkit::random::scramble(number).to_be_bytes().to_vec()
}

fn value(random: &mut Random) -> Vec<u8> {
    let len = match random.index(30) {
        0 => 6000,
        1 => 0,
        _ => 20 + random.index(200),
    };
    vec![random.index(256) as u8; len]
}

/// Does some changes, by any of the four calls, and sees that they answer as the model does.
fn change(table: &Table, model: &mut Model, random: &mut Random) {
    let len = [0, 1, 2, 30, 3000][random.index(5)];
    let mut keys: Vec<_> = (0..len).map(|_| key(random.below(NUMBERS))).collect();
    if random.chance(0.3) {
        keys.sort();
    }
    let removes = random.chance(0.4);
    let pairs: Vec<_> = keys.iter().map(|key| (key.clone(), value(random))).collect();
    let before = model.len();
    let expected: Vec<_> = pairs
        .iter()
        .map(|(key, value)| match removes {
            true => model.remove(key),
            false => model.insert(key.clone(), value.clone()),
        })
        .collect();
    let mut old = Vec::new();
    let mut see = |i: usize, value: Option<&[u8]>| {
        assert_eq!(i, old.len(), "not in order");
        old.push(value.map(<[u8]>::to_vec));
    };
    let shows = random.chance(0.5);
    let changed = match (removes, shows) {
        (false, true) => table.insert_many(&pairs, &mut see),
        (false, false) => table.put_many(&pairs),
        (true, true) => table.remove_many(&keys, &mut see),
        (true, false) => table.delete_many(&keys),
    };
    assert_eq!(changed.unwrap(), before.abs_diff(model.len()) as u64);
    assert!(!shows || old == expected, "old values differ");
}

fn is_content(table: &Table, model: &Model) {
    let owned = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
    assert!(table.iter().map(Result::unwrap).eq(model.iter().map(owned)));
    assert_eq!(table.len(), model.len() as u64);
}

#[test]
fn each_translation_does_what_single_changes_do() {
    for kind in TranslationKind::ALL {
        let disks = disk();
        let options = quick("simulated").translation(*kind);
        let store =
            disks.open(if kind.evicts() { options } else { options.memory_budget(32 << 20) });
        let store = store.unwrap();
        let table = store.open_table("t").unwrap();
        let (mut model, mut random) = (Model::new(), Random::new(3));
        for _ in 0..25 {
            change(&table, &mut model, &mut random);
        }
        is_content(&table, &model);
        assert_sound(&store);
        store.close().unwrap();
    }
}

/// Each of several threads changes its own keys.
#[test]
fn beside_others() {
    let store = disk().open(quick("simulated")).unwrap();
    let table = store.open_table("t").unwrap();
    thread::scope(|scope| {
        for t in 0..3u64 {
            let table = table.clone();
            scope.spawn(move || {
                let mut random = Random::new(t);
                let mut mine = Model::new();
                for round in 0..20 * scale() {
                    let keys: Vec<_> = (0..200)
                        .map(|_| [&t.to_be_bytes()[..], &key(random.below(NUMBERS))].concat())
                        .collect();
                    if round % 3 == 2 {
                        let mut removed = 0;
                        let gone = table.remove_many(&keys, |i, old| {
                            assert_eq!(old, mine.remove(&keys[i]).as_deref());
                            removed += u64::from(old.is_some());
                        });
                        assert_eq!(gone.unwrap(), removed);
                    } else {
                        let pairs: Vec<_> =
                            keys.into_iter().map(|key| (key, value(&mut random))).collect();
                        table.put_many(&pairs).unwrap();
                        mine.extend(pairs);
                    }
                }
                let found = table.prefix(t.to_be_bytes()).map(Result::unwrap);
                assert!(found.eq(mine));
            });
        }
    });
    assert_sound(&store);
}

/// All in front of the pair that fails is there, it and all behind it is not.
#[test]
fn an_error_tells_how_far_it_came() {
    let store = disk().open(quick("simulated")).unwrap();
    let table = store.open_table("t").unwrap();
    let long = vec![0; store.max_key_bytes() + 1];
    let keys: Vec<_> = (0..300).map(|i| if i == 123 { long.clone() } else { key(i) }).collect();
    let pairs: Vec<_> = keys.iter().map(|key| (key, "value")).collect();
    let mut seen = 0;
    for error in [table.put_many(&pairs), table.insert_many(&pairs, |_, _| seen += 1)] {
        let Err(StoreError::Key { index: 123, source }) = error else { panic!("{error:?}") };
        assert!(matches!(*source, StoreError::KeyTooLong { .. }), "{source:?}");
        assert_eq!(table.len(), 123);
    }
    assert_eq!(seen, 123);
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(table.contains_key(key).unwrap(), i < 123, "{i}");
    }
}

/// Reads fail now and then: what is there is what was told, and nothing is half there.
#[test]
fn failing_reads() {
    let disks = disk();
    let store = disks.open(quick("simulated")).unwrap();
    let table = store.open_table("t").unwrap();
    let (mut random, mut model) = (Random::new(8), Model::new());
    // Several times what fits into memory.
    for number in 0..30_000 {
        model.insert(wide(number), vec![255; 150]);
    }
    table.bulk_load(&model).unwrap();
    let mut failed = 0;
    for round in 0..40 * scale() {
        let pairs: Vec<_> =
            (0..200).map(|_| (wide(random.below(40_000)), vec![round as u8; 150])).collect();
        let share = 0.02 * (round % 10) as f64;
        let plan = FaultPlan::new(round).fail(Operation::Read, When::Share(share), Errno::IO);
        disks.data.set_plan(plan);
        let done = match table.put_many(&pairs) {
            Ok(_) => pairs.len(),
            Err(StoreError::Key { index, .. }) => {
                failed += 1;
                index
            }
            Err(other) => panic!("{other}"),
        };
        disks.data.set_plan(FaultPlan::new(1));
        model.extend(pairs.iter().take(done).cloned());
        for (key, _) in &pairs {
            assert_eq!(table.get(key).unwrap().as_ref(), model.get(key), "round {round}");
        }
    }
    is_content(&table, &model);
    assert!(failed > 3, "{failed} calls met failing reads");
    assert_sound(&store);
}

/// When the call returns all is durable, also what was done before an error.
#[test]
fn what_is_done_is_durable() {
    for fails in [false, true] {
        let disks = disk();
        let store = disks.open(tight("simulated").durability(Durability::Sync)).unwrap();
        let table = store.open_table("t").unwrap();
        let mut pairs: Vec<_> = (0..500).map(|i| (key(i), "value")).collect();
        if fails {
            pairs.push((vec![0; 4096], "value"));
        }
        assert_eq!(table.put_many(&pairs).is_err(), fails);
        let after = disks.crash(7);
        drop((table, store));
        let store = after.open(tight("simulated")).unwrap();
        assert_eq!(store.table("t").unwrap().len(), 500);
    }
}

/// Those that are called may use the store, and panic; what they were called for is done.
#[test]
fn users_are_called_with_nothing_in_hand() {
    let store = disk().open(quick("simulated")).unwrap();
    let table = store.open_table("t").unwrap();
    let pairs: Vec<_> = (0..300).map(|i| (key(i), i.to_string())).collect();
    table
        .insert_many(&pairs, |i, _| {
            table.put([&b"copy/"[..], &pairs[i].0].concat(), &pairs[i].1).unwrap();
            table.get_many(&[&pairs[i].0], |_, value| assert!(value.is_some())).unwrap();
        })
        .unwrap();
    assert_eq!(table.len(), 600);
    let keys: Vec<_> = pairs.iter().map(|(key, _)| key).collect();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        table.remove_many(&keys, |i, _| assert!(i < 100, "this one is meant to panic"))
    }));
    assert!(panicked.is_err());
    assert_eq!(table.len(), 499);
    assert_sound(&store);
    store.close().unwrap();
    assert!(matches!(table.put_many(&pairs), Err(StoreError::Closed)));
}

#[test]
fn a_store_that_is_read_refuses() {
    let disks = disk();
    let store = disks.open(tight("simulated")).unwrap();
    store.open_table("t").unwrap();
    store.close().unwrap();
    let store: Store = disks.open(tight("simulated").mode(OpenMode::ReadOnly)).unwrap();
    let table = store.table("t").unwrap();
    let error = table.put_many(&[("a", "b")]).unwrap_err();
    assert!(full_text(&error).contains("read"), "{}", full_text(&error));
}
