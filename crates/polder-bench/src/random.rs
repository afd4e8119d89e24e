//! The random numbers of the workloads: fast, and the same for the same seed.

use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::records::scramble;

pub(crate) use rand::RngExt;

/// A source of random numbers that can be repeated.
pub(crate) type Random = SmallRng;

/// A source of its own for each pair of a seed and a number.
pub(crate) fn stream(seed: u64, number: u64) -> Random {
    Random::seed_from_u64(seed ^ scramble(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_repeat_by_seed_and_differ_by_stream() {
        let draw = |seed, number| stream(seed, number).random::<u64>();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }
}
