//! What can go wrong in a vector index.

use polder_pool::PoolError;

use crate::element::ElementKind;
use crate::metric::Metric;

/// Why a vector index could not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum VectorError {
    /// The vector has more or fewer dimensions than those of the index.
    #[error("the vector has {given} dimensions, and the index is for vectors of {wanted}")]
    Dimensions {
        /// How many it has.
        given: usize,
        /// How many it must have.
        wanted: usize,
    },
    /// A number of the vector is infinite or no number.
    #[error("dimension {dimension} of the vector is {value}, which has no distance to anything")]
    NotFinite {
        /// Which one, counted from 0.
        dimension: usize,
        /// What it is.
        value: f32,
    },
    /// All numbers of the vector are zero, and it has no direction.
    #[error(
        "all dimensions of the vector are zero: it has no direction, which the cosine is about"
    )]
    NoDirection,
    /// The vector is so long, or under the cosine so short, that its distances are no numbers of an f32.
    #[error("the length of the vector is {length:e}, and must be {least:e} to {most:e}")]
    Length {
        /// What it is: the root of the sum of the squares of its numbers.
        length: f64,
        /// The least that is allowed.
        least: f64,
        /// The most that is allowed.
        most: f64,
    },
    /// The numbers of the vector are of another kind than those of the index.
    #[error("the vector is of {given}, and the index is for vectors of {wanted}")]
    Elements {
        /// What they are.
        given: ElementKind,
        /// What they must be.
        wanted: ElementKind,
    },
    /// There is no such distance between vectors of such numbers.
    #[error(
        "vectors of {element} cannot be compared by {metric}: bits are, and only they, by hamming"
    )]
    Metric {
        /// The numbers.
        element: ElementKind,
        /// The distance.
        metric: Metric,
    },
    /// An option is out of its range.
    #[error("{what} is {given}, and must be {least} to {most}")]
    Option {
        /// Which one.
        what: &'static str,
        /// What it is.
        given: usize,
        /// The least that is allowed.
        least: usize,
        /// The most that is allowed.
        most: usize,
    },
    /// A vector with its links does not fit a page.
    #[error(
        "a vector with the links of the lowest level has {bytes} bytes, and a page has room for {room}: \
         take larger pages, fewer dimensions, smaller elements, or fewer links"
    )]
    TooLong {
        /// Bytes of a vector with the links of the lowest level.
        bytes: usize,
        /// Bytes that are there for it.
        room: usize,
    },
    /// A vector with its label does not fit a page.
    #[error(
        "a vector with its label has {bytes} bytes, and a page has room for {room}: take larger pages, \
         fewer dimensions, or smaller elements"
    )]
    EntryTooLong {
        /// Bytes of a vector with its label.
        bytes: usize,
        /// Bytes that are there for it.
        room: usize,
    },
    /// A vector with its links does not fit a page.
    #[error(
        "a vector with its links has {bytes} bytes, and a page has room for {room}: take larger pages, \
         fewer dimensions, smaller elements, or fewer links"
    )]
    NodeTooLong {
        /// Bytes of a vector with its links.
        bytes: usize,
        /// Bytes that are there for it.
        room: usize,
    },
    /// An index that codes its vectors was to be made for bits.
    #[error("vectors of bits are as short as codes: take an index that does not code vectors")]
    NoCodes,
    /// There are fewer vectors to train centroids on than there are lists.
    #[error("the sample has {given} vectors, and {lists} lists need at least as many")]
    SampleTooSmall {
        /// How many there are.
        given: usize,
        /// How many lists there are to be.
        lists: usize,
    },
    /// The training of centroids was stopped by whoever was told of its progress.
    #[error("the training of centroids was stopped")]
    Stopped,
    /// The distance within which is to be searched is no number.
    #[error("the distance within which vectors are to be found is NaN")]
    Within,
    /// The pool could not.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

impl From<VectorError> for PoolError {
    fn from(error: VectorError) -> PoolError {
        match error {
            VectorError::Pool(error) => error,
            other => PoolError::of_structure(other),
        }
    }
}
