//! What a thread may do with a page follows from the guard that it holds.
//!
//! * [`Optimistic`]: may read, and must validate before it believes what it read. Holds nothing:
//!   no lock, no store, nothing to release.
//! * [`Exclusive`]: may read and write. Others wait, or fail to validate.
//! * [`Pin`]: the page stays resident; nothing may be read by it.
//!
//! Guards stay on their thread and never cross an `await`.

#![cfg(not(loom))]

use std::fmt;
use std::marker::PhantomData;

use polder_format::{Lsn, PageId, header_at};

use crate::latch::found::Resolved;
use crate::latch::latches::Latches;
use crate::latch::meta::FrameMeta;
use crate::latch::state::{FrameId, StateCell, StateWord};
use crate::page::{PageMut, PageRef};
use crate::thread::Holding;

/// Start the operation again: something changed while it was looked at, or a page must be loaded
/// first. What is the matter is in the [`Attempt`](crate::Attempt), so that this is only passed on,
/// by `?`, to the function that runs the operation ([`Space::run`](crate::Space::run)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart;

/// Guards are not `Send`.
type OnThread = PhantomData<*const ()>;

/// Where a page that is being read lies. In one word: what is returned by each step of a descent
/// has no byte more.
#[derive(Clone, Copy)]
struct Seat(u32);

impl Seat {
    const HELD: u32 = 1 << 31;

    #[inline(always)]
    fn new(frame: FrameId) -> Seat {
        debug_assert!(frame <= FrameId::MAX);
        Seat(frame.get())
    }

    /// The page is held by a slice until the attempt's next step: a writer that asks for it
    /// exclusively will not get it.
    fn held(self) -> Seat {
        Seat(self.0 | Seat::HELD)
    }

    #[inline(always)]
    fn is_held(self) -> bool {
        self.0 & Seat::HELD != 0
    }

    #[inline(always)]
    fn frame(self) -> FrameId {
        FrameId::new(self.0 & !Seat::HELD)
    }
}

/// Whether a writer has the page exclusively that will find its holder, and has changed nothing
/// (`HOLD-2`). To wait until it puts the word back would be to wait for a thread that waits for
/// the caller. (The arguments are parts of the page: a page whose address was taken would be kept
/// in memory on the way down.)
#[cold]
#[inline(never)]
fn is_asked_for(cell: &StateCell, seen: StateWord) -> bool {
    cell.peek().is_exclusive_of(seen)
}

/// A page that is being read without holding it: of a step of an operation, as
/// [`Space::follow`](crate::Space::follow). It is copied freely, and releases nothing.
#[derive(Clone, Copy)]
pub struct Optimistic<'p> {
    page: PageRef<'p>,
    cell: &'p StateCell,
    seen: StateWord,
    seat: Seat,
    wraps: u32,
    latches: &'p Latches,
    on_thread: OnThread,
}

impl fmt::Debug for Optimistic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Optimistic({:?})", self.seen)
    }
}

