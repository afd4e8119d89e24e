//! A graph in pages, and going through it breadth first.
//!
//! A node is a page: its number, how many neighbours the page names, where more of them are, and
//! the page numbers of the neighbours. Nodes with many neighbours go on in further pages.

use polder_format::{PageNo, PageSize};
use polder_pool::bytes::PageMut;
use polder_pool::{AccessHint, PoolError, Space, Translation};

use super::measured::LINE_BYTES;
use super::pages::{self, CONTENT_AT};
use crate::error::BenchError;
use crate::interrupt::Interrupt;

/// Size of pages.
pub(crate) const PAGE: PageSize = PageSize::MIN;
/// Where a node's number is: what a probe reads.
const NODE_AT: usize = CONTENT_AT;
const COUNT_AT: usize = CONTENT_AT + 8;
/// Page number of where its neighbours go on; 0 for none.
const MORE_AT: usize = CONTENT_AT + 16;
const NEIGHBOURS_AT: usize = CONTENT_AT + 24;
/// Neighbours that one page names.
const A_PAGE: usize = (PAGE.bytes() - NEIGHBOURS_AT) / 8;
/// Nodes between two looks for an interrupt.
const NODES_PER_LOOK: u64 = 4096;
/// What a prefetch asks for: the line that a probe reads.
const PROBED_BYTES: usize = CONTENT_AT + 8;

/// Pages of a node with so many neighbours.
pub(crate) fn pages_of(neighbours: usize) -> u64 {
    neighbours.div_ceil(A_PAGE).max(1) as u64
}

/// Lines that a walk goes to in the page of a node with so many neighbours, if it has but one.
pub(crate) const fn lines_of(neighbours: usize) -> u64 {
    ((NEIGHBOURS_AT + 8 * neighbours) as u64).div_ceil(LINE_BYTES)
}

/// Makes the pages of a graph. `neighbours` appends those of a node. Gives the nodes' pages.
pub(crate) fn build<T: Translation>(
    space: &Space<T>,
    nodes: u64,
    interrupt: &Interrupt,
    mut neighbours: impl FnMut(u64, &mut Vec<u64>),
) -> Result<Vec<PageNo>, BenchError> {
    let made = pages::make(space, nodes, |node, page| page.set_u64(NODE_AT, node))?;
    let mut named = Vec::new();
    for node in 0..nodes {
        if node.is_multiple_of(NODES_PER_LOOK) {
            interrupt.check()?;
        }
        named.clear();
        neighbours(node, &mut named);
        let links: Vec<u64> = named.iter().map(|&n| made[n as usize].get()).collect();
        let (first, rest) = links.split_at(links.len().min(A_PAGE));
        // From the last page to the first, so that each knows the next.
        let mut more = 0;
        for chunk in rest.chunks(A_PAGE).rev() {
            let page = pages::make(space, 1, |_, page| write(page, chunk, more))?;
            more = page[0].get();
        }
        change(space, made[node as usize], |page| write(page, first, more))?;
    }
    Ok(made)
}

fn write(page: &mut PageMut<'_>, links: &[u64], more: u64) {
    page.set_u64(COUNT_AT, links.len() as u64);
    page.set_u64(MORE_AT, more);
    for (i, link) in links.iter().enumerate() {
        page.set_u64(NEIGHBOURS_AT + 8 * i, *link);
    }
}

fn change<T: Translation>(
    space: &Space<T>,
    page: PageNo,
    write: impl Fn(&mut PageMut<'_>),
) -> Result<(), PoolError> {
    space.run(AccessHint::Normal, |attempt| {
        let guard = space.page(attempt, page)?;
        let mut held = attempt.upgrade(guard)?;
        write(&mut held.page_mut());
        Ok(())
    })
}

/// What a whole walk came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) nodes: u64,
    pub(crate) depth: u64,
    pub(crate) sum_of_depths: u64,
}

/// A walk through a graph, breadth first, node by node.
pub(crate) struct Walk<'s, T: Translation> {
    space: &'s Space<T>,
    /// Whether the pages of all neighbours are asked for before the first is read.
    prefetch: bool,
    start: PageNo,
    /// A bit for each node.
    visited: Vec<u64>,
    /// Pages of the nodes that were found; those before `next` have been visited.
    queue: Vec<PageNo>,
    next: usize,
    depth: u64,
    sum_of_depths: u64,
    /// Where in the queue the nodes of this depth end.
    depth_end: usize,
    names: Box<[PageNo; A_PAGE]>,
    found: Box<[u64; A_PAGE]>,
}

