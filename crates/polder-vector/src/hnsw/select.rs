//! Which of many nodes to link with: algorithm 4 of the paper, relaxed as DiskANN's robust pruning is
//! (Subramanya et al., "DiskANN: Fast Accurate Billion-point Nearest Neighbor Search on a Single Node",
//! 2019): a node is left out only if it is nearer by a factor to another one that was chosen. So lists
//! have some more links, and a search finds more of the nearest for as many nodes that it sees.

use polder_pool::bytes::Run;
use polder_pool::{PoolError, Translation};

use super::node::State;
use super::{Core, HnswIndex};
use crate::metric::Metric;
use crate::near::Near;
use crate::node_id::NodeId;
use crate::vectors::Vector;

/// By how much nearer, of distances that grow with the square of how far vectors are apart.
const FACTOR: f32 = 1.2;

impl<T: Translation> HnswIndex<T> {
    /// At most `count` of these nodes, nearest first, which are in the order of how far they are from
    /// the node that gets the links: none of which is much nearer to one that was chosen before it. Those
    /// that have left are not chosen.
    /// The vector of `known` is not looked up, since its node may have no place yet.
    pub(super) fn select(
        &self,
        near: &[Near],
        count: usize,
        known: Option<(NodeId, &Vector)>,
    ) -> Result<Vec<NodeId>, PoolError> {
        let Core { layout, distances, options, .. } = &*self.core;
        // An inner product may be greater than 1, and then less is not nearer by a factor.
        let factor = if options.shape.metric == Metric::InnerProduct { 1.0 } else { FACTOR };
        let mut chosen: Vec<(NodeId, Vector)> = Vec::with_capacity(count);
        for Near { distance, node } in near {
            if chosen.len() == count {
                break;
            }
            let is_apart = |run: Run<'_>, scale| {
                let between = |other| factor * distances.between(other, run, || scale);
                chosen.iter().all(|(_, other)| between(other) >= *distance)
            };
            let vector = match known {
                Some((known, vector)) if known == *node => {
                    Some(is_apart(vector.run(), vector.scale).then(|| vector.clone()))
                }
                _ => self.read_node(*node, |_, found| {
                    let is_chosen = found.state() != State::Free
                        && is_apart(found.vector(layout), found.scale());
                    is_chosen.then(|| found.copy(layout))
                })?,
            };
            chosen.extend(vector.flatten().map(|vector| (*node, vector)));
        }
        Ok(chosen.into_iter().map(|(node, _)| node).collect())
    }
}
