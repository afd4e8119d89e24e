//! Translation by a table that leads from a page id to a frame, with the state word beside the
//! frame: what [`Open`](super::Open) and [`Simd`](super::Simd) have in common.
//!
//! `docs/protocols.md`, "Translations by table". A table may answer with a frame that holds
//! another page by now; the *tag* beside the state word tells (scalecache.txt 3.3, where it is
//! looked at after the pin).
//!
//! Since the tag tells, a table may do without being asked: where pages prefer frames
//! (`preferred.rs`) a lookup looks first at the tag of the frame that the page prefers. If it is the
//! page's, that was one load, at an address that is known before anything was read, and the page is
//! read beside it; only for others is the table asked.

use std::fmt::Debug;
use std::sync::Arc;

use polder_format::{PageId, PageNo, SpaceId};

use super::chained::TableDirectory;
use super::guess::{Guess, Settles};
use super::page_hash::PageHash;
use super::preferred::known_here;
use super::swizzled::{Owners, RootSwip};
use super::tagged::Tagged;
use super::{Claim, Footprint, Placement, Translation, TranslationConfig};
use crate::error::PoolError;
use crate::found::Resolved;
use crate::frames::Frames;
use crate::link::LinkRef;
use crate::memory::{HUGE_PAGE_BYTES, Reservation};
use crate::parking::ParkingLot;
use crate::state::{FrameId, StateCell, StateWord, Version};
use crate::sync::atomic::{Ordering, fence};

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

/// What users call a table with a way to guess.
pub trait Named<G> {
    /// The name.
    const NAME: &'static str;
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

/// Translation by a table of frames, which is asked where the guess was wrong.
#[derive(Debug)]
pub struct Framed<F: FrameTable, G: Guess> {
    table: F,
    tagged: Reservation,
    frames: u32,
    guess: G,
}

impl<F: FrameTable + Named<G>, G: Guess> Framed<F, G> {
    #[inline(always)]
    fn tagged(&self, frame: FrameId) -> &Tagged {
        debug_assert!(frame.get() <= self.frames);
        // SAFETY: `new` reserved `frames + 1`, tables hold only frames that `claim` gave them, and
        // zeroed memory is a valid one.
        unsafe { self.tagged.base().cast::<Tagged>().add(frame.get() as usize).as_ref() }
    }

    /// The frame's word, if it speaks of the page.
    #[inline(always)]
    fn read(&self, frame: FrameId, page: PageId) -> Option<(&StateCell, StateWord, FrameId)> {
        let tagged = self.tagged(frame);
        // A branch, so that the page is read while the tag is still on its way.
        let word = tagged.read(page)?;
        Some((tagged.cell(), word, known_here(frame)))
    }

    #[inline(always)]
    fn ask_table(&self, page: PageId) -> Option<(&StateCell, StateWord, FrameId)> {
        self.table.find(PageHash::of(page), page, |frame| self.read(frame, page))
    }

    fn holds(&self, frame: FrameId, page: PageId) -> bool {
        self.tagged(frame).is_of(page)
    }

