//! What several threads look for.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::element::VectorRef;
use crate::together::MOST;

/// Vectors that several threads look for: each takes the next one that none has taken.
///
/// ```
/// use polder_vector::{Queries, VectorRef};
///
/// let vectors = [[3.1_f32], [70.9]];
/// let vectors: Vec<VectorRef> = vectors.iter().map(VectorRef::from).collect();
/// let queries = Queries::new(&vectors, 1);
/// assert_eq!(queries.take().map(|(number, _)| number), Some(0));
/// assert_eq!(queries.take().map(|(number, _)| number), Some(1));
/// assert!(queries.take().is_none());
/// ```
#[derive(Debug)]
pub struct Queries<'q> {
    vectors: &'q [VectorRef<'q>],
    /// So many threads take them.
    threads: usize,
    next: AtomicUsize,
}

impl<'q> Queries<'q> {
    /// All of these, for so many threads.
    pub fn new(vectors: &'q [VectorRef<'q>], threads: usize) -> Queries<'q> {
        Queries { vectors, threads: threads.max(1), next: AtomicUsize::new(0) }
    }

    /// Searches that go on together in one thread at most: with few queries, each thread has some.
    pub(crate) fn together(&self) -> usize {
        (self.vectors.len() / self.threads).clamp(1, MOST)
    }

    /// Takes the next one; gives which one it is as well.
    pub fn take(&self) -> Option<(usize, VectorRef<'q>)> {
        let number = self.next.fetch_add(1, Relaxed);
        Some((number, *self.vectors.get(number)?))
    }

    /// Whether all are taken.
    pub(crate) fn is_over(&self) -> bool {
        self.next.load(Relaxed) >= self.vectors.len()
    }

    /// None is taken any more.
    pub(crate) fn stop(&self) {
        self.next.store(self.vectors.len(), Relaxed);
    }
}
