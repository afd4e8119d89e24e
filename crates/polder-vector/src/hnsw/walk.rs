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
//!           those are compared as they come
//! ```
//!
//! A node that is being removed is gone through and not found.
//!
//! With a filter there are two ways. Either what does not match is gone through as well, and not found: so
//! the search is as good as one without a filter, and as long as one for as many as there are nearer than
//! the last one that matches. Or only what matches is compared and gone through, which also leads through a
//! region in which nothing does: of a link to what does not match, the links of that node are taken
//! instead, until there are as many as a node links to when it is inserted (Patel et al., "ACORN: Performant
//! and Predicate-Agnostic Search Over Vector Embeddings and Structured Data", SIGMOD 2024, their variant for
//! graphs that were built as without filters).

use std::cell::Cell;
use std::cmp::Ordering;

use polder_format::PageId;
use polder_pool::bytes::PageRef;
use polder_pool::{
    AccessHint, Blocked, Interleaved, LinkRef, Loading, PoolError, Restart, Translation,
};

use super::meta::Entry;
use super::node::{NodePage, NodeRef, State};
use super::{Core, HnswIndex};
use crate::near::{Near, Nearest};
use crate::node_id::NodeId;
use crate::search::Filter;
use crate::vectors::Vector;
use crate::visited::Visited;

/// Nodes whose state words are asked for together.
const TOGETHER: usize = 32;
/// Vectors that are asked for before the first of them is compared.
const AHEAD: usize = 2;

/// Memory of a search, which the next one of the thread uses again.
pub(super) struct Scratch {
    visited: Visited,
    nearest: Nearest,
    links: Vec<NodeId>,
    /// Of these nodes it is to be found out whether they match.
    judged: Vec<NodeId>,
    labels: Vec<(NodeId, u64)>,
    /// Nodes that were compared, with their labels.
    seen: Vec<(NodeId, Sight, u64)>,
    others: Vec<NodeId>,
    /// Nodes whose page is on its way, each with its flight.
    awaited: Vec<(usize, NodeId)>,
    /// Nodes that are to be waited for when no page is on its way.
    later: Vec<NodeId>,
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl Scratch {
    pub(super) fn new() -> Scratch {
        Scratch {
            visited: Visited::new(),
            nearest: Nearest::default(),
            links: Vec::new(),
            judged: Vec::new(),
            labels: Vec::new(),
            seen: Vec::new(),
            others: Vec::new(),
            awaited: Vec::new(),
            later: Vec::new(),
        }
    }

    /// Runs `search` with the memory of this thread, or new one where that is in use.
    fn with<R>(search: impl FnOnce(&mut Scratch) -> R) -> R {
        let mut scratch = SCRATCH.take().unwrap_or_else(|| Box::new(Scratch::new()));
        let result = search(&mut scratch);
        // What a wide search needed is not kept.
        if scratch.visited.is_small() {
            SCRATCH.set(Some(scratch));
        }
        result
    }
}

/// What was seen of a node.
#[derive(Clone, Copy)]
struct Sight {
    distance: f32,
    state: State,
}

/// How many nodes were looked at that are near enough, and how many of them match.
#[derive(Default)]
pub(super) struct Judged {
    pub(super) seen: u64,
    pub(super) matching: u64,
}

/// One search.
pub(super) struct Walk<'w, 'p, T: Translation> {
    core: &'w Core,
    index: &'p HnswIndex<T>,
    way: &'w mut Interleaved<'p, T>,
    scratch: &'w mut Scratch,
    query: &'w Vector,
    /// The level that is gone through.
    level: u8,
    /// Nodes that are leaving are not gone through, as if they were not there.
    pub(super) without_leaving: bool,
    /// What is not among the nearest is kept for later.
    pub(super) keeps_all: bool,
}

impl<T: Translation> HnswIndex<T> {
    /// Runs one search.
    pub(super) fn walk<'p, R>(
        &'p self,
        query: &Vector,
        search: impl FnOnce(&mut Walk<'_, 'p, T>) -> Result<R, PoolError>,
    ) -> Result<R, PoolError> {
        Scratch::with(|scratch| self.walk_with(scratch, query, search))
    }

    /// Runs one search, or goes on with one, with this memory.
    pub(super) fn walk_with<'p, R>(
        &'p self,
        scratch: &mut Scratch,
        query: &Vector,
        search: impl FnOnce(&mut Walk<'_, 'p, T>) -> Result<R, PoolError>,
    ) -> Result<R, PoolError> {
        self.space.interleave(AccessHint::Normal, |way| {
            let (core, index) = (&*self.core, self);
            let (level, without_leaving, keeps_all) = (0, false, false);
            search(&mut Walk {
                core,
                index,
                way,
                scratch,
                query,
                level,
                without_leaving,
                keeps_all,
            })
        })
    }
}

