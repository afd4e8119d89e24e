//! What the log says of a tree, done again after a crash: at every point of the log, and over a file of
//! which any part was written; whether right halves of nodes that were split are logged as such, as images
//! because a checkpoint sweeps, or as both because one has begun meanwhile (`HALF-1`, `HALF-2`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use polder_format::log::{Operation, Records};
use polder_format::{Lsn, PageId, PageSize, header_at};
use polder_pool::{Array, FileState, Pool, PoolConfig, Swizzle, Translation};
use polder_testkit::pools::config;
use polder_testkit::random::scramble;
use polder_testkit::recovery::{self, LoggedGroup, MemoryLog};
use polder_testkit::{FaultPlan, Model, Random, SimDisk};
use polder_tree::{KINDS, Tree};

use crate::support::*;

/// How often a checkpoint comes up, of the times that it is looked for: never, always, at each look behind a
/// half; at each second look before one; at each second look behind one.
const SWEEPS: [u64; 5] = [0, 1, 2, 3, 4];

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

fn pool_of<T: Translation>(disk: &SimDisk, config: &PoolConfig) -> Pool<T> {
    Pool::open(Box::new(disk.clone()), config, &KINDS).unwrap()
}

fn logged_tree<T: Translation>(
    disk: &SimDisk,
    (log, sweeps): (&Arc<MemoryLog>, u64),
    times: u64,
) -> (Pool<T>, Tree<T>) {
    log.sweep_each(sweeps);
    let pool = pool_of(disk, &log.behind(config(times, PageSize::MIN, FileState::NEW)));
    let tree = Tree::create(pool.create_space().unwrap()).unwrap();
    (pool, tree)
}

fn unlogged_pool(disk: &SimDisk, times: u64, file: FileState) -> Pool<Array> {
    pool_of(disk, &config(times, PageSize::MIN, file))
}

/// The tree that the groups give, on what the disk has.
fn recovered(pool: &Pool<Array>, groups: &[LoggedGroup]) -> Tree<Array> {
    recovery::replay(pool, &[SPACE], groups);
    Tree::open(pool.open_space(SPACE).unwrap())
}

/// Keys of many lengths, so that inner nodes have few children.
fn key(number: u64) -> Vec<u8> {
    let mut key = scramble(number).to_be_bytes().to_vec();
    key.resize(8 + (number % 7 * 60) as usize, number as u8);
    key
}

/// Grows, and shrinks to nearly nothing; tells after each change how many groups there were and what the
/// tree held.
fn work<T: Translation>(
    (tree, log, model): (&Tree<T>, &MemoryLog, &mut Entries),
    steps: u64,
    random: &mut Random,
) -> Vec<(usize, Entries)> {
    let mut history = vec![(log.count(), model.clone())];
    for step in 0..steps {
        let key = key(random.below(300));
        let removes = if step < steps / 2 { 0.2 } else { 0.85 };
        if random.chance(removes) {
            tree.remove(&key).unwrap();
            tree.merge_at(&key).unwrap();
            model.remove(&key);
        } else {
            let value = vec![step as u8; random.index(600)];
            tree.insert(&key, &value, step).unwrap();
            model.insert(key, value);
        }
        history.push((log.count(), model.clone()));
    }
    history
}

/// All entries are there, and nothing else, in a tree that holds together.
fn assert_holds(tree: &Tree<Array>, entries: &Entries) {
    assert_content(tree, &Model { entries: entries.clone() });
    assert_sound(tree, entries.len() as u64);
}

/// How many right halves there are in the log, and how many of their pages have an image behind them.
fn halves(groups: &[LoggedGroup]) -> (usize, usize) {
    let (mut halves, mut imaged, mut before) = (0, 0, None);
    for (_, bytes) in groups {
        for record in Records::of_group(bytes).map(Result::unwrap) {
            match record.operation {
                Operation::RightHalf { .. } => {
                    halves += 1;
                    before = Some(record.page);
                }
                Operation::FullPageImage { .. } => {
                    let follows = before.take() == Some(record.page);
                    imaged += usize::from(follows);
                    // One that is alone in its group would be taken for a part of a bulk load.
                    assert!(!follows || Records::of_group(bytes).count() > 1);
                }
                _ => {}
            }
        }
    }
    (halves, imaged)
}

