//! State words by frame, and a table from page ids to frames: what `open`, `simd` and `swizzle`
//! have in common.
//!
//! A table may answer with a frame that holds another page by now; the *tag* beside the state word
//! tells (`tagged.rs`; `TABLE-2`). An entry that is being moved (compaction of a chain) can be
//! missed; then the reader goes the way of a fault, whose insertion finds the entry under the lock.
//!
//! Claim (F4, F5): tag; insert under the bucket's lock, and if the page is there already, tag :=
//! none; word 0 to in flight. (A thread that finds the entry in between finds out by an insertion
//! of its own that the page is taken.) Abandon and retire (E7): delete from the table under the
//! bucket's lock, then tag := none, word := 0. (scalecache-2025, algorithm 3, never deletes the old
//! page's entry; left in, its lookup finds the frame, sees another tag, and looks again for ever.)
//!
//! Since the tag tells, a lookup may do without the table: it looks first at the tag of the frame
//! where it takes the page to be, because the page prefers that frame (`preferred.rs`) or the link
//! says so (`swizzle/`). If the tag is the page's, that was one load, at an address that is known
//! before anything was read, and the page is read beside it; only for others is the table asked.

#![cfg(not(loom))]

use std::fmt::Debug;
use std::marker::PhantomData;

use polder_format::{PageId, PageNo, SpaceId};

use super::directory::TableDirectory;
use super::page_hash::PageHash;
use super::preferred::known_here;
use super::tagged::Tagged;
use crate::error::PoolError;
use crate::frame::Frames;
use crate::latch::{FrameId, Latches, Resolved, StateCell, StateWord, Version};
use crate::machine::{HUGE_PAGE_BYTES, Table, Zeroed};
use crate::page::bytes::prefetch_line;
use crate::sync::atomic::{Ordering, fence};
use crate::translation::seam::{Footprint, Words};

/// A table from page ids to frames.
pub trait FrameTable: Debug + Sized + Send + Sync + 'static {
    /// An empty table for this many entries.
    fn new(frames: u32) -> Result<Self, PoolError>;

    /// Memory for one frame.
    fn bytes_per_frame() -> u64;

    /// Memory of the table.
    fn bytes(&self) -> u64;

    /// Asks the processor for where a search for this hash begins.
    fn prefetch(&self, hash: PageHash);

    /// Gives frames that may hold the page to `accept`, until it takes one. An entry that is being
    /// moved may be missed.
    fn find<R>(
        &self,
        hash: PageHash,
        page: PageId,
        accept: impl FnMut(FrameId) -> Option<R>,
    ) -> Option<R>;

    /// As `find`, for a caller that must not miss an entry that is being moved.
    fn find_surely(
        &self,
        hash: PageHash,
        page: PageId,
        holds: impl Fn(FrameId) -> bool,
    ) -> Option<FrameId>;

    /// Enters the page, unless it has an entry, which is one whose frame `holds` the page.
    fn insert(
        &self,
        hash: PageHash,
        page: PageId,
        frame: FrameId,
        holds: impl Fn(FrameId) -> bool,
    ) -> Inserted;

    /// Takes the page's entry out.
    fn remove(&self, hash: PageHash, page: PageId, frame: FrameId);

    /// The page's entry leads to frame `to` from now on, without a moment in which it leads
    /// nowhere.
    fn replace(&self, hash: PageHash, page: PageId, frame: FrameId, to: FrameId);
}

/// What became of a page that was to be entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// It has an entry now.
    Entered,
    /// It had one.
    Known,
    /// There is no room where its entry belongs.
    Full,
}

/// Where a page was found.
#[derive(Debug, Clone, Copy)]
pub struct Found<'p> {
    cell: &'p StateCell,
    word: StateWord,
    frame: FrameId,
}

impl<'p> Found<'p> {
    /// With the page's bytes; `misplaced` if it is in another frame than was looked at first.
    #[inline(always)]
    pub(crate) fn resolved(self, frames: &'p Frames, misplaced: bool) -> Resolved<'p> {
        let Found { cell, word, frame } = self;
        Resolved { cell, word, frame, page: frames.page(frame), misplaced }
    }
}

// SAFETY: all zero is a frame without a page, and it is atomics throughout.
unsafe impl Zeroed for Tagged {}

/// The state words of all frames, and the table that leads to them: the [`Words`] of designs whose
/// words belong to frames. A design keeps `B` with each open space.
#[derive(Debug)]
pub struct ByFrame<F: FrameTable, B = ()> {
    table: F,
    tagged: Table<Tagged>,
    beside: PhantomData<fn() -> B>,
}

impl<F: FrameTable, B> ByFrame<F, B> {
    /// For so many frames.
    pub(crate) fn new(frames: u32) -> Result<ByFrame<F, B>, PoolError> {
        let tagged = Table::new("state words", frames as usize + 1, HUGE_PAGE_BYTES)?;
        tagged.memory().prefer_huge_pages();
        Ok(ByFrame { table: F::new(frames)?, tagged, beside: PhantomData })
    }

    /// How many frames there are.
    pub(crate) fn frames(&self) -> u32 {
        self.tagged.len() as u32 - 1
    }

