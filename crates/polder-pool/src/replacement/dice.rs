//! Random numbers for policies that draw frames.

use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;

/// The state of a generator that several threads share. Begins always the same, so that a replay
/// can be repeated.
#[derive(Debug)]
pub(super) struct Dice(AtomicU64);

impl Dice {
    pub(super) fn new() -> Dice {
        Dice(AtomicU64::new(0x9e37_79b9_7f4a_7c15))
    }

    /// A number below `bound`, which is not 0. Two threads may draw the same one, which does not
    /// matter here: so the state is read and written without a lock.
    pub(super) fn below(&self, bound: u32) -> u32 {
        let mut state = Rng::with_seed(self.0.load(Ordering::Relaxed));
        let number = state.u32(..bound.max(1));
        self.0.store(state.get_seed(), Ordering::Relaxed);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_even_and_repeat() {
        let (dice, again) = (Dice::new(), Dice::new());
        let mut found = [0u32; 10];
        for _ in 0..100_000 {
            let number = dice.below(10);
            assert_eq!(number, again.below(10));
            found[number as usize] += 1;
        }
        // 5 sigma are 475.
        assert!(found.iter().all(|&n| n.abs_diff(10_000) < 475), "{found:?}");
    }
}
