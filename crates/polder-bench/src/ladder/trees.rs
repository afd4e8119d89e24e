//! Trees of records with 8-byte keys and 120-byte values, as the papers have them, in memory or in
//! a file that several runs read.
//!
//! Keys are spread evenly over all numbers, each at a random place in its own share. So they are
//! sorted as they are made, whatever their number, and those of later records are greater.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use polder_format::{PageSize, PhysicalPageNo, SpaceId};
use polder_pool::device::OpenKind;
use polder_pool::{Array, FileState, Pool, PoolConfig, TierConfig, Translation};
use polder_tree::{KINDS, Tree};
use serde::{Deserialize, Serialize};

use super::clock::{Driven, drive_turns};
use super::setup::{Setup, made_once, open, settle};
use crate::dist::{Chooser, Dist, YCSB_THETA};
use crate::error::BenchError;
use crate::records::{Key, Value, first_value, scramble};

/// Size of pages.
pub(crate) const PAGE: PageSize = PageSize::MIN;
/// Bytes of a value.
const VALUE_BYTES: usize = 120;
/// Records of a full leaf.
const RECORDS_A_LEAF: u64 = 28;
/// Links of a full inner node.
const LEAVES_AN_INNER_NODE: u64 = 240;
/// Records from one leaf to the next, or fewer.
const STRIDE: u64 = 20;
/// Budget of the pool by which a file is made.
const MAKING_BUDGET: u64 = 256 << 20;
/// Reads of the device at once when leaves are loaded.
const TOUCHING_THREADS: usize = 8;
/// Lookups between two looks at the clock, among them a whole number of queries of ten keys.
const TURN: u64 = 80;

/// The keys of so many records, and of as many again that may be inserted behind them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys {
    pub(crate) records: u64,
    share: u64,
}

impl Keys {
    pub(crate) fn new(records: u64) -> Keys {
        Keys { records, share: u64::MAX / (2 * records).max(1) }
    }

    #[inline]
    pub(crate) fn key(self, record: u64) -> Key {
        (record * self.share + scramble(record) % self.share).to_be_bytes()
    }

    pub(crate) fn value(key: Key) -> Value {
        first_value(key, VALUE_BYTES)
    }
}

/// Fills an empty tree.
fn load<T: Translation>(tree: &Tree<T>, keys: Keys, setup: &Setup<'_>) -> Result<(), BenchError> {
    // An interrupt cuts the input; the check below then says why it was short.
    let records = (0..keys.records).take_while(|_| !setup.interrupt.is_set());
    let entries = records.map(|record| {
        let key = keys.key(record);
        (key, Keys::value(key))
    });
    tree.bulk_load(entries, || 0)?;
    setup.interrupt.check()
}

/// Reads a record, which must be there. Gives a word of its value, so that it is really read.
#[inline]
pub(crate) fn read<T: Translation>(
    tree: &Tree<T>,
    keys: Keys,
    record: u64,
) -> Result<u64, BenchError> {
    let first = |value: &[u8]| value.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    tree.get_with(&keys.key(record), first)?.ok_or(BenchError::Missing { record })
}

/// A tree of records in a pool: what a run asks for.
pub(crate) struct Subject<'a, T: Translation> {
    pub(crate) setup: &'a Setup<'a>,
    pub(crate) tree: Tree<T>,
    pub(crate) pool: Pool<T>,
    pub(crate) keys: Keys,
}

