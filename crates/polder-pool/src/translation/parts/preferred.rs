//! Preferred frames: where a page lies if it can, so that the processor can guess it
//! (predictive-translation.txt, section 3).
//!
//! A translation computes the preferred frame from the page id alone. When the page's word says
//! the same frame, code goes on with the *computed* number, behind a branch that the processor
//! predicts: so it loads the page while it still waits for the word.

#![cfg(not(loom))]

use polder_format::{PageId, SpaceId};

use super::guess::{Guess, Guesses};
use crate::latch::{FrameId, StateWord};
use crate::page::LinkRef;

/// The frame that a page prefers: the remainder of its id by the largest prime up to the number of
/// frames.
///
/// Pages that follow each other prefer frames that do, so that a space whose pages are all resident
/// has them all in place; by a hash (1 - e^-x)/x of them would be, 79% in a pool half full. And as
/// the divisor is a prime, that holds for each second, tenth or 512th page as well (Knuth, 6.4, the
/// division method). Spaces begin at frames far from each other, because 2^34 page ids lie between.
#[derive(Debug, Clone, Copy)]
pub struct Preference {
    prime: u64,
    /// 2^64 / `prime`, rounded up.
    inverse: u64,
}

impl Preference {
    pub(crate) fn of(frames: u32) -> Preference {
        let prime = (2..=u64::from(frames)).rev().find(|n| is_prime(*n)).unwrap_or(1);
        Preference { prime, inverse: (u64::MAX / prime).wrapping_add(1) }
    }

    /// By two multiplications instead of a division, which stands before each page (Lemire, Kaser,
    /// Kurz: Faster remainder by direct computation, 2019): the fraction of page / prime, times the
    /// prime. That is exact up to 2^64 / `prime`^2. Above, the remainders of neighbours are still
    /// neighbours, and that is what matters.
    #[inline(always)]
    pub(crate) fn of_page(self, page: PageId) -> FrameId {
        let fraction = self.inverse.wrapping_mul(page.to_bits());
        let remainder = (u128::from(fraction) * u128::from(self.prime)) >> 64;
        FrameId::new(remainder as u32 + 1)
    }
}

impl Guess for Preference {
    const GUESSES: Guesses = Guesses::ByNumber;

    fn new(frames: u32) -> Preference {
        Preference::of(frames)
    }

    #[inline(always)]
    fn guess(&self, link: LinkRef<'_>, _: SpaceId) -> (PageId, Option<FrameId>) {
        let page = PageId::from_link(link.load());
        (page, Some(self.of_page(page)))
    }

    #[inline(always)]
    fn preferred(&self, page: PageId) -> Option<FrameId> {
        Some(self.of_page(page))
    }
}

fn is_prime(n: u64) -> bool {
    (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d))
}

/// The frame in a resident word, through a branch that the processor predicts, and whether it is
/// another than was guessed.
#[inline(always)]
pub(crate) fn speculate(word: StateWord, guess: FrameId) -> (FrameId, bool) {
    match word.frame() == guess {
        true => (known_here(guess), false),
        false => (word.frame(), true),
    }
}

/// The same frame, known only on this side of a branch: the compiler can neither do without the
/// branch nor make a conditional move of it, which would wait for what the branch compares. (Nor
/// see that both sides of `speculate` are equal, and take the one that waits.)
#[inline(always)]
pub(crate) fn known_here(frame: FrameId) -> FrameId {
    #[cfg(not(miri))]
    {
        let mut number = u64::from(frame.get());
        // SAFETY: no instruction at all.
        unsafe { std::arch::asm!("/* {0} */", inout(reg) number, options(nomem, nostack)) };
        FrameId::new(number as u32)
    }
    #[cfg(miri)]
    frame
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;

    use polder_format::{PageNo, SpaceId};

    use super::*;
    use crate::latch::parking::ParkingLot;
    use crate::latch::{StateCell, Version};

    #[inline(never)]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn speculate_alone(cell: &StateCell, guess: FrameId) -> u32 {
        speculate(cell.read(), guess).0.get()
    }

    /// The frame that was guessed must not wait for the word: a branch leads to it, which the
    /// processor predicts. A conditional move would wait, and to hand on the word's frame as well.
    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
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
        for (frames, prime) in
            [(1, 1), (2, 2), (4, 3), (100, 97), (128, 127), (1_000_003, 1_000_003)]
        {
            let preference = Preference::of(frames);
            assert_eq!(preference.prime, prime);
            for number in [0, 1, 2, 99, 127, 128, 12_345_678] {
                let expected = (number % prime) as u32 + 1;
                assert_eq!(
                    preference.of_page(page(0, number)).get(),
                    expected,
                    "{number} of {frames}"
                );
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
}
