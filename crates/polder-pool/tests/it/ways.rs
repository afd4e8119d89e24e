//! That what is chosen when a pool is opened is what it does: how readers hold pages, which pages
//! go, where pages lie, and how memory is given back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use polder_pool::replacement::ReplacementKind;
use polder_pool::{
    AccessHint, Array, ArrayPlain, FileState, GroupSize, Hash, Open, Pool, PoolConfig, Predictive,
    PredictiveHashed, ReadMode, Simd, SimdPlain, Space, Swizzle, Translation, Vm, VmHuge,
};
use polder_testkit::effort::EVERY_TRANSLATION;
use polder_testkit::{Random, found, if_built};

use crate::support::*;

/// Whether a writer gets at a page while a reader is in the midst of it.
fn a_writer_gets_in<T: Translation>(hold: ReadMode) -> bool {
    let disk = disk();
    let config = PoolConfig { read_mode: hold, ..config(4, FileState::NEW) };
    let pool = Pool::<T>::open(Box::new(disk), &config, &[KIND]).unwrap();
    let space = pool.create_space().unwrap();
    let page = create(&space);
    let written = AtomicBool::new(false);
    let mut during = false;
    thread::scope(|scope| {
        let result = space.run(AccessHint::Normal, |attempt| {
            // Once: what is not held may have to be read again.
            if written.load(Ordering::SeqCst) {
                return Ok(());
            }
            let guard = space.page(attempt, page)?;
            scope.spawn(|| {
                increment(&space, page).unwrap();
                written.store(true, Ordering::SeqCst);
            });
            thread::sleep(Duration::from_millis(60));
            during = written.load(Ordering::SeqCst);
            // A writer that asks for the page does not disturb the reader that holds it.
            assert_eq!(guard.validate().is_err(), during);
            Ok(())
        });
        result.unwrap();
    });
    assert!(written.load(Ordering::SeqCst), "the writer gave up");
    assert_eq!(read(&space, page).unwrap(), 1);
    during
}

/// Groups of one core: on a machine with one cache there are several all the same.
const BY_ONE: ReadMode = ReadMode::GroupOf(GroupSize::ONE);

#[test]
fn who_holds_a_page_keeps_writers_out() {
    assert!(a_writer_gets_in::<Array>(ReadMode::Optimistic));
    for hold in [ReadMode::Shared, ReadMode::Group, BY_ONE, ReadMode::Core] {
        assert!(!a_writer_gets_in::<Array>(hold), "{hold}");
        if EVERY_TRANSLATION {
            assert!(!a_writer_gets_in::<Simd>(hold), "{hold}");
            assert!(!a_writer_gets_in::<Open>(hold), "{hold}");
            assert!(!a_writer_gets_in::<Vm>(hold), "{hold}");
        }
    }
}

/// And keeps the page resident, however much room is needed.
#[test]
fn who_holds_a_page_keeps_it_resident() {
    for hold in [ReadMode::Shared, ReadMode::Group, BY_ONE, ReadMode::Core] {
        let disk = disk();
        let config = PoolConfig { read_mode: hold, ..config(1, FileState::NEW) };
        let pool = Pool::<Array>::open(Box::new(disk), &config, &[KIND]).unwrap();
        let space = pool.create_space().unwrap();
        let pages = create_many(&space, 600);
        pool.flush().unwrap();
        let (page, others) = pages.split_first().unwrap();
        read(&space, *page).unwrap();
        let result = space.run(AccessHint::Normal, |attempt| {
            let _held = space.page(attempt, *page)?;
            for _ in 0..3 {
                others.iter().for_each(|other| assert_eq!(read(&space, *other).unwrap(), 0));
            }
            // Somebody may just be finding out that it cannot go.
            let stays = (0..1000).any(|_| {
                thread::sleep(Duration::from_millis(1));
                is_resident(&space, *page)
            });
            assert!(stays, "{hold}");
            Ok(())
        });
        result.unwrap();
    }
}

