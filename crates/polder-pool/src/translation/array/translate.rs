//! The array as a translation: the words, and a prediction where a page lies.

#![cfg(not(loom))]

use polder_format::{PageId, PageNo, SpaceId};

use super::chunk::ArrayDirectory;
use super::words::ArrayWords;
use crate::error::PoolError;
use crate::frame::Frames;
use crate::latch::{FrameId, Optimistic, Resolved};
use crate::page::bytes::prefetch_line;
use crate::page::{LinkRef, PageKinds, PageRef};
use crate::translation::parts::predict::{Blind, Predict, Predicts};
use crate::translation::parts::preferred::{Preference, speculate};
use crate::translation::seam::{PoolContext, ReadModes, Translation, TranslationConfig};

/// Array translation, with preferred frames (calico-2026): the state word of a page is found by its
/// number. The default.
pub type Array = Arrays<Preference>;
/// Array translation without preferred frames: pages lie anywhere.
pub type ArrayPlain = Arrays<Blind>;

/// Array translation, with a way to predict the frame of a page: [`Array`], [`ArrayPlain`] or
/// [`ArraySwizzled`](crate::ArraySwizzled).
#[derive(Debug)]
pub struct Arrays<G: Predict> {
    pub(super) words: ArrayWords,
    pub(super) prediction: G,
}

impl<G: Predict> Translation for Arrays<G> {
    const NAME: &'static str = match G::PREDICTS {
        Predicts::Nothing => "array-plain",
        Predicts::ByNumber => "array",
        Predicts::ByLink => "array-swizzled",
    };
    const READ_MODES: ReadModes = match G::PREDICTS {
        Predicts::ByLink => ReadModes::no_copies("its links hold frames, which copies change"),
        _ => ReadModes::ALL,
    };
    const SWIZZLES: bool = matches!(G::PREDICTS, Predicts::ByLink);
    type Words = ArrayWords;

    fn new(config: TranslationConfig) -> Result<Self, PoolError> {
        Ok(Arrays { words: ArrayWords::new(config)?, prediction: G::new(config) })
    }

    fn words(&self) -> &ArrayWords {
        &self.words
    }

    /// Steps 1 and 5.
    #[inline(always)]
    fn resolve<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p ArrayDirectory,
        link: LinkRef<'_>,
    ) -> Option<Resolved<'p>> {
        let (page, guess) = self.prediction.predict(link, directory.space);
        let cell = directory.cell(page.page())?;
        let word = cell.read();
        let (frame, misplaced) = match guess {
            Some(guess) => speculate(word, guess),
            None => (word.frame(), Self::SWIZZLES && link.is_in_page()),
        };
        Some(Resolved { cell, word, frame, page: frames.page(frame), misplaced })
    }

    #[inline(always)]
    fn target(link: LinkRef<'_>, space: SpaceId) -> PageId {
        G::target(link, space)
    }

    #[inline(always)]
    fn prefetch<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p ArrayDirectory,
        link: LinkRef<'_>,
    ) -> Option<PageRef<'p>> {
        let (page, guess) = self.prediction.predict(link, directory.space);
        prefetch_line(directory.cell(page.page())?);
        guess.map(|frame| frames.page(frame))
    }

    /// Step 4.
    fn resolve_elsewhere<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p ArrayDirectory,
        page: PageNo,
    ) -> Option<Resolved<'p>> {
        let (cell, word) = self.words.find_sparse(directory, page)?;
        let frame = word.frame();
        Some(Resolved { cell, word, frame, page: frames.page(frame), misplaced: false })
    }

    fn preferred(&self, directory: &ArrayDirectory, page: PageNo) -> Option<FrameId> {
        self.prediction.preferred(directory.id(page))
    }

    fn followed_unswizzled(
        &self,
        pool: &PoolContext<'_, Self>,
        directory: &ArrayDirectory,
        link: LinkRef<'_>,
        parent: Option<&Optimistic<'_>>,
    ) {
        G::followed_unswizzled(self, pool, directory, (link, directory.space), parent);
    }

    fn copied_out(
        kinds: &PageKinds,
        page: PageRef<'_>,
        space: SpaceId,
        begin: usize,
        copy: &mut [u8],
    ) -> bool {
        G::copied_out(kinds, page, space, begin, copy)
    }
}
