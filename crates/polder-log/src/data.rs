//! The data file's device, as the pool gets it: the log must know of each sync.

#![cfg(not(loom))]

use std::io;
use std::sync::Arc;

use polder_pool::device::{Batch, Device, Ticket};

use crate::log::Log;

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
    fn submit(&self, batch: Batch) -> Ticket {
        self.log.double_write.data.submit(batch)
    }

    fn complete(&self, ticket: Ticket) -> Batch {
        self.log.double_write.data.complete(ticket)
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

    fn len(&self) -> io::Result<u64> {
        self.log.double_write.data.len()
    }
}
