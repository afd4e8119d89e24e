//! Walking a whole index and reporting each broken invariant with its page.
//!
//! Each node and bucket by itself (`HNODE-1` to `HNODE-3`, `BUCKET-1` to `BUCKET-5`), prefixes and
//! levels against the parent (`HASH-1`, `HASH-3`), chains, and all of these against the allocation
//! maps: a page that is linked but free, linked twice (`HASH-2`), or in use but linked nowhere.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;

use polder_format::{PageId, PageNo};
use polder_pool::bytes::PageBuf;
use polder_pool::{AccessHint, PoolError, Translation};

use crate::bucket::BucketRef;
use crate::chain::MAX_CHAIN;
use crate::descent::root;
use crate::error::HashError;
use crate::hash::Prefix;
use crate::index::HashIndex;
use crate::node::NodeRef;
use crate::page;

/// Faults that are kept; an index with more is beyond reading them.
const MAX_FAULTS: usize = 1000;

/// One broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub page: PageId,
    /// What.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.page, self.what)
    }
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Pages that were looked at.
    pub pages: u64,
    /// Nodes among them.
    pub nodes: u64,
    /// Levels of nodes.
    pub levels: u8,
    /// Entries that were seen.
    pub entries: u64,
    /// What is wrong; empty if the index is sound.
    pub faults: Vec<Fault>,
    /// Whether the check was stopped before it was done.
    pub stopped: bool,
}

/// What the page above says of a page.
struct Expected {
    page: PageNo,
    level: Option<u8>,
    prefix: Prefix,
    /// Pages of the chain before it, and the keys in them; none for the first one.
    chain: Option<(usize, BTreeSet<Vec<u8>>)>,
}

struct Walk<'i, T: Translation> {
    index: &'i HashIndex<T>,
    report: Report,
    seen: BTreeSet<PageNo>,
}

impl<T: Translation> HashIndex<T> {
    /// Checks the whole index. Writers at work meanwhile can make it report faults that are none.
    ///
    /// `progress` is told how many pages are done, and stops the check by returning false.
    ///
    /// # Errors
    /// Those of the allocation maps; a page that cannot be loaded is a fault in the report.
    pub fn check(&self, progress: &mut dyn FnMut(u64) -> bool) -> Result<Report, HashError> {
        let mut walk = Walk { index: self, report: Report::default(), seen: BTreeSet::new() };
        walk.run(progress);
        if !walk.report.stopped {
            walk.compare_with_maps()?;
        }
        Ok(walk.report)
    }
}

impl<T: Translation> Walk<'_, T> {
    fn fault(&mut self, page: PageNo, what: impl Into<String>) {
        if self.report.faults.len() < MAX_FAULTS {
            let page = PageId::new(self.index.space.id(), page);
            self.report.faults.push(Fault { page, what: what.into() });
        }
    }

    /// Depth first; the stack holds what is still to be seen.
    fn run(&mut self, progress: &mut dyn FnMut(u64) -> bool) {
        let mut todo =
            vec![Expected { page: root(), level: None, prefix: Prefix::ALL, chain: None }];
        while let Some(expected) = todo.pop() {
            if !progress(self.report.pages) {
                self.report.stopped = true;
                return;
            }
            if !self.visit_once(expected.page) {
                continue;
            }
            let Some(copy) = self.copy_page(expected.page) else { continue };
            if page::prefix(copy.page()) != expected.prefix {
                self.fault(expected.page, "the prefix is not what the page above says");
            }
            let level = page::level(copy.page());
            if expected.level.is_some_and(|expected| expected != level) {
                self.fault(expected.page, "the page is not one level below the one above");
            }
            match level {
                0 => self.bucket(expected, BucketRef::new(copy.page()), &mut todo),
                _ => self.node(&expected, NodeRef::new(copy.page()), &mut todo),
            }
        }
    }

    /// False, and a fault, if the page was seen before.
    fn visit_once(&mut self, page: PageNo) -> bool {
        let first = self.seen.insert(page);
        if first {
            self.report.pages += 1;
        } else {
            self.fault(page, "two links lead to this page");
        }
        first
    }

    /// `None`, and a fault, if the page cannot be read.
    fn copy_page(&mut self, page: PageNo) -> Option<PageBuf> {
        let space = &self.index.space;
        let mut copy = PageBuf::new(space.page_size());
        let copied = space.run(AccessHint::Scan, |attempt| {
            let guard = space.page(attempt, page)?;
            copy.copy_from(guard.page());
            guard.validate()
        });
        match copied {
            Ok(()) => Some(copy),
            Err(error) => {
                self.fault(page, with_source(&error));
                None
            }
        }
    }

    fn node(&mut self, expected: &Expected, node: NodeRef<'_>, todo: &mut Vec<Expected>) {
        if let Err(what) = node.verify_shape() {
            return self.fault(expected.page, what);
        }
        self.report.nodes += 1;
        self.report.levels = self.report.levels.max(node.level());
        let level = node.level().checked_sub(1);
        todo.extend(node.children().map(|(prefix, link)| Expected {
            page: PageId::from_link(link).page(),
            level,
            prefix,
            chain: None,
        }));
    }

    fn bucket(&mut self, expected: Expected, bucket: BucketRef<'_>, todo: &mut Vec<Expected>) {
        if let Err(what) = bucket.verify_whole() {
            return self.fault(expected.page, what);
        }
        self.report.entries += bucket.count() as u64;
        if expected.chain.is_none() && !bucket.has_next() {
            return;
        }
        let (pages, mut keys) = expected.chain.unwrap_or_default();
        for entry in 0..bucket.count() {
            let (run, mut key) = (bucket.key(entry), Vec::new());
            bucket.page().append_to(run.at, run.len, &mut key);
            if !keys.insert(key) {
                self.fault(expected.page, "a key is twice in a chain");
            }
        }
        if pages + 1 > MAX_CHAIN {
            self.fault(expected.page, "a chain is too long");
        }
        if bucket.has_next() {
            todo.push(Expected {
                page: PageId::from_link(bucket.next()).page(),
                level: Some(0),
                prefix: Prefix::only(bucket.chain_hash()),
                chain: Some((pages + 1, keys)),
            });
        }
    }

    fn compare_with_maps(&mut self) -> Result<(), HashError> {
        let used: BTreeSet<PageNo> = self.index.space.used_pages()?.into_iter().collect();
        let seen = std::mem::take(&mut self.seen);
        for page in seen.difference(&used) {
            self.fault(*page, "the page is linked, but the allocation map says that it is free");
        }
        // Below a page that could not be read pages are unseen, not lost.
        if self.report.faults.is_empty() {
            for page in used.difference(&seen) {
                self.fault(*page, "the page is in use by the allocation map, but nothing links it");
            }
        }
        Ok(())
    }
}

/// An error with its causes, in one line.
fn with_source(error: &PoolError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
