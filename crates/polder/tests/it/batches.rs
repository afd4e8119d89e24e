//! Batches: all or nothing, in memory and on disk.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use polder::{BatchError, Change, Durability, StoreError, Table, WriteBatch};
use polder_testkit::{Model, Random};

use crate::futures::{assert_no_frame_is_kept, cold, key};
use crate::support::*;

fn number(i: u64) -> [u8; 8] {
    i.to_be_bytes()
}

fn content(table: &Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    table.iter().map(Result::unwrap).collect()
}

#[test]
fn all_changes_are_made() {
    let disks = disk();
    let store = open_on(&disks);
    let (a, b) = (store.open_table("a").unwrap(), store.open_table("b").unwrap());
    a.put(b"goes", b"1").unwrap();
    a.put(b"grows", b"2").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&b, b"new", [7; 9000]).delete(&a, b"goes").delete(&a, b"was never there");
    batch.update_with(&a, b"grows", |old| Change::Insert([old.unwrap(), b"+"].concat()));
    batch.update_with(&b, b"stays away", |old| match old {
        None => Change::Keep,
        Some(_) => panic!("it is not there"),
    });
    assert_eq!((batch.len(), batch.is_empty()), (5, false));
    store.apply(batch).unwrap();
    store.apply(WriteBatch::new()).unwrap();
    for store in [store, open_on(&disks.crash(1))] {
        let (a, b) = (store.table("a").unwrap(), store.table("b").unwrap());
        assert_eq!(content(&a), [(b"grows".to_vec(), b"2+".to_vec())]);
        assert_eq!(content(&b), [(b"new".to_vec(), vec![7; 9000])]);
        assert_eq!((a.len(), b.len()), (1, 1));
        assert_sound(&store);
    }
}

/// A key that was written twice, the versions that it had, and an expectation. Gives whether the
/// batch was made, and sees that all of it was, or nothing.
fn expecting(
    table: usize,
    key: &[u8],
    version: impl FnOnce(Option<u64>, Option<u64>) -> Option<u64>,
) -> bool {
    let store = open_on(&disk());
    let tables = ["a", "b"].map(|name| store.open_table(name).unwrap());
    let [a, b] = &tables;
    a.put(b"k", b"1").unwrap();
    let old = a.version(b"k").unwrap();
    assert_eq!(a.get_versioned(b"k").unwrap(), Some((old.unwrap(), b"1".to_vec())));
    // The same value again is another version.
    a.put(b"k", b"1").unwrap();
    let new = a.version(b"k").unwrap();
    assert_ne!(old, new);

    let expected = version(old, new);
    let mut batch = WriteBatch::new();
    batch.put(a, b"a", b"x").put(b, b"z", [1; 5000]).delete(a, b"k").tag(b"tag");
    batch.expect(&tables[table], key, expected);
    let Err(error) = store.apply(batch) else {
        assert_eq!(content(a), [(b"a".to_vec(), b"x".to_vec())]);
        assert_eq!(content(b), [(b"z".to_vec(), vec![1; 5000])]);
        assert_eq!(store.tag().unwrap(), Some(b"tag".to_vec()));
        assert_sound(&store);
        return true;
    };
    let text = error.to_string();
    let BatchError::Unexpected { table: named, key: found, expected: version } = error else {
        panic!("{text}")
    };
    assert_eq!((named.as_str(), &found[..], version), (tables[table].name(), key, expected));
    assert!(text.contains(&format!("`{named}`")), "{text}");
    assert!(text.contains(&key.escape_ascii().to_string()), "{text}");
    assert_eq!(content(a), [(b"k".to_vec(), b"1".to_vec())]);
    assert!(b.is_empty() && b.first().unwrap().is_none());
    assert_eq!((a.len(), store.tag().unwrap()), (1, None));
    assert_sound(&store);
    false
}

