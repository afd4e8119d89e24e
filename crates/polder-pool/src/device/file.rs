//! Pages in a file, by `pread` and `pwrite`.
//!
//! The work is done within `submit`. I/O is direct where the file system can do it, so that the
//! pool is the only cache; where it cannot, the device goes on buffered and says so
//! ([`FileDevice::is_direct`]). Requests of a batch that follow each other in the file are joined
//! into one transfer, and the transfers of a batch that goes one way are under way at once where the
//! kernel has queues for it (`queue.rs`).
//!
//! * `FILE-1` The bytes of a request are named by raw pointer only, and touched only by the
//!   kernel: other threads may still look at the memory that a read fills.
//! * `FILE-2` In direct mode every system call stays aligned: after a short transfer it goes on at
//!   a multiple of [`BLOCK_BYTES`], transferring a part of a block again if need be.
//! * `FILE-3` A transfer by a queue that did not move all of its bytes is made again by a system call of
//!   its own, and a joined one that fails request by request, so that each outcome speaks for its own
//!   request alone.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use libc::{iovec, off_t};

use self::queue::Queues;
use self::run::{Run, piece_of};
use super::read_queue::Collecting;
use super::{Batch, Device, Direction, ReadQueue, Request, Ticket};

// Processors of which the library for queues knows the kernel's calls.
#[cfg_attr(not(target_os = "linux"), path = "file/not_atomic.rs")]
mod atomic;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod queue;
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[path = "file/no_queue.rs"]
mod queue;
mod run;

/// What addresses, lengths and offsets of requests are multiples of.
const BLOCK_BYTES: usize = 4096;

/// Whether a file has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenKind {
    /// It must not be there, and is made.
    Create,
    /// It must be there.
    Existing,
    /// It must be there, and is never written.
    ReadOnly,
}

/// A file as a device.
///
/// ```
/// use polder_pool::device::{Device, FileDevice, OpenKind};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("data");
/// let device = FileDevice::open(&path, OpenKind::Create)?;
/// device.allocate(0, 65536)?;
/// device.sync()?;
/// assert_eq!(device.len()?, 65536);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FileDevice {
    file: File,
    /// Relaxed: it says how to understand a refusal, and a stale value costs one more attempt.
    direct: AtomicBool,
    /// What the storage writes as a whole; by direct I/O alone.
    atomic_write_bytes: u64,
    /// Held while the length is read and then changed: see `Device::allocate`.
    length: Mutex<()>,
    /// For batches.
    queues: Queues,
    /// For threads that have reads under way.
    read_queues: Queues,
}

/// Queues for batches: one for the checkpoint, one for the page provider, and some for threads that
/// evict by themselves.
const BATCH_QUEUES: usize = 4;
/// Queues for reads: one for each thread that has some under way.
const READ_QUEUES: usize = 64;

/// A lock on a device's file, which goes with this. It is unlocked by name: a child that another thread
/// starts has the file open, too, until it runs its program.
#[derive(Debug)]
pub struct FileLock(File);

impl Drop for FileLock {
    fn drop(&mut self) {
        // If this fails, the lock goes when the last handle of the open file is closed.
        let _ = self.0.unlock();
    }
}

impl FileDevice {
    /// Opens the file at `path`, direct if its file system can do so.
    pub fn open(path: impl AsRef<Path>, kind: OpenKind) -> io::Result<FileDevice> {
        let file = OpenOptions::new()
            .read(true)
            .write(kind != OpenKind::ReadOnly)
            .create_new(kind == OpenKind::Create)
            .open(path)?;
        // Switched on afterwards: an open with O_DIRECT that is refused leaves a new file behind.
        let direct = AtomicBool::new(os::set_direct(&file, true).is_ok());
        Ok(FileDevice::of(file, direct))
    }

    fn of(file: File, direct: AtomicBool) -> FileDevice {
        let (queues, read_queues) = (Queues::at_most(BATCH_QUEUES), Queues::at_most(READ_QUEUES));
        let atomic_write_bytes = atomic::atomic_write_bytes(&file);
        FileDevice {
            file,
            direct,
            atomic_write_bytes,
            length: Mutex::default(),
            queues,
            read_queues,
        }
    }

    /// A file without a name, for what need not last: the system's page cache keeps it in memory as
    /// long as there is some.
    #[cfg(not(loom))]
    pub(super) fn of_temporary(file: File) -> FileDevice {
        FileDevice::of(file, AtomicBool::new(false))
    }

