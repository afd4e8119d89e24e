//! What every translation must do. A new one joins by its line in the list.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use polder_format::{PageId, PageNo};
use polder_pool::{
    AccessHint, Direct, FileState, LinkRef, Pool, PoolConfig, PoolError, Predictive, ReadMode,
    Restart, Translation, VmHuge,
};
use polder_testkit::effort::EVERY_TRANSLATION;
use polder_testkit::{Errno, FaultPlan, Operation, Random, When};

use crate::support::*;

const PAGES: usize = 600;
const THREADS: u64 = 8;

pub fn pages_come_back_as_they_were<T: Translation>() {
    let disk = disk();
    let pool = tight::<T>(&disk, FileState::NEW);
    let space = pool.create_space().unwrap();
    let pages = create_many(&space, PAGES);
    for round in 0..2 {
        for (i, page) in pages.iter().enumerate() {
            assert_eq!(read(&space, *page).unwrap(), round * (i as u64 % 3));
            (0..i % 3).for_each(|_| increment(&space, *page).unwrap());
        }
    }
    assert_eq!(pool.stats().evictions > 0, T::EVICTS);
    let ids = [space.id()];
    drop(space);
    let (pool, spaces) = reopen(pool, &disk, &ids);
    for (i, page) in pages.iter().enumerate() {
        assert_eq!(read(&spaces[0], *page).unwrap(), 2 * (i as u64 % 3));
    }
    let stats = pool.stats();
    assert!(stats.resident_pages <= stats.frames);
    assert_eq!(stats.dirty_pages, 0);
    assert!(stats.faults >= PAGES as u64 && stats.device_reads >= stats.faults);
    assert_eq!(spaces[0].pages_in_use().unwrap(), PAGES as u64 + 1);
    assert_eq!(spaces[0].used_pages().unwrap(), pages);
}

pub fn threads_lose_no_update<T: Translation>() {
    const STEPS: u64 = 4000;
    let disk = disk();
    let pool = tight::<T>(&disk, FileState::NEW);
    let spaces = [pool.create_space().unwrap(), pool.create_space().unwrap()];
    let pages: Vec<_> = spaces.iter().map(|space| create_many(space, PAGES / 2)).collect();
    thread::scope(|scope| {
        for t in 0..THREADS {
            let (spaces, pages) = (&spaces, &pages);
            scope.spawn(move || {
                let mut random = Random::new(t);
                for _ in 0..STEPS {
                    let at = random.index(2);
                    // Half of all goes to a few pages, so that threads meet.
                    let end = if random.chance(0.5) { 4 } else { pages[at].len() };
                    let page = pages[at][random.index(end)];
                    increment(&spaces[at], page).unwrap();
                    read(&spaces[at], pages[at][random.index(end)]).unwrap();
                }
            });
        }
    });
    let total = |spaces: &[polder_pool::Space<T>]| -> u64 {
        let of = |at: usize| pages[at].iter().map(move |page| (at, *page));
        of(0).chain(of(1)).map(|(at, page)| read(&spaces[at], page).unwrap()).sum()
    };
    assert_eq!(total(&spaces), THREADS * STEPS);
    let ids = spaces.each_ref().map(|space| space.id());
    drop(spaces);
    let (_pool, spaces) = reopen(pool, &disk, &ids);
    assert_eq!(total(&spaces), THREADS * STEPS);
}

pub fn freed_pages_are_used_again<T: Translation>() {
    let disk = disk();
    let pool = tight::<T>(&disk, FileState::NEW);
    let space = pool.create_space().unwrap();
    let mut pages = create_many(&space, PAGES);
    let length = pool.stats().file_bytes;
    pages.iter().step_by(2).for_each(|page| free(&space, *page));
    let id = space.id();
    drop(space);
    let (pool, spaces) = reopen(pool, &disk, &[id]);
    let space = &spaces[0];
    let kept: Vec<_> = pages.iter().copied().skip(1).step_by(2).collect();
    assert_eq!(space.used_pages().unwrap(), kept);
    let again = create_many(space, PAGES / 2);
    let freed: Vec<_> = pages.iter().copied().step_by(2).collect();
    assert_eq!(again, freed, "lowest first");
    assert_eq!(pool.stats().file_bytes, length);
    pages.push(create(space));
    for page in &pages {
        assert_eq!(read(space, *page).unwrap(), 0);
    }
    assert_eq!(space.used_pages().unwrap(), pages);
    assert!(matches!(space.unlink(&[number(5000)]), Err(PoolError::Broken { .. })));
    assert!(matches!(space.link(&pages[..1]), Err(PoolError::Broken { .. })));
    assert_sound(&pool);
}