#[test]
fn a_failed_expectation_is_named_and_nothing_is_done() {
    assert!(expecting(0, b"k", |_, new| new));
    assert!(!expecting(0, b"k", |old, _| old));
    assert!(!expecting(0, b"k", |_, _| None), "it is there");
    assert!(expecting(0, b"none", |_, _| None));
    assert!(!expecting(0, b"none", |_, new| new), "it is not there");
    assert!(!expecting(1, b"k", |_, new| new), "that is another table");
}

#[test]
fn several_changes_of_one_key_are_made_in_order() {
    let store = open_on(&disk());
    let table = store.open_table("t").unwrap();
    table.put(b"k", b"before").unwrap();
    let version = table.version(b"k").unwrap();
    let mut seen = Vec::new();
    let mut batch = WriteBatch::new();
    batch.put(&table, b"k", b"first").delete(&table, b"k").put(&table, b"k", b"last");
    batch.put(&table, b"gone", b"x").delete(&table, b"gone");
    // Expectations are about what was there before the batch.
    batch.expect(&table, b"k", version).expect(&table, b"gone", None);
    batch.update_with(&table, b"k", |old| {
        seen.push(old.map(<[u8]>::to_vec));
        Change::Keep
    });
    store.apply(batch).unwrap();
    assert_eq!(seen, [Some(b"last".to_vec())]);
    assert_eq!(content(&table), [(b"k".to_vec(), b"last".to_vec())]);
    assert_eq!(table.len(), 1);
    assert_sound(&store);
}

#[test]
fn an_update_sees_what_the_parts_before_it_have_made() {
    let store = open_on(&disk());
    let (a, b) = (store.open_table("a").unwrap(), store.open_table("b").unwrap());
    let add = |old: Option<&[u8]>| Change::Insert(vec![old.map_or(0, |old| old[0]) + 1]);
    let mut batch = WriteBatch::new();
    batch.update_with(&a, b"twice", add).update_with(&a, b"twice", add);
    batch.update_with(&b, b"set", add).put(&b, b"set", [10]).update_with(&b, b"set", add);
    batch.put(&a, b"gone", [7]).delete(&a, b"gone").update_with(&a, b"gone", add);
    batch.update_with(&a, b"removed", add).update_with(&a, b"removed", |_| Change::Remove);
    batch.update_with(&a, b"kept", add).update_with(&a, b"kept", |_| Change::Keep);
    // Keys of one name in two tables, a key that begins as another one does.
    batch.update_with(&b, b"twice", add).update_with(&a, b"twice and more", add);
    batch.update_with(&a, b"kept", add).update_with(&a, b"removed", |old| {
        assert_eq!(old, None);
        Change::Keep
    });
    let (at, mut orders) = (AtomicU8::new(0), Vec::new());
    for key in [&b"z"[..], b"y", b"z"] {
        batch
            .update_with(&a, key, |_| Change::Insert(vec![at.fetch_add(1, Ordering::Relaxed) + 1]));
    }
    for round in 1..=2 {
        at.store(0, Ordering::Relaxed);
        store.apply_mut(&mut batch).unwrap();
        orders.push((a.get(b"z").unwrap(), a.get(b"y").unwrap()));
        assert_eq!(a.get(b"twice").unwrap(), Some(vec![2 * round]));
        assert_eq!(b.get(b"set").unwrap(), Some(vec![11]));
        assert_eq!(a.get(b"gone").unwrap(), Some(vec![1]));
        assert_eq!(a.get(b"removed").unwrap(), None);
        assert_eq!(a.get(b"kept").unwrap(), Some(vec![2 * round]));
        assert_eq!(b.get(b"twice").unwrap(), Some(vec![round]));
        assert_eq!(a.get(b"twice and more").unwrap(), Some(vec![round]));
    }
    assert_eq!(orders, vec![(Some(vec![3]), Some(vec![2])); 2], "updates are asked in their order");
    assert_eq!((a.len(), b.len()), (6, 2));
    drop(batch);
    assert_sound(&store);
}

