//! Reserved ranges of anonymous memory: they read as zeros and cost nothing until they are written.
//!
//! * `POOL-2` Memory that holds state words, group counters and frames is mapped while the pool lives.
//!   It may turn to zeros; it never goes away.

#![cfg(not(loom))]

use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use libc::c_int;

use crate::error::PoolError;
use crate::machine::huge;
use crate::machine::policy::{self, NodeId};

/// Size of a huge page on x86-64 and (with 4 KiB base pages) aarch64.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;
/// The smallest page that a kernel has.
pub(crate) const OS_PAGE_BYTES: usize = 4096;

/// What this kernel backs and takes back in one piece.
pub(crate) fn kernel_page_bytes() -> usize {
    // SAFETY: asks for a number.
    let told = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(told).unwrap_or(0).max(OS_PAGE_BYTES)
}

/// A run of addresses that belongs to us until this is dropped.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// What was mapped, `base` and `len` being the aligned part of it.
    mapped: (NonNull<u8>, usize),
}

// SAFETY: a mapping is addresses; what may be done with the memory is up to its users.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves at least `len` bytes at a multiple of `align` (a power of two), and of a page of the
    /// kernel.
    ///
    /// # Errors
    /// [`PoolError::Memory`], which says what it was for.
    pub fn new(what: &'static str, len: usize, align: usize) -> Result<Mapping, PoolError> {
        let kernel_page = kernel_page_bytes();
        let len = len.next_multiple_of(kernel_page);
        let total = if align > kernel_page { len + align } else { len };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let at = unsafe { libc::mmap(ptr::null_mut(), total, prot, flags, -1, 0) };
        let mapped = match at == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => NonNull::new(at.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory.into()),
        };
        let mapped = mapped.map_err(|e| PoolError::Memory {
            what,
            bytes: total as u64,
            source: Arc::new(e),
        })?;
        let skip = mapped.as_ptr().align_offset(align);
        // SAFETY: `skip` is below `align`, by which the mapping was made longer.
        let base = unsafe { mapped.add(skip) };
        Ok(Mapping { base, len, mapped: (mapped, total) })
    }

    /// The first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn advise(&self, offset: usize, len: usize, advice: c_int) -> io::Result<()> {
        debug_assert!(offset + len <= self.len);
        // SAFETY: the range lies in our own mapping. Advice that drops content is only given by
        // `discard`, whose callers know that the content is no longer wanted.
        unsafe { madvise(self.base.as_ptr().add(offset), len, advice) }
    }

    /// Asks for huge pages. A kernel without them ignores it.
    pub(crate) fn prefer_huge_pages(&self) {
        self.prefer_huge_pages_in(0, self.len);
    }

    /// The same for a part of the range.
    pub(crate) fn prefer_huge_pages_in(&self, offset: usize, len: usize) {
        let _ = self.advise(offset, len, libc::MADV_HUGEPAGE);
    }

    /// Has a huge page back the one at this offset now, with what is there, if the kernel can do
    /// that (Linux 6.1). Else it does so in its own time, or not.
    pub(crate) fn collapse(&self, offset: usize) {
        debug_assert!(offset.is_multiple_of(HUGE_PAGE_BYTES));
        if offset + HUGE_PAGE_BYTES <= self.len {
            let _ = self.advise(offset, HUGE_PAGE_BYTES, libc::MADV_COLLAPSE);
        }
    }

    /// A child of a fork does not have it: neither does this process copy it then when it writes, nor the
    /// device miss where it went to.
    pub(crate) fn keep_from_children(&self) {
        let _ = self.advise(0, self.len, libc::MADV_DONTFORK);
    }

    /// Asks for small pages: parts of the range will be given back one by one.
    pub(crate) fn prefer_small_pages(&self) {
        let _ = self.advise(0, self.len, libc::MADV_NOHUGEPAGE);
    }

    /// Asks for memory of this node. Where the kernel refuses, it comes from where the thread runs that
    /// first writes to it.
    ///
    /// # Errors
    /// [`PoolError::Tiers`] with what the kernel says; a container may forbid the call.
    pub(crate) fn prefer_node(
        &self,
        offset: usize,
        len: usize,
        node: NodeId,
    ) -> Result<(), PoolError> {
        debug_assert!(offset + len <= self.len);
        // SAFETY: the range lies in our own mapping, and ends where pages of the kernel do, as
        // offset and length are multiples of them.
        let asked = unsafe { policy::prefer(self.base.add(offset), len, node) };
        asked.map_err(|error| PoolError::Tiers {
            what: format!(
                "the kernel gives no memory of {node} ({error}): name no node, or permit `mbind`"
            ),
        })
    }

    /// Has the kernel back the first `len` bytes with memory now.
    pub(crate) fn populate(&self, len: usize) -> io::Result<()> {
        self.advise(0, len, libc::MADV_POPULATE_WRITE)
    }

    /// Gives the memory behind the range back; it reads as zeros from now on.
    pub(crate) fn discard(&self, offset: usize, len: usize) -> io::Result<()> {
        self.advise(offset, len, libc::MADV_DONTNEED)
    }

    /// How many bytes of the range huge pages really back, as the kernel tells.
    pub(crate) fn huge_bytes(&self) -> u64 {
        let from = self.base.as_ptr() as usize;
        huge::bytes_in(from..from + self.len)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and nobody refers to it any more: whatever borrows from the
        // memory borrows from the owner of this mapping.
        let _ = unsafe { libc::munmap(self.mapped.0.as_ptr().cast(), self.mapped.1) };
    }
}

