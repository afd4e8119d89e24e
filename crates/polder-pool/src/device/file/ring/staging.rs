//! Contiguous memory, through which pages that lie one behind the other in the file are read.
//!
//! Their frames lie wherever there was room, so that a request for many of them has a segment for each.
//! Many devices of virtual machines have one place in their queue for each segment (virtio, if it has no
//! indirect descriptors: 256 for all requests together). A few such requests fill it, and the kernel joins
//! those that wait to long ones, at which the device works one by one. Memory that a huge page backs is
//! one segment. The pages are copied from there when they have come; the kernel has less to do for them
//! ([figures](../../../../../../docs/results.md#reads-of-neighbours)).
//!
//! * `STAGE-1` A part belongs to one transfer, until that has come back (`QUEUE-1`).
//!
//! There are 2 MiB of it, for all threads of a file together, beside the budget; a thread that finds none free
//! has its pages read to where they go, as all have where the kernel gives no huge page. It is given back when
//! the last ring of the file is closed, as nobody has used it for a while.

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::iovec;

use super::super::transfer::{Numbered, READ_MAX, piece_of};
use crate::machine::{HUGE_PAGE_BYTES, Mapping};
use crate::page::bytes::copy_to_shared;

/// Pieces of memory from which on a transfer goes this way.
pub(super) const FROM: usize = 8;

/// So many there are.
const PARTS: usize = HUGE_PAGE_BYTES / READ_MAX;

/// What there is for one file.
#[derive(Debug, Default)]
pub(super) struct Staging(Mutex<Parts>);

#[derive(Debug, Default)]
struct Parts {
    /// A huge page: as much as a device needs to have under way.
    mapped: Option<Mapping>,
    free: Vec<At>,
    /// There is no huge page to be had.
    is_refused: bool,
}

/// Where a part begins.
#[derive(Debug)]
struct At(NonNull<u8>);

// SAFETY: memory of a mapping, which may be used by any thread.
unsafe impl Send for At {}

/// Memory for one transfer of at most [`READ_MAX`] bytes; goes back when this is dropped.
#[derive(Debug)]
pub(super) struct Part<'s> {
    staging: &'s Staging,
    at: NonNull<u8>,
}

impl Staging {
    /// A part, if one is free or can be made.
    pub(super) fn take(&self) -> Option<Part<'_>> {
        let mut parts = self.parts();
        if parts.mapped.is_none() && !parts.is_refused {
            let Some(mapped) = huge_page() else {
                parts.is_refused = true;
                return None;
            };
            let offsets = (0..HUGE_PAGE_BYTES).step_by(READ_MAX);
            // SAFETY: the offsets lie in the mapping.
            parts.free.extend(offsets.map(|offset| At(unsafe { mapped.base().add(offset) })));
            parts.mapped = Some(mapped);
        }
        let At(at) = parts.free.pop()?;
        Some(Part { staging: self, at })
    }

    /// Gives the memory back, if none of it is in use.
    pub(super) fn release(&self) {
        let mut parts = self.parts();
        if parts.free.len() == PARTS {
            parts.free.clear();
            parts.mapped = None;
        }
    }

    #[cfg(test)]
    pub(super) fn is_mapped(&self) -> bool {
        self.parts().mapped.is_some()
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Memory that is really backed by one, if the kernel has one to give.
fn huge_page() -> Option<Mapping> {
    let mapped = Mapping::new("reads", HUGE_PAGE_BYTES, HUGE_PAGE_BYTES).ok()?;
    mapped.prefer_huge_pages();
    mapped.keep_from_children();
    mapped.populate(HUGE_PAGE_BYTES).ok()?;
    (mapped.huge_bytes() == HUGE_PAGE_BYTES as u64).then_some(mapped)
}

impl Part<'_> {
    /// The first so many bytes of it.
    pub(super) fn piece(&self, len: usize) -> iovec {
        debug_assert!(len <= READ_MAX);
        iovec { iov_base: self.at.as_ptr().cast(), iov_len: len }
    }

    /// Copies what a transfer has read to where it goes.
    pub(super) fn copy_to(&self, requests: &mut [Numbered]) {
        let mut offset = 0;
        for (_, request) in requests {
            let piece = piece_of(request);
            debug_assert!(offset + piece.iov_len <= READ_MAX);
            // SAFETY: the transfer is not longer than the part, which is its own (STAGE-1), and the memory
            // of a request is the device's to write until that is given back (QUEUE-3).
            unsafe {
                let from = self.at.add(offset).as_ptr();
                copy_to_shared(from, piece.iov_base.cast(), piece.iov_len);
            }
            offset += piece.iov_len;
        }
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        self.staging.parts().free.push(At(self.at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_only_so_many_parts_and_each_is_taken_once() {
        if huge_page().is_none() {
            eprintln!("skipped: the kernel gives no huge page");
            return;
        }
        let staging = Staging::default();
        let taken: Vec<_> = std::iter::from_fn(|| staging.take()).collect();
        assert_eq!(taken.len(), PARTS);
        let mut places: Vec<_> = taken.iter().map(|part| part.at.as_ptr() as usize).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|two| two[1] - two[0] >= READ_MAX), "STAGE-1");
        staging.release();
        assert!(staging.is_mapped(), "what is in use stays");
        drop(taken);
        assert!(staging.take().is_some());
        staging.release();
        assert!(!staging.is_mapped());
    }
}
