//! A seeded, endless stream of operations on an ordered key-value store.
//!
//! Keys come from a population of numbered keys, so that operations meet each other; now and then a
//! neighbour of one is asked for, which is mostly not there.

use std::ops::Bound;

use crate::model::{Change, Op};
use crate::random::{Random, scramble};

/// What keys look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyShape {
    /// A few bytes out of a few values, 0x00 and 0xff among them: many are the beginning of
    /// others. Number 0 is the empty key.
    Short,
    /// Few long beginnings, each shared by many keys. The beginnings themselves are keys too.
    LongPrefix {
        /// Length of the longest in bytes; at least 8.
        key_bytes_max: usize,
    },
    /// Eight bytes without visible order.
    Scrambled,
    /// A third of each.
    Mixed {
        /// Length of the longest in bytes; at least 8.
        key_bytes_max: usize,
    },
}

impl KeyShape {
    /// Key number `number`. Different numbers below 2^32 give different keys.
    pub fn key(self, number: u64) -> Vec<u8> {
        match self {
            KeyShape::Short => digits(number),
            KeyShape::LongPrefix { key_bytes_max } => long(number, key_bytes_max),
            KeyShape::Scrambled => scramble(number).to_be_bytes().to_vec(),
            KeyShape::Mixed { key_bytes_max } => match number % 3 {
                0 => digits(number / 3),
                1 => long(number / 3, key_bytes_max),
                // Longer than short ones are and with a mark that long ones have not.
                _ => [&[0xfe], &scramble(number).to_be_bytes()[..]].concat(),
            },
        }
    }
}

/// What values look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueShape {
    /// None at all.
    Empty,
    /// Of one length in bytes.
    Fixed(usize),
    /// From empty to this length in bytes.
    UpTo(usize),
    /// Mostly short; some empty, some around a quarter of a page, some of up to three pages.
    Pages {
        /// Length of a page in bytes.
        page_bytes: usize,
    },
}

/// How often which operation comes, in relation to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    /// [`Op::Insert`].
    pub insert: u32,
    /// [`Op::Remove`].
    pub remove: u32,
    /// [`Op::Get`].
    pub get: u32,
    /// [`Op::Update`].
    pub update: u32,
    /// [`Op::Range`].
    pub range: u32,
    /// [`Op::First`] and [`Op::Last`].
    pub ends: u32,
    /// [`Op::Count`].
    pub count: u32,
}

impl Mix {
    /// Some of everything; half of the population is there after a while.
    pub const BALANCED: Mix =
        Mix { insert: 30, remove: 25, get: 20, update: 10, range: 12, ends: 2, count: 1 };
    /// Grows: mostly insertions.
    pub const GROWING: Mix =
        Mix { insert: 75, remove: 5, get: 10, update: 5, range: 4, ends: 1, count: 0 };
    /// Shrinks: mostly removals.
    pub const SHRINKING: Mix =
        Mix { insert: 5, remove: 75, get: 10, update: 5, range: 4, ends: 1, count: 0 };
}

/// An endless iterator of operations.
///
/// ```
/// use polder_testkit::{KeyShape, Mix, Model, ValueShape, Workload};
///
/// let workload = Workload::new(3)
///     .keys(KeyShape::Scrambled, 10_000)
///     .values(ValueShape::Pages { page_bytes: 4096 })
///     .mix(Mix::GROWING);
/// let mut model = Model::default();
/// for op in workload.take(1000) {
///     model.apply(&op);
/// }
/// assert!(model.entries.len() > 500);
/// ```
#[derive(Debug, Clone)]
pub struct Workload {
    random: Random,
    keys: KeyShape,
    key_count: u64,
    values: ValueShape,
    mix: Mix,
}

impl Workload {
    /// A balanced workload over a thousand mixed keys of up to 64 bytes, with values of up to 100.
    pub fn new(seed: u64) -> Workload {
        Workload {
            random: Random::new(seed),
            keys: KeyShape::Mixed { key_bytes_max: 64 },
            key_count: 1000,
            values: ValueShape::UpTo(100),
            mix: Mix::BALANCED,
        }
    }

