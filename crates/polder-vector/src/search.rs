//! What searches are asked for, and what they answer.

use std::fmt;

use roaring::RoaringTreemap;

use crate::error::VectorError;
use crate::node_id::NodeId;
use crate::places::Places;

/// What a search is to find.
///
/// ```
/// use polder_vector::Search;
///
/// let is_even = |label: u64| label.is_multiple_of(2);
/// let search = Search::new(10, 100).within(0.5).filter(&is_even);
/// assert_eq!(search.count, 10);
/// ```
#[derive(Clone, Copy)]
pub struct Search<'f> {
    /// So many of the nearest, at most.
    pub count: usize,
    /// How much is looked at: with more, more of the nearest are found, and it takes longer. How many of
    /// the nearest nodes a search of a graph keeps in sight (`ef` in the papers), at least `count`; how many
    /// lists in which something matches a search of lists compares with (`nprobe` in other systems).
    pub width: usize,
    /// None that is farther; see [`Metric`](crate::Metric). Infinity: however far.
    pub within: f32,
    /// None that does not match.
    pub filter: Option<&'f dyn Filter>,
}

impl<'f> Search<'f> {
    /// The `count` nearest, looked for with this width.
    pub fn new(count: usize, width: usize) -> Search<'f> {
        Search { count, width, within: f32::INFINITY, filter: None }
    }

    /// None that is farther than this.
    #[must_use]
    pub fn within(self, distance: f32) -> Search<'f> {
        Search { within: distance, ..self }
    }

    /// None that does not match. A search whose filter lets few through, or what is far away, finds
    /// `count` if so many match, by comparing with all vectors if need be.
    #[must_use]
    pub fn filter(self, filter: &'f dyn Filter) -> Search<'f> {
        Search { filter: Some(filter), ..self }
    }

    /// Whether it is for all within a distance.
    pub(crate) fn is_range(&self) -> bool {
        self.within < f32::INFINITY
    }

    /// How many are kept in sight at first. A search for all within a distance finds out how many it needs.
    pub(crate) fn first_width(&self) -> usize {
        match self.is_range() {
            true => self.width.max(1),
            false => self.width.max(self.count).max(1),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), VectorError> {
        match self.within.is_nan() {
            true => Err(VectorError::Within),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for Search<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Search")
            .field("count", &self.count)
            .field("width", &self.width)
            .field("within", &self.within)
            .field("filter", &self.filter.map(|_| ..))
            .finish()
    }
}

/// Which labels a search may find. A function of a label is one, and a set of labels.
///
/// It is asked of labels in no order, of each any number of times, while nothing is latched.
pub trait Filter: Sync {
    /// Whether a vector with this label may be found.
    fn matches(&self, label: u64) -> bool;

    /// The same of vectors by which searches estimate how many match, and where they lie. These may have been
    /// removed.
    fn would_match(&self, label: u64) -> bool {
        self.matches(label)
    }

    /// How many labels match, if that is known: a search estimates it otherwise.
    fn count(&self) -> Option<u64> {
        None
    }

    /// Where all vectors lie that may match, if that is known: a search may look at these alone.
    fn places(&self) -> Option<&Places> {
        None
    }
}

impl<F: Fn(u64) -> bool + Sync> Filter for F {
    fn matches(&self, label: u64) -> bool {
        self(label)
    }
}

impl Filter for RoaringTreemap {
    fn matches(&self, label: u64) -> bool {
        self.contains(label)
    }

    fn count(&self) -> Option<u64> {
        Some(self.len())
    }
}

impl Filter for Places {
    fn matches(&self, label: u64) -> bool {
        self.contains(label)
    }

    fn count(&self) -> Option<u64> {
        Some(self.len())
    }

    fn places(&self) -> Option<&Places> {
        Some(self)
    }
}

/// A vector that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// What it was inserted with.
    pub label: u64,
    /// How far it is from what was looked for; see [`Metric`](crate::Metric).
    pub distance: f32,
    /// Where it lies, for its removal.
    pub node: NodeId,
}

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// The vectors, nearest first.
    pub found: Vec<Found>,
    /// Whether each vector that matches was compared, so that these are the nearest, and fewer than were
    /// asked for only if there are no more.
    pub is_exhaustive: bool,
}
