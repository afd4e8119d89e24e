//! Comparing with all vectors: what is found is what is nearest.

use polder_format::PageNo;
use polder_pool::{AccessHint, PoolError, Translation};

use super::HnswIndex;
use super::look::{Among, By};
use super::node::{NodePage, NodeRef};
use crate::best::Best;
use crate::element::VectorRef;
use crate::error::VectorError;
use crate::node_id::{NodeId, State};
use crate::pages::for_each_page;
use crate::places::{Places, by_page};
use crate::reads::Reads;
use crate::search::{Answer, Search};
use crate::vectors::Vector;

/// Places of which the pages are read together.
const TOGETHER: usize = 1024;

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
        let mut labels = Vec::new();
        for_each_page(&self.space, |page| {
            self.labels_of(page, &mut labels)?;
            Ok(labels.drain(..).all(|(node, label)| show(label, node)))
        })?;
        Ok(())
    }

    pub(super) fn compare_all(
        &self,
        query: &Vector,
        search: &Search<'_>,
    ) -> Result<Answer, PoolError> {
        if let Some(places) = search.filter.and_then(|filter| filter.places()) {
            return self.compare_places(query, search, places);
        }
        let mut best = Best::new(search);
        let (mut near, mut matching) = (Vec::new(), Vec::new());
        for_each_page(&self.space, |page| {
            let bound = best.bound();
            let compare = |id, node: NodeRef<'_>| {
                let order = Best::order(self.core.distance(query, node));
                (order <= bound).then(|| (order, node.label(), id))
            };
            let ask = |node: NodeRef<'_>| node.prefetch(&self.core.layout);
            match search.filter {
                None => self.live_nodes(page, &mut near, ask, compare)?,
                Some(filter) => {
                    self.labels_of(page, &mut matching)?;
                    matching.retain(|(_, label)| filter.matches(*label));
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
            near.drain(..).for_each(|one| best.insert(one));
            Ok(true)
        })?;
        Ok(Answer { found: best.into_found(), is_exhaustive: true })
    }

    /// Compares with those vectors in these places that match.
    fn compare_places(
        &self,
        query: &Vector,
        search: &Search<'_>,
        places: &Places,
    ) -> Result<Answer, PoolError> {
        let matches = |label| search.filter.is_none_or(|filter| filter.matches(label));
        let mut best = Best::new(search);
        for places in places.as_slice().chunks(TOGETHER) {
            let pages = by_page(&self.space, places)?;
            let there = pages.into_iter().flat_map(|(_, places)| places);
            let mut nodes: Vec<NodeId> = there.map(|(node, _)| *node).collect();
            nodes.dedup();
            let (by, near) = (By::new(&self.core, query, 0), Vec::with_capacity(nodes.len()));
            let mut look = Among { by, wanted: places, near };
            self.space.interleave(AccessHint::Scan, |way| {
                Reads::new(&self.space, way).each(&nodes, &mut look)
            })?;
            // So the filter is asked of few.
            look.near.sort_unstable();
            for one in look.near {
                if one.0 <= best.bound() && matches(one.1) {
                    best.insert(one);
                }
            }
        }
        Ok(Answer { found: best.into_found(), is_exhaustive: true })
    }

    /// Leaves in `labels` the nodes of a page that are there, with their labels.
    pub(super) fn labels_of(
        &self,
        page: PageNo,
        labels: &mut Vec<(NodeId, u64)>,
    ) -> Result<(), PoolError> {
        // Lines that lie far apart, which the processor does not foresee.
        let ask = |node: NodeRef<'_>| node.prefetch_label(&self.core.layout);
        self.live_nodes(page, labels, ask, |id, node| Some((id, node.label())))
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
                let (slots, ahead) = (nodes.slots(), layout.ahead());
                for slot in 0..ahead.min(slots) {
                    ask(nodes.node(layout, slot));
                }
                for slot in 0..slots {
                    if slot + ahead < slots {
                        ask(nodes.node(layout, slot + ahead));
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
}
