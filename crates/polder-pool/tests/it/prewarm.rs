//! Prewarming: what comes into memory before it is asked for, what does not, and what it may not cost.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use polder_format::{PageId, PageNo, SpaceId, Temperature};
use polder_pool::{AccessHint, Array, FileState, Pool, PrewarmEnd, Prewarmed, Space, Translation};
use polder_testkit::{Errno, FaultPlan, Operation, Random, SimDisk, When};

use crate::support::*;

const PAGES: usize = 300;

/// A flushed file with one space of so many pages.
fn filled<T: Translation>(disk: &SimDisk, pages: usize) -> (FileState, SpaceId, Vec<PageNo>) {
    let pool = tight::<T>(disk, FileState::NEW);
    let space = pool.create_space().unwrap();
    let pages = create_many(&space, pages);
    pool.flush().unwrap();
    (pool.file_state(), space.id(), pages)
}

/// The file opened with ample room, and nothing in memory.
fn ample<T: Translation>(disk: &SimDisk, file: FileState, space: SpaceId) -> (Pool<T>, Space<T>) {
    let pool = open::<T>(disk, 64, file);
    let space = pool.open_space(space).unwrap();
    (pool, space)
}

fn all(space: SpaceId, pages: &[PageNo]) -> Vec<(PageId, Temperature)> {
    pages.iter().map(|page| (PageId::new(space, *page), Temperature::Warm)).collect()
}

fn prewarm<T: Translation>(pool: &Pool<T>, wanted: &[(PageId, Temperature)]) -> Prewarmed {
    pool.prewarm(wanted.iter().copied(), |_| true)
}

/// No frame is lost.
fn assert_whole<T: Translation>(pool: &Pool<T>) {
    let stats = pool.stats();
    assert_eq!(stats.resident_pages + stats.frames_free, stats.frames, "{}", T::NAME);
    assert_sound(pool);
}

/// What was in memory is so again, in the order of the file, by few requests; and it is what it was.
fn what_was_resident_is_so_again<T: Translation>() {
    let disk = disk();
    let (file, id, pages) = filled::<T>(&disk, PAGES);
    let (pool, space) = ample::<T>(&disk, file, id);
    let used: Vec<_> = pages.iter().copied().step_by(3).collect();
    used.iter().for_each(|page| assert_eq!(read(&space, *page).unwrap(), 0));
    let list = pool.resident_pages();
    let listed: HashSet<_> = list.iter().map(|(page, _)| page.page()).collect();
    assert!(used.iter().all(|page| listed.contains(page)), "{}", T::NAME);
    assert!(list.iter().all(|(page, _)| page.space() == id), "maps come by themselves");
    drop((space, pool));

    let (pool, space) = ample::<T>(&disk, file, id);
    let done = prewarm(&pool, &list);
    assert_eq!((done.loaded, done.skipped), (list.len() as u64, 0), "{}", T::NAME);
    assert_eq!(done.end, Some(PrewarmEnd::All));
    let stats = pool.stats();
    assert_eq!(stats.prewarmed_pages, done.loaded);
    assert!(stats.faults < 20, "only maps: {}", stats.faults);
    used.iter().for_each(|page| assert_eq!(read(&space, *page).unwrap(), 0));
    assert_eq!(pool.stats().device_reads, stats.device_reads, "{}: all were there", T::NAME);
    let again = prewarm(&pool, &list);
    assert_eq!((again.loaded, again.skipped), (0, list.len() as u64), "{}", T::NAME);
    // They are pages like all others.
    used.iter().for_each(|page| increment(&space, *page).unwrap());
    pool.flush().unwrap();
    assert_whole(&pool);
}

/// A pool far too small for it takes what it has room for, evicts nothing, and ends.
fn nothing_is_evicted_for_it<T: Translation>() {
    if !T::EVICTS {
        return;
    }
    let disk = disk();
    let (file, id, pages) = filled::<T>(&disk, 2000);
    let pool = open::<T>(&disk, 1, file);
    let space = pool.open_space(id).unwrap();
    let used = &pages[1900..1940];
    used.iter().for_each(|page| assert_eq!(read(&space, *page).unwrap(), 0));
    let done = prewarm(&pool, &all(id, &pages));
    assert_eq!(done.end, Some(PrewarmEnd::Full), "{}", T::NAME);
    assert!(done.loaded > 0, "{}", T::NAME);
    let stats = pool.stats();
    assert_eq!(stats.evictions, 0, "{}", T::NAME);
    assert!(stats.frames_free > 0 && stats.resident_pages <= stats.frames);
    assert!(used.iter().all(|page| is_resident(&space, *page)), "{}", T::NAME);
    // Nor when it is asked for again and again while others need all frames.
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(prewarm(&pool, &all(id, &pages)).end, Some(PrewarmEnd::Full));
            }
        });
        let mut random = Random::new(7);
        for _ in 0..3000 {
            assert_eq!(read(&space, pages[random.index(pages.len())]).unwrap(), 0);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_whole(&pool);
}