/// Tells the kernel how a range of memory will be used.
///
/// # Safety
/// `advice` that drops content is given for memory of the caller's own, of which nobody wants the
/// content.
pub(crate) unsafe fn madvise(at: *mut u8, len: usize, advice: c_int) -> io::Result<()> {
    // SAFETY: the caller's promise.
    match unsafe { libc::madvise(at.cast(), len, advice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Addresses that a thread may take: its stack, and what the allocator sets aside for it.
const THREAD_BYTES: usize = 128 << 20;

/// How many threads there is room for, `most` or fewer, down to 0: the address space of a process
/// may be limited (`ulimit -v`), and threads that only make things faster shall not take what other
/// allocations need, which end the process if they fail. Nothing is set aside for them.
pub fn threads_with_room(most: usize) -> usize {
    let has_room =
        |count: &usize| *count == 0 || Mapping::new("threads", count * THREAD_BYTES, 1).is_ok();
    let halves = std::iter::successors(Some(most), |count| Some(count / 2));
    halves.take(usize::BITS as usize).find(has_room).unwrap_or(0)
}

/// Runs that the kernel takes in one call.
const MOST_RUNS: usize = 1024;
/// In place of a descriptor of a process: the caller itself (Linux 6.14).
const PIDFD_SELF: libc::c_int = -10_000;

/// Gives the memory of many runs back, with one system call for all of them where the kernel can do
/// that (Linux 6.14; from 6.16 on it interrupts other processors once for all). Says how many calls
/// it took.
///
/// # Safety
/// The runs consist of whole kernel pages of mappings of ours, and nobody relies on what is there.
pub(crate) unsafe fn give_back(runs: &[libc::iovec]) -> u64 {
    let mut calls = 0;
    for some in runs.chunks(MOST_RUNS) {
        // SAFETY: the caller's.
        if some.len() > 1 && unsafe { give_back_together(some) } {
            calls += 1;
            continue;
        }
        for run in some {
            // A kernel that refuses leaves what was there, which nobody relies on.
            // SAFETY: the caller's.
            let _ = unsafe { madvise(run.iov_base.cast(), run.iov_len, libc::MADV_DONTNEED) };
            calls += 1;
        }
    }
    calls
}

/// Whether the kernel did it, and for all.
unsafe fn give_back_together(runs: &[libc::iovec]) -> bool {
    let bytes: usize = runs.iter().map(|run| run.iov_len).sum();
    // SAFETY: the kernel reads the list, and does to its ranges what the caller permits.
    let done = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            PIDFD_SELF,
            runs.as_ptr(),
            runs.len(),
            libc::MADV_DONTNEED,
            0,
        )
    };
    usize::try_from(done) == Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever names a node hears that there is no memory of it.
    #[test]
    fn a_node_that_the_kernel_refuses_is_told_of() {
        let range = Mapping::new("test", kernel_page_bytes(), kernel_page_bytes()).unwrap();
        let refused = range.prefer_node(0, range.len(), NodeId::new(1000)).unwrap_err();
        assert!(refused.to_string().contains("no memory of node 1000 ("), "{refused}");
    }

    #[test]
    fn runs_are_given_back_together() {
        const PAGES: usize = 3 * MOST_RUNS;
        let size = kernel_page_bytes();
        let range = Mapping::new("test", PAGES * size, size).unwrap();
        range.prefer_small_pages();
        let at = |page: usize| range.base().as_ptr().wrapping_add(page * size);
        // SAFETY: within the range, which only this test uses.
        unsafe {
            (0..PAGES).for_each(|page| at(page).write(7));
            let run = |page| libc::iovec { iov_base: at(page).cast(), iov_len: size };
            let odd: Vec<_> = (1..PAGES).step_by(2).map(run).collect();
            let calls = give_back(&odd);
            let together = give_back_together(&odd[..2]);
            assert_eq!(calls, if together { 2 } else { odd.len() as u64 });
            for page in 0..PAGES {
                assert_eq!(at(page).read(), if page % 2 == 1 { 0 } else { 7 }, "page {page}");
            }
        }
    }

    #[test]
    fn discarded_memory_reads_as_zeros() {
        let range = Mapping::new("test", 3 << 20, HUGE_PAGE_BYTES).unwrap();
        assert_eq!(range.base().as_ptr() as usize % HUGE_PAGE_BYTES, 0);
        range.prefer_huge_pages();
        range.populate(3 << 20).unwrap();
        assert!(range.huge_bytes() <= range.len() as u64);
        let at = range.base().as_ptr();
        // SAFETY: within the range, which only this test uses.
        unsafe {
            let size = kernel_page_bytes();
            at.add(2 * size).write(7);
            range.discard(2 * size, size).unwrap();
            assert_eq!(at.add(2 * size).read(), 0);
        }
    }
}
