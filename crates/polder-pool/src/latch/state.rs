//! The state word of a page: latch, mark, version and frame in 64 bits.
//!
//! Bits, transitions and their orders are in `docs/protocols.md`, "The state word". The idea of
//! one word for translation and latch is Calico's (calico-2026, 4.3), the mark vmcache's.

use std::fmt;

use crate::latch::parking::ParkingLot;
use crate::sync::Backoff;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The number of a frame, from 1 to 2^28 - 1. Zero is no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(u32);

impl FrameId {
    /// No frame.
    pub const NONE: FrameId = FrameId(0);
    /// The first frame.
    pub const FIRST: FrameId = FrameId(1);
    /// The greatest number of a frame.
    pub const MAX: FrameId = FrameId((1 << 28) - 1);

    /// The frame with this number; the caller knows that it is below 2^28.
    ///
    /// # Panics
    /// In debug builds, if it is not.
    #[inline(always)]
    pub fn new(frame: u32) -> FrameId {
        debug_assert!(frame <= Self::MAX.0);
        FrameId(frame)
    }

    /// The number, 0 for no frame.
    #[inline(always)]
    pub fn get(self) -> u32 {
        self.0
    }
}

/// How often the content of a frame has changed, modulo 2^27.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version(u32);

impl Version {
    /// Loom goes round in eight versions, so that a reader can be overtaken by a whole round.
    const MASK: u32 = if cfg!(loom) { 7 } else { (1 << 27) - 1 };
    /// A wrap count step for each so many versions: four in a round.
    const STEP: u32 = (Self::MASK + 1) / 4;

    /// The version with this number, modulo 2^27.
    #[inline(always)]
    pub fn new(version: u32) -> Version {
        Version(version & Self::MASK)
    }

    /// The number.
    #[inline(always)]
    pub fn get(self) -> u32 {
        self.0
    }

    /// The version after this one.
    #[inline(always)]
    pub fn next(self) -> Version {
        Version::new(self.0 + 1)
    }

    /// Whether reaching this version must be counted as a step towards a wrap.
    #[inline(always)]
    pub fn is_step(self) -> bool {
        self.0 & (Self::STEP - 1) == 0
    }
}

/// Counts steps towards a wrap of any frame's version.
///
/// 27 bits of version can come round within one read that was descheduled for long. A thread that
/// releases a frame at a version that is a multiple of 2^25 first adds one to this count. A reader
/// loads it before its first load of a word and compares at validation: a whole round contains
/// four such steps, and reading the word that the last of them released makes the step visible.
/// Dirty detection has the same guard: the step sets the frame's *written* to "never".
#[derive(Debug, Default)]
pub struct WrapCount(AtomicU32);

impl WrapCount {
    /// The count now. Acquire: what is read afterwards is not older.
    #[inline(always)]
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// The version after this one, and whether it was a step: one that is counted here, before
    /// the word with the new version is stored.
    #[inline(always)]
    pub fn next(&self, version: Version) -> (Version, bool) {
        let next = version.next();
        if next.is_step() {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
        (next, next.is_step())
    }
}

/// A writer waits until the page's holders have released it, and nobody else begins to hold it.
pub(super) const PENDING: u64 = 0x100;
const MARK: u64 = 0x80;
const LATCH: u64 = 0x7F;
const MAX_SHARED: u64 = 120;
/// One more than the most sharers: a reader may hold a frame at any latch up to this one.
const COPYING: u64 = MAX_SHARED + 1;
const IN_FLIGHT: u64 = 125;
const IN_FLIGHT_AWAITED: u64 = 126;
const EXCLUSIVE: u64 = 127;
const VERSION_SHIFT: u32 = 9;
const IDENTITY: u64 = !0x1FF;

/// The value of a state word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StateWord(pub(super) u64);

impl StateWord {
    /// All zero: the page is not resident.
    pub const EVICTED: StateWord = StateWord(0);

    /// A resident page that nobody holds.
    #[inline(always)]
    pub fn free(frame: FrameId, version: Version) -> StateWord {
        StateWord((u64::from(frame.0) << 36) | (u64::from(version.0) << VERSION_SHIFT))
    }

    /// The same with the mark of replacement, or without it.
    pub fn with_mark(self, marked: bool) -> StateWord {
        StateWord(if marked { self.0 | MARK } else { self.0 & !MARK })
    }

