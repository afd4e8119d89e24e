//! Whether a node is reached without those that are leaving, and a way to it where it is not (`HNSW-5`).

use polder_pool::{PoolError, Translation};

use super::HnswIndex;
use crate::node_id::{NodeId, State};
use crate::vectors::Vector;

/// How often a search begins again that has come to a node that is leaving.
const MOST_STARTS: usize = 8;

impl<T: Translation> HnswIndex<T> {
    /// The nodes of the lowest level that are nearest to a vector, and found from the entry without going
    /// through any that is leaving, or another level.
    pub(super) fn nearest_that_stay(&self, vector: &Vector) -> Result<Vec<NodeId>, PoolError> {
        let mut near = Vec::new();
        for _ in 0..MOST_STARTS {
            if self.live_entry()?.is_none() {
                break;
            }
            self.walk(vector, |walk| {
                let Some(entry) = walk.entry()? else { return Ok(()) };
                walk.go_without_leaving();
                walk.level(entry.node, self.core.options.insert_width, 0)?;
                near.extend(walk.found().map(|near| near.node));
                Ok(())
            })?;
            // Else the entry began to leave.
            if !near.is_empty() {
                break;
            }
        }
        Ok(near)
    }

    /// Links a node with those that are nearest to it, if it is found, but not by going from the entry
    /// through nodes that stay.
    pub(super) fn reconnect(&self, node: NodeId) -> Result<(), PoolError> {
        for _ in 0..MOST_STARTS {
            let vector = self.read_node(node, |_, found| {
                (found.state() == State::Live).then(|| found.copy(&self.core.layout))
            })?;
            let Some(vector) = vector.flatten() else { return Ok(()) };
            let near = self.nearest_that_stay(&vector)?;
            let nearest = &near[..near.len().min(self.core.options.links)];
            if near.contains(&node) || self.lead_to(node, &vector, nearest)? {
                return Ok(());
            }
        }
        Ok(())
    }
}
