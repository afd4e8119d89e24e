//! Searches for what is nearest, one or many, which go on together where pages must be read
//! (`crate::together`).
//!
//! ```text
//! 1  the graph is gone through, level by level (`steps.rs`)
//! 2  the labels are read of the nearest that were found; of what has left meanwhile there is none, and then
//!    those of the next ones are read
//! ```

use std::mem;
use std::ops::Range;

use polder_pool::{AccessHint, PoolError, Translation};
use polder_structure::levels::root;

use super::answer::{self, Labelling};
use super::filtered::{Estimate, Filtered};
use super::look::By;
use super::meta::{self, Entry};
use super::steps::Steps;
use super::walk::Halt;
use super::{Core, HnswIndex};
use crate::element::VectorRef;
use crate::error::VectorError;
use crate::near::{Near, Nearest};
use crate::node_id::NodeId;
use crate::queries::Queries;
use crate::reads::{Awaited, Reads};
use crate::search::{Answer, Found, Search};
use crate::together::{Searches, Stop, search_together};

impl<T: Translation> HnswIndex<T> {
    /// Vectors near to `query`, nearest first: those of the `count` nearest that are found, fewer if
    /// there are not so many. The search keeps the `width` nearest in sight that it has seen (`ef` in the
    /// paper), at least `count`.
    ///
    /// What is found may depend on which pages are in memory: as long as none is missing, the search looks ahead,
    /// and may go through nodes in another order.
    ///
    /// Where the search is for all that are within a distance, the `width` grows until some in sight are
    /// farther. With a filter what does not match is gone through as well; where what matches lies together, and
    /// not near the query, only what matches is. If that would cost more, by a sample of the labels, or if too
    /// few are found in this way, all vectors that match are compared.
    ///
    /// # Errors
    /// Those of a vector that is not one of the index, [`VectorError::Within`], and those of loading pages.
    pub fn search<'v>(
        &self,
        query: impl Into<VectorRef<'v>>,
        search: &Search<'_>,
    ) -> Result<Answer, VectorError> {
        let answers = self.search_each(&Queries::new(&[query.into()], 1), search)?;
        Ok(answers.into_iter().next().map(|(_, answer)| answer).unwrap_or_default())
    }

    /// The same for as many of these as the thread takes until all are taken; gives the answers, each with the
    /// number of its query. The searches go on together where pages must be read: one search alone waits for
    /// a few reads at a time.
    ///
    /// # Errors
    /// Those of [`HnswIndex::search`], for any of them.
    pub fn search_each(
        &self,
        queries: &Queries<'_>,
        search: &Search<'_>,
    ) -> Result<Vec<(usize, Answer)>, VectorError> {
        search.validate()?;
        let mut answers = Vec::new();
        let mut estimate = None;
        if let Some(filter) = search.filter {
            estimate = self.estimate(filter, search.first_width())?;
            if estimate.is_none() {
                while let Some((number, query)) = queries.take() {
                    let query = self.core.distances.vector(query)?;
                    answers.push((number, self.compare_all(&query, search)?));
                }
                return Ok(answers);
            }
        }
        let (index, core, entry, places) = (self, &*self.core, None, Vec::new());
        let mut batch = Batch { index, core, entry, queries, search, estimate, answers, places };
        self.space.interleave(AccessHint::Normal, |way| {
            let reads = &mut Reads::new(&self.space, way);
            search_together(reads, &mut batch, queries.together())
        })?;
        Ok(batch.answers)
    }
}

/// Searches for many vectors.
struct Batch<'b, T: Translation> {
    index: &'b HnswIndex<T>,
    core: &'b Core,
    /// Where the search before has begun.
    entry: Option<Entry>,
    queries: &'b Queries<'b>,
    search: &'b Search<'b>,
    /// With a filter: what is known of it.
    estimate: Option<Estimate>,
    answers: Vec<(usize, Answer)>,
    /// Memory for places of which the labels are read.
    places: Vec<NodeId>,
}

/// One of them.
struct One<'b> {
    number: usize,
    steps: Steps<'b>,
    at: At,
    /// What was found, nearest first; that of which labels were asked for lies in the order of the nodes.
    near: Vec<Near>,
    /// The part of it of which labels were asked for last.
    asked: Range<usize>,
    /// What is still there of it.
    found: Vec<Found>,
    /// About so many of that the filter was asked.
    judged: usize,
}

/// What is done next.
#[derive(Debug, Clone, Copy)]
enum At {
    /// The graph is gone through.
    Graph,
    /// Labels are read.
    Labels,
    /// They have been read: the filter is asked whether they match.
    Labelled,
    /// All vectors that match are compared.
    All,
    End,
}

impl<'b, 'p, T: Translation> Searches<'p, T> for Batch<'b, T> {
    type Search = One<'b>;

