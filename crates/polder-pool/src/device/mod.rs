//! Where pages lie when they are not in memory.
//!
//! A thread hands over requests as a [`Batch`] and waits until all of them are done
//! ([`Device::perform`]). A batch is as slow as its slowest request. A thread that has use for each
//! page as it comes, or something else to do meanwhile, has a [`RequestQueue`] instead.

use std::fmt;
use std::io;
use std::ptr::NonNull;

use polder_format::PageId;

#[cfg(not(loom))]
mod block;
pub(crate) mod bounce;
pub(crate) mod data_file;
#[cfg(not(loom))]
mod file;
pub(crate) mod gate;
#[cfg(not(loom))]
mod overlay;
mod queue;
pub(crate) mod reads;

#[cfg(not(loom))]
pub use block::{BlockReader, read_block, write_block, write_zeros};
#[cfg(not(loom))]
pub use file::{FileDevice, FileLock, OpenKind};
#[cfg(not(loom))]
pub use overlay::OverlayDevice;
pub use queue::RequestQueue;
#[cfg(not(loom))]
pub(crate) use queue::sort_by_offset;

/// Memory of the pool that a device reads into or writes from.
#[derive(Debug, Clone, Copy)]
pub struct Buffer {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: a buffer is a name for memory whose exclusive use was promised to the request that
// holds it (Buffer::new); the request may travel between threads.
unsafe impl Send for Buffer {}

impl Buffer {
    /// The `len` bytes at `at`.
    ///
    /// # Safety
    /// Until the request that the buffer goes into is done, the memory is mapped, and nobody else
    /// writes it; for a read, nobody else relies on what it holds either.
    pub unsafe fn new(at: NonNull<u8>, len: usize) -> Buffer {
        Buffer { at, len }
    }

    /// The `len` bytes from byte `at` of this one on; `None` if it does not have them.
    pub fn part(self, at: usize, len: usize) -> Option<Buffer> {
        let is_within = at.checked_add(len).is_some_and(|end| end <= self.len);
        // SAFETY: within the memory that the buffer is a name for.
        is_within.then(|| Buffer { at: unsafe { self.at.add(at) }, len })
    }

    /// Address of the first byte.
    pub fn as_ptr(self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// What to do with the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the device into the buffer.
    Read,
    /// From the buffer to the device.
    Write,
}

/// One run of bytes to read or write.
#[derive(Debug)]
pub struct Request {
    /// Read or write.
    pub direction: Direction,
    /// The first (for a run of several pages) page concerned, for messages.
    pub page: PageId,
    /// Where in the file, in bytes; a multiple of 4096.
    pub offset: u64,
    /// From where or where to; address and length are multiples of 4096.
    pub buffer: Buffer,
    /// How it went; `Ok` until the device says otherwise.
    pub outcome: io::Result<()>,
}

impl Request {
    /// A request that has not been made yet.
    pub fn new(direction: Direction, page: PageId, offset: u64, buffer: Buffer) -> Request {
        Request { direction, page, offset, buffer, outcome: Ok(()) }
    }
}

/// Requests that are handed over, and come back, together.
#[derive(Debug)]
pub enum Batch {
    /// A single one: needs no allocation.
    One(Request),
    /// Any number, best in the order of their offsets.
    Many(Vec<Request>),
}

impl Batch {
    /// All requests, to change.
    pub fn requests_mut(&mut self) -> &mut [Request] {
        match self {
            Batch::One(request) => std::slice::from_mut(request),
            Batch::Many(requests) => requests,
        }
    }

    /// Takes the batch apart.
    pub fn into_requests(self) -> Vec<Request> {
        match self {
            Batch::One(request) => vec![request],
            Batch::Many(requests) => requests,
        }
    }

    /// How the batch went as a whole: the error of the first request that failed.
    ///
    /// # Errors
    /// That error.
    pub fn outcome(self) -> io::Result<()> {
        match self {
            Batch::One(request) => request.outcome,
            Batch::Many(requests) => requests.into_iter().try_for_each(|request| request.outcome),
        }
    }

