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
//! A walk goes on until a page is missing, so that several of one thread go on together (`together.rs`).
//!
//! A vector that is being removed is gone through and not found. With a filter what does not match is gone
//! through as well: labels are in the entries, so that for one that is not expanded no node is read.

use std::borrow::Borrow;
use std::mem;
use std::thread::LocalKey;

use polder_pool::bytes::PageRef;
use polder_pool::{AccessHint, PoolError, Translation};

use super::code::{CodeQuery, Residual};
use super::layout::Kind;
use super::look::{AtSlot, LookAtSlot};
use super::slots::Slot;
use super::{Core, VamanaIndex, meta};
use crate::lent::{Kept, Lent, Memory};
use crate::near::{Near, Nearest};
use crate::node_id::{NodeId, State};
use crate::reads::{Awaited, Reads};
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

/// Memory of a search, which a later one of the thread uses again.
#[derive(Default)]
struct Scratch {
    visited: Visited,
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

/// How many entries a step of a walk has seen, and how many of them match.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Step {
    pub(super) expanded: usize,
    pub(super) seen: usize,
    pub(super) matching: usize,
}

/// One search.
pub(super) struct Walk<'w, Q: Borrow<Sought>> {
    core: &'w Core,
    scratch: Lent<Scratch>,
    sought: Q,
    filter: Option<&'w dyn Filter>,
    about: About,
    at: At,
    /// What the last step has done. `None` if everything in sight is expanded.
    pub(super) done: Option<Step>,
}

/// What of a step is done next.
#[derive(Debug, Clone, Copy)]
enum At {
    /// A few of the nearest are chosen, and their entries are read.
    Nearest,
    /// Their nodes are read.
    Entries,
    /// The entries are read to which the nodes lead.
    Nodes,
    /// What was seen of these is taken over.
    Links,
    /// The step has been made.
    End,
}

/// Why a walk does not go on.
pub(super) enum Halt {
    /// It awaits so many places.
    Awaits(usize),
    /// Its filter is to be asked ([`Walk::judge`]).
    Judges,
    /// A step has been made ([`Walk::done`]).
    Step,
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

impl Core {
    /// Where searches begin, as the first page has it: at the entry of the index, and the seeds.
    pub(super) fn where_to_begin(&self, page: PageRef<'_>, entries: &mut Vec<NodeId>) {
        let slots = self.layout.slots(Kind::Codes);
        let seeds = meta::seeds(page).flat_map(|page| (0..slots).map(move |slot| (page, slot)));
        entries.clear();
        entries.extend(seeds.filter_map(|(page, slot)| NodeId::new(page, 0, slot)));
        entries.extend(meta::entry(page).map(|entry| entry.id));
    }
}

impl<T: Translation> VamanaIndex<T> {
    /// Reads pages for searches.
    pub(super) fn read_by<'p, R>(&'p self, read: impl FnOnce(&mut Reads<'_, 'p, T>) -> R) -> R {
        self.space.interleave(AccessHint::Normal, |way| read(&mut Reads::new(&self.space, way)))
    }

    /// Where searches begin; this may wait for the first page.
    pub(super) fn where_to_begin(&self, entries: &mut Vec<NodeId>) -> Result<(), PoolError> {
        self.read_meta(|page| self.core.where_to_begin(page, entries))
    }

    /// The nodes that are read when as many of the nearest are kept in sight as for an insert,
    /// in no order, and their vectors if these are asked for.
    pub(super) fn expand(
        &self,
        sought: &Sought,
        about: About,
    ) -> Result<(Vec<Expanded>, Vec<Vector>), PoolError> {
        let mut walk = Walk::new(&self.core, sought, None, about);
        self.where_to_begin(walk.begin(self.core.options.insert_width, false))?;
        self.read_by(|reads| -> Result<(), PoolError> {
            while walk.done.is_some() {
                while let Halt::Awaits(_) = walk.go_on(reads)? {
                    reads.finish(|reads, awaited, may_wait| walk.look(reads, awaited, may_wait))?;
                }
            }
            Ok(())
        })?;
        let Scratch { expanded, vectors, .. } = &mut *walk.scratch;
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
struct Nodes<'n> {
    core: &'n Core,
    sought: &'n Sought,
    about: About,
    /// The entries by which nodes are wanted.
    seen: &'n mut [Seen],
    /// The links of the node that was seen last.
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
        self.seen.iter().find(|wanted| is_it(wanted))?;
        let layout = &self.core.layout;
        slot.links(layout, self.fresh);
        let leads = matches!(&self.about, About::LinksTo(about) if self.fresh.contains(about));
        let vector = (self.about == About::Vectors).then(|| slot.copy(layout));
        let expanded = Expanded {
            entry,
            node,
            label: slot.label(),
            state: slot.state(),
            distance: self.core.distance(&self.sought.vector, slot),
            children: slot.children(layout),
            leads,
        };
        Some((expanded, vector))
    }

    fn take(&mut self, node: NodeId, (expanded, vector): Self::Sight) {
        // It is wanted once.
        let wanted = self.seen.iter_mut().filter(|seen| seen.node == Some(node));
        wanted.for_each(|seen| seen.node = None);
        self.links.append(self.fresh);
        self.expanded.push(expanded);
        self.vectors.extend(vector);
    }
}

