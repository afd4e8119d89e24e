//! Copy-on-write latches: a page is changed in another frame while others go on reading it
//! (scalecache-2025 3.2).
//!
//! A reader that descends by [`Space::snapshot`] holds one page at a time, by the slice of its
//! group of cores, and reads it as it was at some moment (`operation/snapshot.rs`, N1 to N5): no
//! node is validated, and a change keeps nobody waiting. A writer that changes a page by
//! [`Space::shadow`] copies it to a *spare* frame, works there, and lets the page's word lead
//! there when all is done. The old frame is *retired*: it can be a spare again when nobody holds
//! it any more. What a snapshot says may be out of date, so that this is for pages whose readers
//! notice when they are misplaced: nodes with fences and right links. Leaves are held by slices
//! and changed in their frames.
//!
//! ```text
//! C1  the page-move gate, shared, tried, and no sweep under way; a spare frame: the one that the
//!     page prefers if it is free, else a retired one that nobody holds, else a free one.
//!     None: the page is changed in its frame
//! C2  CAS the very word seen -> being copied
//! C3  pinned, or being written: seal, wait for no holders as any writer, change it in its
//!     frame (POOL-4, POOL-7)
//! C4  fence Release; copy the page to the spare frame
//! C5  change the copy; log; stamp
//! C6  metadata of the spare: page, physical page number, imaged; written := never. Of the old
//!     one: as P5
//! C7  word := (spare, its version), free; by frame: as in a promotion, but being copied all the
//!     time
//! C8  the old frame is retired: a queue, from which C1 takes it when nobody holds it; or free at
//!     once, if nobody holds it and the page prefers it. Not changed at all: the word is put back
//! ```
//!
//! C1 to C4 are [`View::shadow`], C5 is its caller's, C6 to C8 come when the [`Shadow`] goes.
//!
//! * `COW-1` While a page is being copied, nothing is written to the frame that its word names,
//!   and nobody else changes it, shares it, writes it back or evicts it.
//! * `COW-2` What a reader holds (N3 to N1) does not change: it was named by the word at N3, and a
//!   frame is written to only by a thread that has the word that names it exclusively while it has
//!   no holders (`HOLD-2`), or by one that has got it as a frame that holds no page.
//! * `COW-3` A retired frame is given to nobody before each of its slices was zero once, seen
//!   behind a SeqCst fence behind C7. A reader adds to its slice first and looks at the word then:
//!   it finds that the word has gone on, or is seen. Zero once is enough, as no word speaks of the
//!   frame any more: a reader that adds later undoes it.
//! * `COW-4` A page whose frame somebody has noted (a pin, a write under way) does not change it.
//!
//! During a sweep of a checkpoint nodes are changed in their frames, since a dirty page must not
//! change its frame then (`frame/moves.rs`). A thread that holds nothing (an optimistic reader:
//! batches, scans of cold leaves, the descents of splits and merges) does not take a page that is
//! being copied for valid: its child may have changed already, in its frame, under the same
//! operation, and both must be seen, or none. A node whose preferred frame is free goes back
//! there, with probability 1/32 at an access, by C1 to C8 with nothing changed: that disturbs its
//! readers no more than a change does. Leaves do not: a reader that holds one validates it.
//!
//! Different from the paper: its frames have an indirection of their own, between a page's
//! metadata and its bytes; ours have none, and the page changes its frame, as in a promotion. It
//! keeps extra frames for copies; we take free ones of the pool. Its readers wait while a page is
//! latched to be copied; ours need not, since nothing is written to what they read. It says
//! nothing of the order between publishing a frame and looking at its pins (`COW-3`):
//! `loom_tests/copies.rs` shows what becomes of it without.
//!
//! [`Space::snapshot`]: crate::Space::snapshot
//! [`Space::shadow`]: crate::Space::shadow

#![cfg(not(loom))]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use crate::latch::{Exclusive, FrameId, Optimistic, Restart};
use crate::shared::{Shared, View};
use crate::sync::RwLockReadGuard;
use crate::sync::atomic::{Ordering, fence};
use crate::thread::Counter;
use crate::translation::{Translation, Words};

