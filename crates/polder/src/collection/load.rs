//! Inserting many vectors, by many threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use polder_pool::lock;
use polder_vector::VectorBuf;

use super::Collection;
use crate::durability::Durability;
use crate::error::StoreError;

/// Rows that are read ahead.
const AHEAD: usize = 64;

/// What came of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Loaded {
    /// Vectors that were inserted.
    pub inserted: u64,
    /// Keys that were there already.
    pub passed_over: u64,
    /// Whether it was stopped before it was done.
    pub stopped: bool,
}

/// A row that is to be inserted, and which one it is.
type Job<K, P> = (usize, K, VectorBuf, P);

impl Collection {
    /// Inserts many vectors, each with its key and its payload, by so many threads. Each one is there as
    /// soon as it is inserted; when this returns, all are durable, if the handle's writes are to be
    /// ([`Collection::with_durability`]).
    ///
    /// A key that is there is passed over: a load that was stopped, or whose process died, goes on when it
    /// is made again. `progress` is told how many are done, and stops it by returning false.
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
    /// # Errors
    /// [`StoreError::Key`] with the number of the first row that could not be inserted, and why; those
    /// before it are there, and few behind it. [`StoreError::NotDurable`], and [`StoreError::Nested`].
    pub fn load<K: AsRef<[u8]> + Send, P: AsRef<[u8]> + Send>(
        &self,
        rows: impl IntoIterator<Item = (K, VectorBuf, P)>,
        threads: usize,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Loaded, StoreError> {
        // Other threads write for this one, which must be one that may.
        self.store().check_may_change()?;
        let work = Work::new(self.with_durability(Durability::None));
        let (jobs, taken) = sync_channel::<Job<K, P>>(AHEAD);
        let taken = Arc::new(Mutex::new(taken));
        let mut stopped = false;
        thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                let (work, taken) = (&work, Arc::clone(&taken));
                scope.spawn(move || work.run(&taken));
            }
            // Who sends hears when nobody takes any more.
            drop(taken);
            for (number, (key, vector, payload)) in rows.into_iter().enumerate() {
                stopped = !progress(work.done());
                if stopped {
                    work.is_over.store(true, Relaxed);
                }
                let is_over = work.is_over.load(Relaxed);
                if is_over || jobs.send((number, key, vector, payload)).is_err() {
                    break;
                }
            }
            drop(jobs);
        });
        progress(work.done());
        let flushed = match self.durability {
            Durability::Sync => self.store().flush(),
            _ => Ok(()),
        };
        let failed = work.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((index, source)) = failed {
            return Err(StoreError::Key { index, source: Box::new(source) });
        }
        flushed?;
        let (inserted, passed_over) = (work.inserted.into_inner(), work.passed_over.into_inner());
        Ok(Loaded { inserted, passed_over, stopped })
    }
}

/// What the threads of a load share.
struct Work {
    to: Collection,
    inserted: AtomicU64,
    passed_over: AtomicU64,
    /// Nothing more is to be inserted.
    is_over: AtomicBool,
    /// The first row that could not be inserted, and why.
    failed: Mutex<Option<(usize, StoreError)>>,
}

impl Work {
    fn new(to: Collection) -> Work {
        let (inserted, passed_over, is_over, failed) = Default::default();
        Work { to, inserted, passed_over, is_over, failed }
    }

    fn done(&self) -> u64 {
        self.inserted.load(Relaxed) + self.passed_over.load(Relaxed)
    }

    /// Inserts what it takes, until there is no more.
    fn run<K: AsRef<[u8]>, P: AsRef<[u8]>>(&self, jobs: &Mutex<Receiver<Job<K, P>>>) {
        loop {
            let job = lock(jobs).recv();
            let Ok((number, key, vector, payload)) = job else { return };
            if self.is_over.load(Relaxed) {
                continue;
            }
            let (key, payload) = (key.as_ref(), payload.as_ref());
            match self.to.insert_new(key, vector.view(), payload) {
                Ok(true) => self.inserted.fetch_add(1, Relaxed),
                Ok(false) => self.passed_over.fetch_add(1, Relaxed),
                Err(error) => {
                    self.is_over.store(true, Relaxed);
                    let mut failed = lock(&self.failed);
                    if failed.as_ref().is_none_or(|(first, _)| number < *first) {
                        *failed = Some((number, error));
                    }
                    continue;
                }
            };
        }
    }
}
