//! What the log says of a heap, done again after a crash: at every point of the log, and over a file
//! of which any part was written.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;

use polder_format::log::Operation;
use polder_format::{Lsn, PageId, PageSize};
use polder_pool::journal::Journal;
use polder_pool::{AccessHint, Array, FileState, Pool, PoolConfig, PoolError, Redone};
use polder_testkit::pools::config;
use polder_testkit::recovery::{self, LoggedGroup, MemoryLog};
use polder_testkit::{FaultPlan, Random, SimDisk};
use polder_tree::{Heap, KINDS};

use crate::support::*;

fn logged_pool(disk: &SimDisk, log: &Arc<MemoryLog>, times: u64) -> Pool<Array> {
    pool_of(disk, &log.behind(config(times, PageSize::MIN, FileState::NEW)))
}

fn unlogged_pool(disk: &SimDisk, times: u64, file: FileState) -> Pool<Array> {
    pool_of(disk, &config(times, PageSize::MIN, file))
}

fn pool_of(disk: &SimDisk, config: &PoolConfig) -> Pool<Array> {
    Pool::open(Box::new(disk.clone()), config, &KINDS).unwrap()
}

/// Each record fits its page. Gives how many records were done.
fn replay(pool: &Pool<Array>, groups: &[LoggedGroup]) -> usize {
    let replayed = recovery::replay(pool, &[SPACE], groups);
    assert_eq!(replayed.suspects, 0);
    replayed.applied
}

fn rows_of(heap: &Heap<Array>) -> Vec<Vec<u8>> {
    let mut rows = Vec::new();
    let _ = heap.scan(AccessHint::Normal, |_, row| {
        rows.push(row.to_vec());
        ControlFlow::<()>::Continue(())
    });
    rows
}

fn row(random: &mut Random) -> Vec<u8> {
    let most = if random.chance(0.1) { 4052 } else { 300 };
    let mut row = vec![0; random.index(most + 1)];
    random.fill(&mut row);
    row
}

/// Appends and loads; tells after each step how many groups there were and what the heap held.
fn work(
    heap: &Heap<Array>,
    log: &MemoryLog,
    steps: usize,
    random: &mut Random,
) -> Vec<(usize, Vec<Vec<u8>>)> {
    let mut rows = Vec::new();
    let mut history = vec![(log.count(), rows.clone())];
    for _ in 0..steps {
        if random.chance(0.05) {
            let more: Vec<_> = (0..random.index(40)).map(|_| row(random)).collect();
            heap.bulk_load(&more).unwrap();
            rows.extend(more);
        } else {
            let new = row(random);
            heap.append(&new).unwrap();
            rows.push(new);
        }
        history.push((log.count(), rows.clone()));
    }
    history
}

/// Nothing was written in place yet: what the log has is all there is.
#[test]
fn each_prefix_of_the_log_gives_the_rows_that_were_there() {
    let log = Arc::new(MemoryLog::default());
    let pool = logged_pool(&disk(), &log, 16);
    let heap = Heap::create(pool.create_space().unwrap()).unwrap();
    let created = log.count();
    let history = work(&heap, &log, 150, &mut Random::new(1));
    let groups = log.groups();
    let mut loads = 0;
    for prefix in 0..=groups.len() {
        let disk = disk();
        let pool = unlogged_pool(&disk, 16, FileState::NEW);
        replay(&pool, &groups[..prefix]);
        let heap = pool.open_space(SPACE).map_err(Into::into).and_then(Heap::open);
        if prefix < created {
            assert!(heap.is_err(), "{prefix} of {created} groups");
            continue;
        }
        let heap = heap.unwrap();
        let (at, rows) = history.iter().rfind(|(at, _)| *at <= prefix).unwrap();
        assert!(rows_of(&heap) == *rows, "after {prefix} groups, {at} of them complete");
        loads += usize::from(*at < prefix);
        // It goes on behind them.
        heap.append(b"more").unwrap();
        let found = rows_of(&heap);
        assert_eq!((found.len(), found.last().unwrap().as_slice()), (rows.len() + 1, &b"more"[..]));
        assert_eq!(pool.check_maps().unwrap(), Vec::<String>::new());
    }
    assert!(loads > 20, "{loads} prefixes end within a load");
}

