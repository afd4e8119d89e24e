//! The raw device as an engine: each lookup is one direct read of 4 KiB at a random offset, each
//! commit one direct write of 4 KiB.
//!
//! Lookups are the yardstick of a store that is larger than its memory: they read by `pread` on a
//! file opened with `O_DIRECT`, one read at a time in each thread, as `fio --rw=randread --direct=1
//! --ioengine=psync --bs=4k --numjobs=THREADS` does. A page begins with its number; every read
//! checks it. The value handed back is computed from the key.
//!
//! Commits are the yardstick of durable writes: with `--durability sync`, what a log would cost
//! that writes one page for each commit and never grows. Each overwrites one page, and makes that
//! durable by `fdatasync`; without durability, the write alone. Each thread has a region of the
//! file of its own, and goes through it from front to back, again and again.
//!
//! The file is written in full beforehand: ranges that were only allocated are answered without
//! the device, and a first write to them changes the file system's own data. There is no fallback
//! to the page cache: that would measure the page cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use polder::Durability;
use zerocopy::{Immutable, IntoBytes};

use super::{Access, DeviceStats, Engine, EngineError, EngineKind, Session, Setup};
use crate::bench::Bench;
use crate::conditions::Conditions;
use crate::random::{RngExt, stream};
use crate::records::{self, Key};
use crate::sorted::SortedRecords;

/// Bytes of a read or a write.
pub const PAGE_BYTES: usize = 4096;
/// Pages of a write while the file is made: 1 MiB.
const PAGES_PER_WRITE: usize = 256;
/// Beside key and value, a record takes so many bytes of the file.
const OVERHEAD_BYTES: u64 = 16;
/// Bytes of the file for commits.
const COMMIT_BYTES: u64 = 64 << 20;

/// The engine `device`.
pub const KIND: EngineKind = EngineKind {
    name: "device",
    about: "the raw device: a lookup is one direct read of 4 KiB, a commit one direct write",
    is_bare: true,
    lends: false,
    durability: |durability| match durability {
        Durability::Sync | Durability::None => Ok(()),
        _ => Err("it syncs each write or none"),
    },
    create: |setup| Ok(Box::new(Device::create(setup)?)),
};

/// A page at an address that direct I/O accepts.
#[derive(Clone, IntoBytes, Immutable)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

impl Page {
    fn set_number(&mut self, number: u64) {
        self.0[..8].copy_from_slice(&number.to_le_bytes());
    }
}

struct Device {
    file: File,
    pages: u64,
    value_size: usize,
    syncs: bool,
    /// Parts of the file that writing sessions take in turn.
    regions: u64,
    writing_sessions: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
}

impl Device {
    fn create(setup: &Setup<'_>) -> io::Result<Device> {
        let of_records = setup.conditions.records * OVERHEAD_BYTES;
        let bytes = match setup.bench {
            Bench::Commit => COMMIT_BYTES,
            _ => setup.conditions.data_bytes() + of_records,
        };
        Device::with_pages(bytes.div_ceil(PAGE_BYTES as u64), setup.dir, setup.conditions)
    }

    /// A file of so many pages, or as many as there are threads: each has at least one to write.
    fn with_pages(pages: u64, dir: &Path, conditions: &Conditions) -> io::Result<Device> {
        let regions = conditions.threads as u64;
        let path = dir.join("device");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).custom_flags(libc::O_DIRECT);
        let file = options.open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => io::Error::new(
                io::ErrorKind::Unsupported,
                format!("{} allows no direct I/O; choose another --dir", path.display()),
            ),
            _ => error,
        })?;
        let device = Device {
            file,
            pages: pages.max(regions),
            value_size: conditions.value_size,
            syncs: conditions.durability == Durability::Sync,
            regions,
            writing_sessions: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
        };
        device.write_all_pages()?;
        Ok(device)
    }

    /// Fills the file: each page begins with its number, the rest is noise.
    fn write_all_pages(&self) -> io::Result<()> {
        let mut noise = stream(0, 0);
        let mut pages = vec![Page([0; PAGE_BYTES]); PAGES_PER_WRITE];
        for first in (0..self.pages).step_by(PAGES_PER_WRITE) {
            let count = (self.pages - first).min(PAGES_PER_WRITE as u64) as usize;
            for (page, number) in pages[..count].iter_mut().zip(first..) {
                noise.fill(&mut page.0);
                page.set_number(number);
            }
            self.file.write_all_at(pages[..count].as_bytes(), first * PAGE_BYTES as u64)?;
        }
        self.file.sync_all()
    }
}

impl Engine for Device {
    fn session(&self, access: Access) -> Result<Box<dyn Session + '_>, EngineError> {
        let mut page = Box::new(Page([0; PAGE_BYTES]));
        let mut region = 0..self.pages;
        if access != Access::Read {
            // A phase has a session in each thread, so its sessions have all regions, each once.
            let session = self.writing_sessions.fetch_add(1, Ordering::Relaxed);
            stream(0, session).fill(&mut page.0);
            let border = |session: u64| self.pages * session / self.regions;
            let number = session % self.regions;
            region = border(number)..border(number + 1);
        }
        Ok(Box::new(Client { device: self, page, next: region.start, region }))
    }

    fn bulk_load(&self, _: &mut SortedRecords) -> Result<(), EngineError> {
        Err("the raw device is no store: it knows lookups and single commits only".into())
    }

    fn device_stats(&self) -> Option<DeviceStats> {
        Some(DeviceStats {
            reads: self.reads.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
        })
    }
}

/// Reads pages anywhere, and overwrites those of its region in turn.
struct Client<'a> {
    device: &'a Device,
    page: Box<Page>,
    region: Range<u64>,
    next: u64,
}

impl Session for Client<'_> {
    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
        let number = records::reduce(u64::from_be_bytes(*key), self.device.pages);
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
        self.page.set_number(self.next);
        self.device.file.write_all_at(&self.page.0, self.next * PAGE_BYTES as u64)?;
        if self.device.syncs {
            self.device.file.sync_data()?;
        }
        self.device.writes.fetch_add(1, Ordering::Relaxed);
        self.next =
            if self.next + 1 == self.region.end { self.region.start } else { self.next + 1 };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
