//! What searches look at in nodes, many of them together (`crate::reads`).

use std::cmp::Ordering;

use polder_pool::AccessHint;
use polder_pool::bytes::{PageRef, Run};

use super::Core;
use super::node::{NodePage, NodeRef};
use crate::best::{Best, Compared};
use crate::near::{Near, Nearest};
use crate::node_id::{NodeId, State};
use crate::reads::Look;
use crate::vectors::Vector;

impl Core {
    /// A node, where it is in its page if that has it. Damage is met again, and named, by whoever waits for
    /// the page.
    #[inline(always)]
    pub(super) fn expected<'a>(&self, page: PageRef<'a>, node: NodeId) -> NodeRef<'a> {
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
    query: Run<'w>,
    scale: f32,
    pub(super) level: u8,
}

impl<'w> By<'w> {
    pub(super) fn new(core: &'w Core, query: &'w Vector, level: u8) -> By<'w> {
        By { core, query: query.run(), scale: query.scale, level }
    }

    /// How far a node is.
    #[inline(always)]
    pub(super) fn distance(self, found: NodeRef<'_>) -> f32 {
        let Core { distances, layout, .. } = self.core;
        distances.between_runs(self.query, found.vector(layout), || self.scale * found.scale())
    }

    /// Asks the processor for a node, but for its links.
    #[inline(always)]
    pub(super) fn prefetch(self, page: PageRef<'_>, node: NodeId) {
        let layout = &self.core.layout;
        layout.lowest(page, node.slot()).prefetch(layout);
    }

    /// What is seen of a node that is nearer than this, and so will be a candidate.
    #[inline(always)]
    fn sight(self, found: NodeRef<'_>, bound: f32) -> Option<Sight> {
        let distance = self.distance(found);
        // Of a damaged vector the distance may be no number.
        if distance.partial_cmp(&bound) != Some(Ordering::Less) {
            return None;
        }
        // Its links will be read.
        found.prefetch_links(&self.core.layout, self.level);
        Some(Sight { distance, state: found.state() })
    }
}

/// What was seen of a node.
#[derive(Clone, Copy)]
pub(super) struct Sight {
    pub(super) distance: f32,
    pub(super) state: State,
}

/// The node with which a level begins.
pub(super) struct First<'w> {
    pub(super) by: By<'w>,
    pub(super) nearest: &'w mut Nearest,
    pub(super) without_leaving: bool,
}

impl Look for First<'_> {
    type Sight = Sight;
    const HINT: AccessHint = AccessHint::Normal;

    fn ahead(&self) -> usize {
        1
    }

    fn prefetch(&self, page: PageRef<'_>, node: NodeId) {
        self.by.prefetch(page, node);
    }

    fn see(&mut self, page: PageRef<'_>, node: NodeId) -> Result<Option<Sight>, &'static str> {
        let sight = self.by.core.node_in(page, node, |_, found| {
            let distance = self.by.distance(found);
            Sight { distance, state: found.state() }
        })?;
        // One that has left meanwhile still leads to where it was.
        Ok(Some(sight.unwrap_or(Sight { distance: f32::INFINITY, state: State::Free })))
    }

    fn take(&mut self, node: NodeId, Sight { distance, state }: Sight) {
        if state == State::Live || !self.without_leaving {
            self.nearest.insert(Near { distance, node }, state == State::Live);
        }
    }
}

/// Links of a node.
pub(super) struct Links<'w> {
    pub(super) by: By<'w>,
    pub(super) links: &'w mut Vec<NodeId>,
    /// Those that were seen last.
    pub(super) fresh: &'w mut Vec<NodeId>,
}

impl Look for Links<'_> {
    type Sight = ();
    const HINT: AccessHint = AccessHint::Normal;

    fn ahead(&self) -> usize {
        1
    }

    fn prefetch(&self, page: PageRef<'_>, node: NodeId) {
        let layout = &self.by.core.layout;
        NodePage::new(page).node(layout, node.slot()).prefetch_links(layout, self.by.level);
    }

    fn see(&mut self, page: PageRef<'_>, node: NodeId) -> Result<Option<()>, &'static str> {
        self.fresh.clear();
        self.by.core.links_in(page, node, self.by.level, self.fresh)
    }

    fn take(&mut self, _: NodeId, (): ()) {
        self.links.append(self.fresh);
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
        self.by.prefetch(page, node);
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
pub(super) struct Labelled<'w> {
    pub(super) by: By<'w>,
    pub(super) bound: f32,
    pub(super) seen: &'w mut Vec<(NodeId, Sight, u64)>,
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
        self.by.prefetch(page, node);
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

/// How far vectors are of which it is known where they lie.
pub(super) struct Among<'w> {
    pub(super) by: By<'w>,
    /// In order.
    pub(super) wanted: &'w [(NodeId, u64)],
    pub(super) near: Vec<Compared>,
}

impl Look for Among<'_> {
    type Sight = Compared;
    const HINT: AccessHint = AccessHint::Scan;

    fn ahead(&self) -> usize {
        self.by.core.layout.ahead()
    }

    fn prefetch(&self, page: PageRef<'_>, node: NodeId) {
        self.by.prefetch(page, node);
    }

    fn see(&mut self, page: PageRef<'_>, node: NodeId) -> Result<Option<Compared>, &'static str> {
        let compared = self.by.core.node_in(page, node, |_, found| {
            let label = found.label();
            // A caller may know several labels of a place: all but one were removed.
            let is_it =
                found.state() == State::Live && self.wanted.binary_search(&(node, label)).is_ok();
            is_it.then(|| (Best::order(self.by.distance(found)), label, node))
        });
        // Where a caller says that a vector lies there may be anything.
        Ok(compared.unwrap_or_default().flatten())
    }

    fn take(&mut self, _: NodeId, sight: Compared) {
        self.near.push(sight);
    }
}

/// Labels of nodes.
pub(super) struct Labels<'w> {
    pub(super) core: &'w Core,
    pub(super) labels: &'w mut Vec<(NodeId, u64)>,
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
