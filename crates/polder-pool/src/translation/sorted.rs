//! A translation to learn from: a sorted map from page ids to frames, behind a lock.
//!
//! It is slow and complete: it has what every design has to answer, and nothing else.
//! `docs/adding-a-translation.md` walks through it. Built with the feature `teaching` alone.
//!
//! 1. The map says in which frame a page is.
//! 2. The state word of that frame says whether it can be read, and which version it has.
//!
//! * `SORTED-1` What the map says of a page is true of its frame's word while the lock is held. A word
//!   that was read under the lock is the page's; whatever happens afterwards, the word changes, and
//!   the reader fails to validate (`TABLE-2`).

#![cfg(not(loom))]

use std::collections::BTreeMap;
use std::sync::Mutex;

use polder_format::{PageId, PageNo, SpaceId};

use super::seam::{Footprint, Translation, TranslationConfig, Words};
use crate::error::PoolError;
use crate::frame::Frames;
use crate::latch::{FrameId, Latches, Resolved, StateCell, StateWord, Version};
use crate::machine::{OS_PAGE_BYTES, Table};
use crate::page::LinkRef;
use crate::sync::lock;

/// A sorted map behind a lock: a translation to learn from.
#[derive(Debug)]
pub struct Sorted {
    frames: Mutex<BTreeMap<PageId, FrameId>>,
    /// One for each frame. They stay where they are while the pool lives (`POOL-2`).
    words: Table<StateCell>,
}

impl Sorted {
    fn word(&self, frame: FrameId) -> &StateCell {
        &self.words.all()[frame.get() as usize]
    }
}

impl Words for Sorted {
    /// All that a lookup must know of a space is its number.
    type Directory = SpaceId;

    /// A word, and what an entry of a B-tree takes on average.
    fn bytes_per_frame() -> u64 {
        (size_of::<StateCell>() + 2 * size_of::<(PageId, FrameId)>()) as u64
    }

    fn footprint(&self) -> Footprint {
        let translation_bytes = self.words.len() as u64 * Self::bytes_per_frame();
        Footprint { translation_bytes, ..Footprint::default() }
    }

    fn open(&self, space: SpaceId) -> SpaceId {
        space
    }

    fn for_each_present(&self, space: &SpaceId, visit: &mut dyn FnMut(PageNo)) {
        let pages: Vec<PageId> = lock(&self.frames).keys().copied().collect();
        pages.iter().filter(|page| page.space() == *space).for_each(|page| visit(page.page()));
    }

    fn state<'p>(&'p self, space: &'p SpaceId, page: PageNo) -> Option<&'p StateCell> {
        lock(&self.frames).get(&PageId::new(*space, page)).map(|frame| self.word(*frame))
    }

    /// F4 and F5: the map leads to the word, and the word is in flight, in one step.
    fn claim<'p>(
        &'p self,
        _: &Latches,
        space: &'p SpaceId,
        page: PageNo,
        frame: FrameId,
    ) -> Result<Option<&'p StateCell>, PoolError> {
        let (mut resident, page) = (lock(&self.frames), PageId::new(*space, page));
        if resident.contains_key(&page) {
            return Ok(None);
        }
        resident.insert(page, frame);
        let claimed = self.word(frame).claim();
        debug_assert!(claimed, "SORTED-1: frame {frame:?} is in use");
        Ok(Some(self.word(frame)))
    }

    /// E7 and E8: the map leads here no more, and then the word is 0.
    fn remove(
        &self,
        _: &Latches,
        space: &SpaceId,
        page: PageNo,
        frame: FrameId,
        end: impl FnOnce(&StateCell),
    ) {
        let mut resident = lock(&self.frames);
        let removed = resident.remove(&PageId::new(*space, page));
        debug_assert_eq!(removed, Some(frame), "SORTED-1");
        end(self.word(frame));
    }

    /// P5: words belong to frames here, so that the page gets another one.
    fn relocate(
        &self,
        space: &SpaceId,
        page: PageNo,
        (cell, held): (&StateCell, StateWord),
        (to, version): (FrameId, Version),
    ) {
        let mut resident = lock(&self.frames);
        let held = held.in_frame(to, version);
        let received = self.word(to).receive(held);
        debug_assert!(received, "SORTED-1: frame {to:?} is in use");
        resident.insert(PageId::new(*space, page), to);
        cell.clear();
        self.word(to).put_back(held);
    }
}

impl Translation for Sorted {
    const NAME: &'static str = "sorted";
    type Words = Sorted;

    fn new(config: TranslationConfig) -> Result<Sorted, PoolError> {
        // Frame 0 does not exist.
        let words = Table::new("state words", config.frames as usize + 1, OS_PAGE_BYTES)?;
        Ok(Sorted { frames: Mutex::default(), words })
    }

    fn words(&self) -> &Sorted {
        self
    }

    /// Steps 1 and 2. The word before the frame's bytes: the pool validates it afterwards.
    fn resolve<'p>(
        &'p self,
        frames: &'p Frames,
        _: &'p SpaceId,
        link: LinkRef<'_>,
    ) -> Option<Resolved<'p>> {
        let resident = lock(&self.frames);
        let frame = *resident.get(&PageId::from_link(link.load()))?;
        let cell = self.word(frame);
        let word = cell.read(); // SORTED-1
        Some(Resolved { cell, word, frame, page: frames.page(frame), misplaced: false })
    }
}
