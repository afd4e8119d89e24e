//! Comparing with all vectors: what is found is what is nearest.

use std::collections::BinaryHeap;

use polder_format::PageNo;
use polder_pool::bytes::PageBuf;
use polder_pool::{AccessHint, PoolError, Translation};

use super::node::{NodePage, State};
use super::{Found, HnswIndex};
use crate::element::Element;
use crate::error::VectorError;
use crate::near::{distance_of, order_of};
use crate::node_id::NodeId;

/// Pages of which it is found out at a time whether they are used.
const BATCH: usize = 1024;

impl<T: Translation> HnswIndex<T> {
    /// The `count` vectors nearest to `query`, nearest first, of all that the index has: each is read
    /// and compared. Of equally near ones those with the lowest labels.
    ///
    /// # Errors
    /// Those of a vector that is not one of the index, and those of loading pages.
    pub fn search_exact<E: Element>(
        &self,
        query: &[E],
        count: usize,
    ) -> Result<Vec<Found>, VectorError> {
        let query = self.core.distances.vector(query)?;
        // The farthest first; of equally far ones, that with the highest label.
        let mut found: BinaryHeap<(u32, u64, NodeId)> = BinaryHeap::new();
        self.for_each_page(&mut |nodes, page| {
            for slot in 0..nodes.slots() {
                let node = nodes.node(&self.core.layout, slot);
                if node.state() != State::Live {
                    continue;
                }
                let order = order_of(self.core.distance(&query, node));
                let is_full = found.len() >= count;
                if is_full && found.peek().is_none_or(|farthest| order > farthest.0) {
                    continue;
                }
                found.extend(
                    NodeId::new(page, nodes.level(), slot).map(|id| (order, node.label(), id)),
                );
                if found.len() > count {
                    found.pop();
                }
            }
        })?;
        let found = found.into_sorted_vec().into_iter();
        let found =
            found.map(|(order, label, node)| Found { label, distance: distance_of(order), node });
        Ok(found.collect())
    }

    /// Shows a copy of each page of nodes, read ahead of the one that is shown.
    pub(super) fn for_each_page(
        &self,
        show: &mut dyn FnMut(NodePage<'_>, PageNo),
    ) -> Result<(), PoolError> {
        let space = &self.space;
        let mut copy = PageBuf::new(space.page_size());
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
                space.run(AccessHint::Scan, |attempt| {
                    let guard = space.page(attempt, *page)?;
                    copy.copy_from(guard.page());
                    guard.validate()
                })?;
                let nodes = NodePage::new(copy.page());
                if nodes.is_of(&self.core.layout) {
                    show(nodes, *page);
                }
            }
        }
        Ok(())
    }
}
