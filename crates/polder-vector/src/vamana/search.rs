//! Searches.

use std::borrow::Borrow;
use std::collections::HashMap;

use polder_pool::{PoolError, Translation};
use polder_structure::levels::root;

use super::VamanaIndex;
use super::filtered::Limit;
use super::walk::{About, Expanded, Halt, Sought, Walk};
use crate::best::Best;
use crate::element::VectorRef;
use crate::error::VectorError;
use crate::node_id::{NodeId, State};
use crate::queries::Queries;
use crate::reads::{Awaited, Reads};
use crate::search::{Answer, Found, Search};
use crate::together::{Searches, Stop, search_together};

/// Of the nodes in sight the farthest part of which one is looked at for whether all are within a distance.
const FARTHEST: usize = 4;

impl<T: Translation> VamanaIndex<T> {
    /// Vectors near to `query`, nearest first: the `count` nearest of those whose nodes are read, fewer if
    /// there are not so many. These are the `width` nearest by their codes (`L` in the paper), at least
    /// `count`, and those by way of which they are found.
    ///
    /// Where the search is for all that are within a distance, the `width` grows until some in sight are
    /// farther. With a filter what does not match is gone through as well. Where so few match that this would
    /// take longer, all codes that match are compared, and the nodes of the `width` nearest by these are
    /// read. It is exhaustive if the nodes of all that match were.
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
    /// Those of [`VamanaIndex::search`], for any of them.
    pub fn search_each(
        &self,
        queries: &Queries<'_>,
        search: &Search<'_>,
    ) -> Result<Vec<(usize, Answer)>, VectorError> {
        search.validate()?;
        let limit = search.filter.map(|filter| self.limit(filter)).transpose()?;
        let mut answers = Vec::new();
        if let Some(places) = search.filter.and_then(|filter| filter.places())
            && limit.is_some_and(|limit| {
                limit.is_more_than(places.as_slice().len(), search.first_width())
            })
        {
            while let Some((number, query)) = queries.take() {
                let vector = self.core.distances.vector(query)?;
                answers.push((number, self.compare_places(&vector, search, places)?));
            }
            return Ok(answers);
        }
        if limit.is_some_and(|limit| limit.is_reached(search.first_width())) {
            while let Some((number, query)) = queries.take() {
                let sought = self.core.sought(self.core.distances.vector(query)?);
                answers.push((number, self.search_codes(&sought, search)?));
            }
            return Ok(answers);
        }
        let beginning = Vec::new();
        let mut batch = Batch { index: self, beginning, queries, search, limit, answers };
        self.read_by(|reads| search_together(reads, &mut batch, queries.together()))?;
        Ok(batch.answers)
    }
}

/// Searches for many vectors.
struct Batch<'b, T: Translation> {
    index: &'b VamanaIndex<T>,
    /// Where the search before has begun.
    beginning: Vec<NodeId>,
    queries: &'b Queries<'b>,
    search: &'b Search<'b>,
    /// With what each begins.
    limit: Option<Limit>,
    answers: Vec<(usize, Answer)>,
}

/// One of them.
struct One<'b> {
    number: usize,
    walk: Walk<'b, Sought>,
    width: usize,
    limit: Option<Limit>,
    /// With a filter: what it has come to.
    end: Option<Turn>,
    /// It begins nowhere, as there are no vectors.
    is_of_nothing: bool,
}

impl<'b, 'p, T: Translation> Searches<'p, T> for Batch<'b, T> {
    type Search = One<'b>;

