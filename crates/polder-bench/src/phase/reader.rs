//! Checks what comes back from an engine, so that a wrong answer fails the benchmark.

use crate::error::BenchError;
use crate::records::{self, Key};

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
    wrong: Option<BenchError>,
}

impl ScanReader {
    /// For a scan from `start` over records of such values, numbered below `records`.
    pub(super) fn new(start: u64, value_size: usize, records: u64) -> ScanReader {
        let value = Vec::with_capacity(value_size);
        ScanReader { least: start, first: None, count: 0, value, value_size, records, wrong: None }
    }

    /// Takes the next entry; false if it is wrong.
    #[inline]
    pub(super) fn take(&mut self, key: &[u8], value: &[u8]) -> bool {
        let wrong = self.check(key, value).err();
        let is_right = wrong.is_none();
        self.wrong = self.wrong.take().or(wrong);
        is_right
    }

    #[inline]
    fn check(&mut self, key: &[u8], value: &[u8]) -> Result<(), BenchError> {
        let bytes = Key::try_from(key).map_err(|_| wrong_key(key))?;
        let key = u64::from_be_bytes(bytes);
        if key < self.least || (self.count > 0 && key == self.least) {
            return Err(wrong_key(&bytes));
        }
        self.least = key;
        self.first.get_or_insert(key);
        self.value.clear();
        self.value.extend_from_slice(value);
        if self.count.is_multiple_of(READS_PER_CHECK) {
            if records::record_of(bytes) >= self.records {
                return Err(wrong_key(&bytes));
            }
            check_value(bytes, &self.value, self.value_size)?;
        }
        self.count += 1;
        Ok(())
    }

    /// How many entries there were, if none was wrong.
    pub(super) fn finish(self) -> Result<u64, BenchError> {
        self.wrong.map_or(Ok(self.count), Err)
    }
}

/// Whether the value belongs to the key.
pub(super) fn check_value(key: Key, value: &[u8], len: usize) -> Result<(), BenchError> {
    if records::is_value_of(key, value, len) { Ok(()) } else { Err(wrong_value(key)) }
}

/// It does not.
pub(super) fn wrong_value(key: Key) -> BenchError {
    let key = u64::from_be_bytes(key);
    BenchError::Wrong(format!("the entry with key {key:016x} came back with wrong bytes"))
}

fn wrong_key(key: &[u8]) -> BenchError {
    let why = "which is out of order or was never inserted";
    BenchError::Wrong(format!("a scan gave the key {}, {why}", key.escape_ascii()))
}