    /// Waits, at most so long, until nobody else has the file locked, and locks it. Transfers that a
    /// process had under way when it was killed end with the kernel's last use of its file, and until then
    /// keep a lock that it took in this way.
    ///
    /// # Errors
    /// `ResourceBusy` if it stays locked; those of locking.
    pub fn lock(&self, most: Duration) -> io::Result<FileLock> {
        self.lock_by(File::try_lock, most)
    }

    /// The same for one that only reads: others may have such a lock at the same time.
    ///
    /// # Errors
    /// As [`FileDevice::lock`].
    pub fn lock_shared(&self, most: Duration) -> io::Result<FileLock> {
        self.lock_by(File::try_lock_shared, most)
    }

    fn lock_by(
        &self,
        try_lock: fn(&File) -> Result<(), TryLockError>,
        most: Duration,
    ) -> io::Result<FileLock> {
        let began = Instant::now();
        loop {
            match try_lock(&self.file) {
                // The same open file: it has the lock.
                Ok(()) => return self.file.try_clone().map(FileLock),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if began.elapsed() < most => {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(TryLockError::WouldBlock) => {
                    let text = "another process has it locked, or its last writes are not done";
                    return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
                }
            }
        }
    }

    /// Whether I/O goes past the system's page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.load(Relaxed)
    }

    /// Carries out requests, joining those that follow each other in the file.
    fn perform(&self, requests: &mut [Request]) {
        let (mut pieces, mut runs, mut begin) = (Vec::new(), Vec::new(), 0);
        while begin < requests.len() {
            let run = Run::first_of(&requests[begin..], begin, &mut pieces);
            begin = run.requests.end;
            runs.push(run);
        }
        let is_ordered =
            runs.is_sorted_by(|a, b| a.direction == b.direction && a.end() <= b.offset);
        // (Buffered transfers to one file wait for each other in the kernel, whichever thread
        // makes them.)
        let moved = match is_ordered && runs.len() > 1 && self.is_direct() {
            true => self.queues.transfer(&self.file, &runs, &pieces),
            false => Vec::new(),
        };
        for (i, run) in runs.into_iter().enumerate() {
            let is_done = moved.get(i).is_some_and(|moved| *moved == Some(run.len));
            let requests = &mut requests[run.requests];
            let pieces = &mut pieces[run.pieces];
            let joined = match is_done {
                true => Ok(()),
                false => self.transfer(run.direction, pieces, run.offset),
            };
            if requests.len() == 1 {
                requests[0].outcome = joined;
            } else if joined.is_ok() {
                requests.iter_mut().for_each(|request| request.outcome = Ok(()));
            } else {
                // FILE-3: each request once more, by itself.
                requests.iter_mut().for_each(|request| self.perform_one(request));
            }
        }
    }

    fn perform_one(&self, request: &mut Request) {
        let piece = &mut [piece_of(request)];
        request.outcome = self.transfer(request.direction, piece, request.offset);
    }

