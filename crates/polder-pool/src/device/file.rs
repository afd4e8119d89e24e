//! Pages in a file.
//!
//! I/O is direct where the file system can do it, so that the pool is the only cache; where it cannot,
//! the device goes on buffered and says so ([`FileDevice::is_direct`]). A single request is a system
//! call (`calls.rs`). Many are under way at once, those of a batch and those of a queue alike
//! (`file_queue.rs`): by a ring of the kernel's (`ring.rs`), or by threads where the kernel has none for
//! us (`threads.rs`), which is found out when the file is opened ([`Device::way`]). Requests that follow
//! each other in the file are joined into one transfer (`transfer.rs`).
//!
//! * `FILE-1` The bytes of a request are named by raw pointer only, and touched only by the kernel, and
//!   by copies as pages are copied (`ring/staging.rs`): other threads may still look at the memory that a read
//!   fills.
//! * `FILE-2` In direct mode every system call stays aligned: after a short transfer it goes on at
//!   a multiple of [`BLOCK_BYTES`], transferring a part of a block again if need be.
//! * `FILE-3` A transfer by a ring that did not move all of its bytes is made again by a system call of
//!   its own, and a joined one that fails request by request, so that each outcome speaks for its own
//!   request alone.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use self::calls::Calls;
use self::file_queue::{Engine, FileQueue};
use self::ring::Rings;
use self::threads::Threads;
use self::transfer::{Numbered, joined};
use super::queue::Collecting;
use super::{Batch, Device, Request, RequestQueue, Way};

mod atomic;
mod calls;
mod file_queue;
// On other processors the library for rings does not know the kernel's calls.
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "file/no_ring.rs")]
mod ring;
mod threads;
mod transfer;

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
    calls: Arc<Calls>,
    /// What the storage writes as a whole; by direct I/O alone.
    atomic_write_bytes: u64,
    /// Held while the length is read and then changed: see `Device::allocate`.
    length: Mutex<()>,
    rings: Rings,
    threads: Threads,
}

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
        let direct = os::set_direct(&file, true).is_ok();
        Ok(FileDevice::of(file, direct))
    }

    fn of(file: File, direct: bool) -> FileDevice {
        let atomic_write_bytes = atomic::atomic_write_bytes(&file);
        let calls = Arc::new(Calls::new(file, direct));
        let (rings, threads) = (Rings::default(), Threads::new(&calls));
        if direct {
            rings.try_first();
        }
        FileDevice { calls, atomic_write_bytes, length: Mutex::default(), rings, threads }
    }

    /// A file without a name, for what need not last: the system's page cache keeps it in memory as
    /// long as there is some.
    pub(super) fn of_temporary(file: File) -> FileDevice {
        FileDevice::of(file, false)
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
            match try_lock(&self.calls.file) {
                // The same open file: it has the lock.
                Ok(()) => return self.calls.file.try_clone().map(FileLock),
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
        self.calls.is_direct()
    }

    /// Requests under way at once; none where they had better go one by one: buffered transfers to one
    /// file wait for each other in the kernel, whichever thread makes them, or are copies of memory.
    fn file_queue(&self) -> Option<FileQueue<'_>> {
        if !self.is_direct() {
            return None;
        }
        let engine = match self.rings.ring(&self.calls) {
            Some(ring) => Engine::Ring(Box::new(ring)),
            None => Engine::Threads(self.threads.queue()),
        };
        Some(FileQueue::new(engine))
    }

    /// Carries out many requests, and gives them back in their order.
    fn perform_many(&self, batch: Vec<Request>) -> Vec<Request> {
        let mut requests: Vec<Numbered> = (0..).zip(batch).collect();
        let mut begin = 0;
        let runs: Vec<_> = std::iter::from_fn(|| {
            let run = begin..begin + joined(&requests[begin..]);
            begin = run.end;
            (!run.is_empty()).then_some(run)
        })
        .collect();
        let is_ordered = requests.is_sorted_by(|(_, a), (_, b)| {
            a.direction == b.direction && a.offset.saturating_add(a.buffer.len() as u64) <= b.offset
        });
        if is_ordered
            && runs.len() > 1
            && let Some(mut queue) = self.file_queue()
        {
            let mut done = Vec::with_capacity(requests.len());
            let mut back: Vec<_> = requests.iter().map(|_| None).collect();
            requests.into_iter().for_each(|(number, request)| queue.push(number, request));
            while done.len() < back.len() {
                queue.reap(true, &mut done);
            }
            done.into_iter().for_each(|(number, request)| back[number as usize] = Some(request));
            return back.into_iter().flatten().collect();
        }
        runs.into_iter().for_each(|run| self.calls.perform_all(&mut requests[run]));
        requests.into_iter().map(|(_, request)| request).collect()
    }
}

impl Device for FileDevice {
    fn perform(&self, batch: Batch) -> Batch {
        match batch {
            Batch::One(mut request) => {
                self.calls.perform(&mut request);
                Batch::One(request)
            }
            Batch::Many(requests) => Batch::Many(self.perform_many(requests)),
        }
    }

    fn queue(&self) -> Box<dyn RequestQueue + '_> {
        match self.file_queue() {
            Some(queue) => Box::new(queue),
            None => Box::new(Collecting::new(self)),
        }
    }

    fn way(&self) -> Way {
        match (self.is_direct(), self.rings.are_refused()) {
            (false, _) => Way::Calls,
            (true, true) => Way::Threads,
            (true, false) => Way::Ring,
        }
    }

    /// Where the system cannot reserve space the file only grows; a write may then still find the
    /// disk full.
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 || os::allocate(&self.calls.file, offset, len)? {
            return Ok(());
        }
        let end = offset.checked_add(len).ok_or(io::ErrorKind::FileTooLarge)?;
        // Without the mutex two threads that grow the file could cut each other's part off.
        let _length = self.length.lock().unwrap_or_else(PoisonError::into_inner);
        if self.len()? < end {
            self.calls.file.set_len(end)?;
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let _length = self.length.lock().unwrap_or_else(PoisonError::into_inner);
        self.calls.file.set_len(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 { Ok(()) } else { os::punch(&self.calls.file, offset, len) }
    }

    fn sync(&self) -> io::Result<()> {
        self.rings.close_idle();
        self.calls.file.sync_data()
    }

    fn atomic_write_bytes(&self) -> u64 {
        // The kernel may write a page of its cache while that is changed.
        if self.is_direct() { self.atomic_write_bytes } else { 0 }
    }

    fn free_bytes(&self) -> Option<u64> {
        os::free_bytes(&self.calls.file)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.calls.file.metadata()?.len())
    }
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
