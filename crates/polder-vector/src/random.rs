//! Numbers without a pattern that are the same each time.

/// A number without pattern, of one that may have some (the finaliser of SplitMix64).
pub(crate) fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// A row of them.
#[derive(Debug, Default)]
pub(crate) struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        mix(self.0)
    }

    /// One below `end`, which is not zero.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// Puts these in another order, each order as likely as any other.
    pub(crate) fn shuffle<R>(&mut self, all: &mut [R]) {
        (1..all.len()).rev().for_each(|last| all.swap(last, self.below(last + 1)));
    }

    /// One from 0 up to, but not, 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
