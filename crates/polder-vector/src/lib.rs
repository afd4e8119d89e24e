//! Vector indexes on Polder's buffer pool: which of many vectors are nearest to a given one, found in
//! memory and beyond it.
//!
//! An index owns the pages of one space of a pool, as the trees of `polder-tree` do: under the same
//! budget, in the same log, on whichever translation the pool has. So an index may be larger than
//! memory, and is there again after a crash.
//!
//! # Which index
//!
//! | | choose it | but |
//! |---|---|---|
//! | [`HnswIndex`] | if vectors fit in memory: its searches are the fastest there (`vector-lists`) | where they do not, each vector that is compared is read (`vector-steered`), and lists are built several times as fast |
//! | [`VamanaIndex`] | if vectors do not fit, and their codes do: a search reads few pages (`vector-beyond`) | it is built at about a third of the speed of an HNSW (`vector-steered`); it is not for bits |
//! | [`IvfIndex`] | if vectors come and go fast beside few searches: an insert changes one page | in memory its searches take several times as long as those of an HNSW (`vector-lists`), and it cannot be made without a sample; how it does beyond memory was not measured |
//!
//! The names are of sections of `docs/results.md`, which has the figures and how they came about. The README
//! has what the indexes do.
//!
//! # Files
//!
//! | file | |
//! |---|---|
//! | `element.rs` | what the numbers of a vector are: f32, f16, bf16, i8, bits; and vectors of them |
//! | `metric.rs` | how far vectors are from each other: L2, inner product, cosine, Hamming |
//! | `index.rs`, `options.rs`, `search.rs` | what all indexes can do, what they are made with, and what is asked of them |
//! | `hosted.rs` | indexes in a store |
//! | `many.rs`, `queries.rs` | many searches, by several threads |
//! | `probe.rs` | how many of the nearest are found, and how fast |
//! | `vectors.rs`, `padded.rs` | a vector in private memory, and its distance from one in a page |
//! | `distance/` | sums over the dimensions, by what the processor has |
//! | `hnsw/` | a proximity graph of several levels: [`HnswIndex`] |
//! | `ivf/` | lists of vectors, each around a centroid: [`IvfIndex`] |
//! | `vamana/` | a proximity graph on the device, steered by short codes in memory: [`VamanaIndex`] |
//! | `node_id.rs`, `room.rs` | where a vector lies, and where there is room for more |
//! | `near.rs`, `visited.rs` | what a search of a graph keeps: nodes by distance, and which it has seen |
//! | `best.rs`, `pages.rs` | what a search keeps that compares in any order, and goes through all pages |
//! | `reads.rs` | looking at places of many pages at once |
//! | `together.rs` | searches of one thread that go on while others wait for pages |
//! | `lent.rs` | memory of searches, which threads keep |
//! | `places.rs` | searches among vectors of which it is known where they lie |
//! | `widening.rs` | what is nearest one after the other, by wider and wider searches |
//! | `share.rs` | work that several threads share |
//! | `random.rs` | numbers without a pattern |
//! | `error.rs` | what can go wrong |

mod best;
mod distance;
mod element;
mod error;
pub mod hnsw;
mod hosted;
mod index;
pub mod ivf;
mod lent;
mod many;
mod metric;
mod near;
mod node_id;
mod options;
mod padded;
mod pages;
mod places;
mod probe;
mod queries;
mod random;
mod reads;
mod room;
mod search;
mod share;
mod together;
pub mod vamana;
mod vectors;
mod visited;
mod widening;

pub use element::{Bits, Element, ElementKind, VectorBuf, VectorRef};
pub use error::VectorError;
pub use half;
pub use hnsw::{HnswIndex, NearestIter};
pub use hosted::{NewIndex, VectorStructure};
pub use index::{Bulk, Change, FoundIter, Loading, VectorIndex};
pub use ivf::IvfIndex;
pub use many::{answer_many, search_many};
pub use metric::Metric;
pub use node_id::NodeId;
pub use options::{HnswOptions, IndexOptions, IvfOptions, VamanaOptions};
pub use places::Places;
pub use polder_structure::{Fault, Report};
pub use probe::{Probe, Probed};
pub use queries::Queries;
pub use roaring;
pub use search::{Answer, Filter, Found, Search};
pub use vamana::VamanaIndex;
pub use vectors::VectorShape;
pub use widening::widening;

use polder_pool::KindOps;

/// To be given to [`Pool::open`](polder_pool::Pool::open) for a pool with such indexes.
pub const KINDS: [KindOps; 9] = [
    hnsw::KINDS[0],
    hnsw::KINDS[1],
    ivf::KINDS[0],
    ivf::KINDS[1],
    ivf::KINDS[2],
    ivf::KINDS[3],
    vamana::KINDS[0],
    vamana::KINDS[1],
    vamana::KINDS[2],
];

/// The README's program.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