/// Retired frames that are kept for the next copies, and which part of the pool at most; more go
/// back to all others.
const MOST_RETIRED: usize = 64;
const RETIRED_PART: usize = 64;
/// Instead of which frame spares are taken: one for all, so that they lie together, where pages
/// lie that cannot have their own, and far from where the next new pages want to lie.
const SPARES: FrameId = FrameId::FIRST;

impl<'p, T: Translation> View<'p, T> {
    /// C1 to C4: the page that was read, to be changed by this thread alone.
    pub(crate) fn shadow(self, page: Optimistic<'p>) -> Result<Shadow<'p, T>, Restart> {
        // C1  a frame for the copy; without one the page is changed in its frame
        let spare = self.may_copy().and_then(|no_sweep| {
            self.shared.spare_for_copy(self, &page).map(|to| Spare { view: self, to, no_sweep })
        });
        let Some(spare) = spare else { return page.try_upgrade().map(Shadow::from) };
        let (shared, to) = (self.shared, spare.to);
        let put_back = |_: &Restart| shared.core.frames.retired.put_first(to);
        // C2  the word: being copied
        let copied = page.try_copy().inspect_err(put_back)?;
        // C3  a page that somebody has noted stays in its frame (COW-4)
        if copied.must_stay() {
            shared.core.frames.retired.put_first(to);
            return copied.seal().map(Shadow::from);
        }
        // C4  the copy; C5 is the caller's
        Ok(spare.begin(copied))
    }

    /// Moves a page to the frame that it prefers, if that is free: a change by a copy that changes
    /// nothing, so that readers are not disturbed by that either.
    #[cold]
    #[inline(never)]
    pub(crate) fn go_home(self, page: Optimistic<'p>, home: FrameId) {
        let core = &self.shared.core;
        let Some(no_sweep) = self.may_copy() else { return };
        if !core.frames.free.take_this(home) {
            return;
        }
        match page.try_copy() {
            Ok(copied) if !copied.must_stay() => {
                let mut shadow = Spare { view: self, to: home, no_sweep }.begin(copied);
                shadow.goes_home = true;
                core.counters.add(Counter::Promotions, 1);
            }
            _ => self.shared.give_frame(home),
        }
    }

    /// C1: dirty pages may move (P1).
    fn may_copy(self) -> Option<RwLockReadGuard<'p, ()>> {
        let moves = &self.shared.core.frames.moves;
        moves.enter().filter(|_| !moves.is_sweep_under_way())
    }
}

impl<T: Translation> Shared<T> {
    /// C1: a frame that nobody reads: the one that the page prefers, one that was retired, or any.
    fn spare_for_copy(&self, view: View<'_, T>, page: &Optimistic<'_>) -> Option<FrameId> {
        let core = &self.core;
        let number = page.id().page();
        let preferred = self.translation.preferred(&view.space.directory, number);
        let pins = core.latches.pins.as_ref()?;
        let frames = &core.frames;
        let part = frames.free.of(page.frame());
        // Inner pages, the hottest ones, do not go to slow memory for that.
        let in_tier = |frame: FrameId| frames.tiers().is_none() || frames.free.of(frame) == part;
        let free = preferred.filter(|frame| in_tier(*frame) && frames.free.take_this(*frame));
        free.or_else(|| {
            frames.retired.take(preferred, |frame| in_tier(frame) && pins.is_left(frame))
        })
        .or_else(|| match frames.tiers().is_some() {
            true => frames.free.take_in(part, Some(SPARES)),
            false => frames.free.take_instead_of(SPARES, part),
        })
    }

