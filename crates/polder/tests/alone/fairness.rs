//! Readers cannot keep a writer waiting, however they hold pages, nor the writer them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use polder::{Options, ReadMode, Store};

use crate::support::*;

/// What one writer and so many readers do on one leaf, and the slowest operation of any.
fn writes_and_reads(hold: ReadMode, readers: usize) -> (u64, u64, Duration) {
    let dir = tempfile::tempdir().unwrap();
    let options: Options = quick(dir.path().join("s")).read_mode(hold);
    let store = Store::open(options).unwrap();
    let table = store.open_table("t").unwrap();
    for i in 0..8 {
        table.put([i], [i; 100]).unwrap();
    }
    let (reads, slowest, over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let time = |operation: &dyn Fn()| {
        let before = Instant::now();
        operation();
        slowest.fetch_max(before.elapsed().as_micros() as u64, Ordering::Relaxed);
    };
    let mut writes = 0;
    thread::scope(|scope| {
        for _ in 0..readers {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    time(&|| assert_eq!(table.get([3]).unwrap().unwrap().len(), 100));
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(500) {
            time(&|| _ = table.put([3], [writes as u8; 100]).unwrap());
            writes += 1;
        }
        over.store(true, Ordering::Relaxed);
    });
    (writes, reads.into_inner(), Duration::from_micros(slowest.into_inner()))
}

#[test]
fn a_writer_among_readers_of_its_leaf_gets_its_turn() {
    let _turn = crate::my_turn();
    for hold in ReadMode::ALL.iter().copied() {
        let (writes, reads, slowest) = writes_and_reads(hold, 8);
        println!("{hold}: {writes} writes, {reads} reads, slowest {slowest:?}");
        assert!(writes * 100 >= reads, "{hold}: {writes} writes beside {reads} reads");
        assert!(slowest < Duration::from_secs(1), "{hold}: {slowest:?}");
    }
}
