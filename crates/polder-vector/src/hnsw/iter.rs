//! The nearest vectors one after the other.

use std::collections::{HashSet, VecDeque};

use polder_pool::{PoolError, Translation};

use super::HnswIndex;
use super::filtered::By;
use super::walk::Scratch;
use crate::element::VectorRef;
use crate::error::VectorError;
use crate::lent::Lent;
use crate::near::Near;
use crate::node_id::NodeId;
use crate::search::{Found, Search};
use crate::vectors::Vector;

/// Vectors near to one, nearest first but for some that are found late; see [`HnswIndex::nearest`].
pub struct NearestIter<'i, T: Translation> {
    index: &'i HnswIndex<T>,
    query: Vector,
    /// What is still to be given, at most, and by what.
    search: Search<'i>,
    state: State<'i>,
    scratch: Lent<Scratch>,
    given: HashSet<NodeId>,
    ready: VecDeque<Found>,
}

enum State<'i> {
    /// Nothing was looked at.
    New,
    /// The graph is gone through, with a filter by what that says.
    Graph(Option<By<'i>>),
    /// All that there is has been found.
    Over,
}

impl<T: Translation> HnswIndex<T> {
    /// Vectors near to `query`, nearest first but for some that are found late: as many as are taken, up
    /// to the `count` of the search, which goes on where it was with each. It keeps `width` in sight beyond
    /// those that it has given.
    ///
    /// ```
    /// # use polder_format::PageSize;
    /// # use polder_pool::{Array, FileState, Pool};
    /// # use polder_testkit::pools;
    /// # use polder_vector::{ElementKind, HnswIndex, HnswOptions, KINDS, Metric, Search, VectorShape};
    /// # let config = pools::config(4, PageSize::MIN, FileState::NEW);
    /// # let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &KINDS)?;
    /// # let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
    /// # let index = HnswIndex::create(pool.create_space()?, &HnswOptions::new(shape))?;
    /// for label in 0..100 {
    ///     index.insert(label, &[label as f32, 0.0])?;
    /// }
    /// let mut sum = 0;
    /// for found in index.nearest(&[0.0_f32, 0.0], &Search::new(usize::MAX, 20))? {
    ///     sum += found?.label;
    ///     if sum > 10 {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(sum, 0 + 1 + 2 + 3 + 4 + 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of a vector that is not one of the index, and [`VectorError::Within`]; those of loading pages
    /// when the next one is taken, after which there is none.
    pub fn nearest<'i, 'v>(
        &'i self,
        query: impl Into<VectorRef<'v>>,
        search: &Search<'i>,
    ) -> Result<NearestIter<'i, T>, VectorError> {
        let query = self.core.distances.vector(query.into())?;
        search.validate()?;
        Ok(NearestIter::new(self, query, *search))
    }
}

impl<'i, T: Translation> NearestIter<'i, T> {
    fn new(index: &'i HnswIndex<T>, query: Vector, search: Search<'i>) -> NearestIter<'i, T> {
        let (state, scratch) = (State::New, Lent::new());
        let (given, ready) = (HashSet::new(), VecDeque::new());
        NearestIter { index, query, search, state, scratch, given, ready }
    }

    /// Finds more, if there is more.
    fn find(&mut self) -> Result<(), PoolError> {
        let step = self.search.width.max(4) / 4;
        let width = self.given.len().saturating_add(self.search.width.max(1));
        let (index, state) = (self.index, &mut self.state);
        if let State::New = state {
            let mut by = None;
            if let Some(filter) = self.search.filter {
                by = index.way_to_matching(filter, width)?;
                if by.is_none() {
                    return self.find_rest();
                }
            }
            let is_empty = index.walk_with(&mut self.scratch, &self.query, |walk| {
                Ok(!walk.begin_search(width, true, by.as_ref())?)
            })?;
            *state = if is_empty { State::Over } else { State::Graph(by) };
        }
        let State::Graph(by) = state else { return Ok(()) };
        let (is_over, near) = index.walk_with(&mut self.scratch, &self.query, |walk| {
            walk.nearest().widen(width);
            let is_over = !walk.go_on_by(by.as_mut())? || !walk.nearest().is_full();
            let is_new = |near: &Near| !self.given.contains(&near.node);
            let count = if is_over { usize::MAX } else { step };
            Ok((is_over, walk.found().filter(is_new).take(count).collect::<Vec<_>>()))
        })?;
        if is_over && by.is_some() {
            return self.find_rest();
        }
        if is_over || near.last().is_none_or(|last| last.distance > self.search.within) {
            self.state = State::Over;
        }
        self.given.extend(near.iter().map(|near| near.node));
        self.ready.extend(index.found(&self.query, &self.search, near)?);
        Ok(())
    }

    /// Compares with all, and gives those that were not given.
    fn find_rest(&mut self) -> Result<(), PoolError> {
        self.state = State::Over;
        let count = self.search.count.saturating_add(self.given.len());
        let all = self.index.compare_all(&self.query, &Search { count, ..self.search })?;
        let is_new = |found: &Found| !self.given.contains(&found.node);
        self.ready.extend(all.found.into_iter().filter(is_new));
        Ok(())
    }
}

impl<T: Translation> Iterator for NearestIter<'_, T> {
    type Item = Result<Found, VectorError>;

    fn next(&mut self) -> Option<Result<Found, VectorError>> {
        while self.search.count > 0 {
            if let Some(found) = self.ready.pop_front() {
                self.search.count -= 1;
                return Some(Ok(found));
            }
            if let State::Over = self.state {
                break;
            }
            if let Err(error) = self.find() {
                self.search.count = 0;
                return Some(Err(error.into()));
            }
        }
        None
    }
}
