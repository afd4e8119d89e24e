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

use std::cmp::Ordering;
use std::mem;
use std::thread::LocalKey;

use polder_pool::bytes::PageRef;
use polder_pool::{AccessHint, PoolError, Translation};

use super::meta::Entry;
use super::node::{NodePage, NodeRef, State};
use super::{Core, HnswIndex};
use crate::lent::{Kept, Lent, Memory};
use crate::near::{Near, Nearest};
use crate::node_id::NodeId;
use crate::reads::{Look, Reads};
use crate::search::Filter;
use crate::vectors::Vector;
use crate::visited::Visited;

/// Memory of a search, which the next one of the thread uses again.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) visited: Visited,
    pub(super) nearest: Nearest,
    pub(super) links: Vec<NodeId>,
    /// Of these nodes it is to be found out whether they match.
    judged: Vec<NodeId>,
    labels: Vec<(NodeId, u64)>,
    /// Nodes that were compared, with their labels.
    seen: Vec<(NodeId, Sight, u64)>,
    pub(super) others: Vec<NodeId>,
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
        self.links.clear();
    }

    /// Reads the links of a node whose page is here. Whether it is.
    #[inline(always)]
    pub(super) fn read_links<T: Translation>(
        &mut self,
        reads: &mut Reads<'_, '_, T>,
        node: NodeId,
        core: &Core,
        level: u8,
    ) -> bool {
        let links = &mut self.links;
        links.clear();
        let read = |page: PageRef<'_>| match level {
            0 => {
                core.expected(page, node).links(&core.layout, 0, links);
                true
            }
            _ => core.links_in(page, node, level, links).is_ok(),
        };
        reads.read_here(node.page(), read) == Some(true)
    }
}

/// What was seen of a node.
#[derive(Clone, Copy)]
pub(super) struct Sight {
    pub(super) distance: f32,
    pub(super) state: State,
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
    reads: Reads<'w, 'p, T>,
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
        self.walk_with(&mut Lent::<Scratch>::new(), query, search)
    }

    /// Runs one search, or goes on with one, with this memory.
    pub(super) fn walk_with<'p, R>(
        &'p self,
        scratch: &mut Scratch,
        query: &Vector,
        search: impl FnOnce(&mut Walk<'_, 'p, T>) -> Result<R, PoolError>,
    ) -> Result<R, PoolError> {
        self.space.interleave(AccessHint::Normal, |way| {
            let (core, index, reads) = (&*self.core, self, Reads::new(&self.space, way));
            let (level, without_leaving, keeps_all) = (0, false, false);
            search(&mut Walk {
                core,
                index,
                reads,
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
        let sight = self.index.read_node(start, |_, found| {
            let distance = self.core.distance(self.query, found);
            Sight { distance, state: found.state() }
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
        self.scratch.clear(width, self.keeps_all);
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
        if !self.scratch.read_links(&mut self.reads, node, self.core, level) {
            let mut links = mem::take(&mut self.scratch.links);
            self.index.read_node(node, |nodes, found| {
                links.clear();
                if nodes.level() >= level {
                    found.links(layout, level, &mut links);
                }
            })?;
            self.scratch.links = links;
        }
        let Scratch { visited, links, .. } = &mut *self.scratch;
        visited.insert_all(links);
        Ok(())
    }

    /// Compares the nodes of `links`, of which none was seen before.
    fn compare(&mut self) -> Result<(), PoolError> {
        let Scratch { links, nearest, .. } = &mut *self.scratch;
        let by = By { core: self.core, query: self.query, level: self.level };
        let without_leaving = self.without_leaving;
        self.reads.each(links, &mut Nearer { by, nearest, without_leaving })
    }
}

impl Core {
    /// A node, where it is in its page if that has it. Damage is met again, and named, by whoever waits for
    /// the page.
    #[inline(always)]
    fn expected<'a>(&self, page: PageRef<'a>, node: NodeId) -> NodeRef<'a> {
        match node.is_above() {
            false => self.layout.lowest(page, node.slot()),
            true => NodePage::new(page).node(&self.layout, node.slot()),
        }
    }

    /// The links that a node has on this level, if it is there and has it.
    pub(super) fn links_in(
        &self,
        page: PageRef<'_>,
        node: NodeId,
        level: u8,
        links: &mut Vec<NodeId>,
    ) -> Result<Option<()>, &'static str> {
        self.node_in(page, node, |nodes, found| {
            if nodes.level() >= level {
                found.links(&self.layout, level, links);
            }
        })
    }
}

/// By what nodes are compared.
#[derive(Clone, Copy)]
pub(super) struct By<'w> {
    pub(super) core: &'w Core,
    pub(super) query: &'w Vector,
    pub(super) level: u8,
}

impl By<'_> {
    /// What is seen of a node that is nearer than this, and so will be a candidate.
    #[inline(always)]
    fn sight(self, found: NodeRef<'_>, bound: f32) -> Option<Sight> {
        let distance = self.core.distance(self.query, found);
        // Of a damaged vector the distance may be no number.
        if distance.partial_cmp(&bound) != Some(Ordering::Less) {
            return None;
        }
        // Its links will be read.
        found.prefetch_links(&self.core.layout, self.level);
        Some(Sight { distance, state: found.state() })
    }
}

/// Nodes that become candidates if they are near enough.
pub(super) struct Nearer<'w> {
    pub(super) by: By<'w>,
    pub(super) nearest: &'w mut Nearest,
    pub(super) without_leaving: bool,
}