impl<'w, Q: Borrow<Sought>> Walk<'w, Q> {
    pub(super) fn new(
        core: &'w Core,
        sought: Q,
        filter: Option<&'w dyn Filter>,
        about: About,
    ) -> Walk<'w, Q> {
        let scratch = Lent::new();
        Walk { core, scratch, sought, filter, about, at: At::Nearest, done: None }
    }

    /// Begins, to keep so many in sight; with `keeps_all` also what is not among the nearest, for later. Gives
    /// the list of the entries at which it begins, which is the caller's to fill. That is the first step.
    pub(super) fn begin(&mut self, width: usize, keeps_all: bool) -> &mut Vec<NodeId> {
        (self.at, self.done) = (At::Nodes, Some(Step::default()));
        let scratch = &mut *self.scratch;
        scratch.visited.clear();
        scratch.nearest.clear(width, keeps_all);
        scratch.expanded.clear();
        scratch.vectors.clear();
        scratch.links.clear();
        &mut scratch.links
    }

    /// Goes on with a step, or begins one, if nothing is awaited.
    pub(super) fn go_on<T: Translation>(
        &mut self,
        reads: &mut Reads<'_, '_, T>,
    ) -> Result<Halt, PoolError> {
        loop {
            let awaited = match self.at {
                At::Nearest => {
                    self.at = At::Entries;
                    self.ask_for_entries(reads)?
                }
                At::Entries => {
                    self.at = At::Nodes;
                    self.ask_for_nodes(reads)?
                }
                At::Nodes => {
                    self.at = At::Links;
                    self.ask_for_links(reads)?
                }
                At::Links if self.filter.is_some() => return Ok(Halt::Judges),
                At::Links => {
                    self.judge();
                    0
                }
                At::End => {
                    self.at = At::Nearest;
                    return Ok(Halt::Step);
                }
            };
            if awaited > 0 {
                return Ok(Halt::Awaits(awaited));
            }
        }
    }

    /// Chooses a few of the nearest, and looks at their entries.
    fn ask_for_entries<T: Translation>(
        &mut self,
        reads: &mut Reads<'_, '_, T>,
    ) -> Result<usize, PoolError> {
        let Scratch { nearest, beam, links, seen, .. } = &mut *self.scratch;
        links.clear();
        seen.clear();
        beam.clear();
        beam.extend((0..BEAM).map_while(|_| nearest.take_next()));
        if beam.is_empty() {
            (self.at, self.done) = (At::End, None);
            return Ok(0);
        }
        let mut look = Entries { core: self.core, sought: self.sought.borrow(), seen };
        reads.ask(beam, &mut AtSlot(&self.core.layout, &mut look))
    }

    /// Looks at the nodes of entries.
    fn ask_for_nodes<T: Translation>(
        &mut self,
        reads: &mut Reads<'_, '_, T>,
    ) -> Result<usize, PoolError> {
        let mut nodes = mem::take(&mut self.scratch.nodes);
        nodes.clear();
        nodes.extend(self.scratch.seen.iter().filter_map(|seen| seen.node));
        self.done = Some(Step { expanded: nodes.len(), ..Step::default() });
        let core = self.core;
        let layout = &core.layout;
        let awaited = reads.ask(&nodes, &mut AtSlot(layout, &mut self.nodes()));
        self.scratch.nodes = nodes;
        awaited
    }

    /// Looks at the entries to which links lead that were not seen.
    fn ask_for_links<T: Translation>(
        &mut self,
        reads: &mut Reads<'_, '_, T>,
    ) -> Result<usize, PoolError> {
        let Scratch { visited, links, seen, .. } = &mut *self.scratch;
        visited.insert_all(links, 0);
        seen.clear();
        let mut look = Entries { core: self.core, sought: self.sought.borrow(), seen };
        reads.ask(links, &mut AtSlot(&self.core.layout, &mut look))
    }

    fn nodes(&mut self) -> Nodes<'_> {
        let Scratch { seen, fresh, links, expanded, vectors, .. } = &mut *self.scratch;
        let (core, sought, about) = (self.core, self.sought.borrow(), self.about);
        Nodes { core, sought, about, seen, fresh, links, expanded, vectors }
    }

    /// Looks at what was awaited.
    pub(super) fn look<T: Translation>(
        &mut self,
        reads: &mut Reads<'_, '_, T>,
        awaited: Awaited,
        may_wait: bool,
    ) -> Result<bool, PoolError> {
        let core = self.core;
        let layout = &core.layout;
        if let At::Nodes = self.at {
            return reads.look_at(awaited, &mut AtSlot(layout, &mut self.nodes()), may_wait);
        }
        let seen = &mut self.scratch.seen;
        let mut look = Entries { core: self.core, sought: self.sought.borrow(), seen };
        reads.look_at(awaited, &mut AtSlot(layout, &mut look), may_wait)
    }

    /// Takes over what was seen. With a filter no page may be on its way (`MANY-4`).
    pub(super) fn judge(&mut self) {
        let Scratch { nearest, seen, .. } = &mut *self.scratch;
        let step = self.done.get_or_insert_default();
        step.seen = seen.len();
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
        self.at = At::End;
    }

    /// What is looked for.
    pub(super) fn sought(&self) -> &Sought {
        self.sought.borrow()
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