impl<'a, T: Translation> Subject<'a, T> {
    /// A tree of so many records in a pool in which it stays.
    pub(crate) fn resident(
        setup: &'a Setup<'a>,
        records: u64,
    ) -> Result<Subject<'a, T>, BenchError> {
        (setup.tell)("loading");
        let leaves = records.div_ceil(RECORDS_A_LEAF);
        let pages = leaves + leaves / LEAVES_AN_INNER_NODE;
        let pool = setup.resident_pool::<T>(PAGE, pages, &KINDS)?;
        let (tree, keys) = (Tree::create(pool.create_space()?)?, Keys::new(records));
        load(&tree, keys, setup)?;
        Ok(Subject { setup, tree, pool, keys })
    }

    /// Turns of reads of all records: [`drive`](super::clock::drive)'s worker.
    pub(crate) fn reader(&self, dist: Dist) -> impl FnMut() -> Result<u64, BenchError> + use<T> {
        self.reader_among(self.keys.records, dist, YCSB_THETA)
    }

    /// The same of the first records alone, and by any exponent.
    pub(crate) fn reader_among(
        &self,
        records: u64,
        dist: Dist,
        theta: f64,
    ) -> impl FnMut() -> Result<u64, BenchError> + use<T> {
        let (tree, keys, mut random) = (self.tree.clone(), self.keys, self.setup.streams.next());
        let mut chooser = Chooser::new(dist, theta, records);
        move || {
            let mut sum = 0u64;
            for _ in 0..TURN {
                let record = chooser.record(&mut random, records);
                sum = sum.wrapping_add(read(&tree, keys, record)?);
            }
            std::hint::black_box(sum);
            Ok(TURN)
        }
    }

    /// Reads of all records by so many threads, for as long as a measurement takes.
    pub(crate) fn lookups(&self, threads: usize, dist: Dist) -> Result<Driven, BenchError> {
        self.setup.drive(threads, |_| self.reader(dist))
    }

    /// [`Setup::drive`], and for how many pages each operation had to wait.
    pub(crate) fn drive<W>(
        &self,
        threads: usize,
        worker: impl Fn(usize) -> W + Sync,
    ) -> Result<(Driven, f64), BenchError>
    where
        W: FnMut() -> Result<u64, BenchError>,
    {
        let before = self.pool.stats().faults;
        let driven = self.setup.drive(threads, worker)?;
        let faults = self.pool.stats().faults - before;
        Ok((driven, driven.an_op(faults as f64)))
    }

    /// Reads until hardly any moves a page to the frame that it prefers.
    pub(crate) fn settle(&self, dist: Dist) -> Result<(), BenchError> {
        settle(&self.pool, || self.lookups(1, dist).map(|_| ()))
    }

    /// Loads the leaves of the first records, at least one, many at once, so that none is missing
    /// only because chance has not asked for it yet.
    pub(crate) fn touch(&self, records: u64) -> Result<(), BenchError> {
        let (next, last) = (&AtomicU64::new(0), records.saturating_sub(1));
        drive_turns(TOUCHING_THREADS, last.div_ceil(STRIDE) + 1, self.setup.interrupt, |_| {
            || {
                // The last leaf may have fewer.
                let record = next.fetch_add(STRIDE, Relaxed).min(last);
                read(&self.tree, self.keys, record).map(|_| ())
            }
        })
    }

    /// Adds a record behind the others.
    pub(crate) fn insert(&self, record: u64) -> Result<(), BenchError> {
        let key = self.keys.key(record);
        self.tree.insert(&key, Keys::value(key).as_ref(), 0)?;
        Ok(())
    }
}

/// How many bytes of leaves so many records fill.
pub(crate) fn bytes_of(records: u64) -> u64 {
    records.div_ceil(RECORDS_A_LEAF) * PAGE.bytes() as u64
}

/// How many records fill so many bytes of leaves.
pub(crate) fn records_of(bytes: u64) -> u64 {
    (bytes * RECORDS_A_LEAF / PAGE.bytes() as u64).max(1)
}

/// A tree, or several, in a file that was made once and that several runs read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Stored {
    path: PathBuf,
    space_directory: u64,
    next_space: u32,
    file_pages: u64,
    /// Of each tree.
    spaces: Vec<u32>,
    /// Of the first tree.
    pub(crate) records: u64,
    /// Bytes of pages in use, of all trees.
    pub(crate) bytes: u64,
}

