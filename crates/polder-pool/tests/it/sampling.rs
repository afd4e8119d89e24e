//! Pools that sample their pages to tell miss ratios: what a pool must do holds in them, and what they
//! tell is so.

use std::num::NonZeroU32;

use polder_pool::{AccessHint, Array, FileState, Migration, Pool, PoolConfig, Sampling, Space};
use polder_testkit::Random;

use crate::conformance;
use crate::support::*;

/// The conformance suite, where the pool hears of all accesses to one page in so many.
macro_rules! sampled {
    ($($translation:ident as $module:ident one in $interval:literal and $tiers:literal tiers,)+
     => $tests:tt) => {
        $(mod $module { sampled!(@ $translation $interval $tiers $tests); })+
    };
    (@ $translation:ident $interval:literal $tiers:literal [$($test:ident,)+]) => {
        $(#[test] fn $test() {
            fn test() {
                super::sampling(
                    $interval,
                    super::conformance::$test::<polder_pool::$translation>,
                );
            }
            polder_testkit::if_built!($translation, super::in_tiers($tiers, test));
        })+
    };
}
conformance::suite!(
    sampled
    Array as array one in 1 and 1 tiers,
    Array as array_in_tiers one in 2 and 2 tiers,
    Swizzle as swizzle one in 2 and 1 tiers,
    Swizzle as swizzle_in_tiers one in 1 and 2 tiers,
    Vm as vm one in 1 and 1 tiers,
);

/// What the test knows of its accesses: how many other pages there were since the last one to the same.
#[derive(Default)]
struct Exact {
    /// The last page is the last one.
    recent: Vec<usize>,
    distances: Vec<Option<usize>>,
}

impl Exact {
    fn access(&mut self, page: usize) {
        let at = self.recent.iter().rposition(|known| *known == page);
        self.distances.push(at.map(|at| self.recent.len() - 1 - at));
        at.map(|at| self.recent.remove(at));
        self.recent.push(page);
    }

    fn misses(&self, frames: u64) -> f64 {
        let misses = self.distances.iter().filter(|d| d.is_none_or(|d| d as u64 >= frames));
        misses.count() as f64
    }
}

fn sampled(
    interval: u32,
    times: u64,
    tiers: polder_pool::TierConfig,
) -> (Pool<Array>, Space<Array>) {
    let beside: u64 = tiers.slower.iter().map(|tier| tier.bytes / PAGE_BYTES * BESIDE).sum();
    let config = config(times, FileState::NEW);
    let miss_ratios = Sampling::OneIn(NonZeroU32::new(interval).unwrap());
    let memory_budget = config.memory_budget + beside;
    let config = PoolConfig { miss_ratios, tiers, memory_budget, ..config };
    let pool = Pool::open(Box::new(disk()), &config, &[KIND]).unwrap();
    let space = pool.create_space().unwrap();
    (pool, space)
}

/// The misses that a pool tells of a stream of accesses are those of the stream, at all sizes, with
/// tiers and without.
#[test]
fn what_a_pool_tells_is_so() {
    for (interval, most, slower) in [(1, 0.02, 0), (4, 0.04, 0), (4, 0.04, 1)] {
        let tiers = tiers(slower, 512, Migration::default());
        let (pool, space) = sampled(interval, 4, tiers);
        let frames = pool.stats().frames;
        let pages = create_many(&space, 3 * frames as usize);
        pool.flush().unwrap();
        let before = pool.stats().miss_ratios.unwrap();
        let (mut exact, mut random) = (Exact::default(), Random::new(7));
        let mut scan = 0..0;
        for _ in 0..40_000 {
            let (page, hint) = match scan.next() {
                Some(page) => (page, AccessHint::Scan),
                None => {
                    if random.chance(0.001) {
                        let start = random.index(pages.len() / 2);
                        scan = start..start + pages.len() / 4;
                    }
                    // Small numbers more often than large ones.
                    let skewed = random.index(pages.len()).min(random.index(pages.len()));
                    (skewed.min(random.index(pages.len())), AccessHint::Normal)
                }
            };
            read_as(&space, pages[page], hint).unwrap();
            exact.access(page);
        }
        let after = pool.stats().miss_ratios.unwrap();
        assert_eq!(after.interval, u64::from(interval));
        // Those to the maps of the file are told as well.
        let accesses = after.accesses - before.accesses;
        assert!((40_000..80_000).contains(&accesses), "{accesses}");
        let (mut error, mut misses_at_all) = (0.0, 0.0f64);
        for eighths in 1..=24 {
            let size = frames * eighths / 8;
            let told = |ratios: &polder_pool::MissRatios| {
                ratios.at_frames(size).unwrap() * ratios.accesses as f64
            };
            let (found, expected) = (told(&after) - told(&before), exact.misses(size));
            misses_at_all = misses_at_all.max(expected);
            error += (found - expected).abs() / 40_000.0 / 24.0;
        }
        println!("one in {interval}, {slower} slower: {error:.4}");
        assert!(misses_at_all > 20_000.0);
        assert!(error < most, "one in {interval}, {slower} slower: {error:.4}");
        // Half of a tier, the tier, and twice the tier, behind those before it.
        assert_eq!(after.tiers.len(), slower + 1);
        let mut start = 0;
        for tier in &after.tiers {
            let size = tier.frames - start;
            let at = |frames| after.at_frames(frames).unwrap();
            assert_eq!(tier.half, at(start + size / 2));
            assert_eq!(tier.once, at(tier.frames));
            assert_eq!(tier.twice, at(tier.frames + size));
            assert_eq!(after.at_bytes(tier.frames * PAGE_BYTES), Some(tier.once));
            start = tier.frames;
        }
        assert_eq!(start, frames);
        assert_eq!(after.at_frames(after.most_frames() + 1), None);
    }
}

/// Nothing is told where nobody asked for it, and of too few frames.
#[test]
fn a_pool_tells_nothing_unless_it_is_to() {
    let told = |miss_ratios, times| {
        let config = PoolConfig { miss_ratios, ..config(times, FileState::NEW) };
        let pool = Pool::<Array>::open(Box::new(disk()), &config, &[KIND]).unwrap();
        pool.stats().miss_ratios.is_some()
    };
    assert!(!told(Sampling::Off, 64));
    assert!(!told(Sampling::On, 4));
    assert!(told(Sampling::On, 64));
}
