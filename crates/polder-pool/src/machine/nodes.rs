//! The nodes of a machine with memory in several places: which there are, and on which one a thread
//! runs.
//!
//! A *node* is memory with the cores that reach it faster than the others' (NUMA). A node counts
//! here if a thread can be at home there: it has memory and cores that we may use. Memory without
//! cores is slower for every thread, so that no frames are put there on purpose; the kernel goes
//! there by itself when the rest is full. Cores without memory count to the nearest node.
//!
//! As for groups of cores (`cores.rs`), the answer to "where am I" is old as soon as it is given: it
//! decides how far a thread must reach, never whether something is right.
//!
//! There is one node for us, and the kernel is asked nothing more, if the system tells of one; and
//! also where it tells nonsense, where we may use but one, where the process was started with a
//! memory policy (`numactl`), which is not to be overruled, and where the kernel does not let us
//! ask (as in many containers), since it would not let us choose either.

#![cfg(not(loom))]

use std::fs;
use std::path::Path;

use polder_format::PageSize;

use crate::machine::cores::{Groups, numbers};
use crate::machine::memory::HUGE_PAGE_BYTES;

use super::policy::{self, NodeId};

/// A machine that tells of more is taken as one that has one.
const MOST_NODES: usize = 64;

/// A node that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Node {
    id: NodeId,
    memory_kib: u64,
}

/// The nodes that count.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// The cores of each node are a group.
    cores: Groups,
    nodes: Box<[Node]>,
}

impl Nodes {
    /// Those of this machine that the calling thread may use: a thread that was put on the cores of
    /// one node sees that one.
    pub(crate) fn of_machine() -> Nodes {
        let read = || {
            let told = Told::read(Path::new("/sys/devices/system/node"));
            // On most machines that is all.
            if told.with_memory().count() < 2 {
                return None;
            }
            let (memory, cores) = (policy::permitted()?, Affinity::of_this_thread());
            told.nodes(|node| memory.has(node), |core| cores.has(core))
        };
        read().unwrap_or_else(Nodes::one)
    }

    /// One for all.
    pub(crate) fn one() -> Nodes {
        let node = Node { id: NodeId::new(0), memory_kib: 0 };
        Nodes { cores: Groups::new(vec![0]), nodes: Box::new([node]) }
    }

    /// Made up: `cores` says to which of them each core counts, `memory_kib` what they have.
    #[cfg(test)]
    pub(crate) fn invented(cores: &[usize], memory_kib: &[u64]) -> Nodes {
        let nodes = (0..).map(NodeId::new).zip(memory_kib);
        let nodes = nodes.map(|(id, kib)| Node { id, memory_kib: *kib });
        Nodes { cores: Groups::new(cores.to_vec()), nodes: nodes.collect() }
    }

    /// Their numbers.
    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().map(|node| node.id)
    }

    /// The one on which the calling thread was running a moment ago, by its place among them.
    pub(crate) fn here(&self) -> usize {
        self.cores.here().index()
    }

    /// Cuts the frames 1 to `frames` into a run for each node, and gives the last frame of each; one
    /// for all if there is not a piece for each node.
    ///
    /// A run ends where a huge page does: what is one piece for the kernel lies on one node. Runs
    /// are in proportion to the nodes' memory: of equal ones, that of a small node would not fit
    /// there, and lie elsewhere all the same.
    pub(crate) fn cut(self, frames: u32, size: PageSize) -> (Nodes, Vec<u32>) {
        let a_piece = (HUGE_PAGE_BYTES >> size.shift()) as u128;
        // Frame 0 does not exist, but has its place in memory.
        let pieces = (u128::from(frames) + 1) / a_piece;
        let all: u128 = self.nodes.iter().map(|node| u128::from(node.memory_kib)).sum();
        let (mut ends, mut memory, mut last) = (Vec::new(), 0, 0);
        for node in &self.nodes {
            memory += u128::from(node.memory_kib);
            let end = (pieces * memory).checked_div(all).unwrap_or(0);
            if end == last {
                return (Nodes::one(), vec![frames]);
            }
            ends.push((end * a_piece) as u32 - 1);
            last = end;
        }
        // With what is left behind the last piece.
        ends.pop();
        ends.push(frames);
        (self, ends)
    }
}