impl<'s, T: Translation> Walk<'s, T> {
    /// Nothing is allocated later on.
    pub(crate) fn new(
        space: &'s Space<T>,
        nodes: u64,
        start: PageNo,
        prefetch: bool,
    ) -> Walk<'s, T> {
        let mut walk = Walk {
            space,
            prefetch,
            start,
            visited: vec![0; nodes.div_ceil(64) as usize],
            queue: Vec::with_capacity(nodes as usize),
            next: 0,
            depth: 0,
            sum_of_depths: 0,
            depth_end: 0,
            names: Box::new([PageNo::MAX; A_PAGE]),
            found: Box::new([0; A_PAGE]),
        };
        walk.begin();
        walk
    }

    fn begin(&mut self) {
        self.visited.fill(0);
        self.queue.clear();
        self.next = 0;
        (self.depth, self.sum_of_depths) = (0, 0);
        self.queue.push(self.start);
        self.depth_end = 1;
    }

    /// Visits the next node; begins again behind the last one.
    pub(crate) fn step(&mut self) -> Result<(), PoolError> {
        if self.next == self.queue.len() {
            self.begin();
        }
        if self.next == 0 {
            self.mark_start()?;
        }
        self.visit()
    }

    /// All nodes once.
    pub(crate) fn whole(&mut self, interrupt: &Interrupt) -> Result<Reached, BenchError> {
        self.begin();
        self.mark_start()?;
        while self.next < self.queue.len() {
            if (self.next as u64).is_multiple_of(NODES_PER_LOOK) {
                interrupt.check()?;
            }
            self.visit()?;
        }
        Ok(Reached {
            nodes: self.queue.len() as u64,
            depth: self.depth,
            sum_of_depths: self.sum_of_depths,
        })
    }

    /// A node's number is known from its page alone.
    fn mark_start(&mut self) -> Result<(), PoolError> {
        let node = self.space.run(AccessHint::Normal, |attempt| {
            let guard = self.space.page(attempt, self.start)?;
            let node = guard.page().u64(NODE_AT);
            guard.validate()?;
            Ok(node)
        })?;
        mark(&mut self.visited, node);
        Ok(())
    }

    /// The node's page is read as one state, then each neighbour's page is gone to and one word of
    /// it read and validated, in one attempt for all of them.
    fn visit(&mut self) -> Result<(), PoolError> {
        if self.next == self.depth_end {
            self.depth += 1;
            self.depth_end = self.queue.len();
        }
        self.sum_of_depths += self.depth;
        let mut page = self.queue[self.next];
        self.next += 1;
        let (space, names, found) = (self.space, &mut *self.names, &mut *self.found);
        loop {
            let (count, more) = space.run(AccessHint::Normal, |attempt| {
                let guard = space.page(attempt, page)?;
                let bytes = guard.page();
                let count = (bytes.u64(COUNT_AT) as usize).min(A_PAGE);
                for (i, name) in names[..count].iter_mut().enumerate() {
                    let link = bytes.u64(NEIGHBOURS_AT + 8 * i);
                    *name = PageNo::new(link).unwrap_or(PageNo::MAX);
                }
                let more = bytes.u64(MORE_AT);
                guard.validate()?;
                Ok((count, more))
            })?;
            if self.prefetch {
                names[..count].iter().for_each(|name| space.prefetch_part(*name, 0..PROBED_BYTES));
            }
            space.run(AccessHint::Normal, |attempt| {
                for (name, found) in names[..count].iter().zip(&mut *found) {
                    let guard = space.page(attempt, *name)?;
                    *found = guard.page().u64(NODE_AT);
                    guard.validate()?;
                }
                Ok(())
            })?;
            for (name, node) in names[..count].iter().zip(&*found) {
                if mark(&mut self.visited, *node) {
                    self.queue.push(*name);
                }
            }
            match PageNo::new(more) {
                Some(next) if more != 0 => page = next,
                _ => return Ok(()),
            }
        }
    }
}

/// Whether it was not marked before.
#[inline(always)]
fn mark(visited: &mut [u64], node: u64) -> bool {
    let Some(word) = visited.get_mut((node / 64) as usize) else { return false };
    let bit = 1 << (node % 64);
    let is_new = *word & bit == 0;
    *word |= bit;
    is_new
}

#[cfg(test)]
mod tests {
    use polder_pool::Array;

    use super::*;
    use crate::ladder::setup::testing::{assert_half_full, run};

    #[test]
    fn graphs_fill_half_of_their_pool() {
        run(|setup| {
            let (nodes, neighbours) = (300u64, 3 * A_PAGE + 1);
            assert_eq!((pages_of(0), pages_of(A_PAGE), pages_of(neighbours)), (1, 1, 4));
            let pages = nodes * pages_of(neighbours);
            let pool = setup.resident_pool::<Array>(PAGE, pages, &[pages::KIND]).unwrap();
            let space = pool.create_space().unwrap();
            let made = build(&space, nodes, setup.interrupt, |node, named| {
                named.extend((0..neighbours as u64).map(|i| (node + i) % nodes));
            })
            .unwrap();
            assert_half_full(&pool, "a graph");
            let walked = Walk::new(&space, nodes, made[0], true).whole(setup.interrupt).unwrap();
            assert_eq!(walked, Reached { nodes, depth: 1, sum_of_depths: nodes - 1 });
        });
    }

    #[test]
    fn lines_are_those_of_what_a_visit_reads() {
        assert_eq!((lines_of(0), lines_of(1), lines_of(44)), (1, 1, 7));
        assert_eq!(lines_of(A_PAGE), 64);
    }
}
