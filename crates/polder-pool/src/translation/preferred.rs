//! Preferred frames: where a page lies if it can, so that the processor can guess it
//! (predictive-translation.txt, section 3).
//!
//! A translation computes the preferred frame from the page id alone. When the page's word says
//! the same frame, code goes on with the *computed* number, behind a branch that the processor
//! predicts: so it loads the page while it still waits for the word.

use crate::state::{FrameId, StateWord};

/// The frame in a resident word, through a branch that the processor predicts, and whether it is
/// another than the page prefers.
#[inline(always)]
pub(super) fn speculate(word: StateWord, preferred: FrameId) -> (FrameId, bool) {
    match word.frame() == preferred {
        true => (FrameId::new(opaque(preferred.get())), false),
        false => (word.frame(), true),
    }
}

/// The same number, of which the compiler knows nothing: else it would see that both sides of the
/// branch are equal, and take the one that waits for the word.
#[inline(always)]
fn opaque(number: u32) -> u32 {
    #[cfg(not(miri))]
    {
        let mut number = number;
        // SAFETY: no instruction at all.
        unsafe { std::arch::asm!("/* {0:e} */", inout(reg) number, options(nomem, nostack)) };
        number
    }
    #[cfg(miri)]
    number
}