    /// Takes keys of this shape, so many different ones.
    pub fn keys(mut self, shape: KeyShape, count: u64) -> Workload {
        self.keys = shape;
        self.key_count = count;
        self
    }

    /// Takes values of this shape.
    pub fn values(mut self, shape: ValueShape) -> Workload {
        self.values = shape;
        self
    }

    /// Takes operations in this relation.
    pub fn mix(mut self, mix: Mix) -> Workload {
        self.mix = mix;
        self
    }

    fn key(&mut self) -> Vec<u8> {
        self.keys.key(self.random.below(self.key_count))
    }

    /// A key of the population, or one beside it.
    fn key_or_neighbour(&mut self) -> Vec<u8> {
        let mut key = self.key();
        match self.random.below(10) {
            0 => key.push(0),
            1 => drop(key.pop()),
            _ => {}
        }
        key
    }

    fn value(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        let len = match self.values {
            ValueShape::Empty => 0,
            ValueShape::Fixed(len) => len,
            ValueShape::UpTo(len) => random.index(len + 1),
            ValueShape::Pages { page_bytes } => match random.below(20) {
                0..2 => 0,
                2..14 => 1 + random.index(100),
                14..18 => page_bytes / 4 - 40 + random.index(80),
                _ => page_bytes - 40 + random.index(2 * page_bytes + 40),
            },
        };
        let mut value = vec![0; len];
        random.fill(&mut value);
        value
    }

    fn change(&mut self) -> Change {
        match self.random.below(4) {
            0 => Change::Remove,
            1 => Change::Cut(self.random.index(64)),
            _ => Change::Append(self.value()),
        }
    }

    fn bound(&mut self) -> Bound<Vec<u8>> {
        match self.random.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Excluded(self.key_or_neighbour()),
            _ => Bound::Included(self.key_or_neighbour()),
        }
    }

    fn range(&mut self) -> Op {
        let (mut from, mut to) = (self.bound(), self.bound());
        // Most ranges run forward; one in ten stays as it was drawn, crossed or not.
        if let (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) =
            (&from, &to)
            && a > b
            && self.random.below(10) != 0
        {
            std::mem::swap(&mut from, &mut to);
        }
        let reverse = self.random.chance(0.5);
        let limit = match self.random.below(20) {
            0 => usize::MAX,
            1 => 0,
            _ => self.random.index(50),
        };
        Op::Range { from, to, reverse, limit }
    }
}

impl Iterator for Workload {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        let Mix { insert, remove, get, update, range, ends, count } = self.mix;
        let weights = [insert, remove, get, update, range, ends, count];
        let mut drawn = self.random.below(weights.iter().map(|&weight| u64::from(weight)).sum());
        let mut kind = 0;
        while kind + 1 < weights.len() && drawn >= u64::from(weights[kind]) {
            drawn -= u64::from(weights[kind]);
            kind += 1;
        }
        Some(match kind {
            0 => Op::Insert { key: self.key(), value: self.value() },
            1 => Op::Remove { key: self.key() },
            2 => Op::Get { key: self.key_or_neighbour() },
            3 => Op::Update { key: self.key(), change: self.change() },
            4 => self.range(),
            5 if self.random.chance(0.5) => Op::First,
            5 => Op::Last,
            _ => Op::Count,
        })
    }
}

/// Bytes that order badly if anything is wrong with them.
const DIGITS: [u8; 5] = [0x00, 0x01, b'a', b'b', 0xff];

/// The number in digits without a zero: every string of digits is one number.
fn digits(mut number: u64) -> Vec<u8> {
    let mut key = Vec::new();
    while number > 0 {
        number -= 1;
        key.push(DIGITS[(number % 5) as usize]);
        number /= 5;
    }
    key
}

/// One of five beginnings of different lengths, and the rest of the number behind.
fn long(number: u64, key_bytes_max: usize) -> Vec<u8> {
    let rest = number / 5;
    let prefix_max = key_bytes_max.saturating_sub(4);
    let prefix_len = prefix_max - prefix_max / 8 * (number % 5) as usize;
    let mut key = vec![b'p'; prefix_len];
    if rest > 0 {
        key.extend_from_slice(&(rest as u32).to_be_bytes());
    }
    key
}

#[cfg(test)]
mod tests;
