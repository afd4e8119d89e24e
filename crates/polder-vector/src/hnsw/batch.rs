//! Searches for many vectors, without a filter, which go on together where pages must be read
//! (`together.rs`): each goes through the graph as `walk.rs` says, level by level, until a page is missing.

use std::cmp::Reverse;

use polder_pool::bytes::PageRef;
use polder_pool::{AccessHint, PoolError, Translation};
use polder_structure::levels::root;

use super::meta::{self, Entry};
use super::node::{NodePage, NodeRef, State};
use super::walk::{By, Nearer, Scratch, Sight};
use super::{Core, HnswIndex};
use crate::error::VectorError;
use crate::lent::Lent;
use crate::near::{Near, Nearest};
use crate::node_id::NodeId;
use crate::queries::Queries;
use crate::reads::{Awaited, Look, Reads};
use crate::search::{Answer, Found, Search};
use crate::together::{Searches, Stop, search_together};
use crate::vectors::Vector;

impl<T: Translation> HnswIndex<T> {
    /// Searches for as many of these as the thread takes until all are taken, as [`HnswIndex::search`] does for
    /// each; gives the answers, each with the number of its query. The searches go on together where pages
    /// must be read: one search alone waits for a few reads at a time.
    ///
    /// # Errors
    /// Those of [`HnswIndex::search`], for any of them.
    pub fn search_each(
        &self,
        queries: &Queries<'_>,
        search: &Search<'_>,
    ) -> Result<Vec<(usize, Answer)>, VectorError> {
        let mut answers = Vec::new();
        if search.filter.is_some() {
            // Which way a search with a filter takes is found out while it goes on.
            while let Some((number, query)) = queries.take() {
                answers.push((number, self.search(query, search)?));
            }
            return Ok(answers);
        }
        search.validate()?;
        let (index, core) = (self, &*self.core);
        let mut batch = Batch { index, core, entry: None, queries, search, answers };
        self.space.interleave(AccessHint::Normal, |way| {
            let reads = &mut Reads::new(&self.space, way);
            search_together(reads, &mut batch, queries.together())
        })?;
        Ok(batch.answers)
    }
}

/// All of them.
struct Batch<'b, T: Translation> {
    index: &'b HnswIndex<T>,
    core: &'b Core,
    /// Where the search before has begun.
    entry: Option<Entry>,
    queries: &'b Queries<'b>,
    search: &'b Search<'b>,
    answers: Vec<(usize, Answer)>,
}

/// One of them.
struct One {
    number: usize,
    query: Vector,
    scratch: Lent<Scratch>,
    level: u8,
    /// Where the level is begun.
    start: NodeId,
    /// So many are kept in sight on the lowest level.
    width: usize,
    at: At,
    /// What was found, farthest first, until its labels are asked for.
    near: Vec<Near>,
    /// That of which the labels are read, in the order of the nodes.
    labelled: Vec<Ranked>,
    /// What is still there of it, each with its rank.
    found: Vec<(usize, Found)>,
}

/// What is done next.
#[derive(Debug, Clone, Copy)]
enum At {
    /// The level is begun: its first node is looked at.
    Level,
    /// The first node has been looked at.
    Start,
    /// The links are read of the nearest node whose links were not.
    Nearest,
    /// The links have been read: the nodes to which they lead are looked at.
    Links,
    /// The nodes to which links lead have been looked at.
    Nodes,
    /// Labels are read of what was found.
    Labels,
}

