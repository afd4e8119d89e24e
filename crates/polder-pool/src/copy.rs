//! Copy-on-write latches: a page is changed in another frame while others go on reading it
//! (scalecache.txt 3.2).
//!
//! Who descends by [`Space::snapshot`] holds one page at a time, by the slice of its group of cores
//! (`pins.rs`), and reads it as it was at some moment: it validates nothing, and a change keeps
//! nobody waiting. Who changes a page by [`Space::shadow`] copies it to a *spare* frame, works there,
//! and lets the page's word lead there when all is done. The old frame is *retired*: it can be a
//! spare again when nobody holds it any more. What a snapshot says may be out of date, so that this
//! is for pages whose readers find out where they went astray: nodes with fences and right links.
//! `docs/protocols.md`, "Copies of nodes": `COW-1` to `COW-5`, C1 to C8.
//!
//! Different from the paper: its frames have an indirection of their own, between a page's metadata
//! and its bytes; ours have none, and the page changes its frame, as in a promotion. It keeps extra
//! frames for copies; we take free ones of the pool. Its readers wait while a page is latched to be
//! copied; ours need not, since nothing is written to what they read.

use std::collections::VecDeque;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use polder_format::PageId;

use crate::attempt::{Attempt, View};
use crate::counters::Counter;
use crate::error::PoolError;
use crate::guard::{Exclusive, Optimistic, Restart};
use crate::pins::GroupPins;
use crate::pool::{Shared, Space};
use crate::state::FrameId;
use crate::sync::atomic::{Ordering, fence};
use crate::sync::{Backoff, Mutex, RwLockReadGuard, lock};
use crate::translation::{LinkRef, Resolved, Translation};

/// Retired frames that are kept for the next copies; more go back to all others.
const MOST_RETIRED: usize = 64;
/// How many of them a copy looks at for one that nobody holds.
const LOOKS: usize = 8;

/// Frames that their pages left, and that somebody may still be reading, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Retired(Mutex<VecDeque<FrameId>>);

impl Retired {
    /// One of the oldest that nobody holds.
    fn take(&self, pins: &GroupPins) -> Option<FrameId> {
        let mut frames = lock(&self.0);
        for _ in 0..LOOKS.min(frames.len()) {
            let frame = frames.pop_front()?;
            if pins.is_left(frame) {
                return Some(frame);
            }
            frames.push_back(frame);
        }
        None
    }

    fn put(&self, frame: FrameId) {
        lock(&self.0).push_back(frame);
    }

    /// Takes out those that nobody holds, as long as more than `most` are left.
    fn drain(&self, pins: &GroupPins, most: usize) -> Vec<FrameId> {
        let mut frames = lock(&self.0);
        let mut over = frames.len().saturating_sub(most);
        let mut drained = Vec::new();
        frames.retain(|frame| {
            let goes = over > 0 && pins.is_left(*frame);
            over -= usize::from(goes);
            if goes {
                drained.push(*frame);
            }
            !goes
        });
        drained
    }
}

impl<T: Translation> Space<T> {
    /// Goes from a link to its page as [`Space::follow`] does, but lets go of all that the attempt
    /// holds and holds this page instead: until the next step its bytes stay as they are, also if
    /// the page changes meanwhile (`COW-2`). What the page says may be out of date, and so may be
    /// the link: the page may be another one by now, of any kind. `from` is the page of the link, of
    /// use only if the page is not resident.
    ///
    /// Waits if somebody has the page exclusively, so that this is not for who holds a latch. Only
    /// where [`Attempt::takes_snapshots`].
    ///
    /// # Errors
    /// `Restart` if the page is not resident, or its space is gone.
    #[cold]
    #[inline(never)]
    pub fn snapshot<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        link: LinkRef<'p>,
        from: Option<&Optimistic<'p>>,
    ) -> Result<Optimistic<'p>, Restart> {
        self.view().snapshot(attempt, link, from)
    }

    /// Holds a page to change it, by a copy where the pool's readers take snapshots: they go on
    /// reading it as it was until the guard goes. As [`Attempt::upgrade`]: never waits.
    ///
    /// Not for a page that readers take for one that does not change while they hold it: who holds
    /// a page by a snapshot then may read what is no longer so.
    ///
    /// # Errors
    /// `Restart` if the page is no longer as it was, or somebody holds it.
    pub fn shadow<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        page: Optimistic<'p>,
    ) -> Result<Shadow<'p, T>, Restart> {
        if attempt.takes_snapshots() {
            self.view().shadow(page)
        } else {
            attempt.upgrade(page).map(Shadow::from)
        }
    }
}

