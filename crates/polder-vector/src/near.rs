//! Nodes by how far they are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::node_id::NodeId;

/// A node, and how far it is from a vector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Near {
    pub(crate) distance: f32,
    pub(crate) node: NodeId,
}

impl Near {
    /// By which the nearest is the least; of equally near ones, the one that lies first.
    pub(crate) fn order(&self) -> (u32, NodeId) {
        (order_of(self.distance), self.node)
    }
}

/// The nearest nodes that a search has seen, in order, and which of them it has gone through: what HNSW
/// keeps in two heaps, of candidates and of what was found, as one sorted array (as the searches of
/// DiskANN and NSG do).
#[derive(Debug, Default)]
pub(crate) struct Nearest {
    /// So many nodes that count are kept.
    width: usize,
    /// `distance, as a number of the same order: 32 | place in nodes: 30 | counts: 1 | gone through: 1`,
    /// in order.
    entries: Vec<u64>,
    /// In the order in which they came.
    nodes: Vec<NodeId>,
    /// Of the entries those that count.
    counted: usize,
    /// No entry before this one is still to be gone through.
    next: usize,
    /// What is not nearer than this is not kept.
    bound: f32,
    /// What was not among the nearest, if that may be wanted later.
    beyond: BinaryHeap<Reverse<u64>>,
    keeps_all: bool,
}

const DONE: u64 = 1;
const COUNTS: u64 = 2;
const PLACE_SHIFT: u32 = 2;
const DISTANCE_SHIFT: u32 = 32;

impl Nearest {
    /// Keeps nothing any more, and `width` nodes from here on; with `keeps_all` also those that are not
    /// among the nearest, for [`Nearest::widen`].
    pub(crate) fn clear(&mut self, width: usize, keeps_all: bool) {
        self.entries.clear();
        self.nodes.clear();
        self.beyond.clear();
        (self.width, self.counted, self.next) = (width, 0, 0);
        self.keeps_all = keeps_all;
        self.set_bound();
    }

    /// Keeps more nodes, those that were seen and not kept included: it keeps all.
    pub(crate) fn widen(&mut self, width: usize) {
        debug_assert!(self.keeps_all, "what was not among the nearest is gone");
        self.width = width;
        while self.counted < self.width
            && let Some(Reverse(entry)) = self.beyond.pop()
        {
            // All that are kept are nearer.
            self.entries.push(entry);
            self.counted += usize::from(entry & COUNTS != 0);
        }
        self.next = 0;
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Whether what is not among the nearest is kept.
    pub(crate) fn keeps_all(&self) -> bool {
        self.keeps_all
    }

    /// Whether it has as many nodes that count as it keeps.
    pub(crate) fn is_full(&self) -> bool {
        self.counted >= self.width
    }

    /// What is not nearer than this is not kept.
    #[inline(always)]
    pub(crate) fn bound(&self) -> f32 {
        self.bound
    }

    #[inline(always)]
    fn set_bound(&mut self) {
        self.bound = match self.entries.last() {
            Some(last) if self.counted >= self.width && !self.keeps_all => {
                distance_of((*last >> DISTANCE_SHIFT) as u32)
            }
            _ => f32::INFINITY,
        };
    }

    /// A node was seen, which is nearer than the bound. It is kept for its links, and, if it counts, as
    /// one of the nearest.
    #[inline]
    pub(crate) fn insert(&mut self, near: Near, counts: bool) {
        let place = (self.nodes.len() as u64) << PLACE_SHIFT;
        let order = u64::from(order_of(near.distance)) << DISTANCE_SHIFT;
        let entry = order | place | if counts { COUNTS } else { 0 };
        self.nodes.push(near.node);
        let at = self.entries.partition_point(|other| *other < entry);
        self.entries.insert(at, entry);
        self.next = self.next.min(at);
        self.counted += usize::from(counts);
        // The last one is the farthest of those that count.
        while let Some(last) = self.entries.last().filter(|_| self.counted >= self.width) {
            let counts = last & COUNTS != 0;
            if counts && self.counted == self.width {
                break;
            }
            self.counted -= usize::from(counts);
            let farthest = self.entries.pop();
            if self.keeps_all {
                self.beyond.extend(farthest.map(Reverse));
            }
        }
        self.set_bound();
    }

    /// The nearest node that is still to be gone through.
    #[inline]
    pub(crate) fn peek_next(&mut self) -> Option<NodeId> {
        while let Some(entry) = self.entries.get(self.next) {
            if *entry & DONE == 0 {
                return Some(self.nodes[place_of(*entry)]);
            }
            self.next += 1;
        }
        None
    }

    /// The same, which is gone through from here on.
    #[inline]
    pub(crate) fn take_next(&mut self) -> Option<NodeId> {
        let node = self.peek_next()?;
        self.entries[self.next] |= DONE;
        self.next += 1;
        Some(node)
    }

    /// Those that count, nearest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Near> {
        let counted = self.entries.iter().filter(|entry| **entry & COUNTS != 0);
        counted.map(|entry| Near {
            distance: distance_of((*entry >> DISTANCE_SHIFT) as u32),
            node: self.nodes[place_of(*entry)],
        })
    }
}