    /// A resident page that its maker holds exclusively.
    pub fn exclusive(frame: FrameId, version: Version) -> StateWord {
        StateWord(Self::free(frame, version).0 | EXCLUSIVE)
    }

    /// The frame that holds the page.
    #[inline(always)]
    pub fn frame(self) -> FrameId {
        FrameId((self.0 >> 36) as u32)
    }

    /// The version of what is in the frame.
    #[inline(always)]
    pub fn version(self) -> Version {
        Version::new((self.0 >> VERSION_SHIFT) as u32)
    }

    /// Whether the page is not resident, nor about to be.
    #[inline(always)]
    pub fn is_evicted(self) -> bool {
        self.0 == 0
    }

    /// Whether the page is being loaded or made.
    #[inline(always)]
    pub fn is_in_flight(self) -> bool {
        matches!(self.0 & LATCH, IN_FLIGHT | IN_FLIGHT_AWAITED)
    }

    /// Whether somebody holds the page exclusively.
    #[inline(always)]
    pub fn is_exclusive(self) -> bool {
        self.0 & LATCH == EXCLUSIVE
    }

    /// Whether somebody holds the page shared.
    #[inline(always)]
    pub(crate) fn is_shared(self) -> bool {
        (1..=MAX_SHARED).contains(&(self.0 & LATCH))
    }

    /// Whether somebody holds the page exclusively that is otherwise as it was `seen`.
    pub(crate) fn is_exclusive_of(self, seen: StateWord) -> bool {
        self.is_exclusive() && (self.0 ^ seen.0) & IDENTITY == 0
    }

    /// Whether a writer holds it for copying, to change it in another frame (`COW-1`).
    #[inline(always)]
    pub fn is_copying(self) -> bool {
        self.0 & LATCH == COPYING
    }

    /// The same latch and mark, in another frame.
    pub(crate) fn in_frame(self, frame: FrameId, version: Version) -> StateWord {
        StateWord(Self::free(frame, version).0 | (self.0 & !IDENTITY))
    }

    /// Whether the page is resident and nobody holds it.
    #[inline(always)]
    pub fn is_free(self) -> bool {
        self.0 & LATCH == 0 && self.0 != 0
    }

    /// Whether replacement wants to hear of the next access.
    #[inline(always)]
    pub fn is_marked(self) -> bool {
        self.0 & MARK != 0
    }

    /// Whether an optimistic read may begin: resident, and neither exclusive nor in flight.
    #[inline(always)]
    pub fn is_readable(self) -> bool {
        self.0 != 0 && self.0 & LATCH <= MAX_SHARED
    }

    /// Whether a writer waits for those that hold the page.
    #[inline(always)]
    pub fn is_pending(self) -> bool {
        self.0 & PENDING != 0
    }

    /// Whether a reader that holds the page in the frame may begin: also while somebody changes it
    /// in another frame, but not while a writer waits for its holders.
    #[inline(always)]
    pub fn can_be_held(self) -> bool {
        self.0 != 0 && self.0 & LATCH <= COPYING && !self.is_pending()
    }

    /// Whether a page that was as `seen` can be held as it is `now`: nobody writes to its frame,
    /// and no writer waits for its holders. The page may be changing elsewhere, and with it
    /// others.
    #[inline(always)]
    pub fn is_left_alone(self, now: StateWord) -> bool {
        (self.0 ^ now.0) & (IDENTITY | PENDING) == 0 && now.0 & LATCH <= COPYING
    }

    /// Whether a reader that saw `self` at the beginning and sees `now` at the end has read one
    /// content throughout: same frame and version, and not being written (the check that
    /// calico-2026, algorithm 1, line 32 leaves out).
    #[inline(always)]
    pub fn still_stands(self, now: StateWord) -> bool {
        (self.0 ^ now.0) & IDENTITY == 0 && now.0 & LATCH <= MAX_SHARED
    }
}

impl fmt::Debug for StateWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match (self.is_marked(), self.is_pending()) {
            (false, false) => "",
            (true, false) => ", marked",
            (false, true) => ", pending",
            (true, true) => ", marked, pending",
        };
        let (frame, version) = (self.frame().0, self.version().0);
        match self.0 & LATCH {
            _ if self.0 == 0 => write!(f, "evicted"),
            IN_FLIGHT => write!(f, "in flight"),
            IN_FLIGHT_AWAITED => write!(f, "in flight, awaited"),
            EXCLUSIVE => write!(f, "frame {frame} v{version} exclusive{mark}"),
            COPYING => write!(f, "frame {frame} v{version} being copied{mark}"),
            shared => write!(f, "frame {frame} v{version} shared by {shared}{mark}"),
        }
    }
}

