//! Loading many vectors: by runs (`runs.rs`) where that is faster, else by inserts of many threads.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use polder_pool::lock;
use polder_vector::VectorBuf;

use super::Collection;
use super::runs::{Loaded, Row, Runs};
use crate::durability::Durability;
use crate::error::StoreError;

/// Rows that are read ahead.
const AHEAD: usize = 64;

impl Collection {
    /// Inserts many vectors, each with its key and its payload, by so many threads. When this returns, all are
    /// durable, if the handle's writes are to be ([`Collection::with_durability`]).
    ///
    /// A key that is there is passed over: a load that was stopped, or whose process died, goes on when it
    /// is made again. `progress` is told how many are done, and stops it by returning false.
    ///
    /// Many rows that come into a graph that is steered by codes ([`VamanaOptions`]) and is empty, or not
    /// much larger than they are, are loaded by *runs*, which where the graph is larger than memory takes a
    /// small part of the time, and where there is very little memory finds a little less
    /// (`docs/results.md#collection-load`). How many there are is what the iterator says
    /// ([`Iterator::size_hint`]), or, if that is unknown, what memory has room for. As many rows as there is
    /// memory for are placed at once, and all vectors are linked at the end. That takes a quarter of the store's
    /// memory budget beside it, and about 64 bytes for each vector at most; and of the rows that are placed
    /// `progress` is told a part until they are linked. Until then searches find few of them, and may miss some
    /// of what is inserted otherwise meanwhile, unless they are [exact](crate::Query::exact); keys and rows are
    /// there. Where a load has not come to its end, so it stays until the next one, or [`Collection::relink`],
    /// has; [`Collection::is_linked`] tells. All other rows are inserted one by one, and each is found as soon
    /// as it is.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// # use polder::vector::{ElementKind, HnswOptions, Metric, VectorBuf, VectorShape};
    /// # let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
    /// let points = store.create_collection("points", HnswOptions::new(shape))?;
    /// let row = |i: u32| (i.to_be_bytes(), VectorBuf::from(&[i as f32, (i * i % 17) as f32]), "");
    /// let loaded = points.load((0..500).map(row), 2, &mut |_done| true)?;
    /// assert_eq!((loaded.inserted, points.len()), (500, 500));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`VamanaOptions`]: polder_vector::VamanaOptions
    ///
    /// # Errors
    /// [`StoreError::Key`] with the number of the first row that could not be inserted, and why; those
    /// before it are there, and few behind it. [`StoreError::NotDurable`], and [`StoreError::Nested`]. By
    /// runs, those of writing too; what of a run was inserted then is in no order.
    pub fn load<K: AsRef<[u8]> + Send, P: AsRef<[u8]> + Send>(
        &self,
        rows: impl IntoIterator<Item = (K, VectorBuf, P)>,
        threads: usize,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Loaded, StoreError> {
        // Other threads write for this one, which must be one that may.
        self.store().check_may_change()?;
        let to = self.with_durability(Durability::None);
        let rows = rows.into_iter().enumerate();
        let rows = rows.map(|(number, (key, vector, payload))| (number, key, vector, payload));
        let loaded = to.load_rows(rows, threads, progress);
        let flushed = match self.durability {
            Durability::Sync => self.store().flush(),
            _ => Ok(()),
        };
        let loaded = loaded?;
        flushed?;
        Ok(loaded)
    }

    fn load_rows<K: AsRef<[u8]> + Send, P: AsRef<[u8]> + Send>(
        &self,
        rows: impl Iterator<Item = Row<K, P>>,
        threads: usize,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Loaded, StoreError> {
        let _ = self.labels.settle_once(|| self.settle());
        let mut rows = rows.peekable();
        let loaded = Loaded::default();
        if !self.may_load_runs(rows.size_hint())? {
            return self.load_one_by_one(rows, threads, progress, loaded);
        }
        let shape = self.options()?.shape();
        let mut runs = Runs { to: self, shape, threads, progress, loaded };
        let first = runs.read(&mut rows);
        let count = first.0.len().saturating_add(rows.size_hint().0);
        let are_more = first.1.is_ok() && rows.peek().is_some();
        if !runs.loaded.stopped && !self.loads_runs(count, are_more)? {
            let Runs { progress, loaded, .. } = runs;
            let rows = first.0.into_iter().chain(rows);
            return self.load_one_by_one(rows, threads, progress, loaded);
        }
        runs.load(first, &mut rows)?;
        Ok(runs.loaded)
    }

    /// Inserts rows, each by itself. `loaded` is what came of those before them.
    fn load_one_by_one<K: AsRef<[u8]> + Send, P: AsRef<[u8]> + Send>(
        &self,
        rows: impl Iterator<Item = Row<K, P>>,
        threads: usize,
        progress: &mut dyn FnMut(u64) -> bool,
        loaded: Loaded,
    ) -> Result<Loaded, StoreError> {
        let work = Work::new(self, loaded);
        let (jobs, taken) = sync_channel::<Row<K, P>>(AHEAD);
        let taken = Arc::new(Mutex::new(taken));
        let mut stopped = false;
        thread::scope(|scope| {
            let start = |_: &usize| {
                let (work, taken) = (&work, Arc::clone(&taken));
                let started = thread::Builder::new().spawn_scoped(scope, move || work.run(&taken));
                started.is_ok()
            };
            // Where no thread starts, the others do its part, or this one does all.
            let started = (0..threads.max(1)).take_while(start).count();
            // A thread that sends hears when no other takes any more.
            drop(taken);
            for row in rows {
                stopped = !progress(work.done());
                if stopped {
                    work.is_over.store(true, Release);
                }
                if work.is_over.load(Relaxed) {
                    break;
                }
                if started == 0 {
                    work.insert(row);
                } else if jobs.send(row).is_err() {
                    break;
                }
            }
            drop(jobs);
        });
        progress(work.done());
        let failed = work.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((index, source)) = failed {
            return Err(StoreError::Key { index, source: Box::new(source) });
        }
        let (inserted, passed_over) = (work.inserted.into_inner(), work.passed_over.into_inner());
        Ok(Loaded { inserted, passed_over, stopped })
    }
}

/// What the threads of a load share.
struct Work<'l> {
    to: &'l Collection,
    inserted: AtomicU64,
    passed_over: AtomicU64,
    /// Nothing more is to be inserted.
    is_over: AtomicBool,
    /// The first row that could not be inserted, and why.
    failed: Mutex<Option<(usize, StoreError)>>,
}

impl<'l> Work<'l> {
    fn new(to: &'l Collection, loaded: Loaded) -> Work<'l> {
        let (inserted, passed_over) = (loaded.inserted.into(), loaded.passed_over.into());
        let (is_over, failed) = Default::default();
        Work { to, inserted, passed_over, is_over, failed }
    }

    fn done(&self) -> u64 {
        self.inserted.load(Relaxed) + self.passed_over.load(Relaxed)
    }

    /// Whether a row is not to be inserted any more: all before one that failed are.
    fn is_left_out(&self, number: usize) -> bool {
        lock(&self.failed).as_ref().is_none_or(|(first, _)| *first < number)
    }

    /// Inserts what it takes, until there is no more.
    fn run<K: AsRef<[u8]>, P: AsRef<[u8]>>(&self, jobs: &Mutex<Receiver<Row<K, P>>>) {
        loop {
            let job = lock(jobs).recv();
            let Ok(row) = job else { return };
            self.insert(row);
        }
    }

    fn insert<K: AsRef<[u8]>, P: AsRef<[u8]>>(&self, (number, key, vector, payload): Row<K, P>) {
        if self.is_over.load(Acquire) && self.is_left_out(number) {
            return;
        }
        match self.to.insert_new(key.as_ref(), vector.view(), payload.as_ref()) {
            Ok(true) => _ = self.inserted.fetch_add(1, Relaxed),
            Ok(false) => _ = self.passed_over.fetch_add(1, Relaxed),
            Err(error) => {
                let mut failed = lock(&self.failed);
                if failed.as_ref().is_none_or(|(first, _)| number < *first) {
                    *failed = Some((number, error));
                }
                self.is_over.store(true, Release);
            }
        }
    }
}
