//! Checks what comes back from an engine, so that a wrong answer fails the benchmark.

use crate::error::BenchError;
use crate::records::{self, KEY_BYTES, Key};

/// Values checked: one of so many reads.
pub(super) const READS_PER_CHECK: u64 = 64;

/// Copies what a scan visits, as a read does, and checks it: order always, values now and then.
pub(super) struct ScanReader {
    least: u64,
    pub(super) first: Option<u64>,
    pub(super) count: u64,
    value: Vec<u8>,
    value_size: usize,
    records: u64,
}

impl ScanReader {
    /// For a scan from `start` over records of such values, numbered below `records`.
    pub(super) fn new(start: u64, value_size: usize, records: u64) -> ScanReader {
        let value = Vec::with_capacity(value_size);
        ScanReader { least: start, first: None, count: 0, value, value_size, records }
    }

    /// The number whose big-endian bytes the key is.
    pub(super) fn key_of(&self, key: &[u8]) -> Result<u64, BenchError> {
        let key = <[u8; KEY_BYTES]>::try_from(key).map_err(|_| BenchError::WrongKey { key: 0 })?;
        Ok(u64::from_be_bytes(key))
    }

    /// The next entry.
    #[inline]
    pub(super) fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), BenchError> {
        let key = self.key_of(key)?;
        if key < self.least || (self.count > 0 && key == self.least) {
            return Err(BenchError::WrongKey { key });
        }
        self.least = key;
        self.first.get_or_insert(key);
        self.value.clear();
        self.value.extend_from_slice(value);
        if self.count.is_multiple_of(READS_PER_CHECK) {
            if records::record_of(key.to_be_bytes()) >= self.records {
                return Err(BenchError::WrongKey { key });
            }
            check_value(key.to_be_bytes(), &self.value, self.value_size)?;
        }
        self.count += 1;
        Ok(())
    }
}

/// Whether the value belongs to the key.
pub(super) fn check_value(key: Key, value: &[u8], len: usize) -> Result<(), BenchError> {
    if records::is_value_of(key, value, len) { Ok(()) } else { Err(wrong_value(key)) }
}

/// It does not.
pub(super) fn wrong_value(key: Key) -> BenchError {
    BenchError::WrongValue { key: u64::from_be_bytes(key) }
}
