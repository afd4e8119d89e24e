//! Searches.

use std::collections::HashMap;

use polder_pool::{PoolError, Translation};

use super::VamanaIndex;
use super::filtered::Limit;
use super::slots::State;
use super::walk::{About, Expanded, Readers, Sought, Walk};
use crate::best::Best;
use crate::element::VectorRef;
use crate::error::VectorError;
use crate::node_id::NodeId;
use crate::search::{Answer, Found, Search};

/// Of the nodes in sight the farthest part of which one is looked at for whether all are within a distance.
const FARTHEST: usize = 4;
/// Searches that go on together where pages must be read.
const TOGETHER: usize = 16;
/// Queries that are made ready at once.
const AT_ONCE: usize = 64;

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
        let mut answers = self.search_together(&[query.into()], search)?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// The same for many, whose searches go on together where pages must be read: one search alone waits for
    /// a few reads at a time. Gives the answers in the order of the queries.
    ///
    /// # Errors
    /// Those of [`VamanaIndex::search`], for any of them.
    pub fn search_together(
        &self,
        queries: &[VectorRef<'_>],
        search: &Search<'_>,
    ) -> Result<Vec<Answer>, VectorError> {
        search.validate()?;
        let mut answers = Vec::with_capacity(queries.len());
        for queries in queries.chunks(AT_ONCE) {
            let sought = |query: &VectorRef<'_>| -> Result<Sought, VectorError> {
                Ok(self.core.sought(self.core.distances.vector(*query)?))
            };
            let sought = queries.iter().map(sought).collect::<Result<Vec<_>, _>>()?;
            let mut all = vec![None; queries.len()];
            self.read_by(|readers| self.search_all(readers, &sought, search, &mut all))?;
            for (found, sought) in all.into_iter().zip(&sought) {
                answers.push(match found {
                    Some(found) => Answer { found, is_exhaustive: false },
                    None => self.search_codes(sought, search)?,
                });
            }
        }
        Ok(answers)
    }

    /// What is nearest of the nodes that are read, for each search that is not given up because to go
    /// through all codes costs less.
    fn search_all(
        &self,
        readers: &mut Readers<'_, '_, T>,
        sought: &[Sought],
        search: &Search<'_>,
        answers: &mut [Option<Vec<Found>>],
    ) -> Result<(), PoolError> {
        let (limit, width) =
            (search.filter.map(|filter| self.limit(filter)).transpose()?, search.first_width());
        if limit.is_some_and(|limit| limit.is_reached(width)) {
            return Ok(());
        }
        let (mut walks, mut ends): (Vec<Walk<'_>>, Vec<End>) = Default::default();
        let (mut waiting, mut together) = (sought.iter().enumerate(), 1);
        loop {
            while walks.len() < together
                && let Some((number, sought)) = waiting.next()
            {
                let mut walk = Walk::new(sought, search.filter, About::Distances);
                walk.begin(readers, width, search.is_range())?;
                walks.push(walk);
                ends.push(End { number, width, limit });
            }
            for at in (0..walks.len()).rev() {
                match ends[at].turn(&mut walks[at], search) {
                    Turn::GoesOn => continue,
                    Turn::Ends => answers[ends[at].number] = Some(walks[at].nearest_of(search)),
                    Turn::IsGivenUp => {}
                }
                walks.swap_remove(at);
                ends.swap_remove(at);
            }
            if walks.is_empty() && waiting.len() == 0 {
                return Ok(());
            }
            let before = readers.missing();
            readers.step(&mut walks)?;
            // Where all is in memory, several at once only need more of the processor's cache.
            together = if readers.missing() > before { TOGETHER } else { 1 };
        }
    }
}

/// Until when one of several searches goes on.
struct End {
    /// Which of them it is.
    number: usize,
    width: usize,
    limit: Option<Limit>,
}

/// What becomes of a search after a step.
enum Turn {
    GoesOn,
    Ends,
    /// To go through all codes costs less.
    IsGivenUp,
}

impl End {
    fn turn(&mut self, walk: &mut Walk<'_>, search: &Search<'_>) -> Turn {
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

impl Walk<'_> {
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
