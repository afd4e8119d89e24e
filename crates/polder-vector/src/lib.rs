//! Vector indexes on Polder's buffer pool: which of many vectors are nearest to a given one, found in
//! memory and beyond it.
//!
//! An index owns the pages of one space of a pool, as the trees of `polder-tree` do: under the same
//! budget, in the same log, on whichever translation the pool has. So an index may be larger than
//! memory, and is there again after a crash.
//!
//! | file | |
//! |---|---|
//! | `element.rs` | what the numbers of a vector are: f32, f16, bf16, i8, bits |
//! | `metric.rs` | how far vectors are from each other: L2, inner product, cosine, Hamming |
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
mod metric;
mod near;
mod node_id;
mod vectors;
mod visited;

pub use element::{Bits, Element, ElementKind};
pub use error::VectorError;
pub use half;
pub use hnsw::{Found, HnswIndex, HnswOptions, KINDS};
pub use metric::Metric;
pub use node_id::NodeId;
pub use polder_structure::{Fault, Report};
pub use vectors::VectorShape;

/// The README's program.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
