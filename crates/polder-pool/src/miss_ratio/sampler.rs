//! Which pages are sampled, and what is noted of accesses to them.

#![cfg(not(loom))]

use std::fmt;
use std::num::NonZeroU32;

use polder_format::PageId;

use super::ratios::{Curve, Histogram, MissRatios};
use super::recency::Recency;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{CachePadded, Mutex, lock};

/// Sampled pages in as many as the pool has frames, where it is large.
const WANTED: u64 = 2048;
/// Of so many pages one is sampled, at least: in a pool of few frames fewer than wanted are sampled, so
/// that what is noted costs little (`docs/results.md`, miss-ratios).
const LEAST_INTERVAL: u64 = 128;
/// The fewest frames of a pool that has a sampler: in fewer there are too few sampled pages to tell
/// anything.
const LEAST_FRAMES: u64 = 64 * LEAST_INTERVAL;
/// Distances are known up to so many times the pool.
const RANGE: u64 = 4;

/// Places for pages that were noted last, a power of two.
const RECENT: usize = 256;
/// The most pages that count as noted last.
const MOST_RECENT: u64 = 64;
/// Of the sampled pages in a pool, that many parts are one that is noted again at once.
const RECENT_PART: u64 = 32;

/// Whether a pool samples its pages, to tell what more memory or less would give, and how many of them
/// ([`PoolConfig::miss_ratios`](crate::PoolConfig)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sampling {
    /// It does not.
    #[default]
    Off,
    /// As many as cost little: about 2,048 in as many pages as there is memory for, and at most one in
    /// 128; none in a pool of fewer than 8,192 frames, where they would be too few to tell anything.
    On,
    /// One page in so many; for experiments.
    OneIn(NonZeroU32),
}

impl Sampling {
    /// Memory in bytes for each frame, at most; a little more is fixed.
    pub(crate) fn bytes_per_frame(self) -> u64 {
        let interval = match self {
            Sampling::Off => return 0,
            Sampling::On => LEAST_INTERVAL,
            Sampling::OneIn(interval) => interval.get().into(),
        };
        (RANGE * Recency::BYTES_PER_PAGE as u64).div_ceil(interval)
    }

    /// The sampler of a pool of so many frames.
    pub(crate) fn sampler(self, frames: u64) -> Option<Sampler> {
        match self {
            Sampling::Off => None,
            Sampling::On => Sampler::new(frames),
            Sampling::OneIn(interval) => Some(Sampler::one_in(interval, frames)),
        }
    }
}

/// Which pages are sampled (`MRC-1`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sampled {
    /// Hashes below this.
    below: u64,
}

impl Sampled {
    /// One page in so many.
    pub(crate) fn one_in(interval: u64) -> Sampled {
        Sampled { below: u64::MAX / interval }
    }

