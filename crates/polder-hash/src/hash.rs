//! The hash of a key, and the prefixes of hashes that buckets and nodes cover.

/// The increment of SplitMix64.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// The hash of a key. It decides where on disk the key lies, so that it never changes:
///
/// ```text
/// step(x):   x += 0x9E3779B97F4A7C15            SplitMix64, all modulo 2^64
///            x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9
///            x = (x ^ x >> 27) * 0x94D049BB133111EB
///            x ^ x >> 31
///
/// hash(key): h = step(length of the key in bytes)
///            for each 8 bytes of the key as a little-endian number w,
///                the last ones filled up with zeros:  h = step(h ^ w)
/// ```
///
/// A step is a permutation, so that no two keys of the same length up to 8 bytes have the same hash.
/// It has no secret: a caller that chooses keys can make them collide, and will find a chain that
/// is full ([`HashError::Crowded`](crate::HashError::Crowded)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(u64);

impl KeyHash {
    /// The hash of `key`.
    #[inline]
    pub fn of(key: &[u8]) -> KeyHash {
        let mut hash = step(key.len() as u64);
        let (words, rest) = key.as_chunks::<8>();
        for word in words {
            hash = step(hash ^ u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            hash = step(hash ^ u64::from_le_bytes(word));
        }
        KeyHash(hash)
    }

    /// The hash with these bits.
    pub fn new(bits: u64) -> KeyHash {
        KeyHash(bits)
    }

    /// Its 64 bits. The highest ones lead to the bucket.
    #[inline(always)]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The lowest 16 bits, by which a bucket is sorted.
    #[inline(always)]
    pub fn tag(self) -> u16 {
        self.0 as u16
    }
}

#[inline(always)]
pub(crate) fn step(mut x: u64) -> u64 {
    x = x.wrapping_add(GAMMA);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// The hashes that begin with the same so many bits: what a bucket or a node covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// The bits, the highest first; zeros behind them.
    value: u64,
    bits: u8,
}

impl Prefix {
    /// All hashes.
    pub const ALL: Prefix = Prefix { value: 0, bits: 0 };

    /// The first `bits` bits of `hash`, of which there are at most 64.
    #[inline]
    pub fn of(hash: KeyHash, bits: u8) -> Prefix {
        let bits = bits.min(64);
        Prefix { value: hash.0 & mask(bits), bits }
    }

    /// One hash alone.
    pub fn only(hash: KeyHash) -> Prefix {
        Prefix::of(hash, 64)
    }

    /// The number of bits, at most 64.
    #[inline]
    pub fn bits(self) -> u8 {
        self.bits
    }

    /// The lowest of its hashes.
    #[inline]
    pub fn first(self) -> KeyHash {
        KeyHash(self.value)
    }

    /// The hash behind the highest of its hashes, if there is one.
    pub fn end(self) -> Option<KeyHash> {
        (self.value | !mask(self.bits)).checked_add(1).map(KeyHash)
    }

    /// Whether a hash begins with it.
    #[inline]
    pub fn covers(self, hash: KeyHash) -> bool {
        hash.0 & mask(self.bits) == self.value
    }

    /// The bit of `hash` behind the prefix, by which a split tells the two sides.
    #[inline]
    pub fn side(self, hash: KeyHash) -> Side {
        match hash.0.checked_shr(63u32.wrapping_sub(u32::from(self.bits))).unwrap_or(0) & 1 {
            0 => Side::Low,
            _ => Side::High,
        }
    }

    /// The half of it on one side. One hash alone has no halves.
    #[inline]
    pub fn half(self, side: Side) -> Prefix {
        let bits = (self.bits + 1).min(64);
        let bit = if side == Side::High { mask(bits) & !mask(self.bits) } else { 0 };
        Prefix { value: self.value | bit, bits }
    }

    /// What it is a half of.
    pub fn whole(self) -> Prefix {
        Prefix::of(KeyHash(self.value), self.bits.saturating_sub(1))
    }
}

/// One half of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The next bit is 0.
    Low,
    /// The next bit is 1.
    High,
}

impl Side {
    /// The other one.
    pub fn other(self) -> Side {
        match self {
            Side::Low => Side::High,
            Side::High => Side::Low,
        }
    }
}

/// The highest `bits` bits, at most 64.
#[inline(always)]
fn mask(bits: u8) -> u64 {
    u64::MAX.checked_shl(64u32.saturating_sub(u32::from(bits))).unwrap_or(0)
}

#[cfg(test)]
mod tests;
