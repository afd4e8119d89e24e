//! Fingerprint buckets compared by one instruction (scalecache-2025 3.3), and no lock for readers.
//!
//! 1. The page id says which frame the page prefers (predictive-2026 3). If the tag of
//!    that frame is the page's, that was one load, and the page is read beside it.
//! 2. Else the id's hash names a bucket of 16 entries, and a fingerprint of one byte.
//! 3. One instruction compares the 16 fingerprints; no latch is taken (algorithm 2).
//! 4. For each that matches, the tag of the entry's frame says whether the page is there.
//! 5. A bucket that is full leads to an overflow bucket: from 3 again.
//!
//! [`SimdPlain`] begins at step 2: the paper's. What the paper holds pages by, pins that each group
//! of cores has of its own (3.1), is a read mode that combines with every translation.

#![cfg(not(loom))]

mod table;

use polder_format::PageNo;

use super::parts::by_frame::ByFrame;
use super::parts::directory::TableDirectory;
use super::parts::predict::{Blind, Predict, Predicts};
use super::parts::preferred::Preference;
use super::seam::{Translation, TranslationConfig};
use crate::error::PoolError;
use crate::frame::Frames;
use crate::latch::{FrameId, Resolved};
use crate::page::{LinkRef, PageRef};

pub(crate) use table::SimdTable;

/// A table of fingerprint buckets, the state word beside the frame, and pages that prefer frames.
pub type Simd = Simds<Preference>;
/// The same without preferred frames: the paper's.
pub type SimdPlain = Simds<Blind>;

/// Translation by a table of fingerprint buckets: [`Simd`] or [`SimdPlain`].
#[derive(Debug)]
pub struct Simds<G: Predict> {
    words: ByFrame<SimdTable>,
    prediction: G,
}

impl<G: Predict> Translation for Simds<G> {
    const NAME: &'static str = match G::PREDICTS {
        Predicts::Nothing => "simd-plain",
        _ => "simd",
    };
    type Words = ByFrame<SimdTable>;

    fn new(config: TranslationConfig) -> Result<Simds<G>, PoolError> {
        Ok(Simds { words: ByFrame::new(config.frames)?, prediction: G::new(config) })
    }

    fn words(&self) -> &Self::Words {
        &self.words
    }

    #[inline(always)]
    fn prefetch<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p TableDirectory,
        link: LinkRef<'_>,
    ) -> Option<PageRef<'p>> {
        let (page, preferred) = self.prediction.predict(link, directory.space);
        self.words.prefetch(page, preferred);
        preferred.map(|frame| frames.page(frame))
    }

    /// Steps 1 to 5.
    #[inline(always)]
    fn resolve<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p TableDirectory,
        link: LinkRef<'_>,
    ) -> Option<Resolved<'p>> {
        let (page, preferred) = self.prediction.predict(link, directory.space);
        if let Some(preferred) = preferred
            && let Some(found) = self.words.read(preferred, page)
        {
            return Some(found.resolved(frames, false));
        }
        let misplaced = !matches!(G::PREDICTS, Predicts::Nothing);
        Some(self.words.find(page)?.resolved(frames, misplaced))
    }

    /// An insertion that is about to find out that the page has an entry hides it for a moment,
    /// where that has the preferred frame.
    fn resolve_elsewhere<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p TableDirectory,
        page: PageNo,
    ) -> Option<Resolved<'p>> {
        if G::PREDICTS == Predicts::Nothing {
            return None;
        }
        Some(self.words.find(directory.id(page))?.resolved(frames, false))
    }

    #[inline(always)]
    fn preferred(&self, directory: &TableDirectory, page: PageNo) -> Option<FrameId> {
        self.prediction.preferred(directory.id(page))
    }
}

#[cfg(test)]
mod tests {
    use polder_format::{PageSize, SpaceId};

    use super::*;
    use crate::latch::parking::ParkingLot;
    use crate::latch::{StateWord, Version};
    use crate::translation::seam::Words;
    use crate::translation::seam::testing::latches;

    /// A page that lies where it prefers is found without the table; one that does not is found
    /// though another claim of it has that frame for a moment.
    #[test]
    fn the_preferred_frame_is_looked_at_first() {
        const FRAMES: u32 = 100;
        let config = TranslationConfig::of(FRAMES, PageSize::MIN);
        let (simd, lot) = (Simd::new(config).unwrap(), ParkingLot::new());
        let frames = Frames::new(FRAMES, PageSize::MIN, true, true).unwrap();
        let directory = simd.words.open(SpaceId::CATALOGUE);
        let [near, far] = [1, 2].map(|number| PageNo::new(number).unwrap());
        let elsewhere = FrameId::new(FRAMES);
        let preferred = |page| simd.preferred(&directory, page).unwrap();
        for (page, frame) in [(near, preferred(near)), (far, elsewhere)] {
            let claim = simd.words.claim(&latches(FRAMES), &directory, page, frame);
            let word = StateWord::free(frame, Version::new(0));
            claim.unwrap().unwrap().publish(word, &lot);
        }
        let resolve = |page| {
            let link = LinkRef::Id(directory.id(page));
            simd.resolve(&frames, &directory, link).map(|at| (at.frame, at.word, at.misplaced))
        };
        let free = |frame| StateWord::free(frame, Version::new(0));
        assert_eq!(resolve(near), Some((preferred(near), free(preferred(near)), false)));
        assert_eq!(resolve(far), Some((elsewhere, free(elsewhere), true)));

        let hides = simd.words.tagged(preferred(far));
        hides.enter(directory.id(far));
        assert_eq!(resolve(far).map(|(_, word, _)| word), Some(StateWord::EVICTED));
        let found = simd.resolve_elsewhere(&frames, &directory, far).unwrap();
        assert_eq!((found.frame, found.word), (elsewhere, free(elsewhere)));
        hides.leave();
    }
}
