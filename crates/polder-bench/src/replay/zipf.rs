//! Traces that are made: pages by Zipf's law, and the lookups of leanstore-2018, VI-B.

use rand_distr::Distribution;

use super::trace::Trace;
use crate::dist::zipf;
use crate::random::{Random, RngExt, stream};

/// A request in so many of a made trace only fills the cache.
const WARMUP_SHARE: usize = 5;

/// Pages drawn by Zipf's law.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zipfian {
    pub(crate) theta: f64,
    pub(crate) pages: u32,
    pub(crate) requests: u32,
    /// How many requests in a hundred change their page, drawn for each by itself.
    pub(crate) write_percent: u8,
}

impl Zipfian {
    pub(super) fn trace(&self) -> Trace {
        let zipf = zipf(self.pages.into(), self.theta);
        let mut trace = made(self.requests, self.pages, |random, trace| {
            trace.requests.push(zipf.sample(random) as u32 - 1);
        });
        if self.write_percent > 0 {
            // Of another stream, so that the pages are the same whatever is written.
            let mut random = stream(1, 1);
            let is_write = |_| random.random_range(..100u64) < u64::from(self.write_percent);
            trace.writes = (0..trace.requests.len()).map(is_write).collect();
        }
        trace
    }
}

/// The lookups whose hit ratios leanstore-2018 gives in VI-B: 41 M records of 8 + 120 bytes in a
/// B-tree of 5 GB, keys by Zipf's law with exponent 1.0, a pool of 1 GB, pages of 16 KiB.
///
/// The paper does not say what a trace of "all page accesses" holds. One reading fits its figures:
/// * The key of rank `k` is the `k`th in key order, so that popular keys share leaves. (Scattered
///   over the leaves they would give LRU 82.4%, with the root counted 88.3%.)
/// * A lookup accesses an inner page and a leaf. The root above them is not counted: its reference
///   lies in no page, so it is never a candidate. (Leaves alone would give LRU 87.5%, with the root
///   counted 95.8%.)
/// * The cold start is not counted: the first fifth of the requests.
///
/// The figures in brackets follow from theory (Che's approximation), as the tests use it.
///
/// 5 GiB are 327,680 pages, which makes 125 records a leaf. An inner page of 16 KiB has about a
/// thousand children of 8 + 8 bytes.
///
/// Requests are page accesses, two for each lookup.
pub(super) fn paper(requests: u32) -> Trace {
    const RECORDS: u64 = 41_000_000;
    const RECORDS_PER_LEAF: u64 = 125;
    const CHILDREN: u64 = 1000;
    let leaves = RECORDS.div_ceil(RECORDS_PER_LEAF);
    let zipf = zipf(RECORDS, 1.0);
    made(requests, (leaves + leaves.div_ceil(CHILDREN)) as u32, |random, trace| {
        let leaf = (zipf.sample(random) as u64 - 1) / RECORDS_PER_LEAF;
        trace.requests.push((leaves + leaf / CHILDREN) as u32);
        trace.requests.push(leaf as u32);
    })
}

/// Draws until there are enough requests.
pub(super) fn made(
    requests: u32,
    pages: u32,
    mut draw: impl FnMut(&mut Random, &mut Trace),
) -> Trace {
    let requests = requests as usize;
    let mut random = stream(1, 0);
    let mut trace = Trace { pages, warmup: requests / WARMUP_SHARE, ..Trace::default() };
    while trace.requests.len() < requests {
        draw(&mut random, &mut trace);
    }
    trace
}
