//! The pool's own curve of miss ratios, from a sample of the pages, beside the exact one of LRU.

use polder_pool::miss_ratio::Sampler;

use super::Tally;
use super::frames::id;
use super::trace::Trace;
use crate::error::BenchError;

/// Sizes at which the curves are compared: eighths of the cache, up to what the sampled one tells.
const SIZES: u64 = 32;

/// Whether a cache is large enough for a sample.
pub(super) fn has_sample(frames: u32) -> bool {
    Sampler::new(frames.into()).is_some()
}

/// Hits by the sampled curve, and the mean of what it differs by from the exact one, for a cache that
/// [`has_sample`].
pub(super) fn run(trace: &Trace, frames: u32) -> Result<Tally, BenchError> {
    let frames = u64::from(frames);
    let sampler = Sampler::new(frames).expect("the cache is large enough");
    let ratios = |requests: u64| sampler.ratios(requests, &[frames], 1);
    let (mut before, mut exact) = (ratios(0), Distances::new(trace));
    let warmup = trace.warmup as u64;
    let tally = trace.count(|request, page, _| {
        if request as u64 == warmup {
            before = ratios(warmup);
        }
        sampler.hear(id(page));
        exact.request(page, request, request as u64 >= warmup);
        Ok(false)
    })?;
    let after = ratios(trace.requests.len() as u64);
    let sampled = |frames| {
        let misses = |of: &polder_pool::MissRatios| {
            of.at_frames(frames).map_or(0.0, |ratio| ratio * of.accesses as f64)
        };
        (misses(&after) - misses(&before)) / tally.requests.max(1) as f64
    };
    let sizes = (1..=SIZES).map(|size| frames * size / 8);
    let error = |size| (sampled(size) - exact.misses(size) / tally.requests.max(1) as f64).abs();
    let mean = sizes.map(error).sum::<f64>() / SIZES as f64;
    let hits = tally.requests as f64 * (1.0 - sampled(frames)).clamp(0.0, 1.0);
    Ok(Tally { hits: hits.round() as u64, curve_error: Some(mean), ..tally })
}

/// How many other pages were asked for since the last request for the same: a tree of sums over the
/// requests that are the last ones of their pages (Bennett and Kruskal, IBM Journal of Research and
/// Development 1975).
struct Distances {
    /// The last request for each page, counted from 1.
    last: Vec<u32>,
    sums: Vec<u32>,
    /// Requests that count, by their distances.
    counts: Vec<u64>,
    /// Those for pages that were never asked for before.
    first: u64,
}

impl Distances {
    fn new(trace: &Trace) -> Distances {
        Distances {
            last: vec![0; trace.pages as usize],
            sums: vec![0; trace.requests.len() + 1],
            counts: vec![0; trace.pages as usize],
            first: 0,
        }
    }

    fn request(&mut self, page: u32, request: usize, counts: bool) {
        let now = request + 1;
        let last = std::mem::replace(&mut self.last[page as usize], now as u32) as usize;
        if last > 0 {
            let distance = self.sum(now - 1) - self.sum(last);
            self.counts[distance as usize] += u64::from(counts);
            self.change(last, |sum| sum - 1);
        } else {
            self.first += u64::from(counts);
        }
        self.change(now, |sum| sum + 1);
    }

    fn change(&mut self, mut at: usize, to: impl Fn(u32) -> u32) {
        while at < self.sums.len() {
            self.sums[at] = to(self.sums[at]);
            at += at & at.wrapping_neg();
        }
    }

    fn sum(&self, mut at: usize) -> u32 {
        let mut sum = 0;
        while at > 0 {
            sum += self.sums[at];
            at &= at - 1;
        }
        sum
    }

    fn misses(&self, frames: u64) -> f64 {
        let far: u64 = self.counts.iter().skip(frames as usize).sum();
        (far + self.first) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{CacheSize, Mixed, Order, Player, Source, Zipfian, play};

    /// On traces that are made, and on one of a system where that is at hand.
    #[test]
    fn the_sampled_curve_is_near_the_exact_one() {
        let zipfian =
            |theta| Zipfian { theta, pages: 100_000, requests: 600_000, write_percent: 0 };
        let mut sources = vec![
            (Source::Zipfian(zipfian(0.7)), 0.02),
            (Source::Zipfian(zipfian(1.0)), 0.01),
            (Source::Mixed(Mixed { requests: 600_000 }), 0.02),
        ];
        let data = polder_testkit::found::data("traces/OLTP.lis.zst");
        sources.extend(data.map(|path| (Source::File(path, None), 0.02)));
        for (source, most) in sources {
            let trace = source.trace().unwrap();
            let tally = run(&trace, 16_384).unwrap();
            let error = tally.curve_error.unwrap();
            println!("{}: {error:.4}", source.name());
            assert!(error < most, "{}: {error:.4}", source.name());
            // What it is compared with is the exact curve.
            let mut exact = Distances::new(&trace);
            for (request, page) in trace.requests.iter().enumerate() {
                exact.request(*page, request, request >= trace.warmup);
            }
            for frames in [1000, 16_384] {
                let lru = Player::Reference(Order::Lru);
                let played = play(lru, &trace, CacheSize::Frames(frames)).unwrap();
                assert_eq!((played.requests - played.hits) as f64, exact.misses(frames.into()));
                assert_eq!(played.requests, tally.requests);
            }
        }
    }

    #[test]
    fn a_small_cache_has_no_sample() {
        assert!(!has_sample(1000) && has_sample(8192));
    }
}
