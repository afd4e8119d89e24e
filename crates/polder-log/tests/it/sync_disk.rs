//! A disk whose syncs a test decides about.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

use polder_pool::device::{Batch, Device};
use polder_testkit::SimDisk;

pub type SyncBy = dyn Fn(&SimDisk) -> io::Result<()> + Send + Sync;

/// A disk that can be told how to sync.
pub struct SyncDisk {
    disk: SimDisk,
    sync: Mutex<Arc<SyncBy>>,
}

impl SyncDisk {
    pub fn new(disk: &SimDisk) -> Arc<SyncDisk> {
        Arc::new(SyncDisk { disk: disk.clone(), sync: Mutex::new(Arc::new(SimDisk::sync)) })
    }

    pub fn sync_by(&self, sync: impl Fn(&SimDisk) -> io::Result<()> + Send + Sync + 'static) {
        *self.sync.lock().unwrap() = Arc::new(sync);
    }
}

impl fmt::Debug for SyncDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

impl Device for SyncDisk {
    fn perform(&self, batch: Batch) -> Batch {
        self.disk.perform(batch)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.disk.allocate(offset, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.disk.truncate(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.disk.punch(offset, len)
    }

    fn sync(&self) -> io::Result<()> {
        let sync = Arc::clone(&self.sync.lock().unwrap());
        sync(&self.disk)
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }
}
