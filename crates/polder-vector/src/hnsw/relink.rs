//! Writing lists of nodes that are there already.
//!
//! What a list is to become is found out while nobody is held up, and put down as a *plan*, beside what
//! the list was. Then the lists of several plans are written by one edit; one whose list is another one
//! by then is planned again.
//!
//! * `HNSW-5` When a node is made, a link leads to it from one that is found, unless there is none, and
//!   then the node is the entry. If it would be left out of all lists of its neighbours, because these
//!   are full of nearer ones, it takes the place of the last link of the nearest neighbour, and leads to
//!   that node itself, so that both are reached. When one is removed, those that it leads to are looked
//!   for without it, and linked with what is found where they are not. When a list is full, a link is left
//!   out only if another one of it leads to a node that links there; if there is none, the new node does.

use std::collections::BTreeSet;

use polder_pool::bytes::PageRef;
use polder_pool::{AccessHint, PoolError, Restart, Translation};
use polder_structure::{Edit, edit};

use super::node::{NodePage, NodeRef};
use super::ways::{Set, Ways};
use super::{Core, HnswIndex};
use crate::near::Near;
use crate::node_id::{NodeId, State};
use crate::reads::{Look, Reads};
use crate::vectors::Vector;

/// Lists that one edit writes: with its pages it stays far below what an edit may have.
pub(super) const AT_ONCE: usize = 16;
/// How often a list is planned that others change. It stays as it is then: each link is one of many.
pub(super) const MOST_PLANS: usize = 64;

/// Links of a full list that are tried for one that can make room.
const MOST_SWAPS: usize = 32;

