//! Memory of a search with a filter.

use super::look::Sight;
use crate::node_id::NodeId;

/// What is between two steps of a search with a filter.
#[derive(Default)]
pub(super) struct Matching {
    /// Nodes that were compared, with their labels.
    pub(super) seen: Vec<(NodeId, Sight, u64)>,
    /// Of these nodes it is to be found out whether they match.
    pub(super) judged: Vec<NodeId>,
    pub(super) labels: Vec<(NodeId, u64)>,
    /// Those that match, which are to be compared.
    pub(super) matching: Vec<NodeId>,
    /// Nodes that do not match, of which the links are taken instead; those before `next` were.
    pub(super) between: Vec<NodeId>,
    pub(super) next: usize,
}

impl Matching {
    /// Whether there is something about which the filter is to be asked.
    pub(super) fn is_seen(&self, only_matching: bool) -> bool {
        if only_matching { !self.labels.is_empty() } else { !self.seen.is_empty() }
    }

    /// Nothing matches yet of what a node leads to.
    pub(super) fn clear(&mut self) {
        self.matching.clear();
        self.between.clear();
        self.next = 0;
    }
}
