//! State words by frame, and a table from page ids to frames: what `open`, `simd` and `swizzle` have
//! in common.
//!
//! `docs/protocols.md`, "Translations by table". A table may answer with a frame that holds
//! another page by now; the *tag* beside the state word tells (scalecache.txt 3.3, where it is
//! looked at after the pin).
//!
//! Since the tag tells, a lookup may do without the table: it looks first at the tag of the frame
//! where it takes the page to be, because the page prefers that frame (`preferred.rs`) or the link
//! says so (`swizzle/`). If the tag is the page's, that was one load, at an address that is known
//! before anything was read, and the page is read beside it; only for others is the table asked.

#![cfg(not(loom))]

use std::fmt::Debug;

use polder_format::{PageId, PageNo};

use super::directory::TableDirectory;
use super::page_hash::PageHash;
use super::preferred::known_here;
use super::tagged::Tagged;
use crate::error::PoolError;
use crate::frame::frames::Frames;
use crate::latch::found::Resolved;
use crate::latch::state::{FrameId, StateCell, StateWord, Version};
use crate::machine::memory::HUGE_PAGE_BYTES;
use crate::machine::table::{Table, Zeroed};
use crate::sync::atomic::{Ordering, fence};
use crate::translation::seam::Footprint;

/// A table from page ids to frames.
pub trait FrameTable: Debug + Sized + Send + Sync + 'static {
    /// An empty table for this many entries.
    fn new(frames: u32) -> Result<Self, PoolError>;

    /// Memory for one frame.
    fn bytes_per_frame() -> u64;

    /// Memory of the table.
    fn bytes(&self) -> u64;

    /// Gives frames that may hold the page to `accept`, until it takes one. An entry that is being
    /// moved may be missed.
    fn find<R>(
        &self,
        hash: PageHash,
        page: PageId,
        accept: impl FnMut(FrameId) -> Option<R>,
    ) -> Option<R>;

    /// As `find`, for who must not miss an entry that is being moved.
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

    /// The page's entry leads to frame `to` from now on, without a moment in which it leads nowhere.
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
    /// With the page's bytes; `astray` if it is in another frame than was looked at first.
    #[inline(always)]
    pub(crate) fn resolved(self, frames: &'p Frames, astray: bool) -> Resolved<'p> {
        let Found { cell, word, frame } = self;
        Resolved { cell, word, frame, page: frames.page(frame), astray }
    }
}

// SAFETY: all zero is a frame without a page, and it is atomics throughout.
unsafe impl Zeroed for Tagged {}

/// The state words of all frames, and the table that leads to them.
#[derive(Debug)]
pub struct ByFrame<F: FrameTable> {
    table: F,
    tagged: Table<Tagged>,
}

impl<F: FrameTable> ByFrame<F> {
    /// For so many frames.
    pub(crate) fn new(frames: u32) -> Result<ByFrame<F>, PoolError> {
        let tagged = Table::new("state words", frames as usize + 1, HUGE_PAGE_BYTES)?;
        tagged.memory().prefer_huge_pages();
        Ok(ByFrame { table: F::new(frames)?, tagged })
    }

    /// Memory for one frame.
    pub(crate) fn bytes_per_frame() -> u64 {
        F::bytes_per_frame() + size_of::<Tagged>() as u64
    }

    /// Memory of all, with so many bytes beside it.
    pub(crate) fn footprint(&self, beside: u64) -> Footprint {
        let tagged = self.tagged.memory().len() as u64;
        Footprint::on_huge_pages(self.table.bytes() + tagged + beside)
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

    fn holds(&self, frame: FrameId, page: PageId) -> bool {
        self.tagged(frame).is_of(page)
    }

    /// The page's state, for one who has set a flag before: "Two threads that must see each other".
    pub(crate) fn state(&self, page: PageId) -> Option<&StateCell> {
        fence(Ordering::SeqCst);
        let holds = |frame| self.holds(frame, page);
        Some(self.tagged(self.table.find_surely(PageHash::of(page), page, holds)?).cell())
    }

    /// F4 and F5: claims the page, which will be in this frame. `None` if it has an entry.
    pub(crate) fn claim(
        &self,
        directory: &TableDirectory,
        page: PageNo,
        frame: FrameId,
    ) -> Result<Option<&StateCell>, PoolError> {
        let page = directory.id(page);
        let tagged = self.tagged(frame);
        directory.enter();
        tagged.enter(page);
        // The frame itself bears the tag already.
        let holds = |other: FrameId| other != frame && self.holds(other, page);
        let inserted = self.table.insert(PageHash::of(page), page, frame, holds);
        if inserted != Inserted::Entered {
            tagged.leave();
            directory.leave();
            let what = "the part of the hash table where it belongs is full; use `array`";
            let full = Err(PoolError::Broken { page, what });
            return if inserted == Inserted::Full { full } else { Ok(None) };
        }
        let claimed = tagged.cell().claim();
        debug_assert!(claimed, "TABLE-2: frame {frame:?} is in use");
        fence(Ordering::SeqCst);
        Ok(Some(tagged.cell()))
    }

    /// E7 and E8: ends the entry of a page that the caller holds; `end` makes its word 0.
    pub(crate) fn remove(
        &self,
        directory: &TableDirectory,
        page: PageNo,
        frame: FrameId,
        end: impl FnOnce(&StateCell),
    ) {
        let page = directory.id(page);
        self.table.remove(PageHash::of(page), page, frame);
        let tagged = self.tagged(frame);
        tagged.leave();
        end(tagged.cell());
        directory.leave();
    }

    /// P5: the page, held exclusively, is in frame `to` from now on.
    pub(crate) fn relocate(
        &self,
        page: PageId,
        held: StateWord,
        (to, version): (FrameId, Version),
    ) {
        let from = held.frame();
        let held = held.in_frame(to, version);
        let lead = || self.table.replace(PageHash::of(page), page, from, to);
        self.tagged(from).hand_over(self.tagged(to), page, held, lead);
    }

    /// Calls `visit` for each page of the space whose word is not zero. A page that moves meanwhile
    /// may be missed, or visited twice.
    pub(crate) fn for_each_present(
        &self,
        directory: &TableDirectory,
        visit: &mut dyn FnMut(PageNo),
    ) {
        fence(Ordering::SeqCst);
        for tagged in self.tagged.all() {
            let page = tagged.page();
            if page.space() == directory.space && !tagged.cell().read_after_flag().is_evicted() {
                visit(page.page());
            }
        }
    }
}
