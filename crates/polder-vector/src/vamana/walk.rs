//! Going through the graph.
//!
//! ```text
//!   nearest: of the entries that were seen, as many as the search is wide, by estimated distances
//!
//!   it begins with the entry of the index, and with seeds: pages of entries, whichever these are
//!   while there are some that were not expanded, of the nearest such ones a few:
//!       their entries say where their nodes are
//!       the nodes are read, all together, and as each comes: its vector is compared, which makes an
//!           exact distance for the answer, and its links are read
//!       of the links those that lead to what was not seen: their entries are asked for, all
//!           together, and distances are estimated from the codes
//! ```
//!
//! (Subramanya et al., "DiskANN: Fast Accurate Billion-point Nearest Neighbor Search on a Single Node",
//! NeurIPS 2019, section 3, where codes are kept in memory beside the graph on a disk. Here they are in
//! pages as everything is, and those that searches come to again and again stay in the pool.)
//!
//! A vector that is being removed is gone through and not found. With a filter what does not match is gone
//! through as well: labels are in the entries, so that for one that is not expanded no node is read.

use std::cell::Cell;

use polder_pool::{AccessHint, PoolError, Translation};

use super::code::{CodeQuery, Residual};
use super::layout::Kind;
use super::look::{At, LookAtSlot};
use super::slots::{Slot, State};
use super::{Core, VamanaIndex, meta};
use crate::near::{Near, Nearest};
use crate::node_id::NodeId;
use crate::reads::Reads;
use crate::search::Filter;
use crate::vectors::Vector;
use crate::visited::Visited;

/// Nodes that are expanded together: with more, more reads are under way at once, and more of them turn
/// out not to have been needed.
const BEAM: usize = 4;

/// A vector that is looked for.
pub(super) struct Sought {
    pub(super) vector: Vector,
    pub(super) residual: Residual,
    code: CodeQuery,
}

impl Core {
    pub(super) fn sought(&self, vector: Vector) -> Sought {
        let residual = self.coder.residual(&vector);
        let code = self.coder.query(&residual);
        Sought { vector, residual, code }
    }
}

impl Sought {
    /// What is seen of an entry.
    #[inline(always)]
    pub(super) fn see(&self, core: &Core, entry: NodeId, slot: Slot<'_>) -> Seen {
        let estimate = self.code.estimate(slot.code(&core.layout), slot.parts());
        let (label, state, node) = (slot.label(), slot.state(), slot.partner());
        Seen { entry, label, state, estimate, node }
    }
}

/// A node that was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expanded {
    pub(super) entry: NodeId,
    /// Where it is.
    pub(super) node: NodeId,
    pub(super) label: u64,
    pub(super) state: State,
    pub(super) distance: f32,
    /// How many children it has.
    pub(super) children: usize,
    /// Whether it leads to the node that the walk is about, if it is about one.
    pub(super) leads: bool,
}

/// An entry that was seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) entry: NodeId,
    pub(super) label: u64,
    pub(super) state: State,
    pub(super) estimate: f32,
    /// Where its node is.
    pub(super) node: Option<NodeId>,
}

/// Memory of a search, which the next one of the thread uses again.
#[derive(Default)]
struct Scratch {
    visited: Option<Visited>,
    nearest: Nearest,
    beam: Vec<NodeId>,
    nodes: Vec<NodeId>,
    links: Vec<NodeId>,
    fresh: Vec<NodeId>,
    seen: Vec<Seen>,
    expanded: Vec<Expanded>,
    vectors: Vec<Vector>,
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// How many entries a step of a walk has seen, and how many of them match.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Step {
    pub(super) expanded: usize,
    pub(super) seen: usize,
    pub(super) matching: usize,
}

/// One search.
pub(super) struct Walk<'w, 'p, T: Translation> {
    index: &'p VamanaIndex<T>,
    entries: Reads<'w, 'p, T>,
    nodes: Reads<'w, 'p, T>,
    scratch: &'w mut Scratch,
    sought: &'w Sought,
    filter: Option<&'w dyn Filter>,
    about: About,
}