/// A tiny pool writes pages all the time; whatever of them the file has, the log brings the rest,
/// and what it has already stays as it is.
#[test]
fn the_log_mends_a_file_of_any_age() {
    for seed in 0..8 * scale() {
        let log = Arc::new(MemoryLog::default());
        let disk = disk();
        let pool = logged_pool(&disk, &log, 1);
        let heap = Heap::create(pool.create_space().unwrap()).unwrap();
        let mut random = Random::new(seed);
        let first = work(&heap, &log, 400, &mut random);
        let older = disk.image();
        let mut rows = first.last().unwrap().1.clone();
        rows.extend(work(&heap, &log, 400, &mut random).pop().unwrap().1);
        let newer = disk.image();
        let groups = log.groups();
        for image in [older, newer] {
            let disk = SimDisk::from_image(&image, FaultPlan::new(1));
            let pool = unlogged_pool(&disk, 1, FileState::NEW);
            let done = replay(&pool, &groups);
            assert!(done > 0);
            let heap = Heap::open(pool.open_space(SPACE).unwrap()).unwrap();
            assert!(rows_of(&heap) == rows, "seed {seed}");
            // What a page has is not done to it again.
            replay(&pool, &groups);
            assert!(rows_of(&heap) == rows, "seed {seed}");
            pool.flush().unwrap();
            let again = unlogged_pool(&disk, 1, pool.file_state());
            let heap = Heap::open(again.open_space(SPACE).unwrap()).unwrap();
            assert!(rows_of(&heap) == rows, "seed {seed}");
        }
    }
}

/// Threads that append and load, most of them in need of new pages, so that all of them want the same
/// allocation map: for each page the order of the log is the order of its changes.
#[test]
fn what_threads_logged_gives_their_rows() {
    for seed in 0..3 * scale() {
        let log = Arc::new(MemoryLog::default());
        let pool = logged_pool(&disk(), &log, 1);
        let heap = Heap::create(pool.create_space().unwrap()).unwrap();
        thread::scope(|scope| {
            for t in 0..6 {
                let heap = heap.clone();
                scope.spawn(move || {
                    let mut random = Random::new(seed * 8 + t);
                    for _ in 0..300 {
                        if t < 3 {
                            heap.append(&row(&mut random)).unwrap();
                            heap.append(&[t as u8; 4052]).unwrap();
                        } else {
                            heap.bulk_load([row(&mut random), row(&mut random)]).unwrap();
                        }
                    }
                });
            }
        });
        let rows = rows_of(&heap);
        assert_eq!(rows.len(), 6 * 300 * 2);
        let recovered = unlogged_pool(&disk(), 1, FileState::NEW);
        replay(&recovered, &log.groups());
        let heap = Heap::open(recovered.open_space(SPACE).unwrap()).unwrap();
        assert!(rows_of(&heap) == rows, "seed {seed}");
    }
}

/// Records of trees are not about pages of heaps.
#[test]
fn a_record_of_a_tree_is_refused() {
    let log = Arc::new(MemoryLog::default());
    let pool = logged_pool(&disk(), &log, 1);
    let heap = Heap::create(pool.create_space().unwrap()).unwrap();
    let (id, _) = heap.append(b"row").unwrap();
    let page = PageId::new(heap.space().id(), id.page);
    let later = Lsn(log.end().0 + 8);
    let outcome = pool.redoing().redo(page, later, &[Operation::Remove { key: b"k" }]).unwrap();
    assert!(matches!(outcome, Redone::Suspect(PoolError::Broken { .. })), "{outcome:?}");
}
