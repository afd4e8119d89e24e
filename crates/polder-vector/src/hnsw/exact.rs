//! Comparing with all vectors: what is found is what is nearest.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use polder_format::PageNo;
use polder_pool::bytes::PageBuf;
use polder_pool::{AccessHint, PoolError, Translation};

use super::node::{NodePage, State};
use super::{Found, HnswIndex};
use crate::element::Element;
use crate::error::VectorError;
use crate::node_id::NodeId;

/// Pages of which it is found out at a time whether they are used.
const BATCH: usize = 1024;

/// A vector, by how far it is, and by its label.
struct Candidate {
    distance: f32,
    label: u64,
    node: NodeId,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        let by_label = || (self.label, self.node).cmp(&(other.label, other.node));
        self.distance.total_cmp(&other.distance).then_with(by_label)
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

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
        let (layout, distances) = (&self.core.layout, &self.core.distances);
        // The farthest first.
        let mut found: BinaryHeap<Candidate> = BinaryHeap::new();
        self.for_each_page(&mut |nodes, page| {
            for slot in 0..nodes.slots() {
                let node = nodes.node(layout, slot);
                if node.state() != State::Live {
                    continue;
                }
                let distance = distances.between(&query, node.vector(layout), node.scale());
                if found.len() >= count
                    && found.peek().is_none_or(|farthest| distance > farthest.distance)
                {
                    continue;
                }
                let Some(id) = NodeId::new(page, nodes.level(), slot) else { continue };
                found.push(Candidate { distance, label: node.label(), node: id });
                if found.len() > count {
                    found.pop();
                }
            }
        })?;
        let found = found.into_sorted_vec().into_iter();
        let found =
            found.map(|Candidate { distance, label, node }| Found { label, distance, node });
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
