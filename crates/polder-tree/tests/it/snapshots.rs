//! Readers that take snapshots of nodes while others change them (`ReadMode::Copy`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use polder_format::{ChecksumSeed, PageSize, StoreId};
use polder_pool::{
    Array, ArraySwizzled, Direct, Hash, Pool, PoolConfig, PoolError, ReadMode, Simd, Swizzle,
    Translation, Vm,
};
use polder_testkit::Random;
use polder_testkit::effort::EVERY_TRANSLATION;
use polder_tree::{KINDS, Tree};

use crate::support::*;

const READERS: u64 = 8;

fn roomy<T: Translation>(hold: ReadMode) -> Result<Pool<T>, PoolError> {
    let config = PoolConfig {
        read_mode: hold,
        ..PoolConfig::new(256 << 20, PageSize::MIN, ChecksumSeed::new(StoreId([1; 16])))
    };
    Pool::open(Box::new(disk()), &config, &KINDS)
}

/// Restarts of eight threads that look keys up, and how many nodes were changed in copies, while one
/// thread inserts so that inner nodes split all the time.
fn restarts_among_splits<T: Translation>(hold: ReadMode) -> (u64, u64) {
    let pool = roomy::<T>(hold).unwrap();
    let tree = Tree::create(pool.create_space().unwrap()).unwrap();
    let before = 2000;
    for n in 0..before {
        tree.insert(&wide(n), &n.to_be_bytes(), n).unwrap();
    }
    let (there, stop, restarts) =
        (AtomicU64::new(before), AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for t in 0..READERS {
            let (tree, pool, there, stop, restarts) = (&tree, &pool, &there, &stop, &restarts);
            scope.spawn(move || {
                let mut random = Random::new(t);
                while !stop.load(Ordering::Relaxed) {
                    let n = random.below(there.load(Ordering::Acquire));
                    assert_eq!(tree.get(&wide(n)).unwrap().unwrap(), n.to_be_bytes());
                }
                restarts.fetch_add(pool.restarts_of_this_thread(), Ordering::Relaxed);
            });
        }
        for n in before..before + 12_000 * scale() {
            tree.insert(&wide(n), &n.to_be_bytes(), n).unwrap();
            there.store(n + 1, Ordering::Release);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_sound(&tree, there.into_inner());
    (restarts.into_inner(), pool.stats().copies)
}

#[test]
fn readers_never_restart_while_nodes_split() {
    let mut sides: Vec<fn(ReadMode) -> (u64, u64)> = vec![restarts_among_splits::<Array>];
    if EVERY_TRANSLATION {
        sides.push(restarts_among_splits::<Hash>);
        sides.push(restarts_among_splits::<Simd>);
    }
    for restarts_of in sides {
        let (restarts, copies) = restarts_of(ReadMode::Copy);
        assert_eq!(restarts, 0);
        assert!(copies > 3000, "{copies}");
    }
    let others = restarts_among_splits::<Array>(ReadMode::Optimistic).0
        + restarts_among_splits::<Array>(ReadMode::Group).0;
    assert!(others > 0, "nobody was in anybody's way");
}

/// Threads that split and merge for long on a pool of the least budget: each frame holds a page, is
/// free, or is one of the few that were left for the next copies.
#[test]
fn no_frame_is_lost() {
    let disk = disk();
    let (pool, tree) = new_tree_held::<Array>(&disk, PageSize::MIN, ReadMode::Copy);
    thread::scope(|scope| {
        for t in 0..4 {
            let tree = &tree;
            scope.spawn(move || {
                for round in 0..6 * scale() {
                    for n in (0..400).map(|n| 4 * n + t) {
                        tree.insert(&wide(n), b"v", round).unwrap();
                    }
                    for n in (0..400).map(|n| 4 * n + t) {
                        tree.remove(&wide(n)).unwrap();
                    }
                }
            });
        }
    });
    assert_sound(&tree, 0);
    let stats = pool.stats();
    assert!(stats.copies > 4 * stats.frames, "{} copies, {} frames", stats.copies, stats.frames);
    let retired = stats.frames - stats.frames_free - stats.resident_pages;
    assert!(retired <= stats.frames / 64 + 1, "{retired} of {} frames", stats.frames);
}

/// Translations whose pages cannot change their frames under readers say so.
#[test]
fn who_cannot_says_so() {
    let mut refusals = vec![
        roomy::<Direct>(ReadMode::Copy).unwrap_err(),
        roomy::<Swizzle>(ReadMode::Copy).unwrap_err(),
    ];
    if EVERY_TRANSLATION {
        refusals.push(roomy::<ArraySwizzled>(ReadMode::Copy).unwrap_err());
        refusals.push(roomy::<Vm>(ReadMode::Copy).unwrap_err());
    }
    for refusal in refusals {
        assert!(
            matches!(refusal, PoolError::Combination { hold: ReadMode::Copy, .. }),
            "{refusal}"
        );
    }
}
