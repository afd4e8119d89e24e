//! What is stored: record `n` has a scrambled 8-byte key and a value that follows from the key.
//!
//! Keys are the big-endian bytes of a bijection of the record's number, so that records in the
//! order of their numbers are in random order as keys, without a list of them anywhere. Values
//! are words derived from the key and a salt that stands in the first eight bytes; each update
//! takes a new salt, and any value can be checked without knowing which update wrote it.

/// Bytes of a key.
pub const KEY_BYTES: usize = 8;

/// A key as it is stored.
pub type Key = [u8; KEY_BYTES];

/// Values below this length have no room for a salt: every update writes the same bytes.
const LEAST_SALTED_BYTES: usize = 16;

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The key of a record.
pub fn key(record: u64) -> Key {
    scramble(record).to_be_bytes()
}

/// The record of a key; the inverse of [`key`].
pub fn record_of(key: Key) -> u64 {
    unscramble(u64::from_be_bytes(key))
}

/// A bijection of 64-bit numbers without visible order (the finaliser of SplitMix64).
pub(crate) fn scramble(number: u64) -> u64 {
    let mut x = number.wrapping_add(STEP);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The inverse of [`scramble`].
fn unscramble(scrambled: u64) -> u64 {
    let mut x = scrambled ^ (scrambled >> 31) ^ (scrambled >> 62);
    x = x.wrapping_mul(0x3196_42b2_d24d_8ec3);
    x = x ^ (x >> 27) ^ (x >> 54);
    x = x.wrapping_mul(0x96de_1b17_3f11_9089);
    x = x ^ (x >> 30) ^ (x >> 60);
    x.wrapping_sub(STEP)
}

/// Maps any number to one below `bound`, by the upper half of their product.
pub(crate) fn reduce(number: u64, bound: u64) -> u64 {
    ((u128::from(number) * u128::from(bound)) >> 64) as u64
}

/// Fills `value` with the bytes that belong to this key and salt.
pub fn fill(key: Key, salt: u64, value: &mut [u8]) {
    let salt = (value.len() >= LEAST_SALTED_BYTES).then_some(salt);
    for (index, chunk) in value.chunks_mut(8).enumerate() {
        let word = word(key, salt, index as u64).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// Whether these are the bytes that belong to this key, with whichever salt, and `len` of them.
pub fn is_value_of(key: Key, value: &[u8], len: usize) -> bool {
    let salt = match value.first_chunk::<8>() {
        Some(first) if len >= LEAST_SALTED_BYTES => Some(u64::from_le_bytes(*first)),
        _ => None,
    };
    value.len() == len
        && value.chunks(8).enumerate().all(|(index, chunk)| {
            chunk == &word(key, salt, index as u64).to_le_bytes()[..chunk.len()]
        })
}

/// The word at this index of a value: first the salt, if any, then words that depend on all three.
fn word(key: Key, salt: Option<u64>, index: u64) -> u64 {
    if let (Some(salt), 0) = (salt, index) {
        return salt;
    }
    let place = salt.unwrap_or(0).wrapping_add((index + 1).wrapping_mul(STEP));
    let mixed = u64::from_be_bytes(key) ^ place;
    let spread = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    spread ^ (spread >> 32)
}

/// A value as it is stored.
pub type Value = Vec<u8>;

/// The value of this length that a load stores with this key.
pub fn first_value(key: Key, len: usize) -> Value {
    let mut value = vec![0; len];
    fill(key, 0, &mut value);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_a_bijection_without_order() {
        let numbers = (0..100_000).chain([u64::MAX, u64::MAX / 2, 1 << 63, 0x0123_4567_89ab_cdef]);
        for number in numbers {
            assert_eq!(record_of(key(number)), number);
        }
        let ascending = (0..10_000).filter(|&n| key(n) < key(n + 1)).count();
        assert!((4_700..5_300).contains(&ascending), "{ascending} of 10000 steps ascend");
    }

    #[test]
    fn values_are_recognised_and_every_change_is_seen() {
        for len in [0, 1, 7, 8, 15, 16, 17, 100, 120, 1000] {
            let mut value = vec![0; len];
            fill(key(5), 77, &mut value);
            assert!(is_value_of(key(5), &value, len));
            assert!(!is_value_of(key(5), &value, len + 1));
            if len > 0 {
                assert!(!is_value_of(key(6), &value, len), "length {len}");
            }
            for at in 0..len {
                value[at] ^= 1;
                assert!(!is_value_of(key(5), &value, len), "length {len}, byte {at}");
                value[at] ^= 1;
            }
        }
    }

    #[test]
    fn first_values_are_values() {
        for len in [0, 8, 120, 121] {
            assert!(is_value_of(key(9), &first_value(key(9), len), len));
        }
    }
}