impl<'p> Optimistic<'p> {
    /// `wraps` was read before the word.
    #[inline(always)]
    pub(crate) fn new(latches: &'p Latches, resolved: Resolved<'p>, wraps: u32) -> Optimistic<'p> {
        Optimistic {
            page: resolved.page,
            cell: resolved.cell,
            seen: resolved.word,
            seat: Seat::new(resolved.frame),
            wraps,
            latches,
            on_thread: PhantomData,
        }
    }

    /// The same of a page that the attempt holds by a slice only.
    pub(crate) fn held(latches: &'p Latches, resolved: Resolved<'p>, wraps: u32) -> Optimistic<'p> {
        let seat = Seat::new(resolved.frame).held();
        Optimistic { seat, ..Optimistic::new(latches, resolved, wraps) }
    }

    /// The bytes, which may be changing: what is read of them counts once [`Optimistic::validate`]
    /// says so.
    #[inline(always)]
    pub fn page(&self) -> PageRef<'p> {
        self.page
    }

    /// Makes sure that everything read from the page so far was one state of it.
    ///
    /// # Errors
    /// `Restart` if the page was changed, latched exclusively, or has left its frame since.
    #[inline(always)]
    pub fn validate(&self) -> Result<(), Restart> {
        if self.stands() || (self.seat.is_held() && is_asked_for(self.cell, self.seen)) {
            Ok(())
        } else {
            Err(Restart)
        }
    }

    /// The same for a caller that does not know whether the page is still held.
    #[inline(always)]
    pub(crate) fn stands(&self) -> bool {
        self.cell.validate(self.seen, &self.latches.wraps, self.wraps)
    }

    /// The same page, to be kept beyond the attempt that came to it, which may have held it: it
    /// validates as long as nothing has changed.
    #[inline(always)]
    pub fn without_hold(&self) -> Optimistic<'p> {
        Optimistic { seat: Seat::new(self.frame()), ..*self }
    }

    /// The page's id. Means something only if the guard validates afterwards.
    pub fn id(&self) -> PageId {
        self.latches.meta(self.frame()).page()
    }

    pub(crate) fn cell(&self) -> &'p StateCell {
        self.cell
    }

    #[inline(always)]
    pub(crate) fn frame(&self) -> FrameId {
        self.seat.frame()
    }

    /// Whether others hold the page, by its word or by slices.
    pub(crate) fn is_held_by_others(&self) -> bool {
        !self.cell.peek().is_free() || !self.latches.has_no_holders(self.frame())
    }

    /// Holds the page exclusively, if it is still as it was. Waits a little for those that hold it
    /// to read.
    #[inline(always)]
    pub(crate) fn try_upgrade(self) -> Result<Exclusive<'p>, Restart> {
        let (cell, frame) = (self.cell, self.frame());
        let now = cell.peek();
        if !self.seen.still_stands(now) {
            return Err(Restart);
        }
        // Slices first: a thread that holds the page by one would find it exclusive, and restart.
        let held = if self.latches.has_no_holders(frame) { cell.upgrade(now) } else { None };
        let held = match held {
            Some(held) if self.latches.has_no_holders(frame) => held,
            others => {
                others.iter().for_each(|held| cell.put_back(*held));
                self.latches.take_when_left(cell, self.seen, frame, false).ok_or(Restart)?
            }
        };
        let exclusive = Exclusive::new(self.latches, self.cell, held, self.frame(), self.page);
        // The version may have come round to the one that we saw; the steps are visible now.
        if self.latches.wraps.get() == self.wraps { Ok(exclusive) } else { Err(Restart) }
    }

    /// Holds the page to be changed in another frame: C2. The page may have holders.
    pub(crate) fn try_copy(self) -> Result<Exclusive<'p>, Restart> {
        let now = self.cell.peek();
        if !self.seen.still_stands(now) {
            return Err(Restart);
        }
        let held = self.cell.begin_copy(now).ok_or(Restart)?;
        let exclusive = Exclusive::new(self.latches, self.cell, held, self.frame(), self.page);
        // As in `try_upgrade`; nothing was changed, and the word is put back.
        if self.latches.wraps.get() == self.wraps { Ok(exclusive) } else { Err(Restart) }
    }

    /// As `try_upgrade`, from the shared hold that this thread has on the page, and which it has
    /// again afterwards if that fails.
    pub(crate) fn upgrade_shared(self) -> Result<Exclusive<'p>, Restart> {
        let (cell, frame) = (self.cell, self.frame());
        let held = self.latches.take_when_left(cell, self.seen, frame, true).ok_or(Restart)?;
        Ok(Exclusive::new(self.latches, cell, held, frame, self.page))
    }
}

/// A page that this thread alone may write ([`Attempt::upgrade`](crate::Attempt::upgrade),
/// [`NewPage::latch`]), until this goes. A thread that has one neither loads pages nor waits for
/// more than latches.
///
/// In debug builds it panics when it goes, if the page was changed in a pool with a journal and the
/// change was neither logged ([`Change::commit`](crate::Change::commit)) nor declared to need no
/// log ([`Exclusive::set_unlogged`]).
pub struct Exclusive<'p> {
    page: PageRef<'p>,
    cell: &'p StateCell,
    held: StateWord,
    frame: FrameId,
    changed: bool,
    /// What was changed is in the log, or need not be.
    logged: bool,
    /// The whole page is in the group that will be logged.
    imaged: bool,
    latches: &'p Latches,
    on_thread: OnThread,
}

impl fmt::Debug for Exclusive<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exclusive({}, {:?})", self.id(), self.held)
    }
}

