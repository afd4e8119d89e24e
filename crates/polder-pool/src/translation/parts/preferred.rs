//! Preferred frames: where a page lies if it can, so that the processor can predict it
//! (predictive-2026, section 3).
//!
//! A translation computes the preferred frame from the page id alone. When the page's word says
//! the same frame, code goes on with the *computed* number, behind a branch that the processor
//! predicts: so it loads the page while it still waits for the word.

#![cfg(not(loom))]

use polder_format::{PageId, SpaceId};

use super::predict::{Predict, Predicts};
use crate::latch::{FrameId, StateWord};
use crate::page::LinkRef;
use crate::translation::seam::TranslationConfig;

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

impl Predict for Preference {
    const PREDICTS: Predicts = Predicts::ByNumber;

    fn new(config: TranslationConfig) -> Preference {
        Preference::of(config.first_frames)
    }

    #[inline(always)]
    fn predict(&self, link: LinkRef<'_>, _: SpaceId) -> (PageId, Option<FrameId>) {
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
/// another than was predicted.
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
    let mut number = u64::from(frame.get());
    // SAFETY: no instruction at all.
    unsafe { std::arch::asm!("/* {0} */", inout(reg) number, options(nomem, nostack)) };
    FrameId::new(number as u32)
}

#[cfg(test)]
mod tests;