/// What is noticed of nodes, beside how far they are.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum About {
    /// Nothing.
    Distances,
    /// Their vectors.
    Vectors,
    /// Whether they lead to this one.
    LinksTo(NodeId),
}

impl<T: Translation> VamanaIndex<T> {
    /// Runs one search.
    pub(super) fn walk<'p, R>(
        &'p self,
        sought: &Sought,
        filter: Option<&dyn Filter>,
        search: impl FnOnce(&mut Walk<'_, 'p, T>) -> Result<R, PoolError>,
    ) -> Result<R, PoolError> {
        let mut scratch = SCRATCH.take().unwrap_or_default();
        let space = &self.space;
        // Nodes are many, and each is seldom come to: their pages leave memory before those of codes.
        let result = space.interleave(AccessHint::Normal, |often| {
            space.interleave(AccessHint::Scan, |once| {
                let entries = Reads::new(space, often);
                let nodes = Reads::new(space, once);
                let (index, scratch, about) = (self, &mut *scratch, About::Distances);
                search(&mut Walk { index, entries, nodes, scratch, sought, filter, about })
            })
        });
        // What a wide search needed is not kept.
        if scratch.visited.as_ref().is_some_and(Visited::is_small) {
            SCRATCH.set(Some(scratch));
        }
        result
    }

    /// The nodes that are read when as many of the nearest are kept in sight as for an insert,
    /// in no order, and their vectors if these are asked for.
    pub(super) fn expand(
        &self,
        sought: &Sought,
        about: About,
    ) -> Result<(Vec<Expanded>, Vec<Vector>), PoolError> {
        self.walk(sought, None, |walk| {
            walk.about = about;
            walk.begin(self.core.options.insert_width, false)?;
            while walk.step()?.is_some() {}
            let Scratch { expanded, vectors, .. } = &mut *walk.scratch;
            Ok((std::mem::take(expanded), std::mem::take(vectors)))
        })
    }
}

/// What is seen of entries.
struct Entries<'e> {
    core: &'e Core,
    sought: &'e Sought,
    seen: &'e mut Vec<Seen>,
}

impl LookAtSlot for Entries<'_> {
    type Sight = Seen;
    const KIND: Kind = Kind::Codes;

    #[inline(always)]
    fn see(&mut self, entry: NodeId, slot: Slot<'_>) -> Option<Seen> {
        Some(self.sought.see(self.core, entry, slot)).filter(|seen| seen.state != State::Free)
    }

    #[inline(always)]
    fn take(&mut self, _: NodeId, seen: Seen) {
        self.seen.push(seen);
    }
}

/// What is seen of nodes.
struct Nodes<'n> {
    core: &'n Core,
    vector: &'n Vector,
    about: About,
    /// The entries by which nodes are reached.
    wanted: &'n [Seen],
    /// The links of the node that was seen last, and those of all that were taken.
    fresh: &'n mut Vec<NodeId>,
    links: &'n mut Vec<NodeId>,
    expanded: &'n mut Vec<Expanded>,
    vectors: &'n mut Vec<Vector>,
}

impl LookAtSlot for Nodes<'_> {
    type Sight = (Expanded, Option<Vector>);
    const KIND: Kind = Kind::Nodes;

    fn see(&mut self, node: NodeId, slot: Slot<'_>) -> Option<Self::Sight> {
        self.fresh.clear();
        // VAMANA-2
        let entry = slot.partner().filter(|_| slot.state() != State::Free)?;
        let is_it = |wanted: &Seen| wanted.entry == entry && wanted.node == Some(node);
        if !self.wanted.iter().any(is_it) {
            return None;
        }
        let layout = &self.core.layout;
        slot.links(layout, self.fresh);
        let leads = matches!(self.about, About::LinksTo(about) if self.fresh.contains(&about));
        let vector = (self.about == About::Vectors).then(|| slot.copy(layout));
        let expanded = Expanded {
            entry,
            node,
            label: slot.label(),
            state: slot.state(),
            distance: self.core.distance(self.vector, slot),
            children: slot.children(layout),
            leads,
        };
        Some((expanded, vector))
    }

    fn take(&mut self, _: NodeId, (expanded, vector): Self::Sight) {
        self.links.append(self.fresh);
        self.expanded.push(expanded);
        self.vectors.extend(vector);
    }
}

