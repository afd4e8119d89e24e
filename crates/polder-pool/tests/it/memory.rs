//! What a pool holds in memory: which pages stay, and what their translation costs.

use polder_format::PageNo;
use polder_pool::replacement::ReplacementKind;
use polder_pool::{AccessHint, Array, FileState, Pool, PoolConfig, Space};

use crate::support::*;

const GROUP: u64 = 512;

/// Groups of the array with a resident page.
fn live_groups(space: &Space<Array>, pages: u64) -> u64 {
    let live = |group: &u64| {
        (group * GROUP..(group + 1) * GROUP).any(|page| is_resident(space, number(page)))
    };
    (0..pages.div_ceil(GROUP)).filter(live).count() as u64
}

/// "What must hold", 5.
#[test]
fn translation_memory_follows_the_resident_pages() {
    // With S3-FIFO some pages stay that lie alone in their groups, for which there is a table.
    translation_memory_follows(ReplacementKind::S3Fifo, true);
    translation_memory_follows(ReplacementKind::Clock, false);
}

fn translation_memory_follows(replacement: ReplacementKind, some_lie_alone: bool) {
    const PAGES: usize = 20_000;
    let config = PoolConfig { replacement, ..config(2, FileState::NEW) };
    let pool = Pool::<Array>::open(Box::new(disk()), &config, &[KIND]).unwrap();
    let frames = pool.stats().frames;
    assert!(PAGES as u64 > 50 * frames);
    let space = pool.create_space().unwrap();
    let pages = create_many(&space, PAGES);
    for page in &pages {
        read_as(&space, *page, AccessHint::Scan).unwrap();
    }
    let working_set = &pages[PAGES / 2..PAGES / 2 + PAGES / 100];
    for _ in 0..20 {
        working_set.iter().for_each(|page| assert_eq!(read(&space, *page).unwrap(), 0));
    }
    let stats = pool.stats();
    assert!(stats.hole_punches >= 10, "{stats:?}");
    // The maps, in space 0, have groups of their own; counters are four bytes a group.
    let needed = (live_groups(&space, PAGES as u64) + 1) * 4096 + PAGES as u64 / GROUP * 4;
    // The table for sparse groups, once it was used.
    let table = (frames * 32).next_multiple_of(4096) + frames * 12;
    assert!(
        stats.translation_bytes <= 2 * needed + if some_lie_alone { table } else { 0 },
        "{} bytes, needed {needed}",
        stats.translation_bytes
    );
    // Even counted as if all resident pages were neighbours, in one run for each of the two
    // spaces that begins somewhere within a group.
    let dense = (stats.resident_pages.div_ceil(GROUP) + 2) * 4096 + PAGES as u64 / GROUP * 4;
    assert!(stats.translation_bytes <= 2 * dense + table, "{stats:?}");
    assert!(stats.page_table_bytes <= 64 << 10, "{}", stats.page_table_bytes);
}

/// Device reads that a hot set costs while a scan goes by.
fn reads_of_a_hot_set_beside_a_scan(replacement: ReplacementKind, hint: AccessHint) -> u64 {
    const HOT: usize = 40;
    let config = PoolConfig { replacement, ..config(1, FileState::NEW) };
    let pool = Pool::<Array>::open(Box::new(disk()), &config, &[KIND]).unwrap();
    let space = pool.create_space().unwrap();
    let pages = create_many(&space, 3000);
    pool.flush().unwrap();
    let (hot, scanned) = pages.split_at(HOT);
    for page in hot.iter().cycle().take(3 * HOT) {
        read(&space, *page).unwrap();
    }
    let mut faults = 0;
    for (i, page) in scanned.iter().enumerate() {
        read_as(&space, *page, hint).unwrap();
        faults += u64::from(!is_resident(&space, hot[i % HOT]));
        read(&space, hot[i % HOT]).unwrap();
    }
    faults
}

#[test]
fn a_hot_set_survives_a_scan() {
    let reads = reads_of_a_hot_set_beside_a_scan;
    let scan = reads(ReplacementKind::Clock, AccessHint::Scan);
    let normal = reads(ReplacementKind::Clock, AccessHint::Normal);
    println!("reads of hot pages: {scan} with the hint, {normal} without");
    assert!(scan < 100, "{scan} reads of hot pages");
    assert!(scan < normal / 2, "{scan} with the hint, {normal} without");
    for hint in [AccessHint::Scan, AccessHint::Normal] {
        // Each hot page may be lost once before it is known as hot. A thread that makes room late, as
        // on a busy machine, makes much at once and takes some of them again, which says nothing
        // about the policy.
        let mut seen = Vec::new();
        let survives = (0..5).any(|_| {
            seen.push(reads(ReplacementKind::S3Fifo, hint));
            seen.last() < Some(&50)
        });
        assert!(survives, "{seen:?} reads of hot pages, {hint:?}");
    }
}