/// Pages that were freed, or given out again, and those of a space that was dropped, do no harm
/// (`PREWARM-2`).
fn a_list_that_is_out_of_date_does_no_harm<T: Translation>() {
    let disk = disk();
    let (file, id, pages) = filled::<T>(&disk, PAGES);
    let (pool, space) = ample::<T>(&disk, file, id);
    let other = pool.create_space().unwrap();
    let others = create_many(&other, 40);
    pool.flush().unwrap();
    let old = pool.resident_pages();
    let mut list = all(id, &pages);
    list.extend(all(other.id(), &others));
    list.extend(old);
    // What no space has, and what names nothing at all.
    list.push((PageId::new(SpaceId::MAX, number(5)), Temperature::Hot));
    list.push((PageId::new(id, PageNo::MAX), Temperature::Hot));
    list.push((PageId::new(SpaceId::FILE, number(20)), Temperature::Hot));
    list.push((PageId::NULL, Temperature::Cold));
    pages[100..200].iter().for_each(|page| free(&space, *page));
    other.drop_space().unwrap();
    pool.flush().unwrap();
    let file = pool.file_state();
    drop((space, other, pool));

    let (pool, space) = ample::<T>(&disk, file, id);
    let done = prewarm(&pool, &list);
    assert_eq!(done.end, Some(PrewarmEnd::All));
    assert!(done.loaded >= 200, "{}: {done:?}", T::NAME);
    // The numbers of freed pages are given out again, and are new pages.
    let made = create_many(&space, 100);
    assert!(made.iter().any(|page| pages[100..200].contains(page)), "{}", T::NAME);
    for page in pages[..100].iter().chain(&pages[200..]).chain(&made) {
        assert_eq!(read(&space, *page).unwrap(), 0, "{}", T::NAME);
    }
    pool.flush().unwrap();
    assert_whole(&pool);
    let (pool, spaces) = reopen(pool, &disk, &[id]);
    for page in pages[..100].iter().chain(&pages[200..]).chain(&made) {
        assert_eq!(read(&spaces[0], *page).unwrap(), 0, "{}", T::NAME);
    }
    assert_sound(&pool);
}

/// While it runs others read, change, free and make pages, and drop the space in the end.
fn others_go_on_meanwhile<T: Translation>() {
    let disk = disk();
    let (file, id, pages) = filled::<T>(&disk, PAGES);
    for seed in 0..4 {
        let disk = disk.crash(seed);
        let (pool, space) = ample::<T>(&disk, file, id);
        let list = all(id, &pages);
        disk.set_plan(FaultPlan::new(seed).delay(0.2, Duration::from_micros(300)));
        thread::scope(|scope| {
            let prewarmer = scope.spawn(|| prewarm(&pool, &list));
            let mut random = Random::new(seed);
            let (kept, gone) = pages.split_at(200);
            for page in gone {
                let one = kept[random.index(kept.len())];
                let before = read(&space, one).unwrap();
                increment(&space, one).unwrap();
                assert_eq!(read(&space, one).unwrap(), before + 1, "{}", T::NAME);
                free(&space, *page);
                if random.below(3) == 0 {
                    create(&space);
                }
            }
            if seed % 2 == 1 {
                space.drop_space().unwrap();
            }
            assert!(prewarmer.join().unwrap().end.is_some());
        });
        disk.set_plan(FaultPlan::new(seed));
        pool.flush().unwrap();
        assert_whole(&pool);
    }
}