    #[inline(always)]
    pub(crate) fn tagged(&self, frame: FrameId) -> &Tagged {
        // SAFETY: there is one for each frame and one more, and tables and links hold only frames
        // that there are: those that `claim` was given.
        unsafe { self.tagged.get_unchecked(frame.get() as usize) }
    }

    /// The frame's word, if it speaks of the page. The frame is one that there is.
    #[inline(always)]
    pub(crate) fn read(&self, frame: FrameId, page: PageId) -> Option<Found<'_>> {
        let tagged = self.tagged(frame);
        // A branch, so that the page is read while the tag is still on its way.
        let word = tagged.read(page)?;
        Some(Found { cell: tagged.cell(), word, frame: known_here(frame) })
    }

    /// Where the page is by the table. An entry that is being moved may be missed.
    #[inline(always)]
    pub(crate) fn find(&self, page: PageId) -> Option<Found<'_>> {
        self.table.find(PageHash::of(page), page, |frame| self.read(frame, page))
    }

    /// Asks the processor for what leads to a page: the word of the frame where it is looked for first,
    /// and where the table is searched if there is none.
    #[inline(always)]
    pub(crate) fn prefetch(&self, page: PageId, first: Option<FrameId>) {
        match first {
            Some(frame) => prefetch_line(self.tagged(frame)),
            None => self.table.prefetch(PageHash::of(page)),
        }
    }

    fn holds(&self, frame: FrameId, page: PageId) -> bool {
        self.tagged(frame).is_of(page)
    }
}

impl<F: FrameTable, B: Debug + Default + Send + Sync + 'static> Words for ByFrame<F, B> {
    type Directory = TableDirectory<B>;

    fn bytes_per_frame() -> u64 {
        F::bytes_per_frame() + size_of::<Tagged>() as u64
    }

    fn footprint(&self) -> Footprint {
        Footprint::on_huge_pages(self.table.bytes() + self.tagged.memory().len() as u64)
    }

    fn open(&self, space: SpaceId) -> TableDirectory<B> {
        TableDirectory::new(space)
    }

    /// A page that moves meanwhile may be missed, or visited twice.
    fn for_each_present(&self, directory: &TableDirectory<B>, visit: &mut dyn FnMut(PageNo)) {
        fence(Ordering::SeqCst);
        for tagged in self.tagged.all() {
            let page = tagged.page();
            if page.space() == directory.space && !tagged.cell().read_after_flag().is_evicted() {
                visit(page.page());
            }
        }
    }

    fn present(&self, directory: &TableDirectory<B>) -> u64 {
        directory.present()
    }

    fn state<'p>(
        &'p self,
        directory: &'p TableDirectory<B>,
        page: PageNo,
    ) -> Option<&'p StateCell> {
        // Behind a flag that somebody set: `Words` says why.
        fence(Ordering::SeqCst);
        let page = directory.id(page);
        let holds = |frame| self.holds(frame, page);
        Some(self.tagged(self.table.find_surely(PageHash::of(page), page, holds)?).cell())
    }

    fn claim<'p>(
        &'p self,
        _: &Latches,
        directory: &'p TableDirectory<B>,
        page: PageNo,
        frame: FrameId,
    ) -> Result<Option<&'p StateCell>, PoolError> {
        let page = directory.id(page);
        let tagged = self.tagged(frame);
        directory.enter();
        tagged.enter(page);
        // F4  the frame itself bears the tag already
        let holds = |other: FrameId| other != frame && self.holds(other, page);
        let inserted = self.table.insert(PageHash::of(page), page, frame, holds);
        if inserted != Inserted::Entered {
            tagged.leave();
            directory.leave();
            let what = "the part of the hash table where it belongs is full; use `array`";
            let full = Err(PoolError::Broken { page, what });
            return if inserted == Inserted::Full { full } else { Ok(None) };
        }
        // F5
        let claimed = tagged.cell().claim();
        debug_assert!(claimed, "TABLE-2: frame {frame:?} is in use");
        fence(Ordering::SeqCst);
        Ok(Some(tagged.cell()))
    }

    fn remove(
        &self,
        _: &Latches,
        directory: &TableDirectory<B>,
        page: PageNo,
        frame: FrameId,
        end: impl FnOnce(&StateCell),
    ) {
        let page = directory.id(page);
        // E7
        self.table.remove(PageHash::of(page), page, frame);
        let tagged = self.tagged(frame);
        debug_assert!(tagged.is_of(page), "TABLE-2: {frame:?} is not the frame of {page}");
        tagged.leave();
        end(tagged.cell());
        directory.leave();
    }

    fn relocate(
        &self,
        directory: &TableDirectory<B>,
        page: PageNo,
        (_, held): (&StateCell, StateWord),
        (to, version): (FrameId, Version),
    ) {
        let (page, from) = (directory.id(page), held.frame());
        let held = held.in_frame(to, version);
        let lead = || self.table.replace(PageHash::of(page), page, from, to);
        self.tagged(from).hand_over(self.tagged(to), page, held, lead);
    }
}
