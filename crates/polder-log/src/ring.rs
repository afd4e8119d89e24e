//! The log's buffer: a ring of words that many threads copy groups into at the same time.
//!
//! * `RING-1` Words where nothing was appended are zero. The first word of a group is not, and is
//!   stored last (Release): who sees it (Acquire) sees the group.
//! * `RING-2` A range belongs to whoever reserved it until its first word is stored, then to the
//!   leader, who writes it out, zeroes it and gives it back.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use polder_format::log::LOG_BLOCK_BYTES;

#[derive(Debug)]
pub(crate) struct Ring {
    /// A block more than is used, so that the first word can lie at a multiple of a block.
    words: Box<[AtomicU64]>,
    skip: usize,
    mask: u64,
}

/// Memory of the ring, to be written out.
pub(crate) struct Piece {
    pub(crate) at: NonNull<u8>,
    pub(crate) len: usize,
}

impl Ring {
    /// A ring of `bytes`, a power of two.
    pub(crate) fn new(bytes: u64) -> Ring {
        debug_assert!(bytes.is_power_of_two() && bytes >= LOG_BLOCK_BYTES as u64);
        let count = (bytes as usize + LOG_BLOCK_BYTES) / 8;
        let words: Box<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
        let skip = words.as_ptr().align_offset(LOG_BLOCK_BYTES);
        Ring { words, skip, mask: bytes - 1 }
    }

    pub(crate) fn len(&self) -> u64 {
        self.mask + 1
    }

    fn words(&self) -> &[AtomicU64] {
        &self.words[self.skip..self.skip + (self.len() / 8) as usize]
    }

    fn index(&self, at: u64) -> usize {
        ((at & self.mask) / 8) as usize
    }

    /// The word at a position of the log.
    #[inline]
    pub(crate) fn word(&self, at: u64) -> u64 {
        self.words()[self.index(at)].load(Ordering::Relaxed)
    }

    /// The first word of the group at a position; zero: it is not complete yet.
    #[inline]
    pub(crate) fn first_word(&self, at: u64) -> u64 {
        self.words()[self.index(at)].load(Ordering::Acquire)
    }

    /// A5: copies a group to its position.
    #[inline]
    pub(crate) fn put(&self, at: u64, group: &[u8]) {
        let words = self.words();
        let begin = self.index(at);
        let here = (words.len() - begin).min(group.len() / 8);
        let (head, tail) = group.split_at(8 * here);
        store(&words[begin + 1..begin + here], &head[8..]);
        store(words, tail);
        words[begin].store(word_of(&head[..8]), Ordering::Release);
    }

    /// Puts a word where no group begins: a pad.
    pub(crate) fn put_word(&self, at: u64, word: u64) {
        self.words()[self.index(at)].store(word, Ordering::Relaxed);
    }

    /// `RING-1` again, before the range is given back.
    pub(crate) fn zero(&self, from: u64, to: u64) {
        let words = self.words();
        let (begin, count) = (self.index(from), ((to - from) / 8) as usize);
        let here = count.min(words.len() - begin);
        let zero = |words: &[AtomicU64]| words.iter().for_each(|w| w.store(0, Ordering::Relaxed));
        zero(&words[begin..begin + here]);
        zero(&words[..count - here]);
    }

    /// The memory from `from` on, at most up to `to`, that lies in one piece.
    pub(crate) fn piece(&self, from: u64, to: u64) -> Piece {
        let begin = self.index(from);
        let len = ((to - from) as usize).min((self.words().len() - begin) * 8);
        Piece { at: NonNull::from(&self.words()[begin]).cast(), len }
    }
}

fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[inline]
fn store(words: &[AtomicU64], bytes: &[u8]) {
    for (word, bytes) in words.iter().zip(bytes.chunks_exact(8)) {
        word.store(word_of(bytes), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_wraps_is_whole() {
        let ring = Ring::new(4096);
        let group: Vec<u8> = (1..=64).collect();
        for at in [0, 4032, 4040, 4088, 4096 * 7 - 8] {
            ring.put(at, &group);
            let words = (0..8).map(|i| ring.word(at + 8 * i));
            assert!(words.eq(group.chunks(8).map(word_of)));
            let piece = ring.piece(at, at + 64);
            assert_eq!(piece.len as u64, (4096 - at % 4096).min(64));
            ring.zero(at, at + 64);
            assert!((0..512).all(|i| ring.word(8 * i) == 0));
        }
        assert!(ring.piece(0, 4096).at.as_ptr().addr().is_multiple_of(4096));
    }
}
