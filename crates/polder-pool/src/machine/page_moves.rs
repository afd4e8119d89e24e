//! Memory that goes from node to node while its addresses stay: `move_pages`, and `move_pages2`
//! (vmcache-n-2026, 3) where the kernel has it (`kernel/`).
//!
//! What either call returns does not say which pages have moved. `move_pages` stores no status for a
//! batch of which one page could not be moved, and ends at the first address that it does not like. So
//! whenever it says anything but "all", the kernel is asked where each page lies.

#![cfg(not(loom))]

use std::io;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use crate::machine::policy::NodeId;

/// How the kernel is asked to move pages from node to node, where a page has one address (`vm`).
///
/// ```
/// use polder_pool::{MoveMode, PageMoves};
///
/// // A page that somebody else has is left where it is.
/// let gentle = PageMoves { mode: MoveMode::Async, ..PageMoves::default() };
/// assert_eq!(gentle.batch, 512);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageMoves {
    /// Pages that are moved by one system call, from 1 to [`PageMoves::MOST`]. They are latched until
    /// it ends. By `move_pages2` the processors forget the old addresses of all of them at once.
    pub batch: u32,
    /// What the kernel does about a page that is in use elsewhere. By `move_pages`, where the kernel
    /// has no `move_pages2`, it waits for all ([`MoveMode::Sync`]).
    pub mode: MoveMode,
}

impl PageMoves {
    /// The most pages of one call.
    pub const MOST: u32 = 4096;
}

impl Default for PageMoves {
    /// As many as the paper's, and as the kernel moves together.
    fn default() -> PageMoves {
        PageMoves { batch: 512, mode: MoveMode::Sync }
    }
}

/// What the kernel does about a page that it cannot move at once: its `enum migrate_mode`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveMode {
    /// Nothing: the page stays.
    Async,
    /// It waits, but not for the device.
    SyncLight,
    /// It waits.
    #[default]
    Sync,
}

impl MoveMode {
    fn of_kernel(self) -> libc::c_int {
        match self {
            MoveMode::Async => 0,
            MoveMode::SyncLight => 1,
            MoveMode::Sync => 2,
        }
    }
}

/// What became of a page that was to go to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// It lies there.
    There,
    /// The node takes none: it has no memory left, or the kernel permits it not.
    Refused,
    /// It lies where it was: it was in use, or has no memory at all.
    Stays,
}

/// Only pages of this process that no other process maps.
const MOVE: libc::c_int = 1 << 1;
/// No status: the kernel stored none. It has negative numbers of errors, and nodes.
const UNTOLD: libc::c_int = libc::c_int::MIN;

/// Errors of a page, or of a call, that another try a moment later would meet again.
const REFUSALS: [libc::c_int; 4] = [libc::ENOMEM, libc::EACCES, libc::EPERM, libc::ENODEV];

/// Moves whole pages of the kernel, so many by one call at most; gives what became of each, and how many
/// calls it took.
///
/// # Safety
/// The addresses are those of kernel pages of mappings of ours.
pub(crate) unsafe fn move_pages(
    pages: &[NonNull<u8>],
    node: NodeId,
    (most, mode): (usize, MoveMode),
) -> (Vec<Moved>, u64) {
    let (mut moved, mut calls) = (Vec::with_capacity(pages.len()), 0);
    for batch in pages.chunks(most.max(1)) {
        let mut told = vec![UNTOLD; batch.len()];
        // SAFETY: the caller's.
        let all = unsafe { move_batch(batch, node, mode, &mut told) };
        calls += 1;
        if !matches!(all, Ok(true)) {
            // SAFETY: the caller's.
            unsafe { correct(batch, &mut told) };
        }
        let here = libc::c_int::from(node.get());
        moved.extend(told.iter().map(|status| match *status {
            at if at == here => Moved::There,
            error if all.is_err() || REFUSALS.iter().any(|refusal| error == -refusal) => {
                Moved::Refused
            }
            _ => Moved::Stays,
        }));
    }
    (moved, calls)
}

