//! Random numbers for policies that draw frames.

use std::sync::atomic::{AtomicU64, Ordering};

/// xorshift64* (G. Marsaglia, "Xorshift RNGs", 2003; S. Vigna, 2016). Begins always the same, so
/// that a replay can be repeated.
#[derive(Debug)]
pub(super) struct Dice(AtomicU64);

impl Dice {
    pub(super) fn new() -> Dice {
        Dice(AtomicU64::new(0x9e37_79b9_7f4a_7c15))
    }

    /// A number below `bound`. Two threads may draw the same one, which does not matter here: so
    /// the state is read and written without a lock.
    pub(super) fn below(&self, bound: u32) -> u32 {
        let mut state = self.0.load(Ordering::Relaxed);
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.0.store(state, Ordering::Relaxed);
        let upper = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((upper * u64::from(bound)) >> 32) as u32
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