/// An expectation and the write behind it are one part; whatever stands between, and whichever key
/// and table each is about, they mean what they mean apart.
#[test]
fn an_expectation_holds_for_the_write_behind_it() {
    let store = open_on(&disk());
    let (a, b) = (store.open_table("a").unwrap(), store.open_table("b").unwrap());
    let version = || a.version(b"k").unwrap();
    let refused = |batch| matches!(store.apply(batch), Err(BatchError::Unexpected { .. }));
    // New, replaced, removed: by a writer that knows the version alone.
    let mut batch = WriteBatch::new();
    batch.expect(&a, b"k", None).put(&a, b"k", b"1");
    assert_eq!(batch.len(), 2);
    store.apply(batch).unwrap();
    let first = version();
    let mut batch = WriteBatch::new();
    batch.expect(&a, b"k", first).put(&a, b"k", b"2");
    store.apply(batch).unwrap();
    for old in [None, first] {
        let mut batch = WriteBatch::new();
        batch.put(&b, b"k", b"x").expect(&a, b"k", old).delete(&a, b"k");
        assert!(refused(batch));
    }
    // Two expectations of one key, of which one is wrong, in both orders.
    for versions in [[first, version()], [version(), first]] {
        let mut batch = WriteBatch::new();
        batch.expect(&a, b"k", versions[0]).expect(&a, b"k", versions[1]).put(&a, b"k", b"3");
        assert!(refused(batch));
    }
    // The write behind is another table's, or another key's.
    for (table, key) in [(&b, &b"k"[..]), (&a, b"l")] {
        let mut batch = WriteBatch::new();
        batch.expect(&a, b"k", first).put(table, key, b"3");
        assert!(refused(batch));
        let mut batch = WriteBatch::new();
        batch.expect(&a, b"k", version()).put(table, key, b"3").delete(table, key);
        store.apply(batch).unwrap();
    }
    // An update asks for itself, and an expectation before it is still one.
    let mut batch = WriteBatch::new();
    batch.expect(&a, b"k", first).update_with(&a, b"k", |_| Change::Remove);
    assert!(refused(batch));
    assert_eq!((content(&a), b.len()), (vec![(b"k".to_vec(), b"2".to_vec())], 0));
    let mut batch = WriteBatch::new();
    batch.expect(&a, b"k", version()).delete(&a, b"k").put(&a, b"k", b"4");
    store.apply(batch).unwrap();
    assert_eq!(content(&a), [(b"k".to_vec(), b"4".to_vec())]);
    assert_sound(&store);
}

#[test]
fn a_batch_is_applied_again_and_used_again() {
    let (mine, other) = (open_on(&disk()), open_on(&disk()));
    let (table, theirs) = (mine.open_table("t").unwrap(), other.open_table("t").unwrap());
    let mut batch = WriteBatch::new();
    let mut asked = 0;
    batch.put(&table, b"k", b"1").tag(b"tag").update_with(&table, b"count", |_| {
        asked += 1;
        Change::Insert(vec![asked])
    });
    mine.apply_mut(&mut batch).unwrap();
    table.delete(b"k").unwrap();
    mine.apply_mut(&mut batch).unwrap();
    assert_eq!((batch.len(), batch.is_empty()), (2, false));
    assert_eq!(table.get(b"k").unwrap(), Some(b"1".to_vec()));
    assert_eq!(table.get(b"count").unwrap(), Some(vec![2]));
    batch.clear();
    assert_eq!((batch.len(), batch.is_empty()), (0, true));
    mine.apply_mut(&mut batch).unwrap();
    // Nothing of the first use is left: no tag, no table.
    batch.put(&theirs, b"k", b"2");
    other.apply_mut(&mut batch).unwrap();
    assert_eq!((other.tag().unwrap(), theirs.get(b"k").unwrap()), (None, Some(b"2".to_vec())));
    assert!(matches!(mine.apply_mut(&mut batch), Err(BatchError::Foreign { .. })));
    drop(batch);
    assert_eq!(asked, 2);
}

