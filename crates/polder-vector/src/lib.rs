//! Vector indexes on Polder's buffer pool: which of many vectors are nearest to a given one, found in
//! memory and beyond it.
//!
//! An index owns the pages of one space of a pool, as the trees of `polder-tree` do: under the same
//! budget, in the same log, on whichever translation the pool has. So an index may be larger than
//! memory, and is there again after a crash.
//!
//! | file | |
//! |---|---|
//! | `element.rs` | what the numbers of a vector are: f32, f16, bf16, i8, bits; and vectors of them |
//! | `metric.rs` | how far vectors are from each other: L2, inner product, cosine, Hamming |
//! | `index.rs`, `options.rs`, `search.rs` | what all indexes can do, what they are made with, and what is asked of them |
//! | `probe.rs` | how many of the nearest are found, and how fast |
//! | `vectors.rs` | a vector in private memory, and its distance from one in a page |
//! | `distance/` | sums over the dimensions, by what the processor has |
//! | `hnsw/` | a proximity graph of several levels: [`HnswIndex`] |
//! | `node_id.rs` | where a node of a graph lies |
//! | `near.rs`, `visited.rs` | what a search keeps: nodes by distance, and which it has seen |
//! | `error.rs` | what can go wrong |

mod distance;
mod element;
mod error;
pub mod hnsw;
mod index;
mod metric;
mod near;
mod node_id;
mod options;
mod probe;
mod search;
mod vectors;
mod visited;

pub use element::{Bits, Element, ElementKind, VectorRef};
pub use error::VectorError;
pub use half;
pub use hnsw::{HnswIndex, HnswStructure, KINDS, NearestIter};
pub use index::{VectorBuf, VectorIndex};
pub use metric::Metric;
pub use node_id::NodeId;
pub use options::{HnswOptions, IndexOptions};
pub use polder_structure::{Fault, Report};
pub use probe::{Probe, Probed};
pub use roaring;
pub use search::{Answer, Filter, Found, Search};
pub use vectors::VectorShape;

/// The README's program.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
