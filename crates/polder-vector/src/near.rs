//! Nodes by how far they are.

use std::cmp::Ordering;

use crate::node_id::NodeId;

/// A node, and how far it is from a vector. The nearest is the least; of equally near ones, the one
/// that lies first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Near {
    pub(crate) distance: f32,
    pub(crate) node: NodeId,
}

impl Ord for Near {
    #[inline]
    fn cmp(&self, other: &Near) -> Ordering {
        self.distance.total_cmp(&other.distance).then(self.node.cmp(&other.node))
    }
}

impl PartialOrd for Near {
    #[inline]
    fn partial_cmp(&self, other: &Near) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Near {
    fn eq(&self, other: &Near) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Near {}