/// Readers and creators end with `Dropped`; their space's memory is free, others are untouched.
pub fn a_dropped_space_goes_at_once<T: Translation>() {
    let disk = disk();
    let pool = tight::<T>(&disk, FileState::NEW);
    let other = pool.create_space().unwrap();
    let others = create_many(&other, 50);
    let length = pool.stats().file_bytes;
    for round in 0..10 {
        let space = pool.create_space().unwrap();
        let pages = create_many(&space, PAGES / 2);
        thread::scope(|scope| {
            for t in 0..4 {
                let (space, pages) = (space.clone(), &pages);
                scope.spawn(move || {
                    let (mut random, mut created) = (Random::new(t), 0);
                    let error = loop {
                        let page = pages[random.index(pages.len())];
                        let result = match t {
                            0 if created < 200 => {
                                created += 1;
                                try_create(&space).map(drop)
                            }
                            1 => increment(&space, page),
                            _ => read(&space, page).map(drop),
                        };
                        if let Err(error) = result {
                            break error;
                        }
                    };
                    assert!(matches!(error, PoolError::Dropped { .. }), "{error}");
                });
            }
            let (other, others) = (&other, &others);
            scope.spawn(move || {
                for page in others {
                    increment(other, *page).unwrap();
                }
            });
            thread::sleep(Duration::from_millis(round));
            space.drop_space().unwrap();
        });
        assert!(matches!(space.drop_space(), Err(PoolError::Dropped { .. })));
        assert!(matches!(space.create(), Err(PoolError::Dropped { .. })));
        assert!(matches!(pool.open_space(space.id()), Err(PoolError::NoSuchSpace { .. })));
        let stats = pool.stats();
        assert_eq!(stats.spaces.get(&space.id()), None);
        assert!(stats.translation_bytes < 64 << 10, "{}", stats.translation_bytes);
        assert_sound(&pool);
    }
    assert!(pool.stats().file_bytes <= length + 64 * PAGE_BYTES, "places were not freed");
    for page in &others {
        assert_eq!(read(&other, *page).unwrap(), 10);
    }
}

/// The middle of a space is deleted; the file shrinks while others read and write.
pub fn the_file_shrinks_under_load<T: Translation>() {
    let disk = disk();
    let pool = tight::<T>(&disk, FileState::NEW);
    let space = pool.create_space().unwrap();
    let pages = create_many(&space, 3000);
    let length = pool.stats().file_bytes;
    let (gone, kept): (Vec<_>, Vec<_>) =
        pages.iter().partition(|page| (100..2500).contains(&page.get()));
    let stop = AtomicBool::new(false);
    let written: u64 = thread::scope(|scope| {
        let threads = [0, 1].map(|t| {
            let (space, kept, stop) = (&space, &kept, &stop);
            scope.spawn(move || {
                let (mut random, mut written) = (Random::new(t), 0);
                while !stop.load(Ordering::Relaxed) {
                    read(space, kept[random.index(kept.len())]).unwrap();
                    increment(space, kept[random.index(kept.len())]).unwrap();
                    written += 1;
                }
                written
            })
        });
        for part in gone.chunks(gone.len() / 4) {
            part.iter().for_each(|page| free(&space, *page));
            while pool.shrink().unwrap() > 0 {}
            assert_sound(&pool);
        }
        stop.store(true, Ordering::Relaxed);
        threads.map(|thread| thread.join().unwrap()).iter().sum()
    });
    assert!(written > 0);
    let total = |space: &polder_pool::Space<T>| -> u64 {
        kept.iter().map(|page| read(space, *page).unwrap()).sum()
    };
    assert_eq!(total(&space), written);
    let shorter = pool.stats().file_bytes;
    assert!(shorter < length / 2, "{length} -> {shorter}");
    let id = space.id();
    drop(space);
    let (pool, spaces) = reopen(pool, &disk, &[id]);
    assert_eq!(total(&spaces[0]), written);
    assert_eq!(spaces[0].used_pages().unwrap(), kept);
    assert_eq!(polder_pool::device::Device::len(&disk).unwrap(), shorter);
    assert_sound(&pool);
}

