//! Graphs in files: a first line `nodes,edges`, which may say more, then an edge `source,target` on
//! each line, with nodes counted from 1; packed by gzip or not. Edges go both ways.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::error::{BenchError, quoted};
use crate::interrupt::Interrupt;

const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];
/// More nodes than any machine of ours has pages for.
const MOST_NODES: u64 = 1 << 28;
/// Lines between two looks for an interrupt.
const LINES_PER_LOOK: u64 = 1 << 16;

/// The neighbours of each node.
pub(crate) type Neighbours = Vec<Vec<u32>>;

/// Reads a graph.
pub(crate) fn read(path: &Path) -> Result<Neighbours, BenchError> {
    let mut neighbours = Neighbours::new();
    let nodes = each_edge(path, &Interrupt::silent(), |a, b| {
        let least = a.max(b) as usize + 1;
        neighbours.resize_with(neighbours.len().max(least), Vec::new);
        neighbours[a as usize].push(b);
        if a != b {
            neighbours[b as usize].push(a);
        }
    })?;
    neighbours.resize_with(nodes as usize, Vec::new);
    Ok(neighbours)
}

/// Reads each of them once, so that what is wrong is known before anything runs. Results name a
/// graph by its file, without directory and ending, so these must differ, and what stands behind a
/// `: ` in a metric is no part of a name.
pub(crate) fn check_all(paths: &[PathBuf], interrupt: &Interrupt) -> Result<(), BenchError> {
    for (i, path) in paths.iter().enumerate() {
        let same = paths[..i].iter().find(|other| other.file_stem() == path.file_stem());
        if let Some(other) = same {
            let (one, two) = (other.display(), path.display());
            let why = format!("results would call both graphs the same: {one} and {two}");
            return Err(BenchError::Options(why));
        }
        if path.file_stem().is_some_and(|stem| stem.to_string_lossy().contains(": ")) {
            let why = format!("a graph's name cannot have a colon and a space: {}", path.display());
            return Err(BenchError::Options(why));
        }
    }
    paths.iter().try_for_each(|path| each_edge(path, interrupt, |_, _| ()).map(|_| ()))
}

/// Calls `edge` with the two ends of each edge, from 0. Gives the number of nodes.
fn each_edge(
    path: &Path,
    interrupt: &Interrupt,
    edge: impl FnMut(u32, u32),
) -> Result<u32, BenchError> {
    let mut file = BufReader::new(File::open(path).map_err(BenchError::file(path))?);
    let is_packed = file.fill_buf().map_err(BenchError::file(path))?.starts_with(&GZIP_MAGIC);
    let text: Box<dyn Read> =
        if is_packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    parse(BufReader::new(text), interrupt, edge).map_err(|broken| match broken {
        Broken::Interrupted => BenchError::Interrupted,
        Broken::Line(at, why) => BenchError::Trace { path: path.to_owned(), at, why },
    })
}

#[derive(Debug, PartialEq)]
enum Broken {
    Interrupted,
    /// Which, from 1, and what is wrong with it.
    Line(u64, String),
}

fn parse(
    text: impl BufRead,
    interrupt: &Interrupt,
    mut edge: impl FnMut(u32, u32),
) -> Result<u32, Broken> {
    let mut header = None;
    let (mut at, mut edges) = (0, 0);
    for line in text.lines() {
        at += 1;
        if at % LINES_PER_LOOK == 0 && interrupt.is_set() {
            return Err(Broken::Interrupted);
        }
        let wrong = |why: String| Broken::Line(at, why);
        let line = line.map_err(|error| wrong(format!("it cannot be read: {error}")))?;
        match (header, pair(&line)) {
            (None, Some((nodes @ 1..=MOST_NODES, edges))) => header = Some((nodes, edges)),
            (None, Some((nodes, _))) => {
                return Err(wrong(format!(
                    "a graph has from 1 to {MOST_NODES} nodes, this one {nodes}"
                )));
            }
            (None, None) => {
                let line = quoted(&line);
                return Err(wrong(format!("the first line should be `nodes,edges`, not {line}")));
            }
            (Some((nodes, _)), Some((a, b))) => {
                if !(1..=nodes).contains(&a) || !(1..=nodes).contains(&b) {
                    return Err(wrong(format!("an edge {a},{b} among the nodes 1 to {nodes}")));
                }
                edges += 1;
                edge(a as u32 - 1, b as u32 - 1);
            }
            (Some(_), None) if line.trim().is_empty() => {}
            (Some(_), None) => {
                let line = quoted(&line);
                return Err(wrong(format!("a line should be `source,target`, not {line}")));
            }
        }
    }
    match header {
        Some((_, said)) if said != edges => {
            let why = format!("the file ends after {edges} edges; its first line says {said}");
            Err(Broken::Line(at, why))
        }
        Some((nodes, _)) => Ok(nodes as u32),
        None => Err(Broken::Line(1, "the file is empty: no line `nodes,edges`".to_owned())),
    }
}

/// The first two numbers of a line.
fn pair(line: &str) -> Option<(u64, u64)> {
    let mut numbers = line.split(',').map(|number| number.trim().parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests;
