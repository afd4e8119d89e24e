//! Random numbers that depend on a seed alone.

use fastrand::Rng;

/// A seeded generator. Not for secrets.
#[derive(Debug, Clone)]
pub struct Random(Rng);

impl Random {
    /// The generator with this seed.
    pub fn new(seed: u64) -> Random {
        Random(Rng::with_seed(seed))
    }

    /// Any number.
    pub fn next_u64(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end.max(1))
    }

    /// An index below `end`; 0 if `end` is 0.
    pub fn index(&mut self, end: usize) -> usize {
        self.0.usize(..end.max(1))
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.0.f64() < probability
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }

    /// A generator of its own, which goes on independently of this one.
    pub fn split(&mut self) -> Random {
        Random(self.0.fork())
    }
}

/// A permutation of the 64-bit numbers without visible order: the finish of SplitMix64.
pub fn scramble(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_says_it_all() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..5).map(|_| random.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn shares_and_ranges_are_kept() {
        let mut random = Random::new(1);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
        let mut seen = [0u32; 7];
        let mut hits = 0;
        for _ in 0..70_000 {
            seen[random.index(7)] += 1;
            hits += u32::from(random.chance(0.25));
        }
        assert!(seen.iter().all(|count| (9_500..10_500).contains(count)), "{seen:?}");
        assert!((16_800..18_200).contains(&hits), "{hits}");
        assert!(!random.chance(0.0));
        assert!(random.chance(1.0));
        let mut bytes = [0; 13];
        random.split().fill(&mut bytes);
        assert!(bytes[8..].iter().any(|&byte| byte != 0));
    }
}
