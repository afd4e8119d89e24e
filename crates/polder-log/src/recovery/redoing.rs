//! Records are applied to their pages. R8: pages that could not be read, or did not fit their
//! records; a full-page image in the log may make them whole yet.
//!
//! A page that was freed in the log may lack earlier changes on the device (it was discarded
//! before a sweep came by), so that records before the freeing do not fit. It is suspect then, and
//! free in the end, or its next image makes it whole.

use std::collections::HashMap;

use polder_format::log::{Operation, Record};
use polder_format::{Lsn, PageId};
use polder_pool::{Pool, PoolError, Redo, Redone, Translation};

use super::halves::Halves;

/// Records page by page, those of one page in the order in which they came.
pub(super) fn sorted_by_page<'a, 'r>(records: &'a mut [Record<'r>]) -> &'a [Record<'r>] {
    records.sort_by_key(|record| record.page);
    records
}

/// The pages of one thread: all, or those that are dealt to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// Number of the thread.
    pub(super) worker: usize,
    pub(super) workers: usize,
}

impl Share {
    pub(super) const ALL: Share = Share { worker: 0, workers: 1 };

    fn has(self, page: PageId) -> bool {
        worker_of(page, self.workers) == self.worker
    }
}

/// To which of so many threads a page is dealt.
pub(super) fn worker_of(page: PageId, workers: usize) -> usize {
    (page.to_bits().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize % workers
}

/// What redoes records, and what has come of it.
pub(super) struct Redoing<'p, T: Translation> {
    redo: Redo<'p, T>,
    share: Share,
    halves: &'p Halves,
    /// R8: their records are skipped.
    pub(super) suspects: HashMap<PageId, PoolError>,
    /// Records that were done.
    pub(super) redone: u64,
}

impl<'p, T: Translation> Redoing<'p, T> {
    pub(super) fn new(pool: &'p Pool<T>, share: Share, halves: &'p Halves) -> Redoing<'p, T> {
        Redoing { redo: pool.redoing(), share, halves, suspects: HashMap::new(), redone: 0 }
    }

    /// Reads pages that will be needed, many at once.
    pub(super) fn load(&mut self, pages: &mut [PageId]) {
        pages.sort_unstable();
        self.redo.load(pages);
    }

    /// The records of one group, which ends at `end`: those of one page one behind the other. Of pages that
    /// are not this thread's only what it has to make of its own.
    pub(super) fn redo(&mut self, end: Lsn, records: &[Record<'_>]) -> Result<(), PoolError> {
        for record in records {
            self.make_half(end, record)?;
        }
        // HALF-3
        for waits in [false, true] {
            for of_page in records.chunk_by(|a, b| a.page == b.page) {
                if self.share.has(of_page[0].page) && is_half(&of_page[0]) == waits {
                    self.redo_page(end, of_page)?;
                }
            }
        }
        Ok(())
    }

    /// Makes what a record takes from a page of this thread.
    fn make_half(&mut self, end: Lsn, record: &Record<'_>) -> Result<(), PoolError> {
        let Operation::RightHalf { left, .. } = record.operation else { return Ok(()) };
        let left = PageId::from_link(left);
        if self.share.has(left) {
            let half = match self.suspects.contains_key(&left) {
                true => None,
                false => self.redo.right_half(left, end, &record.operation)?,
            };
            self.halves.hand(record.page, end, half);
        }
        Ok(())
    }

    /// The records of one group for one page. (A group that makes a page a right half has nothing else of
    /// it.)
    fn redo_page(&mut self, end: Lsn, records: &[Record<'_>]) -> Result<(), PoolError> {
        let page = records[0].page;
        let half = is_half(&records[0]).then(|| self.halves.take(page, end)).flatten();
        let is_image = matches!(records[0].operation, Operation::FullPageImage { .. });
        if !self.suspects.is_empty() {
            if is_image || half.is_some() {
                self.suspects.remove(&page);
            } else if self.suspects.contains_key(&page) {
                return Ok(());
            }
        }
        // Records that only count belong to the page's table and not to the page.
        let concerns_page = |record: &&Record<'_>| {
            !matches!(record.operation, Operation::Loaded { .. } | Operation::Freed)
        };
        let several: Vec<Operation<'_>>;
        let operations = match (&half, records) {
            (Some(half), [_]) => {
                let (size, low) = (half.bytes().len() as u32, half.bytes());
                several = vec![Operation::FullPageImage { size, low, high: &[] }];
                &several
            }
            (_, [record]) if concerns_page(&record) => std::slice::from_ref(&record.operation),
            _ => {
                let about_page = records.iter().filter(concerns_page);
                several = about_page.map(|record| record.operation.clone()).collect();
                &several
            }
        };
        if operations.is_empty() {
            return Ok(());
        }
        match self.redo.redo(page, end, operations)? {
            Redone::Applied => self.redone += operations.len() as u64,
            Redone::Known | Redone::Absent => {}
            Redone::Suspect(error) => drop(self.suspects.insert(page, error)),
        }
        Ok(())
    }
}

fn is_half(record: &Record<'_>) -> bool {
    matches!(record.operation, Operation::RightHalf { .. })
}