/// Nothing was written in place yet: what the log has is all there is.
#[test]
fn each_prefix_of_the_log_gives_the_tree_that_was_there() {
    for sweeps in SWEEPS {
        let log = Arc::new(MemoryLog::default());
        let (_pool, tree) = logged_tree::<Swizzle>(&disk(), (&log, sweeps), 16);
        let created = log.count();
        let mut model = Entries::new();
        let history = work((&tree, &log, &mut model), 900, &mut Random::new(1));
        let groups = log.groups();
        let (halves, imaged) = halves(&groups);
        match sweeps {
            0 => assert!(halves > 40 && imaged == 0, "{halves}, {imaged}"),
            1 => assert_eq!(halves, 0),
            2 => assert!(halves > 40 && imaged == halves, "{halves}, {imaged}"),
            3 => assert!(halves > 10 && imaged == 0, "{halves}, {imaged}"),
            _ => assert!(imaged > 10 && halves > imaged, "{halves}, {imaged}"),
        }
        for prefix in created..=groups.len() {
            let done = history.partition_point(|(at, _)| *at <= prefix);
            let (at, before) = &history[done - 1];
            // Within an operation, or one of some between two.
            if *at == prefix && prefix % 16 != 0 {
                continue;
            }
            let pool = unlogged_pool(&disk(), 16, FileState::NEW);
            let tree = recovered(&pool, &groups[..prefix]);
            let after = history.get(done).map_or(before, |(_, after)| after);
            let mut there = Entries::new();
            for (key, _) in before.iter().chain(after) {
                if let Some(value) = tree.get(key).unwrap() {
                    there.insert(key.clone(), value);
                }
            }
            assert!(there == *before || there == *after, "after {prefix} groups, sweeps: {sweeps}");
            assert_holds(&tree, &there);
            // It goes on behind them.
            tree.insert(b"more", b"", 1).unwrap();
            assert_sound(&tree, there.len() as u64 + 1);
        }
    }
}

/// A tiny pool writes pages all the time; whatever of them the file has, the log brings the rest, and what
/// it has already is there afterwards, too.
#[test]
fn the_log_mends_a_file_of_any_age() {
    for seed in 0..8 * scale() {
        let log = Arc::new(MemoryLog::default());
        let disk = disk();
        let sweeps = SWEEPS[seed as usize % SWEEPS.len()];
        let (_pool, tree) = logged_tree::<Swizzle>(&disk, (&log, sweeps), 1 + seed % 3);
        let (mut model, mut random) = (Entries::new(), Random::new(seed));
        let mut images = Vec::new();
        for _ in 0..4 {
            work((&tree, &log, &mut model), 500, &mut random);
            for number in 1000..1000 + random.below(2000) {
                tree.insert(&key(number), &[7; 90], number).unwrap();
                model.insert(key(number), vec![7; 90]);
            }
            images.push(disk.image());
        }
        let groups = log.groups();
        assert!(sweeps == 1 || halves(&groups).0 > 20);
        for image in images {
            let disk = SimDisk::from_image(&image, FaultPlan::new(1));
            let pool = unlogged_pool(&disk, 1, FileState::NEW);
            assert_holds(&recovered(&pool, &groups), &model);
            // It may begin again at any time.
            assert_holds(&recovered(&pool, &groups), &model);
            pool.flush().unwrap();
            let again = unlogged_pool(&disk, 1, pool.file_state());
            assert_holds(&Tree::open(again.open_space(SPACE).unwrap()), &model);
        }
    }
}

/// For each page the order of the log is the order of its changes.
#[test]
fn what_threads_logged_gives_their_entries() {
    let log = Arc::new(MemoryLog::default());
    let disk = disk();
    let (_pool, tree) = logged_tree::<Array>(&disk, (&log, 7), 2);
    thread::scope(|scope| {
        for t in 0..6 {
            let tree = tree.clone();
            scope.spawn(move || {
                let mut random = Random::new(t);
                for step in 0..1500 * scale() {
                    let key = key(random.below(1500));
                    if random.chance(if step / 500 % 2 == 0 { 0.1 } else { 0.8 }) {
                        tree.remove(&key).unwrap();
                        tree.merge_at(&key).unwrap();
                    } else {
                        tree.insert(&key, &vec![t as u8; random.index(500)], step).unwrap();
                    }
                }
            });
        }
    });
    let mut there = Entries::new();
    for key in (0..1500).map(key) {
        if let Some(value) = tree.get(&key).unwrap() {
            there.insert(key, value);
        }
    }
    let groups = log.groups();
    assert!(halves(&groups).0 > 50);
    for disk in [crate::support::disk(), SimDisk::from_image(&disk.image(), FaultPlan::new(1))] {
        let pool = unlogged_pool(&disk, 1, FileState::NEW);
        assert_holds(&recovered(&pool, &groups), &there);
    }
}

