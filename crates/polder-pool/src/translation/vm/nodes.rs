//! Step 5: on which node of memory a page lies, while its address stays (vmcache-n-2026, 2.1).
//!
//! Memory comes from the node of the fastest tier, which was said of all addresses when they were mapped.
//! A page that is loaded into a slower tier is moved there with others, soon after. (The paper has `mbind`
//! say for each page, when it is loaded, of which node it is to be. That makes a mapping of each run of
//! pages of one node, of which a process may have 65530, and all other faults wait while mappings are cut.
//! And to move one page by itself costs as much as many: the kernel first empties lists of all processors.)

#![cfg(not(loom))]

use std::ptr::NonNull;

use polder_format::PageSize;

use crate::machine::{Moved, NodeId, PageMoves, kernel_page_bytes, move_pages};
use crate::sync::atomic::{AtomicU64, Ordering};
#[cfg(test)]
use crate::sync::{Mutex, lock};
use crate::translation::seam::TranslationConfig;

/// How the kernel is asked for memory of a node.
#[derive(Debug)]
pub(super) struct Placer {
    page_size: PageSize,
    moves: PageMoves,
    /// System calls that moved pages.
    calls: AtomicU64,
    /// Of each batch every so many-th page meets with this, from the first on: for tests on machines whose
    /// kernel moves them all.
    #[cfg(test)]
    refusal: Mutex<Option<(usize, Moved)>>,
}

impl Placer {
    pub(super) fn new(config: &TranslationConfig) -> Placer {
        let TranslationConfig { page_size, page_moves: moves, .. } = *config;
        Placer {
            page_size,
            moves,
            calls: AtomicU64::new(0),
            #[cfg(test)]
            refusal: Mutex::default(),
        }
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Has the kernel move the memory of pages to this node. Gives what became of each: a page that
    /// has moved in part stays, and what has moved of it is to be moved back.
    ///
    /// # Safety
    /// They are pages of ours.
    pub(super) unsafe fn move_to(&self, pages: &[NonNull<u8>], node: NodeId) -> Vec<Moved> {
        let parts: Vec<_> = pages.iter().flat_map(|page| self.parts(*page)).collect();
        let batch = self.moves.batch as usize * self.parts_a_page();
        // SAFETY: the caller's.
        let (moved, calls) = unsafe { move_pages(&parts, node, (batch, self.moves.mode)) };
        self.calls.fetch_add(calls, Ordering::Relaxed);
        #[cfg(test)]
        let moved = self.refused(moved);
        let all = |parts: &[Moved]| {
            let not_there = parts.iter().copied().filter(|moved| *moved != Moved::There);
            // A refusal lasts; what is in use may not be a moment later.
            not_there.max_by_key(|moved| *moved == Moved::Refused).unwrap_or(Moved::There)
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

#[cfg(test)]
impl Placer {
    pub(super) fn refuse(&self, each: usize, with: Moved) {
        *lock(&self.refusal) = Some((each, with));
    }

    fn refused(&self, mut moved: Vec<Moved>) -> Vec<Moved> {
        if let Some((each, with)) = *lock(&self.refusal) {
            moved.iter_mut().step_by(each).for_each(|moved| *moved = with);
        }
        moved
    }
}
