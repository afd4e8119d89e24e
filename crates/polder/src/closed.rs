//! A store that is not open: its two files as they lie, for reading only.
//!
//! Nothing is recovered and nothing is written. The store's lock is shared meanwhile with others that
//! read.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use polder_format::log::{LOG_BLOCK_BYTES, LogHeader};
use polder_format::{FormatError, SUPERBLOCK_BYTES, StoreId, Superblock};
use polder_log::LogFile;
use polder_pool::device::{Device, read_block};

use crate::directory::ReadOnly;
use crate::error::OpenError;
use crate::file::choose_superblock;

/// Why there is no superblock.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SuperblockFault {
    #[error("there is no data file")]
    NoData,
    #[error("the data file cannot be read: {0}")]
    Device(io::Error),
    #[error(transparent)]
    Format(#[from] FormatError),
}

impl SuperblockFault {
    /// Where the log does not tell more either.
    pub(crate) fn of(self, path: &Path) -> OpenError {
        let path = path.to_path_buf();
        match self {
            SuperblockFault::NoData => {
                OpenError::Remains { path, found: "a file `log` that cannot be read" }
            }
            SuperblockFault::Device(source) => {
                OpenError::Io { what: "read the data file of", path, source }
            }
            SuperblockFault::Format(error) => OpenError::Damaged { path, source: error.into() },
        }
    }
}

/// The files of a store that is not open.
#[derive(Debug)]
pub(crate) struct ClosedStore {
    pub(crate) path: PathBuf,
    /// The data file, if there is one.
    pub(crate) data: Option<Arc<dyn Device>>,
    /// The log file, if there is one.
    pub(crate) log: Option<Arc<dyn Device>>,
    _directory: ReadOnly,
}

impl ClosedStore {
    /// The files in a directory.
    pub(crate) fn open(path: &Path) -> Result<ClosedStore, OpenError> {
        let directory = ReadOnly::lock(path)?;
        let [data, log] = directory.files.clone();
        if data.is_none() && log.is_none() {
            return Err(OpenError::NotFound { path: path.to_path_buf() });
        }
        let [data, log] = [data, log].map(|file| file.map(|file| file as Arc<dyn Device>));
        Ok(ClosedStore { path: path.to_path_buf(), data, log, _directory: directory })
    }

    /// The superblock that counts, or what is wrong with both.
    pub(crate) fn superblock(&self) -> Result<Superblock, SuperblockFault> {
        let data = self.data.as_ref().ok_or(SuperblockFault::NoData)?;
        // One by one: a block that the device cannot read takes the other one not along.
        let blocks =
            [0, SUPERBLOCK_BYTES].map(|at| read_block(&**data, at as u64, SUPERBLOCK_BYTES));
        let blocks = match blocks {
            [Err(error), Err(_)] if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(FormatError::Broken("the data file is too short to hold them").into());
            }
            [Err(error), Err(_)] => return Err(SuperblockFault::Device(error)),
            blocks => blocks.map(|block| block.unwrap_or_else(|_| vec![0; SUPERBLOCK_BYTES])),
        };
        let (superblock, _) = choose_superblock(&blocks.concat())?;
        Ok(superblock)
    }

    /// Whose files these are, as the log says.
    pub(crate) fn store_of_log(&self) -> Option<StoreId> {
        let block = read_block(&**self.log.as_ref()?, 0, LOG_BLOCK_BYTES).ok()?;
        LogHeader::of_any(&block).map(|header| header.store_id)
    }

    /// The log, which should be that of this store.
    pub(crate) fn log_file(&self, store: StoreId) -> Result<LogFile, OpenError> {
        let path = || self.path.clone();
        let device = self.log.clone().ok_or_else(|| OpenError::NoLog { path: path() })?;
        LogFile::open(device, store)
            .map_err(|error| OpenError::Log { path: path(), source: error.into() })
    }
}