/// Leaves that are as good as full: what a batch adds, lengthens, shortens and removes in one of
/// them must come out right wherever the room comes from.
#[test]
fn full_leaves_change_in_place_or_are_split() {
    let mut random = Random::new(11);
    for round in 0..60 * scale() {
        let store = open_on(&disk());
        let table = store.open_table("t").unwrap();
        let mut model = std::collections::BTreeMap::new();
        for i in 0..40u64 {
            let value = vec![i as u8; random.index(300)];
            table.put(number(i * 4), &value).unwrap();
            model.insert(number(i * 4).to_vec(), value);
        }
        for batch_number in 0..10u8 {
            let mut batch = WriteBatch::new();
            // Neighbours, so that a leaf gets many of them.
            let first = random.below(150);
            for key in first..first + 1 + random.below(25) {
                let key = number(key);
                match random.chance(0.6) {
                    true => {
                        let value = vec![batch_number; random.index(300)];
                        batch.put(&table, key, &value);
                        model.insert(key.to_vec(), value);
                    }
                    false => {
                        batch.delete(&table, key);
                        model.remove(&key[..]);
                    }
                }
            }
            store.apply(batch).unwrap();
            let found = content(&table);
            assert!(found.iter().map(|(k, v)| (k, v)).eq(&model), "round {round}");
        }
        assert_eq!(table.len(), model.len() as u64);
        assert_sound(&store);
    }
}

