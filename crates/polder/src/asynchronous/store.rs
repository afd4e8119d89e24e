//! What concerns a whole store, by futures.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use polder_log::AwaitedSync;
use polder_pool::Journal;

use super::operation::{Commit, is_forked};
use crate::any::{Any, dispatch};
use crate::batch::apply::apply;
use crate::batch::{BatchError, WriteBatch};
use crate::durability::Durability;
use crate::error::StoreError;
use crate::families::Engines;
use crate::handle::Store;
use crate::helpers::Job;

/// A store, by futures. Cheap to clone; [`Store::asynchronous`] makes one. What holds for the futures of
/// [`AsyncTable`](crate::AsyncTable) holds for these as well.
#[derive(Debug, Clone)]
pub struct AsyncStore {
    store: Store,
}

impl Store {
    /// The same store, by futures.
    pub fn asynchronous(&self) -> AsyncStore {
        AsyncStore { store: self.clone() }
    }
}

impl AsyncStore {
    /// The store, for what may wait.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Makes all changes of a batch, or none: as [`Store::apply`]. A thread of the store's makes it, and
    /// calls what was given to [`WriteBatch::update_with`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// # futures_lite::future::block_on(async {
    /// use polder::WriteBatch;
    /// let accounts = store.open_table("accounts")?;
    /// let mut batch = WriteBatch::new();
    /// batch.put(&accounts, "a", "7").put(&accounts, "b", "3");
    /// store.asynchronous().apply(batch).await?;
    /// assert_eq!(accounts.len(), 2);
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Store::apply`]. A batch that changes collections is refused.
    pub async fn apply(&self, mut batch: WriteBatch<'static>) -> Result<(), BatchError> {
        #[cfg(feature = "vector")]
        if batch.around.is_some() {
            return Err(BatchError::ChangesCollections);
        }
        let engine = &self.store.engine;
        let theirs = engine.clone();
        let work = move || dispatch!(&theirs, engine => apply(engine, &mut batch, &|_| ()));
        let (lsn, durability) = Made::new(engine, work, false).await??;
        let awaited = (durability == Durability::Sync)
            .then(|| dispatch!(engine, engine => AwaitedSync::new(&engine.checkpointer.log, lsn)));
        Ok(Commit::new(engine, awaited).await?)
    }

    /// Waits until everything that was written so far is durable: as [`Store::flush`].
    ///
    /// # Errors
    /// Those of [`Store::flush`].
    pub async fn flush(&self) -> Result<(), StoreError> {
        let engine = &self.store.engine;
        let awaited = dispatch!(engine, engine => {
            engine.quiesce.check_open()?;
            let log = &engine.checkpointer.log;
            AwaitedSync::new(log, log.end())
        });
        Commit::new(engine, Some(awaited)).await
    }

    /// Writes everything down and closes the store, for all clones: as [`Store::close`]. A future that is
    /// dropped once it was polled does not keep it from that.
    ///
    /// # Errors
    /// Those of [`Store::close`].
    pub async fn close(self) -> Result<(), StoreError> {
        let engine = self.store.engine.clone();
        let theirs = engine.clone();
        let work = move || dispatch!(&theirs, engine => engine.close());
        Made::new(&engine, work, true).await?
    }
}

/// What a helper makes, from the first poll on.
struct Made<'a, R, W> {
    engine: &'a Any<Engines>,
    work: Option<W>,
    /// It closes the store, and is done even if this is dropped before a helper has begun it.
    closes: bool,
    job: Option<Job<R>>,
}

impl<'a, R, W: FnOnce() -> R + Send + 'static> Made<'a, R, W> {
    fn new(engine: &'a Any<Engines>, work: W, closes: bool) -> Made<'a, R, W> {
        Made { engine, work: Some(work), closes, job: None }
    }
}

impl<R: Send + 'static, W: FnOnce() -> R + Send + Unpin + 'static> Future for Made<'_, R, W> {
    type Output = Result<R, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if is_forked(this.engine) {
            return Poll::Ready(Err(StoreError::Forked));
        }
        if let Some(work) = this.work.take() {
            let helpers = dispatch!(this.engine, engine => &engine.helpers);
            this.job = Some(match this.closes {
                true => helpers.readers.begin_surely(work),
                false => helpers.writers.begin(work),
            });
        }
        match &mut this.job {
            Some(job) => job.poll(cx.waker()).map(Ok),
            None => Poll::Pending,
        }
    }
}

impl<R, W> Drop for Made<'_, R, W> {
    fn drop(&mut self) {
        if self.job.is_some() && is_forked(self.engine) {
            std::mem::forget(self.job.take());
        }
    }
}
