//! The log as the pool sees it.

#![cfg(not(loom))]

use polder_format::log::Group;
use polder_format::{Lsn, PageId};
use polder_pool::journal::{Journal, Outgoing, SharedError};

use crate::log::Log;

impl Journal for Log {
    fn permit(&self, bytes: u64) -> Result<(), SharedError> {
        self.reserve_space(bytes)
    }

    fn keep_pace(&self, bytes: u64) {
        if let Some(pause) = self.throttle.pause_at(|| self.tail_at(), bytes) {
            std::thread::sleep(pause);
        }
    }

    fn give_back(&self, bytes: u64) {
        self.tail.release(bytes);
    }

    fn append(&self, group: &mut Group, reserved: u64) -> Lsn {
        self.append_reserved(group, reserved)
    }

    fn end(&self) -> Lsn {
        Lsn(self.tail_at())
    }

    fn await_durable(&self, lsn: Lsn) -> Result<(), SharedError> {
        self.await_sync(lsn)
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