macro_rules! all {
    (
        evicting { $($(#[$e:meta])* $evicting:ident as $em:ident,)* }
        resident { $($(#[$r:meta])* $resident:ident as $rm:ident,)* }
        $($rest:tt)*
    ) => {
        all!($($evicting as $em,)* $($resident as $rm,)*);
    };
    ($($translation:ident as $module:ident,)*) => {
        $(mod $module {
            all!(@ $translation
                what_was_resident_is_so_again
                nothing_is_evicted_for_it
                a_list_that_is_out_of_date_does_no_harm
                others_go_on_meanwhile
            );
        })*
    };
    (@ $translation:ident $($test:ident)+) => {
        $(#[test] fn $test() {
            polder_testkit::if_built!($translation, super::$test::<polder_pool::$translation>());
        })+
    };
}
polder_pool::translations!(all);

/// `PREWARM-3`
#[test]
fn it_stops_when_it_is_told_to() {
    let disk = disk();
    let (file, id, pages) = filled::<Array>(&disk, PAGES);
    let (pool, _space) = ample::<Array>(&disk, file, id);
    let mut ends = Vec::new();
    let done = pool.prewarm(all(id, &pages), |at| {
        ends.push(at.end);
        at.loaded < 100
    });
    assert!((100..200).contains(&done.loaded), "{done:?}");
    assert_eq!(done.end, Some(PrewarmEnd::Stopped));
    assert_eq!(ends.pop(), Some(done.end), "it is told of the end");
    assert!(ends.iter().all(Option::is_none));
}

#[test]
fn a_device_that_fails_or_is_left_costs_nothing() {
    let disk = disk();
    let (file, id, pages) = filled::<Array>(&disk, PAGES);
    let (pool, space) = ample::<Array>(&disk, file, id);
    read(&space, pages[0]).unwrap();
    disk.set_plan(FaultPlan::new(1).fail(Operation::Read, When::From(0), Errno::IO));
    let done = prewarm(&pool, &all(id, &pages));
    assert_eq!((done.loaded, done.skipped), (0, PAGES as u64));
    assert_eq!(done.failed, PAGES as u64 - 1, "one of them was in memory");
    disk.set_plan(FaultPlan::new(1));
    let done = prewarm(&pool, &all(id, &pages[..100]));
    assert_eq!((done.loaded, done.skipped, done.failed), (99, 1, 0));
    pool.end_reads();
    let done = prewarm(&pool, &all(id, &pages));
    assert_eq!((done.loaded, done.end), (0, Some(PrewarmEnd::Stopped)));
    assert_whole(&pool);
}

/// Neighbours in the file are few requests of the device, whatever order their frames have.
#[test]
fn it_reads_in_batches() {
    let disk = disk();
    let (file, id, pages) = filled::<Array>(&disk, PAGES);
    let (pool, _space) = ample::<Array>(&disk, file, id);
    let mut steps = 0;
    let done = pool.prewarm(all(id, &pages), |_| {
        steps += 1;
        true
    });
    assert_eq!(done.loaded, PAGES as u64);
    assert!(steps <= PAGES / 32, "{steps} steps");
}

/// While others read from the device it rests as long as it has worked; else not at all.
#[test]
fn it_makes_way_for_those_that_read() {
    const WORK: Duration = Duration::from_millis(10);
    let disk = disk();
    let (file, id, pages) = filled::<Array>(&disk, PAGES);
    let shortest = |others_read: bool| {
        let (pool, space) = ample::<Array>(&disk, file, id);
        read(&space, pages[0]).unwrap();
        let (began, mut steps) = (Cell::new(Instant::now()), Vec::new());
        let wanted = all(id, &pages[..200]).into_iter().enumerate().inspect(|(index, _)| {
            // The first one of a batch that is not only looked at.
            if index % 64 == 1 {
                began.set(Instant::now());
                thread::sleep(WORK);
                let page = pages[299 - index / 64];
                let other = || _ = read(&space, page).unwrap();
                if others_read {
                    thread::scope(|scope| _ = scope.spawn(other));
                }
            }
        });
        let done = pool.prewarm(wanted.map(|(_, page)| page), |at| {
            if at.loaded > 0 && at.end.is_none() {
                steps.push(began.get().elapsed());
            }
            true
        });
        assert!(done.loaded > 190);
        steps.into_iter().min().unwrap()
    };
    assert!(shortest(true) >= 2 * WORK, "it did not rest");
    assert!(shortest(false) < 2 * WORK, "it rested for nobody");
}

/// What the policy knows is in the list: pages that were used again are hotter than a scan's.
#[test]
fn the_list_tells_what_is_hot() {
    let disk = disk();
    let (file, id, pages) = filled::<Array>(&disk, 3000);
    let pool = open::<Array>(&disk, 4, file);
    let space = pool.open_space(id).unwrap();
    let hot = &pages[..20];
    for round in 0..40 {
        for page in pages[50 + round * 70..].iter().take(70) {
            let hint = if round < 20 { AccessHint::Normal } else { AccessHint::Scan };
            read_as(&space, *page, hint).unwrap();
            hot.iter().for_each(|page| _ = read(&space, *page).unwrap());
        }
    }
    let list = pool.resident_pages();
    let temperatures = |are_hot: bool| {
        list.iter()
            .filter(|(page, _)| hot.contains(&page.page()) == are_hot)
            .map(|(_, temperature)| *temperature)
            .collect::<Vec<_>>()
    };
    let (used, scanned) = (temperatures(true), temperatures(false));
    assert!(used.len() >= 19, "{used:?}");
    assert!(used.iter().all(|temperature| *temperature >= Temperature::Warm), "{used:?}");
    assert!(scanned.contains(&Temperature::Cold), "nothing of the scan is left");
    let hot = scanned.iter().filter(|temperature| **temperature == Temperature::Hot).count();
    assert!(10 * hot < scanned.len(), "{hot} of {} were used once", scanned.len());
}
