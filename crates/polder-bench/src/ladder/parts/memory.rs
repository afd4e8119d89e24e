//! Memory beside the frames, for data of 1, 10 and 100 times the pool (predictive-translation.txt
//! 6.9, figure 12; calico.txt 6.5, figure 10).
//!
//! Nothing is timed: a number of operations that turns the pool over several times, by several
//! threads so that the device has something to do, and then the pool is asked. All is given by the
//! frames that the budget pays for, in bytes by bytes. *Translation* is the map and the kernel's
//! page tables; *all* are also the metadata of frames.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use polder_pool::{Pool, Translation};
use polder_tree::Tree;

use crate::dist::{Chooser, Dist};
use crate::error::BenchError;
use crate::ladder::clock::drive;
use crate::ladder::measured::Measured;
use crate::ladder::setup::Setup;
use crate::ladder::trees::{Keys, Stored, THETA};
use crate::records::scramble;

/// Data by pool.
const TIMES: [u64; 3] = [1, 10, 100];
const THREADS: usize = 8;
/// Operations for each frame of the pool.
const OPS_A_FRAME: u64 = 10;
/// At most so many measurements' time, so that slow devices have an end.
const LONGEST: f64 = 10.0;
/// Hot keys by frames: they and the inner nodes fit.
const HOT_A_FRAME: f64 = 0.8;
/// One operation in so many of YCSB-D inserts.
const INSERT_ONE_IN: u64 = 20;
/// Operations between two looks at the clock.
const TURN: u64 = 32;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// YCSB-C: zipfian, scattered over all keys.
    Skewed,
    /// YCSB-D: the latest records, and new ones behind them.
    Latest,
    /// Few keys, each in a leaf of its own, as far from each other as can be.
    Scattered,
}

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let stored = Stored::find(setup, setup.scale.memory_records)?;
    let mut measured = Measured::default();
    for times in TIMES {
        for (name, load) in [
            ("YCSB-C", Load::Skewed),
            ("YCSB-D", Load::Latest),
            ("scattered hot keys", Load::Scattered),
        ] {
            (setup.tell)(&format!("{name}, {times} times the pool"));
            let budget = stored.bytes / times;
            let (pool, tree) = match load {
                Load::Latest => stored.open_copy::<T>(setup, budget)?,
                _ => stored.open::<T>(setup, budget)?,
            };
            work(setup, &pool, &tree, Keys::new(stored.records), load)?;
            footprint(&pool, name, times as f64, &mut measured);
        }
    }
    Ok(measured)
}

fn footprint<T: Translation>(pool: &Pool<T>, name: &str, at: f64, measured: &mut Measured) {
    let stats = pool.stats();
    let translation = stats.translation_bytes + stats.page_table_bytes;
    let frame_bytes = (stats.frames * stats.page_size_bytes).max(1) as f64;
    measured.push(format!("{name}: translation"), at, translation as f64 / frame_bytes);
    let all = translation + stats.metadata_bytes;
    measured.push(format!("{name}: all"), at, all as f64 / frame_bytes);
}

fn work<T: Translation>(
    setup: &Setup<'_>,
    pool: &Pool<T>,
    tree: &Tree<T>,
    keys: Keys,
    load: Load,
) -> Result<(), BenchError> {
    let frames = pool.stats().frames;
    let hot = ((frames as f64 * HOT_A_FRAME) as u64).clamp(1, keys.records);
    let (left, records) = (AtomicU64::new(frames * OPS_A_FRAME), AtomicU64::new(keys.records));
    let (left, records) = (&left, &records);
    drive(THREADS, setup.seconds * LONGEST, setup.interrupt, |thread| {
        let (tree, mut random) = (tree.clone(), setup.random(thread));
        let dist = if load == Load::Latest { Dist::Latest } else { Dist::Zipfian };
        let mut chooser = Chooser::new(dist, THETA, keys.records);
        move || {
            if left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(TURN)).is_err() {
                return Ok(0);
            }
            for _ in 0..TURN {
                if load == Load::Latest && random.below(INSERT_ONE_IN) == 0 {
                    let key = keys.key(records.fetch_add(1, Relaxed));
                    tree.insert(&key, Keys::value(key).as_ref(), 0)?;
                    continue;
                }
                let record = match load {
                    Load::Scattered => scattered(random.below(hot), hot, keys.records),
                    _ => chooser.record(&mut random, records.load(Relaxed)),
                };
                // The latest may be one that another thread is about to insert.
                tree.contains_key(&keys.key(record))?;
            }
            Ok(TURN)
        }
    })?;
    Ok(())
}

/// The record of a hot key: each in its own share of the records, at a random place there.
fn scattered(number: u64, hot: u64, records: u64) -> u64 {
    let share = (records / hot).max(1);
    (number * share + scramble(number) % share).min(records - 1)
}
