//! Trees of records with 8-byte keys and 120-byte values, as the papers have them, in memory or in
//! a file that several runs read.
//!
//! Keys are spread evenly over all numbers, each at a random place in its own share. So they are
//! sorted as they are made, whatever their number, and those of later records are greater.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use polder_format::{PageNo, PageSize, Place, SpaceId};
use polder_pool::device::OpenKind;
use polder_pool::{AccessHint, Array, FileState, Pool, Translation};
use polder_tree::node::NodeRef;
use polder_tree::{KINDS, Tree};
use serde::{Deserialize, Serialize};

use super::clock::drive;
use super::setup::{NEW_FILE, Setup, open};
use crate::dist::{Chooser, Dist};
use crate::error::BenchError;
use crate::records::{Key, Value, scramble};

/// Size of pages.
pub(crate) const PAGE: PageSize = PageSize::MIN;
/// Bytes of a value.
const VALUE_BYTES: usize = 120;
/// YCSB's exponent.
pub(crate) const THETA: f64 = 0.99;
/// Records that surely fit into a full leaf, for estimates.
const RECORDS_A_LEAF: u64 = 25;
/// Budget of the pool by which a file is made.
const MAKING_BUDGET: u64 = 256 << 20;
/// Longer than it takes.
const AN_HOUR: f64 = 3600.0;
/// Reads of the device at once when leaves are loaded.
const TOUCHING_THREADS: usize = 8;
/// Lookups between two looks at the clock.
const TURN: u64 = 64;

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
        Value::first_of(key, VALUE_BYTES)
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

/// A tree of `keys` in a pool in which it stays.
pub(crate) fn resident<T: Translation>(
    setup: &Setup<'_>,
    keys: Keys,
) -> Result<(Pool<T>, Tree<T>), BenchError> {
    (setup.tell)("loading");
    let pages = keys.records / RECORDS_A_LEAF;
    let pool = setup.resident_pool::<T>(PAGE, pages, &KINDS)?;
    let tree = Tree::create(pool.create_space()?)?;
    load(&tree, keys, setup)?;
    Ok((pool, tree))
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

/// Turns of reads in the first `among` records: [`drive`](super::clock::drive)'s worker.
pub(crate) fn reader<T: Translation>(
    setup: &Setup<'_>,
    tree: &Tree<T>,
    keys: Keys,
    dist: Dist,
    among: u64,
    thread: usize,
) -> impl FnMut() -> Result<u64, BenchError> {
    let (tree, mut random) = (tree.clone(), setup.random(thread));
    let mut chooser = Chooser::new(dist, THETA, among);
    move || {
        let mut sum = 0u64;
        for _ in 0..TURN {
            let record = chooser.record(&mut random, among);
            sum = sum.wrapping_add(read(&tree, keys, record)?);
        }
        std::hint::black_box(sum);
        Ok(TURN)
    }
}

/// Loads the leaves of these records, many at once, so that none is missing only because chance has
/// not asked for it yet.
pub(crate) fn touch<T: Translation>(
    setup: &Setup<'_>,
    tree: &Tree<T>,
    keys: Keys,
    records: Range<u64>,
) -> Result<(), BenchError> {
    let next = AtomicU64::new(records.start);
    drive(TOUCHING_THREADS, AN_HOUR, setup.interrupt, |_| {
        let next = &next;
        let end = records.end;
        move || {
            let record = next.fetch_add(RECORDS_A_LEAF, Relaxed);
            if record >= end {
                return Ok(0);
            }
            read(tree, keys, record)?;
            Ok(1)
        }
    })?;
    Ok(())
}

/// The pages from the root to the leaf that covers a record's key, and what `look` says of each
/// before it is gone to. By steps of our own, since a lookup does not tell.
pub(crate) fn way<T: Translation, R>(
    tree: &Tree<T>,
    key: &Key,
    look: impl Fn(PageNo) -> R,
) -> Result<Vec<R>, BenchError> {
    let space = tree.space();
    let mut seen = Vec::new();
    let mut page = PageNo::new(1);
    while let Some(number) = page {
        seen.push(look(number));
        page = space.run(AccessHint::Normal, |attempt| {
            let guard = space.page(attempt, number)?;
            let node = NodeRef::new(guard.page());
            let link = (!node.is_leaf()).then(|| guard.page().u64(node.child_at(key)));
            guard.validate()?;
            Ok(link.map(|link| polder_format::PageId::from_link(link).page()))
        })?;
    }
    Ok(seen)
}

/// A tree in a file that was made once and that several runs read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Stored {
    path: PathBuf,
    space_directory: u64,
    next_space: u32,
    file_pages: u64,
    space: u32,
    pub(crate) records: u64,
    /// Bytes of pages in use.
    pub(crate) bytes: u64,
}

