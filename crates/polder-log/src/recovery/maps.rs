//! R6: the pool's own maps, in the order of the log.
//!
//! The page number in such a page's id is its physical page number. So records of pages that are
//! freed later in the log are left out: other pages may lie there by the end of it. What the final
//! maps name and a record says was backed by the file is backed again. Pages of space 0 that no
//! map leads to leave memory.

use polder_format::log::{Operation, Records};
use polder_format::{FormatError, Lsn, SpaceId};
use polder_pool::{Pool, Translation};

use super::found::Found;
use super::halves::Halves;
use super::redoing::{Redoing, Share};
use crate::error::LogError;
use crate::file::LogFile;

/// R6. Gives how many records were done.
pub(super) fn redo_maps<T: Translation>(
    file: &LogFile,
    found: &Found,
    pool: &Pool<T>,
) -> Result<u64, LogError> {
    let Some((first, last)) = found.maps else { return Ok(0) };
    let halves = Halves::default();
    let mut redoing = Redoing::new(pool, Share::ALL, &halves);
    let mut backed = Vec::new();
    file.visit_again(found, (first, Lsn(last.0 + 1)), &mut |header, bytes| {
        let mut records = Vec::new();
        for record in Records::of_group(bytes) {
            let record = record.map_err(|source| broken(file, header.lsn, source))?;
            // Also where the page was freed later: its content lives on in the page that it moved
            // to.
            if record.page.space() == SpaceId::FILE && !record.page.is_null() {
                match record.operation {
                    Operation::Patch { backed: pages @ 1.., bytes, .. } => {
                        backed.push((word_of(bytes), u64::from(pages)));
                    }
                    Operation::FullPageImage { .. } => backed.push((record.page.page().get(), 1)),
                    _ => {}
                }
            }
            match record.operation {
                Operation::Directory { physical } => pool.redo_directory(physical),
                Operation::Freed => {}
                _ if record.page.space() != SpaceId::FILE || record.page.is_null() => {}
                // Where a page lay that was freed later, another page may lie by the end of the
                // log.
                _ if found.freed.get(&record.page).is_some_and(|freed| *freed >= header.lsn) => {}
                _ => records.push(record),
            }
        }
        Ok(redoing.redo(header.end(), &records)?)
    })?;
    pool.redo_backing(&backed)?;
    for (page, error) in redoing.suspects {
        if !found.freed.contains_key(&page) && pool.is_in_use(page)? {
            return Err(error.into());
        }
    }
    Ok(redoing.redone)
}

fn word_of(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn broken(file: &LogFile, lsn: Lsn, source: FormatError) -> LogError {
    LogError::Record { lsn, offset: file.offset(lsn), source }
}
