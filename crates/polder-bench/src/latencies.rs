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

impl<T> Latencies<T> {
    /// Made of what `make` gives for each field, which it is told as a way to get at that of
    /// others.
    pub(crate) fn each<S: Copy>(make: impl Fn(fn(&Latencies<S>) -> S) -> T) -> Latencies<T> {
        Latencies {
            p50_ns: make(|of| of.p50_ns),
            p99_ns: make(|of| of.p99_ns),
            p999_ns: make(|of| of.p999_ns),
            max_ns: make(|of| of.max_ns),
        }
    }

    /// The same of each.
    pub(crate) fn map<R>(&self, change: impl Fn(T) -> R) -> Latencies<R>
    where
        T: Copy,
    {
        Latencies::each(|of: fn(&Latencies<T>) -> T| change(of(self)))
    }
}
