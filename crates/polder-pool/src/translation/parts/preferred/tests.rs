#![cfg(not(loom))]

use std::collections::HashSet;

use polder_format::{PageNo, SpaceId};

use super::*;
#[cfg(target_arch = "x86_64")]
use crate::latch::{StateCell, Version, parking::ParkingLot};

#[inline(never)]
#[cfg(target_arch = "x86_64")]
fn speculate_alone(cell: &StateCell, guess: FrameId) -> u32 {
    speculate(cell.read(), guess).0.get()
}

/// The predicted frame must not wait for the word: a branch leads to it, which the
/// processor predicts. A conditional move would wait, and to hand on the word's frame as well.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_branch_leads_to_the_guess() {
    let cell = StateCell::new();
    assert!(cell.claim());
    let word = StateWord::free(FrameId::new(7), Version::new(0));
    cell.publish(word, &ParkingLot::default());
    assert!([7, 8].iter().all(|guess| speculate_alone(&cell, FrameId::new(*guess)) == 7));
    let begin = speculate_alone as fn(&StateCell, FrameId) -> u32 as *const u8;
    // SAFETY: the function's own instructions, which are mapped and longer than this together with
    // what stands behind them.
    let code = unsafe { std::slice::from_raw_parts(begin, 64) };
    let is_short_jump = |pair: &[u8]| (0x70..0x80).contains(&pair[0]) && pair[1] < 0x40;
    let is_long_jump = |pair: &[u8]| pair[0] == 0x0F && (0x80..0x90).contains(&pair[1]);
    let end = code.iter().position(|byte| *byte == 0xC3).unwrap_or(code.len());
    assert!(
        code[..end].windows(2).any(|pair| is_short_jump(pair) || is_long_jump(pair)),
        "no conditional jump in {:x?}",
        &code[..end]
    );
}

#[allow(clippy::unwrap_used)]
fn page(space: u64, number: u64) -> PageId {
    PageId::new(SpaceId::new(space).unwrap(), PageNo::new(number).unwrap())
}

#[test]
fn the_preferred_frame_is_a_remainder_by_a_prime() {
    for (frames, prime) in [(1, 1), (2, 2), (4, 3), (100, 97), (128, 127), (1_000_003, 1_000_003)] {
        let preference = Preference::of(frames);
        assert_eq!(preference.prime, prime);
        for number in [0, 1, 2, 99, 127, 128, 12_345_678] {
            let expected = (number % prime) as u32 + 1;
            assert_eq!(preference.of_page(page(0, number)).get(), expected, "{number} of {frames}");
        }
    }
}

/// As many pages as there are frames, by any step and of any space, hardly meet.
#[test]
fn resident_spaces_lie_apart_whatever_their_stride() {
    for frames in [100u32, 65_536, 1_000_000] {
        let preference = Preference::of(frames);
        for (space, step) in [(0, 1), (2, 1), (9, 2), (9, 10), (77, 512), (1 << 20, 342)] {
            let all: HashSet<FrameId> = (0..u64::from(frames))
                .map(|i| preference.of_page(page(space, (1 << 21) + i * step)))
                .collect();
            let share = all.len() as f64 / f64::from(frames);
            assert!(share > 0.96, "{share} of {frames}, space {space}, step {step}");
            assert!(all.iter().all(|f| (1..=frames).contains(&f.get())));
        }
    }
}

/// No page may prefer a frame that is not there.
#[test]
fn the_largest_numbers_have_frames() {
    for frames in [1, 2, 127, FrameId::MAX.get()] {
        let preference = Preference::of(frames);
        for page in [PageId::from_link(u64::MAX), PageId::from_link(0), page(1, 1)] {
            assert!((1..=frames).contains(&preference.of_page(page).get()));
        }
    }
}