impl<T: Translation> Walk<'_, '_, T> {
    /// Begins at the entry and the seeds, to keep so many in sight; with `keeps_all` also what is not among
    /// the nearest, for later.
    pub(super) fn begin(&mut self, width: usize, keeps_all: bool) -> Result<Step, PoolError> {
        let scratch = &mut *self.scratch;
        scratch.visited.get_or_insert_with(Visited::new).clear();
        scratch.nearest.clear(width, keeps_all);
        scratch.expanded.clear();
        scratch.vectors.clear();
        let links = &mut self.scratch.links;
        let slots = self.index.core.layout.slots(Kind::Codes);
        let entry = self.index.beginning(|page| {
            let seeds = meta::seeds(page).flat_map(|page| (0..slots).map(move |slot| (page, slot)));
            links.clear();
            links.extend(seeds.filter_map(|(page, slot)| NodeId::new(page, 0, slot)));
        })?;
        links.extend(entry.map(|entry| entry.id));
        self.look_at_links()
    }

    /// Expands a few of the nearest. `None` if all of them are.
    pub(super) fn step(&mut self) -> Result<Option<Step>, PoolError> {
        let scratch = &mut *self.scratch;
        scratch.beam.clear();
        scratch.beam.extend((0..BEAM).map_while(|_| scratch.nearest.take_next()));
        if scratch.beam.is_empty() {
            return Ok(None);
        }
        let core = &*self.index.core;
        let Scratch { beam, nodes, links, fresh, seen, expanded, vectors, .. } = scratch;
        seen.clear();
        let mut look = Entries { core, sought: self.sought, seen };
        self.entries.each(beam, &mut At(&core.layout, &mut look))?;
        nodes.clear();
        nodes.extend(seen.iter().filter_map(|seen| seen.node));
        links.clear();
        let (vector, about, wanted) = (&self.sought.vector, self.about, &**seen);
        let mut look = Nodes { core, vector, about, wanted, fresh, links, expanded, vectors };
        self.nodes.each(nodes, &mut At(&core.layout, &mut look))?;
        let expanded = nodes.len();
        Ok(Some(Step { expanded, ..self.look_at_links()? }))
    }

    /// Estimates how far those are to which links lead that were not seen.
    fn look_at_links(&mut self) -> Result<Step, PoolError> {
        let Scratch { visited, nearest, links, seen, .. } = &mut *self.scratch;
        visited.get_or_insert_with(Visited::new).insert_all(links);
        seen.clear();
        let mut look = Entries { core: &self.index.core, sought: self.sought, seen };
        self.entries.each(links, &mut At(&self.index.core.layout, &mut look))?;
        let mut step = Step { seen: seen.len(), ..Step::default() };
        // No page is on its way (MANY-4).
        for Seen { entry, label, state, estimate, .. } in &*seen {
            let is_match = self.filter.is_none_or(|filter| filter.matches(*label));
            step.matching += usize::from(is_match);
            // Of the longest vectors, or a damaged entry, the estimate may be no number: these come last.
            let estimate = if estimate.is_finite() { *estimate } else { f32::MAX };
            if estimate < nearest.bound() {
                let near = Near { distance: estimate, node: *entry };
                nearest.insert(near, is_match && *state == State::Live);
            }
        }
        Ok(step)
    }

    /// What is in sight.
    pub(super) fn nearest(&mut self) -> &mut Nearest {
        &mut self.scratch.nearest
    }

    /// The nodes that were read, in no order.
    pub(super) fn expanded(&self) -> &[Expanded] {
        &self.scratch.expanded
    }
}
