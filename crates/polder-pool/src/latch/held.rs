//! How a reader holds the pages on its way down.
//!
//! By default it does not: it reads, and validates afterwards. The other read modes are those of
//! systems that pin (scalecache-2025 3.1): a reader counts itself at each page that it comes to,
//! and releases the one before last, so that nobody changes or evicts what it reads. It still
//! validates: that fails where a word moves elsewhere (`translation/array/sparse.rs`).
//! Readers cannot keep a writer waiting: a writer announces itself in the word, and from then on
//! nobody begins to hold the page (`pending.rs`).
//!
//! * `WAY-1` A reader holds at most [`HELD_AT_ONCE`] pages, and waits for none while it holds one.
//! * `WAY-2` What is held is released when the attempt ends or begins again.

#![cfg(not(loom))]

use crate::latch::found::Resolved;
use crate::latch::latches::Latches;
use crate::latch::slices::Held;
use crate::latch::state::{StateCell, StateWord};

/// A page and the one that led to it.
const HELD_AT_ONCE: usize = 2;

/// A page that is held.
#[derive(Debug)]
struct HeldPage<'p> {
    cell: &'p StateCell,
    /// The slice that counts this hold; none if the state word counts it.
    slice: Option<Held>,
}

/// What an attempt holds.
#[derive(Debug, Default)]
pub(crate) struct Holds<'p>([Option<HeldPage<'p>>; HELD_AT_ONCE]);

impl<'p> Holds<'p> {
    /// Releases all but `parent`, and holds the page that was found if it is still as it was then;
    /// if not, it does not wait (`WAY-1`).
    #[inline(always)]
    pub(crate) fn step(
        &mut self,
        latches: &Latches,
        found: &Resolved<'p>,
        parent: Option<&'p StateCell>,
    ) -> bool {
        for slot in &mut self.0 {
            let is_parent =
                |held: &HeldPage<'_>| parent.is_some_and(|parent| std::ptr::eq(held.cell, parent));
            if !slot.as_ref().is_some_and(is_parent) {
                release(latches, slot);
            }
        }
        if self.0.iter().all(Option::is_some) {
            // The parent in both: it was come by twice.
            release(latches, &mut self.0[0]);
        }
        let slot = self.0.iter_mut().find(|slot| slot.is_none());
        slot.is_some_and(|slot| {
            *slot = hold(latches, found);
            slot.is_some()
        })
    }

    /// Holds the page that was found, if it is still as it was then.
    pub(crate) fn hold_this(&mut self, latches: &Latches, found: &Resolved<'p>) -> bool {
        self.0[0] = hold(latches, found);
        self.0[0].is_some()
    }

    /// Releases a page, of which its holder wants more than to read.
    pub(crate) fn release_page(&mut self, latches: &Latches, cell: &StateCell) {
        for slot in &mut self.0 {
            if slot.as_ref().is_some_and(|held| std::ptr::eq(held.cell, cell)) {
                release(latches, slot);
            }
        }
    }

    /// Releases all.
    #[inline(always)]
    pub(crate) fn clear(&mut self, latches: &Latches) {
        self.0.iter_mut().for_each(|slot| release(latches, slot));
    }
}

#[inline(always)]
fn hold<'p>(latches: &Latches, found: &Resolved<'p>) -> Option<HeldPage<'p>> {
    let cell = found.cell;
    if let Some(pins) = &latches.pins {
        let slice = pins.hold(found.frame, cell, found.word)?;
        return Some(HeldPage { cell, slice: Some(slice) });
    }
    let shared: StateWord = cell.try_share()?;
    if !found.word.still_stands(shared) {
        cell.unshare();
        return None;
    }
    Some(HeldPage { cell, slice: None })
}

#[inline(always)]
fn release(latches: &Latches, slot: &mut Option<HeldPage<'_>>) {
    match slot.take() {
        Some(HeldPage { slice: Some(slice), .. }) => {
            if let Some(pins) = &latches.pins {
                pins.release(slice);
            }
        }
        Some(HeldPage { cell, slice: None }) => cell.unshare(),
        None => {}
    }
}
