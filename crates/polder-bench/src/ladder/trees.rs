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

use polder_format::{PageId, PageNo, PageSize, PhysicalPageNo, SpaceId};
use polder_pool::device::OpenKind;
use polder_pool::{AccessHint, Array, FileState, Pool, PoolConfig, TierConfig, Translation};
use polder_tree::node::NodeRef;
use polder_tree::{KINDS, Tree};
use serde::{Deserialize, Serialize};

use super::clock::drive_all;
use super::setup::{Setup, Streams, made_once, open};
use crate::dist::{Chooser, Dist, YCSB_THETA};
use crate::error::BenchError;
use crate::random::Random;
use crate::records::{Key, Value, scramble};

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
    let leaves = keys.records.div_ceil(RECORDS_A_LEAF);
    let pages = leaves + leaves / LEAVES_AN_INNER_NODE;
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

/// Which of the first `among` records one thread asks for.
fn asked(mut chooser: Chooser, among: u64, mut random: Random) -> impl FnMut() -> u64 {
    move || chooser.record(&mut random, among)
}

/// Turns of reads in the first `among` records: [`drive`](super::clock::drive)'s worker.
pub(crate) fn reader<T: Translation>(
    streams: &Streams,
    tree: &Tree<T>,
    keys: Keys,
    dist: Dist,
    among: u64,
) -> impl FnMut() -> Result<u64, BenchError> + use<T> {
    reader_of(streams, tree, keys, Chooser::new(dist, YCSB_THETA, among), among)
}

/// The same of records that `chooser` draws.
pub(crate) fn reader_of<T: Translation>(
    streams: &Streams,
    tree: &Tree<T>,
    keys: Keys,
    chooser: Chooser,
    among: u64,
) -> impl FnMut() -> Result<u64, BenchError> + use<T> {
    let (tree, mut asked) = (tree.clone(), asked(chooser, among, streams.next()));
    move || {
        let mut sum = 0u64;
        for _ in 0..TURN {
            sum = sum.wrapping_add(read(&tree, keys, asked())?);
        }
        std::hint::black_box(sum);
        Ok(TURN)
    }
}

/// Loads the leaves of these records, at least one, many at once, so that none is missing only
/// because chance has not asked for it yet.
pub(crate) fn touch<T: Translation>(
    setup: &Setup<'_>,
    tree: &Tree<T>,
    keys: Keys,
    records: Range<u64>,
) -> Result<(), BenchError> {
    let (next, behind) = (AtomicU64::new(records.start), records.end + STRIDE);
    let reads = (behind - records.start).div_ceil(STRIDE);
    drive_all(TOUCHING_THREADS, reads, setup.interrupt, |_| {
        let next = &next;
        let end = records.end;
        move || {
            let record = next.fetch_add(STRIDE, Relaxed);
            if record >= behind {
                return Ok(0);
            }
            // The last leaf may have fewer.
            read(tree, keys, record.min(end - 1))?;
            Ok(1)
        }
    })?;
    Ok(())
}

/// The pages from the root to the leaf that covers a record's key, and what `look` says of each
/// before it is gone to. By steps of our own, since a lookup does not tell.
pub(crate) fn path_to_leaf<T: Translation, R>(
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
            Ok(link.map(|link| PageId::from_link(link).page()))
        })?;
    }
    Ok(seen)
}

/// How many nodes of a tree are no leaves.
fn inner_nodes<T: Translation>(tree: &Tree<T>) -> Result<u64, BenchError> {
    let space = tree.space();
    let (mut count, mut pages) = (0, vec![PageNo::new(1).unwrap_or(PageNo::MAX)]);
    while let Some(page) = pages.pop() {
        let (level, links) = space.run(AccessHint::Normal, |attempt| {
            let guard = space.page(attempt, page)?;
            let node = NodeRef::new(guard.page());
            let links: Vec<u64> = match node.level() {
                0 | 1 => Vec::new(),
                _ => (0..=node.count()).map(|index| node.link(index)).collect(),
            };
            let level = node.level();
            guard.validate()?;
            Ok((level, links))
        })?;
        count += u64::from(level > 0);
        pages.extend(links.into_iter().map(|link| PageId::from_link(link).page()));
    }
    Ok(count)
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
    /// Pages of the first tree that are no leaves.
    pub(crate) inner_nodes: u64,
}

