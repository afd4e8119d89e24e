//! Many searches, by several threads.

use crate::element::VectorRef;
use crate::error::VectorError;
use crate::index::VectorIndex;
use crate::search::{Answer, Search};
use crate::share::share;

/// Queries that a thread takes at once, at most.
const MOST_OF_ONE: usize = 64;
/// Parts that each thread takes, at least, where there are so many queries.
const PARTS: usize = 4;

/// Searches for many vectors, by so many threads, the caller's among them, each as
/// [`VectorIndex::search_together`] does. Gives the answers in the order of the queries.
///
/// ```
/// # use polder_format::PageSize;
/// # use polder_pool::{Array, FileState, Pool};
/// # use polder_testkit::pools;
/// # use polder_vector::{ElementKind, HnswIndex, HnswOptions, KINDS, Metric, VectorShape};
/// use polder_vector::{Search, VectorRef, search_many};
///
/// # let config = pools::config(4, PageSize::MIN, FileState::NEW);
/// # let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &KINDS)?;
/// # let shape = VectorShape { element: ElementKind::F32, dimensions: 1, metric: Metric::L2 };
/// # let index = HnswIndex::create(pool.create_space()?, &HnswOptions::new(shape))?;
/// for label in 0..100 {
///     index.insert(label, &[label as f32])?;
/// }
/// let queries = [[3.1_f32], [70.9]];
/// let queries: Vec<VectorRef> = queries.iter().map(VectorRef::from).collect();
/// let answers = search_many(&index, &queries, &Search::new(1, 20), 2)?;
/// assert_eq!((answers[0].found[0].label, answers[1].found[0].label), (3, 71));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`VectorIndex::search_together`], of the first part of the queries that met one.
pub fn search_many(
    index: &dyn VectorIndex,
    queries: &[VectorRef<'_>],
    search: &Search<'_>,
    threads: usize,
) -> Result<Vec<Answer>, VectorError> {
    // The last parts are small beside what each thread does.
    let of_one = queries.len().div_ceil(PARTS * threads.max(1)).clamp(1, MOST_OF_ONE);
    let parts: Vec<_> = queries.chunks(of_one).collect();
    let search = |answers: &mut Vec<(usize, Vec<Answer>)>, number: usize| {
        answers.push((number, index.search_together(parts[number], search)?));
        Ok::<(), VectorError>(())
    };
    let states = share(parts.len(), threads, Vec::new, search, &mut |_| true)?;
    let mut all: Vec<_> = states.into_iter().flatten().flatten().collect();
    all.sort_unstable_by_key(|(number, _)| *number);
    Ok(all.into_iter().flat_map(|(_, answers)| answers).collect())
}