impl<'p, T: Translation> View<'p, T> {
    fn snapshot(
        self,
        attempt: &mut Attempt<'p>,
        link: LinkRef<'p>,
        from: Option<&Optimistic<'p>>,
    ) -> Result<Optimistic<'p>, Restart> {
        let core = &self.shared.core;
        let target = PageId::from_link(link.load());
        if target.space() != self.space.id || target.is_null() {
            let page = from.map_or(target, Optimistic::id);
            let what = "a link leads to another space";
            return Err(attempt.fail(PoolError::Broken { page, what }));
        }
        attempt.let_go();
        let freed = || self.space.freed.load(Ordering::Acquire);
        if from.is_none() {
            attempt.begin_snapshots(freed());
        }
        let mut backoff = Backoff::new();
        loop {
            let wraps = core.wraps.get();
            let Some(found) = self.find(target) else {
                // A link that is out of date leads to no miss.
                let is_so = from.is_none_or(Optimistic::stands);
                return Err(if is_so { attempt.miss(target, from) } else { Restart });
            };
            if found.word.is_readable() && attempt.hold_this(&found) {
                self.check_own(attempt)?;
                // COW-5
                if !from.is_none_or(Optimistic::stands) && !attempt.began_snapshots_at(freed()) {
                    return Err(Restart);
                }
                found.page.prefetch(0);
                if found.word.is_marked() {
                    attempt.access(found.cell, found.word);
                }
                return Ok(Optimistic::held(core, found, wraps));
            }
            backoff.wait();
        }
    }

    /// Where a page is that is resident; that which `resolve` may miss while it moves, too. By value:
    /// the page of the link is held no more.
    fn find(self, target: PageId) -> Option<Resolved<'p>> {
        let link = LinkRef::Id(target);
        let (translation, directory) = (&self.shared.translation, &self.space.directory);
        let frames = &self.shared.core.frames;
        let is_there =
            |found: &Resolved<'_>| !found.word.is_evicted() && !found.word.is_in_flight();
        let found = translation.resolve(frames, directory, link).filter(is_there);
        found
            .or_else(|| translation.resolve_elsewhere(frames, directory, target.page()))
            .filter(is_there)
            .or_else(|| {
                let cell = translation.state(directory, target.page())?;
                let word = cell.read();
                let frame = word.frame();
                // TABLE-2: by now the word may be another page's.
                let is_its = self.shared.core.frames.meta(frame).page() == target;
                is_its.then(|| {
                    let page = self.shared.page_in(self.space, target.page(), frame);
                    Resolved { cell, word, frame, page, astray: false }
                })
            })
            .filter(is_there)
    }

    /// C1 to C4.
    fn shadow(self, page: Optimistic<'p>) -> Result<Shadow<'p, T>, Restart> {
        let core = &self.shared.core;
        let spare = core
            .moves
            .enter()
            .filter(|_| !core.moves.is_sweep_under_way())
            .and_then(|moves| self.shared.spare_for_copy(self, &page).map(|to| (moves, to)));
        let Some((moves, to)) = spare else { return page.try_upgrade().map(Shadow::from) };
        let give_back = |_: &Restart| self.shared.give_frame(to);
        let mut copied = page.try_copy().inspect_err(give_back)?;
        let meta = copied.meta();
        // C3: what has its frame as its place stays there (COW-4).
        if meta.is_pinned() || meta.is_being_written() {
            self.shared.give_frame(to);
            return copied.seal().map(Shadow::from);
        }
        // The former word of that frame is gone, visibly, before any byte changes there: pairs with
        // the Acquire fence of validation, as behind a claim.
        fence(Ordering::Release);
        let bytes = self.shared.page_in(self.space, copied.id().page(), to);
        // SAFETY: the frame is ours, and holds no page; nobody holds it by a slice (COW-3); stale
        // readers of its former page read it by `bytes` and will not validate.
        let mut copy = unsafe { bytes.to_write() };
        let size = copy.size();
        copy.copy_from(copied.page(), 0, 0, size);
        copied.work_in(bytes);
        core.counters.add(Counter::MovedBytes, size as u64);
        Ok(Shadow { page: ManuallyDrop::new(copied), copy: Some(Copy { view: self, to, moves }) })
    }
}

