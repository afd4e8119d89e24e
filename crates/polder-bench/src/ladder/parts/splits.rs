//! Eight threads that only descend while one splits inner nodes all the time (scalecache-2025 3.2,
//! which has no figure of its own for that).
//!
//! Keys are so long that an inner node has about seven children, so that each fifth insert or so
//! changes inner nodes. Timed are the descents; the one that inserts is a ninth thread. What each
//! reader had to begin again is counted by itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::ladder::prelude::*;

const READERS: usize = 8;
/// Keys that are there before.
const BEFORE: u64 = 20_000;
/// Keys that are inserted at most, whatever the seconds; then splitting ends.
const MOST: u64 = 1_000_000;
/// Bytes of a key: an eighth of a page.
const KEY_BYTES: usize = 512;
/// Keys that differ in their last bytes alone, so that separators are long.
const ALIKE: u64 = 4;
/// Lookups between two looks at the clock.
const TURN: u64 = 8;
/// Keys in a leaf, about.
const KEYS_A_LEAF: u64 = 5;

fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    let (begin, end) = key.split_at_mut(KEY_BYTES - 8);
    for (i, word) in begin.chunks_mut(8).enumerate() {
        word.copy_from_slice(&scramble(number / ALIKE + ((i as u64) << 40)).to_be_bytes());
    }
    end.copy_from_slice(&number.to_be_bytes());
    key
}

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let pool = setup.resident_pool::<T>(PAGE, (BEFORE + MOST) / KEYS_A_LEAF, &KINDS)?;
    let tree = Tree::create(pool.create_space()?)?;
    for number in 0..BEFORE {
        tree.insert(&key(number), &number.to_be_bytes(), number)?;
    }
    let (there, restarts) = (AtomicU64::new(BEFORE), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    let worker = |_| {
        let (tree, pool, mut random) = (tree.clone(), &pool, setup.streams.next());
        let (there, restarts, mut before) = (&there, &restarts, pool.restarts_of_this_thread());
        move || {
            for _ in 0..TURN {
                let number = random.random_range(..there.load(Ordering::Acquire));
                let found = tree.contains_key(&key(number))?;
                found.then_some(()).ok_or(BenchError::Missing { record: number })?;
            }
            let now = pool.restarts_of_this_thread();
            restarts.fetch_add(now - before, Ordering::Relaxed);
            before = now;
            Ok(TURN)
        }
    };
    let split = || -> Result<(), BenchError> {
        for number in BEFORE..BEFORE + MOST {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            tree.insert(&key(number), &number.to_be_bytes(), number)?;
            there.store(number + 1, Ordering::Release);
        }
        Ok(())
    };
    let (driven, split) = thread::scope(|scope| {
        let splitter = scope.spawn(split);
        let driven = setup.drive(READERS, worker);
        stop.store(true, Ordering::Relaxed);
        (driven, splitter.join())
    });
    let driven = driven?;
    split.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let mut measured = Measured::default();
    measured.push_driven("descents", 0.0, &driven);
    measured.push("restarts", 0.0, driven.an_op(restarts.into_inner() as f64 * 1e6));
    let inserted = there.into_inner() - BEFORE;
    measured.push("inserts", 0.0, inserted as f64 / driven.seconds.max(1e-9));
    Ok(measured)
}
