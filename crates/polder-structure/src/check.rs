//! Walking a whole structure and reporting each broken invariant with its page.
//!
//! The walk knows which pages it has seen: one to which two links lead, one that the allocation maps
//! call free, and one in use to which no link leads are faults of any structure. What lies in a page
//! is looked at by the structure's own function, on a copy that was one state of the page.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;

use polder_format::{PageId, PageNo};
use polder_pool::bytes::{PageBuf, PageRef};
use polder_pool::{AccessHint, PoolError, Space, Translation};

/// Faults that are kept; a structure with more is beyond reading them.
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
    /// Pages among them that lead to others.
    pub nodes: u64,
    /// Levels of such pages.
    pub levels: u8,
    /// Entries that were seen.
    pub entries: u64,
    /// What is wrong; empty if the structure is sound.
    pub faults: Vec<Fault>,
    /// Whether the check was stopped before it was done.
    pub stopped: bool,
}

/// A page that is still to be seen, and what the page says that leads there.
#[derive(Debug)]
pub struct Next<E> {
    /// The page.
    pub page: PageNo,
    /// What it must be.
    pub expected: E,
}

/// A walk through the pages of a structure.
#[derive(Debug)]
pub struct Walk<'s, T: Translation> {
    space: &'s Space<T>,
    /// What was found so far.
    pub report: Report,
    seen: HashSet<PageNo>,
}

impl<'s, T: Translation> Walk<'s, T> {
    /// One that has seen nothing yet.
    pub fn new(space: &'s Space<T>) -> Walk<'s, T> {
        Walk { space, report: Report::default(), seen: HashSet::new() }
    }

    /// The structure's pages.
    pub fn space(&self) -> &'s Space<T> {
        self.space
    }

    /// Notes a fault of a page.
    pub fn fault(&mut self, page: PageNo, what: impl Into<String>) {
        if self.report.faults.len() < MAX_FAULTS {
            let page = PageId::new(self.space.id(), page);
            self.report.faults.push(Fault { page, what: what.into() });
        }
    }

    /// Notes what a check of a page has found.
    pub fn note(&mut self, page: PageNo, seen: Result<(), &'static str>) {
        if let Err(what) = seen {
            self.fault(page, what);
        }
    }

    /// Sees all pages, from the first one on: depth first, as `see` puts those to which a page leads
    /// on the stack; the one that comes next is on top. `progress` is told how many pages are done, and
    /// stops the walk by returning false.
    pub fn run<E>(
        &mut self,
        first: Next<E>,
        progress: &mut dyn FnMut(u64) -> bool,
        mut see: impl FnMut(&mut Self, Next<E>, PageRef<'_>, &mut Vec<Next<E>>),
    ) {
        let mut stack = vec![first];
        while let Some(next) = stack.pop() {
            if !progress(self.report.pages) {
                self.report.stopped = true;
                return;
            }
            if let Some(copy) = self.visit(next.page) {
                see(self, next, copy.page(), &mut stack);
            }
        }
    }

    /// Sees these pages, one after the other. `progress` is as for [`Walk::run`].
    pub fn each(
        &mut self,
        pages: impl IntoIterator<Item = PageNo>,
        progress: &mut dyn FnMut(u64) -> bool,
        mut see: impl FnMut(&mut Self, PageNo, PageRef<'_>),
    ) {
        for number in pages {
            if !progress(self.report.pages) {
                self.report.stopped = true;
                return;
            }
            if let Some(copy) = self.visit(number) {
                see(self, number, copy.page());
            }
        }
    }

    /// A copy of a page. `None`, and a fault, if the page was seen before or cannot be read.
    pub fn visit(&mut self, page: PageNo) -> Option<PageBuf> {
        if !self.seen.insert(page) {
            self.fault(page, "two links lead to this page");
            return None;
        }
        self.report.pages += 1;
        let mut copy = PageBuf::new(self.space.page_size());
        let copied = self.space.run(AccessHint::Scan, |attempt| {
            let guard = self.space.page(attempt, page)?;
            copy.copy_from(guard.page());
            guard.validate()
        });
        copied.map_err(|error| self.fault(page, with_causes(&error))).ok().map(|()| copy)
    }

    /// Ends the walk: what it has seen is compared with the allocation maps, unless it was stopped.
    ///
    /// # Errors
    /// Those of reading the maps.
    pub fn finish(mut self) -> Result<Report, PoolError> {
        if self.report.stopped {
            return Ok(self.report);
        }
        let mut used = self.space.used_pages()?;
        used.sort_unstable();
        let seen = std::mem::take(&mut self.seen);
        let is_free = |page: &PageNo| used.binary_search(page).is_err();
        let mut linked: Vec<PageNo> = seen.iter().copied().filter(is_free).collect();
        linked.sort_unstable();
        for page in linked {
            self.fault(page, "the page is linked, but the allocation map says that it is free");
        }
        // Below a page that could not be read pages are unseen, not lost.
        if self.report.faults.is_empty() {
            for page in used.iter().filter(|page| !seen.contains(page)) {
                self.fault(*page, "the page is in use by the allocation map, but nothing links it");
            }
        }
        Ok(self.report)
    }
}

/// An error with its causes, in one line.
fn with_causes(error: &PoolError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
