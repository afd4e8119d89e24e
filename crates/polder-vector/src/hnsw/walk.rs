//! Going through the graph.
//!
//! ```text
//!   nearest: of the nodes that were seen, as many as the search is wide
//!
//!   while there is one of which the links were not read, of the nearest such one:
//!       the links are read; of those that lead to what was not seen:
//!           the state words are asked for, all of them
//!           the vectors are asked for, some ahead of the one that is compared
//!           a page that is missing is asked of the device, all of them together
//!           those are compared as they come; if no page was missing, the last ones when the vectors have
//!               been asked for to which the next node leads
//! ```
//!
//! A node that is being removed is gone through and not found. A walk goes on until a page is missing, so that
//! several of one thread go on together (`crate::together`).

use std::borrow::Borrow;
use std::thread::LocalKey;

use polder_pool::bytes::PageRef;
use polder_pool::{AccessHint, PoolError, Translation};

use super::look::{By, First, Links, Nearer};
use super::matching::Matching;
use super::meta::Entry;
use super::{Core, HnswIndex};
use crate::lent::{Kept, Lent, Memory};
use crate::near::{Near, Nearest};
use crate::node_id::NodeId;
use crate::reads::{Awaited, Reads, Window};
use crate::vectors::Vector;
use crate::visited::Visited;

/// Memory of a search, which the next one of the thread uses again.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) visited: Visited,
    pub(super) nearest: Nearest,
    /// Links of a node, or of many, one after the other, and how far they were gone through. Those that were asked
    /// for lead to what was not seen before.
    pub(super) links: Vec<NodeId>,
    window: Window,
    /// Whether the links of a node are read before all those to which others lead were compared.
    is_ahead: bool,
    /// The links of the node that was seen last.
    fresh: Vec<NodeId>,
    pub(super) matching: Matching,
}

thread_local! {
    static KEPT: Kept<Scratch> = const { Kept::new() };
}

impl Memory for Scratch {
    fn kept() -> &'static LocalKey<Kept<Scratch>> {
        &KEPT
    }

    fn bytes(&self) -> usize {
        self.visited.bytes()
    }
}

impl Scratch {
    /// Keeps nothing any more, and from here on the `width` nearest, all else as well with `keeps_all`.
    pub(super) fn clear(&mut self, width: usize, keeps_all: bool) {
        self.visited.clear();
        self.nearest.clear(width, keeps_all);
        self.clear_links();
        // A search for one node alone goes to the nearest that it sees.
        self.is_ahead = width > 1;
    }

    pub(super) fn clear_links(&mut self) {
        self.links.clear();
        self.window = Window::default();
    }

    /// Appends the links of a node whose page is here. Whether it is.
    #[inline(always)]
    pub(super) fn read_links<T: Translation>(
        &mut self,
        reads: &mut Reads<'_, '_, T>,
        node: NodeId,
        core: &Core,
        level: u8,
    ) -> bool {
        let links = &mut self.links;
        let before = links.len();
        let read = |page: PageRef<'_>| match level {
            0 => {
                core.expected(page, node).links(&core.layout, 0, links);
                true
            }
            _ => core.links_in(page, node, level, links).is_ok(),
        };
        let is_here = reads.read_here(node.page(), read) == Some(true);
        if !is_here {
            links.truncate(before);
        }
        is_here
    }

    /// Goes through the links of the nearest node of which they were not read, and of the next one, until a page
    /// is missing. The last nodes to which the links of one lead are compared when the lines have been asked for
    /// of those to which the links of the next one do, as long as no page was missing: then it costs more to
    /// read what another node, which was not compared, would have made needless.
    #[inline(never)]
    fn go_on_here<T: Translation>(
        &mut self,
        reads: &mut Reads<'_, '_, T>,
        by: By<'_>,
        without_leaving: bool,
    ) -> Result<Waits, PoolError> {
        loop {
            let is_over = self.window.is_over(&self.links);
            let mut keeps = self.is_ahead;
            if is_over || keeps && self.window.has_asked(&self.links) {
                match self.nearest.peek_next() {
                    Some(node) if self.read_links(reads, node, by.core, by.level) => {
                        self.nearest.take_next();
                        self.sift_links();
                    }
                    Some(node) if is_over => {
                        self.nearest.take_next();
                        self.is_ahead = false;
                        return Ok(Waits::Links(node));
                    }
                    // Of those that are looked at now one may be nearer.
                    Some(_) => (self.is_ahead, keeps) = (false, false),
                    None if is_over => return Ok(Waits::Nothing),
                    None => keeps = false,
                }
            }
            let Scratch { nearest, links, window, .. } = self;
            let look = &mut Nearer { by, nearest, without_leaving };
            let awaited = reads.ask_on(links, window, keeps, look)?;
            if awaited > 0 {
                self.is_ahead = false;
                return Ok(Waits::Nodes(awaited));
            }
        }
    }

    /// Appends the links of a node whose page must be read. Gives how many places are awaited.
    #[cold]
    pub(super) fn ask_for_links<T: Translation>(
        &mut self,
        reads: &mut Reads<'_, '_, T>,
        node: NodeId,
        by: By<'_>,
    ) -> Result<usize, PoolError> {
        let Scratch { links, fresh, .. } = self;
        reads.ask(&[node], &mut Links { by, links, fresh })
    }

    /// Appends the links of a node that was awaited.
    pub(super) fn look_at_links<T: Translation>(
        &mut self,
        reads: &mut Reads<'_, '_, T>,
        awaited: Awaited,
        by: By<'_>,
        may_wait: bool,
    ) -> Result<bool, PoolError> {
        let Scratch { links, fresh, .. } = self;
        reads.look_at(awaited, &mut Links { by, links, fresh }, may_wait)
    }

    /// Leaves of the links that were read last those that lead to what was not seen.
    #[inline(always)]
    pub(super) fn sift_links(&mut self) {
        self.visited.insert_all(&mut self.links, self.window.asked());
    }
}

