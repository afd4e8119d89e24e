//! Records in the order of their keys, without keeping the keys in memory.
//!
//! Keys are scrambled, so their order has to be made. It is made once, before anything is timed,
//! into a file that a bulk load then reads from front to back; the memory of a benchmark remains
//! that of its engine. The file is made in passes: each goes over all records and keeps those
//! whose keys lie in its part of the key space, which costs about a nanosecond a record and pass.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::records::{KEY_BYTES, Key, Value, first_value, scramble};

/// Keys that a pass keeps in memory, roughly: 4 MiB.
const KEYS_PER_PASS: u64 = 512 * 1024;

/// A file of sorted keys.
#[derive(Debug)]
pub(crate) struct SortedKeys {
    path: PathBuf,
    records: u64,
}

impl SortedKeys {
    /// The keys of the first `records` records, in a file of this name, which is made if it is
    /// not there yet.
    pub(crate) fn prepare(
        path: &Path,
        records: u64,
        interrupt: &Interrupt,
    ) -> Result<SortedKeys, BenchError> {
        let bytes = records * KEY_BYTES as u64;
        if !fs::metadata(path).is_ok_and(|file| file.len() == bytes) {
            write_sorted(path, records, interrupt).map_err(BenchError::file(path))?;
            interrupt.check()?;
        }
        Ok(SortedKeys { path: path.to_owned(), records })
    }

    /// The records, from the first key on.
    pub(crate) fn records(
        &self,
        value_size: usize,
        interrupt: &Interrupt,
    ) -> Result<SortedRecords, BenchError> {
        let file = File::open(&self.path).map_err(BenchError::file(&self.path))?;
        Ok(SortedRecords {
            keys: BufReader::with_capacity(1 << 16, file),
            path: self.path.clone(),
            left: self.records,
            value_size,
            interrupt: interrupt.clone(),
            failure: None,
        })
    }
}

/// Writes all keys in order; leaves the file short where it was interrupted.
fn write_sorted(path: &Path, records: u64, interrupt: &Interrupt) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let passes = records.div_ceil(KEYS_PER_PASS).max(1);
    let part = (u64::MAX / passes).saturating_add(1);
    let mut keys = Vec::new();
    for pass in 0..passes {
        if interrupt.is_set() {
            return Ok(());
        }
        let lowest = pass * part;
        keys.clear();
        keys.extend((0..records).map(scramble).filter(|key| key.wrapping_sub(lowest) < part));
        keys.sort_unstable();
        for key in &keys {
            file.write_all(&key.to_be_bytes())?;
        }
    }
    file.flush()
}

/// All records in the order of their keys, for [`crate::engine::Engine::bulk_load`].
///
/// Ends early when the run is interrupted or the file of keys cannot be read; the benchmark
/// notices that by itself.
#[derive(Debug)]
pub struct SortedRecords {
    keys: BufReader<File>,
    path: PathBuf,
    left: u64,
    value_size: usize,
    interrupt: Interrupt,
    failure: Option<io::Error>,
}

impl SortedRecords {
    /// Bytes of each value.
    pub fn value_size(&self) -> usize {
        self.value_size
    }

    /// Whether all records were handed out, or why not.
    pub(crate) fn finish(self) -> Result<(), BenchError> {
        self.interrupt.check()?;
        self.failure.map_or(Ok(()), Err).map_err(BenchError::file(&self.path))?;
        match self.left {
            0 => Ok(()),
            left => Err(BenchError::Wrong(format!("the engine did not take {left} records"))),
        }
    }
}

impl Iterator for SortedRecords {
    type Item = (Key, Value);

    fn next(&mut self) -> Option<(Key, Value)> {
        if self.left == 0 || (self.left.is_multiple_of(1024) && self.interrupt.is_set()) {
            return None;
        }
        let mut key = [0; KEY_BYTES];
        if let Err(error) = self.keys.read_exact(&mut key) {
            self.failure.get_or_insert(error);
            return None;
        }
        self.left -= 1;
        Some((key, first_value(key, self.value_size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records;

    #[test]
    fn all_keys_come_once_and_in_order() {
        let dir = tempfile::tempdir().unwrap();
        for count in [0, 1, 1000, KEYS_PER_PASS * 2 + 17] {
            let path = dir.path().join("keys");
            let sorted = SortedKeys::prepare(&path, count, &Interrupt::silent()).unwrap();
            let mut records = sorted.records(20, &Interrupt::silent()).unwrap();
            let (mut last, mut found) = (None, 0);
            for (key, value) in &mut records {
                assert!(last < Some(key));
                assert!(records::record_of(key) < count);
                assert!(records::is_value_of(key, value.as_ref(), 20));
                last = Some(key);
                found += 1;
            }
            assert_eq!(found, count);
            records.finish().unwrap();
        }
    }

    #[test]
    fn a_load_that_stops_early_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let sorted =
            SortedKeys::prepare(&dir.path().join("keys"), 10, &Interrupt::silent()).unwrap();
        let mut records = sorted.records(20, &Interrupt::silent()).unwrap();
        records.next();
        assert!(records.finish().is_err());
    }
}
