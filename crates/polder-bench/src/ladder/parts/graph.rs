//! Breadth-first search: a random graph of 44 neighbours a node (calico-2026 3.3, table 4), and
//! graphs from files.
//!
//! Timed are visits of nodes: read the node's page, go to the page of each neighbour and read one
//! word there. With *group prefetch* the lines of all neighbours are asked for before the first is
//! read (calico-2026 6.6, table 6). A whole walk goes before what is measured, and which of the two
//! comes first changes from round to round.

use polder_format::PageNo;

use crate::ladder::graph::{PAGE, Reached, Walk, build, lines_of, pages_of};
use crate::ladder::prelude::*;
use crate::ladder::{graph_file, pages};
use crate::random::stream;

const NEIGHBOURS: usize = 44;
/// The graph is the same in each round and on each side.
const SEED: u64 = 44;
/// Nodes between two looks at the clock.
const TURN: u64 = 16;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    (setup.tell)("making a graph");
    let nodes = setup.scale.graph_nodes;
    let pool = setup.resident_pool::<T>(PAGE, nodes, &[pages::KIND])?;
    let space = pool.create_space()?;
    let made = build(&space, nodes, setup.interrupt, |node, named| {
        let mut random = stream(SEED, node);
        named.extend((0..NEIGHBOURS).map(|_| random.random_range(..nodes)));
    })?;
    let mut measured = Measured::default();
    measured.push_touched(nodes * lines_of(NEIGHBOURS));
    (setup.tell)("walking");
    Walk::new(&space, nodes, made[0], false).whole(setup.interrupt)?;
    let mut ways = [("nodes", false), ("nodes, group prefetch", true)];
    if setup.round % 2 == 1 {
        ways.reverse();
    }
    for (metric, prefetch) in ways {
        measure(setup, &space, made.len() as u64, made[0], metric, prefetch, &mut measured)?;
    }
    Ok(measured)
}

/// The graphs of files.
pub(crate) fn run_files<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let mut measured = Measured::default();
    for path in setup.graphs {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        (setup.tell)(&stem);
        let graph = graph_file::read(path)?;
        let nodes = graph.len() as u64;
        let pages = graph.iter().map(|neighbours| pages_of(neighbours.len())).sum();
        let pool = setup.resident_pool::<T>(PAGE, pages, &[pages::KIND])?;
        let space = pool.create_space()?;
        let made = build(&space, nodes, setup.interrupt, |node, named| {
            named.extend(graph[node as usize].iter().map(|&n| u64::from(n)));
        })?;
        // A graph that could be read has nodes.
        let start = made[0];
        let reached = Walk::new(&space, nodes, start, false).whole(setup.interrupt)?;
        let Reached { nodes: reached, depth, sum_of_depths } = reached;
        measured.push(format!("{stem}: nodes reached"), 0.0, reached as f64);
        measured.push(format!("{stem}: depth"), 0.0, depth as f64);
        measured.push(format!("{stem}: sum of depths"), 0.0, sum_of_depths as f64);
        let metric = format!("nodes of {stem}");
        measure(setup, &space, nodes, start, &metric, false, &mut measured)?;
    }
    Ok(measured)
}

fn measure<T: Translation>(
    setup: &Setup<'_>,
    space: &Space<T>,
    nodes: u64,
    start: PageNo,
    metric: &str,
    prefetch: bool,
    measured: &mut Measured,
) -> Result<(), BenchError> {
    setup.interrupt.check()?;
    let driven = setup.drive(1, |_| {
        let mut walk = Walk::new(space, nodes, start, prefetch);
        move || {
            for _ in 0..TURN {
                walk.step()?;
            }
            Ok(TURN)
        }
    })?;
    measured.push_driven(metric, 0.0, &driven);
    Ok(())
}
