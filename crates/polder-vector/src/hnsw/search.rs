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

use std::cell::Cell;
use std::cmp::Ordering;

use polder_format::PageId;
use polder_pool::bytes::PageRef;
use polder_pool::{
    AccessHint, Blocked, Interleaved, LinkRef, Loading, PoolError, Restart, Translation,
};

use super::meta::Entry;
use super::node::{NodePage, NodeRef, State};
use super::{Core, Found, HnswIndex};
use crate::element::Element;
use crate::error::VectorError;
use crate::near::{Near, Nearest};
use crate::node_id::NodeId;
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
    /// Nodes whose page is on its way, each with its flight.
    awaited: Vec<(usize, NodeId)>,
    /// Nodes that are to be waited for when no page is on its way.
    later: Vec<NodeId>,
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl Scratch {
    fn new() -> Scratch {
        Scratch {
            visited: Visited::new(),
            nearest: Nearest::default(),
            links: Vec::new(),
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
}

impl<T: Translation> HnswIndex<T> {
    /// The `count` vectors nearest to `query` that are found, nearest first: fewer if there are not so
    /// many. The search keeps the `width` nearest in sight that it has seen (`ef` in the paper), at
    /// least `count`; with more it finds more of the nearest and takes longer.
    ///
    /// # Errors
    /// Those of a vector that is not one of the index, and those of loading pages.
    pub fn search<E: Element>(
        &self,
        query: &[E],
        count: usize,
        width: usize,
    ) -> Result<Vec<Found>, VectorError> {
        let query = self.core.distances.vector(query)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut near = Vec::new();
        self.walk(&query, |walk| {
            let Some(entry) = walk.entry()? else { return Ok(()) };
            let nearest = walk.descend(entry, 0)?;
            walk.level(nearest, width.max(count), 0)?;
            near.extend(walk.found());
            Ok(())
        })?;
        let mut found = Vec::with_capacity(count.min(near.len()));
        for Near { distance, node } in near {
            if found.len() == count {
                break;
            }
            let label = self.read_node(node, |_, node| {
                // The place may be another node's by now.
                let is_it = || self.core.distance(&query, node) == distance;
                (node.state() == State::Live && is_it()).then(|| node.label())
            })?;
            found.extend(label.flatten().map(|label| Found { label, distance, node }));
        }
        Ok(found)
    }

    /// Runs one search.
    pub(super) fn walk<'p, R>(
        &'p self,
        query: &Vector,
        search: impl FnOnce(&mut Walk<'_, 'p, T>) -> Result<R, PoolError>,
    ) -> Result<R, PoolError> {
        Scratch::with(|scratch| {
            self.space.interleave(AccessHint::Normal, |way| {
                let (core, index) = (&*self.core, self);
                let (level, without_leaving) = (0, false);
                search(&mut Walk { core, index, way, scratch, query, level, without_leaving })
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
        self.level = level;
        let scratch = &mut *self.scratch;
        scratch.visited.clear();
        scratch.nearest.clear(width);
        // An error may have left something.
        scratch.awaited.clear();
        scratch.later.clear();
        scratch.links.clear();
        scratch.links.push(start);
        scratch.visited.insert_all(&mut scratch.links);
        let sight = self.wait_for(start)?;
        let state = sight.map_or(State::Free, |sight| sight.state);
        // One that has left meanwhile still leads to where it was.
        if state == State::Live || !self.without_leaving {
            let distance = sight.map_or(f32::INFINITY, |sight| sight.distance);
            self.scratch.nearest.insert(Near { distance, node: start }, state == State::Live);
        }
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

    /// The links of a node that lead to what was not seen.
    fn read_links(&mut self, node: NodeId) -> Result<(), PoolError> {
        let (layout, level) = (&self.core.layout, self.level);
        let mut links = std::mem::take(&mut self.scratch.links);
        links.clear();
        let is_read =
            level == 0 && self.look(node, |found| found.links(layout, level, &mut links)).is_ok();
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
        for links in links.chunks(TOGETHER) {
            let mut expected = [None; TOGETHER];
            for (page, node) in expected.iter_mut().zip(links) {
                *page = self.way.prefetch(self.link(*node));
            }
            for (page, node) in expected.iter().zip(links).take(AHEAD) {
                self.ask(*page, *node);
            }
            for (i, node) in links.iter().enumerate() {
                if let (Some(page), Some(node)) = (expected.get(i + AHEAD), links.get(i + AHEAD)) {
                    self.ask(*page, *node);
                }
                match self.sight(*node) {
                    Ok(sight) => self.take(*node, sight),
                    Err(Restart) => self.await_page(*node),
                }
            }
        }
        self.scratch.links = links;
        if !self.scratch.awaited.is_empty() {
            self.land_all();
        }
        // No page is on its way: what waits, waits here (MANY-4).
        while let Some(node) = self.scratch.later.pop() {
            let sight = self.wait_for(node)?;
            self.take(node, sight);
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

    /// Compares those whose pages are on their way, as they come.
    #[cold]
    fn land_all(&mut self) {
        self.way.hand_over(false);
        while let Some((landed, pin)) = self.way.land(true) {
            let mut awaited = std::mem::take(&mut self.scratch.awaited);
            awaited.retain(|(flight, node)| {
                if *flight != landed {
                    return true;
                }
                // An error is met again by whoever waits for the page.
                match pin.as_ref().ok().and_then(|_| self.sight(*node).ok()) {
                    Some(sight) => self.take(*node, sight),
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
    fn take(&mut self, node: NodeId, sight: Option<Sight>) {
        let Some(Sight { distance, state }) = sight else { return };
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

    /// Asks the processor for the vector of a node, in the page where it is expected.
    #[inline(always)]
    fn ask(&self, page: Option<PageRef<'p>>, node: NodeId) {
        if let Some(page) = page {
            let Core { layout, distances, .. } = self.core;
            layout.lowest(page, node.slot()).prefetch(layout, distances.are_scaled());
        }
    }

    /// A node, if its page is here and does not change, and the node is near enough to be a candidate.
    #[inline(always)]
    fn sight(&mut self, node: NodeId) -> Result<Option<Sight>, Restart> {
        let (core, query, level) = (self.core, self.query, self.level);
        let bound = self.scratch.nearest.bound();
        self.look(node, |found| {
            let distance = core.distance(query, found);
            // Of a damaged vector the distance may be no number.
            if distance.partial_cmp(&bound) != Some(Ordering::Less) {
                return None;
            }
            // It will be a candidate, and its links will be read.
            found.prefetch_links(&core.layout, level);
            Some(Sight { distance, state: found.state() })
        })
    }

    /// A node, for which it may wait. `None` if it is not there.
    fn wait_for(&mut self, node: NodeId) -> Result<Option<Sight>, PoolError> {
        let (core, query) = (self.core, self.query);
        self.index.read_node(node, |_, found| Sight {
            distance: core.distance(query, found),
            state: found.state(),
        })
    }

    /// What `read` makes of a node, whose page is here and does not change.
    #[inline(always)]
    fn look<R>(&mut self, node: NodeId, read: impl FnOnce(NodeRef<'_>) -> R) -> Result<R, Restart> {
        let page = self.way.visit(self.link(node))?;
        // Damage is met again, and named, by whoever waits for the page.
        let found = match node.is_above() {
            false => self.core.layout.lowest(page.page(), node.slot()),
            true => NodePage::new(page.page()).node(&self.core.layout, node.slot()),
        };
        let seen = read(found);
        page.validate()?;
        Ok(seen)
    }
}
