//! The state word of a frame beside the page of which it speaks, its *tag* (`TABLE-1` to `TABLE-4`;
//! scalecache-2025 3.3, where the tag is looked at after the pin).
//!
//! A reader that finds frame f, by a table or because it takes the page to be there, reads the
//! frame's word, then its tag (Acquire), without a lock. If the tag is another page's, what led
//! there was stale: it looks on. If the tag is P's but the word was one of f's former life, then
//! the tag was stored after that life's word had become 0, so that validation sees 0 or a later
//! version, and fails. That is true of any frame f, however the reader came by it: by fingerprints,
//! by what the page prefers, or by a link.
//!
//! A frame bears P's tag without being P's for a moment: while an insertion finds out that P has an
//! entry (the word is 0: the reader asks the table all the same), and while P comes to f, leaves it
//! or moves (the word is in flight or exclusive: the reader waits, as for any page).
//!
//! A page that moves (P4, C7) goes from word to word, all under the exclusive hold on the old one:
//! the new frame's word 0 to (new frame, its version, exclusive); its tag := P; the table's entry
//! := the new frame, under the bucket's lock; the old tag := none; the old word := 0; the new word:
//! free. So no two words speak of P as free, a reader that asks the table always finds one of the
//! two, and one that waits for the old word looks for the page again (`TABLE-2`).

use polder_format::PageId;

use crate::latch::{StateCell, StateWord};
use crate::sync::atomic::{AtomicU64, Ordering};

/// A word and its tag. All zero: no page.
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub struct Tagged {
    cell: StateCell,
    page: AtomicU64,
}

impl Tagged {
    /// The word, whatever it speaks of.
    #[inline(always)]
    pub fn cell(&self) -> &StateCell {
        &self.cell
    }

    /// The page of which the word speaks.
    pub fn page(&self) -> PageId {
        PageId::from_link(self.page.load(Ordering::Acquire))
    }

    /// Whether the word speaks of this page, for a caller that holds what keeps that so.
    pub fn is_of(&self, page: PageId) -> bool {
        self.page.load(Ordering::Relaxed) == page.to_bits()
    }

    /// What the word was, if it speaks of this page. The word before the tag: if the tag is the
    /// page's and the word of an earlier life, then that life's end is visible to a reader that
    /// validates. Acquire pairs with the Release of `enter`.
    #[inline(always)]
    pub fn read(&self, page: PageId) -> Option<StateWord> {
        let word = self.cell.read();
        (self.page.load(Ordering::Acquire) == page.to_bits()).then_some(word)
    }

    /// The frame is for this page. Before the table leads here: a thread that finds the entry sees
    /// then that the page is not resident, and finds out by an insertion of its own that it is
    /// taken.
    pub fn enter(&self, page: PageId) {
        self.page.store(page.to_bits(), Ordering::Release);
    }

    /// The page, which is held here, moves to a frame that had none, and is `held` there until all
    /// of this is done; `lead` makes the table lead there. So at no time two words speak of the
    /// page as free, and a thread that finds the new one too early sees that it is held. (Held for
    /// copying, it can be read there already, and here still.)
    pub fn hand_over(&self, to: &Tagged, page: PageId, held: StateWord, lead: impl FnOnce()) {
        let received = to.cell.receive(held);
        debug_assert!(received, "TABLE-2: the frame of {held:?} is in use");
        to.enter(page);
        lead();
        self.leave();
        self.cell.clear();
        to.cell.put_back(held);
    }

    /// The frame is for no page. A life ends with its tag before its word; a claim that was not to
    /// be has no word.
    pub fn leave(&self) {
        self.page.store(0, Ordering::Release);
    }
}
