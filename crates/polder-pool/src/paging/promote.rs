//! Promotion: pages move to the frames that they prefer (predictive-2026 3.2, 5.1).
//!
//! A page that is read in another frame is moved now and then, with probability 1/32 at an access
//! if that demotes no other page, else 1/512: so hot pages soon lie in their predicted frames, and
//! cold ones never pay for a copy. Promotion is a hint: it only tries, and any obstacle ends it.
//! No step waits.
//!
//! ```text
//! P1  the page-move gate, shared, tried; if a sweep of a checkpoint is under way, only clean
//!     pages go on
//! P2  the page: CAS the very word seen -> exclusive; unpinned, not being written, its page id as
//!     expected
//! P3  its preferred frame: free: take it. Else its occupant Q: CAS -> exclusive, as in P2;
//!     a free frame for Q (none: give up); copy Q there, metadata, word := (new frame, its
//!     version), free
//! P4  copy the page into its preferred frame; metadata: page, physical page number, written,
//!     imaged; word := (frame, version)
//! P5  the old frame: page := none, version := the word's + 1; free
//! ```
//!
//! In the entry (`parts/chain_table.rs`), the word stays where it is and says another frame. By
//! frame, the page goes to another word, all under the exclusive hold on the old one
//! (`Tagged::hand_over`).
//!
//! `POOL-3` holds because each frame goes on with its own version. *Written* is carried as "clean"
//! (the new version) or "never". Why a sweep misses no page that moves is in `frame/moves.rs`. Q
//! goes to a frame of the node on which it lies.

#![cfg(not(loom))]

use polder_format::PageId;

use crate::latch::{Exclusive, FrameId, Optimistic, Resolved};
use crate::page::LinkRef;
use crate::shared::{Shared, View};
use crate::sync::aside;
use crate::sync::atomic::{Ordering, fence};
use crate::thread::{Counter, one_in};
use crate::tier::TierNo;
use crate::translation::{Translation, Words};

/// One access in so many moves a page to a frame that is free or whose page does not prefer it.
const PROMOTE_ONE_IN: u32 = 32;
/// One in so many moves it where another page must go that lies as it prefers.
const DEMOTE_ONE_IN: u32 = 512;

impl<T: Translation> View<'_, T> {
    /// An access to a page that was found in another frame than it prefers. (By its link alone, so
    /// that what was found need not be kept for this.)
    #[cold]
    #[inline(never)]
    pub(crate) fn maybe_promote(self, page: PageId) {
        if !one_in(PROMOTE_ONE_IN) {
            return;
        }
        let link = LinkRef::Id(page);
        let core = &self.shared.core;
        let translation = &self.shared.translation;
        let wraps = core.latches.wraps.get();
        let found = translation.resolve(&core.frames.memory, &self.space.directory, link);
        let preferred = translation.preferred(&self.space.directory, page.page());
        if let (Some(found), Some(preferred)) = (found, preferred)
            && page.space() == self.space.id
            && preferred != found.frame
            // A page of a slower tier comes there by another way (`migrate.rs`).
            && core.frames.tiers().is_none_or(|tiers| tiers.of(found.frame) == TierNo::FIRST)
        {
            aside(|| match core.latches.copies {
                // A reader that holds a leaf validates it, and would find that it has gone.
                true if !core.kinds.has_links(found.page) => (),
                true => self.go_home(Optimistic::new(&core.latches, found, wraps), preferred),
                false => self.shared.promote(self, page, found, preferred),
            });
        }
    }
}

impl<T: Translation> Shared<T> {
    fn promote(&self, view: View<'_, T>, page: PageId, found: Resolved<'_>, preferred: FrameId) {
        let core = &self.core;
        // P1
        let Some(_moves) = core.frames.moves.enter() else { return };
        // P2 slices first: a reader that holds the page by one would find it exclusive, and begin
        // again
        if !core.latches.has_no_holders(found.frame) {
            return;
        }
        let Some(held) = found.cell.upgrade(found.word) else { return };
        let promoted = Exclusive::new(&core.latches, found.cell, held, found.frame, found.page);
        if promoted.meta().page() != page || !self.may_move(&promoted) {
            return;
        }
        // P3  the frame that it prefers
        if core.frames.free.take_this(preferred) || self.vacate(preferred) {
            // P4 and P5
            self.carry(promoted, view, preferred);
            core.counters.add(Counter::Promotions, 1);
        }
    }