    /// Ends the entry of a page that the caller holds; `end` makes its word 0.
    fn take_out(
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
        directory.present.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<F: FrameTable + Named<G>, G: Guess> Translation for Framed<F, G> {
    const NAME: &'static str = F::NAME;
    const EVICTS: bool = true;
    const SETTLES: Settles = G::SETTLES;
    const NOT_BY_COPY: Option<&'static str> = match G::SETTLES {
        Settles::Link => Some("its links hold frames, which copies change"),
        _ => None,
    };
    type Directory = TableDirectory;

    fn new(config: TranslationConfig) -> Result<Framed<F, G>, PoolError> {
        let frames = config.frames;
        let bytes = (frames as usize + 1) * size_of::<Tagged>();
        let tagged = Reservation::new("state words", bytes, HUGE_PAGE_BYTES)?;
        tagged.prefer_huge_pages();
        Ok(Framed { table: F::new(frames)?, tagged, frames, guess: G::new(frames)? })
    }

    fn bytes_per_frame() -> u64 {
        F::bytes_per_frame() + G::bytes_per_frame() + size_of::<Tagged>() as u64
    }

    fn open(&self, space: SpaceId) -> Result<Arc<TableDirectory>, PoolError> {
        Ok(TableDirectory::new(space))
    }

    #[inline(always)]
    fn resolve<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p TableDirectory,
        link: LinkRef<'_>,
    ) -> Option<Resolved<'p>> {
        let swip = self.guess.swip(link, Some(&directory.root));
        let (page, guess) = self.guess.guess(swip, directory.space);
        if let Some(guess) = guess
            && let Some((cell, word, frame)) = self.read(guess, page)
        {
            return Some(Resolved { cell, word, frame, page: frames.page(frame), astray: false });
        }
        let (cell, word, frame) = self.ask_table(page)?;
        let astray = match G::SETTLES {
            Settles::Not => false,
            Settles::Page => true,
            Settles::Link => link.is_owning(),
        };
        Some(Resolved { cell, word, frame, page: frames.page(frame), astray })
    }

    /// An insertion that is about to find out that the page has an entry hides it for a moment,
    /// where that has the preferred frame.
    fn resolve_elsewhere<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p TableDirectory,
        page: PageNo,
    ) -> Option<Resolved<'p>> {
        if G::SETTLES == Settles::Not {
            return None;
        }
        let (cell, word, frame) = self.ask_table(directory.id(page))?;
        Some(Resolved { cell, word, frame, page: frames.page(frame), astray: false })
    }

    fn state<'p>(&'p self, directory: &'p TableDirectory, page: PageNo) -> Option<&'p StateCell> {
        // Behind a flag that somebody set: "Two threads that must see each other".
        fence(Ordering::SeqCst);
        let page = directory.id(page);
        let holds = |frame| self.holds(frame, page);
        Some(self.tagged(self.table.find_surely(PageHash::of(page), page, holds)?).cell())
    }

    fn place(
        &self,
        _: &Frames,
        directory: &TableDirectory,
        page: PageNo,
    ) -> Result<Placement, PoolError> {
        Ok(self.preferred(directory, page).map_or(Placement::Anywhere, Placement::Prefer))
    }

    #[inline(always)]
    fn preferred(&self, directory: &TableDirectory, page: PageNo) -> Option<FrameId> {
        self.guess.preferred(directory.id(page))
    }

    fn claim<'p>(
        &'p self,
        _: &Frames,
        directory: &'p TableDirectory,
        page: PageNo,
        frame: FrameId,
    ) -> Result<Option<Claim<'p>>, PoolError> {
        let page = directory.id(page);
        let tagged = self.tagged(frame);
        // SeqCst: before the entry, so that `is_quiet` misses none.
        directory.present.fetch_add(1, Ordering::SeqCst);
        tagged.enter(page);
        // The frame itself bears the tag already.
        let holds = |other: FrameId| other != frame && self.holds(other, page);
        let inserted = self.table.insert(PageHash::of(page), page, frame, holds);
        if inserted != Inserted::Entered {
            tagged.leave();
            directory.present.fetch_sub(1, Ordering::SeqCst);
            let what = "the part of the hash table where it belongs is full; use `array`";
            let full = Err(PoolError::Broken { page, what });
            return if inserted == Inserted::Full { full } else { Ok(None) };
        }
        let claimed = tagged.cell().claim();
        debug_assert!(claimed, "TABLE-2: frame {frame:?} is in use");
        fence(Ordering::SeqCst);
        Ok(Some(Claim { cell: tagged.cell(), frame, place: None }))
    }

    fn abandon(
        &self,
        directory: &TableDirectory,
        page: PageNo,
        claim: Claim<'_>,
        lot: &ParkingLot,
    ) {
        self.take_out(directory, page, claim.frame, |cell| cell.publish(StateWord::EVICTED, lot));
    }

    fn retire(&self, _: &Frames, directory: &TableDirectory, page: PageNo, frame: FrameId) {
        self.take_out(directory, page, frame, StateCell::clear);
    }

    fn relocate(
        &self,
        directory: &TableDirectory,
        page: PageNo,
        (_, held): (&StateCell, StateWord),
        (to, version): (FrameId, Version),
    ) {
        let (page, from) = (directory.id(page), held.frame());
        let held = held.in_frame(to, version);
        let lead = || self.table.replace(PageHash::of(page), page, from, to);
        self.tagged(from).hand_over(self.tagged(to), page, held, lead);
    }

    /// A page that moves meanwhile may be missed, or visited twice.
    fn for_each_present(&self, directory: &TableDirectory, visit: &mut dyn FnMut(PageNo)) {
        fence(Ordering::SeqCst);
        for frame in (1..=self.frames).map(FrameId::new) {
            let tagged = self.tagged(frame);
            let page = tagged.page();
            if page.space() == directory.space && !tagged.cell().read_after_flag().is_evicted() {
                visit(page.page());
            }
        }
    }

    fn is_quiet(&self, directory: &TableDirectory) -> bool {
        directory.present.load(Ordering::SeqCst) == 0
    }

    fn close(&self, _: &TableDirectory) {}

    fn owners(&self) -> Option<&Owners> {
        self.guess.owners()
    }

    fn root_swip(directory: &TableDirectory) -> Option<&RootSwip> {
        Some(&directory.root)
    }

    fn footprint(&self) -> Footprint {
        let bytes = self.table.bytes() + self.guess.bytes() + self.tagged.len() as u64;
        Footprint::on_huge_pages(bytes)
    }
}

