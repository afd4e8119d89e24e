//! Loading by runs: many vectors at once into an index that has a better way for them than inserts, which is
//! a graph that is steered by codes.
//!
//! ```text
//! 1  as many rows are read as there is memory for: a run. A key that is there, or came before in the run,
//!    is passed over; what can be no row ends the run, and the load behind it
//! 2  each row gets a label, and a record in `pending` (COLL-3), without the bytes of the vector (COLL-5)
//! 3  the index places the vectors, group by group, each by one change
//! 4  behind a group, for each of its vectors: one batch, of its row and key, and its record gone (COLL-4).
//!    Where somebody else has made the key meanwhile, the vector goes, and the row is passed over
//! 5  records of vectors that were not placed go; then 1
//! 6  when all runs are placed, the index links all vectors, in many changes (VAMANA-8)
//! ```
//!
//! It may end anywhere, by a crash, an error, or because it is stopped or the store is closed:
//!
//! | cut off in | what is left | who settles it |
//! |---|---|---|
//! | 2 | records without vectors | the first change, which looks for all of them at once (`settle.rs`) |
//! | 3, 4 | records of the rest of the run; of them, the vectors of one group are in the index | the same; these vectors leave |
//! | 5, 6 | rows, all with their vectors, of which some are not linked | the next load, which links all even if it inserts nothing, or [`Collection::relink`] |
//!
//! Where the process lives on, step 5 is made after an error as well, and a vector that has come and gets no
//! row is taken back, as after inserts.
//!
//! Steps 3 and 6 are long, and only their changes are writes of the store, each by itself: between two of
//! them others close the store, check it, or pause writers. Beside a load rows are inserted, removed and
//! looked for as ever: a key is one row's by step 4, whoever comes first, and a label of a run is nobody
//! else's (COLL-2). Two loads place runs of their own; each links what both have placed, and the one that
//! links last has seen all (VAMANA-8).

use std::collections::{HashMap, HashSet};
use std::iter::Peekable;

use polder_vector::{IndexOptions, Loading, VectorBuf, VectorShape};

use super::Collection;
use super::record::{Pending, Place};
use super::write::New;
use crate::error::StoreError;

/// Bytes that a row takes beside key, payload and vector: in the run, and in the index while it is placed.
const OF_A_ROW: usize = 400;
/// Fewer rows are inserted one after the other.
const FEW: usize = 1024;
/// How much of the work of a row is done when it is placed: the rest is linking.
const PLACED: f64 = 0.25;

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

/// A row, and which one it is.
pub(super) type Row<K, P> = (usize, K, VectorBuf, P);

/// A load by runs.
pub(super) struct Runs<'l> {
    pub(super) to: &'l Collection,
    pub(super) shape: VectorShape,
    pub(super) threads: usize,
    pub(super) progress: &'l mut dyn FnMut(u64) -> bool,
    pub(super) loaded: Loaded,
}

/// The rows of a run, and what is wrong with the one behind them.
type Run<K, P> = (Vec<Row<K, P>>, Result<(), StoreError>);
/// A row whose vector is coming: its number, its key and payload, and the version word of its record.
type Coming<K, P> = (usize, K, P, Option<u64>);

impl Collection {
    /// Whether a load is to read a run, to find out whether it goes by runs: `least` and `most` are how many
    /// rows there are.
    pub(super) fn may_load_runs(
        &self,
        (_, most): (usize, Option<usize>),
    ) -> Result<bool, StoreError> {
        let is_one = matches!(self.options()?, IndexOptions::Vamana(_));
        Ok(is_one && (most.is_none_or(|most| most >= FEW) || self.is_to_complete()?))
    }

    /// Whether as many new rows as this, and more if there are more than memory has room for, are loaded by
    /// runs. As all vectors are linked then, they must be many beside those that are there; if these are to
    /// be linked anyway, any number is.
    pub(super) fn loads_runs(&self, rows: usize, are_more: bool) -> Result<bool, StoreError> {
        let is_many = (rows >= FEW || are_more) && rows as u64 >= self.len() / 2;
        Ok(is_many || self.is_to_complete()?)
    }

    /// Whether a load was cut off, and none is at work.
    fn is_to_complete(&self) -> Result<bool, StoreError> {
        Ok(self.labels.is_idle() && !self.is_linked()?)
    }
}

