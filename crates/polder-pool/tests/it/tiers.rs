//! Tiers of memory: what a pool must do holds in them, pages go where they should, and nothing is lost
//! on the way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use polder_pool::replacement::ReplacementKind;
use polder_pool::{
    Array, Direct, FileState, Migration, Pool, PoolConfig, PoolError, PoolStats, Space, Tier,
    TierConfig, Translation, Vm, VmHuge,
};
use polder_testkit::Random;
use polder_testkit::effort::EVERY_TRANSLATION;

use crate::conformance;
use crate::support::*;

/// The conformance suite, in so many tiers.
macro_rules! in_tiers {
    ($($translation:ident as $module:ident in $tiers:literal $(holding $hold:ident)?,)+ => $tests:tt) => {
        $(mod $module { in_tiers!(@ $translation $tiers [$($hold)?] $tests); })+
    };
    (@ $translation:ident $tiers:literal $hold:tt [$($test:ident,)+]) => {
        $(#[test] fn $test() {
            polder_testkit::if_built!(
                $translation,
                super::in_tiers(
                    $tiers,
                    in_tiers!(hold $hold super::conformance::$test::<polder_pool::$translation>)
                )
            );
        })+
    };
    (hold [] $test:expr) => { $test };
    (hold [$hold:ident] $test:expr) => {
        || super::holding(polder_pool::ReadMode::$hold, $test)
    };
}
/// Each translation of the list that evicts, and some in more tiers and other read modes.
macro_rules! all {
    (evicting { $($(#[$about:meta])* $translation:ident as $module:ident,)* } $($rest:tt)*) => {
        conformance::suite!(
            in_tiers
            $($translation as $module in 2,)*
            Array as array_in_three in 3,
            Open as open_in_three in 3,
            Swizzle as swizzle_in_three in 3,
            Vm as vm_in_three in 3,
            Array as array_copies in 2 holding Copy,
            Array as array_shared in 2 holding Shared,
            Simd as simd_by_group in 2 holding Group,
            Vm as vm_by_group in 2 holding Group,
        );
    };
}
polder_pool::translations!(all);

/// The same in tiers between which pages go as the pool finds out.
macro_rules! in_tuned_tiers {
    ($($translation:ident as $module:ident in $tiers:literal,)+ => $tests:tt) => {
        $(mod $module { in_tuned_tiers!(@ $translation $tiers $tests); })+
    };
    (@ $translation:ident $tiers:literal [$($test:ident,)+]) => {
        $(#[test] fn $test() {
            polder_testkit::if_built!(
                $translation,
                super::tuned(|| super::in_tiers(
                    $tiers,
                    super::conformance::$test::<polder_pool::$translation>
                ))
            );
        })+
    };
}
conformance::suite!(
    in_tuned_tiers
    Array as array_tuned in 2,
    Swizzle as swizzle_tuned in 3,
    Vm as vm_tuned in 2,
);

/// A pool of about 128 frames, and tiers behind it.
fn open_tiers<T: Translation>(
    disk: &polder_testkit::SimDisk,
    tiers: TierConfig,
    file: FileState,
) -> Result<Pool<T>, PoolError> {
    let config = config(1, file);
    let beside: u64 = tiers.slower.iter().map(|tier| tier.bytes / PAGE_BYTES * BESIDE).sum();
    let config = PoolConfig { tiers, memory_budget: config.memory_budget + beside, ..config };
    Pool::open(Box::new(disk.clone()), &config, &[KIND])
}

fn read_at_random<T: Translation>(
    space: &Space<T>,
    pages: &[polder_format::PageNo],
    times: usize,
    random: &mut Random,
) {
    for _ in 0..times {
        read(space, pages[random.index(pages.len())]).unwrap();
    }
}

/// What the first tier has no room for is kept in the second, and what is used comes up.
#[test]
fn what_is_used_comes_up_and_what_is_not_stays_in_memory() {
    let disk = disk();
    let pool =
        open_tiers::<Array>(&disk, tiers(1, 1000, Migration::default()), FileState::NEW).unwrap();
    let space = pool.create_space().unwrap();
    let pages = create_many(&space, 900);
    let frames: Vec<u64> = pool.stats().tiers.iter().map(|tier| tier.frames).collect();
    assert!(frames.len() == 2 && frames[1] == 1000 && frames[0] < 300, "{frames:?}");
    let mut random = Random::new(1);
    read_at_random(&space, &pages, 5000, &mut random);
    let stats = pool.stats();
    assert_eq!((stats.evictions, stats.faults), (0, 0), "all has room in memory: {stats:?}");
    assert!(frames[1] - stats.tiers[1].frames_free >= 900 - frames[0], "{stats:?}");
    // A part of them that fits in the first tier is read on and on.
    let hot = &pages[400..400 + frames[0] as usize / 2];
    // The page provider has its turn when the system gives it one.
    let settled = until(|| {
        let before = pool.stats();
        read_at_random(&space, hot, 10_000, &mut random);
        let stats = pool.stats();
        let [first, second] = [0, 1].map(|tier| stats.tiers[tier].hits - before.tiers[tier].hits);
        second < 500 && first > 9000
    });
    let stats = pool.stats();
    assert!(settled, "what is read on and on is still found in the second tier: {stats:?}");
    assert!(stats.tier_promotions >= hot.len() as u64 / 2, "{stats:?}");
    assert_eq!(stats.evictions, 0);
}

/// Whether this comes true within a minute.
fn until(mut is_true: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if is_true() {
            return true;
        }
        if begun.elapsed() > Duration::from_secs(60) {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The four probabilities do what they are called.
#[test]
fn probabilities_of_nothing_move_nothing() {
    let none = Migration {
        read_promotes: 0.0,
        write_promotes: 0.0,
        loads_to_slower: 0.0,
        evicts_to_slower: 0.0,
    };
    // What a pool tells when `is_enough` or, where nothing is to happen, after some rounds.
    let after = |migration, is_enough: &dyn Fn(&PoolStats) -> bool| {
        let disk = disk();
        let pool = open_tiers::<Array>(&disk, tiers(1, 300, migration), FileState::NEW).unwrap();
        let space = pool.create_space().unwrap();
        let pages = create_many(&space, 1000);
        let (mut random, mut rounds) = (Random::new(2), 0);
        until(|| {
            rounds += 1;
            read_at_random(&space, &pages, 1000, &mut random);
            (0..100).for_each(|_| increment(&space, pages[random.index(pages.len())]).unwrap());
            rounds >= 5 && is_enough(&pool.stats())
        });
        pool.stats()
    };
    let stats = after(none, &|_| true);
    assert_eq!((stats.tier_promotions, stats.tier_demotions), (0, 0));
    let down = Migration { evicts_to_slower: 1.0, ..none };
    let stats = after(down, &|stats| stats.tier_demotions > 500);
    assert!(stats.tier_promotions == 0 && stats.tier_demotions > 500, "{stats:?}");
    let loads = Migration { loads_to_slower: 1.0, ..none };
    let stats = after(loads, &|stats| stats.tiers[1].hits > 500);
    assert_eq!((stats.tier_promotions, stats.tier_demotions), (0, 0));
    assert!(stats.tiers[1].hits > 500, "{stats:?}");
    for up in
        [Migration { read_promotes: 1.0, ..loads }, Migration { write_promotes: 1.0, ..loads }]
    {
        let stats = after(up, &|stats| stats.tier_promotions > 200);
        assert!(stats.tier_promotions > 200 && stats.tier_demotions == 0, "{stats:?}");
    }
}

/// A sweep for dirty pages misses none that goes from tier to tier meanwhile.
#[test]
fn a_flush_misses_no_page_that_migrates() {
    for seed in 0..polder_testkit::effort::scale() * 3 {
        let disk = disk();
        let pool = open_tiers::<Array>(&disk, tiers(1, 300, RESTLESS), FileState::NEW).unwrap();
        let space = pool.create_space().unwrap();
        let pages = create_many(&space, 350);
        let mut random = Random::new(seed);
        pool.flush().unwrap();
        for round in 1..20 {
            pages.iter().for_each(|page| increment(&space, *page).unwrap());
            let done = AtomicBool::new(false);
            thread::scope(|scope| {
                for thread in 0..3 {
                    let (done, space, pages) = (&done, &space, &pages);
                    scope.spawn(move || {
                        let mut random = Random::new(seed << 8 | thread);
                        while !done.load(Ordering::Relaxed) {
                            read_at_random(space, pages, 10, &mut random);
                        }
                    });
                }
                thread::sleep(Duration::from_millis(random.index(3) as u64));
                pool.flush().unwrap();
                done.store(true, Ordering::Relaxed);
            });
            // What the device has now is complete.
            let other = open_tiers::<Array>(&disk, TierConfig::default(), pool.file_state());
            let other = other.unwrap();
            let space = other.open_space(space.id()).unwrap();
            for page in &pages {
                assert_eq!(read(&space, *page).unwrap(), round, "seed {seed}");
            }
        }
        let stats = pool.stats();
        assert!(stats.tier_promotions > 100 && stats.tier_demotions > 100, "{stats:?}");
    }
}

/// Under each policy threads lose nothing, and the policies know where each page is.
#[test]
fn every_policy_serves_tiers() {
    for replacement in ReplacementKind::ALL {
        for slower in [1, 2] {
            let least = config(1, FileState::NEW);
            let config = PoolConfig {
                replacement: *replacement,
                tiers: tiers(slower, 64, RESTLESS),
                memory_budget: least.memory_budget + BESIDE * 64 * slower as u64,
                ..least
            };
            let disk = disk();
            let pool = Pool::<Array>::open(Box::new(disk.clone()), &config, &[KIND]).unwrap();
            let space = pool.create_space().unwrap();
            let pages = create_many(&space, 500);
            let counts: Vec<_> = (0..500).map(|_| std::sync::atomic::AtomicU64::new(0)).collect();
            thread::scope(|scope| {
                for thread in 0..4 {
                    let (space, pages, counts) = (&space, &pages, &counts);
                    scope.spawn(move || {
                        let mut random = Random::new(thread);
                        for _ in 0..2000 {
                            let at = match random.chance(0.5) {
                                true => random.index(100),
                                false => random.index(500),
                            };
                            if random.chance(0.3) {
                                increment(space, pages[at]).unwrap();
                                counts[at].fetch_add(1, Ordering::Relaxed);
                            } else {
                                read(space, pages[at]).unwrap();
                            }
                        }
                    });
                }
            });
            for (page, count) in pages.iter().zip(&counts) {
                assert_eq!(read(&space, *page).unwrap(), count.load(Ordering::Relaxed));
            }
            let mut random = Random::new(7);
            let moved = until(|| {
                read_at_random(&space, &pages, 500, &mut random);
                let stats = pool.stats();
                stats.tier_promotions.min(stats.tier_demotions).min(stats.evictions) > 50
            });
            assert!(moved, "{replacement}: {:?}", pool.stats());
        }
    }
}

/// Slow memory that is simulated is slow.
#[test]
fn simulated_latency_is_waited_for() {
    let loads = Migration {
        loads_to_slower: 1.0,
        read_promotes: 0.0,
        write_promotes: 0.0,
        ..Migration::default()
    };
    let latency = Duration::from_micros(100);
    let mut tiers = tiers(1, 300, loads);
    tiers.slower[0] = tiers.slower[0].simulated(latency);
    let disk = disk();
    let pool = open_tiers::<Array>(&disk, tiers.clone(), FileState::NEW).unwrap();
    let space = pool.create_space().unwrap();
    let pages = create_many(&space, 40);
    let ids = [space.id()];
    pool.flush().unwrap();
    let file = pool.file_state();
    drop((space, pool));
    let pool = open_tiers::<Array>(&disk, tiers, file).unwrap();
    let space = pool.open_space(ids[0]).unwrap();
    pages.iter().for_each(|page| _ = read(&space, *page).unwrap());
    let (begun, hits) = (Instant::now(), pool.stats().tiers[1].hits);
    assert!(hits < 40, "an access that had its page loaded did not find it there: {hits}");
    pages.iter().for_each(|page| _ = read(&space, *page).unwrap());
    assert!(pool.stats().tiers[1].hits - hits >= 40);
    assert!(begun.elapsed() >= latency * 40 * Tier::SIMULATED_LINES, "{:?}", begun.elapsed());
}

/// What cannot be is refused, and says what and why.
#[test]
fn impossible_tiers_are_refused() {
    fn refused<T: Translation>(tiers: TierConfig, why: &str) {
        let opened = open_tiers::<T>(&disk(), tiers, FileState::NEW);
        let message = opened.expect_err(why).to_string();
        assert!(message.starts_with("tiers: ") && message.contains(why), "{message}");
    }
    let usual = Migration::default();
    refused::<Direct>(tiers(1, 100, usual), "`direct`");
    if EVERY_TRANSLATION {
        refused::<VmHuge>(tiers(1, 100, usual), "`vm-huge`");
        let mut named = tiers(1, 100, usual);
        named.first_node = Some(0);
        refused::<Vm>(named.clone(), "node of each tier");
        named.page_moves.batch = 0;
        refused::<Vm>(named, "a batch of 0 pages");
    }
    refused::<Array>(tiers(4, 100, usual), "5 tiers");
    refused::<Array>(tiers(1, 63, usual), "at least 262144");
    let unlikely = Migration { evicts_to_slower: 1.5, ..usual };
    refused::<Array>(tiers(1, 100, unlikely), "`evicts_to_slower`");
    let on_node = TierConfig { first_node: Some(1023), ..TierConfig::default() };
    refused::<Array>(on_node, "no node 1023");
    let mut far = tiers(1, 100, usual);
    far.slower[0] = far.slower[0].on_node(999);
    refused::<Array>(far, "no node 999");
}

/// Promotions are worth nothing where both tiers are as fast; and much where accesses to the second one
/// wait. The pool finds out, and says so.
#[test]
fn a_pool_finds_out_whether_to_promote() {
    let read_promotes = |latency| {
        let disk = disk();
        let slow = Tier::new(400 * PAGE_BYTES).simulated(latency);
        let tiers = TierConfig { slower: vec![slow], ..TierConfig::default() };
        let pool = open_tiers::<Array>(&disk, tiers, FileState::NEW).unwrap();
        let space = pool.create_space().unwrap();
        let pages = create_many(&space, 450);
        let mut random = Random::new(1);
        // Most accesses are to a fifth of the pages, which changes.
        let mut at = 0;
        let mut reads = |times: usize| {
            for _ in 0..times {
                at += 1;
                let among = if random.index(10) < 9 { 90 } else { pages.len() };
                read(&space, pages[(at / 500 + random.index(among)) % pages.len()]).unwrap();
            }
            pool.stats().migration.unwrap()
        };
        let begin = reads(1);
        assert_eq!((begin.loads_to_slower, begin.evicts_to_slower), (0.0, 1.0));
        let goes_up = !latency.is_zero();
        let found = until(|| {
            let now = reads(2000).read_promotes;
            if goes_up { now > 0.2 } else { now < 0.01 }
        });
        assert!(found, "{latency:?}: {begin:?}, {:?}", reads(1));
    };
    read_promotes(Duration::ZERO);
    read_promotes(Duration::from_micros(20));
}
