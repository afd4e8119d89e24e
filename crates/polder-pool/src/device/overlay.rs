//! A device that is read and never written: what is written to it lands in a temporary file that
//! nobody else sees.
//!
//! A recovery changes pages, and a pool that has no frame left writes changed pages out. On an
//! overlay all of that works as on the device below, which keeps every byte that it has. The
//! temporary file has no name and goes with the overlay. It is made by the first write; an overlay
//! that is only read hands all requests to the device below.
//!
//! A block is read from the temporary file if it was written here, or lies behind what the device
//! below has; a block there that was never written is a hole, and reads as zeros. From everywhere
//! else it is read from below:
//!
//! ```text
//!            0                        below          len
//! below      [ ...................... ]
//! scratch        [ written ]   [ wr ] [ zeros, ...... ]
//! ```
//!
//! * `OVER-1` The device below gets reads alone.
//! * `OVER-2` The temporary file is as long as the overlay whenever it is read.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::{Batch, Device, Direction, FileDevice, Request, RequestQueue, Way};
use crate::sync::lock;

/// What offsets and lengths of requests are multiples of.
const BLOCK_BYTES: u64 = 4096;

/// What a device holds and what was written since, kept apart. See the module's documentation.
///
/// ```
/// use std::sync::Arc;
///
/// use polder_pool::device::{
///     Device, FileDevice, OpenKind, OverlayDevice, read_block, write_block,
/// };
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("data");
/// std::fs::write(&path, [1; 8192])?;
/// let below = Arc::new(FileDevice::open(&path, OpenKind::ReadOnly)?);
/// let device = OverlayDevice::new(below, folder.path())?;
/// write_block(&device, 4096, &[2; 4096])?;
/// assert_eq!(read_block(&device, 0, 8192)?, [[1; 4096], [2; 4096]].concat());
/// assert_eq!(std::fs::read(&path)?, [1; 8192]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct OverlayDevice {
    below: Arc<dyn Device>,
    /// Where temporary files are made.
    directory: PathBuf,
    /// Made by the first write.
    scratch: OnceLock<FileDevice>,
    /// Whether `extent` says anything else than at the beginning. Release where it is set, Acquire
    /// where it is read: who sees it sees the extent.
    diverged: AtomicBool,
    extent: Mutex<Extent>,
}

/// Where what lies.
#[derive(Debug)]
struct Extent {
    /// Numbers of the blocks below `below` that were written.
    written: HashSet<u64>,
    /// Up to here, in bytes, the device below counts.
    below: u64,
    /// Length in bytes.
    len: u64,
}

/// Which of the two a block is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Below,
    Scratch,
}

impl Extent {
    /// These bytes lie in the temporary file from now on.
    fn write(&mut self, offset: u64, end: u64) {
        let end = end.min(self.below);
        self.written.extend(offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES));
    }

    fn source(&self, offset: u64) -> Source {
        match offset >= self.below || self.written.contains(&(offset / BLOCK_BYTES)) {
            true => Source::Scratch,
            false => Source::Below,
        }
    }

    /// A request as runs of blocks that come from one source: offset in it, length, source.
    fn runs(&self, request: &Request) -> Vec<(usize, usize, Source)> {
        let mut runs: Vec<(usize, usize, Source)> = Vec::new();
        for at in (0..request.buffer.len()).step_by(BLOCK_BYTES as usize) {
            let source = self.source(request.offset + at as u64);
            match runs.last_mut() {
                Some((_, len, last)) if *last == source => *len += BLOCK_BYTES as usize,
                _ => runs.push((at, BLOCK_BYTES as usize, source)),
            }
        }
        runs
    }
}

impl OverlayDevice {
    /// What `below` holds, to be written over. If it comes to that a temporary file is made in
    /// `directory`.
    ///
    /// # Errors
    /// That of asking `below` for its length.
    pub fn new(below: Arc<dyn Device>, directory: impl Into<PathBuf>) -> io::Result<OverlayDevice> {
        let len = below.len()?;
        Ok(OverlayDevice {
            below,
            directory: directory.into(),
            scratch: OnceLock::new(),
            diverged: AtomicBool::new(false),
            extent: Mutex::new(Extent { written: HashSet::new(), below: len, len }),
        })
    }

    /// Whether a temporary file was needed.
    pub fn has_scratch(&self) -> bool {
        self.scratch.get().is_some()
    }

    /// The temporary file, as long as the overlay is (`OVER-2`). Called with the lock held.
    fn scratch(&self, extent: &Extent) -> io::Result<&FileDevice> {
        let scratch = match self.scratch.get() {
            Some(scratch) => scratch,
            None => {
                let file = temporary_file(&self.directory);
                let file = file.map_err(|error| self.refused("make", error))?;
                self.scratch.get_or_init(|| FileDevice::of_temporary(file))
            }
        };
        if scratch.len()? < extent.len {
            scratch.truncate(extent.len).map_err(|error| self.refused("lengthen", error))?;
        }
        Ok(scratch)
    }

    /// What could not be done with the temporary file, and how to do without.
    fn refused(&self, what: &str, error: io::Error) -> io::Error {
        let directory = self.directory.display();
        let text = format!(
            "cannot {what} the temporary file in {directory} that takes what does not fit into the memory budget: {error}; use a larger budget, or another directory for temporary files"
        );
        io::Error::new(error.kind(), text)
    }

    fn perform_one(&self, request: &Request) -> io::Result<()> {
        match request.direction {
            Direction::Read => self.read(request),
            Direction::Write => self.write(request),
        }
    }