/// The memory of a state word. Zeroed memory is a valid cell: an evicted page.
#[repr(transparent)]
pub struct StateCell(AtomicU64);

impl fmt::Debug for StateCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.peek().fmt(f)
    }
}

impl Default for StateCell {
    fn default() -> StateCell {
        StateCell::new()
    }
}

impl StateCell {
    /// An evicted page.
    pub fn new() -> StateCell {
        StateCell(AtomicU64::new(0))
    }

    /// The word now, to begin an optimistic read. Pairs with the Release of publish and release.
    #[inline(always)]
    pub fn read(&self) -> StateWord {
        StateWord(self.0.load(Ordering::Acquire))
    }

    /// Whether all that was read since the word was `seen` is one content of the page. `begun` is
    /// the wrap count as it was before that.
    #[inline(always)]
    pub fn validate(&self, seen: StateWord, wraps: &WrapCount, begun: u32) -> bool {
        // What was read from the page stays before the load of the word.
        fence(Ordering::Acquire);
        // Acquire: a wrapped word makes the steps towards the wrap visible to the next load.
        let now = self.read();
        seen.still_stands(now) && wraps.get() == begun
    }

    /// The word now, after a flag was set, or a slice raised, that others look at once they have
    /// changed the word: claimers, and writers that take the page exclusively.
    pub fn read_after_flag(&self) -> StateWord {
        StateWord(self.0.load(Ordering::SeqCst))
    }

