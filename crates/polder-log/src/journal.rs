//! The log as the pool sees it, and the data file's device: the log must know of each of its syncs.

#![cfg(not(loom))]

use std::io;
use std::sync::Arc;

use polder_format::log::Group;
use polder_format::{Lsn, PageId};
use polder_pool::device::{Batch, Device, RequestQueue, Way};
use polder_pool::journal::{Journal, Outgoing, SharedError};
use polder_pool::waits;

use crate::log::Log;

impl Journal for Log {
    fn reserve(&self, bytes: u64) -> Result<(), SharedError> {
        self.reserve_space(bytes)
    }

    fn throttle(&self, bytes: u64) -> bool {
        let Some(pause) = self.throttle.pause_at(|| self.tail_at(), bytes) else { return true };
        // WAIT-1
        let may_wait = !waits::refuses();
        if may_wait {
            std::thread::sleep(pause);
        }
        may_wait
    }

    fn release(&self, bytes: u64) {
        self.tail.release(bytes);
    }

    fn append(&self, group: &mut Group, reserved: u64) -> Lsn {
        self.append_reserved(group, reserved)
    }

    fn append_keeping(&self, group: &mut Group, reserved: u64, kept: u64) -> Lsn {
        self.append_and_keep(group, reserved, kept)
    }

    fn end(&self) -> Lsn {
        Lsn(self.tail_at())
    }

    fn is_sweeping(&self) -> bool {
        self.sweep.is_under_way()
    }

    fn await_durable(&self, lsn: Lsn) -> Result<(), SharedError> {
        self.await_sync(lsn)
    }

    fn pages_at_once(&self, wanted: usize) -> usize {
        if self.double_write.is_needed() { self.slot_for(wanted) } else { wanted }
    }

    fn before_write(&self, pages: &[Outgoing<'_>]) -> Result<u64, SharedError> {
        self.protect(pages)
    }

    fn after_write(&self, ticket: u64, failed: &[PageId]) {
        self.double_write.placed(ticket, failed);
    }

    fn is_trusted(&self, page: PageId) -> bool {
        !self.failure.is_set() || self.double_write.is_synced(page)
    }
}

/// The device of the data file. Its syncs retire slots of the double-write buffer, and if one fails
/// nothing is durable any more (`LOG-6`).
#[derive(Debug)]
pub struct DataDevice {
    log: Arc<Log>,
}

impl DataDevice {
    /// The device of the data file that `log` was opened with.
    pub fn new(log: &Arc<Log>) -> DataDevice {
        DataDevice { log: Arc::clone(log) }
    }
}

impl Device for DataDevice {
    fn perform(&self, batch: Batch) -> Batch {
        self.log.double_write.data.perform(batch)
    }

    fn queue(&self) -> Box<dyn RequestQueue + '_> {
        self.log.double_write.data.queue()
    }

    fn way(&self) -> Way {
        self.log.double_write.data.way()
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.log.double_write.data.allocate(offset, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.log.double_write.data.truncate(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.log.double_write.data.punch(offset, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.log.sync_data().map_err(|error| io::Error::new(error.kind(), error.to_string()))
    }

    fn atomic_write_bytes(&self) -> u64 {
        self.log.double_write.data.atomic_write_bytes()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.log.double_write.data.free_bytes()
    }

    fn len(&self) -> io::Result<u64> {
        self.log.double_write.data.len()
    }
}
