//! What all vector indexes can do.

use std::fmt;

use crate::element::{VectorBuf, VectorRef};
use crate::error::VectorError;
use crate::node_id::NodeId;
use crate::options::IndexOptions;
use crate::queries::Queries;
use crate::search::{Answer, Found, Search};

/// How far a load has come.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Loading<'a> {
    /// These vectors are in the index since the last time, each with its label and where it lies; none, if
    /// they are being ordered.
    Placed(&'a [(u64, NodeId)]),
    /// All are, and this share of them is linked, from 0 to 1.
    Linked(f64),
}

/// Makes each change that it is called with, within whatever changes of an index must be within. One that it
/// does not make ends the load.
pub type Change<'c> = &'c (dyn Fn(&mut dyn FnMut()) + Sync);

/// Vectors one after the other; see [`VectorIndex::nearest`].
pub type FoundIter<'i> = Box<dyn Iterator<Item = Result<Found, VectorError>> + 'i>;

/// How many vectors are loaded, or linked: for a caller whose changes must be within something, such as a
/// store's, which is not to be entered for as long as a load takes.
pub struct Bulk<'b> {
    /// By so many threads.
    pub threads: usize,
    /// With about so many bytes of memory beside the pool's.
    pub memory_bytes: usize,
    /// By which each edit is made, in any of the threads.
    pub change: Change<'b>,
    /// Is told how far it has come, by the caller's thread and between changes, and stops it by returning
    /// false.
    pub progress: &'b mut dyn FnMut(Loading<'_>) -> bool,
}

impl fmt::Debug for Bulk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bulk({} threads, {} bytes)", self.threads, self.memory_bytes)
    }
}

/// Has a change made.
///
/// # Errors
/// Its own; [`VectorError::Stopped`] if it was not made.
pub(crate) fn made<R, E: Into<VectorError>>(
    change: Change<'_>,
    mut make: impl FnMut() -> Result<R, E>,
) -> Result<R, VectorError> {
    let mut result = None;
    change(&mut || result = Some(make()));
    result.ok_or(VectorError::Stopped)?.map_err(Into::into)
}

/// A vector index: its vectors, each with a label, and those nearest to any vector. Each method is that
/// of the same name of the index.
pub trait VectorIndex: Send + Sync {
    /// What it is.
    fn options(&self) -> IndexOptions;

    /// Shows the label of each vector, and where it lies, in no order, until `show` returns false.
    ///
    /// # Errors
    /// Those of the pool.
    fn for_each(&self, show: &mut dyn FnMut(u64, NodeId) -> bool) -> Result<(), VectorError>;

    /// How many bytes its pages are.
    ///
    /// # Errors
    /// Those of the pool.
    fn size_bytes(&self) -> Result<u64, VectorError>;

    /// Inserts a vector. Gives where it lies.
    ///
    /// # Errors
    /// Those of a vector that is not one of the index, and those of the pool.
    fn insert(&self, label: u64, vector: VectorRef<'_>) -> Result<NodeId, VectorError>;

    /// Places the vectors of a run, each with its label, as
    /// [`VamanaIndex::bulk_load`](crate::VamanaIndex::bulk_load) does, and links none of them: that is left to
    /// [`VectorIndex::relink`] when all runs are placed. The memory for them is the caller's. An index that
    /// knows no better way inserts them. Whether it came to its end; if not, or if there is an error, what
    /// was told to `progress` is placed, and nothing else but what an insert has left that failed.
    ///
    /// # Errors
    /// Those of inserts.
    fn place_run(
        &self,
        run: Vec<(u64, VectorBuf)>,
        bulk: &mut Bulk<'_>,
    ) -> Result<bool, VectorError> {
        for (label, vector) in run {
            let node = match made(bulk.change, || self.insert(label, vector.view())) {
                Err(VectorError::Stopped) => return Ok(false),
                node => node?,
            };
            if !(bulk.progress)(Loading::Placed(&[(label, node)])) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether all vectors that were placed are linked. Until they are, searches that do not compare with all
    /// miss many of them.
    ///
    /// # Errors
    /// Those of the pool.
    fn is_linked(&self) -> Result<bool, VectorError> {
        Ok(true)
    }

    /// Links all vectors, as [`VamanaIndex::relink_all`](crate::VamanaIndex::relink_all) does; an index whose
    /// inserts have done that does nothing. Whether it came to its end.
    ///
    /// # Errors
    /// Those of the pool.
    fn relink(&self, _bulk: &mut Bulk<'_>) -> Result<bool, VectorError> {
        Ok(true)
    }

    /// Removes the vector that lies there, if it has this label. Whether it has.
    ///
    /// # Errors
    /// Those of the pool.
    fn remove(&self, label: u64, node: NodeId) -> Result<bool, VectorError>;

    /// The vector that lies there, if it has this label.
    ///
    /// # Errors
    /// Those of the pool.
    fn get(&self, label: u64, node: NodeId) -> Result<Option<VectorBuf>, VectorError>;

    /// Vectors near to `query`, nearest first.
    ///
    /// # Errors
    /// Those of a vector that is not one of the index, and those of the pool.
    fn search(&self, query: VectorRef<'_>, search: &Search<'_>) -> Result<Answer, VectorError>;

    /// The same for as many of these as the caller's thread takes until all are taken; gives the answers, each
    /// with the number of its query. Where the thread waits for a device, several searches go on together
    /// in an index that gains by it.
    ///
    /// # Errors
    /// Those of [`VectorIndex::search`], for any of them.
    fn search_each(
        &self,
        queries: &Queries<'_>,
        search: &Search<'_>,
    ) -> Result<Vec<(usize, Answer)>, VectorError> {
        let mut answers = Vec::new();
        while let Some((number, query)) = queries.take() {
            answers.push((number, self.search(query, search)?));
        }
        Ok(answers)
    }

    /// Vectors near to `query`, nearest first but for some that are found late: as many as are taken, up to the
    /// `count` of the search. An index that can goes on where it was; the others search again, for twice as
    /// many. A search whose width finds most of ten goes on to find most of what comes then.
    ///
    /// # Errors
    /// Those of a vector that is not one of the index; those of the pool when the next one is taken, after
    /// which there is none.
    fn nearest<'i>(
        &'i self,
        query: VectorRef<'_>,
        search: &Search<'i>,
    ) -> Result<FoundIter<'i>, VectorError>;

    /// The nearest of all, each of which is compared; [`Search::width`] says nothing here.
    ///
    /// # Errors
    /// Those of a vector that is not one of the index, and those of the pool.
    fn search_exact(
        &self,
        query: VectorRef<'_>,
        search: &Search<'_>,
    ) -> Result<Answer, VectorError>;
}

impl fmt::Debug for dyn VectorIndex + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VectorIndex({:?})", self.options())
    }
}