/// Threads move amounts between two tables; the sum stays what it is for every reader.
#[test]
fn transfers_keep_the_sum() {
    const ACCOUNTS: u64 = 6;
    const TRANSFERS: u64 = 300;
    let disks = disk();
    let store = open_on(&disks);
    let tables = ["left", "right"].map(|name| store.open_table(name).unwrap());
    let value = |amount: u64| number(amount).to_vec();
    let amount = |value: &[u8]| u64::from_be_bytes(value.try_into().unwrap());
    for account in 0..ACCOUNTS {
        tables.iter().for_each(|t| assert!(t.put(number(account), value(1000)).unwrap()));
    }
    let again = AtomicU64::new(0);
    thread::scope(|scope| {
        for t in 0..4u64 {
            let (store, tables, again) = (&store, &tables, &again);
            scope.spawn(move || {
                let mut random = Random::new(t);
                let mut done = 0;
                while done < TRANSFERS * scale() {
                    let (from, to) = (&tables[random.index(2)], &tables[random.index(2)]);
                    let keys = [number(random.below(ACCOUNTS)), number(random.below(ACCOUNTS))];
                    if from.name() == to.name() && keys[0] == keys[1] {
                        continue;
                    }
                    let moved = random.below(20);
                    let durability =
                        if random.chance(0.9) { Durability::None } else { Durability::Sync };
                    let mut batch = WriteBatch::new();
                    batch.durability(durability);
                    if t % 2 == 0 {
                        let (v0, old0) = from.get_versioned(keys[0]).unwrap().unwrap();
                        let (v1, old1) = to.get_versioned(keys[1]).unwrap().unwrap();
                        // Somebody may come in between.
                        thread::yield_now();
                        let left = amount(&old0).wrapping_sub(moved);
                        batch.expect(from, keys[0], Some(v0)).expect(to, keys[1], Some(v1));
                        batch.put(from, keys[0], value(left));
                        batch.put(to, keys[1], value(amount(&old1).wrapping_add(moved)));
                    } else {
                        let add = move |more: u64| {
                            move |old: Option<&[u8]>| {
                                Change::Insert(value(amount(old.unwrap()).wrapping_add(more)))
                            }
                        };
                        batch.update_with(from, keys[0], add(0u64.wrapping_sub(moved)));
                        batch.update_with(to, keys[1], add(moved));
                    }
                    match store.apply(batch) {
                        Ok(()) => done += 1,
                        Err(BatchError::Unexpected { .. }) if t % 2 == 0 => {
                            again.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{}", full_text(&error)),
                    }
                }
            });
        }
    });
    assert!(again.into_inner() > 0, "nobody came in between");
    for store in [open_on(&disks.crash(3)), store] {
        let all = ["left", "right"].map(|name| content(&store.table(name).unwrap())).concat();
        let sum = all.iter().fold(0u64, |sum, (_, value)| sum.wrapping_add(amount(value)));
        assert_eq!((all.len() as u64, sum), (2 * ACCOUNTS, 2 * ACCOUNTS * 1000));
        assert_sound(&store);
    }
}

/// Random batches against a model, with values of all lengths, on a budget far below the content.
#[test]
fn batches_are_a_btree_map() {
    let disks = disk();
    let mut models = [Model::default(), Model::default()];
    let mut random = Random::new(5);
    for _ in 0..3 {
        let store = open_on(&disks);
        let tables = ["a", "b"].map(|name| store.open_table(name).unwrap());
        for round in 0..150 * scale() {
            let mut batch = WriteBatch::new();
            for _ in 0..1 + random.index(25) {
                let t = random.index(2);
                let key = [&number(random.below(600))[..], &[b'k'; 60]].concat();
                if random.chance(0.6) {
                    let long = random.chance(0.05);
                    let value = vec![round as u8; random.index(if long { 20_000 } else { 700 })];
                    batch.put(&tables[t], &key, &value);
                    models[t].entries.insert(key, value);
                } else {
                    batch.delete(&tables[t], &key);
                    models[t].entries.remove(&key);
                }
            }
            store.apply(batch).unwrap();
        }
        for (table, model) in tables.iter().zip(&models) {
            assert_content(table, model);
        }
        assert_sound(&store);
        drop(tables);
        store.close().unwrap();
    }
}

#[test]
fn many_large_records_into_an_empty_table() {
    for order in 0..3u64 {
        let disks = disk();
        let store = open_on(&disks);
        let table = store.open_table("t").unwrap();
        let mut batch = WriteBatch::new();
        for i in 0..90u64 {
            // Up, down, and all over the place.
            let key = [i, 1000 - i, i * 37 % 90][order as usize];
            batch.put(&table, number(key), [i as u8; 1000]);
        }
        store.apply(batch).unwrap();
        for store in [store, open_on(&disks.crash(order))] {
            let table = store.table("t").unwrap();
            assert_eq!((table.len(), table.iter().count()), (90, 90));
            assert!(table.iter().all(|entry| entry.unwrap().1.len() == 1000));
            assert_sound(&store);
        }
    }
}

#[test]
fn a_batch_that_is_too_large_is_refused() {
    let disks = disk();
    let store = open_on(&disks);
    let table = store.open_table("t").unwrap();
    for i in 0..3000u64 {
        table.with_durability(Durability::None).put(number(i), [1; 900]).unwrap();
    }
    let before = content(&table);
    // More bytes than the log takes at once.
    let mut batch = WriteBatch::new();
    (0..1000).for_each(|i| {
        batch.put(&table, number(i), [2; 900]);
    });
    let error = store.apply(batch).unwrap_err();
    let BatchError::Store(StoreError::ChangeTooLarge { needed, by_log, by_memory }) = error else {
        panic!("{error:?}");
    };
    assert!((900_000..1_100_000).contains(&needed), "{needed} bytes of records");
    assert!(by_memory < needed && by_log < needed, "{by_log}, {by_memory}");
    let text = full_text(&error);
    for part in [
        format!("{needed} bytes of log at once"),
        format!("{by_log} (option `log_limit`)"),
        format!("{by_memory} (option `memory_budget`)"),
    ] {
        assert!(text.contains(&part), "{text}");
    }
    // More leaves than a batch may hold.
    let mut batch = WriteBatch::new();
    (0..3000).step_by(3).for_each(|i| {
        batch.delete(&table, number(i));
    });
    let error = store.apply(batch).unwrap_err();
    let BatchError::Store(StoreError::BatchTooLarge { needed, limit }) = error else {
        panic!("{error:?}");
    };
    assert!((64..75).contains(&limit), "half of some 130 frames: {limit}");
    assert!((700..=1000).contains(&needed), "in as many leaves do the keys lie: {needed}");
    let text = full_text(&error);
    assert!(text.contains(&format!("at least {needed} pages, and {limit} are the most")), "{text}");
    // A key and a value that no table takes.
    let mut batch = WriteBatch::new();
    batch.put(&table, b"fine", b"1").put(&table, [1; 513], b"1");
    let error = store.apply(batch).unwrap_err();
    assert!(matches!(error, BatchError::Store(StoreError::KeyTooLong { .. })), "{error:?}");

    assert!(content(&table) == before && table.len() == 3000);
    assert_sound(&store);
    let pages = store.stats().tables[0].pages;
    // Nothing is lost to what was tried, and others may go on.
    let mut batch = WriteBatch::new();
    (0..50).for_each(|i| {
        batch.put(&table, number(i), [2; 900]);
    });
    store.apply(batch).unwrap();
    assert_eq!(store.stats().tables[0].pages, pages);
    drop(table);
    store.close().unwrap();
    let store = open_on(&disks);
    assert_eq!(store.table("t").unwrap().len(), 3000);
    assert_sound(&store);
}

#[test]
fn tables_of_another_store_are_refused() {
    let (mine, other) = (open_on(&disk()), open_on(&disk()));
    let direct = polder::TranslationKind::Direct;
    let direct = disk().open(tight("simulated").translation(direct)).unwrap();
    let table = mine.open_table("mine").unwrap();
    for other in [other, direct] {
        let theirs = other.open_table("theirs").unwrap();
        for store in [&mine, &other] {
            let mut batch = WriteBatch::new();
            batch.put(&table, b"k", b"v").put(&theirs, b"k", b"v");
            let error = store.apply(batch).unwrap_err();
            assert!(matches!(error, BatchError::Foreign { .. }), "{error:?}");
            assert!(error.to_string().contains("another store"), "{error}");
        }
        assert!(table.is_empty() && theirs.is_empty());
    }
    mine.drop_table("mine").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&table, b"k", b"v");
    let error = mine.apply(batch).unwrap_err();
    assert!(matches!(error, BatchError::Store(StoreError::Dropped { .. })), "{error:?}");
}

