//! The log goes on: that of a new store, or one whose end was found (R4, R5 and R10).

use std::sync::Arc;

use polder_format::log::{Group, LOG_BLOCK_BYTES, Operation};
use polder_format::{Lsn, PageId, PageSize};
use polder_pool::device::Device;

use super::found::Found;
use super::recover::Recovered;
use super::second_copies::SlotsFound;
use super::torn_pages::restore_torn;
use crate::error::LogError;
use crate::file::{FIRST_LSN, LogFile, LogOptions};
use crate::log::{Beginning, Log};
use crate::tally::Tally;

impl Found {
    /// R4 and R5, and opens the log behind its end. Redoing follows, when there is a pool, and begins
    /// with [`recover_maps`](super::recover_maps). `incarnation` was never used before.
    ///
    /// # Errors
    /// Those of the devices.
    pub fn open(
        &self,
        file: LogFile,
        data: Arc<dyn Device>,
        page_size: PageSize,
        options: LogOptions,
        incarnation: u32,
        recovered: &mut Recovered,
    ) -> Result<Arc<Log>, LogError> {
        let slots = SlotsFound::read(&file).map_err(LogError::io("read"))?;
        let next_slot = slots.next_sequence;
        if self.end > self.start {
            file.device.sync().map_err(LogError::io("sync"))?; // R4
            let copies = slots.copies(&file, page_size).map_err(LogError::io("read"))?;
            recovered.restored_pages =
                restore_torn(&copies, &*data, page_size, self.start..self.end)?;
        }
        recovered.log_bytes = self.end.0 - self.start.0;
        recovered.groups = self.groups;
        recovered.cut_short = self.behind.as_ref().map(ToString::to_string);
        let tail = Lsn(self.end.0.next_multiple_of(LOG_BLOCK_BYTES as u64));
        let (start, tally) = (self.start, self.tally.clone());
        let beginning = Beginning { start, tail, incarnation, tally, next_slot };
        Log::begin(file.device, data, file.segments, page_size, options, beginning)
    }
}

impl LogFile {
    /// The log of a new store, ready to be appended to.
    ///
    /// # Errors
    /// If the system has no memory to give.
    pub fn begin(
        self,
        data: Arc<dyn Device>,
        page_size: PageSize,
        options: LogOptions,
        incarnation: u32,
    ) -> Result<Arc<Log>, LogError> {
        let beginning = Beginning {
            start: FIRST_LSN,
            tail: FIRST_LSN,
            incarnation,
            tally: Tally::default(),
            next_slot: 1,
        };
        Log::begin(self.device, data, self.segments, page_size, options, beginning)
    }

    /// The same file once more, to read from while the log is open.
    ///
    /// # Errors
    /// Those of the device.
    pub fn again(&self) -> Result<LogFile, LogError> {
        LogFile::open(Arc::clone(&self.device), self.segments.header().store_id)
    }
}

/// What the end-of-recovery record takes, with the rest of a block in front of it and behind it.
const OWN_BYTES: u64 = 2 * LOG_BLOCK_BYTES as u64;

impl Log {
    /// R10: the end-of-recovery record: the first group of a new incarnation, which knows where the
    /// last one ended.
    ///
    /// # Errors
    /// What made the log unusable; that its device is full, after so many openings without a
    /// checkpoint that nothing is left of what was spared for them.
    pub fn end_recovery(&self, end: Lsn) -> Result<(), LogError> {
        let mut group = Group::new();
        group.push(PageId::NULL, &Operation::EndOfRecovery { end });
        let lsn = if self.make_room_for_own(OWN_BYTES) {
            Ok(self.append_own(&mut group))
        } else {
            Err(self.no_room_for_own("be opened"))
        };
        let durable = lsn.and_then(|lsn| self.await_sync(lsn));
        durable.map_err(|source| LogError::Io { what: "write", source })
    }
}
