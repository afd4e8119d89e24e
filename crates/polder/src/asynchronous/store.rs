//! What concerns a whole store, by futures.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use polder_format::Lsn;
use polder_log::AwaitedSync;
use polder_pool::Journal;
use polder_pool::waits::without_waiting;

use super::operation::{Commit, Next, Waiting, has_room, is_forked, merge};
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

    /// Makes all changes of a batch, or none: as [`Store::apply`]. A poll makes it where it waits for nothing
    /// but pages; a large batch (more than 256 changes), and one with updates, whose functions it calls,
    /// is made by a thread of the store's.
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
    pub async fn apply(&self, batch: WriteBatch<'static>) -> Result<(), BatchError> {
        #[cfg(feature = "vector")]
        if batch.around.is_some() {
            return Err(BatchError::ChangesCollections);
        }
        let engine = &self.store.engine;
        let batch = Some(batch);
        let (lsn, durability) =
            Applied { engine, batch, waiting: Waiting::Nothing, pages: 0 }.await?;
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
        let engine = &self.store.engine;
        if is_forked(engine) {
            return Err(StoreError::Forked);
        }
        let theirs = engine.clone();
        let work = move || dispatch!(&theirs, engine => engine.close());
        let job = dispatch!(engine, engine => engine.helpers.readers.begin_surely(work));
        Closing { engine, job: Some(job) }.await
    }
}

/// Up to where the log must be durable for a batch, and whether that is to be waited for.
type Logged = Result<(Lsn, Durability), BatchError>;

/// A batch, which is tried as an operation on one key is (`operation.rs`).
struct Applied<'a> {
    engine: &'a Any<Engines>,
    /// None once a helper has it.
    batch: Option<WriteBatch<'static>>,
    waiting: Waiting<Logged>,
    /// How many pages it has waited for.
    pages: u32,
}

impl Future for Applied<'_> {
    type Output = Logged;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Logged> {
        let this = &mut *self;
        if is_forked(this.engine) {
            return Poll::Ready(Err(StoreError::Forked.into()));
        }
        loop {
            let Poll::Ready(next) = this.waiting.poll(cx) else { return Poll::Pending };
            let may_try = match next {
                Next::Done(result) => return Poll::Ready(result),
                Next::Try => true,
                // The helper meets the error, too.
                Next::HandOver | Next::Fail(_) => false,
            };
            // None: it is polled again though it was ready.
            let Some(batch) = &mut this.batch else { return Poll::Pending };
            let may_try = may_try && batch.may_be_tried();
            if may_try && has_room(this.engine, batch.logged_bytes()) {
                let try_it = || dispatch!(this.engine, engine => apply(engine, batch, &|_| ()));
                match without_waiting(this.pages > 0, try_it) {
                    (Err(BatchError::Store(_)), Some(refused)) => {
                        if this.waiting.wait_for(refused, &mut this.pages, this.engine, cx) {
                            continue;
                        }
                    }
                    (result, refused) => {
                        if refused.is_some() && result.is_ok() {
                            tidy(this.engine, batch);
                        }
                        return Poll::Ready(result);
                    }
                }
            }
            if let Some(mut batch) = this.batch.take() {
                let theirs = this.engine.clone();
                let work = move || dispatch!(&theirs, engine => apply(engine, &mut batch, &|_| ()));
                let helpers = dispatch!(this.engine, engine => &engine.helpers);
                this.waiting = Waiting::Helper(helpers.writers.begin(work));
            }
        }
    }
}

impl Drop for Applied<'_> {
    fn drop(&mut self) {
        if is_forked(self.engine) {
            self.waiting.leave_forked();
        }
    }
}

/// A batch that was made has left leaves that are almost empty, which nobody has merged (`WAIT-2`).
#[cold]
fn tidy(engine: &Any<Engines>, batch: &WriteBatch<'_>) {
    let removed: Vec<_> =
        batch.removed().map(|(table, key)| (table.clone(), key.to_vec())).collect();
    let work = move || {
        removed.iter().for_each(|(table, key)| dispatch!(table, table => merge(table, key)));
    };
    dispatch!(engine, engine => engine.helpers.writers.give(Box::new(work)));
}

/// A helper closes the store, even if this is dropped.
struct Closing<'a> {
    engine: &'a Any<Engines>,
    job: Option<Job<Result<(), StoreError>>>,
}

impl Future for Closing<'_> {
    type Output = Result<(), StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if is_forked(self.engine) {
            return Poll::Ready(Err(StoreError::Forked));
        }
        self.job.as_mut().map_or(Poll::Pending, |job| job.poll(cx.waker()))
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if is_forked(self.engine) {
            std::mem::forget(self.job.take());
        }
    }
}