/// A thread that was overtaken too often holds the pages on its way, also where that comes by the
/// same page twice.
pub fn the_overtaken_get_through<T: Translation>() {
    let pool = tight::<T>(&disk(), FileState::NEW);
    let space = pool.create_space().unwrap();
    let page = create(&space);
    let mut tries = 0;
    let count = space.run(AccessHint::Normal, |attempt| {
        tries += 1;
        assert!(tries < 1000, "it holds the page and cannot get it");
        let first = space.page(attempt, page)?;
        if tries <= 100 {
            return Err(Restart);
        }
        let second = space.page(attempt, page)?;
        first.validate()?;
        Ok(attempt.upgrade(second)?.id())
    });
    assert_eq!(count.unwrap().page(), page);
    increment(&space, page).unwrap();
    assert_sound(&pool);
}

/// Two that were overtaken, and want the same pages in another order: none waits for what the other
/// holds.
pub fn the_overtaken_let_each_other_pass<T: Translation>() {
    let pool = tight::<T>(&disk(), FileState::NEW);
    let space = pool.create_space().unwrap();
    let pages = create_many(&space, 2);
    let barrier = Arc::new(Barrier::new(2));
    let (done, ended) = mpsc::channel();
    for order in [[pages[0], pages[1]], [pages[1], pages[0]]] {
        let (space, barrier, done) = (space.clone(), Arc::clone(&barrier), done.clone());
        thread::spawn(move || {
            let mut tries = 0;
            let both = space.run(AccessHint::Normal, |attempt| {
                tries += 1;
                let first = space.page(attempt, order[0])?;
                if tries <= 100 {
                    return Err(Restart);
                }
                let _first = attempt.upgrade(first)?;
                if tries == 101 {
                    barrier.wait();
                }
                let second = space.page(attempt, order[1])?;
                attempt.upgrade(second).map(drop)
            });
            done.send(both).unwrap();
        });
    }
    for _ in 0..2 {
        ended.recv_timeout(Duration::from_secs(30)).expect("they wait for each other").unwrap();
    }
}

/// A group is asked for: what is missing comes by few batches, whoever else wants it; what cannot be
/// loaded is an error of its reader alone; and no frame is lost.
pub fn a_group_is_prefetched<T: Translation>() {
    let disk = disk();
    let pool = open::<T>(&disk, 8 * if T::EVICTS { 1 } else { 8 }, FileState::NEW);
    let space = pool.create_space().unwrap();
    let pages = create_many(&space, PAGES);
    let id = space.id();
    drop(space);
    pool.flush().unwrap();
    let file = pool.file_state();
    drop(pool);
    let pool = open::<T>(&disk, 8 * if T::EVICTS { 1 } else { 8 }, file);
    let space = pool.open_space(id).unwrap();
    // The maps, so that places are known without waiting.
    read(&space, pages[0]).unwrap();
    let link = |page: &PageNo| (LinkRef::Id(PageId::new(id, *page)), 64);
    let group: Vec<_> = pages.iter().step_by(7).take(20).collect();
    let mut wanted: Vec<_> = group.iter().map(|page| link(page)).collect();
    wanted.push(wanted[3]);
    let reads = pool.stats().device_reads;
    let mut loaded = 0;
    for _ in 0..20 {
        loaded += space.prefetch_group(&wanted);
    }
    assert_eq!(loaded, 19, "{}: one was there, and one comes twice", T::NAME);
    assert_eq!(pool.stats().device_reads, reads + 19);
    assert!(group.iter().all(|page| space.is_resident(**page)));
    for page in &group {
        assert_eq!(read(&space, **page).unwrap(), 0);
    }
    assert_eq!(pool.stats().device_reads, reads + 19, "{}", T::NAME);
    // Links that lead nowhere, and a device that fails.
    let nowhere = LinkRef::Id(PageId::NULL);
    let beyond = LinkRef::Id(PageId::new(id, number(1 << 30)));
    assert_eq!(space.prefetch_group(&[(nowhere, 0), (beyond, 8)]), 0);
    disk.set_plan(FaultPlan::new(1).fail(Operation::Read, When::From(0), Errno::IO));
    let missing = *pages.iter().rfind(|page| !space.is_resident(**page)).unwrap();
    assert_eq!(space.prefetch_group(&[link(&missing)]), 0);
    assert!(read(&space, missing).is_err());
    disk.set_plan(FaultPlan::new(1));
    // With tiers, a thread of the pool's may have the frames that are free in its hands for a moment.
    let loads = || {
        thread::yield_now();
        space.prefetch_group(&[link(&missing)]) == 1
    };
    assert!((0..1000).any(|_| loads()), "{}: what had failed is not loaded", T::NAME);
    // Threads that want the same pages, while they are evicted.
    thread::scope(|scope| {
        for t in 0..4 {
            let (space, pages) = (space.clone(), &pages);
            scope.spawn(move || {
                let mut random = Random::new(t);
                for _ in 0..60 {
                    let group: Vec<_> = (0..12).map(|_| pages[random.index(PAGES)]).collect();
                    space.prefetch_group(&group.iter().map(link).collect::<Vec<_>>());
                    group.iter().for_each(|page| assert_eq!(read(&space, *page).unwrap(), 0));
                }
            });
        }
    });
    pool.flush().unwrap();
    let stats = pool.stats();
    if T::EVICTS {
        assert_eq!(stats.resident_pages + stats.frames_free, stats.frames, "{}", T::NAME);
    }
    assert_sound(&pool);
}

