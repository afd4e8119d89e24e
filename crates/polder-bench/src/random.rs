//! A small, fast source of random numbers that can be repeated.

use crate::records::scramble;

/// SplitMix64: one multiply-and-shift chain over a counter.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A source of its own for each pair of seed and stream.
    pub fn new(seed: u64, stream: u64) -> Random {
        Random { state: scramble(seed ^ scramble(stream)) }
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.state)
    }

    /// A number below `bound`; 0 where `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        reduce(self.bits(), bound)
    }

    /// A number from 0 (included) to 1 (not included).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// Maps 64 random bits to a number below `bound`, by the upper half of their product.
#[inline]
pub(crate) fn reduce(bits: u64, bound: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_repeat_by_seed_and_differ_by_stream() {
        let draw = |seed, stream| Random::new(seed, stream).bits();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn numbers_stay_in_their_bounds() {
        let mut random = Random::new(1, 1);
        assert_eq!(random.below(0), 0);
        for _ in 0..10_000 {
            assert!(random.below(10) < 10);
            assert!((0.0..1.0).contains(&random.unit()));
        }
    }
}