impl<'p, T: Translation> Walk<'_, 'p, T> {
    /// Where to begin. None in an empty index.
    pub(super) fn entry(&self) -> Result<Option<Entry>, PoolError> {
        self.index.entry()
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
        self.begin(start, width, level)?;
        self.go_on()
    }

    /// Begins to go through a level, from `start`.
    pub(super) fn begin(
        &mut self,
        start: NodeId,
        width: usize,
        level: u8,
    ) -> Result<(), PoolError> {
        self.clear(width, level);
        let links = &mut self.scratch.links;
        links.push(start);
        self.scratch.visited.insert_all(links);
        let sight = self.wait_for(start, |walk, found| {
            let distance = walk.core.distance(walk.query, found);
            Some(Sight { distance, state: found.state() })
        })?;
        let state = sight.map_or(State::Free, |sight| sight.state);
        // One that has left meanwhile still leads to where it was.
        if state == State::Live || !self.without_leaving {
            let distance = sight.map_or(f32::INFINITY, |sight| sight.distance);
            self.scratch.nearest.insert(Near { distance, node: start }, state == State::Live);
        }
        Ok(())
    }

    /// Nothing was seen on a level.
    pub(super) fn clear(&mut self, width: usize, level: u8) {
        self.level = level;
        let scratch = &mut *self.scratch;
        scratch.visited.clear();
        scratch.nearest.clear(width, self.keeps_all);
        scratch.links.clear();
        // An error may have left something.
        scratch.awaited.clear();
        scratch.later.clear();
    }

    /// Goes through the level until the links of the nearest nodes have been read.
    pub(super) fn go_on(&mut self) -> Result<(), PoolError> {
        while let Some(node) = self.scratch.nearest.take_next() {
            self.read_links(node)?;
            self.compare()?;
        }
        Ok(())
    }

    /// What was found on the last level, nearest first.
    pub(super) fn found(&self) -> impl Iterator<Item = Near> {
        self.scratch.nearest.iter()
    }

    /// What was found.
    pub(super) fn nearest(&mut self) -> &mut Nearest {
        &mut self.scratch.nearest
    }

    /// The links of a node that lead to what was not seen.
    fn read_links(&mut self, node: NodeId) -> Result<(), PoolError> {
        let (layout, level) = (&self.core.layout, self.level);
        let mut links = std::mem::take(&mut self.scratch.links);
        links.clear();
        let is_read = level == 0
            && self.look(node, |_, found| found.links(layout, level, &mut links)).is_ok();
        if !is_read {
            links.clear();
            self.index.read_node(node, |nodes, found| {
                links.clear();
                if nodes.level() >= level {
                    found.links(layout, level, &mut links);
                }
            })?;
        }
        self.scratch.visited.insert_all(&mut links);
        self.scratch.links = links;
        Ok(())
    }

    /// Compares the nodes of `links`, of which none was seen before.
    fn compare(&mut self) -> Result<(), PoolError> {
        let links = std::mem::take(&mut self.scratch.links);
        let done = self.visit_all(
            &links,
            |core, node| node.prefetch(&core.layout, core.distances.are_scaled()),
            |walk, node| walk.sight(node),
            |walk, node, sight| walk.take(node, sight),
        );
        self.scratch.links = links;
        done
    }

    /// Looks at nodes: asks for what `ask` says of each, some ahead, then looks at it with `see`, and
    /// hands over what that says something of, in the order in which their pages come.
    #[inline(always)]
    fn visit_all<R>(
        &mut self,
        nodes: &[NodeId],
        ask: impl Fn(&Core, NodeRef<'_>),
        see: impl Fn(&Self, NodeRef<'_>) -> Option<R> + Copy,
        mut take: impl FnMut(&mut Self, NodeId, R),
    ) -> Result<(), PoolError> {
        for nodes in nodes.chunks(TOGETHER) {
            let mut expected = [None; TOGETHER];
            for (page, node) in expected.iter_mut().zip(nodes) {
                *page = self.way.prefetch(self.link(*node));
            }
            let core = self.core;
            let ask = |page: Option<PageRef<'p>>, node: NodeId| {
                if let Some(page) = page {
                    ask(core, core.layout.lowest(page, node.slot()));
                }
            };
            for (page, node) in expected.iter().zip(nodes).take(AHEAD) {
                ask(*page, *node);
            }
            for (i, node) in nodes.iter().enumerate() {
                if let (Some(page), Some(node)) = (expected.get(i + AHEAD), nodes.get(i + AHEAD)) {
                    ask(*page, *node);
                }
                match self.look(*node, see) {
                    Ok(Some(seen)) => take(self, *node, seen),
                    Ok(None) => {}
                    Err(Restart) => self.await_page(*node),
                }
            }
        }
        if !self.scratch.awaited.is_empty() {
            self.land_all(see, &mut take);
        }
        // No page is on its way: what waits, waits here (MANY-4).
        while let Some(node) = self.scratch.later.pop() {
            if let Some(seen) = self.wait_for(node, see)? {
                take(self, node, seen);
            }
        }
        Ok(())
    }

    /// A node could not be read: its page is asked of the device, or waited for later.
    #[cold]
    fn await_page(&mut self, node: NodeId) {
        if let Blocked::Missing(page, parent) = self.way.blocked()
            && let Loading::Flies(flight) = self.way.load(page, parent)
        {
            self.scratch.awaited.push((flight, node));
            return;
        }
        self.scratch.later.push(node);
    }

    /// Looks at those whose pages are on their way, as they come.
    #[cold]
    fn land_all<R>(
        &mut self,
        see: impl Fn(&Self, NodeRef<'_>) -> Option<R> + Copy,
        take: &mut impl FnMut(&mut Self, NodeId, R),
    ) {
        self.way.hand_over(false);
        while let Some((landed, pin)) = self.way.land(true) {
            let mut awaited = std::mem::take(&mut self.scratch.awaited);
            awaited.retain(|(flight, node)| {
                if *flight != landed {
                    return true;
                }
                // An error is met again by whoever waits for the page.
                match pin.as_ref().ok().and_then(|_| self.look(*node, see).ok()) {
                    Some(Some(seen)) => take(self, *node, seen),
                    Some(None) => {}
                    None => self.scratch.later.push(*node),
                }
                false
            });
            self.scratch.awaited = awaited;
        }
        debug_assert!(self.scratch.awaited.is_empty(), "a flight has landed that was not open");
    }

    /// A node that was compared becomes a candidate if it is near enough.
    #[inline(always)]
    fn take(&mut self, node: NodeId, Sight { distance, state }: Sight) {
        if state == State::Free || state == State::Leaving && self.without_leaving {
            return;
        }
        let nearest = &mut self.scratch.nearest;
        if distance < nearest.bound() {
            nearest.insert(Near { distance, node }, state == State::Live);
        }
    }

    #[inline(always)]
    fn link(&self, node: NodeId) -> LinkRef<'p> {
        LinkRef::Id(PageId::new(self.index.space.id(), node.page()))
    }

    /// What is seen of a node that is near enough to be a candidate.
    #[inline(always)]
    fn sight(&self, found: NodeRef<'_>) -> Option<Sight> {
        let distance = self.core.distance(self.query, found);
        // Of a damaged vector the distance may be no number.
        if distance.partial_cmp(&self.scratch.nearest.bound()) != Some(Ordering::Less) {
            return None;
        }
        // It will be a candidate, and its links will be read.
        found.prefetch_links(&self.core.layout, self.level);
        Some(Sight { distance, state: found.state() })
    }

    /// What is seen of a node, for which it may wait. `None` if it is not there, or nothing is.
    fn wait_for<R>(
        &self,
        node: NodeId,
        see: impl Fn(&Self, NodeRef<'_>) -> Option<R>,
    ) -> Result<Option<R>, PoolError> {
        Ok(self.index.read_node(node, |_, found| see(self, found))?.flatten())
    }

    /// What `see` makes of a node, whose page is here and does not change.
    #[inline(always)]
    fn look<R>(
        &mut self,
        node: NodeId,
        see: impl FnOnce(&Self, NodeRef<'_>) -> R,
    ) -> Result<R, Restart> {
        let page = self.way.visit(self.link(node))?;
        // Damage is met again, and named, by whoever waits for the page.
        let found = match node.is_above() {
            false => self.core.layout.lowest(page.page(), node.slot()),
            true => NodePage::new(page.page()).node(&self.core.layout, node.slot()),
        };
        let seen = see(self, found);
        page.validate()?;
        Ok(seen)
    }
}

/// With a filter.
impl<T: Translation> Walk<'_, '_, T> {
    /// Begins to go through the lowest level, from `start`; what does not match is gone through, and not
    /// found.
    pub(super) fn begin_filtered(
        &mut self,
        start: NodeId,
        width: usize,
        filter: &dyn Filter,
    ) -> Result<(), PoolError> {
        self.clear(width, 0);
        self.scratch.links.push(start);
        self.scratch.visited.insert_all(&mut self.scratch.links);
        self.compare_filtered(filter).map(drop)
    }

    /// Goes through the links of the nearest node of which they were not read. Gives how many nodes were
    /// seen, and how many of them match; `None` if all are done.
    pub(super) fn step_filtered(
        &mut self,
        filter: &dyn Filter,
    ) -> Result<Option<Judged>, PoolError> {
        let Some(node) = self.scratch.nearest.take_next() else { return Ok(None) };
        self.read_links(node)?;
        self.compare_filtered(filter).map(Some)
    }

    /// Compares the nodes of `links`.
    fn compare_filtered(&mut self, filter: &dyn Filter) -> Result<Judged, PoolError> {
        let links = std::mem::take(&mut self.scratch.links);
        self.scratch.seen.clear();
        let done = self.visit_all(
            &links,
            |core, node| node.prefetch(&core.layout, true),
            |walk, node| walk.sight(node).map(|sight| (sight, node.label())),
            |walk, node, (sight, label)| walk.scratch.seen.push((node, sight, label)),
        );
        self.scratch.links = links;
        let mut judged = Judged::default();
        // No page is on its way (MANY-4).
        let Scratch { seen, nearest, .. } = &mut *self.scratch;
        for (node, sight, label) in seen {
            // Of what has left the label may be one that nothing has.
            let is_match = sight.state == State::Live && filter.matches(*label);
            judged.seen += 1;
            judged.matching += u64::from(is_match);
            if sight.state != State::Free && sight.distance < nearest.bound() {
                nearest.insert(Near { distance: sight.distance, node: *node }, is_match);
            }
        }
        done.map(|()| judged)
    }

    /// Begins to go through the lowest level by way of what matches, from those of `seeds` that do.
    pub(super) fn begin_matching(
        &mut self,
        seeds: &[NodeId],
        width: usize,
        filter: &dyn Filter,
    ) -> Result<(), PoolError> {
        self.clear(width, 0);
        self.scratch.judged.clear();
        self.scratch.judged.extend(seeds);
        self.scratch.visited.insert_all(&mut self.scratch.judged);
        self.judge(filter)?;
        self.compare()
    }

    /// Goes through the links of the nearest node of which they were not read, and through those of nodes
    /// to which it leads that do not match. Gives how many nodes were looked at; `None` if all are done.
    pub(super) fn step_matching(&mut self, filter: &dyn Filter) -> Result<Option<u64>, PoolError> {
        let Some(node) = self.scratch.nearest.take_next() else { return Ok(None) };
        self.read_links(node)?;
        let scratch = &mut *self.scratch;
        std::mem::swap(&mut scratch.links, &mut scratch.judged);
        scratch.links.clear();
        let mut judged = scratch.judged.len() as u64;
        self.judge(filter)?;
        let between = std::mem::take(&mut self.scratch.others);
        let enough = self.core.options.links;
        for node in &between {
            if self.scratch.links.len() >= enough {
                break;
            }
            let matching = std::mem::take(&mut self.scratch.links);
            self.read_links(*node)?;
            self.scratch.judged = std::mem::replace(&mut self.scratch.links, matching);
            judged += self.scratch.judged.len() as u64;
            self.judge(filter)?;
        }
        self.scratch.others = between;
        self.compare()?;
        Ok(Some(judged))
    }

    /// Adds those of `judged` that match to `links`. The others are in `others`.
    fn judge(&mut self, filter: &dyn Filter) -> Result<(), PoolError> {
        let judged = std::mem::take(&mut self.scratch.judged);
        self.scratch.labels.clear();
        self.scratch.others.clear();
        let seen = self.visit_all(
            &judged,
            |core, node| node.prefetch_tail(&core.layout),
            |_, node| (node.state() != State::Free).then(|| node.label()),
            |walk, node, label| walk.scratch.labels.push((node, label)),
        );
        self.scratch.judged = judged;
        // No page is on its way (MANY-4).
        let Scratch { labels, links, others, .. } = &mut *self.scratch;
        for (node, label) in labels {
            match filter.matches(*label) {
                true => links.push(*node),
                false => others.push(*node),
            }
        }
        seen
    }
}