    /// Whether a page that we hold may lie elsewhere when we let it go.
    fn may_move(&self, page: &Exclusive<'_>) -> bool {
        let meta = page.meta();
        let moves_dirty = !self.core.frames.moves.is_sweep_under_way();
        !meta.is_pinned()
            && !meta.is_being_written()
            && self.core.latches.has_no_holders(page.frame())
            && (moves_dirty || !meta.is_dirty(page.held()))
    }

    /// P3: moves the page in this frame to a free one, and gives us the frame.
    fn vacate(&self, frame: FrameId) -> bool {
        let core = &self.core;
        let id = core.latches.meta(frame).page();
        let Some(space) = (!id.is_null()).then(|| self.space(id.space())).flatten() else {
            return false;
        };
        let is_preferred = self.translation.preferred(&space.directory, id.page()) == Some(frame);
        if is_preferred && !one_in(DEMOTE_ONE_IN / PROMOTE_ONE_IN) {
            return false;
        }
        let Some(cell) = self.state_of(&space, id.page()) else {
            return false;
        };
        let word = cell.read();
        if word.frame() != frame {
            return false;
        }
        let Some(held) = cell.upgrade(word) else { return false };
        let bytes = self.page_in(&space, id.page(), frame);
        let page = Exclusive::new(&core.latches, cell, held, frame, bytes);
        if page.meta().page() != id || !self.may_move(&page) {
            return false;
        }
        // On the same node: there it was first wanted, if it does not prefer this very frame. And in
        // the same tier.
        let near = core.frames.free.of(frame);
        let to = match core.frames.tiers().is_some() {
            true => core.frames.free.take_in(near, Some(frame)),
            false => core.frames.free.take_instead_of(frame, near),
        };
        let Some(to) = to else { return false };
        self.move_to(page, self.view(&space), to);
        true
    }

    /// P4 and P5: to a frame that is ours; the old one is free then.
    fn carry(&self, page: Exclusive<'_>, view: View<'_, T>, to: FrameId) {
        let from = page.frame();
        self.move_to(page, view, to);
        self.give_frame(from);
    }

    /// Moves a page to a frame that is ours; its old frame is ours then.
    fn move_to(&self, page: Exclusive<'_>, view: View<'_, T>, to: FrameId) {
        let id = page.meta().page();
        // The former word of that frame is gone, visibly, before any byte changes there: pairs
        // with the Acquire fence of validation, as behind a claim.
        fence(Ordering::Release);
        // P4  the bytes, what is known of the page, and, last of all, its word
        // SAFETY: the frame is ours, and holds no page; stale readers of its former one read it by
        // `bytes` and will not validate.
        let mut bytes = unsafe { self.page_in(view.space, id.page(), to).to_write() };
        bytes.move_from(page.page());
        self.publish_moved(page, view, to);
    }

    /// P4 and P5 of a page whose bytes are in its new frame, which is ours; the old one is ours then.
    pub(crate) fn publish_moved(&self, page: Exclusive<'_>, view: View<'_, T>, to: FrameId) {
        let core = &self.core;
        let (meta, old) = (core.latches.meta(to), page.meta());
        let id = old.page();
        meta.assign_from(old, !old.is_dirty(page.held()));
        let (cell, held) = (page.cell(), page.held());
        let marked = core.replacement.moves(page.frame(), to, id, held.is_marked());
        let held = held.with_mark(marked);
        self.translation.before_publish(to);
        // P5  before the word, so that nobody finds the page in two frames
        let (left_at, _) = core.latches.wraps.next(held.version());
        old.vacate(left_at);
        let _ = page.into_frame();
        let (directory, new) = (&view.space.directory, (to, meta.version()));
        self.translation.words().relocate(directory, id.page(), (cell, held), new);
        core.counters.add(Counter::MovedBytes, core.page_size().bytes() as u64);
    }
}
