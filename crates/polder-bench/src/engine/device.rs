//! The raw device as an engine: each lookup is one direct read of 4 KiB at a random place.
//!
//! This is the yardstick of a store that is larger than its memory: it reads by `pread` on a file
//! opened with `O_DIRECT`, one read at a time in each thread, as `fio --rw=randread --direct=1
//! --ioengine=psync --bs=4k --numjobs=THREADS` does. The file is written in full beforehand, since
//! ranges that were only allocated are answered without the device. A page begins with its number;
//! every read checks it. The value handed back is computed from the key.
//!
//! There is no fallback to buffered reads: they would measure the page cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Access, DeviceStats, Engine, EngineError, EngineKind, Session, Setup};
use crate::random::{Random, reduce};
use crate::records::{self, Key};
use crate::sorted::SortedRecords;

/// Bytes of a read.
pub const PAGE_BYTES: usize = 4096;

/// Pages of a write while the file is made: 1 MiB.
const PAGES_PER_WRITE: usize = 256;

/// Beside key and value, a record in a file of default size takes so many bytes.
const OVERHEAD_BYTES: u64 = 16;

/// The engine `device`.
pub const KIND: EngineKind = EngineKind {
    name: "device",
    about: "the raw device: each lookup is one direct random read of 4 KiB (no data of its own)",
    lookups_only: true,
    create: |setup| Ok(Box::new(Device::create(setup)?)),
};

/// A page at an address that direct I/O accepts.
#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

struct Device {
    file: File,
    pages: u64,
    value_size: usize,
    reads: AtomicU64,
}

impl Device {
    fn create(setup: &Setup<'_>) -> io::Result<Device> {
        let about_the_store = setup.data_bytes + setup.records * OVERHEAD_BYTES;
        let bytes = setup.device_bytes.unwrap_or(about_the_store);
        let pages = bytes.div_ceil(PAGE_BYTES as u64).max(1);
        let path = setup.dir.join("device");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .custom_flags(libc::O_DIRECT)
            .open(&path)
            .map_err(|error| match error.kind() {
                io::ErrorKind::InvalidInput => io::Error::new(
                    io::ErrorKind::Unsupported,
                    format!("{} allows no direct I/O; choose another --dir", path.display()),
                ),
                _ => error,
            })?;
        let device = Device { file, pages, value_size: setup.value_size, reads: AtomicU64::new(0) };
        device.write_all_pages()?;
        Ok(device)
    }

    /// Fills the file: each page begins with its number, the rest is noise.
    fn write_all_pages(&self) -> io::Result<()> {
        let mut noise = Random::new(0, 0);
        let mut pages = vec![Page([0; PAGE_BYTES]); PAGES_PER_WRITE];
        let mut first = 0;
        while first < self.pages {
            let count = (self.pages - first).min(PAGES_PER_WRITE as u64) as usize;
            for (page, number) in pages[..count].iter_mut().zip(first..) {
                for word in page.0.chunks_exact_mut(8) {
                    word.copy_from_slice(&noise.bits().to_le_bytes());
                }
                page.0[..8].copy_from_slice(&number.to_le_bytes());
            }
            self.file.write_all_at(as_bytes(&pages[..count]), first * PAGE_BYTES as u64)?;
            first += count as u64;
        }
        self.file.sync_all()
    }
}

/// Pages that follow each other, as bytes.
fn as_bytes(pages: &[Page]) -> &[u8] {
    // SAFETY: a Page is exactly an array of PAGE_BYTES bytes (repr(C), size equal to alignment),
    // so a slice of pages is that many initialised bytes without gaps.
    unsafe { std::slice::from_raw_parts(pages.as_ptr().cast(), pages.len() * PAGE_BYTES) }
}

impl Engine for Device {
    fn session(&self, _: Access) -> Result<Box<dyn Session + '_>, EngineError> {
        Ok(Box::new(Reader { device: self, page: Box::new(Page([0; PAGE_BYTES])) }))
    }

    fn bulk_load(&self, _: &mut SortedRecords) -> Result<(), EngineError> {
        Err(only_lookups())
    }

    fn device_stats(&self) -> Option<DeviceStats> {
        Some(DeviceStats { reads: self.reads.load(Ordering::Relaxed), writes: 0 })
    }
}

struct Reader<'a> {
    device: &'a Device,
    page: Box<Page>,
}

impl Session for Reader<'_> {
    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
        let number = reduce(u64::from_be_bytes(*key), self.device.pages);
        self.device.file.read_exact_at(&mut self.page.0, number * PAGE_BYTES as u64)?;
        self.device.reads.fetch_add(1, Ordering::Relaxed);
        if self.page.0[..8] != number.to_le_bytes() {
            return Err(format!("page {number} of the file was changed by somebody else").into());
        }
        value.resize(self.device.value_size, 0);
        records::fill(*key, 0, value);
        Ok(true)
    }

    fn put(&mut self, _: &Key, _: &[u8]) -> Result<(), EngineError> {
        Err(only_lookups())
    }

    fn modify(&mut self, _: &Key, _: &mut dyn FnMut(&mut [u8])) -> Result<bool, EngineError> {
        Err(only_lookups())
    }

    fn scan(
        &mut self,
        _: &Key,
        _: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), EngineError> {
        Err(only_lookups())
    }
}

fn only_lookups() -> EngineError {
    "the raw device knows lookups only".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_reads_one_page_and_sees_a_changed_one() {
        let dir = tempfile::tempdir().unwrap();
        let setup = Setup {
            dir: dir.path(),
            prefault: false,
            cache_bytes: 0,
            records: 1000,
            value_size: 100,
            data_bytes: 108_000,
            device_bytes: None,
        };
        let device = match Device::create(&setup) {
            Ok(device) => device,
            Err(error) => {
                eprintln!("skipped, no direct I/O here: {error}");
                return;
            }
        };
        assert_eq!(device.file.metadata().unwrap().len(), device.pages * PAGE_BYTES as u64);
        let mut session = device.session(Access::Read).unwrap();
        let mut value = Vec::new();
        for record in 0..100 {
            let key = records::key(record);
            assert!(session.get(&key, &mut value).unwrap());
            assert!(records::is_value_of(key, &value, 100));
        }
        assert_eq!(device.device_stats().unwrap().reads, 100);

        let other = OpenOptions::new().write(true).open(dir.path().join("device")).unwrap();
        other.write_all_at(&vec![0xff; device.pages as usize * PAGE_BYTES], 0).unwrap();
        other.sync_all().unwrap();
        assert!(session.get(&records::key(1), &mut value).is_err());
    }
}
