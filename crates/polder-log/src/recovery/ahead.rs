//! R7: the pages of the records that come next are read together, so that a thread that redoes them has
//! many reads under way. Pages whose first record there is an image of them, or makes them of another
//! one, are not read at all. What cannot be read is met when its record is redone (R8).

use std::collections::HashSet;

use polder_format::log::{Operation, Record};
use polder_format::{Lsn, PageId};
use polder_pool::Translation;

use super::redoing::Redoing;

/// Records at whose pages a thread looks at a time.
const RECORDS: usize = 128;

/// Up to which record of a deal the pages have been read.
#[derive(Default)]
pub(super) struct Ahead {
    end: usize,
    seen: HashSet<PageId>,
}

impl Ahead {
    /// Before record number `next` of these is redone, which lie at offsets in `bytes`.
    pub(super) fn reach<T: Translation>(
        &mut self,
        redoing: &mut Redoing<'_, T>,
        (bytes, records): (&[u8], &[(u32, Lsn)]),
        next: usize,
    ) {
        if next < self.end {
            return;
        }
        self.end = records.len().min(next + RECORDS);
        self.seen.clear();
        let mut pages = Vec::new();
        for (at, _) in &records[next..self.end] {
            let record = Record::decode(&bytes[*at as usize..]);
            if let Ok(Record { page, operation, .. }) = record
                && self.seen.insert(page)
                && !matches!(
                    operation,
                    Operation::FullPageImage { .. } | Operation::RightHalf { .. }
                )
            {
                pages.push(page);
            }
        }
        redoing.load(&mut pages);
    }
}
