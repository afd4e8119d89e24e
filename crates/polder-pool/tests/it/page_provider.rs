//! The page provider: who evicts while many threads need frames.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use polder_pool::device::{FileDevice, OpenKind};
use polder_pool::{Array, FileState, Hash, Pool, Swizzle, Translation};
use polder_testkit::effort::EVERY_TRANSLATION;
use polder_testkit::random::Random;

use crate::support::*;

/// Half reads and half changes of skewed pages, of which a quarter fits, on a file, as fast as
/// eight threads can: YCSB-A out of memory, but for the tree.
fn share_of_foreground_evictions<T: Translation>() {
    const THREADS: u64 = 8;
    let dir = tempfile::tempdir().unwrap();
    let device = FileDevice::open(dir.path().join("data"), OpenKind::Create).unwrap();
    let config = config(24, FileState::NEW);
    let pool = Pool::<T>::open(Box::new(device), &config, &[KIND]).unwrap();
    let space = pool.create_space().unwrap();
    let frames = pool.stats().frames;
    let pages = create_many(&space, 4 * frames as usize);
    pool.flush().unwrap();
    let before = pool.stats();
    // As long as it takes, on a machine that may be busy.
    let evicted = || pool.stats().evictions - before.evictions;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (space, pages, is_over) = (&space, &pages, &is_over);
            scope.spawn(move || {
                let mut random = Random::new(thread + 1);
                while !is_over.load(Ordering::Relaxed) {
                    let below = random.below(pages.len() as u64) + 1;
                    let page = pages[random.below(below) as usize];
                    match random.below(2) {
                        0 => _ = read(space, page).unwrap(),
                        _ => increment(space, page).unwrap(),
                    }
                }
            });
        }
        while evicted() < 8 * frames {
            thread::sleep(Duration::from_millis(5));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let after = pool.stats();
    let of = |count: fn(&polder_pool::PoolStats) -> u64| count(&after) - count(&before);
    let (evictions, foreground) = (of(|s| s.evictions), of(|s| s.foreground_evictions));
    let what = format!(
        "{}: {evictions} evictions, {foreground} of them in the foreground; {} waits for a frame, {} pages written, {} faults",
        T::NAME,
        of(|s| s.frame_waits),
        of(|s| s.write_backs),
        of(|s| s.faults),
    );
    println!("{what}");
    assert!(of(|s| s.write_backs) > evictions / 4, "{what}");
    assert!(foreground * 100 < evictions, "{what}");
}

#[test]
fn hardly_a_page_is_evicted_by_a_thread_that_needs_a_frame() {
    share_of_foreground_evictions::<Array>();
    share_of_foreground_evictions::<Swizzle>();
    if EVERY_TRANSLATION {
        share_of_foreground_evictions::<Hash>();
    }
}
