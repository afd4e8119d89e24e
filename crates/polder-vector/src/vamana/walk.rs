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
//! Several searches of one thread go on together, step by step: then the nodes of all of them are read
//! together, where one search alone waits for a few reads at a time. (Entries, most of which are in memory,
//! are looked at for one search after the other.)
//!
//! A vector that is being removed is gone through and not found. With a filter what does not match is gone
//! through as well: labels are in the entries, so that for one that is not expanded no node is read.

use std::cell::RefCell;
use std::mem;

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
/// Bytes of what searches have seen that a thread keeps for its next ones.
const MOST_KEPT: usize = 1 << 20;

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

/// Memory of a search, which a later one of the thread uses again.
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
    static KEPT: RefCell<Vec<Scratch>> = const { RefCell::new(Vec::new()) };
}

/// How many entries a step of a walk has seen, and how many of them match.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Step {
    pub(super) expanded: usize,
    pub(super) seen: usize,
    pub(super) matching: usize,
}

/// What a thread reads pages by, for one search or several.
pub(super) struct Readers<'w, 'p, T: Translation> {
    index: &'p VamanaIndex<T>,
    entries: Reads<'w, 'p, T>,
    nodes: Reads<'w, 'p, T>,
}

/// One search.
pub(super) struct Walk<'w> {
    scratch: Scratch,
    sought: &'w Sought,
    filter: Option<&'w dyn Filter>,
    about: About,
    /// What the last step has done. `None` if everything in sight is expanded.
    pub(super) done: Option<Step>,
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
    /// Reads pages for searches.
    pub(super) fn read_by<'p, R>(
        &'p self,
        read: impl FnOnce(&mut Readers<'_, 'p, T>) -> Result<R, PoolError>,
    ) -> Result<R, PoolError> {
        let space = &self.space;
        // Nodes are many, and each is seldom come to: their pages leave memory before those of codes.
        space.interleave(AccessHint::Normal, |often| {
            space.interleave(AccessHint::Scan, |once| {
                let (entries, nodes) = (Reads::new(space, often), Reads::new(space, once));
                read(&mut Readers { index: self, entries, nodes })
            })
        })
    }

    /// The nodes that are read when as many of the nearest are kept in sight as for an insert,
    /// in no order, and their vectors if these are asked for.
    pub(super) fn expand(
        &self,
        sought: &Sought,
        about: About,
    ) -> Result<(Vec<Expanded>, Vec<Vector>), PoolError> {
        let mut walk = Walk::new(sought, None, about);
        self.read_by(|readers| {
            walk.begin(readers, self.core.options.insert_width, false)?;
            while walk.done.is_some() {
                readers.step(std::slice::from_mut(&mut walk))?;
            }
            Ok(())
        })?;
        let Scratch { expanded, vectors, .. } = &mut walk.scratch;
        Ok((mem::take(expanded), mem::take(vectors)))
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
struct Nodes<'n, 'w> {
    core: &'n Core,
    /// Each has the entries by which it wants nodes.
    walks: &'n mut [Walk<'w>],
    /// The links of the node that was seen last.
    fresh: &'n mut Vec<NodeId>,
}

impl LookAtSlot for Nodes<'_, '_> {
    /// Which of the walks wanted it, and what it is for that.
    type Sight = (usize, Expanded, Option<Vector>);
    const KIND: Kind = Kind::Nodes;

    fn see(&mut self, node: NodeId, slot: Slot<'_>) -> Option<Self::Sight> {
        self.fresh.clear();
        // VAMANA-2
        let entry = slot.partner().filter(|_| slot.state() != State::Free)?;
        let is_it = |wanted: &Seen| wanted.entry == entry && wanted.node == Some(node);
        // The node is in the list once for each walk that wants it, and each time it is taken for the next one:
        // `take` clears the wish.
        let wants = |walk: &Walk<'_>| walk.scratch.seen.iter().any(is_it);
        let number = self.walks.iter().position(wants)?;
        let Walk { sought, about, .. } = &self.walks[number];
        let layout = &self.core.layout;
        slot.links(layout, self.fresh);
        let leads = matches!(about, About::LinksTo(about) if self.fresh.contains(about));
        let vector = (*about == About::Vectors).then(|| slot.copy(layout));
        let expanded = Expanded {
            entry,
            node,
            label: slot.label(),
            state: slot.state(),
            distance: self.core.distance(&sought.vector, slot),
            children: slot.children(layout),
            leads,
        };
        Some((number, expanded, vector))
    }

    fn take(&mut self, node: NodeId, (number, expanded, vector): Self::Sight) {
        let scratch = &mut self.walks[number].scratch;
        let wanted = scratch.seen.iter_mut().filter(|seen| seen.node == Some(node));
        wanted.for_each(|seen| seen.node = None);
        scratch.links.append(self.fresh);
        scratch.expanded.push(expanded);
        scratch.vectors.extend(vector);
    }
}

