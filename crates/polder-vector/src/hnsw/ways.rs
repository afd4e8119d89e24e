//! Which of some nodes lead to which others of them.

use super::node::MOST_LINKS;
use crate::node_id::NodeId;

/// Nodes of two lists of the lowest level, and one more.
const MOST: usize = 4 * MOST_LINKS + 1;
const WORDS: usize = MOST.div_ceil(64);

/// Some of the nodes, each by its place among them.
#[derive(Clone, Copy, Default)]
pub(super) struct Set([u64; WORDS]);

impl Set {
    pub(super) fn put(&mut self, place: usize) {
        self.0[place / 64] |= 1 << (place % 64);
    }

    pub(super) fn has(&self, place: usize) -> bool {
        self.0[place / 64] >> (place % 64) & 1 == 1
    }

    fn join(&mut self, other: &Set) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
    }

    /// Whether all of them are in another one as well.
    pub(super) fn is_in(&self, other: &Set) -> bool {
        self.0.iter().zip(other.0).all(|(word, other)| word & !other == 0)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..MOST).filter(move |place| self.has(*place))
    }
}

/// Nodes, and which of them each leads to.
pub(super) struct Ways {
    /// With their places, in order; of one that comes twice the first.
    nodes: Vec<(NodeId, usize)>,
    leads: Vec<Set>,
    /// Those that are there. A node that is yet to be made is not.
    pub(super) there: Set,
    /// A node that is yet to be made is reached in any case.
    always: Set,
}

impl Ways {
    /// Between these nodes, of which none leads anywhere.
    pub(super) fn new(nodes: &[NodeId]) -> Ways {
        let mut always = Set::default();
        let new = nodes.iter().position(|node| *node == NodeId::NEW);
        new.iter().for_each(|place| always.put(*place));
        let leads = vec![Set::default(); nodes.len()];
        let mut nodes: Vec<_> = nodes.iter().copied().zip(0..).collect();
        nodes.sort_unstable();
        nodes.dedup_by_key(|(node, _)| *node);
        Ways { nodes, leads, there: Set::default(), always }
    }

    /// Where a node is among them.
    pub(super) fn place(&self, node: NodeId) -> Option<usize> {
        let found = self.nodes.binary_search_by_key(&node, |(node, _)| *node);
        found.ok().map(|at| self.nodes[at].1)
    }

    /// One of them is there, and leads to these.
    pub(super) fn add(&mut self, place: usize, links: &[NodeId]) {
        self.there.put(place);
        for link in links {
            if let Some(to) = self.place(*link) {
                self.leads[place].put(to);
            }
        }
    }

    /// What is among these, or what one of these leads to.
    pub(super) fn from(&self, places: &[usize]) -> Set {
        let mut reached = self.always;
        for place in places {
            reached.put(*place);
            reached.join(&self.leads[*place]);
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reached() {
        let node = |number: u64| NodeId::from_bits(number << 9).unwrap();
        let nodes = [node(5), node(3), NodeId::NEW, node(9), node(3)];
        let mut ways = Ways::new(&nodes);
        assert_eq!(ways.place(node(3)), Some(1));
        assert_eq!(ways.place(node(4)), None);
        ways.add(0, &[node(3), node(7)]);
        ways.add(3, &[node(5)]);
        assert_eq!(ways.there.iter().collect::<Vec<_>>(), [0, 3]);
        let from = |places: &[usize]| ways.from(places).iter().collect::<Vec<_>>();
        assert_eq!(from(&[]), [2]);
        assert_eq!(from(&[0]), [0, 1, 2]);
        assert_eq!(from(&[3, 1]), [0, 1, 2, 3]);
        assert!(ways.from(&[1]).is_in(&ways.from(&[0])));
        assert!(!ways.from(&[3]).is_in(&ways.from(&[0])));
    }
}
