//! A store that is not open: its two files as they lie, for reading only.
//!
//! Nothing is recovered and nothing is written. The store's lock is held meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use polder_format::log::{LOG_BLOCK_BYTES, LogHeader};
use polder_format::{FormatError, SUPERBLOCK_BYTES, StoreId, Superblock, choose};
use polder_log::LogFile;
use polder_pool::device::{Device, read_block};

use crate::directory::{DATA, LOG, Lock, lock_to_read, open_to_read};
use crate::error::OpenError;

/// The files of a store that is not open.
#[derive(Debug)]
pub(crate) struct ClosedStore {
    pub(crate) path: PathBuf,
    /// The data file, if there is one.
    pub(crate) data: Option<Arc<dyn Device>>,
    /// The log file, if there is one.
    pub(crate) log: Option<Arc<dyn Device>>,
    _lock: Option<Lock>,
}

impl ClosedStore {
    /// The files in a directory.
    pub(crate) fn open(path: &Path) -> Result<ClosedStore, OpenError> {
        let lock = lock_to_read(path)?;
        let open = |name| -> Result<Option<Arc<dyn Device>>, OpenError> {
            Ok(open_to_read(path, name)?.map(|device| Arc::new(device) as _))
        };
        let (data, log) = (open(DATA)?, open(LOG)?);
        if data.is_none() && log.is_none() {
            return Err(OpenError::NotFound { path: path.to_path_buf() });
        }
        Ok(ClosedStore { path: path.to_path_buf(), data, log, _lock: lock })
    }

    /// The superblock that counts, or what is wrong with both.
    pub(crate) fn superblock(&self) -> Result<Superblock, FormatError> {
        let missing = FormatError::Broken("the data file cannot be read");
        let data = self.data.as_ref().ok_or(missing)?;
        // One by one: a block that the device cannot read takes the other one not along.
        let mut area = Vec::new();
        for at in [0, SUPERBLOCK_BYTES] {
            let block = read_block(&**data, at as u64, SUPERBLOCK_BYTES);
            area.extend(block.unwrap_or_else(|_| vec![0; SUPERBLOCK_BYTES]));
        }
        choose(&area).map(|(superblock, _)| superblock)
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
        LogFile::open(device, store).map_err(|source| OpenError::Log { path: path(), source })
    }
}
