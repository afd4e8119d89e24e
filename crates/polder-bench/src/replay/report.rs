//! What a replay prints: a table, or a JSON line for each row.

use std::fmt::Write as _;

use serde::Serialize;

use super::{CacheSize, Paper, Tally};

/// One policy at one size on one trace; the JSON line.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Replayed {
    pub(crate) trace: String,
    pub(crate) policy: String,
    /// Of `frames` and `bytes` one is null.
    pub(crate) frames: Option<u32>,
    pub(crate) bytes: Option<u64>,
    pub(crate) requests: u64,
    pub(crate) hits: u64,
    pub(crate) hit_percent: f64,
    pub(crate) misses: u64,
    /// Dirty pages that went, each of which is written to the device. Those that are dirty at the
    /// end are not among them.
    pub(crate) writes: u64,
    /// Hits of which the policy heard; 0 for the references, which know the trace.
    pub(crate) heard: u64,
    /// Of the whole replay, the simulation's own share included.
    pub(crate) ns_per_request: f64,
    /// What a paper says.
    pub(crate) paper_percent: Option<f64>,
    /// Of the curve that a sample gives: the mean of what its miss ratios differ by from those of exact
    /// LRU, at sizes from an eighth of this one to four times it.
    pub(crate) curve_error: Option<f64>,
}

impl Replayed {
    pub(super) fn new(
        trace: &str,
        policy: &str,
        size: CacheSize,
        tally: Tally,
        ns_per_request: f64,
        paper_percent: Option<f64>,
    ) -> Replayed {
        let (frames, bytes) = match size {
            CacheSize::Frames(frames) => (Some(frames), None),
            CacheSize::Bytes(bytes) => (None, Some(bytes)),
        };
        let Tally { requests, hits, heard, writes } = tally;
        Replayed {
            trace: trace.to_owned(),
            policy: policy.to_owned(),
            frames,
            bytes,
            requests,
            hits,
            hit_percent: 100.0 * hits as f64 / requests.max(1) as f64,
            misses: requests - hits,
            writes,
            heard,
            ns_per_request,
            paper_percent,
            curve_error: None,
        }
    }

    fn size(&self) -> CacheSize {
        match (self.frames, self.bytes) {
            (Some(frames), _) => CacheSize::Frames(frames),
            (None, bytes) => CacheSize::Bytes(bytes.unwrap_or(0)),
        }
    }
}

/// A table for people, row by row, with a heading for each trace and size.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// What the last heading was for.
    below: Option<(String, CacheSize)>,
}

impl Table {
    /// The line of a row, and before it the heading, where there is need of one.
    pub(crate) fn row(&mut self, row: &Replayed) -> String {
        let mut text = String::new();
        let (trace, size) = (row.trace.as_str(), row.size());
        if self.below.as_ref().is_none_or(|below| (below.0.as_str(), below.1) != (trace, size)) {
            self.below = Some((trace.to_owned(), size));
            let has_paper = trace == Paper::NAME && size == CacheSize::Frames(Paper::FRAMES);
            let paper = if has_paper { format!(" {:>8}", "paper") } else { String::new() };
            let _ = writeln!(text, "{trace}, {}, {} requests", size.show(), row.requests);
            let _ = writeln!(
                text,
                "  {:<12} {:>12} {:>9} {:>12} {:>12} {:>9} {:>11}{paper}",
                "policy", "hits", "hit ratio", "misses", "writes", "heard", "ns/request"
            );
        }
        let paper = match row.paper_percent {
            Some(percent) => format!(" {percent:>7.1}%"),
            None => String::new(),
        };
        let _ = write!(
            text,
            "  {:<12} {:>12} {:>8.3}% {:>12} {:>12} {:>8.3}% {:>11.1}{paper}",
            row.policy,
            row.hits,
            row.hit_percent,
            row.misses,
            row.writes,
            100.0 * row.heard as f64 / row.requests.max(1) as f64,
            row.ns_per_request
        );
        if let Some(error) = row.curve_error {
            let _ = write!(text, "  (its curve is {:.3}% off on average)", 100.0 * error);
        }
        text
    }
}
