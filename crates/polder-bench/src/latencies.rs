//! Latencies as results give them: a few quantiles, and the longest.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Nanoseconds, or what became of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Latencies<T> {
    pub(crate) p50_ns: T,
    pub(crate) p99_ns: T,
    pub(crate) p999_ns: T,
    /// The longest of those that were timed.
    pub(crate) max_ns: T,
}

impl Latencies<u64> {
    /// Those of a histogram.
    pub(crate) fn of(all: &Histogram<u64>) -> Latencies<u64> {
        Latencies {
            p50_ns: all.value_at_quantile(0.5),
            p99_ns: all.value_at_quantile(0.99),
            p999_ns: all.value_at_quantile(0.999),
            max_ns: all.max(),
        }
    }
}

impl<T: Copy> Latencies<T> {
    /// The same of each.
    pub(crate) fn map<R>(&self, change: impl Fn(T) -> R) -> Latencies<R> {
        let [p50_ns, p99_ns, p999_ns, max_ns] =
            [self.p50_ns, self.p99_ns, self.p999_ns, self.max_ns].map(change);
        Latencies { p50_ns, p99_ns, p999_ns, max_ns }
    }
}
