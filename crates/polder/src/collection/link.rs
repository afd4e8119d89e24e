//! Linking vectors that are in the index, and whatever else it does for long.

use std::sync::{Mutex, PoisonError};

use polder_pool::{PoolError, lock};
use polder_vector::{Bulk, Change, Loading, VectorError, VectorIndex};

use super::Collection;
use crate::durability::Durability;
use crate::error::StoreError;

/// The part of the memory budget that a run may take beside it, and what vectors are linked with.
const MEMORY_PART: u64 = 4;

/// Links.
impl Collection {
    /// Whether searches find all that they should. It is false while a [load](Collection::load) goes on that
    /// places its vectors by runs, and after one that was cut off: searches miss many of its rows then, unless
    /// they are exact. Of what was inserted otherwise meanwhile they may miss some until the next
    /// [`Collection::relink`].
    ///
    /// # Errors
    /// Those of reading.
    pub fn is_linked(&self) -> Result<bool, StoreError> {
        self.read(|index| index.is_linked())
    }

    /// Finds the links of all vectors anew, beside those that they have, by so many threads: as the end of a
    /// [load](Collection::load) does, which completes one that was cut off. It also refreshes a graph that is
    /// steered by codes and was changed much; there is nothing to be done for any other index. Whether it came
    /// to its end.
    ///
    /// `progress` is told which share is done, from 0 to 1, and stops it by returning false: no link is lost
    /// then. The next call goes on there or a part before, if no vectors have come or gone meanwhile, and so it
    /// does after a crash. It takes memory as a load does, and others may use the collection meanwhile.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn relink(
        &self,
        threads: usize,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<bool, StoreError> {
        self.store().check_may_change()?;
        let tell = &mut |loading: Loading<'_>| match loading {
            Loading::Linked(share) => Ok(progress(share)),
            _ => Ok(true),
        };
        let is_done = self.in_bulk(threads, tell, |index, bulk| index.relink(bulk))?;
        if self.durability == Durability::Sync {
            self.store().flush()?;
        }
        Ok(is_done)
    }

    /// Has the index do what takes long, of which each change is a write of its own. Whether it came to its
    /// end.
    pub(super) fn in_bulk(
        &self,
        threads: usize,
        progress: &mut dyn FnMut(Loading<'_>) -> Result<bool, StoreError>,
        work: impl FnOnce(&dyn VectorIndex, &mut Bulk<'_>) -> Result<bool, VectorError>,
    ) -> Result<bool, StoreError> {
        let failed = Mutex::new(None);
        let fail = |error: StoreError| {
            lock(&failed).get_or_insert(error);
        };
        let change: Change<'_> = &|make| {
            let make = |_: &_| -> Result<(), PoolError> {
                make();
                Ok(())
            };
            self.index.write(make).unwrap_or_else(fail);
        };
        let progress = &mut |loading: Loading<'_>| {
            let told = progress(loading);
            // Whoever has closed the store waits for no more than one change.
            let goes_on = self.read(|_| Ok(())).and(told);
            goes_on.map_err(fail).unwrap_or(false) && lock(&failed).is_none()
        };
        let memory_bytes = self.bulk_bytes();
        let mut bulk = Bulk { threads: threads.max(1), memory_bytes, change, progress };
        let done = self.read(|index| work(index, &mut bulk));
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(done, Err)
    }

    /// The memory for a run, and for linking.
    pub(super) fn bulk_bytes(&self) -> usize {
        (self.store().memory_budget() / MEMORY_PART) as usize
    }
}
