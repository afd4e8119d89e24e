//! A trace: which page is asked for, one request after the other, and whether it is changed.

use std::collections::HashMap;

use serde::Serialize;

use super::CacheSize;
use crate::error::BenchError;

/// The most that a trace can have: the optimum keeps positions in 32 bits, and one value for none.
pub(crate) const MOST_REQUESTS: u32 = u32::MAX - 1;

/// Requests by dense page numbers: 0, 1, 2 in the order in which pages first appear.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) requests: Vec<u32>,
    /// Numbers are below this.
    pub(super) pages: u32,
    /// Which requests change their page, in the same order; empty where none does.
    pub(super) writes: Vec<bool>,
    /// Bytes of each page as its first request says; empty where all are equal.
    pub(super) bytes: Vec<u32>,
    /// So many requests at the beginning fill the cache and are not counted.
    pub(super) warmup: usize,
}

/// Hits and writes among the requests that count.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) hits: u64,
    /// Hits of which the policy heard, as the page bore the mark; 0 for the references, which know
    /// the trace.
    pub(crate) heard: u64,
    /// Dirty pages that went, each of which is written to the device. Those that are dirty at the
    /// end are not among them.
    pub(crate) writes: u64,
    /// Of the curve that a sample gives: the mean of what its miss ratios differ by from those of
    /// exact LRU, at sizes from half of this one to four times it.
    pub(crate) curve_error: Option<f64>,
}

impl Trace {
    /// Whether the request with this number changes its page.
    pub(super) fn is_write(&self, request: usize) -> bool {
        self.writes.get(request).is_some_and(|write| *write)
    }

    /// What the page takes of a cache of this size, and what that has in all. In bytes only for
    /// pages that have sizes: [`super::Replay::new`] sees to that.
    pub(super) fn share(&self, page: u32, size: CacheSize) -> (u64, u64) {
        match size {
            CacheSize::Frames(frames) => (1, frames.into()),
            CacheSize::Bytes(bytes) => (self.bytes[page as usize].into(), bytes),
        }
    }

    /// Counts hits and the pages that are written as they go; `is_hit` is asked of each request in
    /// turn, and tells its last argument which pages go. (Traces whose pages have sizes have no
    /// writes: a page that is larger than the cache is never dirty.)
    pub(super) fn count(
        &self,
        mut is_hit: impl FnMut(usize, u32, &mut dyn FnMut(u32)) -> Result<bool, BenchError>,
    ) -> Result<Tally, BenchError> {
        debug_assert!(self.writes.is_empty() || self.bytes.is_empty());
        let mut tally = Tally::default();
        let mut dirty = vec![false; self.pages as usize];
        for (at, &page) in self.requests.iter().enumerate() {
            let mut writes = 0;
            let hit = is_hit(at, page, &mut |gone| {
                writes += u64::from(std::mem::take(&mut dirty[gone as usize]));
            })?;
            dirty[page as usize] |= self.is_write(at);
            if at >= self.warmup {
                tally.requests += 1;
                tally.hits += u64::from(hit);
                tally.writes += writes;
            }
        }
        Ok(tally)
    }
}

/// A trace that is being read, and the dense numbers that pages have so far.
#[derive(Debug, Default)]
pub(super) struct Builder {
    pub(super) trace: Trace,
    numbers: HashMap<u128, u32>,
}

impl Builder {
    /// A request for the page that its source calls `id`; gives whether that is a new one.
    pub(super) fn request(&mut self, id: u128, is_write: bool) -> Result<bool, String> {
        let Trace { requests, writes, pages, .. } = &mut self.trace;
        if requests.len() == MOST_REQUESTS as usize {
            return Err(format!("there are more than {MOST_REQUESTS} requests"));
        }
        let number = *self.numbers.entry(id).or_insert(*pages);
        let is_new = number == *pages;
        *pages += u32::from(is_new);
        requests.push(number);
        writes.push(is_write);
        Ok(is_new)
    }

    pub(super) fn finish(mut self) -> Trace {
        if !self.trace.writes.contains(&true) {
            self.trace.writes = Vec::new();
        }
        self.trace
    }
}