impl Stored {
    /// The tree of so many records, made now if no run before has made it.
    pub(crate) fn find(setup: &Setup<'_>, records: u64) -> Result<Stored, BenchError> {
        let path = setup.shared.join(format!("{records}.data"));
        let note = setup.shared.join(format!("{records}.json"));
        if let Ok(text) = fs::read_to_string(&note)
            && let Ok(stored) = serde_json::from_str(&text)
        {
            return Ok(stored);
        }
        // What an earlier run did not finish.
        let _ = fs::remove_file(&path);
        (setup.tell)("making a file of records");
        let stored = Stored::make(setup, path, records)?;
        let text =
            serde_json::to_string(&stored).map_err(|e| BenchError::Options(e.to_string()))?;
        fs::write(&note, text).map_err(BenchError::file(&note))?;
        Ok(stored)
    }

    fn make(setup: &Setup<'_>, path: PathBuf, records: u64) -> Result<Stored, BenchError> {
        let config = setup.config(PAGE, MAKING_BUDGET, NEW_FILE);
        let pool: Pool<Array> = open(&path, OpenKind::Create, &config, &KINDS)?;
        let tree = Tree::create(pool.create_space()?)?;
        load(&tree, Keys::new(records), setup)?;
        pool.flush()?;
        let FileState { space_directory, next_space, file_pages } = pool.file_state();
        Ok(Stored {
            path,
            space_directory: space_directory.get(),
            next_space: next_space.get(),
            file_pages,
            space: tree.space().id().get(),
            records,
            bytes: tree.space().pages_in_use()? * PAGE.bytes() as u64,
        })
    }

    /// Opens it by a pool of this budget; nothing is written.
    pub(crate) fn open<T: Translation>(
        &self,
        setup: &Setup<'_>,
        budget: u64,
    ) -> Result<(Pool<T>, Tree<T>), BenchError> {
        self.open_at(setup, budget, &self.path, OpenKind::ReadOnly)
    }

    /// Opens a copy of it that this run may write to.
    pub(crate) fn open_copy<T: Translation>(
        &self,
        setup: &Setup<'_>,
        budget: u64,
    ) -> Result<(Pool<T>, Tree<T>), BenchError> {
        let copy = setup.dir.join("copy");
        fs::copy(&self.path, &copy).map_err(BenchError::file(&copy))?;
        self.open_at(setup, budget, &copy, OpenKind::Existing)
    }

    fn open_at<T: Translation>(
        &self,
        setup: &Setup<'_>,
        budget: u64,
        path: &Path,
        kind: OpenKind,
    ) -> Result<(Pool<T>, Tree<T>), BenchError> {
        let file = FileState {
            space_directory: Place::new(self.space_directory),
            next_space: space_id(self.next_space)?,
            file_pages: self.file_pages,
        };
        let pool: Pool<T> = open(path, kind, &setup.config(PAGE, budget, file), &KINDS)?;
        let tree = Tree::open(pool.open_space(space_id(self.space)?)?);
        Ok((pool, tree))
    }
}

fn space_id(id: u32) -> Result<SpaceId, BenchError> {
    let no = || BenchError::Options(format!("the note beside a file names no space {id}"));
    SpaceId::new(u64::from(id)).ok_or_else(no)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_ascend_also_behind_the_last_record() {
        for records in [1, 2, 1000, 50_000_000] {
            let keys = Keys::new(records);
            let first = (0..1000.min(2 * records - 1)).collect::<Vec<_>>();
            let last = (2 * records - 1).saturating_sub(1000)..2 * records - 1;
            for record in first.into_iter().chain(last) {
                assert!(keys.key(record) < keys.key(record + 1), "{record} of {records}");
            }
        }
    }
}