    /// Moves all bytes of `pieces`, which it uses up, from or to `offset` on.
    fn transfer(
        &self,
        direction: Direction,
        mut pieces: &mut [iovec],
        mut offset: u64,
    ) -> io::Result<()> {
        advance(&mut pieces, 0);
        while !pieces.is_empty() {
            let direct = self.is_direct();
            match call(&self.file, direction, pieces, offset) {
                Ok(len) => {
                    let len = if direct { len - len % BLOCK_BYTES } else { len }; // FILE-2
                    if len == 0 {
                        return Err(match direction {
                            Direction::Read => io::ErrorKind::UnexpectedEof.into(),
                            Direction::Write => io::ErrorKind::WriteZero.into(),
                        });
                    }
                    advance(&mut pieces, len);
                    offset += len as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Some file systems take the flag and refuse the transfer.
                Err(error)
                    if direct
                        && error.raw_os_error() == Some(libc::EINVAL)
                        && is_aligned(pieces, offset) =>
                {
                    os::set_direct(&self.file, false)?;
                    self.direct.store(false, Relaxed);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Device for FileDevice {
    fn submit(&self, mut batch: Batch) -> Ticket {
        match &mut batch {
            Batch::One(request) => self.perform_one(request),
            Batch::Many(requests) => self.perform(requests),
        }
        Ticket::Done(batch)
    }

    fn complete(&self, ticket: Ticket) -> Batch {
        match ticket {
            Ticket::Done(batch) => batch,
            // Another device's: there is nothing of it here.
            Ticket::Pending(_) => Batch::Many(Vec::new()),
        }
    }

    fn read_queue(&self) -> Box<dyn ReadQueue + '_> {
        queue::reads(self).unwrap_or_else(|| Box::new(Collecting::new(self)))
    }

    /// Where the system cannot reserve space the file only grows; a write may then still find the
    /// disk full.
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 || os::allocate(&self.file, offset, len)? {
            return Ok(());
        }
        let end = offset.checked_add(len).ok_or(io::ErrorKind::FileTooLarge)?;
        // Without the mutex two threads that grow the file could cut each other's part off.
        let _length = self.length.lock().unwrap_or_else(PoisonError::into_inner);
        if self.len()? < end {
            self.file.set_len(end)?;
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let _length = self.length.lock().unwrap_or_else(PoisonError::into_inner);
        self.file.set_len(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 { Ok(()) } else { os::punch(&self.file, offset, len) }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn atomic_write_bytes(&self) -> u64 {
        // The kernel may write a page of its cache while that is changed.
        if self.is_direct() { self.atomic_write_bytes } else { 0 }
    }

    fn free_bytes(&self) -> Option<u64> {
        os::free_bytes(&self.file)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

/// Takes `len` bytes, and empty pieces, away from the front.
fn advance(pieces: &mut &mut [iovec], mut len: usize) {
    while let Some(first) = pieces.first_mut() {
        if len < first.iov_len {
            first.iov_base = first.iov_base.wrapping_byte_add(len);
            first.iov_len -= len;
            return;
        }
        len -= first.iov_len;
        *pieces = &mut std::mem::take(pieces)[1..];
    }
}

fn is_aligned(pieces: &[iovec], offset: u64) -> bool {
    offset.is_multiple_of(BLOCK_BYTES as u64)
        && pieces.iter().all(|piece| {
            piece.iov_base.addr().is_multiple_of(BLOCK_BYTES)
                && piece.iov_len.is_multiple_of(BLOCK_BYTES)
        })
}

/// One system call: returns how many bytes it moved. There is at least one piece.
fn call(file: &File, direction: Direction, pieces: &[iovec], offset: u64) -> io::Result<usize> {
    let fd = file.as_raw_fd();
    let offset = off_t::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let first = pieces[0];
    let count = pieces.len() as libc::c_int; // at most JOINED_MAX
    // SAFETY: the pieces name memory of requests that are not complete, so that it is mapped and
    // no other thread writes it (Buffer::new). For a read nobody relies on its contents, and only
    // the kernel writes them (FILE-1). `pieces` itself is a slice of `count` elements.
    let moved = unsafe {
        match (direction, count) {
            (Direction::Read, 1) => libc::pread(fd, first.iov_base, first.iov_len, offset),
            (Direction::Write, 1) => libc::pwrite(fd, first.iov_base, first.iov_len, offset),
            (Direction::Read, _) => libc::preadv(fd, pieces.as_ptr(), count, offset),
            (Direction::Write, _) => libc::pwritev(fd, pieces.as_ptr(), count, offset),
        }
    };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

mod os {
    //! What POSIX does not have.

    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;

    use libc::{c_int, off_t};

    /// Switches direct I/O; an error if the file system has none.
    pub(super) fn set_direct(file: &File, direct: bool) -> io::Result<()> {
        // SAFETY: asks for flags of a file that is open.
        let old = told(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) })?;
        let new = if direct { old | libc::O_DIRECT } else { old & !libc::O_DIRECT };
        // SAFETY: sets flags of a file that is open; no memory depends on them.
        told(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, new) })?;
        Ok(())
    }

    /// Reserves space. False if the file system cannot.
    pub(super) fn allocate(file: &File, offset: u64, len: u64) -> io::Result<bool> {
        fallocate(file, 0, offset, len)
    }

    /// Gives space back, if the file system can.
    pub(super) fn punch(file: &File, offset: u64, len: u64) -> io::Result<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        fallocate(file, mode, offset, len).map(|_| ())
    }

    /// False if the file system cannot.
    fn fallocate(file: &File, mode: c_int, offset: u64, len: u64) -> io::Result<bool> {
        let at = |bytes| off_t::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge);
        let (offset, len) = (at(offset)?, at(len)?);
        loop {
            // SAFETY: changes which blocks a file has that is open; no memory is mapped to them.
            match told(unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, len) }) {
                Ok(_) => return Ok(true),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(false),
                    _ => return Err(error),
                },
            }
        }
    }

    /// What the file system has room for, of what this user may take.
    pub(super) fn free_bytes(file: &File) -> Option<u64> {
        // SAFETY: plain numbers, for which zeros are a value.
        let mut told: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: asks about a file that is open, and fills in the struct that it is given.
        let failed = unsafe { libc::fstatvfs(file.as_raw_fd(), &raw mut told) } != 0;
        (!failed).then(|| told.f_bavail.saturating_mul(told.f_frsize))
    }

    fn told(returned: c_int) -> io::Result<c_int> {
        if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
    }
}

#[cfg(test)]
mod tests;
