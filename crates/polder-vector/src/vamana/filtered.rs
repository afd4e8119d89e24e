//! When a search with a filter no longer goes through the graph, but through all codes.
//!
//! Going through the graph costs as many nodes as are gone through until enough of them match; going through
//! the codes costs all entries, and the nodes of the nearest that match. What part of all matches is known
//! where the filter says how many do, and otherwise from what the walk has seen.

use polder_pool::{PoolError, Translation};

use super::VamanaIndex;
use super::walk::Step;
use crate::search::Filter;

/// What it costs to read a node and to look at what it leads to, in entries that are looked at one after the
/// other.
const NODE: f64 = 100.0;
/// After so many entries it is known about what part of them matches.
const SEEN_FIRST: usize = 200;

/// How much a search with a filter may cost.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    /// Entries of the index, about.
    entries: f64,
    /// The part that matches, if the filter says how many do.
    share: Option<f64>,
    done: Step,
}

impl<T: Translation> VamanaIndex<T> {
    pub(super) fn limit(&self, filter: &dyn Filter) -> Result<Limit, PoolError> {
        let entries = self.core.layout.vectors_in(self.space.pages_in_use()?);
        let share = filter.count().map(|count| (count as f64 / entries).min(1.0));
        Ok(Limit { entries, share, done: Step::default() })
    }
}

impl Limit {
    pub(super) fn add(&mut self, step: Step) {
        self.done.expanded += step.expanded;
        self.done.seen += step.seen;
        self.done.matching += step.matching;
    }

    /// Whether reading so many nodes, of which it is known where they lie, costs less than any search that keeps
    /// so many in sight.
    pub(super) fn is_more_than(&self, nodes: usize, width: usize) -> bool {
        let share = (nodes as f64 / self.entries).min(1.0);
        let (graph, codes) = (width as f64 / share, self.entries / NODE + width as f64);
        // The entry of each is looked for as well.
        2.0 * nodes as f64 <= graph.min(codes)
    }

    /// Whether a search that keeps so many in sight costs more, or will do so, than going through all codes.
    pub(super) fn is_reached(&self, width: usize) -> bool {
        let Step { expanded, seen, matching } = self.done;
        let of_seen = (matching + 1) as f64 / (seen + 1) as f64;
        let share = match self.share {
            Some(share) => share.min(if seen < SEEN_FIRST { 1.0 } else { of_seen }),
            None if seen < SEEN_FIRST => 1.0,
            None => of_seen,
        };
        let expected = (width as f64 / share).max(expanded as f64);
        expected * NODE > self.entries + width as f64 * NODE
    }
}
