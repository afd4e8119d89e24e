//! Walking a whole tree and reporting each broken invariant with its page.
//!
//! Each node by itself (`NODE-1` to `NODE-5`), its fences against its parent's separators, levels,
//! right links along each level, chains of overflow pages, and all of these against the allocation
//! maps: a page that is linked but free, linked twice, or in use but linked nowhere.

use std::collections::BTreeSet;
use std::fmt;

use polder_format::{PageId, PageKind, PageNo, header_at};
use polder_pool::bytes::PageBuf;
use polder_pool::{AccessHint, PoolError, Translation};

use crate::error::TreeError;
use crate::node::{NodeRef, Value};
use crate::overflow::{self, Long, page_of};
use crate::tree::Tree;

/// Faults that are kept; a tree with more is beyond reading them.
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
    /// Entries that were seen.
    pub entries: u64,
    /// What is wrong; empty if the tree is sound.
    pub faults: Vec<Fault>,
    /// Whether the check was stopped before it was done.
    pub stopped: bool,
}

/// What a parent says of a child.
struct Expected {
    page: PageNo,
    level: Option<u8>,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
}

struct Walk<'t, T: Translation> {
    tree: &'t Tree<T>,
    report: Report,
    seen: BTreeSet<PageNo>,
    /// On each level the node before, and where its right link leads.
    before: Vec<Option<(PageNo, u64)>>,
    copy: PageBuf,
}

impl<T: Translation> Tree<T> {
    /// Checks the whole tree. Writers at work meanwhile can make it report faults that are none.
    ///
    /// `progress` is told how many pages are done, and stops the check by returning false.
    ///
    /// # Errors
    /// Those of the allocation maps; a node that cannot be loaded is a fault in the report.
    pub fn check(&self, progress: &mut dyn FnMut(u64) -> bool) -> Result<Report, TreeError> {
        let mut walk = Walk {
            tree: self,
            report: Report::default(),
            seen: BTreeSet::new(),
            before: Vec::new(),
            copy: PageBuf::new(self.space.page_size()),
        };
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
            let page = PageId::new(self.tree.space.id(), page);
            self.report.faults.push(Fault { page, what: what.into() });
        }
    }

    /// Depth first, left to right; the stack holds what is still to be seen, the next one last.
    fn run(&mut self, progress: &mut dyn FnMut(u64) -> bool) {
        let root = Expected { page: Tree::<T>::root(), level: None, lower: None, upper: None };
        let mut todo = vec![root];
        while let Some(expected) = todo.pop() {
            if !progress(self.report.pages) {
                self.report.stopped = true;
                return;
            }
            if self.visit_once(expected.page) && self.copy_page(expected.page) {
                self.node(&expected, &mut todo);
            }
        }
        for (_, link) in self.before.clone().into_iter().flatten() {
            if link != 0 {
                self.fault(page_of(link), "the right link of the last node leads here");
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

    /// False, and a fault, if the page cannot be read.
    fn copy_page(&mut self, page: PageNo) -> bool {
        let (space, copy) = (&self.tree.space, &mut self.copy);
        let copied = space.run(AccessHint::Scan, |attempt| {
            let guard = space.page(attempt, page)?;
            copy.copy_from(guard.page());
            guard.validate()
        });
        if let Err(error) = copied {
            self.fault(page, with_source(&error));
            return false;
        }
        true
    }

    fn node(&mut self, expected: &Expected, todo: &mut Vec<Expected>) {
        let page = expected.page;
        // The walk needs the node while it notes faults.
        let mut copy = PageBuf::new(self.tree.space.page_size());
        copy.copy_from(self.copy.page());
        let node = NodeRef::new(copy.page());
        if !node.is_node() {
            return self.fault(page, "this is not a node of a tree");
        }
        if let Err(what) = node.verify_whole() {
            return self.fault(page, what);
        }
        if expected.level.is_some_and(|level| level != node.level()) {
            return self.fault(page, "the node is not one level below its parent");
        }
        if node.lower_fence() != expected.lower {
            self.fault(page, "the lower fence is not what the parent says");
        }
        if node.upper_fence() != expected.upper {
            self.fault(page, "the upper fence is not what the parent says");
        }
        self.follow_level(page, node);
        if node.is_leaf() {
            self.report.entries += node.count() as u64;
            self.chains(node);
        } else {
            children(node, expected, todo);
        }
    }

    /// The right link of the node before must lead here.
    fn follow_level(&mut self, page: PageNo, node: NodeRef<'_>) {
        let level = usize::from(node.level());
        if self.before.len() <= level {
            self.before.resize(level + 1, None);
        }
        let link = PageId::new(self.tree.space.id(), page).to_bits();
        if let Some((before, right)) = self.before[level]
            && right != link
        {
            self.fault(before, format!("the right link does not lead to {page:?}"));
        }
        self.before[level] = Some((page, node.right_link()));
    }

    fn chains(&mut self, node: NodeRef<'_>) {
        for slot in 0..node.count() {
            if let Value::Overflow { len, link } = node.value(slot) {
                self.chain(Long { len, link });
            }
        }
    }

    fn chain(&mut self, long: Long) {
        let (mut link, mut bytes) = (long.link, 0);
        while link != 0 {
            let page = page_of(link);
            if !self.visit_once(page) || !self.copy_page(page) {
                return;
            }
            let copy = self.copy.page();
            if copy.u8(header_at::KIND) != PageKind::OVERFLOW.0 {
                return self.fault(page, "a value continues here, but this is no overflow page");
            }
            bytes += u64::from(copy.u32(overflow::at::LEN));
            link = copy.u64(overflow::at::NEXT);
        }
        if bytes != long.len {
            let what = format!("a value of {} bytes has {bytes} in its overflow pages", long.len);
            self.fault(page_of(long.link), what);
        }
    }

    fn compare_with_maps(&mut self) -> Result<(), TreeError> {
        let used: BTreeSet<PageNo> = self.tree.space.used_pages()?.into_iter().collect();
        let seen = std::mem::take(&mut self.seen);
        for page in seen.difference(&used) {
            self.fault(*page, "the page is linked, but the allocation map says that it is free");
        }
        // Below a node that could not be read pages are unseen, not lost.
        if self.report.faults.is_empty() {
            for page in used.difference(&seen) {
                self.fault(*page, "the page is in use by the allocation map, but nothing links it");
            }
        }
        Ok(())
    }
}

/// The children of a node, the first one on top of the stack.
fn children(node: NodeRef<'_>, expected: &Expected, todo: &mut Vec<Expected>) {
    let separator = |slot: usize| {
        let mut key = Vec::new();
        node.append_key(slot, &mut key);
        Some(key)
    };
    let count = node.count();
    for index in (0..=count).rev() {
        todo.push(Expected {
            page: page_of(node.link(index)),
            level: node.level().checked_sub(1),
            lower: if index == 0 { expected.lower.clone() } else { separator(index - 1) },
            upper: if index == count { expected.upper.clone() } else { separator(index) },
        });
    }
}

/// An error with its causes, in one line.
fn with_source(error: &PoolError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
