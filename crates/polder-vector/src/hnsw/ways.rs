//! Which of some nodes lead to which others of them.

use std::iter;

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
        (0..).zip(self.0).flat_map(|(number, mut word)| {
            iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
                word &= word - 1;
                Some(64 * number + bit)
            })
        })
    }
}

/// Nodes, and which of them each leads to.
pub(super) struct Ways<'n> {
    nodes: &'n [NodeId],
    /// The place of each node, and one, where its bits lead to or behind that; 0 is empty. Of one that comes
    /// twice the first.
    table: Vec<u16>,
    leads: Vec<Set>,
    /// Those that are there. A node that is yet to be made is not.
    pub(super) there: Set,
    /// A node that is yet to be made is reached in any case.
    always: Set,
}

impl<'n> Ways<'n> {
    /// Between these nodes, of which none leads anywhere.
    pub(super) fn new(nodes: &'n [NodeId]) -> Ways<'n> {
        let leads = vec![Set::default(); nodes.len()];
        // Most links lead to none of them, and soon to an empty place.
        let table = vec![0; (4 * nodes.len()).next_power_of_two()];
        let (there, always) = Default::default();
        let mut ways = Ways { nodes, table, leads, there, always };
        for (place, node) in nodes.iter().enumerate() {
            if let Err(empty) = ways.find(*node) {
                ways.table[empty] = place as u16 + 1;
                if *node == NodeId::NEW {
                    ways.always.put(place);
                }
            }
        }
        ways
    }

    /// Where a node is among them.
    pub(super) fn place(&self, node: NodeId) -> Option<usize> {
        self.find(node).ok()
    }

    /// Where a node is, or where in the table it would be.
    #[inline(always)]
    fn find(&self, node: NodeId) -> Result<usize, usize> {
        let mask = self.table.len() - 1;
        let mut at = (node.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        loop {
            match self.table[at] {
                0 => return Err(at),
                place if self.nodes[usize::from(place) - 1] == node => {
                    return Ok(usize::from(place) - 1);
                }
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// One of them is there, and leads to these.
    pub(super) fn add(&mut self, place: usize, links: &[NodeId]) {
        self.there.put(place);
        let mut leads = Set::default();
        links.iter().filter_map(|link| self.place(*link)).for_each(|to| leads.put(to));
        self.leads[place] = leads;
    }

    /// What is among these, or what one of these leads to.
    pub(super) fn from(&self, places: &[usize]) -> Set {
        let mut reached = self.always;
        places.iter().for_each(|place| self.reach(&mut reached, *place));
        reached
    }

    /// One of them is reached, and so is what it leads to.
    pub(super) fn reach(&self, reached: &mut Set, place: usize) {
        reached.put(place);
        reached.join(&self.leads[place]);
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
