//! Many searches, by several threads.

use crate::element::VectorRef;
use crate::error::VectorError;
use crate::index::VectorIndex;
use crate::queries::Queries;
use crate::search::{Answer, Search};
use crate::share::in_threads;

/// Searches for many vectors, by so many threads, each as [`VectorIndex::search_each`] does; by one, which is the
/// caller's. Gives the answers in the order of the queries.
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
/// Those of [`VectorIndex::search`]: one, where several searches fail.
pub fn search_many(
    index: &dyn VectorIndex,
    queries: &[VectorRef<'_>],
    search: &Search<'_>,
    threads: usize,
) -> Result<Vec<Answer>, VectorError> {
    answer_many(queries, threads, |shared| index.search_each(shared, search))
}

/// What so many threads answer, each to as many queries as it takes and with the number of each, in the order of
/// the queries.
///
/// # Errors
/// One of those that threads end with; no query is taken any more then.
pub fn answer_many<R: Send, E: Send>(
    queries: &[VectorRef<'_>],
    threads: usize,
    answer: impl Fn(&Queries<'_>) -> Result<Vec<(usize, R)>, E> + Sync,
) -> Result<Vec<R>, E> {
    let threads = threads.clamp(1, queries.len().max(1));
    let shared = Queries::new(queries, threads);
    let found = in_threads(threads, || {
        if shared.is_over() {
            return Ok(Vec::new());
        }
        answer(&shared).inspect_err(|_| shared.stop())
    });
    let found: Vec<Vec<_>> = found.into_iter().collect::<Result<_, _>>()?;
    let mut answers: Vec<_> = found.into_iter().flatten().collect();
    answers.sort_unstable_by_key(|(number, _)| *number);
    debug_assert!(answers.iter().map(|(number, _)| *number).eq(0..queries.len()));
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}
