//! Step 5: on which node of memory a page lies, while its address stays (vmcache-n-2026, 2.1).
//!
//! Memory comes from the node of the fastest tier, which was said of all addresses when they were mapped.
//! A page that is loaded into a slower tier is moved there before it is read. (The paper has `mbind` say
//! for each page, when it is loaded, of which node it is to be. That makes a mapping of each run of pages of
//! one node, of which a process may have 65530, and all other faults wait while mappings are cut.)

#![cfg(not(loom))]

use std::ptr::NonNull;

use polder_format::PageSize;

use crate::machine::{Moved, NodeId, PageMoves, kernel_page_bytes, move_pages};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::translation::seam::TranslationConfig;

/// How the kernel is asked for memory of a node.
#[derive(Debug)]
pub(super) struct Placer {
    page_size: PageSize,
    first_node: Option<NodeId>,
    moves: PageMoves,
    /// System calls that moved pages.
    calls: AtomicU64,
}

impl Placer {
    pub(super) fn new(config: &TranslationConfig) -> Placer {
        let TranslationConfig { page_size, first_node, page_moves: moves, .. } = *config;
        Placer { page_size, first_node, moves, calls: AtomicU64::new(0) }
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Has the kernel put memory of this node behind a page. If it does not want to there is memory of
    /// another.
    ///
    /// # Safety
    /// It is a page of ours, in flight, of which nobody wants what is there.
    pub(super) unsafe fn place(&self, page: NonNull<u8>, node: NodeId) {
        if Some(node) == self.first_node {
            return;
        }
        for part in self.parts(page) {
            // SAFETY: the caller's. Volatile: others read it meanwhile by `bytes`, and do not validate.
            unsafe { part.write_volatile(0) };
        }
        // SAFETY: the caller's.
        unsafe { self.move_to(&[page], node) };
    }

    /// Has the kernel move the memory of pages to this node. Gives what became of each: a page that
    /// has moved in part stays.
    ///
    /// # Safety
    /// They are pages of ours.
    pub(super) unsafe fn move_to(&self, pages: &[NonNull<u8>], node: NodeId) -> Vec<Moved> {
        let parts: Vec<_> = pages.iter().flat_map(|page| self.parts(*page)).collect();
        // SAFETY: the caller's.
        let (moved, calls) = unsafe { move_pages(&parts, node, self.moves) };
        self.calls.fetch_add(calls, Ordering::Relaxed);
        #[cfg(test)]
        let moved = testing::refused(moved);
        let all = |parts: &[Moved]| {
            let not_there = parts.iter().copied().filter(|moved| *moved != Moved::There);
            // Without memory nothing helps; what is in use may not be a moment later.
            not_there.max_by_key(|moved| *moved == Moved::NoMemory).unwrap_or(Moved::There)
        };
        moved.chunks(self.parts_a_page()).map(all).collect()
    }

    /// The kernel's pages of a page.
    fn parts(&self, page: NonNull<u8>) -> impl Iterator<Item = NonNull<u8>> + use<> {
        let parts = self.parts_a_page();
        // SAFETY: in the page.
        (0..parts).map(move |part| unsafe { page.add(part * kernel_page_bytes()) })
    }

    fn parts_a_page(&self) -> usize {
        self.page_size.bytes() / kernel_page_bytes()
    }
}

/// Pages that the kernel does not move, for tests on machines whose kernel would.
#[cfg(test)]
pub(crate) mod testing {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static REFUSED: Cell<Option<(usize, Moved)>> = const { Cell::new(None) };
    }

    /// For this thread, of each batch every so many-th page meets with this, from the first on.
    pub(crate) fn refuse(each: usize, with: Moved) {
        REFUSED.set(Some((each, with)));
    }

    pub(super) fn refused(mut moved: Vec<Moved>) -> Vec<Moved> {
        if let Some((each, with)) = REFUSED.get() {
            moved.iter_mut().step_by(each).for_each(|moved| *moved = with);
        }
        moved
    }
}