    /// The word now, for deciding what to try.
    #[inline(always)]
    pub fn peek(&self) -> StateWord {
        StateWord(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn change(&self, from: StateWord, to: u64, success: Ordering) -> bool {
        self.0.compare_exchange(from.0, to, success, Ordering::Relaxed).is_ok()
    }

    /// An access to a marked page: clears the mark. Fails silently if the word has changed.
    pub fn touch(&self, seen: StateWord) {
        self.change(seen, seen.0 & !MARK, Ordering::Relaxed);
    }

    /// Marks a free page. False if the word is not `seen`.
    pub fn mark(&self, seen: StateWord) -> bool {
        self.change(seen, seen.0 | MARK, Ordering::Relaxed)
    }

    /// Takes the free page that was `seen` exclusively; gives the word as it is held.
    /// Acquire pairs with the Release of the last holder; SeqCst with the threads that hold it by
    /// slices (`HOLD-2`): they add first and look at the word then.
    #[inline(always)]
    pub fn upgrade(&self, seen: StateWord) -> Option<StateWord> {
        let held = seen.0 | EXCLUSIVE;
        let ours = seen.is_free() && self.change(seen, held, Ordering::SeqCst);
        ours.then(|| Self::held(held))
    }

    /// The word is visible before any byte that its holder writes from now on: pairs with the
    /// Acquire fence of validation. (An Acquire CAS alone lets the bytes overtake its own store.)
    #[inline(always)]
    fn held(word: u64) -> StateWord {
        fence(Ordering::Release);
        StateWord(word)
    }

    /// Takes the free page that was `seen` to change it in another frame: nobody else may change
    /// it, and its bytes here stay as they are. SeqCst, as `upgrade`: the other side is a thread
    /// that begins to write the page back.
    pub fn begin_copy(&self, seen: StateWord) -> Option<StateWord> {
        let held = (seen.0 & !LATCH) | COPYING;
        (seen.is_free() && self.change(seen, held, Ordering::SeqCst)).then_some(StateWord(held))
    }

    /// The writer that wanted to change it elsewhere changes it here after all: as behind
    /// `upgrade`.
    pub fn seal(&self, held: StateWord) -> StateWord {
        debug_assert!(self.peek().is_copying());
        self.0.fetch_or(EXCLUSIVE, Ordering::SeqCst);
        Self::held(held.0 | EXCLUSIVE)
    }

    /// Takes the page exclusively from its only shared holder, the caller. SeqCst: as `upgrade`.
    pub fn upgrade_shared(&self) -> Option<StateWord> {
        let now = self.peek();
        let held = now.0 | EXCLUSIVE;
        let ours = now.0 & LATCH == 1 && self.change(now, held, Ordering::SeqCst);
        ours.then(|| Self::held(held))
    }

    /// Waits for an exclusive hold. `None` if the page is not resident.
    pub fn latch(&self) -> Option<StateWord> {
        let mut backoff = Backoff::new();
        loop {
            let now = self.peek();
            if now.is_evicted() || now.is_in_flight() {
                return None;
            }
            if let Some(held) = self.upgrade(now) {
                return Some(held);
            }
            self.announce(now);
            backoff.wait();
        }
    }

    /// Holds the page shared, if it can be had at once.
    pub fn try_share(&self) -> Option<StateWord> {
        let mut now = self.peek();
        while now.is_readable() && now.0 & LATCH < MAX_SHARED && !now.is_pending() {
            let shared = now.0 + 1;
            match self.0.compare_exchange_weak(now.0, shared, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Some(StateWord(shared)),
                Err(changed) => now = StateWord(changed),
            }
        }
        None
    }

    /// Ends a shared hold.
    pub fn unshare(&self) {
        let before = self.0.fetch_sub(1, Ordering::Release);
        debug_assert!(StateWord(before).is_shared());
    }

    /// Ends an exclusive hold: the page now has this frame and version. Pairs with `read`.
    #[inline(always)]
    pub fn release(&self, held: StateWord, version: Version) {
        self.release_moved(held, held.frame(), version);
    }

    /// Ends an exclusive hold: the page has moved, and has this frame and version now.
    #[inline(always)]
    pub fn release_moved(&self, held: StateWord, frame: FrameId, version: Version) {
        debug_assert!(self.is_held());
        let free = StateWord::free(frame, version);
        self.0.store(free.0 | (held.0 & MARK), Ordering::Release);
    }

    /// Ends an exclusive hold, or one for copying, without a change.
    pub fn put_back(&self, held: StateWord) {
        debug_assert!(self.is_held());
        self.0.store(held.0 & (IDENTITY | MARK), Ordering::Release);
    }

    /// The same, and goes on holding the page shared.
    pub fn put_back_shared(&self, held: StateWord) {
        debug_assert!(self.peek().is_exclusive());
        self.0.store((held.0 & (IDENTITY | MARK)) + 1, Ordering::Release);
    }

    fn is_held(&self) -> bool {
        let now = self.peek();
        now.is_exclusive() || now.is_copying()
    }

    /// The holder's last word: the page is gone.
    pub fn clear(&self) {
        debug_assert!(self.is_held());
        self.0.store(0, Ordering::Release);
    }

    /// Claims an evicted page for loading or making it. SeqCst pairs with dropping a space and
    /// moving an extent, which set their flag first and look at the words afterwards.
    pub fn claim(&self) -> bool {
        let ours = self.0.compare_exchange(0, IN_FLIGHT, Ordering::SeqCst, Ordering::Relaxed);
        // The former word of the frame that the page will get is gone, visibly, before any byte
        // changes there: pairs with the Acquire fence of validation.
        fence(Ordering::Release);
        ours.is_ok()
    }

    /// A word that moves here from another cell, whose page the caller holds exclusively: it is
    /// held here too. False if this cell is in use.
    pub fn receive(&self, held: StateWord) -> bool {
        debug_assert!(held.is_exclusive() || held.is_copying());
        self.0.compare_exchange(0, held.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Ends a claim: with the resident word, or with `EVICTED` to abandon. Wakes the sleepers.
    pub fn publish(&self, word: StateWord, lot: &ParkingLot) {
        let before = self.0.swap(word.0, Ordering::AcqRel);
        debug_assert!(StateWord(before).is_in_flight(), "POOL-1: the page is not claimed");
        if before & LATCH == IN_FLIGHT_AWAITED {
            lot.wake(self.address());
        }
    }

    /// Sleeps until the page is no longer in flight; returns at once if it is not.
    pub fn await_flight(&self, lot: &ParkingLot) {
        lot.sleep(self.address(), || {
            loop {
                let now = StateWord(self.0.load(Ordering::Acquire));
                if now.0 & LATCH != IN_FLIGHT {
                    return now.is_in_flight();
                }
                if self.change(now, IN_FLIGHT_AWAITED, Ordering::Relaxed) {
                    return true;
                }
            }
        });
    }

    /// What a punch does to the word: zero, whatever it was. Gives what it was.
    #[cfg(loom)]
    pub(crate) fn wipe(&self) -> StateWord {
        StateWord(self.0.swap(0, Ordering::Relaxed))
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}
