//! The pool's own curve of miss ratios, from a sample of the pages, beside the exact one of LRU.

use polder_pool::MissRatios;
use polder_pool::miss_ratio::Sampler;

use super::frames::id;
use super::trace::{Tally, Trace};
use super::{CacheSize, Player, references};
use crate::error::BenchError;

/// Sizes at which the curves are compared: halves of the cache, up to what the sampled one tells.
const SIZES: u32 = 8;

/// Whether a cache is large enough for a sample.
pub(super) fn has_sample(frames: u32) -> bool {
    Sampler::new(frames.into()).is_some()
}

/// Hits by the sampled curve, and the mean of what it differs by from the exact one, for a cache that
/// [`has_sample`].
pub(super) fn run(trace: &Trace, frames: u32) -> Result<Tally, BenchError> {
    let sampler = Sampler::new(frames.into()).expect("the cache is large enough");
    let ratios = |requests: usize| sampler.ratios(requests as u64, &[frames.into()], 1);
    let mut before = ratios(0);
    let tally = trace.count(|request, page, _| {
        if request == trace.warmup {
            before = ratios(request);
        }
        sampler.hear(id(page));
        Ok(false)
    })?;
    let after = ratios(trace.requests.len());
    let misses = |of: &MissRatios, frames| {
        of.at_frames(frames).map_or(0.0, |ratio| ratio * of.accesses as f64)
    };
    let requests = tally.requests.max(1) as f64;
    let sampled =
        |frames: u32| (misses(&after, frames.into()) - misses(&before, frames.into())) / requests;
    let mut errors = 0.0;
    for frames in (1..=SIZES).map(|halves| (frames / 2).saturating_mul(halves)) {
        let exact = references::run(Player::Lru, trace, CacheSize::Frames(frames))?;
        errors += (sampled(frames) - (exact.requests - exact.hits) as f64 / requests).abs();
    }
    let hits = requests * (1.0 - sampled(frames)).clamp(0.0, 1.0);
    let curve_error = Some(errors / f64::from(SIZES));
    Ok(Tally { hits: hits.round() as u64, curve_error, ..tally })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{Source, Zipfian};

    /// On traces that are made, and on one of a system where that is at hand.
    #[test]
    fn the_sampled_curve_is_near_the_exact_one() {
        let zipfian =
            |theta| Zipfian { theta, pages: 100_000, requests: 600_000, write_percent: 0 };
        let mut sources = vec![
            (Source::Zipfian(zipfian(0.7)), 0.02),
            (Source::Zipfian(zipfian(1.0)), 0.01),
            (Source::Mixed { requests: 600_000 }, 0.02),
        ];
        let data = polder_testkit::found::data("traces/OLTP.lis.zst");
        sources.extend(data.map(|path| (Source::File(path, None), 0.02)));
        for (source, most) in sources {
            let trace = source.trace().unwrap();
            let tally = run(&trace, 16_384).unwrap();
            let error = tally.curve_error.unwrap();
            println!("{}: {error:.4}", source.name());
            assert!(error < most, "{}: {error:.4}", source.name());
        }
    }

    #[test]
    fn a_small_cache_has_no_sample() {
        assert!(!has_sample(1000) && has_sample(8192));
    }
}
