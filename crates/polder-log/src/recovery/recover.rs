//! Doing again what the log tells: R6 to R8.

use polder_pool::{ApplyRecord, Pool, Translation};

use super::found::Found;
use super::maps::redo_maps;
use super::open::Recovered;
use super::pages::redo_pages;
use crate::error::LogError;
use crate::file::LogFile;

/// How far a recovery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the log that are done; each is looked at twice.
    pub done: u64,
    /// Bytes in all. While the end of the log is looked for this is what was found so far.
    pub total: u64,
}

/// R6 to R8: redoes what the log tells of pages.
///
/// # Errors
/// Damage that the log cannot mend, and those of reading.
pub fn recover<T: Translation>(
    file: &LogFile,
    found: &Found,
    pool: &Pool<T>,
    apply: ApplyRecord,
    recovered: &mut Recovered,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), LogError> {
    let total = 2 * (found.end.0 - found.start.0);
    let half = total / 2;
    redo_maps(file, found, pool, apply, recovered)?;
    pool.redo_maps_done(found.next_space, found.maps.is_some())?;
    let suspects = redo_pages(file, found, pool, apply, recovered, &mut |done| {
        progress(Progress { done: half + done, total });
    })?;
    for (page, error) in suspects {
        if pool.is_in_use(page)? {
            return Err(error.into());
        }
    }
    Ok(())
}
