//! The log's buffer: a ring that many threads copy groups into at the same time, and marks that
//! tell which of them are complete.
//!
//! * `RING-1` The mark of a stretch of [`MARK_BYTES`] is not zero if a complete group begins there,
//!   or a complete part of one (never two do: they are longer). It is stored last (Release): a
//!   thread that sees it (Acquire) sees the group, or the part.
//! * `RING-2` A range belongs to the thread that took it (A3) until its mark is stored, then to
//!   the leader, which clears the mark as it walks over it, writes the range out and gives it
//!   back.
//!
//! A group that is too long for the ring to take it beside others comes in *parts*, each of some
//! whole records. The thread that has it copies one after the other, as the ring has room, and
//! the leader may write out what it has walked over, in the middle of the group. So a group may
//! be longer than the ring. Until its last part is written it is no valid group on the device
//! (its checksum covers all of it): then there is nothing of it, or all. No cut lies within it,
//! for a cut waits for all groups in front of it.
//!
//! The leader mostly runs on another core than the appenders. So it touches marks only, which lie
//! dense, and leaves the lines of the groups themselves to the threads that write them again on
//! the next lap.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;

use polder_format::SpaceId;
use polder_format::log::{GROUP_BYTES_MIN, LOG_BLOCK_BYTES};
#[cfg(not(loom))]
use polder_format::log::{GROUP_HEADER_BYTES, Record, RecordHead};

use crate::sync::{AtomicU64, NoMemory, Ordering, Watched, Zeroed};

/// No two groups begin in one stretch of so many bytes.
const MARK_BYTES: u64 = 32;
const _: () = assert!(GROUP_BYTES_MIN as u64 > MARK_BYTES);

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
    /// The same, of a part of a group behind the first one: it begins with a record.
    Continued,
}

/// Bytes of [`Ring::head`].
#[cfg(not(loom))]
const HEAD_BYTES: usize = 32;
#[cfg(not(loom))]
const _: () = assert!(HEAD_BYTES >= RecordHead::WIDE_BYTES + size_of::<u64>());
/// So many bytes of where a group will go are prefetched: what a processor has open at a time.
const PREFETCHED_BYTES: u64 = 512;
/// A part of a group takes about this part of the ring. (A record is shorter than that, too: it is
/// not much longer than a page, of which the ring holds 16 or more.)
#[cfg(not(loom))]
const PARTS: u64 = 8;
/// How often the ring should be written out: each time this part of it was filled.
const WAKE_PART: u64 = 8;

const CHANGE_SHIFT: u32 = 32;
const SPACE_SHIFT: u32 = 34;

impl Mark {
    pub(crate) fn new(len: u64, change: Change) -> Mark {
        let (kind, space) = match change {
            Change::Nothing => (0, 0),
            Change::One(space, 1) => (1, u64::from(space.get())),
            Change::One(space, -1) => (2, u64::from(space.get())),
            Change::One(..) | Change::More => (3, 0),
            Change::Continued => (3, 1),
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
            _ if self.0 >> SPACE_SHIFT == 1 => Change::Continued,
            _ => Change::More,
        }
    }
}

pub(crate) struct Ring {
    words: Zeroed<UnsafeCell<u64>>,
    marks: Zeroed<AtomicU64>,
    mask: u64,
    /// Which threads touch the words; nothing outside of loom.
    watched: Watched,
}

// SAFETY: RING-2 says which thread may touch which word, and RING-1 orders what they do.
unsafe impl Sync for Ring {}

/// Memory of the ring, to be written out.
pub(crate) struct Piece {
    pub(crate) at: NonNull<u8>,
    pub(crate) len: usize,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ring({} bytes)", self.len())
    }
}