/// Pages of a small table that is scanned all the time beside a scan of a large one
/// (leanstore-2018, figure 12), and its faults.
fn faults_of_two_scans(replacement: ReplacementKind, ahead: bool) -> (u64, u64) {
    let disk = disk();
    let pool = open::<Array>(&disk, 1, FileState::NEW);
    let frames = pool.stats().frames as usize;
    let space = pool.create_space().unwrap();
    let (id, pages) = (space.id(), create_many(&space, 11 * frames));
    drop(space);
    pool.flush().unwrap();
    let config = PoolConfig { replacement, ..config(1, pool.file_state()) };
    drop(pool);
    let pool: Pool<Array> = Pool::open(Box::new(disk), &config, &[KIND]).unwrap();
    let space = pool.open_space(id).unwrap();
    let (small, large) = pages.split_at(frames / 4);
    let faults_of = |pages: &[PageNo]| {
        let before = pool.stats().faults;
        for pages in pages.chunks(8) {
            if ahead {
                space.load_ahead(pages.iter().copied());
            }
            for page in pages {
                read_as(&space, *page, AccessHint::Scan).unwrap();
            }
        }
        pool.stats().faults - before
    };
    let mut faults = 0;
    for pages in large.chunks(small.len() / 2) {
        faults += faults_of(small);
        faults_of(pages);
    }
    (small.len() as u64, faults)
}

/// Not with 2Q, whose first queue hears of no access.
#[test]
fn a_table_that_scans_come_to_again_stays() {
    for name in ["s3-fifo", "clock", "cooling", "lru", "watt", "hyperbolic"] {
        for ahead in [false, true] {
            // On a machine that is busy a thread that reads ahead comes late, and loads pages that the
            // scan has passed; one that makes room comes late as well, and makes much at once. Both
            // are faults that say nothing about the policy.
            let tries = if ahead { 20 } else { 5 };
            let mut seen = Vec::new();
            let stays = (0..tries).any(|_| {
                let (small, faults) = faults_of_two_scans(name.parse().unwrap(), ahead);
                seen.push((faults, small));
                faults < small * 3 / 2
            });
            assert!(stays, "{name}, ahead {ahead}: faults of so many pages: {seen:?}");
        }
    }
}

/// `POOL-3`: however often a page comes back, and be it into the frame where it was.
#[test]
fn a_guard_does_not_outlive_an_eviction() {
    // By another policy the page might stay, whatever else comes.
    let config = PoolConfig { replacement: ReplacementKind::Clock, ..config(1, FileState::NEW) };
    let pool = Pool::<Array>::open(Box::new(disk()), &config, &[KIND]).unwrap();
    let space = pool.create_space().unwrap();
    let pages = create_many(&space, 600);
    let (page, others) = pages.split_first().unwrap();
    pool.flush().unwrap();
    read(&space, *page).unwrap();
    space
        .run(AccessHint::Normal, |attempt| {
            let mut others = others.iter().cycle();
            for _ in 0..200 {
                let guard = space.page(attempt, *page)?;
                // A thread that evicts behind us may have been quicker.
                guard.validate()?;
                while is_resident(&space, *page) {
                    read_as(&space, *others.next().unwrap(), AccessHint::Scan).unwrap();
                }
                assert!(guard.validate().is_err(), "the page is not there");
                read_as(&space, *page, AccessHint::Scan).unwrap();
                assert!(guard.validate().is_err(), "the page was away meanwhile");
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn the_budget_pays_for_everything() {
    for times in [1, 3, 40] {
        let disk = disk();
        let pool = open::<Array>(&disk, times, FileState::NEW);
        let space = pool.create_space().unwrap();
        create_many(&space, pool.stats().frames as usize + 100);
        let stats = pool.stats();
        let used = stats.frame_bytes + stats.metadata_bytes + stats.translation_bytes;
        assert_eq!(stats.memory_budget_bytes, PoolConfig::least_budget(SIZE) * times);
        assert!(used <= stats.memory_budget_bytes, "{stats:?}");
        let frames = stats.frames * PAGE_BYTES;
        assert!(frames + (1 << 20) > stats.memory_budget_bytes / 20 * 19, "{stats:?}");
        assert!(stats.resident_pages <= stats.frames);
        assert_eq!(
            stats.spaces.values().map(|s| s.resident_pages).sum::<u64>(),
            stats.resident_pages
        );
    }
}

#[test]
fn prefaulted_frames_are_there_at_once() {
    let mut config = config(4, FileState::NEW);
    config.prefault = true;
    let pool: Pool<Array> = Pool::open(Box::new(disk()), &config, &[KIND]).unwrap();
    let space = pool.create_space().unwrap();
    assert_eq!(read(&space, create(&space)).unwrap(), 0);
}