impl<T: Translation> Shared<T> {
    /// C1: a frame that nobody reads: the one that the page prefers, one that was retired, or any.
    fn spare_for_copy(&self, view: View<'_, T>, page: &Optimistic<'_>) -> Option<FrameId> {
        let core = &self.core;
        let number = page.id().page();
        let preferred = self.translation.preferred(&view.space.directory, number);
        let preferred = preferred.filter(|frame| core.free.take_this(*frame));
        preferred
            .or_else(|| core.pins.as_ref().and_then(|pins| core.retired.take(pins)))
            .or_else(|| core.free.take_instead_of(page.frame()))
    }

    /// Gives retired frames that nobody holds to all others, but for `most`.
    pub(crate) fn reclaim_retired(&self, most: usize) {
        if let Some(pins) = &self.core.pins {
            let reclaimed = self.core.retired.drain(pins, most);
            reclaimed.into_iter().for_each(|frame| self.give_frame(frame));
        }
    }

    /// C6 to C8: the page is in the frame of its copy from now on.
    fn publish_copy(&self, page: Exclusive<'_>, view: View<'_, T>, to: FrameId) {
        let core = &self.core;
        page.check_logged();
        let (meta, old) = (core.frames.meta(to), page.meta());
        let (id, from) = (old.page(), page.frame());
        meta.assign(id, old.place(), false);
        meta.set_born(old.is_born());
        core.replacement.relocate(from, to);
        let (cell, held) = (page.cell(), page.held());
        let (left_at, _) = core.wraps.next(held.version());
        old.vacate(left_at);
        let _ = page.into_frame();
        let (directory, new) = (&view.space.directory, (to, meta.version()));
        self.translation.relocate(directory, id.page(), (cell, held), new);
        core.retired.put(from);
        core.counters.add(Counter::Copies, 1);
        self.reclaim_retired(MOST_RETIRED);
    }
}

/// A page that this thread alone may change, as [`Exclusive`], to which it derefs. Where the pool's
/// readers take snapshots the change is made in a copy, and seen when this goes.
pub struct Shadow<'p, T: Translation> {
    page: ManuallyDrop<Exclusive<'p>>,
    copy: Option<Copy<'p, T>>,
}

/// Where a page is changed, and will lie.
struct Copy<'p, T: Translation> {
    view: View<'p, T>,
    to: FrameId,
    /// No sweep begins meanwhile (P1).
    moves: RwLockReadGuard<'p, ()>,
}

impl<T: Translation> fmt::Debug for Shadow<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shadow({:?} in {:?})", *self.page, self.copy.as_ref().map(|copy| copy.to))
    }
}

impl<'p, T: Translation> From<Exclusive<'p>> for Shadow<'p, T> {
    /// A page that is changed in its place.
    fn from(page: Exclusive<'p>) -> Shadow<'p, T> {
        Shadow { page: ManuallyDrop::new(page), copy: None }
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
        let Some(Copy { view, to, moves }) = self.copy.take() else { return drop(page) };
        if page.is_changed() {
            view.shared.publish_copy(page, view, to);
        } else {
            drop(page);
            view.shared.give_frame(to);
        }
        drop(moves);
    }
}
