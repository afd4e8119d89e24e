//! What the log's file is given, in bytes, by what for.

#![cfg(not(loom))]

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that were written to the log's file since it was opened ([`Log::written`](crate::Log::written)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WrittenBytes {
    /// Groups of records, with what fills up the last block of a sync.
    pub groups: u64,
    /// Full-page images that were appended: a part of `groups`, once they are written out.
    pub images: u64,
    /// Second copies of pages: the double-write buffer.
    pub slots: u64,
    /// Zeros, by which room in the file is made ready.
    pub zeros: u64,
}

/// The counts. Relaxed throughout: nothing depends on them.
#[derive(Debug, Default)]
pub(crate) struct Written {
    groups: AtomicU64,
    images: AtomicU64,
    slots: AtomicU64,
    zeros: AtomicU64,
}

impl Written {
    pub(crate) fn add_groups(&self, bytes: u64) {
        self.groups.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_images(&self, bytes: u64) {
        self.images.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_slot(&self, bytes: u64) {
        self.slots.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_zeros(&self, bytes: u64) {
        self.zeros.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> WrittenBytes {
        let [groups, images, slots, zeros] = [&self.groups, &self.images, &self.slots, &self.zeros]
            .map(|count| count.load(Ordering::Relaxed));
        WrittenBytes { groups, images, slots, zeros }
    }
}