impl Stored {
    /// The tree of so many records, made now if no run before has made it.
    ///
    /// The run that makes it gives all memory back that this took, and goes on with what the others
    /// begin with. Reads pass by the kernel's cache where the file system permits it; where it does
    /// not, later runs find the file there as this one does.
    pub(crate) fn find(setup: &Setup<'_>, records: u64) -> Result<Stored, BenchError> {
        Stored::find_trees(setup, &[records])
    }

    /// The same of trees of so many records each.
    pub(crate) fn find_trees(setup: &Setup<'_>, records: &[u64]) -> Result<Stored, BenchError> {
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
        let mut trees = Vec::new();
        let mut bytes = 0;
        for &records in records {
            let tree = Tree::create(pool.create_space()?)?;
            load(&tree, Keys::new(records), setup)?;
            bytes += tree.space().pages_in_use()? * PAGE.bytes() as u64;
            trees.push(tree);
        }
        pool.flush()?;
        let FileState { space_directory, next_space, file_pages } = pool.file_state();
        Ok(Stored {
            path,
            space_directory: space_directory.get(),
            next_space: next_space.get(),
            file_pages,
            spaces: trees.iter().map(|tree| tree.space().id().get()).collect(),
            records: records.first().copied().unwrap_or(0),
            bytes,
            inner_nodes: trees.first().map_or(Ok(0), inner_nodes)?,
        })
    }

    /// Opens it by a pool of this budget, with its first tree; nothing is written.
    pub(crate) fn open<T: Translation>(
        &self,
        setup: &Setup<'_>,
        budget: u64,
    ) -> Result<(Pool<T>, Tree<T>), BenchError> {
        let config = setup.config(PAGE, budget, FileState::NEW);
        self.open_at(config, &self.path, OpenKind::ReadOnly)
    }

    /// The same with memory in tiers, of which the budget is the first.
    pub(crate) fn open_in<T: Translation>(
        &self,
        setup: &Setup<'_>,
        budget: u64,
        tiers: TierConfig,
    ) -> Result<(Pool<T>, Tree<T>), BenchError> {
        let config = PoolConfig { tiers, ..setup.config(PAGE, budget, FileState::NEW) };
        self.open_at(config, &self.path, OpenKind::ReadOnly)
    }

    /// Opens a copy of it that this run may write to.
    pub(crate) fn open_copy<T: Translation>(
        &self,
        setup: &Setup<'_>,
        budget: u64,
    ) -> Result<(Pool<T>, Tree<T>), BenchError> {
        let copy = setup.dir.join("copy");
        fs::copy(&self.path, &copy).map_err(BenchError::file(&copy))?;
        self.open_at(setup.config(PAGE, budget, FileState::NEW), &copy, OpenKind::Existing)
    }

    fn open_at<T: Translation>(
        &self,
        config: PoolConfig,
        path: &Path,
        kind: OpenKind,
    ) -> Result<(Pool<T>, Tree<T>), BenchError> {
        let file = FileState {
            space_directory: PhysicalPageNo::new(self.space_directory),
            next_space: space_id(self.next_space)?,
            file_pages: self.file_pages,
        };
        let pool: Pool<T> = open(path, kind, &PoolConfig { file, ..config }, &KINDS)?;
        let tree = self.tree(&pool, 0)?;
        Ok((pool, tree))
    }

    /// One of its trees, in the order in which they were made.
    pub(crate) fn tree<T: Translation>(
        &self,
        pool: &Pool<T>,
        index: usize,
    ) -> Result<Tree<T>, BenchError> {
        let id = self.spaces.get(index).copied().unwrap_or(0);
        Ok(Tree::open(pool.open_space(space_id(id)?)?))
    }
}

fn space_id(id: u32) -> Result<SpaceId, BenchError> {
    let no = || BenchError::Options(format!("the note beside a file names no space {id}"));
    SpaceId::new(u64::from(id)).ok_or_else(no)
}

#[cfg(test)]
mod tests;