/// For what a search on a level waits.
enum Waits {
    /// The links of this node, whose page is missing.
    Links(NodeId),
    /// So many nodes, which were asked for.
    Nodes(usize),
    /// Nothing: the links of all nodes in sight have been read.
    Nothing,
}

/// Why a search does not go on.
pub(super) enum Halt {
    /// It awaits so many places.
    Awaits(usize),
    /// Its filter is to be asked.
    Judges,
    /// The links of all nodes in sight have been read.
    Over,
}

/// One search, level by level.
pub(super) struct Walk<'w, Q: Borrow<Vector>> {
    pub(super) core: &'w Core,
    pub(super) query: Q,
    pub(super) scratch: Lent<Scratch>,
    /// The level that is gone through.
    level: u8,
    at: At,
    /// Nodes that are leaving are not gone through, as if they were not there.
    without_leaving: bool,
}

/// What is done next.
#[derive(Debug, Clone, Copy)]
enum At {
    /// The node is looked at with which the level begins.
    Begin(NodeId),
    /// It has been looked at.
    Start,
    /// The links of nodes are gone through, the nearest first.
    Nearest,
    /// The links of a node have been read.
    Links,
}

impl<'w, Q: Borrow<Vector>> Walk<'w, Q> {
    pub(super) fn new(core: &'w Core, query: Q) -> Walk<'w, Q> {
        let (scratch, level, at, without_leaving) = (Lent::new(), 0, At::Nearest, false);
        Walk { core, query, scratch, level, at, without_leaving }
    }

    /// Begins to look on a level for as many nodes as are kept in sight; `keeps_all` keeps what is not among the
    /// nearest for later.
    pub(super) fn begin(&mut self, start: NodeId, width: usize, level: u8, keeps_all: bool) {
        self.clear(width, level, keeps_all);
        self.at = At::Begin(start);
        self.scratch.links.push(start);
        self.scratch.sift_links();
        self.scratch.clear_links();
    }

    /// Nothing was seen on a level.
    pub(super) fn clear(&mut self, width: usize, level: u8, keeps_all: bool) {
        (self.level, self.at) = (level, At::Nearest);
        self.scratch.clear(width, keeps_all);
    }

    /// Goes through the level until a page is missing, or the links of the nearest nodes have been read.
    #[inline(always)]
    pub(super) fn go_on<T: Translation>(
        &mut self,
        reads: &mut Reads<'_, '_, T>,
    ) -> Result<Halt, PoolError> {
        let by = By::new(self.core, self.query.borrow(), self.level);
        let (scratch, without_leaving) = (&mut *self.scratch, self.without_leaving);
        loop {
            let awaited = match self.at {
                At::Begin(start) => {
                    self.at = At::Start;
                    let nearest = &mut scratch.nearest;
                    reads.ask(&[start], &mut First { by, nearest, without_leaving })?
                }
                At::Links => {
                    self.at = At::Nearest;
                    scratch.sift_links();
                    0
                }
                At::Start | At::Nearest => {
                    self.at = At::Nearest;
                    match scratch.go_on_here(reads, by, without_leaving)? {
                        Waits::Links(node) => {
                            self.at = At::Links;
                            scratch.ask_for_links(reads, node, by)?
                        }
                        Waits::Nodes(awaited) => awaited,
                        Waits::Nothing => return Ok(Halt::Over),
                    }
                }
            };
            if awaited > 0 {
                return Ok(Halt::Awaits(awaited));
            }
        }
    }

    /// Looks at what was awaited.
    pub(super) fn look<T: Translation>(
        &mut self,
        reads: &mut Reads<'_, '_, T>,
        awaited: Awaited,
        may_wait: bool,
    ) -> Result<bool, PoolError> {
        let by = By::new(self.core, self.query.borrow(), self.level);
        let (scratch, without_leaving) = (&mut *self.scratch, self.without_leaving);
        let nearest = &mut scratch.nearest;
        match self.at {
            At::Start => {
                let first = &mut First { by, nearest, without_leaving };
                reads.look_at(awaited, first, may_wait)
            }
            At::Links => scratch.look_at_links(reads, awaited, by, may_wait),
            _ => reads.look_at(awaited, &mut Nearer { by, nearest, without_leaving }, may_wait),
        }
    }

    /// The level that is gone through.
    pub(super) fn level(&self) -> u8 {
        self.level
    }

    /// What was found on the last level, nearest first.
    pub(super) fn found(&self) -> impl Iterator<Item = Near> {
        self.scratch.nearest.iter()
    }

    /// What is in sight.
    pub(super) fn nearest(&mut self) -> &mut Nearest {
        &mut self.scratch.nearest
    }
}

/// A walk of a thread that does nothing else meanwhile.
pub(super) struct SingleWalk<'r, 'p, T: Translation> {
    index: &'p HnswIndex<T>,
    reads: Reads<'r, 'p, T>,
    walk: Walk<'r, &'r Vector>,
}

impl<T: Translation> HnswIndex<T> {
    /// Goes through levels; the thread does nothing else meanwhile.
    pub(super) fn walk<R>(
        &self,
        query: &Vector,
        search: impl FnOnce(&mut SingleWalk<'_, '_, T>) -> Result<R, PoolError>,
    ) -> Result<R, PoolError> {
        self.space.interleave(AccessHint::Normal, |way| {
            let (index, reads) = (self, Reads::new(&self.space, way));
            search(&mut SingleWalk { index, reads, walk: Walk::new(&self.core, query) })
        })
    }
}

impl<T: Translation> SingleWalk<'_, '_, T> {
    /// Where to begin. None in an empty index.
    pub(super) fn entry(&self) -> Result<Option<Entry>, PoolError> {
        self.index.entry()
    }

    /// From here on nodes that are leaving are not gone through.
    pub(super) fn go_without_leaving(&mut self) {
        self.walk.without_leaving = true;
    }

    /// Goes down from the entry to the level above `last`; gives the nearest node there, or the entry.
    pub(super) fn descend(&mut self, entry: Entry, last: u8) -> Result<NodeId, PoolError> {
        let mut nearest = entry.node;
        for level in (last + 1..=entry.level).rev() {
            self.level(nearest, 1, level)?;
            nearest = self.found().next().map_or(nearest, |found| found.node);
        }
        Ok(nearest)
    }

    /// Finds the `width` nearest nodes of a level that are reached from `start`.
    pub(super) fn level(
        &mut self,
        start: NodeId,
        width: usize,
        level: u8,
    ) -> Result<(), PoolError> {
        let SingleWalk { reads, walk, .. } = self;
        walk.begin(start, width, level, false);
        while let Halt::Awaits(_) = walk.go_on(reads)? {
            reads.finish(|reads, awaited, may_wait| walk.look(reads, awaited, may_wait))?;
        }
        Ok(())
    }

    /// What was found on the last level, nearest first.
    pub(super) fn found(&self) -> impl Iterator<Item = Near> {
        self.walk.found()
    }
}
