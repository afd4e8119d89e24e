//! The nearest vectors one after the other.

use std::collections::{HashSet, VecDeque};
use std::mem;

use polder_pool::{AccessHint, PoolError, Translation};

use super::HnswIndex;
use super::answer::{self, Labelling};
use super::filtered::Filtered;
use super::look::By;
use super::steps::Steps;
use crate::element::VectorRef;
use crate::error::VectorError;
use crate::near::Near;
use crate::node_id::NodeId;
use crate::reads::Reads;
use crate::search::{Found, Search};
use crate::vectors::Vector;

/// Vectors near to one, nearest first but for some that are found late; see [`HnswIndex::nearest`].
pub struct NearestIter<'i, T: Translation> {
    index: &'i HnswIndex<T>,
    /// What is still to be given, at most, and by what.
    search: Search<'i>,
    state: State<'i>,
    given: HashSet<NodeId>,
    ready: VecDeque<Found>,
}

enum State<'i> {
    /// Nothing was looked at.
    New(Vector),
    /// The graph is gone through.
    Graph(Box<Steps<'i>>),
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
        let (state, given, ready) = (State::New(query), HashSet::new(), VecDeque::new());
        NearestIter { index, search, state, given, ready }
    }

    /// Finds more, if there is more.
    fn find(&mut self) -> Result<(), PoolError> {
        let width = self.given.len().saturating_add(self.search.width.max(1));
        let mut steps = match mem::replace(&mut self.state, State::Over) {
            State::New(query) => match self.begin(query, width)? {
                Some(steps) => steps,
                None => return Ok(()),
            },
            State::Graph(mut steps) => {
                steps.widen(width);
                steps
            }
            State::Over => return Ok(()),
        };
        let index = self.index;
        let is_over = index.space.interleave(AccessHint::Normal, |way| {
            let reads = &mut Reads::new(&index.space, way);
            steps.finish(reads)?;
            let is_over = steps.is_given_up() || !steps.nearest().is_full();
            if is_over && self.search.filter.is_some() {
                return self.find_rest(steps.query()).map(|()| true);
            }
            let is_new = |near: &Near| !self.given.contains(&near.node);
            let count = if is_over { usize::MAX } else { self.search.width.max(4) / 4 };
            let mut near: Vec<Near> = steps.found().filter(is_new).take(count).collect();
            let is_beyond = near.last().is_none_or(|last| last.distance > self.search.within);
            self.given.extend(near.iter().map(|near| near.node));
            self.read_labels(reads, steps.query(), &mut near)?;
            Ok::<bool, PoolError>(is_over || is_beyond)
        })?;
        if !is_over {
            self.state = State::Graph(steps);
        }
        Ok(())
    }

    /// The first steps; none in an empty index, or if all were compared instead.
    fn begin(&mut self, query: Vector, width: usize) -> Result<Option<Box<Steps<'i>>>, PoolError> {
        let (index, mut filtered) = (self.index, None);
        if let Some(filter) = self.search.filter {
            let Some(estimate) = index.estimate(filter, width)? else {
                return self.find_rest(&query).map(|()| None);
            };
            filtered = Some(Filtered::new(filter, estimate));
        }
        let begin =
            |entry| Box::new(Steps::new(&index.core, query, entry, filtered, (width, true)));
        Ok(index.entry()?.map(begin))
    }

    /// Gives those of these that are still there, are within the distance and match, as many as are wanted.
    fn read_labels(
        &mut self,
        reads: &mut Reads<'_, '_, T>,
        query: &Vector,
        near: &mut [Near],
    ) -> Result<(), PoolError> {
        let end = near.partition_point(|near| near.distance <= self.search.within);
        let (by, mut rest) = (By::new(&self.index.core, query, 0), &mut near[..end]);
        let filter = self.search.filter;
        while self.ready.len() < self.search.count && !rest.is_empty() {
            let missing = (self.search.count - self.ready.len()).min(rest.len());
            let (of, farther) = rest.split_at_mut(missing);
            rest = farther;
            let places: Vec<NodeId> = answer::by_node(of).collect();
            let mut found = Vec::with_capacity(missing);
            reads.each(&places, &mut Labelling { by, of, found: &mut found })?;
            answer::sort(&mut found);
            // No page is on its way (MANY-4).
            found.retain(|found| filter.is_none_or(|filter| filter.matches(found.label)));
            self.ready.extend(found);
        }
        Ok(())
    }

    /// Compares with all, and gives those that were not given.
    fn find_rest(&mut self, query: &Vector) -> Result<(), PoolError> {
        let count = self.search.count.saturating_add(self.given.len());
        let all = self.index.compare_all(query, &Search { count, ..self.search })?;
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
