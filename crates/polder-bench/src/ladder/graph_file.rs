//! Graphs in files: a text of edges `source,target`, with nodes counted from 1 and a first line
//! `nodes,edges,...`, packed by gzip or not. Edges go both ways.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::error::BenchError;

const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];
/// More nodes than any machine of ours has pages for.
const MOST_NODES: usize = 1 << 28;

/// The neighbours of each node.
pub(crate) type Neighbours = Vec<Vec<u32>>;

/// Reads a graph.
pub(crate) fn read(path: &Path) -> Result<Neighbours, BenchError> {
    let mut file = BufReader::new(File::open(path).map_err(BenchError::file(path))?);
    let is_packed = file.fill_buf().map_err(BenchError::file(path))?.starts_with(&GZIP_MAGIC);
    let text: Box<dyn Read> =
        if is_packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    parse(BufReader::new(text)).map_err(|error| match error {
        Broken::File(source) => BenchError::File { path: path.to_owned(), source },
        Broken::Line(at, why) => BenchError::Trace { path: path.to_owned(), at, why },
    })
}

#[derive(Debug)]
enum Broken {
    File(io::Error),
    /// Which, from 1, and what is wrong with it.
    Line(u64, String),
}

fn parse(text: impl BufRead) -> Result<Neighbours, Broken> {
    let mut neighbours = Neighbours::new();
    for (line, at) in text.lines().zip(1u64..) {
        let line = line.map_err(Broken::File)?;
        let mut numbers = line.split(',').map(|number| number.trim().parse::<usize>());
        let (Some(Ok(a)), Some(Ok(b))) = (numbers.next(), numbers.next()) else {
            return Err(Broken::Line(at, format!("{line:?} does not begin with two numbers")));
        };
        if at == 1 {
            if a > MOST_NODES {
                return Err(Broken::Line(at, format!("{a} nodes are too many")));
            }
            neighbours.resize_with(a, Vec::new);
            continue;
        }
        let nodes = neighbours.len();
        if !(1..=nodes).contains(&a) || !(1..=nodes).contains(&b) {
            return Err(Broken::Line(at, format!("an edge {a} to {b} among {nodes} nodes")));
        }
        neighbours[a - 1].push(b as u32 - 1);
        if a != b {
            neighbours[b - 1].push(a as u32 - 1);
        }
    }
    Ok(neighbours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_go_both_ways() {
        let found = parse("4,3,u\n1,2\n2,3\n4,4\n".as_bytes()).unwrap();
        assert_eq!(found, [vec![1], vec![0, 2], vec![1], vec![3]]);
        assert!(parse("".as_bytes()).unwrap().is_empty());
    }

    #[test]
    fn broken_lines_are_named() {
        for (text, line) in [("x", 1), ("2,1\n1;2", 2), ("2,1\n1,2\n0,1", 3), ("2,1\n1,3", 2)] {
            assert!(matches!(parse(text.as_bytes()), Err(Broken::Line(at, _)) if at == line));
        }
        assert!(matches!(parse("999999999999,1".as_bytes()), Err(Broken::Line(1, _))));
    }
}
