//! Writing lists of nodes that are there already.
//!
//! What a list is to become is found out while nobody is held up, and put down as a *plan*, beside what
//! the list was. Then the lists of several plans are written by one edit; one whose list is another one
//! by then is planned again.
//!
//! * `HNSW-5` A link leads to each node when it is made: if it would be left out of all lists of its
//!   neighbours, because these are full of nearer ones, it takes the place of the last link of the
//!   nearest neighbour, and leads to that node itself, so that both are reached.
//! * `HNSW-7` Nodes with the same vector are a ring, in both directions: each leads to two of the others
//!   on the lowest level, and to no more of them, since these lead nowhere else. A new one comes between
//!   two, and one that goes leaves its neighbours beside each other.

use polder_pool::{PoolError, Restart, Translation};
use polder_structure::{Edit, edit};

use super::HnswIndex;
use super::node::{NodePage, NodePageMut, State};
use super::select::same_bytes;
use crate::near::Near;
use crate::node_id::NodeId;
use crate::vectors::Vector;

/// Lists that one edit writes: with its pages it stays far below what an edit may have.
pub(super) const AT_ONCE: usize = 16;
/// How often a list is planned that others change. It stays as it is then: each link is one of many.
pub(super) const MOST_PLANS: usize = 64;

/// How a list is to be changed.
#[derive(Clone, Copy)]
pub(super) enum Wish<'w> {
    /// It leads to this node as well, which has this vector.
    Add(NodeId, &'w Vector),
    /// It does not lead to this node, but to what is nearest of these.
    Replace(NodeId, &'w [NodeId]),
}

/// How a new node comes into a ring (`HNSW-7`): lists of the two between which it comes, and the second of
/// them, if there is one.
pub(super) struct IntoRing {
    pub(super) plans: Vec<Plan>,
    pub(super) next: Option<NodeId>,
}

/// The list of a node on the lowest level, and those in it that have the same vector.
struct Ring {
    list: Vec<NodeId>,
    same: Vec<NodeId>,
}

/// What one list is to become.
pub(super) struct Plan {
    node: NodeId,
    was: Vec<NodeId>,
    becomes: Vec<NodeId>,
}

impl Plan {
    /// Whether the list is to lead to a node.
    pub(super) fn leads_to(&self, node: NodeId) -> bool {
        self.becomes.contains(&node)
    }

    /// The list leads to the new node instead of to its last one, which it gives.
    pub(super) fn replaced_by_new(&mut self) -> Option<NodeId> {
        let last = self.becomes.last_mut()?;
        Some(std::mem::replace(last, NodeId::NEW))
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
                    plans.extend(self.plan(*node, level, wish)?);
                }
                if plans.is_empty() {
                    break;
                }
                let write =
                    |edit: &mut Edit<'_, '_, T>| self.write(edit, &plans, level, NodeId::NEW);
                nodes = edit(&self.space, write)?;
                if nodes.is_empty() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// What a list is to become. `None` if it stays as it is, or its node has left.
    pub(super) fn plan(
        &self,
        node: NodeId,
        level: u8,
        wish: Wish<'_>,
    ) -> Result<Option<Plan>, PoolError> {
        let layout = &self.core.layout;
        let capacity = layout.capacity(level);
        let mut was = Vec::with_capacity(capacity);
        let mut vector = None;
        let is_there = self.read_node(node, |nodes, found| {
            was.clear();
            let is_there = found.state() != State::Free && nodes.level() >= level;
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
        let mut wanted: Vec<NodeId> = was.clone();
        match wish {
            Wish::Add(new, _) if new == node || was.contains(&new) => return Ok(None),
            Wish::Add(new, _) => wanted.push(new),
            Wish::Replace(gone, _) if !was.contains(&gone) => return Ok(None),
            Wish::Replace(gone, others) => {
                wanted.retain(|link| *link != gone);
                let is_new = |other: &&NodeId| **other != node && !was.contains(*other);
                wanted.extend(others.iter().filter(is_new));
            }
        }
        let becomes = match vector {
            None => wanted,
            Some(vector) => self.nearest_of(&vector, &wanted, level, wish)?,
        };
        Ok(Some(Plan { node, was, becomes }))
    }

    /// What lists of nodes with this very vector become if a new one comes behind `node` in the ring, and
    /// the one that was behind it (`HNSW-7`). `None` if the node has another vector.
    pub(super) fn plan_ring(
        &self,
        node: NodeId,
        vector: &Vector,
    ) -> Result<Option<IntoRing>, PoolError> {
        let Some(Ring { list: was, same: ring }) = self.ring_of(node, vector)? else {
            return Ok(None);
        };
        let Some(next) = ring.first().copied() else {
            let becomes = self.with_new(&was, None);
            return Ok(Some(IntoRing { plans: vec![Plan { node, was, becomes }], next: None }));
        };
        let gone = (ring.len() > 1).then_some(next);
        let becomes = self.with_new(&was, gone);
        let mut plans = vec![Plan { node, was, becomes }];
        if let Some(Ring { list: was, same: ring }) = self.ring_of(next, vector)? {
            let gone = ring.into_iter().find(|other| gone.is_some() && *other == node);
            let becomes = self.with_new(&was, gone);
            plans.push(Plan { node: next, was, becomes });
        }
        Ok(Some(IntoRing { plans, next: Some(next) }))
    }

    /// The list of a node with this very vector on the lowest level, and those in it with this vector.
    fn ring_of(&self, node: NodeId, vector: &Vector) -> Result<Option<Ring>, PoolError> {
        let layout = &self.core.layout;
        let mut was = Vec::new();
        let is_same = self.read_node(node, |_, found| {
            was.clear();
            found.links(layout, 0, &mut was);
            found.state() == State::Live && same_bytes(found.vector(layout), vector.run())
        })?;
        if is_same != Some(true) {
            return Ok(None);
        }
        let mut ring = Vec::new();
        for link in &was {
            let is_same = self.read_node(*link, |_, found| {
                found.state() == State::Live && same_bytes(found.vector(layout), vector.run())
            })?;
            if is_same == Some(true) {
                ring.push(*link);
            }
        }
        Ok(Some(Ring { list: was, same: ring }))
    }

    /// A list with the new node: in the place of `gone`, or else of the last one where all are taken.
    fn with_new(&self, list: &[NodeId], gone: Option<NodeId>) -> Vec<NodeId> {
        let mut list = list.to_vec();
        let is_full = list.len() == self.core.layout.capacity(0);
        let at = match gone {
            Some(gone) => list.iter().position(|link| *link == gone),
            None => list.len().checked_sub(1).filter(|_| is_full),
        };
        match at {
            Some(at) => list[at] = NodeId::NEW,
            None => list.push(NodeId::NEW),
        }
        list
    }

    /// Those of the nodes to link with from where `vector` is.
    fn nearest_of(
        &self,
        vector: &Vector,
        nodes: &[NodeId],
        level: u8,
        wish: Wish<'_>,
    ) -> Result<Vec<NodeId>, PoolError> {
        let super::Core { layout, distances, .. } = &*self.core;
        let mut near = Vec::with_capacity(nodes.len());
        let known = match wish {
            Wish::Add(new, vector) => Some((new, vector)),
            Wish::Replace(..) => None,
        };
        for node in nodes {
            let distance = match known {
                Some((new, of_new)) if new == *node => {
                    Some(distances.between(vector, of_new.run(), of_new.scale))
                }
                _ => {
                    let seen = self.read_node(*node, |page, found| {
                        let is_there = found.state() == State::Live && page.level() >= level;
                        is_there
                            .then(|| distances.between(vector, found.vector(layout), found.scale()))
                    })?;
                    seen.flatten()
                }
            };
            near.extend(distance.map(|distance| Near { distance, node: *node }));
        }
        near.sort_unstable();
        self.select(&near, layout.capacity(level), known)
    }

    /// Writes these lists, with `made` in the place of [`NodeId::NEW`], but for those that have changed:
    /// gives the nodes of these.
    pub(super) fn write(
        &self,
        edit: &mut Edit<'_, '_, T>,
        plans: &[Plan],
        level: u8,
        made: NodeId,
    ) -> Result<Vec<NodeId>, Restart> {
        let layout = &self.core.layout;
        let (mut changed, mut now, mut links) = (Vec::new(), Vec::new(), Vec::new());
        for Plan { node, was, becomes } in plans {
            let nodes = NodePage::new(edit.page(node.page())?);
            let found = nodes.node(layout, node.slot());
            if nodes.level() < level || found.state() == State::Free {
                continue;
            }
            now.clear();
            found.links(layout, level, &mut now);
            if now != *was {
                changed.push(*node);
                continue;
            }
            links.clear();
            let real = |link: &NodeId| if *link == NodeId::NEW { made } else { *link };
            // HNSW-2: a stale link may lead to the place that the new node gets.
            for link in becomes.iter().map(real).filter(|link| link != node) {
                if !links.contains(&link) {
                    links.push(link);
                }
            }
            let page = edit.page_mut(node.page())?;
            NodePageMut::new(page).set_links(layout, node.slot(), level, &links);
        }
        Ok(changed)
    }
}
