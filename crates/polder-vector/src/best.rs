//! The nearest vectors of many that are compared in any order.

use std::collections::BinaryHeap;

use crate::near::{distance_of, order_of};
use crate::node_id::NodeId;
use crate::search::{Found, Search};

/// A vector that was compared: how far it is, as a number of the same order, its label, and where it
/// lies.
pub(crate) type Compared = (u32, u64, NodeId);

/// So many of the nearest as a search wants. Of equally near ones those with the lowest labels.
#[derive(Debug)]
pub(crate) struct Best {
    count: usize,
    within: u32,
    /// The farthest first; of equally far ones, that with the highest label.
    heap: BinaryHeap<Compared>,
}

impl Best {
    /// None yet.
    pub(crate) fn new(search: &Search<'_>) -> Best {
        let (count, within) = (search.count, order_of(search.within));
        Best { count, within, heap: BinaryHeap::new() }
    }

    /// Whether there are as many as are wanted.
    pub(crate) fn is_full(&self) -> bool {
        self.heap.len() >= self.count
    }

    /// What is farther than this is not wanted.
    pub(crate) fn bound(&self) -> u32 {
        match self.heap.peek() {
            Some(farthest) if self.is_full() => self.within.min(farthest.0),
            _ => self.within,
        }
    }

    /// How far a vector is, as a number of the same order. That of a damaged one may be no number, and is
    /// farther than any that is wanted.
    #[inline(always)]
    pub(crate) fn order(distance: f32) -> u32 {
        if distance.is_nan() { u32::MAX } else { order_of(distance) }
    }

    /// One that is not farther than the bound.
    pub(crate) fn insert(&mut self, one: Compared) {
        self.heap.push(one);
        if self.heap.len() > self.count {
            self.heap.pop();
        }
    }

    /// What was found, nearest first.
    pub(crate) fn into_found(self) -> Vec<Found> {
        let found = |(order, label, node)| Found { label, distance: distance_of(order), node };
        self.heap.into_sorted_vec().into_iter().map(found).collect()
    }
}