#[test]
fn a_tag_comes_and_goes_with_its_batch() {
    let disks = disk();
    let store = open_on(&disks);
    assert_eq!(store.tag().unwrap(), None);
    let table = store.open_table("t").unwrap();
    for i in 1..=40 {
        let mut batch = WriteBatch::new();
        batch.put(&table, b"index", number(i)).tag(number(i));
        store.apply(batch).unwrap();
    }
    // Neither other writes nor batches without a tag touch it.
    table.put(b"other", b"x").unwrap();
    let mut untagged = WriteBatch::new();
    untagged.put(&table, b"other", b"y");
    store.apply(untagged).unwrap();
    for seed in 0..5 {
        let store = open_on(&disks.crash(seed));
        assert_eq!(store.tag().unwrap(), Some(number(40).to_vec()));
        assert_eq!(store.table("t").unwrap().get(b"index").unwrap().unwrap(), number(40));
        assert_eq!(store.tables().unwrap(), ["t"], "a tag is no table");
    }
    drop(table);
    store.close().unwrap();
    let store = open_on(&disks);
    assert_eq!(store.tag().unwrap(), Some(number(40).to_vec()));
    // A long one, alone.
    let mut batch = WriteBatch::new();
    batch.tag([9; 30_000]);
    assert!(!batch.is_empty());
    store.apply(batch).unwrap();
    let crashed = open_on(&disks.crash(1));
    assert_eq!(crashed.tag().unwrap(), Some(vec![9; 30_000]));
    assert_sound(&crashed);
    // Without a sync: whatever the crash leaves, tag and content are of the same batch.
    let table = store.table("t").unwrap();
    for i in 50..250 {
        let mut batch = WriteBatch::new();
        batch.put(&table, b"index", number(i)).tag(number(i)).durability(Durability::None);
        store.apply(batch).unwrap();
        if i % 20 == 0 {
            let store = open_on(&disks.crash(i));
            let index = store.table("t").unwrap().get(b"index").unwrap().unwrap();
            let tag = store.tag().unwrap().unwrap();
            assert!(tag == index || tag == [9; 30_000] && index == number(40));
        }
    }
}

