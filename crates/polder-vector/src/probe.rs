//! How many of the nearest an index finds, and how fast, beside comparing with all.

use std::time::{Duration, Instant};

use crate::element::VectorRef;
use crate::error::VectorError;
use crate::index::VectorIndex;
use crate::search::{Found, Search};

/// The greatest width that is tried.
const MOST_WIDTH: usize = 1 << 16;

/// Queries of which it is known what is nearest.
///
/// ```
/// # use polder_format::PageSize;
/// # use polder_pool::{Array, FileState, Pool};
/// # use polder_testkit::pools;
/// # use polder_vector::{ElementKind, HnswIndex, HnswOptions, KINDS, Metric, VectorShape};
/// use polder_vector::{Probe, Search, VectorRef};
///
/// # let config = pools::config(4, PageSize::MIN, FileState::NEW);
/// # let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &KINDS)?;
/// # let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
/// # let index = HnswIndex::create(pool.create_space()?, &HnswOptions::new(shape))?;
/// for label in 0..200 {
///     index.insert(label, &[(label % 20) as f32, (label / 20) as f32])?;
/// }
/// let queries = [[3.2_f32, 4.4], [17.0, 0.7]];
/// let queries: Vec<VectorRef> = queries.iter().map(VectorRef::from).collect();
/// let probe = Probe::new(&index, &queries, &Search::new(5, 0), &mut |_| true)?.unwrap();
/// println!("with a width of 20: {:?}", probe.measure(20)?);
/// let width = probe.width_for(0.95)?.unwrap().width;
/// # assert!(width <= 64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Probe<'p> {
    index: &'p dyn VectorIndex,
    queries: &'p [VectorRef<'p>],
    search: Search<'p>,
    nearest: Vec<Vec<Found>>,
}

/// What searches of one width have found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probed {
    /// The width.
    pub width: usize,
    /// How many of the nearest were found, as a part of those that there are: 0 to 1.
    pub recall: f64,
    /// How long a search took.
    pub mean: Duration,
    /// How long 99 of 100 took, at most; of less than a hundred all of them.
    pub p99: Duration,
}

impl<'p> Probe<'p> {
    /// Finds what is nearest to each query by comparing with all vectors: as many as the search says, and
    /// of those that it says. `progress` is told how many queries are done, and stops by returning false;
    /// `None` then.
    ///
    /// # Errors
    /// Those of [`VectorIndex::search_exact`].
    pub fn new(
        index: &'p dyn VectorIndex,
        queries: &'p [VectorRef<'p>],
        search: &Search<'p>,
        progress: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Option<Probe<'p>>, VectorError> {
        let mut nearest = Vec::with_capacity(queries.len());
        for query in queries {
            if !progress(nearest.len()) {
                return Ok(None);
            }
            nearest.push(index.search_exact(*query, search)?.found);
        }
        Ok(Some(Probe { index, queries, search: *search, nearest }))
    }

    /// Searches with this width, on this thread.
    ///
    /// # Errors
    /// Those of [`VectorIndex::search`].
    pub fn measure(&self, width: usize) -> Result<Probed, VectorError> {
        let search = Search { width, ..self.search };
        let (mut hits, mut times) = (0, Vec::with_capacity(self.queries.len()));
        for (query, nearest) in self.queries.iter().zip(&self.nearest) {
            let begun = Instant::now();
            let found = self.index.search(*query, &search)?.found;
            times.push(begun.elapsed());
            // Of equally far ones any is as good.
            let Some(farthest) = nearest.last() else { continue };
            let is_near = |one: &&Found| one.distance <= farthest.distance;
            hits += found.iter().filter(is_near).count().min(nearest.len());
        }
        times.sort_unstable();
        let wanted: usize = self.nearest.iter().map(Vec::len).sum();
        let count = times.len().max(1);
        Ok(Probed {
            width,
            recall: if wanted == 0 { 1.0 } else { hits as f64 / wanted as f64 },
            mean: times.iter().sum::<Duration>() / count as u32,
            p99: times.get((count * 99).div_ceil(100) - 1).copied().unwrap_or_default(),
        })
    }

    /// The least width, to a tenth, with which so many of the nearest are found. `None` if there is none
    /// up to 65536.
    ///
    /// # Errors
    /// Those of [`VectorIndex::search`].
    pub fn width_for(&self, recall: f64) -> Result<Option<Probed>, VectorError> {
        let (mut below, mut enough) = (0, None::<Probed>);
        let mut width = 1;
        while width <= MOST_WIDTH {
            let probed = self.measure(width)?;
            if probed.recall >= recall {
                enough = Some(probed);
            } else {
                below = width;
            }
            width = match enough {
                None => 2 * width,
                Some(enough) if (enough.width - below) * 10 <= enough.width.max(10) => break,
                Some(enough) => below.midpoint(enough.width),
            };
        }
        Ok(enough)
    }
}
