//! Doing again what the log tells: R6 to R8.

use std::collections::HashMap;

use polder_format::PageId;
use polder_pool::{Pool, PoolError, Translation};

use super::catalogue::redo_catalogue;
use super::found::Found;
use super::halves::Halves;
use super::maps::redo_maps;
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

/// What a recovery did.
#[derive(Debug, Clone, Default)]
pub struct Recovered {
    /// Bytes of the log that were read.
    pub log_bytes: u64,
    /// Groups of records in them that change something.
    pub groups: u64,
    /// Records that were done again.
    pub redone: u64,
    /// Pages that were torn and have been restored.
    pub restored_pages: u64,
    /// What lay behind the end of the log: a write that was cut short, which nobody was promised;
    /// or something that cannot be told from it. None if the store had been closed.
    pub cut_short: Option<String>,
}

/// R6: redoes what the log tells of the maps.
///
/// # Errors
/// Damage that the log cannot mend, and those of reading.
pub fn recover_maps<T: Translation>(
    file: &LogFile,
    found: &Found,
    pool: &Pool<T>,
    recovered: &mut Recovered,
) -> Result<(), LogError> {
    recovered.redone += redo_maps(file, found, pool)?;
    Ok(pool.redo_maps_done(found.next_space, found.maps.is_some())?)
}

/// R7 and R8 for the pages of the catalogue alone, which can be read then, before other pages are
/// changed.
///
/// # Errors
/// Damage that the log cannot mend, and those of reading.
pub fn recover_catalogue<T: Translation>(
    file: &LogFile,
    found: &Found,
    pool: &Pool<T>,
    recovered: &mut Recovered,
) -> Result<(), LogError> {
    let halves = Halves::default();
    let redoing = redo_catalogue(file, found, pool, &halves)?;
    recovered.redone += redoing.redone;
    check_suspects(pool, redoing.suspects)
}

/// R7 and R8: redoes what the log tells of all other pages. Those of the catalogue may have been done.
///
/// # Errors
/// Damage that the log cannot mend, and those of reading.
pub fn recover_pages<T: Translation>(
    file: &LogFile,
    found: &Found,
    pool: &Pool<T>,
    recovered: &mut Recovered,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), LogError> {
    let total = 2 * (found.end.0 - found.start.0);
    let half = total / 2;
    let (suspects, redone) = redo_pages(file, found, pool, &mut |done| {
        progress(Progress { done: half + done, total });
    })?;
    recovered.redone += redone;
    check_suspects(pool, suspects)
}

/// Suspects that are left are damage, if they are in use.
fn check_suspects<T: Translation>(
    pool: &Pool<T>,
    suspects: HashMap<PageId, PoolError>,
) -> Result<(), LogError> {
    for (page, error) in suspects {
        if pool.is_in_use(page)? {
            return Err(error.into());
        }
    }
    Ok(())
}