/// A page that was split is merged away, and the extent in which it lay released: what was made of it is
/// made of it again.
#[test]
fn pages_of_released_extents_are_made_again_for_their_right_halves() {
    let log = Arc::new(MemoryLog::default());
    let (pool, tree) = logged_tree::<Array>(&disk(), (&log, 0), 64);
    let mut model = Entries::new();
    let put = |number: u64, model: &mut Entries| {
        tree.insert(&key(number), &[1; 100], number).unwrap();
        model.insert(key(number), vec![1; 100]);
    };
    // The last pages are made, and get images when they are joined; then they are split, and the right
    // halves lie in front.
    (0..4000).for_each(|number| put(number, &mut model));
    let remove = |numbers: std::ops::Range<u64>, model: &mut Entries| {
        for number in numbers.filter(|number| number % 8 > 0) {
            tree.remove(&key(number)).unwrap();
            tree.merge_at(&key(number)).unwrap();
            model.remove(&key(number));
        }
    };
    remove(0..4000, &mut model);
    (4000..6000).for_each(|number| put(number, &mut model));
    tree.compact(&mut |_, _, _| true).unwrap();
    remove(4000..6000, &mut model);
    tree.compact(&mut |_, _, _| true).unwrap();
    let groups = log.groups();
    assert!(pool.shrink().unwrap() > 0);
    let shrunk = log.groups();
    for groups in [&groups, &shrunk] {
        let fresh = unlogged_pool(&disk(), 64, FileState::NEW);
        let replayed = recovery::replay(&fresh, &[SPACE], groups);
        assert_eq!((replayed.suspects, replayed.absent > 100), (0, groups.len() == shrunk.len()));
        assert_holds(&Tree::open(fresh.open_space(SPACE).unwrap()), &model);
    }
}

/// A checkpoint that has begun between the look and the group, and is done: a recovery begins at the split,
/// the left page lies in place as it is behind it, and nothing of the right one.
#[test]
fn what_begins_at_a_split_has_the_image_of_the_right_half() {
    let log = Arc::new(MemoryLog::default());
    let (_pool, tree) = logged_tree::<Swizzle>(&disk(), (&log, 2), 16);
    let mut model = Entries::new();
    for number in 0..400 {
        tree.insert(&key(number), &[1; 100], number).unwrap();
        model.insert(key(number), vec![1; 100]);
    }
    let groups = log.groups();
    let is_split = |group: &usize| halves(&groups[*group..=*group]).0 > 0;
    let splits: Vec<usize> = (0..groups.len()).filter(is_split).collect();
    assert!(splits.len() > 20);
    for split in splits {
        let written = |groups: &[LoggedGroup]| {
            let disk = disk();
            let pool = unlogged_pool(&disk, 16, FileState::NEW);
            recovered(&pool, groups);
            pool.flush().unwrap();
            (disk.image(), pool.file_state())
        };
        let (mut before, file) = written(&groups[..split]);
        let (behind, _) = written(&groups[..split + 2]);
        let records = Records::of_group(&groups[split].1).map(Result::unwrap);
        let left = records.filter_map(|record| match record.operation {
            Operation::RightHalf { left, .. } => Some(left),
            _ => None,
        });
        let left = left.last().unwrap().to_le_bytes();
        let size = PageSize::MIN.bytes();
        let is_left = |page: &&[u8]| page[header_at::PAGE_ID..][..8] == left;
        let at = behind.chunks(size).position(|page| is_left(&page)).unwrap() * size;
        before[at..at + size].copy_from_slice(&behind[at..at + size]);
        let disk = SimDisk::from_image(&before, FaultPlan::new(1));
        let pool = unlogged_pool(&disk, 16, file);
        assert_holds(&recovered(&pool, &groups[split..]), &model);
    }
}

/// A right half is made only of a page that is older than its group, and can be divided there.
#[test]
fn a_half_of_a_page_that_was_split_already_is_refused() {
    let log = Arc::new(MemoryLog::default());
    let (pool, tree) = logged_tree::<Array>(&disk(), (&log, 0), 16);
    let mut number = 0;
    while halves(&log.groups()).0 == 0 {
        tree.insert(&key(number), &[1; 200], number).unwrap();
        number += 1;
    }
    let groups = log.groups();
    let is_half = |record: &Operation<'_>| matches!(record, Operation::RightHalf { .. });
    let records = groups.iter().flat_map(|(_, bytes)| Records::of_group(bytes).map(Result::unwrap));
    let half = records.map(|record| record.operation).find(is_half).unwrap();
    let Operation::RightHalf { left, .. } = half else { unreachable!() };
    let left = PageId::from_link(left);
    let mut redoing = pool.redoing();
    let end = groups.last().unwrap().0;
    // As it is now it bears the LSN of the split, and ends where the split ended it.
    for lsn in [Lsn(1), end, Lsn(end.0 + 8)] {
        assert!(redoing.right_half(left, lsn, &half).unwrap().is_none());
    }
}