/// What the system tells of a node.
#[derive(Debug)]
struct ToldNode {
    id: NodeId,
    cores: Vec<usize>,
    memory_kib: u64,
    /// To each of the nodes that are told of, in their order.
    distances: Vec<u32>,
}

/// What the system tells of its nodes.
#[derive(Debug)]
struct Told(Vec<ToldNode>);

impl Told {
    fn read(nodes: &Path) -> Told {
        let text = |path: &str| fs::read_to_string(nodes.join(path)).unwrap_or_default();
        let online = text("online");
        let online = numbers(&online).filter(|node| *node < NodeId::MOST);
        let told = online.map(|node| ToldNode {
            id: NodeId::new(node as u16),
            cores: numbers(&text(&format!("node{node}/cpulist"))).collect(),
            memory_kib: memory_kib(&text(&format!("node{node}/meminfo"))),
            distances: text(&format!("node{node}/distance"))
                .split_whitespace()
                .map_while(|distance| distance.parse().ok())
                .collect(),
        });
        Told(told.collect())
    }

    fn with_memory(&self) -> impl Iterator<Item = (usize, &ToldNode)> {
        self.0.iter().enumerate().filter(|(_, node)| node.memory_kib > 0)
    }

    /// Those that count, if they are several.
    fn nodes(
        &self,
        may_use: impl Fn(NodeId) -> bool,
        may_run_on: impl Fn(usize) -> bool,
    ) -> Option<Nodes> {
        let homes: Vec<(usize, &ToldNode)> = self
            .with_memory()
            .filter(|(_, node)| may_use(node.id) && node.cores.iter().any(|core| may_run_on(*core)))
            .collect();
        if !(2..=MOST_NODES).contains(&homes.len()) {
            return None;
        }
        let last = self.0.iter().flat_map(|node| &node.cores).max()?;
        let mut known = vec![None; last + 1];
        for (place, node) in self.0.iter().enumerate() {
            let itself = homes.iter().position(|(home, _)| *home == place);
            let distance = |home: &usize| node.distances.get(homes[*home].0).unwrap_or(&u32::MAX);
            let nearest = || (0..homes.len()).min_by_key(distance);
            let home = itself.or_else(nearest)?;
            for core in &node.cores {
                // In two nodes: no system that we know is like that.
                if known[*core].replace(home).is_some() {
                    return None;
                }
            }
        }
        let mut last = 0;
        // A core that is off is in no list. If it is switched on it goes with the one before it.
        let of_core = known.into_iter().map(|home| {
            last = home.unwrap_or(last);
            last
        });
        let nodes = homes.iter().map(|(_, node)| Node { id: node.id, memory_kib: node.memory_kib });
        Some(Nodes { cores: Groups::new(of_core.collect()), nodes: nodes.collect() })
    }
}

/// The memory of a node as its `meminfo` has it; 0 if it says none.
fn memory_kib(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|line| line.split_once("MemTotal:"));
    let number = total.and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

/// The cores on which a thread may run; all, if the kernel does not say.
struct Affinity(Option<libc::cpu_set_t>);

impl Affinity {
    fn of_this_thread() -> Affinity {
        // SAFETY: plain data, for which all zeros is a value; the call gets its address and size.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            let told = libc::sched_getaffinity(0, size_of_val(&set), &mut set) == 0;
            Affinity(told.then_some(set))
        }
    }

    fn has(&self, core: usize) -> bool {
        // A kernel with more cores than a set has says nothing.
        let fits = core < libc::CPU_SETSIZE as usize;
        // SAFETY: the core is one of those that a set has.
        self.0.is_none_or(|set| fits && unsafe { libc::CPU_ISSET(core, &set) })
    }
}

#[cfg(test)]
mod tests;
