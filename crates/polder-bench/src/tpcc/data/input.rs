//! What transactions and the load draw: clauses 2.1.6, 4.3.2 and 4.3.3.

use std::time::{SystemTime, UNIX_EPOCH};

use rand::distr::Alphanumeric;

use super::keys::{DISTRICTS, NAME_BYTES};
use super::rows::ADDRESS_BYTES;
use super::scale::Scale;
use crate::random::{Random, RngExt};

/// The constant C of the skewed numbers, for each A (clause 2.1.6.1). That of names differs between
/// load and run, by 65 to 119 and neither 96 nor 112.
const C_OF_NAMES_LOADED: u64 = 58;
const C_OF_NAMES: u64 = 58 + 87;
const C_OF_CUSTOMERS: u64 = 259;
const C_OF_ITEMS: u64 = 7911;

/// A district's number.
pub(crate) fn district(random: &mut Random) -> u8 {
    within(random, 1, DISTRICTS.into()) as u8
}

/// A number from `low` to `high`, both included.
pub(crate) fn within(random: &mut Random, low: u64, high: u64) -> u64 {
    random.random_range(low..=high)
}

/// True in so many of a hundred cases.
pub(crate) fn percent(random: &mut Random, share: u64) -> bool {
    random.random_range(..100u64) < share
}

/// NURand(A, `low`, `high`) with this constant.
fn skewed(random: &mut Random, a: u64, c: u64, low: u64, high: u64) -> u64 {
    let both = random.random_range(..a + 1) | within(random, low, high);
    (both + c) % (high - low + 1) + low
}

/// A customer's number.
pub(crate) fn customer(random: &mut Random, scale: Scale) -> u16 {
    let most = u64::from(scale.customers_per_district);
    skewed(random, 1023, C_OF_CUSTOMERS, 1, most) as u16
}

/// An item's number.
pub(crate) fn item(random: &mut Random, scale: Scale) -> u32 {
    skewed(random, 8191, C_OF_ITEMS, 1, u64::from(scale.items)) as u32
}

/// The number of a last name that a transaction asks for.
pub(crate) fn last_name(random: &mut Random, scale: Scale) -> u64 {
    skewed(random, 255, C_OF_NAMES, 0, scale.last_names - 1)
}

/// The number of the last name that a customer has: the first ones of a district have all names in
/// turn, so that each is there.
pub(crate) fn last_name_of(random: &mut Random, scale: Scale, c: u16) -> u64 {
    match u64::from(c) - 1 {
        number if number < scale.last_names => number,
        _ => skewed(random, 255, C_OF_NAMES_LOADED, 0, scale.last_names - 1),
    }
}

/// The last name of a number: a syllable for each of its three digits.
pub(crate) fn name_of(number: u64) -> [u8; NAME_BYTES] {
    const SYLLABLES: [&[u8]; 10] =
        [b"BAR", b"OUGHT", b"ABLE", b"PRI", b"PRES", b"ESE", b"ANTI", b"CALLY", b"ATION", b"EING"];
    let digits = [number / 100 % 10, number / 10 % 10, number % 10];
    let name = digits.map(|digit| SYLLABLES[digit as usize]).concat();
    let mut padded = [0; NAME_BYTES];
    padded[..name.len()].copy_from_slice(&name);
    padded
}

/// Fills all of it with letters and digits.
pub(crate) fn letters(random: &mut Random, text: &mut [u8]) {
    text.fill_with(|| random.sample(Alphanumeric));
}

/// A text of `low` to `high` letters and digits.
pub(crate) fn text(random: &mut Random, low: u64, high: u64) -> Vec<u8> {
    let mut text = vec![0; within(random, low, high) as usize];
    letters(random, &mut text);
    text
}

