//! Loads of collections by runs: that they leave what inserts leave, wherever they end.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use polder::vector::{Bulk, Change, Loading, VectorBuf, VectorStructure};
use polder::{Collection, Durability, Loaded, Query, Store, StoreError};
use polder_testkit::{Errno, FaultPlan, Operation, Random, When};

use crate::collections::*;
use crate::support::*;

/// More than are inserted one by one, and than there is memory for at once.
const ROWS: u64 = 1500;

type Row = (Vec<u8>, VectorBuf, Vec<u8>);

fn row(number: u64) -> Row {
    (key(number), VectorBuf::from(&vector(number)), payload(number))
}

fn model(numbers: Range<u64>) -> Docs {
    numbers.map(|number| (key(number), number)).collect()
}

/// What is there, by its keys.
fn there(docs: &Collection) -> Docs {
    let seed = |key: Vec<u8>| {
        let seed = seed_of(&docs.payload(&key).unwrap().unwrap());
        (key, seed)
    };
    docs.keys(..).map(|key| seed(key.unwrap())).collect()
}

fn load(docs: &Collection, numbers: Range<u64>) -> Loaded {
    docs.load(numbers.map(row), 2, &mut |_| true).unwrap()
}

fn new() -> (Disks, Store, Collection) {
    let disks = disk();
    let store = disks.open(options()).unwrap();
    let docs = create(&store, Index::Steered);
    (disks, store, docs)
}

/// How many of the ten nearest are found, of 500.
fn found(docs: &Collection) -> usize {
    let found = (0..50).map(|seed| {
        let query = vector(1 << 20 | seed);
        let keys = |wanted: Query<'_>| -> Vec<Vec<u8>> {
            let hits = docs.search(&query, &wanted).unwrap().hits;
            hits.into_iter().map(|hit| hit.key).collect()
        };
        let nearest = keys(Query::new(10).exact());
        keys(Query::new(10).width(40)).iter().filter(|key| nearest.contains(key)).count()
    });
    found.sum()
}

/// All that matches is there and found, and nothing is left of how it came.
fn assert_is_whole(docs: &Collection, model: &Docs) {
    assert!(docs.is_linked().unwrap());
    assert_is(docs, model);
    let found = found(docs);
    assert!(found >= 480, "{found} of 500");
}

#[test]
fn rows_are_what_inserts_make_of_them() {
    let (_disks, store, docs) = new();
    insert(&docs, 7, 5007);
    // Each comes twice, with another vector: now and then in another run.
    let rows = (0..2 * ROWS).map(|at| (at / 2, at % 2 * 9000 + at / 2));
    let row = |(number, seed)| (key(number), VectorBuf::from(&vector(seed)), payload(seed));
    let (mut last, mut is_linking) = (0, false);
    let loaded = docs.load(rows.map(row), 2, &mut |done| {
        assert!(done >= last, "{last}, then {done}");
        last = done;
        is_linking |= docs.len() == ROWS && !docs.is_linked().unwrap();
        true
    });
    let loaded = loaded.unwrap();
    assert!(is_linking, "it was no load by runs");
    assert_eq!((loaded.inserted, loaded.passed_over, loaded.stopped), (ROWS - 1, ROWS + 1, false));
    assert_eq!(last, 2 * ROWS);
    let mut model = model(0..ROWS);
    model.insert(key(7), 5007);
    assert_is_whole(&docs, &model);
    assert_sound(&store);
    // Few are inserted, and nothing is placed.
    let few = docs.load((0..ROWS + 20).map(super::collection_runs::row), 2, &mut |_| {
        assert!(docs.is_linked().unwrap());
        true
    });
    assert_eq!((few.unwrap().inserted, docs.len()), (20, ROWS + 20));
    model.extend((ROWS..ROWS + 20).map(|number| (key(number), number)));
    assert_is_whole(&docs, &model);
}

