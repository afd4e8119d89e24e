//! The log as the pool sees it.

#![cfg(not(loom))]

use polder_format::log::Group;
use polder_format::{Lsn, PageId};
use polder_pool::journal::{Journal, Outgoing, SharedError};

use crate::log::Log;

impl Journal for Log {
    fn permit(&self, bytes: u64) -> Result<(), SharedError> {
        self.take_permit(bytes)
    }

    fn keep_pace(&self, bytes: u64) {
        if let Some(pause) = self.pace.pause_at(|| self.tail_at(), bytes) {
            std::thread::sleep(pause);
        }
    }

    fn give_back(&self, bytes: u64) {
        self.tail.give_back(bytes);
    }

    fn append(&self, group: &mut Group, permitted: u64) -> Lsn {
        self.append_permitted(group, permitted)
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
        self.double.placed(ticket, failed);
    }

    fn is_trusted(&self, page: PageId) -> bool {
        !self.failure.is_set() || self.double.is_synced(page)
    }
}