#[inline(always)]
fn place_of(entry: u64) -> usize {
    (entry as u32 >> PLACE_SHIFT) as usize
}

/// A number that is in the order of distances, as [`f32::total_cmp`].
#[inline(always)]
pub(crate) fn order_of(distance: f32) -> u32 {
    let bits = distance.to_bits();
    bits ^ ((bits as i32 >> 31) as u32 | 1 << 31)
}

#[inline(always)]
pub(crate) fn distance_of(order: u32) -> f32 {
    f32::from_bits(order ^ ((!order as i32 >> 31) as u32 | 1 << 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_what_a_sorted_list_does() {
        let mut random = fastrand::Rng::with_seed(4);
        let mut nearest = Nearest::default();
        for width in [1, 2, 10, 100] {
            nearest.clear(width, false);
            let (mut model, mut gone) = (Vec::<(Near, bool)>::new(), Vec::new());
            for number in 0..1000 {
                let node = NodeId::from_bits((number + 1) << 9).unwrap();
                let distance = random.f32() * 4.0 - 2.0;
                let counts = random.u8(..10) > 0;
                if distance < nearest.bound() {
                    nearest.insert(Near { distance, node }, counts);
                    model.push((Near { distance, node }, counts));
                    model.sort_by_key(|(near, _)| near.order());
                    let last = model.iter().filter(|(_, counts)| *counts).nth(width - 1);
                    if let Some(last) = last.map(|(near, _)| *near) {
                        model.retain(|(near, _)| near.order() <= last.order());
                    }
                }
                if random.u8(..3) == 0 {
                    let next = model.iter().find(|(near, _)| !gone.contains(&near.node));
                    assert_eq!(nearest.peek_next(), next.map(|(near, _)| near.node));
                    assert_eq!(nearest.take_next(), next.map(|(near, _)| near.node));
                    gone.extend(next.map(|(near, _)| near.node));
                }
            }
            let counted: Vec<Near> =
                model.iter().filter(|(_, counts)| *counts).map(|(near, _)| *near).collect();
            assert_eq!(nearest.iter().collect::<Vec<_>>(), counted);
        }
    }

    #[test]
    fn what_was_not_kept_comes_back() {
        let mut random = fastrand::Rng::with_seed(6);
        let (mut nearest, mut model) = (Nearest::default(), Vec::new());
        nearest.clear(3, true);
        let (mut number, mut gone) = (0, Vec::new());
        for width in [3, 4, 10, 11, 200, 2000] {
            nearest.widen(width);
            for _ in 0..100 {
                number += 1;
                let node = NodeId::from_bits(number << 9).unwrap();
                let near = Near { distance: random.f32(), node };
                assert!(near.distance < nearest.bound());
                nearest.insert(near, number % 5 > 0);
                model.push((near, number % 5 > 0));
                if random.bool() {
                    gone.extend(nearest.take_next());
                }
            }
            model.sort_by_key(|(near, _)| near.order());
            let counted = || model.iter().filter(|(_, counts)| *counts).map(|(near, _)| *near);
            assert_eq!(
                nearest.iter().collect::<Vec<_>>(),
                counted().take(width).collect::<Vec<_>>()
            );
            assert_eq!(nearest.is_full(), counted().count() >= width);
            // What is kept is gone through, once.
            let last = counted().nth(width - 1);
            while let Some(node) = nearest.take_next() {
                assert!(!gone.contains(&node));
                gone.push(node);
            }
            let is_kept = |near: &Near| last.is_none_or(|last| near.order() <= last.order());
            let kept = model.iter().map(|(near, _)| *near).filter(is_kept);
            assert!(kept.map(|near| near.node).all(|node| gone.contains(&node)));
        }
    }

    #[test]
    fn distances_have_an_order_and_come_back() {
        let distances =
            [f32::NEG_INFINITY, -3.5, -1e-30, -0.0, 0.0, 1e-30, 1.0, 3.5, f32::INFINITY];
        for pair in distances.windows(2) {
            assert!(order_of(pair[0]) < order_of(pair[1]));
        }
        for distance in distances {
            assert_eq!(distance_of(order_of(distance)).to_bits(), distance.to_bits());
        }
    }
}