impl<T: Translation> Readers<'_, '_, T> {
    /// Expands a few of the nearest of each of these walks.
    pub(super) fn step(&mut self, walks: &mut [Walk<'_>]) -> Result<(), PoolError> {
        let Some(first) = walks.first_mut() else { return Ok(()) };
        let (mut nodes, mut fresh) =
            (mem::take(&mut first.scratch.nodes), mem::take(&mut first.scratch.fresh));
        nodes.clear();
        for walk in &mut *walks {
            walk.choose(self, &mut nodes)?;
        }
        let core = &*self.index.core;
        let mut look = Nodes { core, walks, fresh: &mut fresh };
        self.nodes.each(&nodes, &mut At(&core.layout, &mut look))?;
        for walk in &mut *walks {
            if let Some(Step { expanded, .. }) = walk.done {
                let step = walk.look_at_links(self)?;
                walk.done = Some(Step { expanded, ..step });
            }
        }
        (walks[0].scratch.nodes, walks[0].scratch.fresh) = (nodes, fresh);
        Ok(())
    }

    /// How many pages of nodes had to be read so far.
    pub(super) fn missing(&self) -> usize {
        self.nodes.missing()
    }
}

impl<'w> Walk<'w> {
    pub(super) fn new(
        sought: &'w Sought,
        filter: Option<&'w dyn Filter>,
        about: About,
    ) -> Walk<'w> {
        let scratch = KEPT.with_borrow_mut(Vec::pop).unwrap_or_default();
        Walk { scratch, sought, filter, about, done: None }
    }

    /// Begins at the entry and the seeds, to keep so many in sight; with `keeps_all` also what is not among
    /// the nearest, for later.
    pub(super) fn begin<T: Translation>(
        &mut self,
        readers: &mut Readers<'_, '_, T>,
        width: usize,
        keeps_all: bool,
    ) -> Result<(), PoolError> {
        let scratch = &mut self.scratch;
        scratch.visited.get_or_insert_with(Visited::new).clear();
        scratch.nearest.clear(width, keeps_all);
        scratch.expanded.clear();
        scratch.vectors.clear();
        let links = &mut scratch.links;
        let slots = readers.index.core.layout.slots(Kind::Codes);
        let entry = readers.index.beginning(|page| {
            let seeds = meta::seeds(page).flat_map(|page| (0..slots).map(move |slot| (page, slot)));
            links.clear();
            links.extend(seeds.filter_map(|(page, slot)| NodeId::new(page, 0, slot)));
        })?;
        links.extend(entry.map(|entry| entry.id));
        self.done = Some(self.look_at_links(readers)?);
        Ok(())
    }

    /// Chooses a few of the nearest, and adds their nodes to these.
    fn choose<T: Translation>(
        &mut self,
        readers: &mut Readers<'_, '_, T>,
        nodes: &mut Vec<NodeId>,
    ) -> Result<(), PoolError> {
        let Scratch { nearest, beam, links, seen, .. } = &mut self.scratch;
        links.clear();
        seen.clear();
        beam.clear();
        beam.extend((0..BEAM).map_while(|_| nearest.take_next()));
        if beam.is_empty() {
            self.done = None;
            return Ok(());
        }
        let core = &*readers.index.core;
        let mut look = Entries { core, sought: self.sought, seen };
        readers.entries.each(beam, &mut At(&core.layout, &mut look))?;
        let before = nodes.len();
        nodes.extend(seen.iter().filter_map(|seen| seen.node));
        self.done = Some(Step { expanded: nodes.len() - before, ..Step::default() });
        Ok(())
    }

    /// Estimates how far those are to which links lead that were not seen.
    fn look_at_links<T: Translation>(
        &mut self,
        readers: &mut Readers<'_, '_, T>,
    ) -> Result<Step, PoolError> {
        let Scratch { visited, nearest, links, seen, .. } = &mut self.scratch;
        visited.get_or_insert_with(Visited::new).insert_all(links);
        seen.clear();
        let core = &*readers.index.core;
        let mut look = Entries { core, sought: self.sought, seen };
        readers.entries.each(links, &mut At(&core.layout, &mut look))?;
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

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        let scratch = mem::take(&mut self.scratch);
        let bytes = |scratch: &Scratch| scratch.visited.as_ref().map_or(0, Visited::bytes);
        // When the thread ends, nothing is kept.
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.iter().map(bytes).sum::<usize>() + bytes(&scratch) <= MOST_KEPT {
                kept.push(scratch);
            }
        });
    }
}
