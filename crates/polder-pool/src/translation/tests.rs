//! What every design must do with its words, below the pool.

#![cfg(all(not(loom), feature = "teaching"))]

use polder_format::{PageNo, PageSize, SpaceId};

use super::seam::testing::latches;
use super::seam::{Placement, Translation, TranslationConfig, Words};
use crate::frame::Frames;
use crate::latch::parking::ParkingLot;
use crate::latch::{FrameId, StateCell, StateWord};

/// A space may be closed between a claim in it and the look whether it was dropped (F6). The claim
/// ends all the same, and whatever serves the next space is as new.
fn a_claim_is_abandoned_behind_the_end_of_its_space<T: Translation>() {
    let config = TranslationConfig::of(128, PageSize::MIN);
    let (translation, range) = (T::new(config).unwrap(), T::frame_range(config));
    let frames = Frames::new(range, PageSize::MIN, T::MEMORY.is_in_frames(), true).unwrap();
    let (latches, lot, words) = (latches(range), ParkingLot::new(), translation.words());
    let page = PageNo::new(3).unwrap();
    for space in [5, 6] {
        let directory = words.open(SpaceId::new(space).unwrap());
        let frame = match translation.place(&frames, &directory, page).unwrap() {
            Placement::Prefer(frame) | Placement::Fixed(frame) => frame,
            Placement::Anywhere => FrameId::FIRST,
        };
        assert_eq!(words.present(&directory), 0, "{}, space {space}", T::NAME);
        let claim = words.claim(&latches, &directory, page, frame).unwrap();
        let claim = claim.unwrap_or_else(|| panic!("{}: space {space} has a page", T::NAME));
        words.close(&directory);
        let end = |cell: &StateCell| cell.publish(StateWord::EVICTED, &lot);
        words.abandon(&latches, &directory, page, frame, (claim, end));
        assert!(claim.peek().is_evicted(), "{}", T::NAME);
    }
}

macro_rules! each {
    ($($section:ident { $($(#[$about:meta])* $translation:ident as $module:ident,)* })*) => {
        #[test]
        fn claims_are_abandoned_behind_the_end_of_their_space() {
            $($(a_claim_is_abandoned_behind_the_end_of_its_space::<super::$translation>();)*)*
        }
    };
}
crate::translations!(each);
