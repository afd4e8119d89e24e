//! How a search with a filter is done: by going through the graph, in one of two ways, or by comparing with
//! all that match.
//!
//! A sample of the labels says how many vectors match, about, and so how much of the graph is gone through
//! until enough do. If that costs more than comparing with all, that is done at once; if it turns out to do
//! so, that is done then. Where far fewer match near the query than elsewhere, the search begins again, with
//! vectors of the sample that match, and goes by way of what matches alone.

use std::cmp::Ordering;

use polder_pool::{PoolError, Translation};

use super::HnswIndex;
use super::walk::{Judged, Walk};
use crate::node_id::NodeId;
use crate::search::Filter;

/// Vectors of the sample from which a search begins, at most.
const MOST_SEEDS: usize = 32;
/// How much longer comparing a vector takes than finding out whether it matches.
const COMPARING: f64 = 4.0;

/// Costs of going through the links of a node and comparing those that were not seen, in nodes that are
/// looked at for their labels.
const STEP: f64 = 64.0;
/// After so many nodes it is known whether fewer match near the query than elsewhere.
const JUDGED_FIRST: u64 = 200;
/// Far fewer: by this factor.
const FAR_FEWER: f64 = 8.0;

/// How a search with a filter goes through the graph.
pub(super) struct By<'f> {
    filter: &'f dyn Filter,
    /// The part of all vectors that matches, about.
    share: f64,
    /// Nodes that matched not long ago.
    seeds: Vec<NodeId>,
    /// What comparing with all costs, in nodes that are looked at for their labels.
    most: f64,
    /// What was spent, in the same.
    spent: f64,
    /// What was seen.
    judged: Judged,
    /// Whether it goes by way of what matches alone.
    only_matching: bool,
}

impl<T: Translation> HnswIndex<T> {
    /// How a search with a filter that keeps so many in sight goes through the graph. `None` if to compare
    /// with all that match costs less, in nodes that are looked at for their labels.
    pub(super) fn way_to_matching<'f>(
        &self,
        filter: &'f dyn Filter,
        width: usize,
    ) -> Result<Option<By<'f>>, PoolError> {
        let sample = self.sample()?;
        let matching = sample.labels.iter().filter(|(_, label)| filter.matches(*label));
        let matching: Vec<NodeId> = matching.map(|(node, _)| *node).collect();
        let share = match filter.count() {
            Some(count) => (count as f64 / sample.vectors).min(1.0),
            None => matching.len() as f64 / sample.labels.len() as f64,
        };
        // Nodes that are gone through until so many match.
        let steps = width as f64 / share;
        let most = sample.vectors * (1.0 + COMPARING * share);
        // What is no number, where nothing is known, is not less.
        if matching.is_empty() || (steps * STEP).partial_cmp(&most) != Some(Ordering::Less) {
            return Ok(None);
        }
        let seeds = matching.into_iter().take(MOST_SEEDS).collect();
        let (spent, judged, only_matching) = (0.0, Judged::default(), false);
        Ok(Some(By { filter, share, seeds, most, spent, judged, only_matching }))
    }
}

impl<T: Translation> Walk<'_, '_, T> {
    /// Begins to look for the nearest nodes of the lowest level, and keeps all that it sees or what is
    /// nearest. False in an empty index.
    pub(super) fn begin_search(
        &mut self,
        width: usize,
        keeps_all: bool,
        by: Option<&By<'_>>,
    ) -> Result<bool, PoolError> {
        // What another search has left is none of this one's.
        self.clear(width, 0);
        let Some(entry) = self.entry()? else { return Ok(false) };
        let start = self.descend(entry, 0)?;
        self.keeps_all = keeps_all;
        match by {
            None => self.begin(start, width, 0)?,
            Some(by) => self.begin_filtered(start, width, by.filter)?,
        }
        Ok(true)
    }

    /// Goes on until the links of the nearest nodes have been read. False if that is given up, because to
    /// compare with all would cost less.
    pub(super) fn go_on_by(&mut self, by: Option<&mut By<'_>>) -> Result<bool, PoolError> {
        let Some(by) = by else { return self.go_on().map(|()| true) };
        while !by.only_matching {
            let Some(judged) = self.step_filtered(by.filter)? else { return Ok(true) };
            by.spent += STEP;
            by.judged.seen += judged.seen;
            by.judged.matching += judged.matching;
            if by.spent > by.most {
                return Ok(false);
            }
            if by.judged.seen >= JUDGED_FIRST && by.local_share() < by.share / FAR_FEWER {
                by.only_matching = true;
                let width = self.nearest().width();
                self.begin_matching(&by.seeds, width, by.filter)?;
            }
        }
        while let Some(judged) = self.step_matching(by.filter)? {
            by.spent += judged as f64;
            if by.spent > by.most {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl By<'_> {
    /// The part that matches of what is near to the query.
    fn local_share(&self) -> f64 {
        (self.judged.matching + 1) as f64 / (self.judged.seen + 1) as f64
    }
}