/// What a crash leaves at any moment is sound, and what it lacks is settled, loaded and linked.
#[test]
fn a_load_goes_on_after_every_moment() {
    let [mut records, mut vectors, mut loose, mut whole] = [0; 4];
    for seed in 0..3 * scale() {
        let (disks, store, docs) = new();
        let (mut random, is_over, mut moments) =
            (Random::new(seed), AtomicBool::new(false), Vec::new());
        thread::scope(|scope| {
            scope.spawn(|| {
                load(&docs, 0..ROWS);
                is_over.store(true, SeqCst);
            });
            // What there is of it is durable at each moment.
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    store.flush().unwrap();
                }
            });
            while !is_over.load(SeqCst) {
                let seed = random.next_u64();
                moments.push(if random.chance(0.5) { disks.kill(seed) } else { disks.crash(seed) });
                thread::sleep(Duration::from_micros(random.below(30_000)));
            }
        });
        moments.push(disks.crash(seed));
        assert!(moments.len() > 5);
        for disks in moments {
            let store = disks.open(options()).unwrap();
            let docs = store.collection(NAME).unwrap();
            let report = docs.check(&mut |_| true).unwrap();
            assert_eq!(report.faults, [""; 0]);
            records += store.table("docs.pending").unwrap().len();
            vectors += report.pending;
            loose += u64::from(!docs.is_linked().unwrap());
            whole += u64::from(docs.is_linked().unwrap() && docs.len() == ROWS);
            let there = docs.len();
            assert!(!docs.remove("no such key").unwrap());
            assert_agrees(&docs);
            assert_sound(&store);
            let loaded = load(&docs, 0..ROWS);
            assert_eq!((loaded.inserted, loaded.passed_over), (ROWS - there, there));
            assert_is_whole(&docs, &model(0..ROWS));
            assert_sound(&store);
        }
    }
    assert!(
        records > 0 && vectors > 0 && loose > 0 && whole > 0,
        "{records} {vectors} {loose} {whole}"
    );
}

/// Wherever it is stopped, all that was placed is there, and the next load goes on.
#[test]
fn one_that_is_stopped_leaves_no_record() {
    let (mut empty, mut linking) = (0, 0);
    for stop in 0..24 {
        let (disks, store, docs) = new();
        let (mut times, mut is_stopped) = (0, false);
        let loaded = docs.load((0..ROWS).map(row), 2, &mut |done| {
            times += 1;
            // While rows are read and ordered; then while they are placed and linked.
            is_stopped |= if stop < 8 { times > 250 * stop } else { done > 100 * (stop - 8) };
            !is_stopped
        });
        let loaded = loaded.unwrap();
        assert_eq!(loaded.stopped, is_stopped, "{stop}");
        assert_eq!(docs.len(), loaded.inserted);
        assert_agrees(&docs);
        assert_eq!(loaded.stopped && !docs.is_empty(), !docs.is_linked().unwrap());
        empty += usize::from(docs.is_empty());
        linking += usize::from(loaded.stopped && docs.len() == ROWS);
        // Nothing of it is lost with the power.
        drop((docs, store));
        let store = disks.crash(stop).open(options()).unwrap();
        let docs = store.collection(NAME).unwrap();
        assert_eq!(docs.len(), loaded.inserted);
        // Also where no row is new. (Which of a run were placed follows from how near they lie.)
        let rows: Vec<u64> = there(&docs).into_values().collect();
        assert_eq!(docs.load(rows.into_iter().map(row), 2, &mut |_| true).unwrap().inserted, 0);
        assert!(docs.is_linked().unwrap());
        load(&docs, 0..ROWS);
        assert_is_whole(&docs, &model(0..ROWS));
    }
    assert!(empty > 0 && linking > 0, "{empty} {linking}");
}

/// A few rows that come beside a load are inserted, and nobody links for them what the load has placed.
#[test]
fn few_rows_beside_a_load_link_nothing() {
    let (_disks, _store, docs) = new();
    let few = 2 * ROWS..2 * ROWS + 10;
    let mut beside = 0;
    let loaded = docs.load((0..ROWS).map(row), 2, &mut |done| {
        if done > 0 && beside == 0 {
            beside = load(&docs, few.clone()).inserted;
            assert!(!docs.is_linked().unwrap());
        }
        true
    });
    assert_eq!((loaded.unwrap().inserted, beside), (ROWS, 10));
    assert!(docs.is_linked().unwrap());
    assert_is_whole(&docs, &model(0..ROWS).into_iter().chain(model(few)).collect());
}

