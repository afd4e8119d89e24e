//! Readers that take snapshots of nodes while others change them (`Hold::Copy`).
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use polder_format::{ChecksumSeed, PageSize, StoreId};
use polder_pool::{
    Array, ArraySwizzled, Direct, FileState, Hash, Hold, Open, Pool, PoolConfig, PoolError, Simd,
    Swizzle, Translation,
};
use polder_testkit::{KeyShape, Random};
use polder_tree::{KINDS, Tree};
use support::*;

const READERS: u64 = 8;
/// Keys of an eighth of a page: an inner node has seven of them.
const KEYS: KeyShape = KeyShape::LongPrefix { key_bytes_max: 512 };

fn roomy<T: Translation>(hold: Hold) -> Result<Pool<T>, PoolError> {
    let config = PoolConfig {
        memory_budget: 256 << 20,
        page_size: PageSize::MIN,
        prefault: false,
        seed: ChecksumSeed::new(StoreId([1; 16])),
        file: FileState::NEW,
        journal: None,
        replacement: Default::default(),
        hold,
    };
    Pool::open(Box::new(disk()), &config, &KINDS)
}

/// Restarts of eight threads that look keys up, and how many nodes were changed in copies, while one
/// thread inserts so that inner nodes split all the time.
fn restarts_among_splits<T: Translation>(hold: Hold) -> (u64, u64) {
    let pool = roomy::<T>(hold).unwrap();
    let tree = Tree::create(pool.create_space().unwrap()).unwrap();
    let before = 2000;
    for n in 0..before {
        tree.insert(&KEYS.key(n), &n.to_be_bytes(), n).unwrap();
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
                    assert_eq!(tree.get(&KEYS.key(n)).unwrap().unwrap(), n.to_be_bytes());
                }
                restarts.fetch_add(pool.restarts_of_this_thread(), Ordering::Relaxed);
            });
        }
        for n in before..before + 12_000 * scale() {
            tree.insert(&KEYS.key(n), &n.to_be_bytes(), n).unwrap();
            there.store(n + 1, Ordering::Release);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_sound(&tree, there.into_inner());
    (restarts.into_inner(), pool.stats().copies)
}

#[test]
fn readers_never_restart_while_nodes_split() {
    let sides: [fn(Hold) -> (u64, u64); 3] = [
        restarts_among_splits::<Array>,
        restarts_among_splits::<Simd>,
        restarts_among_splits::<Hash>,
    ];
    for restarts_of in sides {
        let (restarts, copies) = restarts_of(Hold::Copy);
        assert_eq!(restarts, 0);
        assert!(copies > 500, "{copies}");
    }
    let others = restarts_among_splits::<Array>(Hold::Optimistic).0
        + restarts_among_splits::<Array>(Hold::Group).0;
    assert!(others > 0, "nobody was in anybody's way");
}

/// Splits and merges for long on a pool that holds hardly more than the tree: a frame that was lost
/// at each would be missed soon.
#[test]
fn no_frame_is_lost() {
    let disk = disk();
    let (pool, tree) = new_tree_held::<Array>(&disk, PageSize::MIN, Hold::Copy);
    let frames = pool.stats().frames;
    for round in 0..20 * scale() {
        for n in 0..400 {
            tree.insert(&KEYS.key(n), b"v", round).unwrap();
        }
        for n in 0..400 {
            tree.remove(&KEYS.key(n)).unwrap();
        }
    }
    let stats = pool.stats();
    assert!(stats.copies > 4 * frames, "{} copies, {frames} frames", stats.copies);
    assert_sound(&tree, 0);
}

/// Translations whose pages cannot change their frames under readers say so.
#[test]
fn who_cannot_says_so() {
    let refusals = [
        roomy::<Direct>(Hold::Copy).unwrap_err(),
        roomy::<Swizzle>(Hold::Copy).unwrap_err(),
        roomy::<ArraySwizzled>(Hold::Copy).unwrap_err(),
        roomy::<Open>(Hold::Copy).unwrap_err(),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, PoolError::Combination { hold: Hold::Copy, .. }), "{refusal}");
    }
}