    fn begin(&mut self, reads: &mut Reads<'_, 'p, T>) -> Result<Option<One<'b>>, VectorError> {
        // Inserts change where searches begin; what it was leads to the graph as well.
        match reads.read_here(root(), meta::entry) {
            Some(entry) => self.entry = entry,
            None if !reads.is_waiting() => self.entry = self.index.entry()?,
            None => {}
        }
        while let Some((number, query)) = self.queries.take() {
            let query = self.core.distances.vector(query)?;
            let Some(entry) = self.entry else {
                // There are no vectors.
                self.answers.push((number, Answer { found: Vec::new(), is_exhaustive: true }));
                continue;
            };
            let filtered = self.search.filter.zip(self.estimate.clone());
            let filtered = filtered.map(|(filter, estimate)| Filtered::new(filter, estimate));
            let sight = (self.search.first_width(), self.search.is_range());
            let steps = Steps::new(self.core, query, entry, filtered, sight);
            let (at, (near, asked, found, judged)) = (At::Graph, Default::default());
            return Ok(Some(One { number, steps, at, near, asked, found, judged }));
        }
        Ok(None)
    }

    fn go_on(
        &mut self,
        one: &mut One<'b>,
        reads: &mut Reads<'_, 'p, T>,
    ) -> Result<Stop, PoolError> {
        loop {
            match one.at {
                At::Graph => match one.steps.go_on(reads)? {
                    Halt::Awaits(awaited) => return Ok(Stop::Awaits(awaited)),
                    Halt::Judges => return Ok(Stop::Judges),
                    Halt::Over => one.end_graph(self.search),
                },
                At::Labels => {
                    let awaited = self.ask_for_labels(one, reads)?;
                    if awaited > 0 {
                        return Ok(Stop::Awaits(awaited));
                    }
                }
                At::Labelled | At::All => return Ok(Stop::Judges),
                At::End => return Ok(Stop::Ended),
            }
            if let At::End = one.at {
                let mut found = mem::take(&mut one.found);
                answer::sort(&mut found);
                self.answers.push((one.number, Answer { found, is_exhaustive: false }));
            }
        }
    }

    fn look(
        &mut self,
        one: &mut One<'b>,
        reads: &mut Reads<'_, 'p, T>,
        awaited: Awaited,
        may_wait: bool,
    ) -> Result<bool, PoolError> {
        if let At::Graph = one.at {
            return one.steps.look(reads, awaited, may_wait);
        }
        let by = By::new(self.core, one.steps.query(), 0);
        let (of, found) = (&one.near[one.asked.clone()], &mut one.found);
        reads.look_at(awaited, &mut Labelling { by, of, found }, may_wait)
    }

    fn judge(&mut self, one: &mut One<'b>) -> Result<(), VectorError> {
        match one.at {
            At::Graph => one.steps.judge(),
            At::All => {
                let answer = self.index.compare_all(one.steps.query(), self.search)?;
                self.answers.push((one.number, answer));
                one.at = At::End;
            }
            _ => {
                let filter = self.search.filter;
                let is_match = |found: &Found| filter.is_none_or(|by| by.matches(found.label));
                let new = one.found.split_off(one.judged);
                one.found.extend(new.into_iter().filter(is_match));
                (one.at, one.judged) = (At::Labels, one.found.len());
            }
        }
        Ok(())
    }
}

impl<T: Translation> Batch<'_, T> {
    /// Reads the labels of as many as are missing. Gives how many places are awaited.
    fn ask_for_labels(
        &mut self,
        one: &mut One<'_>,
        reads: &mut Reads<'_, '_, T>,
    ) -> Result<usize, PoolError> {
        let (missing, next) = (self.search.count - one.found.len(), one.asked.end);
        one.asked = next..one.near.len().min(next.saturating_add(missing));
        if one.asked.is_empty() {
            one.at = At::End;
            return Ok(0);
        }
        if self.search.filter.is_some() {
            one.at = At::Labelled;
        }
        let of = &mut one.near[one.asked.clone()];
        self.places.clear();
        self.places.extend(answer::by_node(of));
        let by = By::new(self.core, one.steps.query(), 0);
        reads.ask(&self.places, &mut Labelling { by, of, found: &mut one.found })
    }
}

impl One<'_> {
    /// Everything in sight was gone through.
    fn end_graph(&mut self, search: &Search<'_>) {
        let steps = &mut self.steps;
        if !steps.is_given_up() && search.wants_more(steps.nearest()) {
            let width = steps.nearest().width();
            steps.widen(width.saturating_mul(2));
            return;
        }
        // What matches is not linked, or too far away.
        if search.filter.is_some() && (steps.is_given_up() || !steps.nearest().is_full()) {
            self.at = At::All;
            return;
        }
        self.near.extend(steps.found().take_while(|near| near.distance <= search.within));
        self.at = At::Labels;
    }
}

impl Search<'_> {
    /// Whether a search for all within a distance keeps more in sight than these.
    fn wants_more(&self, nearest: &Nearest) -> bool {
        let is_within = || nearest.iter().last().is_some_and(|last| last.distance <= self.within);
        self.is_range() && nearest.width() < self.count && nearest.is_full() && is_within()
    }
}
