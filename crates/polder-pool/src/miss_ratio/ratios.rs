//! What users get: miss ratios by the size of memory.

#![cfg(not(loom))]

/// Distances have so many counts at most.
const MOST_COUNTS: usize = 1024;

/// How many accesses that were noted had which distance, in sampled pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Histogram {
    /// Element `i`: distances from `i * width` on.
    near: Box<[u64]>,
    width: usize,
    /// Accesses whose page was not known.
    far: u64,
}

impl Histogram {
    /// For distances below `kept`.
    pub(super) fn new(kept: usize) -> Histogram {
        let width = kept.div_ceil(MOST_COUNTS).max(1);
        Histogram { near: vec![0; kept.div_ceil(width)].into(), width, far: 0 }
    }

    /// Distances that are as long as those that are forgotten count as such.
    pub(super) fn add(&mut self, distance: Option<usize>) {
        match distance.and_then(|distance| self.near.get_mut(distance / self.width)) {
            Some(count) => *count += 1,
            None => self.far += 1,
        }
    }

    fn all(&self) -> u64 {
        self.near.iter().sum::<u64>() + self.far
    }

    /// Accesses from this distance on.
    fn from(&self, distance: f64) -> f64 {
        let at = distance / self.width as f64;
        let (first, part) = (at as usize, at.fract());
        let whole: u64 = self.near.iter().skip(first + 1).sum();
        // Within a count as if it was the same for each distance.
        let cut = self.near.get(first).map_or(0.0, |count| *count as f64 * (1.0 - part));
        cut + (whole + self.far) as f64
    }
}

/// Misses by the size of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Curve {
    /// One page in so many is sampled.
    pub(super) interval: u64,
    pub(super) page_bytes: u64,
    pub(super) misses: Histogram,
}

/// Which share of all accesses would miss, with more memory or less: that of a pool that evicts the
/// least recently used page, for the accesses that this one had since it was opened, by a sample of its
/// pages (SHARDS, FAST 2015). The first access to a page counts as a miss at every size.
///
/// The pool's own policy mostly misses less often; how often it did tell `hits` and `faults` of the
/// statistics. Sizes are those of frames alone: a memory budget pays for a little more.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MissRatios {
    /// One page in so many is sampled.
    pub interval: u64,
    /// All accesses of the pool.
    pub accesses: u64,
    /// Accesses to sampled pages that were noted. The fewer they are the less the ratios tell; a few
    /// thousand are enough.
    pub noted: u64,
    /// Accesses to sampled pages that were not noted, because another thread noted one just then.
    pub dropped: u64,
    /// For each tier of memory, the fastest first: what half of it and twice of it would give. There is
    /// one for a pool without tiers; none before anything was accessed.
    pub tiers: Vec<TierMissRatios>,
    curve: Curve,
}

/// Miss ratios by the size of one tier of memory, from 0 to 1: accesses that would find their page
/// neither there nor in a faster tier.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct TierMissRatios {
    /// Frames of the tier and of all faster ones.
    pub frames: u64,
    /// With half of the tier, and all of the faster ones.
    pub half: f64,
    /// With the tiers as they are.
    pub once: f64,
    /// With twice the tier.
    pub twice: f64,
}

impl MissRatios {
    pub(super) fn new(curve: Curve, accesses: u64, dropped: u64, tiers: &[u64]) -> MissRatios {
        let (interval, noted) = (curve.interval, curve.misses.all());
        let mut ratios =
            MissRatios { interval, accesses, noted, dropped, tiers: Vec::new(), curve };
        let starts = [0].iter().chain(tiers);
        let of_tiers = starts.zip(tiers).map(|(&start, &end)| {
            let at = |frames: u64| ratios.at_frames(frames);
            let frames = end - start;
            let (half, once, twice) = (at(start + frames / 2)?, at(end)?, at(end + frames)?);
            Some(TierMissRatios { frames: end, half, once, twice })
        });
        let of_tiers = of_tiers.flatten().collect();
        ratios.tiers = of_tiers;
        ratios
    }

    /// The most frames of which the curve tells something: four times those of the pool.
    pub fn most_frames(&self) -> u64 {
        let Curve { misses, interval, .. } = &self.curve;
        (misses.near.len() * misses.width) as u64 * interval
    }

    /// The share of accesses that would miss with so many frames, from 0 to 1. `None` where they are
    /// more than [`MissRatios::most_frames`], and before anything was accessed.
    pub fn at_frames(&self, frames: u64) -> Option<f64> {
        if self.accesses == 0 || frames > self.most_frames() {
            return None;
        }
        let Curve { misses, interval, .. } = &self.curve;
        let found = misses.from(frames as f64 / *interval as f64);
        // `MRC-5`
        let lost = 1.0 + self.dropped as f64 / self.noted.max(1) as f64;
        let misses = found * lost * *interval as f64;
        Some((misses / self.accesses as f64).min(1.0))
    }

    /// The same for so many bytes of frames.
    pub fn at_bytes(&self, bytes: u64) -> Option<f64> {
        self.at_frames(bytes / self.curve.page_bytes.max(1))
    }
}
