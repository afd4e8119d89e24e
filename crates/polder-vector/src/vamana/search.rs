//! Searches.

use std::collections::HashMap;

use polder_pool::{PoolError, Translation};

use super::VamanaIndex;
use super::filtered::Limit;
use super::slots::State;
use super::walk::{Expanded, Walk};
use crate::best::Best;
use crate::element::VectorRef;
use crate::error::VectorError;
use crate::node_id::NodeId;
use crate::search::{Answer, Found, Search};

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
        let sought = self.core.sought(self.core.distances.vector(query.into())?);
        search.validate()?;
        let mut limit = match search.filter {
            Some(filter) => Some(self.limit(filter)?),
            None => None,
        };
        let found = self.walk(&sought, search.filter, |walk| walk.search(search, &mut limit))?;
        match found {
            Some(found) => Ok(Answer { found, is_exhaustive: false }),
            None => Ok(self.search_codes(&sought, search)?),
        }
    }
}

impl<T: Translation> Walk<'_, '_, T> {
    /// What is nearest of the nodes that are read. `None` if that is given up, because to go through all
    /// codes costs less.
    fn search(
        &mut self,
        search: &Search<'_>,
        limit: &mut Option<Limit>,
    ) -> Result<Option<Vec<Found>>, PoolError> {
        let is_range = search.within < f32::INFINITY;
        let mut width = search.first_width();
        if limit.as_ref().is_some_and(|limit| limit.is_reached(width)) {
            return Ok(None);
        }
        let mut step = Some(self.begin(width, is_range)?);
        loop {
            while let Some(done) = step {
                if let Some(limit) = limit {
                    limit.add(done);
                    if limit.is_reached(width) {
                        return Ok(None);
                    }
                }
                step = self.step()?;
            }
            let is_enough = width >= search.count || !self.nearest().is_full();
            if !is_range || is_enough || self.is_beyond(search.within) {
                break;
            }
            width = width.saturating_mul(2);
            self.nearest().widen(width);
            step = self.step()?;
        }
        // What matches is not linked, or too far away.
        if limit.is_some() && !self.nearest().is_full() {
            return Ok(None);
        }
        let mut best = Best::new(search);
        for Expanded { entry, label, state, distance, .. } in self.expanded() {
            let order = Best::order(*distance);
            let is_match = || search.filter.is_none_or(|filter| filter.matches(*label));
            if *state == State::Live && order <= best.bound() && is_match() {
                best.insert((order, *label, *entry));
            }
        }
        Ok(Some(best.into_found()))
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