impl Ring {
    /// A ring of `bytes`, a power of two. An error if there is no memory for it.
    pub(crate) fn new(bytes: u64) -> Result<Ring, NoMemory> {
        debug_assert!(bytes.is_power_of_two() && bytes >= LOG_BLOCK_BYTES as u64);
        let words = Zeroed::new((bytes / 8) as usize, || UnsafeCell::new(0))?;
        let marks = Zeroed::new((bytes / MARK_BYTES) as usize, || AtomicU64::new(0))?;
        let watched = Watched::new((bytes / 8) as usize);
        Ok(Ring { words, marks, mask: bytes - 1, watched })
    }

    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.mask + 1
    }

    /// A group that is longer comes in parts.
    #[inline]
    pub(crate) fn longest_whole(&self) -> u64 {
        self.len() / 2
    }

    /// The parts of a group that is longer, each of some whole records.
    #[cfg(not(loom))]
    pub(crate) fn parts_of<'g>(
        &self,
        group: &'g [u8],
    ) -> impl Iterator<Item = Range<usize>> + use<'g> {
        let (most, mut next) = ((self.len() / PARTS) as usize, 0);
        std::iter::from_fn(move || {
            let begin = next;
            if begin == group.len() {
                return None;
            }
            next = if begin == 0 { GROUP_HEADER_BYTES } else { begin };
            while next < group.len()
                && (next - begin < most || group.len() - next <= 2 * MARK_BYTES as usize)
            {
                next = Record::peek(&group[next..]).map_or(group.len(), |(_, len)| next + len);
            }
            Some(begin..next)
        })
    }

    /// The memory from a position on, and how many bytes lie in one piece there.
    #[inline]
    fn memory(&self, at: u64) -> (*mut u8, usize) {
        let offset = (at & self.mask) as usize;
        let words = UnsafeCell::raw_get(self.words.as_ptr()).cast::<u8>();
        (words.wrapping_add(offset), self.len() as usize - offset)
    }

    #[inline]
    fn mark(&self, at: u64) -> &AtomicU64 {
        &self.marks[((at & self.mask) / MARK_BYTES) as usize]
    }

    /// A word of a group at a position that the caller has walked to.
    #[cfg(any(test, loom))]
    pub(crate) fn word(&self, at: u64) -> u64 {
        // SAFETY: within the ring, and ours to read (RING-2).
        u64::from_le(unsafe { self.memory(at).0.cast::<u64>().read() })
    }

    /// The first bytes of `len` at a position that the caller has walked to, with zeros behind them if
    /// these are fewer.
    #[cfg(not(loom))]
    pub(crate) fn head(&self, at: u64, len: u64) -> [u8; HEAD_BYTES] {
        let (mut head, mut filled) = ([0; HEAD_BYTES], 0);
        let len = len.min(HEAD_BYTES as u64) as usize;
        while filled < len {
            let (from, here) = self.memory(at + filled as u64);
            let here = here.min(len - filled);
            // SAFETY: `here` bytes lie there in one piece, and are ours to read (RING-2).
            unsafe { head[filled..].as_mut_ptr().copy_from(from, here) };
            filled += here;
        }
        head
    }

    /// Asks the processor for the memory from a position on, where a group of about so many bytes
    /// will go: on the last lap the device had it, or another core.
    #[inline]
    pub(crate) fn prefetch(&self, at: u64, bytes: u64) {
        for line in (0..bytes.min(PREFETCHED_BYTES)).step_by(64) {
            prefetch(self.memory(at + line).0);
        }
        prefetch(std::ptr::from_ref(self.mark(at)).cast());
    }

    /// A5: copies a group to its position, and marks it as complete.
    #[inline]
    pub(crate) fn put(&self, at: u64, group: &[u8], change: Change) {
        debug_assert!(group.len() as u64 <= self.len() && group.len() as u64 > MARK_BYTES);
        debug_assert_eq!(self.mark(at).load(Ordering::Relaxed), 0, "RING-1: another group is here");
        self.copy(at, group);
        let mark = Mark::new(group.len() as u64, change);
        self.mark(at).store(mark.0, Ordering::Release);
    }

    #[inline]
    fn copy(&self, at: u64, bytes: &[u8]) {
        let (to, here) = self.memory(at);
        let here = here.min(bytes.len());
        self.watched.write(self.words_of(at, here as u64));
        // SAFETY: `here` bytes lie there in one piece; they are the caller's (RING-2).
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), here) };
        if here < bytes.len() {
            self.copy(at + here as u64, &bytes[here..]);
        }
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
        // RING-2: a thread that stores the next mark here has seen that this part was given back.
        mark.store(0, Ordering::Relaxed);
        debug_assert!(Mark(found).len() > MARK_BYTES && Mark(found).len() <= self.len());
        Some(Mark(found))
    }

    /// Puts a pad where no group begins: a word, then zeros.
    pub(crate) fn put_pad(&self, at: u64, word: u64, len: u64) {
        let mut pad = [0; LOG_BLOCK_BYTES];
        pad[..8].copy_from_slice(&word.to_le_bytes());
        self.copy(at, &pad[..len as usize]);
    }

    /// The memory from `from` on, at most up to `to`, that lies in one piece.
    pub(crate) fn piece(&self, from: u64, to: u64) -> Piece {
        debug_assert!(from < to && to - from <= self.len());
        let (at, here) = self.memory(from);
        // The first word of a mapping is not null.
        let at = NonNull::new(at).unwrap_or(NonNull::dangling());
        let len = ((to - from) as usize).min(here);
        self.watched.read(self.words_of(from, len as u64));
        Piece { at, len }
    }

    /// The words of a piece.
    #[inline]
    fn words_of(&self, at: u64, len: u64) -> Range<usize> {
        let begin = at & self.mask;
        (begin / 8) as usize..((begin + len) / 8) as usize
    }
}

/// The ring, and what of it was written out.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) ring: Ring,
    /// All below was written out of the ring (Release), which has room for its own length from
    /// here on (Acquire).
    written: AtomicU64,
    /// The bits of a position that change when the ring should be written out.
    wake_mask: u64,
}