/// What a load has loaded is found when it is over, also if another one is not.
#[test]
fn a_load_links_what_it_has_placed() {
    let (_disks, _store, docs) = new();
    let mut beside = None;
    let loaded = docs.load((0..ROWS).map(row), 2, &mut |done| {
        if done > 0 && beside.is_none() {
            beside = Some(load(&docs, ROWS..4 * ROWS).inserted);
            assert!(found(&docs) > 450, "{}", found(&docs));
        }
        true
    });
    assert_eq!((loaded.unwrap().inserted, beside), (ROWS, Some(3 * ROWS)));
    assert_is_whole(&docs, &model(0..4 * ROWS));
}

/// Rows of which nobody knows how many there are go by runs if memory has no room for all.
#[test]
fn rows_of_an_unknown_number() {
    for (count, by_runs) in [(ROWS, true), (20, false)] {
        let (_disks, _store, docs) = new();
        // Memory has room for fewer of them than are inserted one by one.
        let long = |number| (key(number), VectorBuf::from(&vector(number)), vec![0; 4000]);
        let mut rows = (0..count).map(long);
        let (mut was_unlinked, rows) = (false, std::iter::from_fn(|| rows.next()));
        let loaded = docs.load(rows, 2, &mut |_| {
            was_unlinked |= !docs.is_linked().unwrap();
            true
        });
        assert_eq!((loaded.unwrap().inserted, was_unlinked), (count, by_runs));
        assert!(docs.is_linked().unwrap());
    }
}

/// All before it is there, and found.
#[test]
fn a_row_that_is_none_is_named() {
    for bad in [0, 10, ROWS - 1] {
        let (_disks, store, docs) = new();
        let long = vec![b'k'; store.max_key_bytes() + 1];
        for wrong in [(key(5000), VectorBuf::from(&[1.0_f32]), vec![]), (long, row(0).1, vec![])] {
            let rows = (0..2 * ROWS).map(|at| if at == bad { wrong.clone() } else { row(at) });
            let failed = docs.load(rows, 2, &mut |_| true).unwrap_err();
            let is_it = matches!(failed, StoreError::Key { index, .. } if index as u64 == bad);
            assert!(is_it, "{failed}");
            match bad {
                0 | 10 => assert_is(&docs, &model(0..bad)),
                _ => assert_is_whole(&docs, &model(0..bad)),
            }
        }
    }
}

/// Others insert, remove, look, check and load meanwhile.
#[test]
fn others_go_on_beside_a_load() {
    for seed in 0..2 * scale() {
        let (_disks, store, docs) = new();
        let docs = docs.with_durability(Durability::None);
        let is_over = AtomicBool::new(false);
        let mut removed = Vec::new();
        thread::scope(|scope| {
            let loads: Vec<_> = [0..ROWS, 300..ROWS + 300]
                .map(|numbers| scope.spawn(|| load(&docs, numbers)))
                .into_iter()
                .collect();
            let changes = scope.spawn(|| {
                let mut random = Random::new(seed);
                let mut removed = Vec::new();
                while !is_over.load(SeqCst) {
                    let number = random.below(ROWS);
                    if docs.remove(key(number)).unwrap() {
                        removed.push(number);
                    }
                    insert(&docs, number + 5000, number + 5000);
                    assert!(docs.get(key(number + 5000)).unwrap().is_some());
                    let nearest = Query::new(1).exact();
                    let hits = docs.search(&vector(number + 5000), &nearest).unwrap().hits;
                    assert_eq!(hits[0].distance, 0.0);
                }
                removed
            });
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    assert_sound(&store);
                    thread::sleep(Duration::from_millis(5));
                }
            });
            let loaded: Vec<Loaded> = loads.into_iter().map(|load| load.join().unwrap()).collect();
            is_over.store(true, SeqCst);
            removed = changes.join().unwrap();
            let all = loaded.iter().map(|loaded| loaded.inserted + loaded.passed_over);
            assert!(all.eq([ROWS, ROWS]), "{loaded:?}");
        });
        assert!(docs.is_linked().unwrap());
        let mut is_there: Docs = model(0..ROWS + 300);
        // One that was removed may have come again by the other load.
        for number in removed {
            if !docs.contains_key(key(number)).unwrap() {
                is_there.remove(&key(number));
            }
        }
        is_there.extend(there(&docs).into_iter().filter(|(_, seed)| *seed >= 5000));
        assert_is_whole(&docs, &is_there);
        assert_sound(&store);
    }
}