/// How a list is to be changed.
#[derive(Clone, Copy)]
pub(super) enum Wish<'w> {
    /// It leads to this node as well, which has this vector.
    Add(NodeId, &'w Vector),
    /// It does not lead to this node, which is leaving and has this label, but to what is nearest of these.
    Replace(NodeId, u64, &'w [NodeId]),
}

/// What one list is to become.
pub(super) struct Plan {
    node: NodeId,
    /// Where in its page the list is.
    at: usize,
    was: Vec<NodeId>,
    becomes: Vec<NodeId>,
    /// What the list no longer leads to for want of room, and none of its nodes does.
    pub(super) lost: Vec<NodeId>,
}

impl Plan {
    /// Whether the list is to lead to a node.
    pub(super) fn leads_to(&self, node: NodeId) -> bool {
        self.becomes.contains(&node)
    }

    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    /// The list leads to `node` instead of to its last one, which it gives.
    pub(super) fn replace_last(&mut self, node: NodeId) -> Option<NodeId> {
        let last = self.becomes.last_mut()?;
        Some(std::mem::replace(last, node))
    }
}

impl<T: Translation> HnswIndex<T> {
    /// Changes the lists of these nodes on one level.
    pub(super) fn relink(
        &self,
        nodes: &[NodeId],
        level: u8,
        wish: Wish<'_>,
    ) -> Result<(), PoolError> {
        for nodes in nodes.chunks(AT_ONCE) {
            let mut nodes = nodes.to_vec();
            for _ in 0..MOST_PLANS {
                let mut plans = Vec::with_capacity(nodes.len());
                for node in &nodes {
                    let plan = self.plan(*node, level, wish, &plans)?;
                    // HNSW-5: a link that would cost another node its last one is not made.
                    plans.extend(plan.filter(|plan| plan.lost.is_empty()));
                }
                if plans.is_empty() {
                    break;
                }
                nodes = edit(&self.space, |edit| self.write(edit, &plans, level, wish))?;
                if nodes.is_empty() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// What a list is to become. `None` if it stays as it is, or its node has left; a node that is
    /// leaving gets no more links, but loses those that others lose. `earlier` plans are carried out together
    /// with this one.
    pub(super) fn plan(
        &self,
        node: NodeId,
        level: u8,
        wish: Wish<'_>,
        earlier: &[Plan],
    ) -> Result<Option<Plan>, PoolError> {
        let layout = &self.core.layout;
        let capacity = layout.capacity(level);
        let mut was = Vec::with_capacity(capacity);
        let (mut vector, mut at) = (None, 0);
        let is_there = self.read_node(node, |nodes, found| {
            was.clear();
            at = found.list_at(layout, level);
            let is_there = match found.state() {
                State::Free => false,
                State::Live => nodes.level() >= level,
                State::Leaving => nodes.level() >= level && matches!(wish, Wish::Replace(..)),
            };
            if is_there {
                found.links(layout, level, &mut was);
                let is_full = was.len() == capacity;
                let needs_vector = is_full || matches!(wish, Wish::Replace(..));
                vector = needs_vector.then(|| found.copy(layout));
            }
            is_there
        })?;
        if is_there != Some(true) {
            return Ok(None);
        }
        let mut wanted: Vec<NodeId> = Vec::with_capacity(capacity + 1);
        wanted.extend(&was);
        match wish {
            Wish::Add(new, _) if new == node || was.contains(&new) => return Ok(None),
            Wish::Add(new, _) => wanted.push(new),
            Wish::Replace(gone, ..) if !was.contains(&gone) => return Ok(None),
            Wish::Replace(gone, _, others) => {
                wanted.retain(|link| *link != gone);
                let is_new = |other: &&NodeId| **other != node && !was.contains(*other);
                wanted.extend(others.iter().filter(is_new));
            }
        }
        let mut becomes = match vector {
            None => wanted.clone(),
            Some(vector) => self.nearest_of(&vector, &wanted, level, wish)?,
        };
        let mut lost = Vec::new();
        if matches!(wish, Wish::Add(..)) && becomes.len() < wanted.len() {
            lost = self.keep_reached(&mut becomes, &wanted, (level, earlier))?;
        }
        if let Wish::Replace(gone, ..) = wish {
            // No link is lost because of one that goes.
            let mut kept: Vec<_> = was.iter().copied().filter(|link| *link != gone).collect();
            becomes.retain(|link| !kept.contains(link));
            kept.append(&mut becomes);
            kept.truncate(capacity);
            becomes = kept;
        }
        Ok(Some(Plan { node, at, was, becomes, lost }))
    }

    /// A node that a list no longer leads to is reached by a node that it does lead to: else the link stays,
    /// in the place of one that is reached so itself. Gives those for which there is no such place. What it
    /// becomes is among what is wanted.
    fn keep_reached(
        &self,
        becomes: &mut Vec<NodeId>,
        wanted: &[NodeId],
        (level, earlier): (u8, &[Plan]),
    ) -> Result<Vec<NodeId>, PoolError> {
        let ways = self.ways(wanted, level, earlier)?;
        let mut by: Vec<usize> = becomes.iter().filter_map(|node| ways.place(*node)).collect();
        let capacity = self.core.layout.capacity(level);
        let (mut lost, mut reached) = (Set::default(), ways.from(&by));
        for place in ways.there.iter() {
            if reached.has(place) {
                continue;
            }
            if by.len() < capacity {
                by.push(place);
                ways.reach(&mut reached, place);
                continue;
            }
            let swap = |at: usize| {
                let mut others = by.clone();
                others[at] = place;
                reached.is_in(&ways.from(&others)).then_some(others)
            };
            let places = (0..by.len()).rev().filter(|at| wanted[by[*at]] != NodeId::NEW);
            match places.take(MOST_SWAPS).find_map(swap) {
                Some(others) => {
                    by = others;
                    reached = ways.from(&by);
                }
                None => lost.put(place),
            }
        }
        *becomes = by.iter().map(|place| wanted[*place]).collect();
        Ok(lost.iter().filter(|place| !reached.has(*place)).map(|place| wanted[place]).collect())
    }

    /// Which of these nodes lead to which others of them on a level, when `earlier` plans are carried out.
    fn ways<'n>(
        &self,
        wanted: &'n [NodeId],
        level: u8,
        earlier: &[Plan],
    ) -> Result<Ways<'n>, PoolError> {
        let mut ways = Ways::new(wanted);
        let mut list = Vec::with_capacity(self.core.layout.capacity(level));
        for (place, node) in wanted.iter().enumerate() {
            if *node == NodeId::NEW || ways.place(*node) != Some(place) {
                continue;
            }
            // A node that is leaving leads nowhere soon.
            let state = self.read_node(*node, |nodes, found| {
                list.clear();
                if nodes.level() >= level && found.state() == State::Live {
                    found.links(&self.core.layout, level, &mut list);
                }
                found.state()
            })?;
            if state.is_none_or(|state| state == State::Free) {
                continue;
            }
            let planned = earlier.iter().find(|plan| plan.node == *node);
            ways.add(place, planned.map_or(&list, |plan| &plan.becomes));
        }
        Ok(ways)
    }

    /// Makes a link from one of these nodes, which are nearest to it and reached, lead to a node on the lowest
    /// level (`HNSW-5`). False if they have left.
    pub(super) fn lead_to(
        &self,
        node: NodeId,
        vector: &Vector,
        from: &[NodeId],
    ) -> Result<bool, PoolError> {
        let (layout, capacity) = (&self.core.layout, self.core.layout.capacity(0));
        for _ in 0..MOST_PLANS {
            let mut plans: Vec<Plan> = Vec::new();
            let mut links = Vec::new();
            for other in from.iter().take(AT_ONCE) {
                let is_live = self.read_node(*other, |_, found| {
                    links.clear();
                    found.links(layout, 0, &mut links);
                    found.state() == State::Live
                })?;
                if is_live == Some(true) && links.contains(&node) {
                    return Ok(true);
                }
                let plan = self.plan(*other, 0, Wish::Add(node, vector), &plans)?;
                plans.extend(plan);
            }
            if plans.is_empty() {
                return Ok(false);
            }
            // Several plans may leave out the same one.
            let mut left_out: BTreeSet<_> =
                plans.iter_mut().flat_map(|plan| plan.lost.drain(..)).collect();
            if !plans.iter().any(|plan| plan.leads_to(node)) {
                left_out.extend(plans.first_mut().and_then(|plan| plan.replace_last(node)));
            }
            links.clear();
            let at = self.read_node(node, |_, found| {
                links.clear();
                found.links(layout, 0, &mut links);
                found.list_at(layout, 0)
            })?;
            left_out.retain(|link| *link != node && !links.contains(link));
            if let Some(at) = at
                && !left_out.is_empty()
            {
                let (was, mut becomes) = (links.clone(), links);
                becomes.truncate(capacity.saturating_sub(left_out.len()));
                becomes.extend(left_out);
                becomes.truncate(capacity);
                let wanted = [&was[..], &becomes[..]].concat();
                let lost = self.keep_reached(&mut becomes, &wanted, (0, &plans))?;
                plans.push(Plan { node, at, was, becomes, lost });
            }
            let is_done = edit(&self.space, |edit| {
                let is_possible = self.are_as_planned(edit, &plans, 0)?;
                for plan in plans.iter().filter(|_| is_possible) {
                    self.put(edit, plan, 0, NodeId::NEW)?;
                }
                Ok(is_possible)
            })?;
            if is_done {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Those of the nodes to link with from where `vector` is.
    fn nearest_of(
        &self,
        vector: &Vector,
        nodes: &[NodeId],
        level: u8,
        wish: Wish<'_>,
    ) -> Result<Vec<NodeId>, PoolError> {
        let core = &*self.core;
        let mut near = Vec::with_capacity(nodes.len());
        let known = match wish {
            Wish::Add(new, vector) => Some((new, vector)),
            Wish::Replace(..) => None,
        };
        let is_known = |node: &NodeId| known.is_some_and(|(known, _)| known == *node);
        let unknown: Vec<_> = nodes.iter().copied().filter(|node| !is_known(node)).collect();
        if let Some((node, of_new)) = known
            && unknown.len() < nodes.len()
        {
            let distance = core.distances.between(vector, of_new.run(), || of_new.scale);
            near.push(Near { distance, node });
        }
        self.space.interleave(AccessHint::Normal, |way| {
            let mut look = Distant { core, from: vector, level, near: &mut near };
            Reads::new(&self.space, way).each(&unknown, &mut look)
        })?;
        near.sort_unstable_by_key(Near::order);
        self.select(&near, core.layout.capacity(level), known)
    }

    /// Writes these lists, but for those that have changed: gives the nodes of these.
    fn write(
        &self,
        edit: &mut Edit<'_, '_, T>,
        plans: &[Plan],
        level: u8,
        wish: Wish<'_>,
    ) -> Result<Vec<NodeId>, Restart> {
        let mut changed = Vec::new();
        if let Wish::Replace(gone, label, _) = wish {
            let nodes = NodePage::new(edit.page(gone.page())?);
            let found = nodes.node(&self.core.layout, gone.slot());
            if found.state() != State::Leaving || found.label() != label {
                // Somebody else has removed it, and the place may be another node's.
                return Ok(changed);
            }
        }
        // All are read before the first is written: else a page with several would be copied.
        let mut planned = Vec::with_capacity(plans.len());
        for plan in plans {
            match self.state_of(edit, plan, level)? {
                Some(_) => planned.push(plan),
                None => changed.push(plan.node),
            }
        }
        planned.into_iter().try_for_each(|plan| self.put(edit, plan, level, NodeId::NEW))?;
        Ok(changed)
    }

    /// Whether all lists are what they were, and those of nodes that are found. An edit asks this before
    /// it changes anything.
    pub(super) fn are_as_planned(
        &self,
        edit: &mut Edit<'_, '_, T>,
        plans: &[Plan],
        level: u8,
    ) -> Result<bool, Restart> {
        for plan in plans {
            if self.state_of(edit, plan, level)? != Some(State::Live) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The state of a node whose list is what it was.
    fn state_of(
        &self,
        edit: &mut Edit<'_, '_, T>,
        plan: &Plan,
        level: u8,
    ) -> Result<Option<State>, Restart> {
        let layout = &self.core.layout;
        let state = edit.read(plan.node.page(), |page| {
            self.core.node_in(page, plan.node, |nodes, found| {
                let is_as_it_was = found.list_at(layout, level) == plan.at
                    && found.each_link(layout, level).eq(plan.was.iter().copied());
                (is_as_it_was && nodes.level() >= level).then(|| found.state())
            })
        })?;
        // A page of something else has no node.
        Ok(state.ok().flatten().flatten())
    }

    /// Writes a list, with `made` in the place of [`NodeId::NEW`].
    pub(super) fn put(
        &self,
        edit: &mut Edit<'_, '_, T>,
        plan: &Plan,
        level: u8,
        made: NodeId,
    ) -> Result<(), Restart> {
        let is_new = |link: &NodeId| *link == NodeId::NEW;
        // HNSW-2: a stale link may lead to the place that the new node gets.
        let stale = plan.becomes.iter().any(is_new).then_some(made);
        let mut links = Vec::with_capacity(plan.becomes.len());
        for link in plan.becomes.iter().filter(|link| Some(**link) != stale) {
            let link = if is_new(link) { made } else { *link };
            links.extend((link != plan.node).then_some(link));
        }
        edit.write(plan.node.page(), plan.at, self.core.layout.list_of(level, &links))
    }
}

/// How far nodes are from a vector. Their lists will be read as well.
struct Distant<'w> {
    core: &'w Core,
    from: &'w Vector,
    level: u8,
    near: &'w mut Vec<Near>,
}

impl Distant<'_> {
    fn sight(&self, nodes: NodePage<'_>, found: NodeRef<'_>) -> Option<f32> {
        let is_there = found.state() != State::Free && nodes.level() >= self.level;
        is_there.then(|| self.core.distance(self.from, found))
    }
}

impl Look for Distant<'_> {
    type Sight = f32;
    const HINT: AccessHint = AccessHint::Normal;

    #[inline(always)]
    fn ahead(&self) -> usize {
        self.core.layout.ahead()
    }

    #[inline(always)]
    fn prefetch(&self, page: PageRef<'_>, node: NodeId) {
        let layout = &self.core.layout;
        let found = layout.lowest(page, node.slot());
        found.prefetch(layout);
        found.prefetch_links(layout, self.level);
    }

    fn see(&mut self, page: PageRef<'_>, node: NodeId) -> Result<Option<f32>, &'static str> {
        let sight = self.core.node_in(page, node, |nodes, found| self.sight(nodes, found));
        Ok(sight?.flatten())
    }

    fn take(&mut self, node: NodeId, distance: f32) {
        self.near.push(Near { distance, node });
    }
}
