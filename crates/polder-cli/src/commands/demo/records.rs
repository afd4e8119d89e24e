//! Records whose bytes follow from their number, so that every answer can be checked.
//!
//! Even numbers are loaded in order; odd ones are inserted later, in an order that jumps about.
//! A value is a counter, which updates raise, and a filling that depends on the number.

use fastrand::Rng;

use crate::failure::Failure;

const KEY_BYTES: usize = 8;
const VALUE_BYTES: usize = 120;
const WORD: usize = 8;

/// Bytes of a key with its value.
pub const RECORD_BYTES: u64 = (KEY_BYTES + VALUE_BYTES) as u64;

/// A prime above any number of records that a disk holds: stepping by it visits all of them.
const STEP: u64 = 1_000_000_000_039;

/// The key of a number: keys sort as numbers do.
pub fn key(number: u64) -> [u8; KEY_BYTES] {
    number.to_be_bytes()
}

/// The value of a number after so many updates.
pub fn value(number: u64, updates: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    let (count, filling) = value.split_at_mut(WORD);
    count.copy_from_slice(&updates.to_le_bytes());
    Rng::with_seed(number).fill(filling);
    value
}

/// Checks a value and returns its count of updates.
pub fn verify(number: u64, bytes: &[u8]) -> Result<u64, Failure> {
    let updates = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    if bytes == value(number, updates) {
        Ok(updates)
    } else {
        Err(Failure::Damaged(format!("record {number} has a value that nobody gave it")))
    }
}

/// The number behind a key.
pub fn number(key: &[u8]) -> Result<u64, Failure> {
    let bytes =
        key.try_into().map_err(|_| Failure::Damaged("a key was found that nobody gave".into()))?;
    Ok(u64::from_be_bytes(bytes))
}

/// The number of the record that is loaded as number `i`.
pub fn loaded(i: u64) -> u64 {
    2 * i
}

/// The number of the record that is inserted as number `i` of at most `records`.
pub fn inserted(i: u64, records: u64) -> u64 {
    let place = u128::from(i) * u128::from(STEP) % u128::from(records);
    2 * place as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn values_are_checked() {
        for number in [0, 1, 77, u64::MAX] {
            assert_eq!(verify(number, &value(number, 5)).unwrap(), 5);
            for at in 8..VALUE_BYTES {
                let mut wrong = value(number, 5);
                wrong[at] ^= 1;
                assert!(verify(number, &wrong).is_err());
            }
            assert!(verify(number, &value(number, 5)[..100]).is_err());
            assert!(verify(number.wrapping_add(1), &value(number, 5)).is_err());
        }
        assert!(verify(0, b"").is_err());
    }

    #[test]
    fn every_odd_number_is_inserted_once() {
        for records in [1, 2, 1000, 4096] {
            let all: HashSet<u64> = (0..records).map(|i| inserted(i, records)).collect();
            assert_eq!(all.len() as u64, records);
            assert!(all.iter().all(|n| n % 2 == 1 && *n < 2 * records));
        }
    }
}
