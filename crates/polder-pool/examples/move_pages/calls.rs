//! The system calls that move pages between nodes of memory, and pages to move.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// What nearly every machine has as a page; the pages that are moved are of this size.
pub const PAGE_BYTES: usize = 4096;
const WORDS: usize = PAGE_BYTES / size_of::<u64>();

/// Of `move_pages2`, in the table of x86-64 that the patch of `kernel/` makes.
const SYS_MOVE_PAGES2: libc::c_long = 600;
/// A call of `move_pages2` takes no larger batches.
pub const MOST_BATCHED: libc::c_int = 16384;

/// Flags of `get_mempolicy`, `mbind` and `move_pages`, which libc lacks.
const MEMS_ALLOWED: libc::c_int = 1 << 2;
const MOVE: libc::c_int = 1 << 1;
const STRICT: libc::c_int = 1;

/// What a set of nodes is made of; the kernel takes one bit off.
const NODE_BITS: usize = 1024;
type NodeMask = [u64; NODE_BITS / 64];

/// How `move_pages2` moves pages: the kernel's `enum migrate_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Async = 0,
    SyncLight = 1,
    Sync = 2,
}

impl Mode {
    pub const ALL: [Mode; 3] = [Mode::Async, Mode::SyncLight, Mode::Sync];

    pub fn name(self) -> &'static str {
        match self {
            Mode::Async => "async",
            Mode::SyncLight => "sync-light",
            Mode::Sync => "sync",
        }
    }
}

/// The address of a page. A call that is given a wrong one says so, and touches nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Address(*const u8);

/// Anonymous pages, of which each is given its memory alone.
pub struct Pages {
    start: NonNull<u8>,
    count: usize,
}

// SAFETY: the memory belongs to no thread, and is read and written as atomic words.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Pages on this node, written.
    pub fn on_node(count: usize, node: i32) -> io::Result<Pages> {
        let pages = Pages::reserved(count)?;
        bind(pages.start, pages.bytes(), libc::MPOL_BIND, node)?;
        pages.write();
        Ok(pages)
    }

    /// As many pages of this node as it has, the rest of another, written.
    pub fn preferring(count: usize, node: i32) -> io::Result<Pages> {
        let pages = Pages::reserved(count)?;
        bind(pages.start, pages.bytes(), libc::MPOL_PREFERRED, node)?;
        pages.write();
        Ok(pages)
    }

    fn reserved(count: usize) -> io::Result<Pages> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, anywhere.
        let start = unsafe { libc::mmap(ptr::null_mut(), count * PAGE_BYTES, access, kind, -1, 0) };
        let start = NonNull::new(start.cast::<u8>());
        let start = start.filter(|start| start.as_ptr().cast() != libc::MAP_FAILED);
        let pages = Pages { start: start.ok_or_else(io::Error::last_os_error)?, count };
        // A kernel without huge pages does not know the call, and has none to keep away.
        // SAFETY: the range is the mapping.
        unsafe { libc::madvise(pages.start.as_ptr().cast(), pages.bytes(), libc::MADV_NOHUGEPAGE) };
        Ok(pages)
    }

    fn bytes(&self) -> usize {
        self.count * PAGE_BYTES
    }

    fn at(&self, page: usize) -> NonNull<u8> {
        assert!(page < self.count);
        // SAFETY: within the mapping.
        unsafe { self.start.add(page * PAGE_BYTES) }
    }

    fn words(&self, page: usize) -> &[AtomicU64; WORDS] {
        // SAFETY: a page is aligned and has so many words, which are mapped: a page that is given back
        // is not asked for.
        unsafe { self.at(page).cast().as_ref() }
    }

    fn write(&self) {
        for page in 0..self.count {
            self.words(page)[0].store(page as u64, Ordering::Relaxed);
        }
    }

    pub fn address(&self, page: usize) -> Address {
        Address(self.at(page).as_ptr())
    }

    pub fn addresses(&self) -> Vec<Address> {
        (0..self.count).map(|page| self.address(page)).collect()
    }

    /// A word of the page.
    pub fn read(&self, page: usize) -> u64 {
        self.words(page)[0].load(Ordering::Relaxed)
    }

    /// Copies a page over the same page of another range.
    pub fn copy_to(&self, to: &Pages, page: usize) {
        for (from, to) in self.words(page).iter().zip(to.words(page)) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Unmaps a page.
    ///
    /// # Safety
    /// Nobody reads or writes the page from now on.
    pub unsafe fn give_back(&self, page: usize) {
        // SAFETY: the page is of our mapping, and the caller's promise.
        unsafe { libc::munmap(self.at(page).as_ptr().cast(), PAGE_BYTES) };
    }

    /// Moves one page, by binding it to the node.
    pub fn bind_page(&self, page: usize, node: i32) -> io::Result<()> {
        bind(self.at(page), PAGE_BYTES, libc::MPOL_BIND, node)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and what borrowed it is gone.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes()) };
    }
}