impl Runs<'_> {
    /// Step 1. What can be no row stays where it is, and is the error.
    pub(super) fn read<K: AsRef<[u8]>, P: AsRef<[u8]>>(
        &mut self,
        rows: &mut Peekable<impl Iterator<Item = Row<K, P>>>,
    ) -> Run<K, P> {
        let (mut run, mut keys, mut bytes) = (Vec::new(), HashSet::new(), 0);
        let most = self.to.bulk_bytes();
        while bytes < most
            && let Some((number, key, vector, payload)) = rows.peek()
        {
            self.loaded.stopped = !self.tell(PLACED);
            if self.loaded.stopped {
                break;
            }
            let (key, payload) = (key.as_ref(), payload.as_ref());
            match self.is_new(key, vector, payload) {
                Ok(true) if !keys.contains(key) => {
                    let of_vector = self.shape.element.bytes(self.shape.dimensions);
                    bytes += OF_A_ROW + 2 * (key.len() + of_vector) + payload.len();
                    keys.insert(key.to_vec());
                    run.extend(rows.next());
                }
                Ok(_) => {
                    self.loaded.passed_over += 1;
                    rows.next();
                }
                Err(source) => return (run, Err(of_row(*number, source))),
            }
        }
        (run, Ok(()))
    }

    fn is_new(&self, key: &[u8], vector: &VectorBuf, payload: &[u8]) -> Result<bool, StoreError> {
        if self.to.contains_key(key)? {
            return Ok(false);
        }
        self.to.check_row(key, payload)?;
        self.to.read(|_| self.shape.check(vector.view()))?;
        Ok(true)
    }

    /// The rest, from a run that was read on.
    pub(super) fn load<K: AsRef<[u8]>, P: AsRef<[u8]>>(
        &mut self,
        (mut run, mut read): Run<K, P>,
        rows: &mut Peekable<impl Iterator<Item = Row<K, P>>>,
    ) -> Result<(), StoreError> {
        let to = self.to;
        let _load = to.labels.begin_load();
        while !run.is_empty() && !self.loaded.stopped {
            self.place(run)?;
            (run, read) = self.read(rows);
        }
        // Also what comes before a row that is none is found.
        let linked = if self.loaded.stopped { Ok(()) } else { self.link() };
        read.and(linked)
    }

    /// Steps 2 to 5.
    fn place<K: AsRef<[u8]>, P: AsRef<[u8]>>(
        &mut self,
        run: Vec<Row<K, P>>,
    ) -> Result<(), StoreError> {
        let mut coming = HashMap::with_capacity(run.len());
        let placed = self.place_coming(run, &mut coming);
        // 5
        for label in coming.keys() {
            let _ = self.to.pending.delete(label.to_be_bytes());
        }
        placed
    }

    /// Steps 2 to 4. Leaves those that were not placed.
    fn place_coming<K: AsRef<[u8]>, P: AsRef<[u8]>>(
        &mut self,
        run: Vec<Row<K, P>>,
        coming: &mut HashMap<u64, Coming<K, P>>,
    ) -> Result<(), StoreError> {
        let (to, threads) = (self.to, self.threads);
        let mut vectors = Vec::with_capacity(run.len());
        // 2
        for (number, key, vector, payload) in run {
            let label = to.labels.give();
            let row = coming.entry(label).insert_entry((number, key, payload, None)).into_mut();
            to.pending.put(label.to_be_bytes(), Pending::Coming(&[]).to_bytes())?;
            row.3 = to.pending.version(label.to_be_bytes())?;
            vectors.push((label, vector));
        }
        // 3
        let tell = &mut |loading: Loading<'_>| {
            if let Loading::Placed(placed) = loading {
                let mut failed = Ok(());
                for (label, node) in placed {
                    let given =
                        self.give(coming.remove(label), Place { label: *label, node: *node });
                    failed = failed.and(given);
                }
                failed?;
            }
            Ok(self.tell(PLACED))
        };
        let is_done = to.in_bulk(threads, tell, |index, bulk| index.place_run(vectors, bulk));
        self.loaded.stopped = !is_done?;
        Ok(())
    }

    /// Step 4.
    fn give<K: AsRef<[u8]>, P: AsRef<[u8]>>(
        &mut self,
        row: Option<Coming<K, P>>,
        place: Place,
    ) -> Result<(), StoreError> {
        let Some((number, key, payload, record)) = row else { return Ok(()) };
        let new = New { place, record };
        match self.to.give_row(key.as_ref(), payload.as_ref(), new) {
            Ok(true) => self.loaded.inserted += 1,
            Ok(false) => self.loaded.passed_over += 1,
            Err(source) => return Err(of_row(number, source)),
        }
        Ok(())
    }

    /// Step 6.
    fn link(&mut self) -> Result<(), StoreError> {
        let (to, threads) = (self.to, self.threads);
        if to.is_linked()? {
            self.tell(1.0);
            return Ok(());
        }
        let tell = &mut |loading: Loading<'_>| match loading {
            Loading::Linked(share) => Ok(self.tell(PLACED + (1.0 - PLACED) * share)),
            _ => Ok(true),
        };
        let is_done = to.in_bulk(threads, tell, |index, bulk| index.relink(bulk))?;
        self.loaded.stopped = !is_done;
        if is_done {
            self.tell(1.0);
        }
        Ok(())
    }

    /// Tells how much is done, where so much is of the rows that were inserted. Whether to go on.
    fn tell(&mut self, share: f64) -> bool {
        let inserted = (self.loaded.inserted as f64 * share) as u64;
        (self.progress)(self.loaded.passed_over + inserted)
    }
}

/// What is wrong with a row.
fn of_row(index: usize, source: StoreError) -> StoreError {
    StoreError::Key { index, source: Box::new(source) }
}
