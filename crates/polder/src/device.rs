//! Devices of one's own below a store ([`Store::open_on`](crate::Store::open_on)): one in memory,
//! encrypted, remote, or simulated.
//!
//! A store has two of them, for data and log. [`FileDevice`] is what
//! [`Store::open`](crate::Store::open) uses: direct I/O where the file system permits it.

#[doc(inline)]
pub use polder_format::{PageId, PageNo, SpaceId};
#[doc(inline)]
pub use polder_pool::device::{
    Batch, Buffer, Device, Direction, FileDevice, FileLock, OpenKind, Request, RequestQueue, Way,
};
