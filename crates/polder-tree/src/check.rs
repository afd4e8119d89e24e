//! What a check of a tree looks at, beyond what [`polder_structure::check`] does for all structures:
//! each node by itself (`NODE-1` to `NODE-5`), its fences against its parent's separators, levels,
//! right links along each level, and chains of overflow pages.

use polder_format::{PageId, PageKind, PageNo, header_at};
use polder_pool::Translation;
use polder_pool::bytes::PageRef;
use polder_structure::Report;
use polder_structure::check::{Next, Walk};
use polder_structure::levels::root;
use polder_structure::page::page_of;

use crate::error::TreeError;
use crate::node::{NodeRef, Value};
use crate::overflow::{self, Long};
use crate::tree::Tree;

/// What a parent says of a child. (The root has none.)
#[derive(Default)]
struct Expected {
    level: Option<u8>,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
}

/// On each level the node before, and where its right link leads.
type Before = Vec<Option<(PageNo, u64)>>;

impl<T: Translation> Tree<T> {
    /// Checks the whole tree. Writers at work meanwhile can make it report faults that are none.
    ///
    /// `progress` is told how many pages are done, and stops the check by returning false.
    ///
    /// # Errors
    /// Those of the allocation maps; a node that cannot be loaded is a fault in the report.
    pub fn check(&self, progress: &mut dyn FnMut(u64) -> bool) -> Result<Report, TreeError> {
        let (mut walk, mut before) = (Walk::new(&self.space), Before::new());
        let first = Next { page: root(), expected: Expected::default() };
        walk.run(first, progress, |walk, next, page, todo| {
            see_node(walk, &next, NodeRef::new(page), &mut before, todo);
        });
        if !walk.report.stopped {
            for (_, link) in before.into_iter().flatten().filter(|(_, link)| *link != 0) {
                walk.fault(page_of(link), "the right link of the last node leads here");
            }
        }
        Ok(walk.finish()?)
    }
}

/// Nodes come depth first, from left to right.
fn see_node<T: Translation>(
    walk: &mut Walk<'_, T>,
    next: &Next<Expected>,
    node: NodeRef<'_>,
    before: &mut Before,
    todo: &mut Vec<Next<Expected>>,
) {
    let Next { page, expected } = next;
    if !node.is_node() {
        return walk.fault(*page, "this is not a node of a tree");
    }
    if let Err(what) = node.verify_whole() {
        return walk.fault(*page, what);
    }
    if expected.level.is_some_and(|level| level != node.level()) {
        return walk.fault(*page, "the node is not one level below its parent");
    }
    if node.lower_fence() != expected.lower {
        walk.fault(*page, "the lower fence is not what the parent says");
    }
    if node.upper_fence() != expected.upper {
        walk.fault(*page, "the upper fence is not what the parent says");
    }
    follow_level(walk, *page, node, before);
    if node.is_leaf() {
        walk.report.entries += node.count() as u64;
        for slot in 0..node.count() {
            if let Value::Overflow { len, run, link } = node.value(slot) {
                see_chain(walk, Long { len, run, link });
            }
        }
    } else {
        walk.report.nodes += 1;
        walk.report.levels = walk.report.levels.max(node.level());
        children(node, expected, todo);
    }
}

/// The right link of the node before must lead here.
fn follow_level<T: Translation>(
    walk: &mut Walk<'_, T>,
    page: PageNo,
    node: NodeRef<'_>,
    before: &mut Before,
) {
    let level = usize::from(node.level());
    if before.len() <= level {
        before.resize(level + 1, None);
    }
    let link = PageId::new(walk.space().id(), page).to_bits();
    if let Some((before, right)) = before[level].replace((page, node.right_link()))
        && right != link
    {
        walk.fault(before, format!("the right link does not lead to {page:?}"));
    }
}

fn see_chain<T: Translation>(walk: &mut Walk<'_, T>, long: Long) {
    let (mut link, mut bytes) = (long.link, 0);
    while link != 0 {
        let Some(copy) = walk.visit(page_of(link)) else { return };
        let page: PageRef<'_> = copy.page();
        if page.u8(header_at::KIND) != PageKind::OVERFLOW.0 {
            let what = "a value continues here, but this is no overflow page";
            return walk.fault(page_of(link), what);
        }
        bytes += u64::from(page.u32(overflow::at::LEN));
        link = page.u64(overflow::at::NEXT);
    }
    if bytes != long.len {
        let what = format!("a value of {} bytes has {bytes} in its overflow pages", long.len);
        walk.fault(page_of(long.link), what);
    }
}

/// The children of a node, the first one on top of the stack.
fn children(node: NodeRef<'_>, expected: &Expected, todo: &mut Vec<Next<Expected>>) {
    let count = node.count();
    for index in (0..=count).rev() {
        let (first, last) = (index == 0, index == count);
        let expected = Expected {
            level: node.level().checked_sub(1),
            lower: if first { expected.lower.clone() } else { Some(node.key(index - 1)) },
            upper: if last { expected.upper.clone() } else { Some(node.key(index)) },
        };
        todo.push(Next { page: page_of(node.link(index)), expected });
    }
}
