//! A log in memory, and what a recovery does with it: to test what a structure logs, and how it
//! redoes that, without a store.

#![cfg(not(loom))]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polder_format::log::{Group, LogSeed, Operation, Record, Records};
use polder_format::{Lsn, PageId, SpaceId};
use polder_pool::bytes::PageBuf;
use polder_pool::journal::{Journal, Outgoing, SharedError};
use polder_pool::{Pool, PoolConfig, PoolError, Redo, Redone, Translation};

use crate::pools::STORE;

/// Where the log begins.
const FIRST_LSN: Lsn = Lsn(4096);

/// The end of a group of records, and its bytes.
pub type LoggedGroup = (Lsn, Vec<u8>);

/// A log in memory, which is durable at once, and is never made shorter.
#[derive(Debug, Default)]
pub struct MemoryLog {
    groups: Mutex<Vec<LoggedGroup>>,
    /// How often it was asked whether a checkpoint sweeps.
    asked: AtomicU64,
    /// One comes up each time that it was asked so often; 0: never.
    sweeps_each: AtomicU64,
}

impl MemoryLog {
    /// All groups so far.
    pub fn groups(&self) -> Vec<LoggedGroup> {
        self.lock().clone()
    }

    /// Has it say that a checkpoint sweeps each time that it is asked so often. 1: it always does; 0, as
    /// at first: it never does. (There is no checkpoint, but who logs does not know.)
    pub fn sweep_each(&self, times: u64) {
        self.sweeps_each.store(times, Ordering::Relaxed);
    }

    /// How many groups there are.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// The configuration with this log as the pool's journal.
    pub fn behind(self: &Arc<MemoryLog>, config: PoolConfig) -> PoolConfig {
        PoolConfig { journal: Some(Arc::clone(self) as Arc<dyn Journal>), ..config }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LoggedGroup>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal for MemoryLog {
    fn reserve(&self, _: u64) -> Result<(), SharedError> {
        Ok(())
    }

    fn release(&self, _: u64) {}

    fn append(&self, group: &mut Group, reserved: u64) -> Lsn {
        assert!(group.len() as u64 <= reserved, "more was logged than was reserved");
        let mut groups = self.lock();
        let start = groups.last().map_or(FIRST_LSN, |(end, _)| *end);
        let bytes = group.seal(LogSeed::new(STORE), start, start, 1).to_vec();
        let end = Lsn(start.0 + bytes.len() as u64);
        groups.push((end, bytes));
        end
    }

    fn append_keeping(&self, group: &mut Group, reserved: u64, kept: u64) -> Lsn {
        self.append(group, reserved - kept)
    }

    fn end(&self) -> Lsn {
        self.lock().last().map_or(FIRST_LSN, |(end, _)| *end)
    }

    fn is_sweeping(&self) -> bool {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let each = self.sweeps_each.load(Ordering::Relaxed);
        each > 0 && asked.is_multiple_of(each)
    }

    fn await_durable(&self, _: Lsn) -> Result<(), SharedError> {
        Ok(())
    }

    fn before_write(&self, _: &[Outgoing<'_>]) -> Result<u64, SharedError> {
        Ok(0)
    }

    fn after_write(&self, _: u64, _: &[PageId]) {}

    fn is_trusted(&self, _: PageId) -> bool {
        true
    }
}

/// What a replay has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Records that were done to their pages.
    pub applied: usize,
    /// Groups whose records did not fit a page, as it was then.
    pub suspects: usize,
    /// Groups about pages that lie nowhere by the end of the log, or whose space is gone.
    pub absent: usize,
}

/// Replays the groups as a recovery does it: the maps first, then all other pages, those of the
/// structures by their kinds. `spaces` are those that the groups tell of.
///
/// # Panics
/// If a page whose records did not fit it is in use in the end, and no full-page image came later.
pub fn replay<T: Translation>(
    pool: &Pool<T>,
    spaces: &[SpaceId],
    groups: &[LoggedGroup],
) -> Replayed {
    let mut replay = Replay { pool, suspects: HashMap::new(), done: Replayed::default() };
    replay.pass(groups, true);
    pool.redo_backing(&backed(groups)).expect("what was backed before has room again");
    for space in spaces {
        pool.redo_maps_done(*space, true).expect("the maps were just redone");
    }
    replay.pass(groups, false);
    for (page, error) in replay.suspects {
        let is_in_use = pool.is_in_use(page).expect("the maps were just redone");
        assert!(!is_in_use, "{page}: {error:?}");
    }
    replay.done
}

/// By how much the records change the number of entries, as the log counts it.
pub fn entries(groups: &[LoggedGroup]) -> i64 {
    groups.iter().flat_map(records).map(|record| record.operation.entries()).sum()
}

fn records((_, bytes): &LoggedGroup) -> impl Iterator<Item = Record<'_>> {
    Records::of_group(bytes).map(|record| record.expect("it was sealed by this log"))
}

struct Replay<'p, T: Translation> {
    pool: &'p Pool<T>,
    /// Pages that their records did not fit, until a full-page image comes.
    suspects: HashMap<PageId, PoolError>,
    done: Replayed,
}