/// How often a page of a hot set, a third of the pool, has to be loaded while others come once.
fn loads_of_hot_pages(replacement: ReplacementKind) -> usize {
    let disk = disk();
    let config = PoolConfig { replacement, ..config(4, FileState::NEW) };
    let pool = Pool::<Array>::open(Box::new(disk), &config, &[KIND]).unwrap();
    let space = pool.create_space().unwrap();
    let hot = pool.stats().frames as usize / 3;
    let pages = create_many(&space, 20 * hot);
    pool.flush().unwrap();
    let (hot, cold) = pages.split_at(hot);
    let mut random = Random::new(3);
    let mut loads = 0;
    for page in cold {
        read(&space, *page).unwrap();
        for _ in 0..8 {
            let page = hot[random.index(hot.len())];
            loads += usize::from(!is_resident(&space, page));
            read(&space, page).unwrap();
        }
    }
    loads
}

/// Each policy hears of what the pool does: with hot pages used so much more often than others, all
/// but blind ones keep them.
#[test]
fn policies_are_told_of_accesses() {
    let blind = loads_of_hot_pages(ReplacementKind::Cooling { percent: 0 });
    for policy in ReplacementKind::ALL.iter().copied() {
        let loads = loads_of_hot_pages(policy);
        assert!(loads < blind / 2, "{policy}: {loads} loads of hot pages, {blind} by chance");
    }
}

/// The share of pages that lie as they prefer, of what hashing allows at this load of the pool.
fn share_in_place<T: Translation>(load: f64) -> (f64, u64) {
    let disk = disk();
    let pool = open::<T>(&disk, 20, FileState::NEW);
    let space = pool.create_space().unwrap();
    let count = (pool.stats().frames as f64 * load) as usize;
    let pages = create_many(&space, count);
    // Clean: pages move as well while a checkpoint is under way.
    pool.flush().unwrap();
    for _ in 0..300 {
        pages.iter().for_each(|page| touch(&space, *page));
    }
    for page in &pages {
        assert_eq!(read(&space, *page).unwrap(), 0);
    }
    let there = pages.iter().filter(|page| space.is_in_preferred_frame(**page) == Some(true));
    (there.count() as f64 / count as f64, pool.stats().promotions)
}

/// Reads a page without a look at all of its bytes.
fn touch<T: Translation>(space: &Space<T>, page: polder_format::PageNo) {
    space.run(AccessHint::Normal, |attempt| space.page(attempt, page)?.validate()).unwrap();
}

#[test]
fn pages_move_to_the_frames_that_they_prefer() {
    let load = 0.5f64;
    // By their numbers there is a frame for each.
    fn by_number<T: Translation>(load: f64) {
        let (share, _) = share_in_place::<T>(load);
        assert!(share > 0.98, "{}: {share}", T::NAME);
    }
    by_number::<Array>(load);
    if EVERY_TRANSLATION {
        by_number::<Predictive>(load);
        by_number::<Simd>(load);
        let allowed = (1.0 - (-load).exp()) / load;
        let (share, promotions) = share_in_place::<PredictiveHashed>(load);
        assert!(share >= 0.95 * allowed, "{share} of {allowed}");
        assert!(promotions > 0);
        assert_eq!(share_in_place::<ArrayPlain>(load), (0.0, 0));
        assert_eq!(share_in_place::<SimdPlain>(load), (0.0, 0));
    }
}