impl<'p> Exclusive<'p> {
    #[inline(always)]
    pub(crate) fn new(
        latches: &'p Latches,
        cell: &'p StateCell,
        held: StateWord,
        frame: FrameId,
        page: PageRef<'p>,
    ) -> Exclusive<'p> {
        let on_thread = PhantomData;
        Exclusive {
            page,
            cell,
            held,
            frame,
            changed: false,
            logged: false,
            imaged: false,
            latches,
            on_thread,
        }
    }

    /// The bytes, to read.
    #[inline(always)]
    pub fn page(&self) -> PageRef<'_> {
        self.page
    }

    /// The bytes, to write. The page counts as changed from now on.
    #[inline(always)]
    pub fn page_mut(&mut self) -> PageMut<'_> {
        self.changed = true;
        // SAFETY: we hold the page exclusively, and the borrow of `self` lasts as long as the
        // result.
        unsafe { self.page.to_write() }
    }

    /// The page's id, as its header says. (The beginning of the page is in the cache already.)
    #[inline]
    pub fn id(&self) -> PageId {
        PageId::from_link(self.page().u64(header_at::PAGE_ID))
    }

    /// Keeps the page resident beyond the latch (`POOL-7`). Not for a page that is being copied:
    /// it leaves this frame.
    pub(crate) fn pin(&self) -> Pin<'p> {
        Pin::new(self.latches.meta(self.frame))
    }

    /// The page is as it was, or what it holds concerns nobody yet: its change need not be logged.
    #[inline(always)]
    pub fn set_unlogged(&mut self) {
        self.logged = true;
    }

    pub(crate) fn set_imaged(&mut self) {
        self.imaged = true;
    }

    /// A6: the group that names this page ends at `lsn`.
    #[inline]
    pub(crate) fn stamp(&mut self, lsn: Lsn) {
        self.page_mut().set_u64(header_at::LSN, lsn.0);
        self.logged = true;
        if self.imaged {
            self.meta().set_imaged(true);
        }
    }

    /// The bytes, beyond the guard: for the holder of its latch.
    pub(crate) fn bytes(&self) -> PageRef<'p> {
        self.page
    }

    pub(crate) fn meta(&self) -> &'p FrameMeta {
        self.latches.meta(self.frame)
    }

    pub(crate) fn cell(&self) -> &'p StateCell {
        self.cell
    }

    pub(crate) fn held(&self) -> StateWord {
        self.held
    }

    pub(crate) fn frame(&self) -> FrameId {
        self.frame
    }

    /// G6: whether the page, which was freed, is lent, so that it leaves later (`LOAN-3`). The caller
    /// lets it go as it is then.
    pub(crate) fn leaves_later(&self) -> bool {
        // No write of it begins any more, and so none is under way.
        self.meta().await_written();
        self.meta().leave_when_returned()
    }

    /// C3: whether somebody has noted the frame, so that the page stays there (`COW-4`).
    pub(crate) fn must_stay(&self) -> bool {
        self.meta().is_pinned() || self.meta().is_being_written()
    }

    /// A page that is held for copying is changed in its frame after all.
    pub(crate) fn seal(mut self) -> Result<Exclusive<'p>, Restart> {
        self.held = self.cell.seal(self.held);
        if self.latches.has_no_holders_soon(self.frame) { Ok(self) } else { Err(Restart) }
    }

    /// What is read and written from now on is its copy.
    pub(crate) fn work_in(&mut self, copy: PageRef<'p>) {
        self.page = copy;
    }

    #[inline(always)]
    pub(crate) fn check_logged(&self) {
        debug_assert!(
            !self.changed || self.logged || !self.latches.is_logged || std::thread::panicking(),
            "{} was changed and not logged",
            self.id()
        );
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.changed
    }

    /// Takes the guard apart without releasing the latch.
    pub(crate) fn into_frame(self) -> FrameId {
        let frame = self.frame;
        std::mem::forget(self);
        frame
    }
}

impl Drop for Exclusive<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.check_logged();
        let mut version = self.held.version();
        if self.changed {
            let step;
            (version, step) = self.latches.wraps.next(version);
            if step {
                self.meta().set_never_written();
            }
            self.latches.note_write(self.frame);
        }
        self.cell.release(self.held, version);
    }
}

/// A page that was just made. It is pinned and, as nothing leads to it yet, it belongs to its
/// maker, which latches it when it is to be filled. (A latch held from the making on would be held
/// over the loading of other pages.)
#[derive(Debug)]
pub struct NewPage<'p> {
    id: PageId,
    page: PageRef<'p>,
    cell: &'p StateCell,
    latches: &'p Latches,
    _pin: Pin<'p>,
}

impl<'p> NewPage<'p> {
    /// From the page that its maker holds: releases it, pinned.
    pub(crate) fn new(made: Exclusive<'p>) -> NewPage<'p> {
        NewPage {
            id: made.meta().page(),
            page: made.page,
            cell: made.cell,
            latches: made.latches,
            _pin: made.pin(),
        }
    }

    /// The page's id.
    pub fn id(&self) -> PageId {
        self.id
    }

    /// Holds the page exclusively; waits at most for a write-back that copies it, and for readers
    /// that came to it with an old link.
    ///
    /// # Errors
    /// `Restart` only if the page is gone, with its space.
    pub fn latch(&self) -> Result<Exclusive<'p>, Restart> {
        let held = self.cell.latch().ok_or(Restart)?;
        // Readers that come with an old link go away again.
        self.latches.await_holders(held.frame());
        // As it is pinned it has not moved.
        let page = Exclusive::new(self.latches, self.cell, held, held.frame(), self.page);
        // The space may have been dropped, and the word serve another one.
        if page.meta().page() == self.id { Ok(page) } else { Err(Restart) }
    }
}

/// Keeps a page resident until it goes. Nothing may be read by it.
#[derive(Debug)]
pub struct Pin<'p> {
    meta: &'p FrameMeta,
    _holding: Holding,
}

impl<'p> Pin<'p> {
    /// The caller holds a latch on the page, or has it in flight.
    pub(crate) fn new(meta: &'p FrameMeta) -> Pin<'p> {
        meta.pin();
        Pin { meta, _holding: Holding::new() }
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.meta.unpin();
    }
}
