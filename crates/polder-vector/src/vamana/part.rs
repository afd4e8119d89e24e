//! A part of the vectors of an index in memory, and a graph of it: how links are found for many at once.
//!
//! Vectors come into the graph in an order without a pattern. Each is looked for among those before it, by
//! exact distances; it is linked with what robust pruning chooses of the nodes that this expands, and they
//! with it, as an insert does (algorithm 1 of the paper, for each vector as it comes, and not for a graph of
//! random links). A search begins with some of the first, wherever these are. A list may be longer than those
//! of the index, so that it is pruned once for several links.

use std::mem::size_of;
use std::sync::Mutex;

use polder_pool::bytes::OVERRUN_BYTES;
use polder_pool::lock;

use super::Core;
use super::prune::Candidate;
use crate::near::{Near, Nearest};
use crate::node_id::NodeId;
use crate::random::mix;
use crate::vectors::Vector;
use crate::visited::Visited;

/// Vectors with which each search begins.
const SEEDS: usize = 32;
/// A list that is longer than those of the index by one of so many parts of these is pruned.
const SLACK: usize = 4;

/// A vector, and its entry in the index.
pub(super) struct Member {
    pub(super) entry: NodeId,
    pub(super) vector: Vector,
}

pub(super) struct Part<'p> {
    core: &'p Core,
    members: &'p [Member],
    /// Of each member those that it leads to.
    lists: Vec<Mutex<Vec<u32>>>,
    /// The members as they come into the graph.
    order: Vec<u32>,
}

/// Memory of a search, which the next one of the thread uses again.
pub(super) struct Scratch {
    visited: Visited,
    nearest: Nearest,
    links: Vec<NodeId>,
    expanded: Vec<NodeId>,
}

impl Scratch {
    pub(super) fn new() -> Scratch {
        let (links, expanded) = Default::default();
        Scratch { visited: Visited::default(), nearest: Nearest::default(), links, expanded }
    }
}

impl Core {
    /// Bytes that a vector takes in memory.
    pub(super) fn bytes_of_vector(&self) -> usize {
        size_of::<Vector>() + self.layout.vector + OVERRUN_BYTES
    }

    /// Bytes that a vector of a part takes, with its links.
    pub(super) fn bytes_of_member(&self) -> usize {
        let list = size_of::<Mutex<Vec<u32>>>() + size_of::<u32>() * self.longest_list();
        self.bytes_of_vector() + size_of::<NodeId>() + list + size_of::<u32>()
    }

    fn longest_list(&self) -> usize {
        self.layout.links + self.layout.links / SLACK + 1
    }
}

impl<'p> Part<'p> {
    /// A graph without links.
    pub(super) fn new(core: &'p Core, members: &'p [Member]) -> Part<'p> {
        let lists = members.iter().map(|_| Mutex::default()).collect();
        let mut order: Vec<u32> = (0..members.len() as u32).collect();
        order.sort_unstable_by_key(|number| mix((*number).into()));
        Part { core, members, lists, order }
    }

    /// Links the vector that comes into the graph at this place; with a place behind the last one, once more
    /// when all are there.
    pub(super) fn insert(&self, scratch: &mut Scratch, place: usize) {
        let new = self.order[place % self.order.len()];
        self.search(scratch, &self.members[new as usize].vector);
        let mut found: Vec<u32> = scratch.expanded.iter().map(|one| one.number() as u32).collect();
        found.extend(&*lock(&self.lists[new as usize]));
        found.sort_unstable();
        found.dedup();
        let chosen = self.chosen(new, found.iter().copied());
        for other in &chosen {
            self.add(*other, new);
        }
        // What others have added meanwhile stays.
        let mut list = lock(&self.lists[new as usize]);
        list.retain(|other| found.binary_search(other).is_err());
        list.extend(chosen);
    }

    /// Leaves what is expanded.
    fn search(&self, scratch: &mut Scratch, sought: &Vector) {
        let Scratch { visited, nearest, links, expanded } = scratch;
        visited.clear();
        nearest.clear(self.core.options.insert_width, false);
        expanded.clear();
        links.clear();
        links.extend(self.order.iter().take(SEEDS).map(|seed| NodeId::of_number(*seed)));
        loop {
            visited.insert_all(links, 0);
            for node in &*links {
                let distance = self.distance(sought, node.number());
                if distance < nearest.bound() {
                    nearest.insert(Near { distance, node: *node }, true);
                }
            }
            let Some(next) = nearest.take_next() else { return };
            expanded.push(next);
            links.clear();
            let list = lock(&self.lists[next.number()]);
            links.extend(list.iter().map(|link| NodeId::of_number(*link)));
        }
    }

    fn distance(&self, from: &Vector, to: usize) -> f32 {
        let to = &self.members[to].vector;
        self.core.distances.between(from, to.run(), || to.scale)
    }

    /// A member leads to another one as well.
    fn add(&self, from: u32, to: u32) {
        let mut list = lock(&self.lists[from as usize]);
        if !list.contains(&to) {
            list.push(to);
        }
        if list.len() >= self.core.longest_list() {
            *list = self.chosen(from, list.iter().copied());
        }
    }

    /// Those of some members with which one is to be linked.
    fn chosen(&self, one: u32, of: impl Iterator<Item = u32>) -> Vec<u32> {
        let vector = &self.members[one as usize].vector;
        let others = of.filter(|other| *other != one);
        let mut near: Vec<_> = others
            .map(|other| Candidate {
                distance: self.distance(vector, other as usize),
                entry: NodeId::of_number(other),
                by: &self.members[other as usize].vector,
            })
            .collect();
        Candidate::nearest_first(&mut near);
        let chosen = self.core.prune(&near, self.core.layout.links);
        chosen.into_iter().map(|one| one.number() as u32).collect()
    }

    /// The entries to which a member leads, of a graph that has all of them.
    pub(super) fn links(&self, member: usize) -> Vec<NodeId> {
        let mut list = std::mem::take(&mut *lock(&self.lists[member]));
        if list.len() > self.core.layout.links {
            list = self.chosen(member as u32, list.iter().copied());
        }
        list.iter().map(|other| self.members[*other as usize].entry).collect()
    }
}