/// Says of mapped memory where it is to be, and moves what is elsewhere.
fn bind(start: NonNull<u8>, bytes: usize, mode: libc::c_int, node: i32) -> io::Result<()> {
    let mut mask: NodeMask = [0; NODE_BITS / 64];
    mask[node as usize / 64] = 1 << (node % 64);
    let (mask, start) = (mask.as_ptr(), start.as_ptr());
    // SAFETY: the mask is as long as is said; the range keeps its content.
    let done = unsafe {
        libc::syscall(libc::SYS_mbind, start, bytes, mode, mask, NODE_BITS + 1, MOVE | STRICT)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The nodes whose memory we may use; none, where the kernel does not say.
pub fn nodes() -> Vec<i32> {
    let mut mask: NodeMask = [0; NODE_BITS / 64];
    let (mode, at) = (ptr::null_mut::<libc::c_int>(), ptr::null::<u8>());
    let bits = NODE_BITS + 1;
    // SAFETY: the mask is borrowed exclusively, and as long as is said; null asks for nothing.
    let done = unsafe {
        libc::syscall(libc::SYS_get_mempolicy, mode, mask.as_mut_ptr(), bits, at, MEMS_ALLOWED)
    };
    let has = |node: &i32| mask[*node as usize / 64] >> (node % 64) & 1 == 1;
    (0..NODE_BITS as i32).filter(|node| done == 0 && has(node)).collect()
}

/// The number of pages that were not moved and not tried, by the kernel's count.
fn result(done: libc::c_long) -> io::Result<usize> {
    usize::try_from(done).map_err(|_| io::Error::last_os_error())
}

/// Moves each page to its node, and tells where it is (or a negative error).
pub fn move_pages(pages: &[Address], nodes: &[i32], status: &mut [i32]) -> io::Result<usize> {
    assert!(pages.len() == nodes.len() && pages.len() == status.len());
    let (own, count) = (0, pages.len());
    let (pages, nodes, status) = (pages.as_ptr(), nodes.as_ptr(), status.as_mut_ptr());
    // SAFETY: the arrays are as long as is said; what the pages hold stays as it is.
    result(unsafe { libc::syscall(libc::SYS_move_pages, own, count, pages, nodes, status, MOVE) })
}

/// As `move_pages`: by this mode, and so many pages between one flush of the TLBs and the next.
pub fn move_pages2(
    pages: &[Address],
    nodes: &[i32],
    status: &mut [i32],
    mode: Mode,
    most_batched: libc::c_int,
) -> io::Result<usize> {
    assert!(pages.len() == nodes.len() && pages.len() == status.len());
    let (count, mode) = (pages.len(), mode as libc::c_int);
    let (pages, nodes, status) = (pages.as_ptr(), nodes.as_ptr(), status.as_mut_ptr());
    // SAFETY: as in `move_pages`; the patch gives the call these arguments.
    result(unsafe {
        libc::syscall(SYS_MOVE_PAGES2, count, pages, nodes, status, mode, most_batched)
    })
}

/// The error of `move_pages2` for no pages, with a mode and a size of batch that need not be.
pub fn refused(mode: libc::c_int, most_batched: libc::c_int) -> Option<i32> {
    let (count, none) = (0usize, ptr::null::<u8>());
    // SAFETY: of no pages nothing is read or written.
    let done =
        unsafe { libc::syscall(SYS_MOVE_PAGES2, count, none, none, none, mode, most_batched) };
    if done == 0 { None } else { io::Error::last_os_error().raw_os_error() }
}

/// Whether the kernel has `move_pages2`: it then knows that there is no such mode.
pub fn has_move_pages2() -> bool {
    refused(-1, 1) == Some(libc::EINVAL)
}

/// Where each page is, or a negative error.
pub fn nodes_of(pages: &[Address]) -> io::Result<Vec<i32>> {
    let mut status = vec![i32::MIN; pages.len()];
    let (own, count, none) = (0, pages.len(), ptr::null::<i32>());
    let (pages, written) = (pages.as_ptr(), status.as_mut_ptr());
    // SAFETY: the arrays are as long as is said; without nodes the call only looks.
    let done =
        unsafe { libc::syscall(libc::SYS_move_pages, own, count, pages, none, written, MOVE) };
    result(done).map(|_| status)
}

/// Pages that the kernel holds, as it does for a device that writes to them: it gives none of them to
/// a pipe's reader before the pipe is dropped.
pub struct Held {
    ends: [libc::c_int; 2],
}

impl Held {
    pub fn new(pages: &[Address]) -> io::Result<Held> {
        let mut ends = [0; 2];
        // SAFETY: two numbers are written.
        if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let held = Held { ends };
        // SAFETY: no memory of ours is concerned. A pipe has room for a page in each of its slots.
        unsafe { libc::fcntl(ends[1], libc::F_SETPIPE_SZ, pages.len() * PAGE_BYTES) };
        for page in pages {
            let part = libc::iovec { iov_base: page.0.cast_mut().cast(), iov_len: PAGE_BYTES };
            // SAFETY: the page is mapped, else the call fails.
            if unsafe { libc::vmsplice(ends[1], &part, 1, libc::SPLICE_F_NONBLOCK) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for end in self.ends {
            // SAFETY: the ends are ours.
            unsafe { libc::close(end) };
        }
    }
}

/// The cores that this thread may run on.
pub fn cores() -> Vec<usize> {
    // SAFETY: all zero is a set of no cores.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is borrowed exclusively, and as long as is said.
    unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
    // SAFETY: the numbers are within the set.
    (0..libc::CPU_SETSIZE as usize).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect()
}

/// Keeps this thread on a core.
pub fn stay_on(core: usize) {
    // SAFETY: all zero is a set of no cores, to which one is added; the call only reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}