#[cfg(test)]
mod tests {
    use polder_format::PageSize;

    use super::*;
    use crate::translation::Simd;

    /// A page that lies where it prefers is found without the table; one that does not is found
    /// though another claim of it has that frame for a moment.
    #[test]
    fn the_preferred_frame_is_looked_at_first() {
        const FRAMES: u32 = 100;
        let config = TranslationConfig { frames: FRAMES, page_size: PageSize::MIN };
        let (simd, lot) = (Simd::new(config).unwrap(), ParkingLot::new());
        let frames = Frames::new(FRAMES, PageSize::MIN, true, true).unwrap();
        let directory = simd.open(SpaceId::CATALOGUE).unwrap();
        let [near, far] = [1, 2].map(|number| PageNo::new(number).unwrap());
        let elsewhere = FrameId::new(FRAMES);
        let preferred = |page| simd.preferred(&directory, page).unwrap();
        for (page, frame) in [(near, preferred(near)), (far, elsewhere)] {
            let claim = simd.claim(&frames, &directory, page, frame).unwrap().unwrap();
            claim.cell.publish(StateWord::free(frame, Version::new(0)), &lot);
        }
        let resolve = |page| {
            let link = LinkRef::Id(directory.id(page));
            simd.resolve(&frames, &directory, link).map(|at| (at.frame, at.word, at.astray))
        };
        let free = |frame| StateWord::free(frame, Version::new(0));
        assert_eq!(resolve(near), Some((preferred(near), free(preferred(near)), false)));
        assert_eq!(resolve(far), Some((elsewhere, free(elsewhere), true)));

        let hides = simd.tagged(preferred(far));
        hides.enter(directory.id(far));
        assert_eq!(resolve(far).map(|(_, word, _)| word), Some(StateWord::EVICTED));
        let found = simd.resolve_elsewhere(&frames, &directory, far).unwrap();
        assert_eq!((found.frame, found.word), (elsewhere, free(elsewhere)));
        hides.leave();
    }
}
