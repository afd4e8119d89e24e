//! The superblocks of a data file: reading, making and writing them.

use std::io;
use std::path::Path;

use polder_format::log::{LOG_BLOCK_BYTES, LogHeader};
use polder_format::{
    FormatError, Lsn, PageSize, PhysicalPageNo, SUPERBLOCK_AREA_BYTES, SUPERBLOCK_BYTES, SpaceId,
};
use polder_format::{StoreId, Superblock, choose};
use polder_log::LogTells;
use polder_pool::device::{Device, read_block, write_block};

use crate::error::OpenError;

/// The superblock of a new store, which is not in the file yet.
pub(crate) fn new_superblock(
    page_size: PageSize,
    budget: u64,
    log_limit: u64,
) -> io::Result<Superblock> {
    Ok(Superblock {
        store_id: StoreId(random_id()?),
        generation: 0,
        compatible: 0,
        page_size,
        clean: false,
        space_directory: PhysicalPageNo::NONE,
        next_space: SpaceId::CATALOGUE,
        next_version: 1,
        file_pages: SUPERBLOCK_AREA_BYTES >> page_size.shift(),
        default_budget: budget,
        redo_start: Lsn(0),
        checkpoint: Lsn(0),
        durable: Lsn(0),
        incarnation: 1,
        log_limit,
    })
}

fn random_id() -> io::Result<[u8; 16]> {
    let mut id = [0; 16];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut id)?;
    Ok(id)
}

/// The superblock that counts, as [`choose`] finds it, and what is wrong with the other one.
pub(crate) fn choose_superblock(
    area: &[u8],
) -> Result<(Superblock, Option<FormatError>), FormatError> {
    choose(area).map_err(|error| match error {
        FormatError::Foreign if area.iter().all(|byte| *byte == 0) => {
            FormatError::Broken("there are only zeros in their place")
        }
        error => error,
    })
}

/// Reads the superblock that counts, and what is wrong with the other one. `log`: the log beside
/// it, which tells whether that is a store.
pub(crate) fn read_superblock(
    device: &dyn Device,
    log: Option<&dyn Device>,
    path: &Path,
) -> Result<(Superblock, Option<FormatError>), OpenError> {
    let path = || path.to_path_buf();
    let area = match read_block(device, 0, 2 * SUPERBLOCK_BYTES) {
        Ok(area) => area,
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
            let reason = "its data file is too short to hold one".to_string();
            return Err(OpenError::Foreign { path: path(), reason });
        }
        Err(source) => return Err(OpenError::Io { what: "read", path: path(), source }),
    };
    choose_superblock(&area).map_err(|error| match error {
        FormatError::Newer { .. } => OpenError::Newer { path: path(), source: error.into() },
        FormatError::Older { .. } => OpenError::Older { path: path(), source: error.into() },
        FormatError::Foreign | FormatError::Broken(_) if !is_log(log) => {
            let what = match error {
                FormatError::Foreign => "does not begin with Polder's mark",
                _ => "holds only zeros where the superblocks would be",
            };
            let reason = format!(
                "its file `data` {what}, and beside it there is no log of a store (with that back in \
                 its place, `polder salvage` saves what can be read)"
            );
            OpenError::Foreign { path: path(), reason }
        }
        _ => OpenError::Damaged { path: path(), source: error.into() },
    })
}

/// Whether this is the log of a store.
fn is_log(device: Option<&dyn Device>) -> bool {
    let block = device.and_then(|log| read_block(log, 0, LOG_BLOCK_BYTES).ok());
    block.is_some_and(|block| LogHeader::of_any(&block).is_some())
}

/// Writes both superblocks, durably, one after the other: whichever is lost later, the other says
/// the same.
pub(crate) fn write_superblocks(
    device: &dyn Device,
    superblock: &mut Superblock,
) -> io::Result<()> {
    for _ in 0..2 {
        superblock.generation += 1;
        write_block(device, superblock.offset(), &superblock.encode())?;
        device.sync()?;
    }
    Ok(())
}

/// Leaves nothing of a store that could not be made. The log goes last, when the data file is
/// empty for good: beside one that is not it is needed. Devices that fail to sync keep what there
/// is, which is what a crash would leave: a whole store, or the beginning of one.
pub(crate) fn unmake(data: &dyn Device, log: &dyn Device) {
    let emptied = log.sync().and_then(|()| data.truncate(0)).and_then(|()| data.sync());
    // What made it fail is the error to report.
    let _ = emptied.and_then(|()| log.truncate(0));
}

/// What lies where a store may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lies {
    /// No store, or one that was not made to its end: a new one may be made.
    Nothing,
    /// A data file in which something was written, be it a store or not.
    Something,
    /// No data file to speak of, and beside it this.
    Remains(&'static str),
}

/// What lies in the two files of a store, as far as they are there. The superblocks are written
/// last, one after the other, and then the log tells of it. So no store was made where nothing
/// lies in the place of the superblocks, or a torn first one beside one that was never written,
/// and the log knows of none.
pub(crate) fn look(data: Option<&dyn Device>, log: Option<&dyn Device>) -> io::Result<Lies> {
    let tells = || log.map_or(Ok(LogTells::Nothing), polder_log::tells_of_store);
    let Some(data) = data.filter(|data| !matches!(data.is_empty(), Ok(true))) else {
        return Ok(match tells()? {
            LogTells::Nothing | LogTells::Begun => Lies::Nothing,
            LogTells::Unknown => Lies::Remains("a file `log` that cannot be read"),
            LogTells::Made => Lies::Remains("the `log` of a store"),
        });
    };
    let area = match read_block(data, 0, 2 * SUPERBLOCK_BYTES) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(Lies::Something),
        area => area?,
    };
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let never_written = area.chunks(SUPERBLOCK_BYTES).any(is_zero);
    let valid = !matches!(
        choose(&area),
        Err(FormatError::Checksum { .. } | FormatError::Foreign | FormatError::Field { .. })
    );
    if !never_written || valid {
        return Ok(Lies::Something);
    }
    let is_begun = match tells()? {
        LogTells::Made | LogTells::Unknown => false,
        LogTells::Begun => true,
        // Without a log of this store, what is not zero belongs to something else.
        LogTells::Nothing => is_zero(&area) && data.len()? <= SUPERBLOCK_AREA_BYTES,
    };
    Ok(if is_begun { Lies::Nothing } else { Lies::Something })
}

/// Begins to make a store: nothing is left of an earlier attempt, and there is room for the
/// superblocks. What the log tells goes while the data file is empty, which alone says that there
/// is no store; else zeros beside the log of a store that was made would look like a damaged one.
pub(crate) fn clear_for_new(data: &dyn Device, log: &dyn Device) -> io::Result<()> {
    data.truncate(0)?;
    data.sync()?;
    log.truncate(0)?;
    log.sync()?;
    // What else lies before the first page is never used.
    data.allocate(0, 2 * SUPERBLOCK_BYTES as u64)?;
    data.sync()
}
