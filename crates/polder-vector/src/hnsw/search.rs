//! Searches: how a graph is gone through for what they ask.

use polder_pool::{PoolError, Translation};

use super::HnswIndex;
use super::filtered::By;
use super::node::State;
use super::walk::Walk;
use crate::element::VectorRef;
use crate::error::VectorError;
use crate::near::{Near, Nearest};
use crate::search::{Answer, Found, Search};
use crate::vectors::Vector;

impl<T: Translation> HnswIndex<T> {
    /// Vectors near to `query`, nearest first: those of the `count` nearest that are found, fewer if
    /// there are not so many. The search keeps the `width` nearest in sight that it has seen (`ef` in the
    /// paper), at least `count`.
    ///
    /// Where the search is for all that are within a distance, the `width` grows until some in sight are
    /// farther. With a filter the graph is gone through by way of what matches; where few match, which is
    /// estimated from a sample of the labels, or where too few are found in this way, all vectors that
    /// match are compared.
    ///
    /// # Errors
    /// Those of a vector that is not one of the index, [`VectorError::Within`], and those of loading pages.
    pub fn search<'v>(
        &self,
        query: impl Into<VectorRef<'v>>,
        search: &Search<'_>,
    ) -> Result<Answer, VectorError> {
        let query = self.core.distances.vector(query.into())?;
        search.validate()?;
        let mut by = None;
        if let Some(filter) = search.filter {
            by = self.way_to_matching(filter, search.first_width())?;
            if by.is_none() {
                return Ok(self.compare_all(&query, search)?);
            }
        }
        let near = self.walk(&query, |walk| {
            let is_over = walk.search(search, by.as_mut())?;
            let is_found = by.is_none() || is_over && walk.nearest().is_full();
            Ok(is_found.then(|| walk.found().collect::<Vec<_>>()))
        })?;
        match near {
            Some(near) => {
                let found = self.found(&query, search, near)?;
                Ok(Answer { found, is_exhaustive: false })
            }
            // What matches is not linked, or too far away.
            None => Ok(self.compare_all(&query, search)?),
        }
    }

    /// What a search has found, with labels, if it is still there.
    pub(super) fn found(
        &self,
        query: &Vector,
        search: &Search<'_>,
        near: impl IntoIterator<Item = Near>,
    ) -> Result<Vec<Found>, PoolError> {
        let near = near.into_iter();
        let mut found = Vec::with_capacity(search.count.min(near.size_hint().1.unwrap_or(0)));
        for Near { distance, node } in near.take_while(|near| near.distance <= search.within) {
            if found.len() == search.count {
                break;
            }
            let label = self.read_node(node, |_, node| {
                // The place may be another node's by now.
                let is_it = || self.core.distance(query, node) == distance;
                (node.state() == State::Live && is_it()).then(|| node.label())
            })?;
            let is_match = |label: &u64| search.filter.is_none_or(|filter| filter.matches(*label));
            let label = label.flatten().filter(is_match);
            found.extend(label.map(|label| Found { label, distance, node }));
        }
        Ok(found)
    }
}

impl<T: Translation> Walk<'_, '_, T> {
    /// Finds the nearest nodes of the lowest level. False if it was given up.
    fn search(
        &mut self,
        search: &Search<'_>,
        mut by: Option<&mut By<'_>>,
    ) -> Result<bool, PoolError> {
        let mut width = search.first_width();
        if !self.begin_search(width, search.is_range(), by.as_deref())? {
            return Ok(true);
        }
        loop {
            if !self.go_on_by(by.as_deref_mut())? {
                return Ok(false);
            }
            if !search.wants_more(self.nearest()) {
                return Ok(true);
            }
            width = width.saturating_mul(2);
            self.nearest().widen(width);
        }
    }
}

impl Search<'_> {
    /// Whether a search for all within a distance keeps more in sight than these.
    pub(super) fn wants_more(&self, nearest: &Nearest) -> bool {
        let is_within = || nearest.iter().last().is_some_and(|last| last.distance <= self.within);
        self.is_range() && nearest.width() < self.count && nearest.is_full() && is_within()
    }
}
