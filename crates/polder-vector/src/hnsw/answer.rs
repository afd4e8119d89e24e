//! What a search has found, with labels.

use polder_pool::AccessHint;
use polder_pool::bytes::PageRef;

use super::look::By;
use super::node::NodeRef;
use crate::near::Near;
use crate::node_id::{NodeId, State};
use crate::reads::Look;
use crate::search::Found;

/// Reads the labels of what was found, if it is still there.
pub(super) struct Labelling<'l> {
    pub(super) by: By<'l>,
    /// What was found, in the order of the nodes.
    pub(super) of: &'l [Near],
    /// That of which the label was read.
    pub(super) found: &'l mut Vec<Found>,
}

impl Labelling<'_> {
    fn label(&self, node: NodeId, there: NodeRef<'_>) -> Option<Found> {
        let at = self.of.binary_search_by_key(&node, |near| near.node).ok()?;
        let distance = self.of[at].distance;
        // The place may be another node's by now.
        let is_it = || self.by.distance(there) == distance;
        let is_found = there.state() == State::Live && is_it();
        is_found.then(|| Found { label: there.label(), distance, node })
    }
}

impl Look for Labelling<'_> {
    type Sight = Found;
    const HINT: AccessHint = AccessHint::Normal;

    fn ahead(&self) -> usize {
        self.by.core.layout.ahead()
    }

    fn prefetch(&self, page: PageRef<'_>, node: NodeId) {
        page.prefetch(0);
        self.by.prefetch(page, node);
    }

    fn see(&mut self, page: PageRef<'_>, node: NodeId) -> Result<Option<Found>, &'static str> {
        Ok(self.by.core.node_in(page, node, |_, there| self.label(node, there))?.flatten())
    }

    fn take(&mut self, _: NodeId, found: Found) {
        self.found.push(found);
    }
}

/// Puts what was found in the order of the nodes, in which labels are read, and gives these.
pub(super) fn by_node(near: &mut [Near]) -> impl Iterator<Item = NodeId> {
    near.sort_unstable_by_key(|near| near.node);
    near.iter().map(|near| near.node)
}

/// Puts what was found in order, the nearest first: labels were read in the order in which pages came.
pub(super) fn sort(found: &mut [Found]) {
    found.sort_unstable_by_key(|Found { distance, node, .. }| {
        Near { distance: *distance, node: *node }.order()
    });
}
