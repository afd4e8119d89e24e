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
        true => (known_here(preferred), false),
        false => (word.frame(), true),
    }
}

/// The same frame, known only on this side of a branch: the compiler can neither do without the
/// branch nor make a conditional move of it, which would wait for what the branch compares. (Nor
/// see that both sides of `speculate` are equal, and take the one that waits.)
#[inline(always)]
pub(super) fn known_here(frame: FrameId) -> FrameId {
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
