//! A trace: which page is asked for, one request after the other, and whether it is changed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{CacheSize, Tally};
use crate::error::BenchError;

/// The most that a trace can have: the optimum keeps positions in 32 bits, and one value for none.
pub(crate) const MOST_REQUESTS: u64 = u32::MAX as u64 - 1;

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

/// How much the cache holds, and how much of it each page takes.
#[derive(Debug)]
pub(super) struct Room<'a> {
    pub(super) all: u64,
    bytes: Option<&'a [u32]>,
}

impl Room<'_> {
    /// What the page takes.
    pub(super) fn of(&self, page: u32) -> u64 {
        self.bytes.map_or(1, |bytes| u64::from(bytes[page as usize]))
    }
}

/// Which pages in the cache were changed since they came in. A page that goes while it is dirty is
/// written to the device.
#[derive(Debug)]
pub(super) struct Dirty {
    /// By page; empty where no request changes one.
    pages: Vec<bool>,
    written: u64,
}

impl Dirty {
    /// The page leaves the cache.
    pub(super) fn evict(&mut self, page: u32) {
        if let Some(dirty) = self.pages.get_mut(page as usize) {
            self.written += u64::from(std::mem::take(dirty));
        }
    }
}

impl Trace {
    /// Whether the request with this number changes its page.
    pub(super) fn is_write(&self, request: usize) -> bool {
        self.writes.get(request).is_some_and(|write| *write)
    }

    /// In bytes only for pages that have sizes: [`super::Replay::new`] sees to that.
    pub(super) fn room(&self, size: CacheSize) -> Room<'_> {
        match size {
            CacheSize::Frames(frames) => Room { all: u64::from(frames), bytes: None },
            CacheSize::Bytes(all) => Room { all, bytes: Some(&self.bytes) },
        }
    }

    /// Counts hits and the pages that are written as they go; `is_hit` is asked of each request in
    /// turn, and says which pages go. Pages that are dirty at the end are not written. (Traces
    /// whose pages have sizes have no writes: a page that is larger than the cache is never
    /// dirty.)
    pub(super) fn count(
        &self,
        mut is_hit: impl FnMut(usize, u32, &mut Dirty) -> Result<bool, BenchError>,
    ) -> Result<Tally, BenchError> {
        let mut tally = Tally::default();
        let has_writes = !self.writes.is_empty();
        debug_assert!(!has_writes || self.bytes.is_empty());
        let pages = if has_writes { self.pages as usize } else { 0 };
        let mut dirty = Dirty { pages: vec![false; pages], written: 0 };
        for (at, &page) in self.requests.iter().enumerate() {
            let written_before = dirty.written;
            let hit = is_hit(at, page, &mut dirty)?;
            if self.is_write(at) {
                dirty.pages[page as usize] = true;
            }
            let counts = u64::from(at >= self.warmup);
            tally.requests += counts;
            tally.hits += counts * u64::from(hit);
            tally.writes += counts * (dirty.written - written_before);
        }
        Ok(tally)
    }
}

/// Gives pages their dense numbers.
#[derive(Debug, Default)]
pub(super) struct Builder {
    trace: Trace,
    numbers: HashMap<u64, u32>,
}

impl Builder {
    /// A request for the page that its source calls `id`, which it may change. Fails where numbers
    /// run out.
    pub(super) fn request(&mut self, id: u64, writes: bool) -> Result<(), String> {
        let number = self.number(id)?.0;
        let before = self.trace.requests.len();
        self.push(number)?;
        if writes && self.trace.writes.is_empty() {
            self.trace.writes.resize(before, false);
        }
        if writes || !self.trace.writes.is_empty() {
            self.trace.writes.push(writes);
        }
        Ok(())
    }

    /// A request that changes nothing, for an object that knows its size.
    pub(super) fn request_sized(&mut self, id: u64, bytes: u32) -> Result<(), String> {
        let (number, is_new) = self.number(id)?;
        if is_new {
            self.trace.bytes.push(bytes);
        }
        self.push(number)
    }

    fn push(&mut self, number: u32) -> Result<(), String> {
        if self.trace.requests.len() as u64 == MOST_REQUESTS {
            return Err(format!("there are more than {MOST_REQUESTS} requests"));
        }
        self.trace.requests.push(number);
        Ok(())
    }

    fn number(&mut self, id: u64) -> Result<(u32, bool), String> {
        match self.numbers.entry(id) {
            Entry::Occupied(known) => Ok((*known.get(), false)),
            Entry::Vacant(new) => {
                let number = self.trace.pages;
                self.trace.pages =
                    number.checked_add(1).ok_or("there are more than 2^32 - 1 pages")?;
                Ok((*new.insert(number), true))
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.trace.requests.is_empty()
    }

    pub(super) fn finish(self) -> Trace {
        self.trace
    }
}