/// Pages that found their frames taken move there once they are free.
#[test]
fn pages_move_when_what_was_in_the_way_is_gone() {
    fn run<T: Translation>(hold: ReadMode) {
        let disk = disk();
        let config = PoolConfig { read_mode: hold, ..config(20, FileState::NEW) };
        let pool = Pool::<T>::open(Box::new(disk), &config, &[KIND]).unwrap();
        let frames = pool.stats().frames as usize;
        let others = [(); 3].map(|()| pool.create_space().unwrap());
        let space = pool.create_space().unwrap();
        others.iter().for_each(|other| _ = create_many(other, frames * 2 / 10));
        let pages = create_many(&space, frames * 3 / 10);
        pool.flush().unwrap();
        let misplaced = || {
            let misplaced = |page: &&_| space.is_in_preferred_frame(**page) == Some(false);
            pages.iter().filter(misplaced).count()
        };
        let (before, moved) = (misplaced(), pool.stats().promotions);
        // A fifth; fewer where the thread that makes them had to wait, and some have moved already.
        assert!(before > pages.len() / 10, "{}: {before} show nothing", T::NAME);
        others.iter().for_each(|other| other.drop_space().unwrap());
        for _ in 0..300 {
            pages.iter().for_each(|page| touch(&space, *page));
        }
        // Maps stay where they are.
        let after = misplaced();
        assert!(after < 4, "{} by {hold}: {after} of {before}", T::NAME);
        assert!(pool.stats().promotions >= moved + (before - after) as u64);
        pages.iter().for_each(|page| assert_eq!(read(&space, *page).unwrap(), 0));
    }
    if EVERY_TRANSLATION {
        run::<Predictive>(ReadMode::Optimistic);
        run::<Predictive>(ReadMode::Shared);
    }
    for hold in [ReadMode::Optimistic, ReadMode::Shared, ReadMode::Group, BY_ONE, ReadMode::Core] {
        run::<Array>(hold);
        if EVERY_TRANSLATION {
            run::<Simd>(hold);
        }
    }
}

/// A part of a huge page cannot go back.
#[test]
fn only_small_pages_are_given_back() {
    fn give_backs<T: Translation>() -> u64 {
        let disk = disk();
        let pool = open::<T>(&disk, 8, FileState::NEW);
        let space = pool.create_space().unwrap();
        let page = space.create().unwrap().id().page();
        space.free(page);
        assert!(!space.is_resident(page));
        pool.stats().give_backs
    }
    if_built!(Vm, assert_eq!(give_backs::<Vm>(), 1));
    if_built!(VmHuge, assert_eq!(give_backs::<VmHuge>(), 0));
}

/// Memory goes back to the kernel in runs, not page by page.
#[test]
fn vm_gives_memory_back_in_runs() {
    fn run<T: Translation>() {
        let disk = disk();
        let pool = open::<T>(&disk, 8, FileState::NEW);
        let space = pool.create_space().unwrap();
        let frames = pool.stats().frames as usize;
        let pages = create_many(&space, 4 * frames);
        for _ in 0..2 {
            pages.iter().for_each(|page| assert_eq!(read(&space, *page).unwrap(), 0));
        }
        let stats = pool.stats();
        assert!(stats.evictions > 8 * frames as u64, "{stats:?}");
        assert!(stats.give_backs > 0 && stats.give_backs < stats.evictions / 2, "{stats:?}");
    }
    if_built!(Vm, run::<Vm>());
}

/// Huge pages that back frames stay whole when pages leave these frames: to split one costs more than
/// its memory is worth, and each page in it a miss of the TLB from then on.
#[test]
fn eviction_splits_no_huge_page() {
    fn run<T: Translation>() {
        let disk = disk();
        let config = PoolConfig { prefault: true, ..config(24, FileState::NEW) };
        let pool = Pool::<T>::open(Box::new(disk), &config, &[KIND]).unwrap();
        let before = pool.stats().huge_page_bytes;
        if before == 0 {
            found::skip(format_args!("{}: this kernel gives no huge pages here", T::NAME));
            return;
        }
        let space = pool.create_space().unwrap();
        let frames = pool.stats().frames as usize;
        let pages = create_many(&space, 3 * frames);
        pages.iter().for_each(|page| assert_eq!(read(&space, *page).unwrap(), 0));
        pages[..frames].iter().for_each(|page| space.free(*page));
        let stats = pool.stats();
        assert!(stats.evictions > 3 * frames as u64, "{stats:?}");
        assert_eq!(stats.huge_page_bytes, before, "{}", T::NAME);
    }
    run::<Array>();
    run::<Swizzle>();
    if EVERY_TRANSLATION {
        run::<Hash>();
        run::<Predictive>();
        run::<Simd>();
    }
}
