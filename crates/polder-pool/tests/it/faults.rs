//! What goes wrong on the device, or runs out, and what the pool makes of it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use polder_format::{PageId, PageKind};
use polder_pool::{Array, Direct, FileState, Pool, PoolConfig, PoolError, Space};
use polder_testkit::{Errno, FaultPlan, Operation, Random, SimDisk, When};

use crate::support::*;

/// A file with one space of so many pages, opened anew with nothing resident.
fn cold(disk: &SimDisk, pages: usize) -> (Pool<Array>, Space<Array>) {
    let pool = open::<Array>(disk, 1, FileState::NEW);
    let space = pool.create_space().unwrap();
    create_many(&space, pages);
    let id = space.id();
    drop(space);
    let (pool, mut spaces) = reopen(pool, disk, &[id]);
    (pool, spaces.remove(0))
}

fn sound() -> FaultPlan {
    FaultPlan::new(3)
}

#[test]
fn a_page_is_read_once_however_many_wait_for_it() {
    let disk = disk();
    let (pool, space) = cold(&disk, 100);
    read(&space, number(1)).unwrap();
    for page in 2..20 {
        disk.set_plan(FaultPlan::new(page).delay(1.0, Duration::from_millis(20)));
        let (before, barrier) = (disk.counts().reads, Barrier::new(8));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    read(&space, number(page)).unwrap();
                });
            }
        });
        assert_eq!(disk.counts().reads, before + 1);
    }
    assert_eq!(pool.stats().faults, 18 + 1 + 2, "18 pages, the first one, and two maps");
}

#[test]
fn a_page_that_cannot_be_read_is_named_and_costs_nothing() {
    let disk = disk();
    let (pool, space) = cold(&disk, 400);
    read(&space, number(1)).unwrap();
    disk.set_plan(sound().fail(Operation::Read, When::From(0), Errno::IO));
    for page in 2..400 {
        let error = read(&space, number(page)).unwrap_err();
        let PoolError::Read { page: named, ref source, .. } = error else { panic!("{error}") };
        assert_eq!(named, PageId::new(space.id(), number(page)));
        assert_eq!(source.raw_os_error(), Some(Errno::IO.0));
    }
    disk.set_plan(sound().fail(Operation::Read, When::Share(0.2), Errno::IO));
    thread::scope(|scope| {
        for t in 0..4 {
            let space = &space;
            scope.spawn(move || {
                let mut random = Random::new(t);
                for _ in 0..2000 {
                    let result = read(space, number(1 + random.below(400)));
                    assert!(matches!(result, Ok(0) | Err(PoolError::Read { .. })), "{result:?}");
                }
            });
        }
    });
    disk.set_plan(sound());
    (1..=400).for_each(|page| assert_eq!(read(&space, number(page)).unwrap(), 0));
    let stats = pool.stats();
    assert!(stats.resident_pages > stats.frames / 2, "frames were lost: {stats:?}");
    assert_sound(&pool);
}

#[test]
fn pages_that_cannot_be_written_stay_dirty() {
    let disk = disk();
    let (pool, space) = cold(&disk, 600);
    disk.set_plan(sound().fail(Operation::Write, When::From(0), Errno::IO));
    let mut changed = 0;
    let begun = Instant::now();
    let error = loop {
        match increment(&space, number(1 + changed % 600)) {
            Ok(()) => changed += 1,
            Err(error) => break error,
        }
    };
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let PoolError::Exhausted { frames, dirty, ref last_write_error, .. } = error else {
        panic!("{error}")
    };
    assert!(error.to_string().contains("the last write failed"), "{error}");
    assert!(dirty > frames / 2 && dirty <= frames, "{error}");
    assert!(last_write_error.is_some());
    assert!(changed > frames / 2 && changed < 600);
    assert!(matches!(pool.flush(), Err(PoolError::Write { .. })));
    let counts = |space: &Space<Array>| {
        let ones = (1..=changed).map(|page| read(space, number(page)).unwrap());
        (ones.sum::<u64>(), read(space, number(changed + 1)).unwrap())
    };
    disk.set_plan(sound());
    assert_eq!(counts(&space), (changed, 0));
    pool.flush().unwrap();
    assert_eq!(pool.stats().dirty_pages, 0);
    let id = space.id();
    drop(space);
    let (_pool, spaces) = reopen(pool, &disk, &[id]);
    assert_eq!(counts(&spaces[0]), (changed, 0));
}

/// Threads that wait for a frame are told, though others try to write all the time.
#[test]
fn many_threads_hear_soon_that_nothing_can_be_written() {
    let disk = disk();
    let (pool, space) = cold(&disk, 800);
    disk.set_plan(sound().fail(Operation::Write, When::From(0), Errno::IO));
    let (begun, next) = (Instant::now(), AtomicU64::new(1));
    let changed: u64 = thread::scope(|scope| {
        let change = || {
            let pages = (0..).map(|_| number(next.fetch_add(1, Ordering::Relaxed)));
            let mut outcomes = pages.map(|page| increment(&space, page));
            let changed = outcomes.by_ref().take_while(Result::is_ok).count() as u64;
            assert!(matches!(increment(&space, number(800)), Err(PoolError::Exhausted { .. })));
            changed
        };
        let threads = [(); 16].map(|()| scope.spawn(change));
        threads.map(|thread| thread.join().unwrap()).iter().sum()
    });
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let frames = pool.stats().frames;
    assert!(changed > frames / 2 && changed <= frames, "{changed} of {frames}");
}