/// Whoever closes the store waits for one change, and the next opening has what was placed.
#[test]
fn closing_ends_a_load() {
    let (mut placing, mut linking) = (0, 0);
    for at in (0..ROWS).step_by(100) {
        let (disks, store, docs) = new();
        let mut is_closed = false;
        let failed = docs.load((0..ROWS).map(row), 2, &mut |done| {
            if done >= at && !is_closed {
                is_closed = true;
                // It does not wait for the load.
                let store = store.clone();
                thread::spawn(move || store.close().unwrap()).join().unwrap();
            }
            true
        });
        drop((docs, store));
        let store = disks.open(options()).unwrap();
        let docs = store.collection(NAME).unwrap();
        assert_eq!(docs.check(&mut |_| true).unwrap().faults, [""; 0]);
        match failed {
            Ok(loaded) => assert!(!loaded.stopped && docs.is_linked().unwrap()),
            Err(StoreError::Closed) => match docs.len() {
                ROWS => linking += 1,
                _ => placing += 1,
            },
            // While it was read.
            Err(StoreError::Key { index: 0, source }) if matches!(*source, StoreError::Closed) => {
                assert_eq!(at, 0);
            }
            Err(error) => panic!("{}", full_text(&error)),
        }
        load(&docs, 0..ROWS);
        assert_is_whole(&docs, &model(0..ROWS));
        assert_sound(&store);
    }
    assert!(placing > 0 && linking > 0, "{placing} {linking}");
}

/// Whatever fails, what is there agrees, and the next load goes on.
#[test]
fn nothing_parts_where_the_device_fails() {
    let mut failed = 0;
    for seed in 0..4 * scale() {
        let (disks, store, docs) = new();
        drop(docs);
        store.close().unwrap();
        // Little is in memory.
        let open = || disks.open(quick("simulated")).unwrap();
        for times in 1..=3 {
            let store = open();
            let docs = store.collection(NAME).unwrap();
            let plan = FaultPlan::new(seed).fail(Operation::Read, When::Share(0.002), Errno::IO);
            disks.data.set_plan(plan.fail(Operation::Write, When::Share(0.002), Errno::IO));
            failed += u32::from(docs.load((0..times * ROWS).map(row), 2, &mut |_| true).is_err());
            disks.data.set_plan(FaultPlan::new(seed));
            assert_eq!(docs.check(&mut |_| true).unwrap().faults, [""; 0]);
            // Where the log could not go on, nothing more is written.
            let _ = store.close();
        }
        let store = open();
        let docs = store.collection(NAME).unwrap();
        load(&docs, 0..3 * ROWS);
        assert_eq!(docs.check(&mut |_| true).unwrap().faults, [""; 0]);
        store.flush().unwrap();
        let store = disks.crash(seed).open(options()).unwrap();
        let docs = store.collection(NAME).unwrap();
        docs.remove("no such key").unwrap();
        assert_is_whole(&docs, &model(0..3 * ROWS));
        assert_sound(&store);
    }
    assert!(failed > 0, "none has failed");
}