/// Whether this process may move its pages: a container may forbid it.
pub(crate) fn check_may_move() -> io::Result<()> {
    let none = ptr::null::<libc::c_int>();
    // SAFETY: of no pages.
    let done = unsafe { libc::syscall(libc::SYS_move_pages, 0, 0, none, none, none, MOVE) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// One call. Whether all pages are said to have moved.
///
/// # Safety
/// As [`move_pages`].
unsafe fn move_batch(
    pages: &[NonNull<u8>],
    node: NodeId,
    mode: MoveMode,
    told: &mut [libc::c_int],
) -> io::Result<bool> {
    let nodes = vec![libc::c_int::from(node.get()); pages.len()];
    let (count, pages, nodes, told) =
        (pages.len() as libc::c_ulong, pages.as_ptr(), nodes.as_ptr(), told.as_mut_ptr());
    let done = match number_of_move_pages2() {
        Some(number) => {
            let (mode, together) = (mode.of_kernel(), count.min(MOST_TOGETHER) as libc::c_int);
            // SAFETY: all lists are as long as is said, and the pages are the caller's.
            unsafe { libc::syscall(number, count, pages, nodes, told, mode, together) }
        }
        // SAFETY: as above.
        None => unsafe { libc::syscall(libc::SYS_move_pages, 0, count, pages, nodes, told, MOVE) },
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done == 0) }
}

/// Where each page lies, in place of what was told of it; errors that were told stay.
///
/// # Safety
/// As [`move_pages`].
unsafe fn correct(pages: &[NonNull<u8>], told: &mut [libc::c_int]) {
    let mut found = vec![UNTOLD; pages.len()];
    let (count, none) = (pages.len() as libc::c_ulong, ptr::null::<libc::c_int>());
    // SAFETY: both lists are as long as is said; without nodes nothing moves.
    let done = unsafe {
        let (pages, found) = (pages.as_ptr(), found.as_mut_ptr());
        libc::syscall(libc::SYS_move_pages, 0, count, pages, none, found, MOVE)
    };
    for (told, found) in told.iter_mut().zip(found) {
        let is_error = *told < 0 && *told != UNTOLD;
        if done == 0 && found >= 0 && !is_error {
            *told = found;
        } else if !is_error {
            *told = UNTOLD;
        }
    }
}

/// Of how many pages at most `move_pages2` has the processors forget the addresses at once.
const MOST_TOGETHER: libc::c_ulong = 16_384;

/// The number of `move_pages2` in a kernel with the patch of `kernel/`.
#[cfg(target_arch = "x86_64")]
const MOVE_PAGES2: Option<libc::c_long> = Some(600);
#[cfg(not(target_arch = "x86_64"))]
const MOVE_PAGES2: Option<libc::c_long> = None;

/// The number of the call `move_pages2`, if this kernel has it.
pub(crate) fn number_of_move_pages2() -> Option<libc::c_long> {
    static NUMBER: OnceLock<Option<libc::c_long>> = OnceLock::new();
    let find = || {
        let (none, no_mode) = (ptr::null::<u8>(), -1);
        let number = MOVE_PAGES2?;
        // SAFETY: of no pages, in a mode that there is not: a kernel that has the call refuses the mode.
        let done = unsafe { libc::syscall(number, 0, none, none, none, no_mode, 1) };
        let refused = io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
        (done == -1 && refused).then_some(number)
    };
    *NUMBER.get_or_init(find)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::machine::{Mapping, OS_PAGE_BYTES, kernel_page_bytes};

    /// On a machine with one node pages are there already; what was never written, and what is no
    /// address of ours, is not.
    #[test]
    fn each_page_is_told_of_truly() {
        let Some(first) = NodeId::with_memory(0) else { return };
        if let Err(why) = check_may_move() {
            println!("skipped: page_moves: {why}");
            return;
        }
        let page = kernel_page_bytes().max(OS_PAGE_BYTES);
        let mapping = Mapping::new("a test", 8 * page, page).unwrap();
        mapping.prefer_small_pages();
        // SAFETY: in the mapping.
        let at = |n: usize| unsafe { mapping.base().add(n * page) };
        // SAFETY: nobody else has the mapping.
        (0..8).filter(|n| *n != 3).for_each(|n| unsafe { at(n).write(1) });
        let pages: Vec<_> = (0..8).map(at).collect();
        for batch in [1, 3, 512] {
            // SAFETY: pages of our own.
            let (moved, calls) = unsafe { move_pages(&pages, first, (batch, MoveMode::Sync)) };
            let stays: Vec<_> = (0..8).filter(|n| moved[*n] != Moved::There).collect();
            assert_eq!(stays, [3], "{moved:?}");
            assert_eq!(calls, 8_usize.div_ceil(batch) as u64);
        }
    }

    /// A node that is not there moves nothing, and no page is said to lie there.
    #[test]
    fn a_node_that_is_not_there_gets_nothing() {
        let page = kernel_page_bytes();
        let mapping = Mapping::new("a test", 4 * page, page).unwrap();
        // SAFETY: nobody else has the mapping.
        unsafe { mapping.base().write(1) };
        let nowhere = NodeId::new(NodeId::MOST as u16 - 1);
        // SAFETY: a page of our own.
        let (moved, _) = unsafe { move_pages(&[mapping.base()], nowhere, (1, MoveMode::Sync)) };
        assert_eq!(moved, [Moved::Refused]);
    }
}