/// Of a store that syncs once in a second or so.
#[test]
fn a_batch_is_durable_within_the_time_that_it_asks_for() {
    let is_durable_soon = |_: &u32| {
        let disks = disk();
        let store = disks.open(quick("simulated")).unwrap();
        let table = store.create_table("t").unwrap();
        store.flush().unwrap();
        let mut batch = WriteBatch::new();
        let period = Durability::Periodic(Duration::from_millis(5));
        batch.put(&table, "key", "value").durability(period);
        store.apply(batch).unwrap();
        thread::sleep(Duration::from_millis(100));
        let crashed = open_on(&disks.crash(1));
        crashed.table("t").unwrap().get("key").unwrap().is_some()
    };
    // Now and then whoever syncs comes late on a busy machine, or by luck in time.
    let durable = (0..10).filter(is_durable_soon).count();
    assert!(durable >= 6, "{durable} of 10");
}

/// Version words of a bulk load are not in the log one by one: a store that is opened after a crash
/// must not give them out again. Else an expectation would hold for what was written since, and a
/// batch would take the pages of one long value for those of another.
#[test]
fn version_words_are_not_given_out_again_after_a_crash() {
    let disks = disk();
    let store = open_on(&disks);
    let first = store.create_table("first").unwrap();
    let long = vec![7; 20_000];
    first.bulk_load((0..50).map(|i| (number(i), &long))).unwrap();
    store.flush().unwrap();
    let disks = disks.crash(1);
    let store = open_on(&disks);
    let (first, second) = (store.table("first").unwrap(), store.create_table("second").unwrap());
    for i in 0..100 {
        second.put(number(i), &long).unwrap();
    }
    let mut seen = std::collections::HashSet::new();
    for (table, entries) in [(&first, 50), (&second, 100)] {
        for i in 0..entries {
            let version = table.version(number(i)).unwrap().unwrap();
            assert!(seen.insert(version), "{version} of {i} in {}", table.name());
        }
    }
    let mut batch = WriteBatch::new();
    for i in 0..10 {
        batch.delete(&first, number(i)).delete(&second, number(i));
    }
    store.apply(batch).unwrap();
    assert_sound(&store);
}

/// The leaves of keys that a batch writes, or asks about, are loaded together, not one after the other.
#[test]
fn missing_leaves_are_loaded_together() {
    const KEYS: u64 = 300;
    let loaded = disk();
    drop(cold(&loaded));
    for updates in [false, true] {
        let disks = loaded.copy();
        let store = disks.open(quick("simulated").memory_budget(4 << 20)).unwrap();
        let table = store.table("t").unwrap();
        let mut batch = WriteBatch::new();
        for i in 0..KEYS {
            if updates {
                batch.update_with(&table, key(i * 50), move |old| {
                    assert!(old.is_some_and(|old| !old.is_empty()));
                    Change::Insert(number(i).to_vec())
                });
            } else {
                batch.put(&table, key(i * 50), number(i));
            }
        }
        let waited = disks.data.counts().most_queued;
        store.apply(batch).unwrap();
        let most = disks.data.counts().most_queued;
        assert!(waited < 8 && most >= 16, "{most} reads at once, {waited} before; {updates}");
        for i in 0..KEYS {
            assert_eq!(table.get(key(i * 50)).unwrap(), Some(number(i).to_vec()));
        }
        assert_no_frame_is_kept(&store);
    }
}
