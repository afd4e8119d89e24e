//! Which nodes a search has seen.

use crate::node_id::NodeId;

/// A set of nodes that is emptied at once: an open-addressing table, of which an entry says in which
/// search it was made.
#[derive(Debug)]
pub(crate) struct Visited {
    /// `search: 24 | node: 40`; a power of two of them, or none.
    entries: Vec<u64>,
    search: u64,
    count: usize,
}

/// Searches that can be told apart.
const MOST_SEARCHES: u64 = 1 << 24;
const NODE_BITS: u32 = 40;
const LEAST_ENTRIES: usize = 1 << 12;

impl Default for Visited {
    fn default() -> Visited {
        Visited { entries: Vec::new(), search: 1, count: 0 }
    }
}

impl Visited {
    /// How much memory it has.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.entries)
    }

    /// Another search begins.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
        self.search += 1;
        if self.search == MOST_SEARCHES {
            self.entries.fill(0);
            self.search = 1;
        }
    }

    /// Leaves of these nodes, from this one on, those that were not in it; they are now.
    #[inline]
    pub(crate) fn insert_all(&mut self, nodes: &mut Vec<NodeId>, from: usize) {
        while 2 * (self.count + nodes.len() - from) > self.entries.len() {
            self.grow();
        }
        let mut kept = from;
        for i in from..nodes.len() {
            let node = nodes[i];
            nodes[kept] = node;
            kept += usize::from(self.put(self.search << NODE_BITS | node.to_bits()));
        }
        nodes.truncate(kept);
        self.count += kept - from;
    }

    /// Whether the entry was not there. Nobody can foresee which it is: where its first place is its own, or
    /// of an earlier search, nothing depends on that.
    #[inline(always)]
    fn put(&mut self, entry: u64) -> bool {
        let mask = self.entries.len() - 1;
        let hash = (entry & ((1 << NODE_BITS) - 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut at = hash as usize & mask;
        loop {
            let other = self.entries[at];
            let is_old = other >> NODE_BITS != self.search;
            if is_old | (other == entry) {
                self.entries[at] = entry;
                return is_old;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.entries);
        self.entries = vec![0; (2 * old.len()).max(LEAST_ENTRIES)];
        for entry in old {
            if entry >> NODE_BITS == self.search {
                self.put(entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn it_is_a_set_that_is_emptied_at_once() {
        let (mut visited, mut random) = (Visited::default(), fastrand::Rng::with_seed(1));
        for nodes in [1, 10_000, 100, 3] {
            let mut model = HashSet::new();
            visited.clear();
            for _ in 0..nodes {
                let node = |_| NodeId::from_bits(random.u64(1 << 9..1 << 18)).unwrap();
                let mut nodes: Vec<NodeId> = (0..10).map(node).collect();
                let new: Vec<_> =
                    nodes.iter().copied().filter(|node| model.insert(*node)).collect();
                // What is before it stays as it is.
                let before = nodes[..3].to_vec();
                nodes.splice(..0, before.iter().copied());
                visited.insert_all(&mut nodes, 3);
                assert_eq!((&nodes[..3], &nodes[3..]), (&*before, &*new));
            }
        }
        // The last search that can be told from others, and the first again.
        visited.search = MOST_SEARCHES - 2;
        for _ in 0..3 {
            visited.clear();
            let node = NodeId::from_bits(1 << 20).unwrap();
            let mut nodes = vec![node, node];
            visited.insert_all(&mut nodes, 0);
            assert_eq!(nodes, [node]);
        }
    }
}
