//! What indexes are made with. They stay so.

use crate::vectors::VectorShape;

/// What an [`HnswIndex`](crate::HnswIndex) is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HnswOptions {
    /// What its vectors are.
    pub shape: VectorShape,
    /// Links of a node on each level, at most; twice as many on the lowest (`M` in the paper). 2 to
    /// 100; more cost memory and time, and find more in data of many dimensions.
    pub links: usize,
    /// How many of the nearest nodes an insert keeps in sight (`efConstruction` in the paper). 1 to
    /// 65536; more make inserts slower and the graph better.
    pub insert_width: usize,
}

impl HnswOptions {
    /// 16 links, and inserts that keep 128 nodes in sight.
    pub fn new(shape: VectorShape) -> HnswOptions {
        HnswOptions { shape, links: 16, insert_width: 128 }
    }
}

/// What an [`IvfIndex`](crate::IvfIndex) is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IvfOptions {
    /// What its vectors are.
    pub shape: VectorShape,
    /// How many lists it has (`nlist` in other systems), 1 to 65536. An insert compares with as many
    /// centroids, and a search as well; with fewer lists each is longer. The root of the number of
    /// vectors is a good beginning, up to four times as many. Their centroids are trained on a sample, in
    /// memory for 64 vectors of each list. An index that a salvage has made may have fewer lists than the
    /// one that was lost.
    pub lists: usize,
}

/// What a [`VamanaIndex`](crate::VamanaIndex) is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VamanaOptions {
    /// What its vectors are: of numbers, not of bits.
    pub shape: VectorShape,
    /// Links of a node, at most (`R` in the paper). 4 to 200; more cost memory and time, and find more in
    /// data of many dimensions.
    pub links: usize,
    /// How many of the nearest an insert keeps in sight, and reads (`L` in the paper). 1 to 65536; more make
    /// inserts slower and the graph better.
    pub insert_width: usize,
    /// Bits of a code for each dimension: 1, 2 or 4. With fewer, codes take less memory, and a search must
    /// read more nodes to find as many of the nearest.
    pub code_bits: usize,
}

impl VamanaOptions {
    /// 64 links, inserts that keep 128 vectors in sight, and codes of 4 bits a dimension. (For vectors of a
    /// hundred dimensions and more, of f32, and memory that is a tenth of them: 2 bits.)
    pub fn new(shape: VectorShape) -> VamanaOptions {
        VamanaOptions { shape, links: 64, insert_width: 128, code_bits: 4 }
    }
}

/// Which index it is, and what it was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexOptions {
    /// A proximity graph.
    Hnsw(HnswOptions),
    /// Lists around centroids.
    Ivf(IvfOptions),
    /// A proximity graph that is steered by codes.
    Vamana(VamanaOptions),
}

impl IndexOptions {
    /// What its vectors are.
    pub fn shape(self) -> VectorShape {
        match self {
            IndexOptions::Hnsw(options) => options.shape,
            IndexOptions::Ivf(options) => options.shape,
            IndexOptions::Vamana(options) => options.shape,
        }
    }
}