/// Hands the suite on to a macro, behind what it shall run in.
macro_rules! suite {
    ($then:ident $($sides:tt)+) => {
        $then!(
            $($sides)+
            => [
                pages_come_back_as_they_were,
                threads_lose_no_update,
                freed_pages_are_used_again,
                a_dropped_space_goes_at_once,
                the_file_shrinks_under_load,
                the_overtaken_get_through,
                the_overtaken_let_each_other_pass,
                a_group_is_prefetched,
            ]
        );
    };
}
pub(crate) use suite;

macro_rules! conformance {
    ($($translation:ident as $module:ident holding $hold:ident),+ $(,)? => $tests:tt) => {
        $(mod $module { conformance!(@ $translation $hold $tests); })+
    };
    (@ $translation:ident $hold:ident [$($test:ident),+ $(,)?]) => {
        $(#[test] fn $test() {
            polder_testkit::if_built!(
                $translation,
                super::holding(super::ReadMode::$hold, super::$test::<polder_pool::$translation>)
            );
        })+
    };
}

/// Each translation of the list, and some of them in other read modes.
macro_rules! all {
    ($($section:ident { $($(#[$about:meta])* $translation:ident as $module:ident,)* })*) => {
        suite!(
            conformance
            $($($translation as $module holding Optimistic,)*)*
            Array as array_shared holding Shared,
            Predictive as predictive_shared holding Shared,
            Vm as vm_shared holding Shared,
            Direct as direct_shared holding Shared,
            Array as array_by_group holding Group,
            Hash as hash_by_group holding Group,
            Simd as simd_by_group holding Group,
            Swizzle as swizzle_shared holding Shared,
            Swizzle as swizzle_by_group holding Group,
            Open as open_by_core holding Core,
            Array as array_by_core holding Core,
            Vm as vm_by_core holding Core,
        );
    };
}
polder_pool::translations!(all);

/// What does not go together is told, with a reason.
#[test]
fn impossible_ways_of_holding_are_refused() {
    fn refused<T: Translation>() {
        for hold in [ReadMode::Group, ReadMode::Core] {
            let config = PoolConfig { read_mode: hold, ..config(64, FileState::NEW) };
            let opened = Pool::<T>::open(Box::new(disk()), &config, &[KIND]);
            let message = opened.err().unwrap().to_string();
            assert!(message.contains(T::NAME) && message.contains(hold.name()), "{message}");
            assert!(message.contains("optimistic"), "{message}");
        }
    }
    refused::<Direct>();
    if EVERY_TRANSLATION {
        refused::<Predictive>();
        refused::<VmHuge>();
    }
}