impl<'p, T: Translation> Searches<'p, T> for Batch<'_, T> {
    type Search = One;

    fn begin(&mut self, reads: &mut Reads<'_, 'p, T>) -> Result<Option<One>, VectorError> {
        // Inserts change where searches begin; what it was leads to the graph as well.
        match reads.read_here(root(), meta::entry) {
            Some(entry) => self.entry = entry,
            None if !reads.is_waiting() => self.entry = self.index.entry()?,
            None => {}
        }
        while let Some((number, query)) = self.queries.take() {
            let query = self.core.distances.vector(query)?;
            let Some(Entry { node: start, level }) = self.entry else {
                self.answers.push((number, Answer::default()));
                continue;
            };
            let (scratch, width, at) = (Lent::new(), self.search.first_width(), At::Level);
            let (near, labelled, found) = Default::default();
            let one =
                One { number, query, scratch, level, start, width, at, near, labelled, found };
            return Ok(Some(one));
        }
        Ok(None)
    }

    fn go_on(&mut self, one: &mut One, reads: &mut Reads<'_, 'p, T>) -> Result<Stop, PoolError> {
        while let Some(awaited) = one.step(self.core, self.search, reads)? {
            if awaited > 0 {
                return Ok(Stop::Awaits(awaited));
            }
        }
        one.found.sort_unstable_by_key(|(rank, _)| Reverse(*rank));
        let found = one.found.drain(..).map(|(_, found)| found).collect();
        self.answers.push((one.number, Answer { found, is_exhaustive: false }));
        Ok(Stop::Ended)
    }

    fn look(
        &mut self,
        one: &mut One,
        reads: &mut Reads<'_, 'p, T>,
        awaited: Awaited,
        may_wait: bool,
    ) -> Result<bool, PoolError> {
        let by = By { core: self.core, query: &one.query, level: one.level };
        let Scratch { nearest, links, others: fresh, .. } = &mut *one.scratch;
        let without_leaving = false;
        match one.at {
            At::Start => reads.look_at(awaited, &mut First { by, nearest }, may_wait),
            At::Links => reads.look_at(awaited, &mut Links { by, links, fresh }, may_wait),
            At::Labels => {
                let (of, found) = (&one.labelled, &mut one.found);
                reads.look_at(awaited, &mut Answers { by, of, found }, may_wait)
            }
            _ => reads.look_at(awaited, &mut Nearer { by, nearest, without_leaving }, may_wait),
        }
    }

    /// There is no filter.
    fn judge(&mut self, _: &mut One) -> Result<(), VectorError> {
        Ok(())
    }
}

impl One {
    /// Takes a step. Gives how many places are awaited until the next one; `None` after the last.
    #[inline(always)]
    fn step<T: Translation>(
        &mut self,
        core: &Core,
        search: &Search<'_>,
        reads: &mut Reads<'_, '_, T>,
    ) -> Result<Option<usize>, PoolError> {
        let by = By { core, query: &self.query, level: self.level };
        let scratch = &mut *self.scratch;
        let awaited = match self.at {
            At::Level => {
                let is_lowest = self.level == 0;
                let width = if is_lowest { self.width } else { 1 };
                self.at = At::Start;
                scratch.clear(width, is_lowest && search.is_range());
                let Scratch { visited, nearest, links, .. } = scratch;
                links.push(self.start);
                visited.insert_all(links);
                reads.ask(links, &mut First { by, nearest })?
            }
            At::Nearest => match scratch.nearest.take_next() {
                Some(node) => {
                    self.at = At::Links;
                    if scratch.read_links(reads, node, core, self.level) {
                        0
                    } else {
                        let Scratch { links, others: fresh, .. } = scratch;
                        links.clear();
                        reads.ask(&[node], &mut Links { by, links, fresh })?
                    }
                }
                None => {
                    self.end_level(search);
                    0
                }
            },
            At::Links => {
                self.at = At::Nodes;
                let Scratch { visited, nearest, links, .. } = scratch;
                visited.insert_all(links);
                reads.ask(links, &mut Nearer { by, nearest, without_leaving: false })?
            }
            At::Start | At::Nodes => {
                self.at = At::Nearest;
                0
            }
            At::Labels => {
                let missing = search.count - self.found.len();
                let rest = self.near.len().saturating_sub(missing);
                self.labelled.clear();
                let nearest = self.near.drain(rest..).enumerate();
                self.labelled.extend(nearest.map(|(i, near)| Ranked { near, rank: rest + i }));
                if self.labelled.is_empty() {
                    return Ok(None);
                }
                self.labelled.sort_unstable_by_key(|one| one.near.node);
                let places: Vec<NodeId> = self.labelled.iter().map(|one| one.near.node).collect();
                let (of, found) = (&self.labelled, &mut self.found);
                reads.ask(&places, &mut Answers { by, of, found })?
            }
        };
        Ok(Some(awaited))
    }