    fn begin(&mut self, reads: &mut Reads<'_, 'p, T>) -> Result<Option<One<'b>>, VectorError> {
        let Some((number, query)) = self.queries.take() else { return Ok(None) };
        let (core, limit, width) = (&*self.index.core, self.limit, self.search.first_width());
        let sought = core.sought(core.distances.vector(query)?);
        let mut walk = Walk::new(core, sought, self.search.filter, About::Distances);
        let links = walk.begin(width, self.search.is_range());
        // Inserts change where searches begin; what it was leads to the graph as well.
        if reads.read_here(root(), |page| core.where_to_begin(page, links)).is_none() {
            match reads.is_waiting() {
                true => links.clone_from(&self.beginning),
                false => self.index.where_to_begin(links)?,
            }
        }
        if self.queries.together() > 1 {
            self.beginning.clone_from(links);
        }
        let is_of_nothing = links.is_empty();
        Ok(Some(One { number, walk, width, limit, end: None, is_of_nothing }))
    }

    fn go_on(
        &mut self,
        one: &mut One<'b>,
        reads: &mut Reads<'_, 'p, T>,
    ) -> Result<Stop, PoolError> {
        while one.end.is_none() {
            match one.walk.go_on(reads)? {
                Halt::Awaits(count) => return Ok(Stop::Awaits(count)),
                Halt::Judges => return Ok(Stop::Judges),
                Halt::Step => {}
            }
            match one.turn(self.search) {
                Turn::GoesOn => continue,
                end if self.search.filter.is_some() => {
                    one.end = Some(end);
                    return Ok(Stop::Judges);
                }
                _ => self.answer(one),
            }
            break;
        }
        Ok(Stop::Ended)
    }

    fn look(
        &mut self,
        one: &mut One<'b>,
        reads: &mut Reads<'_, 'p, T>,
        awaited: Awaited,
        may_wait: bool,
    ) -> Result<bool, PoolError> {
        one.walk.look(reads, awaited, may_wait)
    }

    fn judge(&mut self, one: &mut One<'b>) -> Result<(), VectorError> {
        match one.end {
            None => one.walk.judge(),
            Some(Turn::IsGivenUp) => {
                let answer = self.index.search_codes(one.walk.sought(), self.search)?;
                self.answers.push((one.number, answer));
            }
            Some(_) => self.answer(one),
        }
        Ok(())
    }
}

impl<T: Translation> Batch<'_, T> {
    /// What a search has found.
    fn answer(&mut self, one: &One<'_>) {
        let found = one.walk.nearest_of(self.search);
        self.answers.push((one.number, Answer { found, is_exhaustive: one.is_of_nothing }));
    }
}

/// What becomes of a search after a step.
#[derive(Clone, Copy)]
enum Turn {
    GoesOn,
    Ends,
    /// To go through all codes costs less.
    IsGivenUp,
}

impl One<'_> {
    fn turn(&mut self, search: &Search<'_>) -> Turn {
        let walk = &mut self.walk;
        if let Some(done) = walk.done {
            let is_reached = self.limit.as_mut().is_some_and(|limit| {
                limit.add(done);
                limit.is_reached(self.width)
            });
            return if is_reached { Turn::IsGivenUp } else { Turn::GoesOn };
        }
        let is_enough = self.width >= search.count || !walk.nearest().is_full();
        if search.is_range() && !is_enough && !walk.is_beyond(search.within) {
            self.width = self.width.saturating_mul(2);
            walk.nearest().widen(self.width);
            return Turn::GoesOn;
        }
        // What matches is not linked, or too far away.
        match self.limit.is_some() && !walk.nearest().is_full() {
            true => Turn::IsGivenUp,
            false => Turn::Ends,
        }
    }
}

impl<Q: Borrow<Sought>> Walk<'_, Q> {
    /// The nearest of the nodes that were read.
    fn nearest_of(&self, search: &Search<'_>) -> Vec<Found> {
        let mut best = Best::new(search);
        for Expanded { entry, label, state, distance, .. } in self.expanded() {
            let order = Best::order(*distance);
            let is_match = || search.filter.is_none_or(|filter| filter.matches(*label));
            if *state == State::Live && order <= best.bound() && is_match() {
                best.insert((order, *label, *entry));
            }
        }
        best.into_found()
    }

    /// Whether the farthest of what is in sight are all farther than this: by their codes they are farthest,
    /// and these err.
    fn is_beyond(&mut self, within: f32) -> bool {
        let in_sight: Vec<NodeId> = self.nearest().iter().map(|near| near.node).collect();
        let farthest = &in_sight[in_sight.len() - in_sight.len().div_ceil(FARTHEST)..];
        let distance = |one: &Expanded| (one.entry, one.distance);
        let distances: HashMap<NodeId, f32> = self.expanded().iter().map(distance).collect();
        // Of one that has left meanwhile there is none.
        let is_beyond = |entry| distances.get(entry).is_none_or(|distance| *distance > within);
        !farthest.is_empty() && farthest.iter().all(is_beyond)
    }
}