    fn write(&self, request: &Request) -> io::Result<()> {
        let end = request.offset + request.buffer.len() as u64;
        let mut extent = lock(&self.extent);
        let written = self.scratch(&extent)?;
        drop(extent);
        transfer(written, request, 0, request.buffer.len())
            .map_err(|error| self.refused("write", error))?;
        extent = lock(&self.extent);
        extent.write(request.offset, end);
        extent.len = extent.len.max(end);
        self.diverged.store(true, Ordering::Release);
        Ok(())
    }

    fn read(&self, request: &Request) -> io::Result<()> {
        let end = request.offset + request.buffer.len() as u64;
        let (runs, scratch) = {
            let extent = lock(&self.extent);
            if end > extent.len {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let runs = extent.runs(request);
            let wants = runs.iter().any(|(_, _, source)| *source == Source::Scratch);
            (runs, wants.then(|| self.scratch(&extent)).transpose()?)
        };
        for (at, len, source) in runs {
            match (source, scratch) {
                (Source::Scratch, Some(scratch)) => transfer(scratch, request, at, len)?,
                _ => transfer(&*self.below, request, at, len)?,
            }
        }
        Ok(())
    }

    /// Whether all of it is to be read, and lies below.
    fn is_below(&self, requests: &[Request]) -> bool {
        let is_read = |request: &Request| request.direction == Direction::Read;
        if !requests.iter().all(is_read) {
            return false;
        }
        // Nothing was written yet: also the end is where it was.
        if !self.diverged.load(Ordering::Acquire) {
            return true;
        }
        let extent = lock(&self.extent);
        requests.iter().all(|request| {
            let end = request.offset + request.buffer.len() as u64;
            let below = |run: &(usize, usize, Source)| run.2 == Source::Below;
            end <= extent.len && extent.runs(request).iter().all(below)
        })
    }
}

/// A file without a name in this directory.
fn temporary_file(directory: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE).open(directory) {
        // The file system, or an old kernel, knows no such files.
        Err(error) if is_unknown(&error) => named_and_removed(&mut options, directory),
        made => made,
    }
}

/// Whether it was the flag that was refused. (A kernel that does not know it sees O_DIRECTORY in it.)
fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT))
}

fn named_and_removed(options: &mut OpenOptions, directory: &Path) -> io::Result<File> {
    let path = directory.join(format!(".polder-{:016x}", fastrand::u64(..)));
    let file = options.create_new(true).open(&path)?;
    fs::remove_file(path)?;
    Ok(file)
}

/// Does a part of a request on one of the devices.
fn transfer(device: &dyn Device, request: &Request, at: usize, len: usize) -> io::Result<()> {
    let buffer = request.buffer.part(at, len).ok_or(io::ErrorKind::InvalidInput)?;
    let offset = request.offset + at as u64;
    let part = Request::new(request.direction, request.page, offset, buffer);
    device.perform(Batch::One(part)).outcome()
}

/// The queue of the device below, and what was read from elsewhere when it was handed over.
#[derive(Debug)]
struct OverlayQueue<'d> {
    overlay: &'d OverlayDevice,
    below: Box<dyn RequestQueue + 'd>,
    done: Vec<(u64, Request)>,
}

impl RequestQueue for OverlayQueue<'_> {
    fn push(&mut self, number: u64, mut request: Request) {
        if self.overlay.is_below(std::slice::from_ref(&request)) {
            return self.below.push(number, request); // OVER-1
        }
        request.outcome = self.overlay.perform_one(&request);
        self.done.push((number, request));
    }

    fn reap(&mut self, wait: bool, done: &mut Vec<(u64, Request)>) {
        let wait = wait && self.done.is_empty();
        done.append(&mut self.done);
        self.below.reap(wait, done);
    }
}

impl Device for OverlayDevice {
    fn perform(&self, mut batch: Batch) -> Batch {
        if self.is_below(batch.requests()) {
            return self.below.perform(batch); // OVER-1
        }
        for request in batch.requests_mut() {
            request.outcome = self.perform_one(request);
        }
        batch
    }

    fn queue(&self) -> Box<dyn RequestQueue + '_> {
        Box::new(OverlayQueue { overlay: self, below: self.below.queue(), done: Vec::new() })
    }

    fn way(&self) -> Way {
        self.below.way()
    }

    /// Takes no space: a write may still find none.
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let end = offset.checked_add(len).ok_or(io::ErrorKind::FileTooLarge)?;
        let mut extent = lock(&self.extent);
        if end > extent.len {
            extent.len = end;
            self.diverged.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut extent = lock(&self.extent);
        extent.below = extent.below.min(len);
        extent.len = len;
        extent.written.retain(|block| block * BLOCK_BYTES < len);
        self.diverged.store(true, Ordering::Release);
        // What lay behind is zeros when the overlay becomes longer again.
        self.scratch.get().map_or(Ok(()), |scratch| scratch.truncate(len))
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut extent = lock(&self.extent);
        let end = offset.saturating_add(len).min(extent.len);
        if offset >= end {
            return Ok(());
        }
        let scratch = self.scratch(&extent)?;
        scratch.punch(offset, end - offset)?;
        extent.write(offset, end);
        self.diverged.store(true, Ordering::Release);
        Ok(())
    }

    /// There is nothing to be torn.
    fn atomic_write_bytes(&self) -> u64 {
        u64::MAX
    }

    /// There is nothing to be durable.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.extent).len)
    }
}

#[cfg(test)]
mod tests;