impl Stored {
    /// Trees of so many records each, made now if no run before has made them.
    ///
    /// The run that makes them gives all memory back that this took, and goes on with what the
    /// others begin with. Reads pass by the kernel's cache where the file system permits it; where it
    /// does not, later runs find the file there as this one does.
    pub(crate) fn find(setup: &Setup<'_>, records: &[u64]) -> Result<Stored, BenchError> {
        let name = records.iter().map(u64::to_string).collect::<Vec<_>>().join("-");
        let path = setup.shared.join(format!("{name}.data"));
        made_once(&setup.shared.join(format!("{name}.json")), || {
            // What an earlier run did not finish.
            let _ = fs::remove_file(&path);
            (setup.tell)("making a file of records");
            Stored::make(setup, path, records)
        })
    }

    fn make(setup: &Setup<'_>, path: PathBuf, records: &[u64]) -> Result<Stored, BenchError> {
        let config = setup.config(PAGE, MAKING_BUDGET, FileState::NEW);
        let pool: Pool<Array> = open(&path, OpenKind::Create, &config, &KINDS)?;
        let (mut spaces, mut bytes) = (Vec::new(), 0);
        for &records in records {
            let tree = Tree::create(pool.create_space()?)?;
            load(&tree, Keys::new(records), setup)?;
            bytes += tree.space().pages_in_use()? * PAGE.bytes() as u64;
            spaces.push(tree.space().id().get());
        }
        pool.flush()?;
        let FileState { space_directory, next_space, file_pages } = pool.file_state();
        let (space_directory, next_space) = (space_directory.get(), next_space.get());
        let records = records[0];
        Ok(Stored { path, space_directory, next_space, file_pages, spaces, records, bytes })
    }

    /// Opens it by a pool of this budget, with its first tree. Nothing is written.
    pub(crate) fn open<'a, T: Translation>(
        &self,
        setup: &'a Setup<'a>,
        budget: u64,
    ) -> Result<Subject<'a, T>, BenchError> {
        self.open_in(setup, budget, TierConfig::default())
    }

    /// Opens a copy of it that this run may write to.
    pub(crate) fn open_copy<'a, T: Translation>(
        &self,
        setup: &'a Setup<'a>,
        budget: u64,
    ) -> Result<Subject<'a, T>, BenchError> {
        let copy = setup.dir.join("copy");
        fs::copy(&self.path, &copy).map_err(BenchError::file(&copy))?;
        self.open_at(setup, budget, TierConfig::default(), (&copy, OpenKind::Existing))
    }

    /// [`open`](Self::open) with memory in tiers, of which the budget is the first.
    pub(crate) fn open_in<'a, T: Translation>(
        &self,
        setup: &'a Setup<'a>,
        budget: u64,
        tiers: TierConfig,
    ) -> Result<Subject<'a, T>, BenchError> {
        self.open_at(setup, budget, tiers, (&self.path, OpenKind::ReadOnly))
    }

    fn open_at<'a, T: Translation>(
        &self,
        setup: &'a Setup<'a>,
        budget: u64,
        tiers: TierConfig,
        (path, kind): (&Path, OpenKind),
    ) -> Result<Subject<'a, T>, BenchError> {
        let file = FileState {
            space_directory: PhysicalPageNo::new(self.space_directory),
            next_space: space_id(self.next_space)?,
            file_pages: self.file_pages,
        };
        let config = PoolConfig { tiers, ..setup.config(PAGE, budget, file) };
        let pool: Pool<T> = open(path, kind, &config, &KINDS)?;
        let (tree, keys) = (self.tree(&pool, 0)?, Keys::new(self.records));
        Ok(Subject { setup, tree, pool, keys })
    }

    /// One of its trees, in the order in which they were made.
    pub(crate) fn tree<T: Translation>(
        &self,
        pool: &Pool<T>,
        index: usize,
    ) -> Result<Tree<T>, BenchError> {
        Ok(Tree::open(pool.open_space(space_id(self.spaces[index])?)?))
    }
}

fn space_id(id: u32) -> Result<SpaceId, BenchError> {
    let no = || BenchError::Options(format!("the note beside a file names no space {id}"));
    SpaceId::new(u64::from(id)).ok_or_else(no)
}

#[cfg(test)]
mod tests;
