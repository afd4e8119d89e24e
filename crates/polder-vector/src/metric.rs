//! How far vectors are from each other.

use std::fmt;

use crate::element::ElementKind;

/// A distance between vectors: the less, the nearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Metric {
    /// The square of the Euclidean distance.
    L2,
    /// One less the inner product. Of vectors of one length that is the cosine, and cheaper. Of others it
    /// is no distance of a space, in which a vector is nearest to itself, and graphs, whose links lead
    /// from near to near, find fewer of the nearest.
    InnerProduct,
    /// One less the cosine of the angle between them: 0 to 2.
    Cosine,
    /// In how many bits they differ.
    Hamming,
}

impl Metric {
    /// All of them.
    pub const ALL: [Metric; 4] =
        [Metric::L2, Metric::InnerProduct, Metric::Cosine, Metric::Hamming];

    /// Whether vectors of such elements can be compared so.
    pub fn is_for(self, element: ElementKind) -> bool {
        (self == Metric::Hamming) == (element == ElementKind::Bit)
    }

    /// Its number in a page.
    pub(crate) fn to_byte(self) -> u8 {
        match self {
            Metric::L2 => 1,
            Metric::InnerProduct => 2,
            Metric::Cosine => 3,
            Metric::Hamming => 4,
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.to_byte() == byte)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Metric::L2 => "l2",
            Metric::InnerProduct => "inner-product",
            Metric::Cosine => "cosine",
            Metric::Hamming => "hamming",
        })
    }
}