    /// C6 to C8: the page is in the frame of its copy from now on.
    fn publish_copy(&self, page: Exclusive<'_>, view: View<'_, T>, to: FrameId) {
        let core = &self.core;
        page.check_logged();
        let (meta, old) = (core.latches.meta(to), page.meta());
        let (id, from) = (old.page(), page.frame());
        // C6  the metadata of the spare, and of the old frame behind C7
        meta.assign_from(old, !page.is_changed() && !old.is_dirty(page.held()));
        let (cell, held) = (page.cell(), page.held());
        let marked = core.replacement.moves(from, to, id, held.is_marked());
        let held = held.with_mark(marked);
        if page.is_changed() {
            core.latches.note_write(to);
        }
        let _ = page.into_frame();
        // C7  the word leads to the copy
        let (directory, new) = (&view.space.directory, (to, meta.version()));
        self.translation.words().relocate(directory, id.page(), (cell, held), new);
        // Behind it: as long as the word names the old frame, that has its page.
        let (left_at, _) = core.latches.wraps.next(held.version());
        old.vacate(left_at);
        core.counters.add(Counter::Copies, 1);
        // C8  its home stays free for it, so that it can go back.
        let is_home = self.translation.preferred(directory, id.page()) == Some(from);
        if is_home && core.latches.pins.as_ref().is_some_and(|pins| pins.is_left(from)) {
            self.give_frame(from);
        } else {
            core.frames.retired.put(from);
        }
        self.reclaim_retired(MOST_RETIRED.min(core.frames.budget_frames as usize / RETIRED_PART));
    }
}

/// A page that this thread alone may change, as [`Exclusive`], to which it derefs. Where the
/// pool's readers take snapshots the change is made in a copy, and seen when this goes. (What it
/// derefs to belongs to it, and is not to be swapped with another.)
pub struct Shadow<'p, T: Translation> {
    page: ManuallyDrop<Exclusive<'p>>,
    /// Where it is changed, and will lie; none for one that is changed in its frame.
    copy: Option<Spare<'p, T>>,
    /// Published though nothing was changed.
    goes_home: bool,
}

/// A frame that nobody reads.
struct Spare<'p, T: Translation> {
    view: View<'p, T>,
    to: FrameId,
    /// No sweep begins meanwhile (P1).
    no_sweep: RwLockReadGuard<'p, ()>,
}

impl<'p, T: Translation> Spare<'p, T> {
    /// C4: the page, which is held for copying, is worked on in the copy from now on.
    fn begin(self, mut page: Exclusive<'p>) -> Shadow<'p, T> {
        let shared = self.view.shared;
        // The former word of that frame is gone, visibly, before any byte changes there: pairs
        // with the Acquire fence of validation, as behind a claim.
        fence(Ordering::Release);
        let bytes = shared.page_in(self.view.space, page.id().page(), self.to);
        // SAFETY: the frame is ours, and holds no page; nobody holds it by a slice (COW-3); stale
        // readers of its former page read it by `bytes` and will not validate.
        let mut copy = unsafe { bytes.to_write() };
        let size = copy.size();
        copy.move_from(page.page());
        page.work_in(bytes);
        shared.core.counters.add(Counter::MovedBytes, size as u64);
        Shadow { page: ManuallyDrop::new(page), copy: Some(self), goes_home: false }
    }
}

impl<T: Translation> fmt::Debug for Shadow<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shadow({:?} in {:?})", *self.page, self.copy.as_ref().map(|copy| copy.to))
    }
}

impl<'p, T: Translation> From<Exclusive<'p>> for Shadow<'p, T> {
    /// A page that is changed in its frame.
    fn from(page: Exclusive<'p>) -> Shadow<'p, T> {
        Shadow { page: ManuallyDrop::new(page), copy: None, goes_home: false }
    }
}

impl<'p, T: Translation> Deref for Shadow<'p, T> {
    type Target = Exclusive<'p>;
    fn deref(&self) -> &Exclusive<'p> {
        &self.page
    }
}

impl<'p, T: Translation> DerefMut for Shadow<'p, T> {
    fn deref_mut(&mut self) -> &mut Exclusive<'p> {
        &mut self.page
    }
}

impl<T: Translation> Drop for Shadow<'_, T> {
    fn drop(&mut self) {
        // SAFETY: `page` is not touched again: this is its end.
        let page = unsafe { ManuallyDrop::take(&mut self.page) };
        let Some(Spare { view, to, no_sweep }) = self.copy.take() else { return drop(page) };
        if self.goes_home || page.is_changed() {
            view.shared.publish_copy(page, view, to);
        } else {
            drop(page);
            view.shared.core.frames.retired.put_first(to);
        }
        drop(no_sweep);
    }
}