/// A log that cannot go on ends a load with an error, and nothing is written behind it, whichever of its writes
/// has failed. What was durable is there, and the next load goes on.
#[test]
fn a_log_that_fails_ends_a_load() {
    let (mut ended, mut n) = (0, 0);
    loop {
        let (disks, store, docs) = new();
        store.flush().unwrap();
        disks.log.set_plan(FaultPlan::new(n).fail(Operation::Write, When::Nth(n), Errno::IO));
        let docs = docs.with_durability(Durability::Sync);
        let loaded = docs.load((0..ROWS).map(row), 2, &mut |_| true);
        let has_failed = disks.log.counts().failures > 0;
        match &loaded {
            // The log goes on without a part that it could not make longer.
            Ok(loaded) => assert_eq!(loaded.inserted, ROWS),
            Err(error) => {
                assert!(full_text(error).contains("Input/output error"), "{}", full_text(error));
                assert!(docs.insert(key(0), &vector(0), "").is_err(), "the store writes on");
                ended += 1;
            }
        }
        drop(docs);
        let _ = store.close();
        let disks = disks.crash(n);
        disks.set_plan(&FaultPlan::new(n));
        let store = disks.open(options()).unwrap();
        let docs = store.collection(NAME).unwrap();
        assert_eq!(docs.check(&mut |_| true).unwrap().faults, [""; 0]);
        assert!(loaded.is_err() || docs.len() == ROWS);
        assert!(!docs.remove("no such key").unwrap());
        assert_agrees(&docs);
        load(&docs, 0..ROWS);
        assert_is_whole(&docs, &model(0..ROWS));
        assert_sound(&store);
        if !has_failed {
            break;
        }
        n += 1 + n / 4;
    }
    // Which rows are durable then depends on how threads have shared their groups.
    assert!(ended > 4, "{ended} loads were ended");
}

/// A vector that was being inserted is looked for among all where some are not linked (`COLL-5`).
#[test]
fn what_is_not_linked_is_settled() {
    let (disks, store, docs) = new();
    // More than searches look at to begin with.
    let stop = &mut |done| done < ROWS;
    assert!(docs.load((0..6 * ROWS).map(row), 2, stop).unwrap().stopped);
    let there = there(&docs);
    assert!(there.len() > 3 * ROWS as usize && !docs.is_linked().unwrap());
    // As crashes leave inserts and loads behind the index, and before the batch.
    let (pending, index) =
        (store.table("docs.pending").unwrap(), store.structure::<VectorStructure>(NAME).unwrap());
    for number in 0..200 {
        let (label, vector) = (1_000_000 + number, VectorBuf::from(&vector(50_000 + number)));
        let bytes = if number % 2 == 0 { vector.to_bytes() } else { vec![] };
        pending.put(label.to_be_bytes(), [&[1][..], &bytes].concat()).unwrap();
        if number % 3 > 0 {
            let placed = index.write(|index| {
                let (threads, memory_bytes) = (1, 0);
                let (change, progress): (Change<'_>, _) =
                    (&|make| make(), &mut |_: Loading<'_>| true);
                let mut bulk = Bulk { threads, memory_bytes, change, progress };
                index.place_run(vec![(label, vector.clone())], &mut bulk)
            });
            assert!(placed.unwrap());
        }
    }
    drop((pending, index, docs));
    store.close().unwrap();
    let store = disks.open(options()).unwrap();
    let docs = store.collection(NAME).unwrap();
    assert_eq!(docs.check(&mut |_| true).unwrap().pending, 133);
    docs.remove("no such key").unwrap();
    assert_is(&docs, &there);
    assert!(!docs.is_linked().unwrap());
    assert!(docs.relink(2, &mut |_| true).unwrap());
    assert_is_whole(&docs, &there);
}

/// Of a load that was cut off all rows are salvaged.
#[test]
fn what_was_placed_is_salvaged() {
    let (disks, store, docs) = new();
    let stop = &mut |done| done < ROWS / 5;
    assert!(docs.load((0..4 * ROWS).map(row), 2, stop).unwrap().stopped);
    let there = there(&docs);
    assert!(there.len() > 300);
    drop(docs);
    store.close().unwrap();
    salvaged(&disks.data.image(), |store, losses| {
        assert_eq!(losses, [""; 0]);
        assert_is_whole(&store.collection(NAME).unwrap(), &there);
    });
    let store = disks.open(to_read(options())).unwrap();
    let docs = store.collection(NAME).unwrap();
    let refused = docs.load((0..4 * ROWS).map(row), 2, &mut |_| true).unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly), "{refused}");
    assert!(matches!(docs.relink(1, &mut |_| true), Err(StoreError::ReadOnly)));
}
