//! Writing lists of nodes that are there already.
//!
//! What a list is to become is found out while nobody is held up, and put down as a *plan*, beside what the
//! list was. Then the lists of several plans are written by one edit; one whose list is another one by then
//! is planned again.

use polder_pool::{PoolError, Restart, Translation};
use polder_structure::{Edit, edit};

use super::VamanaIndex;
use super::code::Code;
use super::layout::Kind;
use super::node::List;
use super::prune::Candidate;
use super::slots::SlotPage;
use super::walk::Sought;
use crate::near::order_of;
use crate::node_id::{NodeId, State};
use crate::vectors::Vector;

/// Lists that one edit writes: with its pages it stays far below what an edit may have.
pub(super) const AT_ONCE: usize = 16;
/// How often a list is planned that others change. It stays as it is then: each link is one of many.
pub(super) const MOST_PLANS: usize = 64;
/// Links that a list gets instead of one to a node that is removed.
const INSTEAD: usize = 3;

/// What one list is to become.
pub(super) struct Plan {
    pub(super) entry: NodeId,
    node: NodeId,
    was: List,
    becomes: List,
}

/// How a list is to be changed.
#[derive(Clone, Copy)]
pub(super) enum Wish<'w> {
    /// It leads to this entry as well, to that of a child if it says so.
    Add { id: NodeId, new: &'w Sought, code: &'w Code, is_child: bool },
    /// It leads to all of these as well.
    AddAll { links: &'w [NodeId] },
    /// It does not lead to this entry, which is leaving and has this label, but to the nearest of these.
    Replace { id: NodeId, label: u64, others: &'w [NodeId] },
}

impl<T: Translation> VamanaIndex<T> {
    /// Changes the lists of these entries' nodes.
    pub(super) fn relink(&self, entries: &[NodeId], wish: Wish<'_>) -> Result<(), PoolError> {
        let wishes: Vec<_> = entries.iter().map(|entry| (*entry, wish)).collect();
        wishes.chunks(AT_ONCE).try_for_each(|wishes| self.relink_each(wishes))
    }

    /// Changes these lists, not more than [`AT_ONCE`], each in its own way.
    pub(super) fn relink_each(&self, wishes: &[(NodeId, Wish<'_>)]) -> Result<(), PoolError> {
        let mut wishes = wishes.to_vec();
        for _ in 0..MOST_PLANS {
            let mut plans = Vec::new();
            for (entry, wish) in wishes {
                plans.extend(self.plan(entry, wish)?.map(|plan| (plan, wish)));
            }
            if plans.is_empty() {
                break;
            }
            wishes = edit(&self.space, |edit| self.write(edit, &plans))?;
        }
        Ok(())
    }

    /// What a list is to become. `None` if it stays as it is, or its vector has left or does so.
    pub(super) fn plan(&self, entry: NodeId, wish: Wish<'_>) -> Result<Option<Plan>, PoolError> {
        let layout = &self.core.layout;
        let read = self.read_node(entry, |slot| {
            (slot.state() == State::Live).then(|| (slot.list(layout), slot.copy(layout)))
        })?;
        let Some((node, Some((was, vector)))) = read else { return Ok(None) };
        let becomes = match wish {
            Wish::Add { id, is_child: false, .. } if id == entry || was.links.contains(&id) => None,
            Wish::Add { is_child: true, .. } if was.children >= layout.most_children() => None,
            Wish::Add { id, new, code, is_child } => {
                let mut list = was.clone();
                match is_child {
                    true => list.add_child(id, layout.links + 1),
                    false => list.links.push(id),
                }
                if list.links.len() > layout.links {
                    let to = &new.vector;
                    let distance = self.core.distances.between(&vector, to.run(), || to.scale);
                    let new = Candidate { distance, entry: id, by: code.clone() };
                    self.prune_list(&vector, &mut list, Some(new))?;
                }
                list.links.contains(&id).then_some(list)
            }
            Wish::AddAll { links } => {
                let mut list = was.clone();
                let is_new = |link: &&NodeId| **link != entry && !was.links.contains(*link);
                list.links.extend(links.iter().filter(is_new));
                if list.links.len() > layout.links {
                    self.prune_list(&vector, &mut list, None)?;
                }
                (list != was).then_some(list)
            }
            Wish::Replace { id, .. } if !was.links[was.children..].contains(&id) => None,
            Wish::Replace { id, others, .. } => {
                let mut list = was.clone();
                list.remove(id);
                let is_new = |other: &&NodeId| **other != entry && !list.links.contains(*other);
                let others: Vec<NodeId> = others.iter().filter(is_new).copied().collect();
                let room = (layout.links - list.links.len().min(layout.links)).min(INSTEAD);
                list.links.extend(self.nearest(&vector, &others)?.into_iter().take(room));
                Some(list)
            }
        };
        Ok(becomes.map(|becomes| Plan { entry, node, was, becomes }))
    }

    /// Leaves out of a list what is too much, which is not the children. If one of its links is a new
    /// entry's, that is not looked up, since it may have no place yet.
    fn prune_list(
        &self,
        vector: &Vector,
        list: &mut List,
        new: Option<Candidate<Code>>,
    ) -> Result<(), PoolError> {
        let core = &*self.core;
        let id = new.as_ref().map(|new| new.entry);
        let known: Vec<NodeId> =
            list.links.iter().copied().filter(|link| Some(*link) != id).collect();
        let query = core.coder.query(&core.coder.residual(vector));
        let by_code =
            |(entry, by): (NodeId, Code)| Candidate { distance: query.estimate_of(&by), entry, by };
        let mut near: Vec<_> = self.codes(&known)?.into_iter().map(by_code).collect();
        near.extend(new);
        Candidate::nearest_first(&mut near);
        let children = list.children().to_vec();
        let is_child = |entry| children.contains(&entry);
        let chosen = core.prune_codes(&near, core.layout.links, is_child);
        list.links.truncate(list.children);
        list.links.extend(chosen.into_iter().filter(|entry| !is_child(*entry)));
        Ok(())
    }

    /// These entries, but for those that are free, nearest to a vector first, by their codes.
    fn nearest(&self, vector: &Vector, entries: &[NodeId]) -> Result<Vec<NodeId>, PoolError> {
        let query = self.core.coder.query(&self.core.coder.residual(vector));
        let codes = self.codes(entries)?.into_iter();
        let mut near: Vec<(u32, NodeId)> =
            codes.map(|(entry, code)| (order_of(query.estimate_of(&code)), entry)).collect();
        near.sort_unstable();
        Ok(near.into_iter().map(|(_, entry)| entry).collect())
    }

    /// Writes these lists, but for those that have changed: gives the entries of these.
    fn write<'w>(
        &self,
        edit: &mut Edit<'_, '_, T>,
        plans: &[(Plan, Wish<'w>)],
    ) -> Result<Vec<(NodeId, Wish<'w>)>, Restart> {
        let (mut changed, mut planned) = (Vec::new(), Vec::with_capacity(plans.len()));
        // All are read before the first is written: else a page with several would be copied.
        for (plan, wish) in plans {
            if let Wish::Replace { id, label, .. } = *wish
                && self.leaving_in(edit, id, label)?.is_none()
            {
                // Somebody else has removed it, and the place may be another vector's.
                continue;
            }
            match self.is_as_planned(edit, plan)? {
                true => planned.push(plan),
                false => changed.push((plan.entry, *wish)),
            }
        }
        planned.into_iter().try_for_each(|plan| self.put(edit, plan, NodeId::NEW))?;
        Ok(changed)
    }

    /// Whether a list is what it was, and that of a vector that is found.
    pub(super) fn is_as_planned(
        &self,
        edit: &mut Edit<'_, '_, T>,
        plan: &Plan,
    ) -> Result<bool, Restart> {
        let layout = &self.core.layout;
        edit.read(plan.node.page(), |page| {
            let slots = SlotPage::new(page);
            let is_one = slots.is_of(layout, Kind::Nodes);
            let slot = slots.slot(layout, Kind::Nodes, plan.node.slot()).filter(|_| is_one);
            // VAMANA-2
            slot.is_some_and(|slot| {
                slot.state() == State::Live
                    && slot.partner() == Some(plan.entry)
                    && slot.list(layout) == plan.was
            })
        })
    }

    /// Writes what was planned, with `new` for what had no place then.
    pub(super) fn put(
        &self,
        edit: &mut Edit<'_, '_, T>,
        plan: &Plan,
        new: NodeId,
    ) -> Result<(), Restart> {
        let mut list = plan.becomes.clone();
        // VAMANA-6: a stale link may lead to where the new one is.
        if new != NodeId::NEW {
            list.remove(new);
        }
        list.links.iter_mut().filter(|link| **link == NodeId::NEW).for_each(|link| *link = new);
        let writes = self.core.layout.writes_of(plan.node.slot(), &list);
        writes.into_iter().try_for_each(|(at, bytes)| edit.write(plan.node.page(), at, bytes))
    }
}
