//! How a log is made and kept.

#![cfg(not(loom))]

use polder_format::PageSize;

/// How a log is made and kept.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// Bytes that the log may take on the device.
    pub limit: u64,
    /// Bytes of memory for groups that are not written yet: a power of two.
    pub buffer_bytes: u64,
}

impl LogOptions {
    /// The least limit in bytes.
    pub const LEAST_LIMIT: u64 = 4 << 20;

    /// A buffer that suits a memory budget.
    pub fn buffer_for(memory_budget: u64, page_size: PageSize) -> u64 {
        let least = (256 << 10).max(16 * page_size.bytes() as u64);
        (memory_budget / 64).clamp(least, 4 << 20).next_power_of_two()
    }

    /// Bytes of a segment of a new log.
    pub(crate) fn segment_bytes(&self) -> u64 {
        (self.limit / 128).clamp(256 << 10, 16 << 20).next_power_of_two()
    }
}