    /// The hash of a page that is sampled. No two pages have the same.
    fn hash(self, page: PageId) -> Option<u64> {
        let bits = page.to_bits();
        // Each of these steps can be undone. The upper bits decide, the lower ones are any.
        let mixed = (bits ^ (bits >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let hash = mixed ^ (mixed >> 32);
        (hash < self.below && page.page().get() > FIRST).then_some(hash)
    }

    /// Whether it is sampled.
    pub(crate) fn has(self, page: PageId) -> bool {
        self.hash(page).is_some()
    }
}

/// Page numbers up to this are never sampled: the root of a tree has it.
const FIRST: u64 = 1;

/// Notes accesses to sampled pages, for the curve of miss ratios. A pool of its own has one
/// ([`PoolConfig::miss_ratios`](crate::PoolConfig)); here it is for those that have a trace.
///
/// ```
/// use polder_format::{PageId, PageNo, SpaceId};
/// use polder_pool::miss_ratio::Sampler;
///
/// // A pool of 16,384 frames, and 20,000 pages that are accessed in turn.
/// let sampler = Sampler::new(16_384).expect("it is large enough");
/// let pages: Vec<_> = (0..20_000).filter_map(PageNo::new).collect();
/// for _ in 0..10 {
///     pages.iter().for_each(|page| sampler.hear(PageId::new(SpaceId::CATALOGUE, *page)));
/// }
/// let ratios = sampler.ratios(200_000, &[16_384], 4096);
/// // Each page is gone when its turn comes; with a few more frames none would be.
/// assert!(ratios.tiers[0].once > 0.8 && ratios.tiers[0].twice < 0.2);
/// ```
pub struct Sampler {
    sampled: Sampled,
    /// Of so many pages one is sampled.
    interval: u64,
    /// Pages that count as noted last (`MRC-3`).
    recent_for: u32,
    /// The pages that were noted last, by their hashes: the upper half of a page's hash and when it was
    /// noted. Written by a thread that has `notes`; what is overwritten is noted again too early.
    recent: Box<[AtomicU64]>,
    /// How often something was noted. Written by a thread that has `notes`.
    now: CachePadded<AtomicU32>,
    /// Threads that access pages only try it (`MRC-4`).
    notes: Mutex<Notes>,
    dropped: AtomicU64,
}

struct Notes {
    recency: Recency,
    histogram: Histogram,
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sampler(one page in {})", self.interval)
    }
}

impl Sampler {
    /// For a pool of so many frames. `None`: they are too few (8,192 are enough).
    pub fn new(frames: u64) -> Option<Sampler> {
        let interval = (frames / WANTED).max(LEAST_INTERVAL);
        let interval = u32::try_from(interval).ok().and_then(NonZeroU32::new)?;
        (frames >= LEAST_FRAMES).then(|| Sampler::one_in(interval, frames))
    }

    /// One page in so many is sampled, of a pool of so many frames.
    pub(crate) fn one_in(interval: NonZeroU32, frames: u64) -> Sampler {
        let interval = u64::from(interval.get());
        let recency = Recency::new((RANGE * frames).div_ceil(interval) as usize);
        let histogram = Histogram::new(recency.kept());
        Sampler {
            sampled: Sampled::one_in(interval),
            interval,
            recent_for: (frames / interval / RECENT_PART).clamp(1, MOST_RECENT) as u32,
            recent: (0..RECENT).map(|_| AtomicU64::new(0)).collect(),
            now: CachePadded::default(),
            notes: Mutex::new(Notes { recency, histogram }),
            dropped: AtomicU64::new(0),
        }
    }

    pub(crate) fn sampled(&self) -> Sampled {
        self.sampled
    }

    /// An access to a page, sampled or not (`MRC-3`, `MRC-4`).
    pub fn hear(&self, page: PageId) {
        if let Some(hash) = self.sampled.hash(page)
            && !self.was_just_noted(hash)
        {
            self.note(hash);
        }
    }

    fn was_just_noted(&self, hash: u64) -> bool {
        let seen = self.recent[hash as usize % RECENT].load(Ordering::Relaxed);
        let age = self.now.load(Ordering::Relaxed).wrapping_sub(seen as u32);
        seen >> 32 == hash >> 32 && age < self.recent_for
    }

    fn note(&self, hash: u64) {
        let Ok(mut notes) = self.notes.try_lock() else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let distance = notes.recency.access(hash);
        notes.histogram.add(distance);
        // 0 is no time, so that a place without a page has none.
        let now = self.now.load(Ordering::Relaxed).wrapping_add(1).max(1);
        self.now.store(now, Ordering::Relaxed);
        let place = &self.recent[hash as usize % RECENT];
        place.store(hash >> 32 << 32 | u64::from(now), Ordering::Relaxed);
    }

    /// The miss ratios, where so many accesses were made in all, to pages of so many bytes. `tiers` are
    /// the frames up to the end of each tier of memory.
    pub fn ratios(&self, accesses: u64, tiers: &[u64], page_bytes: u64) -> MissRatios {
        let dropped = self.dropped.load(Ordering::Relaxed);
        let misses = lock(&self.notes).histogram.clone();
        let curve = Curve { interval: self.interval, page_bytes, misses };
        MissRatios::new(curve, accesses, dropped, tiers)
    }
}