impl<T: Translation> Replay<'_, T> {
    /// What the records of a group make of pages as they were before it.
    fn halves(
        &self,
        redoing: &mut Redo<'_, T>,
        end: Lsn,
        records: &[Record<'_>],
    ) -> HashMap<PageId, PageBuf> {
        let mut halves = HashMap::new();
        for record in records {
            let Operation::RightHalf { left, .. } = record.operation else { continue };
            let half = redoing.right_half(PageId::from_link(left), end, &record.operation);
            if let Some(half) = half.expect("the pool has frames") {
                halves.insert(record.page, half);
            }
        }
        halves
    }

    /// The records of maps, or all others.
    fn pass(&mut self, groups: &[LoggedGroup], maps: bool) {
        let mut redoing = self.pool.redoing();
        for group in groups {
            let mut about: Vec<Record<'_>> = Vec::new();
            for record in records(group) {
                match record.operation {
                    Operation::Directory { physical } if maps => self.pool.redo_directory(physical),
                    Operation::Directory { .. } => {}
                    // It only counts.
                    Operation::Loaded { .. } => {}
                    _ if (record.page.space() == SpaceId::FILE) == maps => about.push(record),
                    _ => {}
                }
            }
            about.sort_by_key(|record| record.page);
            let halves = self.halves(&mut redoing, group.0, &about);
            for of_page in about.chunk_by(|a, b| a.page == b.page) {
                let page = of_page[0].page;
                let mut operations: Vec<_> = of_page.iter().map(|r| r.operation.clone()).collect();
                if let Some(half) = halves.get(&page) {
                    let (size, low) = (half.bytes().len() as u32, half.bytes());
                    operations = vec![Operation::FullPageImage { size, low, high: &[] }];
                }
                let is_image = matches!(operations[0], Operation::FullPageImage { .. });
                if self.suspects.contains_key(&page) && !is_image {
                    continue;
                }
                match redoing.redo(page, group.0, &operations).expect("the pool has frames") {
                    Redone::Suspect(error) => {
                        self.done.suspects += 1;
                        self.suspects.insert(page, error);
                        continue;
                    }
                    Redone::Applied => self.done.applied += operations.len(),
                    Redone::Known => {}
                    Redone::Absent => self.done.absent += 1,
                }
                self.suspects.remove(&page);
            }
        }
    }
}

/// The runs of physical page numbers that the log says were backed.
fn backed(groups: &[LoggedGroup]) -> Vec<(u64, u64)> {
    let of_maps = |record: &Record<'_>| record.page.space() == SpaceId::FILE;
    let run = |record: Record<'_>| match record.operation {
        Operation::Patch { backed: pages @ 1.., bytes, .. } => {
            let first = bytes.try_into().expect("what is backed is told by one word of a map");
            Some((u64::from_le_bytes(first), u64::from(pages)))
        }
        Operation::FullPageImage { .. } => Some((record.page.page().get(), 1)),
        _ => None,
    };
    groups.iter().flat_map(records).filter(of_maps).filter_map(run).collect()
}
