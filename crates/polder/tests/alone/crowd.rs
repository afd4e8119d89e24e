//! More threads than the pool has frames for, and batches that want more than their share:
//! everything becomes slow, and nothing fails.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use polder::{BatchError, Store, StoreError, Table, TranslationKind, WriteBatch};

use crate::support::*;

const RECORDS: u64 = 12_000;
const TABLES: u64 = 24;

fn key(i: u64) -> [u8; 8] {
    i.to_be_bytes()
}

/// A store several times larger than its budget, in tables enough for maps to come and go as well.
/// On a disk without latency, so that threads meet in the pool and not before the device.
fn filled(translation: TranslationKind) -> (Store, Vec<Table>) {
    let store = disk().open(quick("simulated").translation(translation)).unwrap();
    let table = |i| store.open_table(&format!("t{i}")).unwrap();
    let tables: Vec<Table> = (0..TABLES).map(table).collect();
    for i in 0..RECORDS {
        tables[(i % TABLES) as usize].put(key(i), [i as u8; 300]).unwrap();
    }
    (store, tables)
}

/// Operations of so many threads for a while, and the slowest one.
fn run(tables: &[Table], threads: u64) -> (u64, Duration) {
    let (done, slowest) = (AtomicU64::new(0), AtomicU64::new(0));
    let begun = Instant::now();
    thread::scope(|scope| {
        for thread in 0..threads {
            let (done, slowest) = (&done, &slowest);
            scope.spawn(move || {
                let mut at = thread + 1;
                while begun.elapsed() < Duration::from_millis(700) {
                    at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888);
                    // Each thread has keys of its own.
                    let i = ((at >> 33) % RECORDS) / threads * threads + thread;
                    let table = &tables[(i % TABLES) as usize];
                    let before = Instant::now();
                    match at >> 32 & 3 {
                        0 => table.put(key(i), [i as u8; 320]).map(|_| ()).unwrap(),
                        1 => {
                            let found = table.range(key(i)..).take(20).map(Result::unwrap).count();
                            assert!(found <= 20);
                        }
                        _ => {
                            let value = table.get(key(i)).unwrap();
                            assert!(value.is_none_or(|value| value[0] == i as u8));
                        }
                    }
                    slowest.fetch_max(before.elapsed().as_millis() as u64, Ordering::Relaxed);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    (done.into_inner(), Duration::from_millis(slowest.into_inner()))
}

#[test]
fn many_threads_on_few_frames_are_slow_and_not_stuck() {
    let _turn = crate::my_turn();
    let kinds = [
        TranslationKind::Array,
        TranslationKind::Swizzle,
        #[cfg(feature = "hash")]
        TranslationKind::Hash,
    ];
    for translation in kinds {
        let (store, tables) = filled(translation);
        let (few, _) = run(&tables, 8);
        let (many, slowest) = run(&tables, 48);
        println!(
            "{translation:?}: {few} operations of 8 threads, {many} of 48, slowest {slowest:?}"
        );
        assert!(many * 10 > few, "{translation:?}: {few} of 8 threads, {many} of 48");
        assert!(slowest < Duration::from_secs(2), "{translation:?}: {slowest:?}");
        drop(tables);
        store.close().unwrap();
    }
}

/// It is told the number that it may have, and others read on.
#[test]
fn a_batch_that_wants_too_much_is_refused_at_once() {
    let _turn = crate::my_turn();
    let (store, tables) = filled(TranslationKind::Array);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut slowest = Duration::ZERO;
            for i in (0..RECORDS).cycle() {
                let before = Instant::now();
                let at = i.wrapping_mul(7919) % RECORDS;
                assert!(tables[(at % TABLES) as usize].get(key(at)).unwrap().is_some());
                slowest = slowest.max(before.elapsed());
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
            slowest
        });
        for _ in 0..3 {
            let mut batch = WriteBatch::new();
            for i in (0..RECORDS).step_by(RECORDS as usize / 300) {
                batch.put(&tables[(i % TABLES) as usize], key(i), b"x");
            }
            let before = Instant::now();
            let error = store.apply(batch).unwrap_err();
            let limited = matches!(error, BatchError::Store(StoreError::BatchTooLarge { .. }));
            assert!(limited && before.elapsed() < Duration::from_secs(1), "{error}");
        }
        over.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() < Duration::from_secs(1));
    });
    assert_eq!(tables[0].get(key(0)).unwrap().as_deref(), Some(&[0; 300][..]));
}

/// Many that want just what they may have.
#[test]
fn large_batches_take_turns() {
    let _turn = crate::my_turn();
    let (store, tables) = filled(TranslationKind::Array);
    thread::scope(|scope| {
        for thread in 0..16 {
            let (store, tables) = (&store, &tables);
            scope.spawn(move || {
                for round in 0..6 {
                    let mut batch = WriteBatch::new();
                    for i in 0..30 {
                        let i = (i * RECORDS / 30 + thread * 7 + round) % RECORDS;
                        batch.put(&tables[(i % TABLES) as usize], key(i), [i as u8; 310]);
                    }
                    let before = Instant::now();
                    store.apply(batch).unwrap();
                    assert!(before.elapsed() < Duration::from_secs(3));
                }
            });
        }
    });
}