    /// Everything in sight on a level was gone through.
    fn end_level(&mut self, search: &Search<'_>) {
        let nearest = &mut self.scratch.nearest;
        self.at = At::Level;
        if self.level > 0 {
            self.start = nearest.iter().next().map_or(self.start, |found| found.node);
            self.level -= 1;
            return;
        }
        if search.wants_more(nearest) {
            self.width = self.width.saturating_mul(2);
            nearest.widen(self.width);
            self.at = At::Nearest;
            return;
        }
        let found = nearest.iter().take_while(|near| near.distance <= search.within);
        self.near.extend(found);
        self.near.reverse();
        self.at = At::Labels;
    }
}

/// The node with which a level begins.
struct First<'w> {
    by: By<'w>,
    nearest: &'w mut Nearest,
}

impl Look for First<'_> {
    type Sight = Sight;
    const HINT: AccessHint = AccessHint::Normal;

    fn ahead(&self) -> usize {
        1
    }

    fn prefetch(&self, page: PageRef<'_>, node: NodeId) {
        let layout = &self.by.core.layout;
        layout.lowest(page, node.slot()).prefetch(layout);
    }

    fn see(&mut self, page: PageRef<'_>, node: NodeId) -> Result<Option<Sight>, &'static str> {
        let By { core, query, .. } = self.by;
        let sight = core.node_in(page, node, |_, found| {
            let distance = core.distance(query, found);
            Sight { distance, state: found.state() }
        })?;
        // One that has left meanwhile still leads to where it was.
        Ok(Some(sight.unwrap_or(Sight { distance: f32::INFINITY, state: State::Free })))
    }

    fn take(&mut self, node: NodeId, Sight { distance, state }: Sight) {
        self.nearest.insert(Near { distance, node }, state == State::Live);
    }
}

/// Links of a node.
struct Links<'w> {
    by: By<'w>,
    links: &'w mut Vec<NodeId>,
    /// Those that were seen last.
    fresh: &'w mut Vec<NodeId>,
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

/// Something that was found; the nearest has the highest rank.
struct Ranked {
    near: Near,
    rank: usize,
}

/// Labels of what was found, if it is still there.
struct Answers<'l> {
    by: By<'l>,
    /// In the order of the nodes.
    of: &'l [Ranked],
    found: &'l mut Vec<(usize, Found)>,
}

impl Answers<'_> {
    fn label(&self, node: NodeId, there: NodeRef<'_>) -> Option<(usize, Found)> {
        let at = self.of.binary_search_by_key(&node, |one| one.near.node).ok()?;
        let Ranked { near: Near { distance, .. }, rank } = self.of[at];
        // The place may be another node's by now.
        let is_it = || self.by.core.distance(self.by.query, there) == distance;
        let is_found = there.state() == State::Live && is_it();
        is_found.then(|| (rank, Found { label: there.label(), distance, node }))
    }
}

impl Look for Answers<'_> {
    type Sight = (usize, Found);
    const HINT: AccessHint = AccessHint::Normal;

    fn ahead(&self) -> usize {
        self.by.core.layout.ahead()
    }

    fn prefetch(&self, page: PageRef<'_>, node: NodeId) {
        let layout = &self.by.core.layout;
        layout.lowest(page, node.slot()).prefetch(layout);
    }

    fn see(
        &mut self,
        page: PageRef<'_>,
        node: NodeId,
    ) -> Result<Option<Self::Sight>, &'static str> {
        Ok(self.by.core.node_in(page, node, |_, there| self.label(node, there))?.flatten())
    }

    fn take(&mut self, _: NodeId, found: Self::Sight) {
        self.found.push(found);
    }
}