impl Look for Nearer<'_> {
    type Sight = Sight;
    const HINT: AccessHint = AccessHint::Normal;

    #[inline(always)]
    fn ahead(&self) -> usize {
        self.by.core.layout.ahead()
    }

    #[inline(always)]
    fn prefetch(&self, page: PageRef<'_>, node: NodeId) {
        let core = self.by.core;
        let found = core.layout.lowest(page, node.slot());
        found.prefetch(&core.layout);
    }

    #[inline(always)]
    fn see(&mut self, page: PageRef<'_>, node: NodeId) -> Result<Option<Sight>, &'static str> {
        Ok(self.by.sight(self.by.core.expected(page, node), self.nearest.bound()))
    }

    fn see_surely(
        &mut self,
        page: PageRef<'_>,
        node: NodeId,
    ) -> Result<Option<Sight>, &'static str> {
        let bound = self.nearest.bound();
        Ok(self.by.core.node_in(page, node, |_, found| self.by.sight(found, bound))?.flatten())
    }

    #[inline(always)]
    fn take(&mut self, node: NodeId, Sight { distance, state }: Sight) {
        if state == State::Free || state == State::Leaving && self.without_leaving {
            return;
        }
        if distance < self.nearest.bound() {
            self.nearest.insert(Near { distance, node }, state == State::Live);
        }
    }
}

/// Nodes that are near enough, with their labels, which are to be judged.
struct Labelled<'w> {
    by: By<'w>,
    bound: f32,
    seen: &'w mut Vec<(NodeId, Sight, u64)>,
}

impl Look for Labelled<'_> {
    type Sight = (Sight, u64);
    const HINT: AccessHint = AccessHint::Normal;

    #[inline(always)]
    fn ahead(&self) -> usize {
        self.by.core.layout.ahead()
    }

    #[inline(always)]
    fn prefetch(&self, page: PageRef<'_>, node: NodeId) {
        let layout = &self.by.core.layout;
        layout.lowest(page, node.slot()).prefetch(layout);
    }

    #[inline(always)]
    fn see(
        &mut self,
        page: PageRef<'_>,
        node: NodeId,
    ) -> Result<Option<(Sight, u64)>, &'static str> {
        let found = self.by.core.expected(page, node);
        Ok(self.by.sight(found, self.bound).map(|sight| (sight, found.label())))
    }

    fn see_surely(
        &mut self,
        page: PageRef<'_>,
        node: NodeId,
    ) -> Result<Option<(Sight, u64)>, &'static str> {
        let sight = self.by.core.node_in(page, node, |_, found| {
            self.by.sight(found, self.bound).map(|sight| (sight, found.label()))
        });
        Ok(sight?.flatten())
    }

    #[inline(always)]
    fn take(&mut self, node: NodeId, (sight, label): (Sight, u64)) {
        self.seen.push((node, sight, label));
    }
}

/// Labels of nodes.
struct Labels<'w> {
    core: &'w Core,
    labels: &'w mut Vec<(NodeId, u64)>,
}

impl Look for Labels<'_> {
    type Sight = u64;
    const HINT: AccessHint = AccessHint::Normal;

    #[inline(always)]
    fn ahead(&self) -> usize {
        self.core.layout.ahead()
    }

    #[inline(always)]
    fn prefetch(&self, page: PageRef<'_>, node: NodeId) {
        let layout = &self.core.layout;
        layout.lowest(page, node.slot()).prefetch_tail(layout);
    }

    #[inline(always)]
    fn see(&mut self, page: PageRef<'_>, node: NodeId) -> Result<Option<u64>, &'static str> {
        let found = self.core.expected(page, node);
        Ok((found.state() != State::Free).then(|| found.label()))
    }

    fn see_surely(&mut self, page: PageRef<'_>, node: NodeId) -> Result<Option<u64>, &'static str> {
        let label = |found: NodeRef<'_>| (found.state() != State::Free).then(|| found.label());
        Ok(self.core.node_in(page, node, |_, found| label(found))?.flatten())
    }

    #[inline(always)]
    fn take(&mut self, node: NodeId, label: u64) {
        self.labels.push((node, label));
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
        let Scratch { links, nearest, seen, .. } = &mut *self.scratch;
        seen.clear();
        let by = By { core: self.core, query: self.query, level: self.level };
        let done = self.reads.each(links, &mut Labelled { by, bound: nearest.bound(), seen });
        let mut judged = Judged::default();
        // No page is on its way (MANY-4).
        for (node, sight, label) in &*seen {
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
        mem::swap(&mut scratch.links, &mut scratch.judged);
        scratch.links.clear();
        let mut judged = scratch.judged.len() as u64;
        self.judge(filter)?;
        let between = mem::take(&mut self.scratch.others);
        let enough = self.core.options.links;
        for node in &between {
            if self.scratch.links.len() >= enough {
                break;
            }
            let matching = mem::take(&mut self.scratch.links);
            self.read_links(*node)?;
            self.scratch.judged = mem::replace(&mut self.scratch.links, matching);
            judged += self.scratch.judged.len() as u64;
            self.judge(filter)?;
        }
        self.scratch.others = between;
        self.compare()?;
        Ok(Some(judged))
    }

    /// Adds those of `judged` that match to `links`. The others are in `others`.
    fn judge(&mut self, filter: &dyn Filter) -> Result<(), PoolError> {
        let Scratch { judged, labels, links, others, .. } = &mut *self.scratch;
        labels.clear();
        others.clear();
        let core = self.core;
        let seen = self.reads.each(judged, &mut Labels { core, labels });
        // No page is on its way (MANY-4).
        for (node, label) in &*labels {
            match filter.matches(*label) {
                true => links.push(*node),
                false => others.push(*node),
            }
        }
        seen
    }
}
