//! Which of many nodes to link with: algorithm 4 of the paper, relaxed as DiskANN's robust pruning is
//! (Subramanya et al., "DiskANN: Fast Accurate Billion-point Nearest Neighbor Search on a Single Node",
//! 2019): a node is left out only if it is nearer by a factor to another one that was chosen. So lists
//! have some more links, and a search finds more of the nearest for as many nodes that it sees.

use polder_pool::bytes::Run;
use polder_pool::{PoolError, Translation};

use super::{Core, HnswIndex};
use crate::metric::Metric;
use crate::near::Near;
use crate::node_id::{NodeId, State};
use crate::padded::Copies;
use crate::vectors::{Distances, Vector};

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
        let Core { layout, distances, .. } = &*self.core;
        let mut chosen = Chosen::new(distances, count.min(near.len()));
        for near in near {
            if chosen.nodes.len() == count {
                break;
            }
            let scale = match known {
                Some((known, vector)) if known == near.node => {
                    chosen.copy_if_apart(vector.run(), vector.scale, near.distance)
                }
                _ => self
                    .read_node(near.node, |_, found| match found.state() {
                        State::Free => None,
                        _ => {
                            let (run, scale) = (found.vector(layout), found.scale());
                            chosen.copy_if_apart(run, scale, near.distance)
                        }
                    })?
                    .flatten(),
            };
            scale.into_iter().for_each(|scale| chosen.push(near.node, scale));
        }
        Ok(chosen.nodes)
    }
}

/// Those that were chosen.
struct Chosen<'d> {
    distances: &'d Distances,
    factor: f32,
    nodes: Vec<NodeId>,
    vectors: Copies,
    scales: Vec<f32>,
    /// Their places, in the order in which they are asked: what leaves one out most likely leaves the next
    /// one out as well.
    asked: Vec<usize>,
}

impl<'d> Chosen<'d> {
    fn new(distances: &'d Distances, most: usize) -> Chosen<'d> {
        // An inner product may be greater than 1, and then less is not nearer by a factor.
        let factor = if distances.shape.metric == Metric::InnerProduct { 1.0 } else { FACTOR };
        let vectors = Copies::with_capacity(distances.shape.bytes(), most);
        let (nodes, scales, asked) =
            (Vec::with_capacity(most), Vec::with_capacity(most), Vec::with_capacity(most));
        Chosen { distances, factor, nodes, vectors, scales, asked }
    }

    /// A vector is copied, if it is not much nearer to one that was chosen than `distance`; gives its scale
    /// then. What an earlier call has copied means nothing until its node is put to those that were chosen.
    fn copy_if_apart(&mut self, run: Run<'_>, scale: f32, distance: f32) -> Option<f32> {
        self.vectors.truncate(self.nodes.len());
        let is_apart = |at: &usize| {
            let (other, scales) = (self.vectors.get(*at), || self.scales[*at] * scale);
            self.factor * self.distances.between_runs(other, run, scales) >= distance
        };
        if let Some(at) = self.asked.iter().position(|at| !is_apart(at)) {
            self.asked[..=at].rotate_right(1);
            return None;
        }
        self.vectors.push(run);
        Some(scale)
    }

    /// The node whose vector was copied last is chosen.
    fn push(&mut self, node: NodeId, scale: f32) {
        self.asked.push(self.nodes.len());
        self.nodes.push(node);
        self.scales.push(scale);
    }
}
