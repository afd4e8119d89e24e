//! R8: pages that could not be read, or did not fit their records. A full-page image in the log may make them whole yet.
//!
//! A page that was freed in the log may lack earlier changes on the device (it was discarded before a
//! sweep came by), so that records before the freeing do not fit. It is suspect then, and free in the
//! end, or its next image makes it whole.

use std::collections::HashMap;

use polder_format::log::{Operation, Record};
use polder_format::{Lsn, PageId};
use polder_pool::{PoolError, Redo, Redone, Translation};

/// R8: pages that could not be read, or did not fit their records.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    pub(super) pages: HashMap<PageId, PoolError>,
}

impl Suspects {
    /// The records of one group for one page. Gives how many were done.
    pub(super) fn redo<T: Translation>(
        &mut self,
        redo: &mut Redo<'_, T>,
        end: Lsn,
        records: &[Record<'_>],
    ) -> Result<u64, PoolError> {
        let Some(page) = records.first().map(|record| record.page) else { return Ok(0) };
        if !self.pages.is_empty() {
            if matches!(records[0].operation, Operation::Image { .. }) {
                self.pages.remove(&page);
            } else if self.pages.contains_key(&page) {
                return Ok(0);
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
            return Ok(0);
        }
        match redo.redo(page, end, operations)? {
            Redone::Applied => Ok(operations.len() as u64),
            Redone::Known | Redone::Absent => Ok(0),
            Redone::Suspect(error) => {
                self.pages.insert(page, error);
                Ok(0)
            }
        }
    }
}