/// A share of everything fails while threads work; what went through is there in the end.
#[test]
fn nothing_is_lost_when_the_device_fails_now_and_then() {
    let disk = disk();
    let (pool, space) = cold(&disk, 400);
    disk.set_plan(
        sound()
            .fail(Operation::Write, When::Share(0.2), Errno::IO)
            .fail(Operation::Read, When::Share(0.05), Errno::IO)
            .delay(0.1, Duration::from_micros(200)),
    );
    let done: u64 = thread::scope(|scope| {
        let threads = [0, 1, 2, 3].map(|t| {
            let space = &space;
            scope.spawn(move || {
                let mut random = Random::new(t);
                let page = |random: &mut Random| number(1 + random.below(400));
                (0..2000).filter(|_| increment(space, page(&mut random)).is_ok()).count() as u64
            })
        });
        threads.map(|thread| thread.join().unwrap()).iter().sum()
    });
    disk.set_plan(sound());
    assert!(done > 4000);
    assert_eq!((1..=400).map(|page| read(&space, number(page)).unwrap()).sum::<u64>(), done);
    let id = space.id();
    drop(space);
    let (_pool, spaces) = reopen(pool, &disk, &[id]);
    assert_eq!((1..=400).map(|page| read(&spaces[0], number(page)).unwrap()).sum::<u64>(), done);
}

#[test]
fn a_damaged_page_is_named() {
    let disk = disk();
    let (pool, space) = cold(&disk, 40);
    let file = pool.file_state();
    let id = PageId::new(space.id(), number(17));
    drop((pool, space));
    let [place] = places_of(&disk, id)[..] else { panic!("the page lies in one place") };
    let mut random = Random::new(5);
    for _ in 0..60 {
        let (byte, bit) = (random.below(PAGE_BYTES), random.below(8) as u32);
        disk.flip_bit(place * PAGE_BYTES + byte, bit);
        let pool = open::<Array>(&disk, 1, file);
        let space = pool.open_space(id.space()).unwrap();
        let error = read(&space, id.page()).unwrap_err();
        let PoolError::Corrupt { page, physical: named, .. } = error else { panic!("{error}") };
        assert_eq!((page, named.get()), (id, place), "byte {byte}");
        assert!(error.to_string().contains(&format!("{id} at physical page {place}")), "{error}");
        assert_eq!(read(&space, number(16)).unwrap(), 0);
        disk.flip_bit(place * PAGE_BYTES + byte, bit);
    }
}

/// Every page that is in use is missed when it is damaged, maps included.
#[test]
fn no_damage_goes_unnoticed() {
    fn visit_all(disk: &SimDisk, file: polder_pool::FileState) -> Result<(), PoolError> {
        let pool: Pool<Array> = open(disk, 1, file);
        for id in pool.spaces()? {
            let space = pool.open_space(id)?;
            for page in space.used_pages()? {
                read(&space, page)?;
            }
        }
        pool.check_maps().map(drop)
    }
    let disk = disk();
    let (pool, space) = cold(&disk, 40);
    let file = pool.file_state();
    drop((pool, space));
    visit_all(&disk, file).unwrap();
    let image = disk.image();
    let mut random = Random::new(6);
    let mut damaged = 0;
    for (place, bytes) in image.chunks(PAGE_BYTES as usize).enumerate() {
        if PageKind(bytes[4]) == PageKind(0) {
            continue;
        }
        let (byte, bit) = (random.below(PAGE_BYTES), random.below(8) as u32);
        disk.flip_bit(place as u64 * PAGE_BYTES + byte, bit);
        let error = visit_all(&disk, file).unwrap_err();
        assert!(matches!(error, PoolError::Corrupt { .. }), "place {place}: {error}");
        disk.flip_bit(place as u64 * PAGE_BYTES + byte, bit);
        damaged += 1;
    }
    assert_eq!(damaged, 40 + 3, "pages, allocation map, extent map, space directory");
}

#[test]
fn a_page_of_an_unknown_kind_or_layout_is_refused() {
    let disk = disk();
    let (pool, space) = cold(&disk, 3);
    let file = pool.file_state();
    let id = space.id();
    drop((pool, space));
    let newer = [polder_pool::KindOps { max_layout: 0, ..KIND }];
    let damaged = polder_pool::KindOps { check: |_| Err("nothing is right"), ..KIND };
    for kinds in [&[][..], &newer[..], &[damaged][..]] {
        let pool: Pool<Array> =
            Pool::open(Box::new(disk.clone()), &config(1, file), kinds).unwrap();
        let space = pool.open_space(id).unwrap();
        let error = read(&space, number(1)).unwrap_err();
        assert!(matches!(error, PoolError::Corrupt { .. }), "{error}");
    }
}

