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

/// Records page by page, those of one page in the order in which they came.
pub(super) fn sorted_by_page<'a, 'r>(records: &'a mut [Record<'r>]) -> &'a [Record<'r>] {
    records.sort_by_key(|record| record.page);
    records
}

/// What redoes records, and what has come of it.
pub(super) struct Redoing<'p, T: Translation> {
    redo: Redo<'p, T>,
    /// R8: their records are skipped.
    pub(super) suspects: HashMap<PageId, PoolError>,
    /// Records that were done.
    pub(super) redone: u64,
}

impl<'p, T: Translation> Redoing<'p, T> {
    pub(super) fn new(pool: &'p Pool<T>) -> Redoing<'p, T> {
        Redoing { redo: pool.redoing(), suspects: HashMap::new(), redone: 0 }
    }

    /// Reads pages that will be needed, many at once.
    pub(super) fn load(&mut self, pages: &mut [PageId]) {
        pages.sort_unstable();
        self.redo.load(pages);
    }

    /// The records of one group, which ends at `end`: those of one page one behind the other.
    pub(super) fn redo(&mut self, end: Lsn, records: &[Record<'_>]) -> Result<(), PoolError> {
        records
            .chunk_by(|a, b| a.page == b.page)
            .try_for_each(|of_page| self.redo_page(end, of_page))
    }

    /// The records of one group for one page.
    fn redo_page(&mut self, end: Lsn, records: &[Record<'_>]) -> Result<(), PoolError> {
        let page = records[0].page;
        if !self.suspects.is_empty() {
            if matches!(records[0].operation, Operation::FullPageImage { .. }) {
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
        let operations = match records {
            [record] if concerns_page(&record) => std::slice::from_ref(&record.operation),
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