    /// All requests.
    pub fn requests(&self) -> &[Request] {
        match self {
            Batch::One(request) => std::slice::from_ref(request),
            Batch::Many(requests) => requests,
        }
    }
}

/// How requests that are under way at once reach a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// One after the other, by the thread that has them.
    #[default]
    Calls,
    /// By threads that make calls.
    Threads,
    /// By a ring of the kernel's (io_uring).
    Ring,
}

impl Way {
    /// Its name: `calls`, `threads` or `io_uring`.
    pub fn name(self) -> &'static str {
        match self {
            Way::Calls => "calls",
            Way::Threads => "threads",
            Way::Ring => "io_uring",
        }
    }
}

/// Something to keep pages on: a file, a block device, a simulation.
///
/// All methods may be called by several threads at once. An error speaks for its own request
/// alone; after a failed `sync` nothing that was written since the last good one may be relied on.
///
/// ```
/// use std::io;
/// use std::ptr::NonNull;
///
/// # use polder_format::{PageId, PageNo, SpaceId};
/// # use polder_pool::device::{Batch, Buffer, Device, Direction, FileDevice, OpenKind, Request};
/// #[repr(align(4096))]
/// struct Block([u8; 4096]);
///
/// fn transfer(device: &dyn Device, direction: Direction, block: &mut Block) -> io::Result<()> {
///     // SAFETY: the block is borrowed until the batch is done.
///     let buffer = unsafe { Buffer::new(NonNull::from(&mut block.0).cast(), block.0.len()) };
///     let page = PageId::new(SpaceId::FILE, PageNo::MAX);
///     let request = Request::new(direction, page, 65536, buffer);
///     device.perform(Batch::One(request)).outcome()
/// }
///
/// let folder = tempfile::tempdir()?;
/// let device = FileDevice::open(folder.path().join("data"), OpenKind::Create)?;
/// device.allocate(65536, 4096)?;
/// transfer(&device, Direction::Write, &mut Block([7; 4096]))?;
/// device.sync()?;
/// let mut block = Block([0; 4096]);
/// transfer(&device, Direction::Read, &mut block)?;
/// assert_eq!(block.0, [7; 4096]);
/// # Ok::<(), io::Error>(())
/// ```
pub trait Device: Send + Sync + fmt::Debug + 'static {
    /// Carries out the requests of the batch, in whatever order, and gives them back when all are
    /// done; each then says how it went. A read behind the end of the file fails with
    /// `UnexpectedEof`.
    fn perform(&self, batch: Batch) -> Batch;

    /// For a thread that wants many requests under way at once, and each as soon as it is done. A device
    /// that has no way to that collects requests, and does them as one batch when they are waited for.
    fn queue(&self) -> Box<dyn RequestQueue + '_> {
        Box::new(queue::Collecting::new(self))
    }

    /// How requests that are under way at once reach the device.
    fn way(&self) -> Way {
        Way::Calls
    }

    /// Makes sure that writing this run of bytes will not fail for want of space. Bytes that were
    /// not there before read as zeros.
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Gives the file this length in bytes. If it becomes longer, what is added reads as zeros, and
    /// room for it is not made sure of.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Gives the space of this run of bytes back; it reads as zeros. A device that cannot do so
    /// may leave it as it is.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Everything that was done before is durable.
    fn sync(&self) -> io::Result<()>;

    /// Most bytes of a write, aligned to their number, of which a loss of power leaves all or none,
    /// also where they are a part of a longer write; 0: nothing is promised, so that pages have to
    /// be written twice to be safe.
    fn atomic_write_bytes(&self) -> u64 {
        0
    }

    /// Bytes that there still is room for, if that is known.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// Length of the file in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether there is nothing in the file yet.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Whether a device says that it has no room, or gives no more to this user.
pub fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