impl Buffer {
    /// A ring of `bytes` for the log from `at` on.
    pub(crate) fn new(bytes: u64, at: u64) -> Result<Buffer, NoMemory> {
        let wake_mask = !(bytes / WAKE_PART - 1);
        Ok(Buffer { ring: Ring::new(bytes)?, written: AtomicU64::new(at), wake_mask })
    }

    /// A4: whether a group that ends here can be copied into the ring.
    #[inline]
    pub(crate) fn has_room(&self, end: u64) -> bool {
        end <= self.written.load(Ordering::Acquire) + self.ring.len()
    }

    /// For the leader, which alone changes it.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// L3: what lies below was written, and its part of the ring can be used again.
    pub(crate) fn give_back(&self, to: u64) {
        debug_assert!(to >= self.written(), "RING-2: this part was given back before");
        self.written.store(to, Ordering::Release);
    }

    /// Whether the log has come, from `start` to `end`, to where the ring should be written out.
    #[inline]
    pub(crate) fn wakes(&self, start: u64, end: u64) -> bool {
        (start ^ end) & self.wake_mask != 0
    }

    /// That happens each time so much was appended.
    #[cfg(not(loom))]
    pub(crate) fn wake_bytes(&self) -> u64 {
        !self.wake_mask + 1
    }
}

/// `LOG-4`, L1: moves the tail to the next block, so that no group lies in between, and none will.
/// Gives where it was and where it is.
pub(crate) fn cut(tail: &AtomicU64) -> (u64, u64) {
    let mut now = tail.load(Ordering::Acquire);
    loop {
        let cut = now.next_multiple_of(LOG_BLOCK_BYTES as u64);
        match tail.compare_exchange_weak(now, cut, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return (now, cut),
            Err(changed) => now = changed,
        }
    }
}

#[inline]
fn prefetch(_at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address does nothing but warm a cache.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(_at.cast());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_wraps_is_whole_and_marked_once() {
        let ring = Ring::new(4096).unwrap();
        let group: Vec<u8> = (1..=64).collect();
        let change = Change::One(SpaceId::MAX, -1);
        for at in [0, 4032, 4040, 4088, 4096 * 7 - 8] {
            assert_eq!(ring.take_mark(at), None);
            ring.put(at, &group, change);
            for (i, word) in group.chunks(8).enumerate() {
                assert_eq!(ring.word(at + 8 * i as u64).to_le_bytes(), word);
            }
            let piece = ring.piece(at, at + 64);
            assert_eq!(piece.len as u64, (4096 - at % 4096).min(64));
            let mark = ring.take_mark(at).unwrap();
            assert_eq!((mark.len(), mark.change()), (64, change));
            assert_eq!(ring.take_mark(at), None);
            // As far as there is something, also where the ring begins again.
            assert_eq!(ring.head(at + 3, 61)[..], group[3..35]);
            assert_eq!(ring.head(at + 57, 7)[..7], group[57..]);
            assert_eq!(ring.head(at + 57, 7)[7..], [0; 25]);
        }
        assert!(ring.piece(0, 4096).at.as_ptr().addr().is_multiple_of(4096));
        let one = Change::One(SpaceId::CATALOGUE, 1);
        for change in [Change::Nothing, one, Change::More, Change::Continued] {
            assert_eq!(Mark::new(48, change).change(), change);
        }
    }

    /// The parts of a group are its records, in order, none of them cut.
    #[test]
    fn parts_of_a_group_are_whole_records() {
        use polder_format::log::{Group, LogSeed, LoggedValue, Operation};
        use polder_format::{Lsn, PageId, StoreId};

        let ring = Ring::new(64 << 10).unwrap();
        for records in [100, 1000, 1001, 5000] {
            let mut group = Group::new();
            for i in 0..records {
                let value = LoggedValue::Inline(&[7; 600][..i * 37 % 600]);
                let (key, version) = (&[1][..], i as u64);
                group.push(
                    PageId::from_link(5),
                    &Operation::Insert { added: true, version, key, value },
                );
            }
            let bytes = group.seal(LogSeed::new(StoreId([1; 16])), Lsn(8), Lsn(8), 1);
            let (mut next, mut found) = (0, 0);
            for part in ring.parts_of(bytes) {
                assert_eq!(part.start, next);
                assert!(
                    part.len() as u64 > MARK_BYTES && part.len() as u64 <= ring.longest_whole()
                );
                next = part.end;
                let mut at = part.start + if part.start == 0 { GROUP_HEADER_BYTES } else { 0 };
                while let Some((_, len)) = Record::peek(&bytes[at..part.end]) {
                    at += len;
                    found += 1;
                }
                let is_last = part.end == bytes.len();
                assert!(at == part.end || is_last && part.end - at < 8);
            }
            assert_eq!((next, found), (bytes.len(), records));
        }
    }
}