/// Text of `low` to `N` letters and digits, padded with zeros.
pub(crate) fn padded<const N: usize>(random: &mut Random, low: u64) -> [u8; N] {
    let mut text = [0; N];
    let len = within(random, low, N as u64) as usize;
    letters(random, &mut text[..len]);
    text
}

/// So many digits.
pub(crate) fn digits<const N: usize>(random: &mut Random) -> [u8; N] {
    std::array::from_fn(|_| random.random_range(b'0'..=b'9'))
}

/// `I_DATA` and `S_DATA`: one in ten has a mark in it.
pub(crate) fn data(random: &mut Random) -> Vec<u8> {
    let mut data = text(random, 26, 50);
    if percent(random, 10) {
        let at = random.random_range(..(data.len() - ORIGINAL.len() + 1) as u64) as usize;
        data[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
    data
}

/// The mark.
const ORIGINAL: &[u8] = b"ORIGINAL";

/// Whether there is a mark in it.
pub(crate) fn is_original(data: &[u8]) -> bool {
    data.windows(ORIGINAL.len()).any(|part| part == ORIGINAL)
}

/// Two streets, a city, a state and a zip of four digits and five ones.
pub(crate) fn address(random: &mut Random) -> [u8; ADDRESS_BYTES] {
    let mut address = [0; ADDRESS_BYTES];
    for place in 0..3 {
        address[20 * place..][..20].copy_from_slice(&padded::<20>(random, 10));
    }
    letters(random, &mut address[60..62]);
    address[62..66].copy_from_slice(&digits::<4>(random));
    address[66..].fill(b'1');
    address
}

/// A tax, from 0 to 0.2.
pub(crate) fn tax(random: &mut Random) -> u32 {
    within(random, 0, 2000) as u32
}

/// Microseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    #[test]
    fn names_are_made_of_syllables() {
        let name = |number| {
            let name = name_of(number);
            String::from_utf8(name.into_iter().take_while(|c| *c != 0).collect()).unwrap()
        };
        assert_eq!(name(0), "BARBARBAR");
        assert_eq!(name(371), "PRICALLYOUGHT");
        assert_eq!(name(999), "EINGEINGEING");
        assert_eq!((0..1000).map(|n| name(n).len()).max(), Some(15));
    }

    #[test]
    fn the_constants_are_those_that_the_specification_permits() {
        let delta = C_OF_NAMES.abs_diff(C_OF_NAMES_LOADED);
        assert!((65..=119).contains(&delta) && delta != 96 && delta != 112);
        const { assert!(C_OF_NAMES <= 255 && C_OF_CUSTOMERS <= 1023 && C_OF_ITEMS <= 8191) };
    }

    #[test]
    fn numbers_are_skewed_and_within_their_bounds() {
        let mut random = stream(1, 1);
        let mut counts = vec![0u32; 3001];
        for _ in 0..300_000 {
            counts[usize::from(customer(&mut random, Scale::FULL))] += 1;
        }
        assert_eq!(counts[0], 0);
        counts.sort_unstable();
        // A number with many one bits is drawn far more often than one with few.
        assert!(counts[3000] > 4 * counts[1500] && counts[3000] > 20 * counts[300]);
        for scale in [Scale::FULL, Scale::TINY] {
            for _ in 0..10_000 {
                assert!((1..=scale.items).contains(&item(&mut random, scale)));
                assert!(last_name(&mut random, scale) < scale.last_names);
                let c = within(&mut random, 1, u64::from(scale.customers_per_district)) as u16;
                assert!(last_name_of(&mut random, scale, c) < scale.last_names);
            }
        }
    }

    #[test]
    fn one_in_ten_has_the_mark() {
        let mut random = stream(2, 2);
        let texts: Vec<_> = (0..10_000).map(|_| data(&mut random)).collect();
        assert!(texts.iter().all(|text| (26..=50).contains(&text.len())));
        let marked = texts.iter().filter(|text| is_original(text)).count();
        assert!((850..1150).contains(&marked), "{marked}");
    }
}
