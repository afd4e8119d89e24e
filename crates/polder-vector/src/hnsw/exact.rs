//! Comparing with all vectors: what is found is what is nearest.

use std::collections::BinaryHeap;

use polder_format::PageNo;
use polder_pool::{AccessHint, PoolError, Translation};

use super::HnswIndex;
use super::node::{NodePage, NodeRef, State};
use crate::element::VectorRef;
use crate::error::VectorError;
use crate::near::{distance_of, order_of};
use crate::node_id::NodeId;
use crate::search::{Answer, Filter, Found, Search};
use crate::vectors::Vector;

/// Pages of which it is found out at a time whether they are used.
const BATCH: usize = 1024;
/// How far ahead of the one that is compared vectors are asked for.
const AHEAD: usize = 3;

/// A vector by how far it is, and by its label.
type Ordered = (u32, u64, NodeId);

impl<T: Translation> HnswIndex<T> {
    /// The vectors nearest to `query`, nearest first, of all that the index has: each that matches is
    /// compared. Of equally near ones those with the lowest labels.
    ///
    /// # Errors
    /// Those of a vector that is not one of the index, [`VectorError::Within`], and those of loading pages.
    pub fn search_exact<'v>(
        &self,
        query: impl Into<VectorRef<'v>>,
        search: &Search<'_>,
    ) -> Result<Answer, VectorError> {
        let query = self.core.distances.vector(query.into())?;
        search.validate()?;
        Ok(self.compare_all(&query, search)?)
    }

    /// Shows the label of each vector, and where it lies, in no order, until `show` returns false.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn for_each(&self, mut show: impl FnMut(u64, NodeId) -> bool) -> Result<(), VectorError> {
        let (mut labels, mut goes_on) = (Vec::new(), true);
        self.for_each_page(|page| {
            self.live_nodes(page, &mut labels, |_| {}, |id, node| Some((node.label(), id)))?;
            goes_on = labels.drain(..).all(|(label, node)| show(label, node));
            Ok(goes_on)
        })?;
        Ok(())
    }

    pub(super) fn compare_all(
        &self,
        query: &Vector,
        search: &Search<'_>,
    ) -> Result<Answer, PoolError> {
        // The farthest first; of equally far ones, that with the highest label.
        let mut nearest: BinaryHeap<Ordered> = BinaryHeap::new();
        let within = order_of(search.within);
        let (mut near, mut matching) = (Vec::new(), Vec::new());
        self.for_each_page(|page| {
            let bound = match nearest.peek() {
                Some(farthest) if nearest.len() >= search.count => within.min(farthest.0),
                _ => within,
            };
            let compare = |id, node: NodeRef<'_>| {
                let order = order_of(self.core.distance(query, node));
                (order <= bound).then(|| (order, node.label(), id))
            };
            let ask = |node: NodeRef<'_>| node.prefetch(&self.core.layout, true);
            match search.filter {
                None => self.live_nodes(page, &mut near, ask, compare)?,
                Some(filter) => {
                    self.matching_nodes(page, filter, &mut matching)?;
                    if matching.is_empty() {
                        return Ok(true);
                    }
                    self.live_nodes(
                        page,
                        &mut near,
                        |_| {},
                        |id, node| {
                            let is_match = matching.contains(&(id, node.label()));
                            is_match.then(|| compare(id, node)).flatten()
                        },
                    )?;
                }
            }
            for one in near.drain(..) {
                nearest.push(one);
                if nearest.len() > search.count {
                    nearest.pop();
                }
            }
            Ok(true)
        })?;
        let nearest = nearest.into_sorted_vec().into_iter();
        let found =
            nearest.map(|(order, label, node)| Found { label, distance: distance_of(order), node });
        Ok(Answer { found: found.collect(), is_exhaustive: true })
    }

    /// Finds the nodes of a page that match, with their labels.
    fn matching_nodes(
        &self,
        page: PageNo,
        filter: &dyn Filter,
        matching: &mut Vec<(NodeId, u64)>,
    ) -> Result<(), PoolError> {
        self.live_nodes(page, matching, |_| {}, |id, node| Some((id, node.label())))?;
        matching.retain(|(_, label)| filter.matches(*label));
        Ok(())
    }

    /// Leaves in `seen` what `see` makes of the nodes of a page that are there, of which it has asked for
    /// what `ask` does.
    pub(super) fn live_nodes<R>(
        &self,
        page: PageNo,
        seen: &mut Vec<R>,
        ask: impl Fn(NodeRef<'_>),
        mut see: impl FnMut(NodeId, NodeRef<'_>) -> Option<R>,
    ) -> Result<(), PoolError> {
        let layout = &self.core.layout;
        self.space.run(AccessHint::Scan, |attempt| {
            seen.clear();
            let guard = self.space.page(attempt, page)?;
            let nodes = NodePage::new(guard.page());
            if nodes.is_of(layout) {
                let level = nodes.level();
                let slots = nodes.slots();
                // Lines that lie far apart, which the processor does not foresee.
                for slot in 0..slots {
                    nodes.node(layout, slot).prefetch_label(layout);
                }
                for slot in 0..slots {
                    if slot + AHEAD < slots {
                        ask(nodes.node(layout, slot + AHEAD));
                    }
                    let node = nodes.node(layout, slot);
                    if node.state() == State::Live {
                        let id = NodeId::new(page, level, slot);
                        seen.extend(id.and_then(|id| see(id, node)));
                    }
                }
            }
            guard.validate()
        })
    }

    /// Shows the number of each page, read ahead of the one that is shown, until `show` returns false.
    pub(super) fn for_each_page(
        &self,
        mut show: impl FnMut(PageNo) -> Result<bool, PoolError>,
    ) -> Result<(), PoolError> {
        let space = &self.space;
        let mut from = 1;
        while let Some(first) = PageNo::new(from) {
            let pages = space.used_pages_from(first, BATCH)?;
            let Some(last) = pages.last() else { break };
            from = last.get() + 1;
            let ahead = space.most_ahead().max(1);
            for (i, page) in pages.iter().enumerate() {
                if i % ahead == 0 {
                    space.load_ahead(pages[i..].iter().copied().take(ahead));
                }
                if !show(*page)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
