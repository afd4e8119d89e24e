//! Scans of what is not in memory ask for pages ahead of them.

use std::time::Duration;

use polder_format::PageSize;
use polder_pool::{Array, FileState, Pool, PoolConfig, Swizzle, Translation};
use polder_testkit::{FaultPlan, Random, SimDisk};
use polder_tree::{Cursor, KINDS, Tree};

use crate::support::*;

const ENTRIES: u64 = 12_000;

fn key(i: u64) -> [u8; 8] {
    i.to_be_bytes()
}

/// Some hundred leaves on a disk of which nothing is in memory, and each read takes a while.
fn cold<T: Translation>() -> (SimDisk, Pool<T>, Tree<T>) {
    let disk = disk();
    let (pool, tree) = new_tree::<T>(&disk, PageSize::MIN);
    for i in 0..ENTRIES {
        tree.insert(&key(i), &[i as u8; 100], 1).unwrap();
    }
    pool.flush().unwrap();
    let (image, file) = (disk.image(), pool.file_state());
    drop((pool, tree));
    let slow = SimDisk::from_image(&image, FaultPlan::new(3).delay(1.0, Duration::from_millis(2)));
    let pool = Pool::open(Box::new(slow.clone()), &config(file), &KINDS).unwrap();
    let tree = Tree::open(pool.open_space(SPACE).unwrap());
    (slow, pool, tree)
}

fn config(file: FileState) -> PoolConfig {
    PoolConfig {
        file,
        ..PoolConfig::new(
            8 << 20,
            PageSize::MIN,
            polder_format::ChecksumSeed::new(polder_format::StoreId([1; 16])),
        )
    }
}

/// Lookups of the keys in their order have one read under way, a scan several, and no more in all.
#[test]
fn a_scan_does_not_wait_for_each_leaf() {
    fn run<T: Translation>() {
        let (disk, pool, tree) = cold::<T>();
        for i in 0..ENTRIES {
            assert!(tree.contains_key(&key(i)).unwrap());
        }
        let reads = pool.stats().device_reads;
        assert!(disk.counts().most_queued <= 1);
        drop((pool, tree));
        for forward in [true, false] {
            let (disk, pool, tree) = cold::<T>();
            match forward {
                true => forward_from(&mut tree.cursor_first().unwrap()),
                false => backward_from(&mut tree.cursor_last().unwrap()),
            }
            let (queued, more) = (disk.counts().most_queued, pool.stats().device_reads);
            assert!(queued >= 4, "{queued} reads under way, {forward}");
            assert!(more <= reads + 2, "{more} reads instead of {reads}, {forward}");
        }
    }
    run::<Array>();
    run::<Swizzle>();
}

fn forward_from<T: Translation>(cursor: &mut Cursor<T>) {
    for i in 0..ENTRIES {
        assert_eq!(cursor.next().unwrap(), Some((&key(i)[..], &[i as u8; 100][..])));
    }
    assert_eq!(cursor.next().unwrap(), None);
}

fn backward_from<T: Translation>(cursor: &mut Cursor<T>) {
    for i in (0..ENTRIES).rev() {
        assert_eq!(cursor.previous().unwrap(), Some((&key(i)[..], &[i as u8; 100][..])));
    }
    assert_eq!(cursor.previous().unwrap(), None);
}

/// Two scans of the same table, one some way behind the other: each leaf is read once.
#[test]
fn scans_of_one_table_read_it_once() {
    for forward in [true, false] {
        let (_, pool, tree) = cold::<Array>();
        let (before, pages) = (pool.stats().device_reads, tree.check(&mut |_| true).unwrap().pages);
        drop((pool, tree));
        let (_, pool, tree) = cold::<Array>();
        std::thread::scope(|scope| {
            for behind in 0..3 {
                let tree = &tree;
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(behind * 7));
                    match forward {
                        true => forward_from(&mut tree.cursor_first().unwrap()),
                        false => backward_from(&mut tree.cursor_last().unwrap()),
                    }
                });
            }
        });
        let reads = pool.stats().device_reads;
        assert!(reads <= before + pages + 2, "{reads} reads, of {pages} pages, {forward}");
    }
}

/// All of it in memory: nobody is asked for anything.
#[test]
fn a_scan_of_what_is_in_memory_reads_nothing() {
    let (_, pool, tree) = cold::<Array>();
    for round in 0..2 {
        let before = pool.stats().device_reads;
        let mut cursor = tree.cursor_first().unwrap();
        let mut entries = 0;
        while cursor.next().unwrap().is_some() {
            entries += 1;
        }
        assert_eq!(entries, ENTRIES);
        assert_eq!(pool.stats().device_reads > before, round == 0);
    }
}

/// A table that takes half of the pool and is used all the time stays in memory while one of several
/// times the pool is scanned: of lookups, which are alike for all pages, 95 of 100 meet theirs there.
#[test]
fn a_scan_leaves_a_working_set_in_memory() {
    for forward in [true, false] {
        let pool = Pool::<Array>::open(Box::new(disk()), &config(FileState::NEW), &KINDS).unwrap();
        let used = Tree::create(pool.create_space().unwrap()).unwrap();
        let scanned = Tree::create(pool.create_space().unwrap()).unwrap();
        // Three to a leaf.
        let frames = pool.stats().frames;
        let (few, many) = (3 * frames / 2, 3 * frames * 4);
        for (tree, entries) in [(&scanned, many), (&used, few)] {
            for i in 0..entries {
                tree.insert(&key(i), &[i as u8; 1000], 1).unwrap();
            }
        }
        pool.flush().unwrap();
        let mut random = Random::new(3);
        let mut look_up = || assert!(used.contains_key(&key(random.below(few))).unwrap());
        (0..4 * few).for_each(|_| look_up());
        let resident = || pool.stats().spaces[&used.space().id()].resident_pages;
        let (before, mut meanwhile) = (resident(), Vec::new());
        let mut cursor = match forward {
            true => scanned.cursor_first().unwrap(),
            false => scanned.cursor_last().unwrap(),
        };
        for i in 1..=many {
            let entry = if forward { cursor.next() } else { cursor.previous() };
            assert!(entry.unwrap().is_some());
            look_up();
            if i % (many / 32) == 0 {
                meanwhile.push(resident());
            }
        }
        let least = before * 95 * meanwhile.len() as u64;
        let sum: u64 = meanwhile.iter().sum();
        assert!(sum * 100 >= least, "of {before} pages {meanwhile:?}, {forward}");
    }
}
