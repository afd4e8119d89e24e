//! The log's buffer: a ring that many threads copy groups into at the same time, and marks that tell
//! which of them are complete.
//!
//! * `RING-1` The mark of a stretch of [`MARK_BYTES`] is not zero if a complete group begins there
//!   (never two do: a group is longer). It is stored last (Release): who sees it (Acquire) sees the
//!   group.
//! * `RING-2` A range belongs to whoever reserved it until its mark is stored, then to the leader,
//!   who clears the mark as it walks over it, writes the range out and gives it back.
//!
//! The leader mostly runs on another core than the appenders. So it touches marks only, which lie
//! dense, and leaves the lines of the groups themselves to who writes them again on the next lap.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use polder_format::SpaceId;
use polder_format::log::{GROUP_HEADER_BYTES, LOG_BLOCK_BYTES};

/// No two groups begin in one stretch of so many bytes.
const MARK_BYTES: u64 = 32;
const _: () = assert!(GROUP_HEADER_BYTES as u64 + 16 > MARK_BYTES);

/// What a mark says of its group: its length, and how it changes the number of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u64);

/// How a group changes the numbers of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Nothing,
    /// One key of this table is new, or gone.
    One(SpaceId, i64),
    /// More than that: its records tell.
    More,
}

const CHANGE_SHIFT: u32 = 32;
const SPACE_SHIFT: u32 = 34;

impl Mark {
    pub(crate) fn new(len: u64, change: Change) -> Mark {
        let (kind, space) = match change {
            Change::Nothing => (0, 0),
            Change::One(space, 1) => (1, u64::from(space.get())),
            Change::One(space, -1) => (2, u64::from(space.get())),
            Change::One(..) | Change::More => (3, 0),
        };
        Mark(len | kind << CHANGE_SHIFT | space << SPACE_SHIFT)
    }

    pub(crate) fn len(self) -> u64 {
        self.0 & u64::from(u32::MAX)
    }

    pub(crate) fn change(self) -> Change {
        let space = SpaceId::new(self.0 >> SPACE_SHIFT).unwrap_or(SpaceId::FILE);
        match self.0 >> CHANGE_SHIFT & 3 {
            0 => Change::Nothing,
            1 => Change::One(space, 1),
            2 => Change::One(space, -1),
            _ => Change::More,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Ring {
    /// A block more than is used, so that the first word can lie at a multiple of a block.
    words: Box<[AtomicU64]>,
    skip: usize,
    marks: Box<[AtomicU64]>,
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
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect::<Box<[_]>>();
        let words = zeros((bytes as usize + LOG_BLOCK_BYTES) / 8);
        let skip = words.as_ptr().align_offset(LOG_BLOCK_BYTES);
        Ring { words, skip, marks: zeros((bytes / MARK_BYTES) as usize), mask: bytes - 1 }
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

    fn mark(&self, at: u64) -> &AtomicU64 {
        &self.marks[((at & self.mask) / MARK_BYTES) as usize]
    }

    /// The word at a position of the log.
    pub(crate) fn word(&self, at: u64) -> u64 {
        self.words()[self.index(at)].load(Ordering::Relaxed)
    }

    /// A5: copies a group to its position, and marks it as complete.
    #[inline]
    pub(crate) fn put(&self, at: u64, group: &[u8], change: Change) {
        let words = self.words();
        let begin = self.index(at);
        let here = (words.len() - begin).min(group.len() / 8);
        let (head, tail) = group.split_at(8 * here);
        store(&words[begin..begin + here], head);
        store(words, tail);
        let mark = Mark::new(group.len() as u64, change);
        self.mark(at).store(mark.0, Ordering::Release);
    }

    /// The mark of the group at a position, which the caller walks over now; `None`: it is not
    /// complete yet.
    #[inline]
    pub(crate) fn take_mark(&self, at: u64) -> Option<Mark> {
        let mark = self.mark(at);
        let found = mark.load(Ordering::Acquire);
        if found == 0 {
            return None;
        }
        mark.store(0, Ordering::Relaxed);
        Some(Mark(found))
    }

    /// Puts a pad where no group begins: a word, then zeros.
    pub(crate) fn put_pad(&self, at: u64, word: u64, len: u64) {
        let words = self.words();
        let begin = self.index(at);
        // A pad ends with its block, so that it does not wrap.
        words[begin].store(word, Ordering::Relaxed);
        let rest = &words[begin + 1..begin + (len / 8) as usize];
        rest.iter().for_each(|word| word.store(0, Ordering::Relaxed));
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
    fn a_group_that_wraps_is_whole_and_marked_once() {
        let ring = Ring::new(4096);
        let group: Vec<u8> = (1..=64).collect();
        let change = Change::One(SpaceId::MAX, -1);
        for at in [0, 4032, 4040, 4088, 4096 * 7 - 8] {
            assert_eq!(ring.take_mark(at), None);
            ring.put(at, &group, change);
            let words = (0..8).map(|i| ring.word(at + 8 * i));
            assert!(words.eq(group.chunks(8).map(word_of)));
            let piece = ring.piece(at, at + 64);
            assert_eq!(piece.len as u64, (4096 - at % 4096).min(64));
            let mark = ring.take_mark(at).unwrap();
            assert_eq!((mark.len(), mark.change()), (64, change));
            assert_eq!(ring.take_mark(at), None);
        }
        assert!(ring.piece(0, 4096).at.as_ptr().addr().is_multiple_of(4096));
        for change in [Change::Nothing, Change::One(SpaceId::CATALOGUE, 1), Change::More] {
            assert_eq!(Mark::new(48, change).change(), change);
        }
    }
}