#[test]
fn a_full_disk_refuses_new_pages_and_nothing_else() {
    let disk = disk();
    disk.set_plan(sound().capacity(2 << 20));
    let pool = open::<Array>(&disk, 1, FileState::NEW);
    let space = pool.create_space().unwrap();
    let mut pages = Vec::new();
    let error = loop {
        match try_create(&space) {
            Ok(new) => pages.push(new.id().page()),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, PoolError::Full { space: named, .. } if named == space.id()));
    assert!(error.to_string().contains("the disk is full"), "{error}");
    assert!(pages.len() > 300);
    for _ in 0..3 {
        assert!(matches!(space.create(), Err(PoolError::Full { .. })));
    }
    pages.iter().for_each(|page| increment(&space, *page).unwrap());
    pool.flush().unwrap();
    // A page that is given back can be had again.
    free(&space, pages[7]);
    assert_eq!(create(&space), pages[7]);
    increment(&space, pages[7]).unwrap();
    let id = space.id();
    drop(space);
    let (pool, spaces) = reopen(pool, &disk, &[id]);
    let space = &spaces[0];
    pages.iter().for_each(|page| assert_eq!(read(space, *page).unwrap(), 1));
    assert!(matches!(space.create(), Err(PoolError::Full { .. })));
    disk.set_plan(sound());
    create_many(space, 50);
    assert_sound(&pool);
}

/// Allocation that fails anywhere leaves a space that works afterwards and survives a reopen.
#[test]
fn a_space_whose_making_failed_can_be_made_again() {
    let mut failed = 0;
    for nth in 0..12 {
        for operation in [Operation::Allocate, Operation::Read] {
            let disk = disk();
            let (pool, first) = cold(&disk, 300);
            // What is free is known from now on, and the space directory is not resident.
            create(&first);
            for page in (1..=300).chain(1..=300) {
                assert_eq!(read(&first, number(page)).unwrap(), 0);
            }
            let first_id = first.id();
            drop(first);
            disk.set_plan(sound().fail(operation, When::Nth(nth), Errno::IO));
            let space = pool.create_space().unwrap();
            failed += usize::from(try_create(&space).is_err());
            disk.set_plan(sound());
            let page = create(&space);
            let id = space.id();
            drop(space);
            let (pool, spaces) = reopen(pool, &disk, &[first_id, id]);
            assert_eq!(read(&spaces[1], page).unwrap(), 0, "{operation:?} {nth}");
            assert_sound(&pool);
        }
    }
    assert!(failed >= 3, "the space directory, the map and the first extent");
}

#[test]
fn pins_exhaust_the_pool_and_letting_go_frees_it() {
    let disk = disk();
    let pool = open::<Array>(&disk, 1, FileState::NEW);
    let space = pool.create_space().unwrap();
    let mut held = Vec::new();
    let error = loop {
        let begun = Instant::now();
        match try_create(&space) {
            Ok(new) => held.push(new),
            Err(error) => break (error, begun.elapsed()),
        }
    };
    let (error, took) = error;
    let PoolError::Exhausted { frames, pinned, .. } = error else { panic!("{error}") };
    assert!(error.to_string().contains(&format!("{pinned} pinned")), "{error}");
    assert!(pinned > frames - 8 && held.len() as u64 > frames - 8, "{error}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    let pages: Vec<_> = held.drain(..).map(|new| new.id().page()).collect();
    create_many(&space, 100);
    pages.iter().for_each(|page| assert_eq!(read(&space, *page).unwrap(), 0));
    assert_sound(&pool);
}

#[test]
fn direct_says_that_the_data_does_not_fit() {
    let disk = disk();
    let pool = open::<Direct>(&disk, 1, FileState::NEW);
    let space = pool.create_space().unwrap();
    let mut pages = Vec::new();
    let error = loop {
        match try_create(&space) {
            Ok(new) => pages.push(new.id().page()),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, PoolError::DoesNotFit { .. }), "{error}");
    assert!(error.to_string().contains("`direct` never evicts"), "{error}");
    let frames = pool.stats().frames;
    assert!(pages.len() as u64 > frames - 8 && pages.len() as u64 <= frames);
    pages.iter().for_each(|page| increment(&space, *page).unwrap());
    pool.flush().unwrap();
    free(&space, pages[3]);
    assert_eq!(create(&space), pages[3]);
    assert_sound(&pool);
}

#[test]
fn a_budget_below_the_least_is_refused() {
    let least = PoolConfig::least_budget(SIZE);
    let mut config = config(1, FileState::NEW);
    config.memory_budget = least - 1;
    let error = Pool::<Array>::open(Box::new(disk()), &config, &[KIND]).unwrap_err();
    assert!(matches!(error, PoolError::Budget { given, least: named }
        if given == least - 1 && named == least));
    assert!(error.to_string().contains(&least.to_string()), "{error}");
    config.memory_budget = 0;
    assert!(Pool::<Array>::open(Box::new(disk()), &config, &[KIND]).is_err());
}
