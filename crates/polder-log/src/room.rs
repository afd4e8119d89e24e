//! How much room there is in the log: where it begins and ends, and how much is reserved.
//!
//! * `LOG-4` No thread waits for log space under a latch: an operation reserves the most that it
//!   can append (and the rest of a block, for a sync behind it) before its first latch. The end of
//!   the log plus all reservations never exceeds what the segments that exist have room for, less
//!   two: what checkpoints and end-of-recovery records themselves append. An operation that holds
//!   a reservation asks for no other one.
//! * `IDLE-1` No group stays unsynced because the log syncer has gone. It goes only if all of the
//!   log is durable and nothing is reserved: it sets `alarm` to zero first and looks at the
//!   reservations then; a thread that reserves counts itself in first, and compares with `alarm`
//!   then (SeqCst on all four: one of the two sees the other). Whoever comes to the alarm calls the
//!   log syncer, and sets the alarm to where a checkpoint is wanted. So a thread that reserves
//!   makes one comparison for both.

#![cfg(not(loom))]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use polder_format::log::LOG_BLOCK_BYTES;
use polder_pool::journal::SharedError;

use crate::file::LogSpace;
use crate::sync::{self, lock};

/// Segments that reservations never count on: one for checkpoints and end-of-recovery records, one
/// because a stretch of the log may begin and end within a segment.
pub(crate) const SPARE_SEGMENTS: u64 = 2;
/// The rest of a block that a sync behind a group may fill: each reservation counts it.
pub(crate) const PAD_BYTES: u64 = LOG_BLOCK_BYTES as u64;

/// What all writers change, alone on its cache lines: one pair of lines for each change, and not
/// two.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Tail {
    /// A3: where the next group goes.
    pub(crate) end: sync::AtomicU64,
    /// Bytes of all log-space reservations, each with its `PAD_BYTES`. SeqCst: `IDLE-1`.
    reserved: AtomicU64,
}

impl Tail {
    pub(crate) fn new(end: u64) -> Tail {
        Tail { end: sync::AtomicU64::new(end), reserved: AtomicU64::new(0) }
    }

    /// Reserves so many bytes, to be released if that was too much: where the log ends, and where
    /// it would end if all reservations were used.
    #[inline]
    pub(crate) fn reserve(&self, bytes: u64) -> (u64, u64) {
        let need = bytes + PAD_BYTES;
        let others = self.reserved.fetch_add(need, Ordering::SeqCst);
        let end = self.end.load(Ordering::Acquire);
        (end, end + others + need)
    }

    /// The reservation of so many bytes is used up, or not needed.
    #[inline]
    pub(crate) fn release(&self, bytes: u64) {
        let before = self.reserved.fetch_sub(bytes + PAD_BYTES, Ordering::AcqRel);
        debug_assert!(before >= bytes + PAD_BYTES, "LOG-4: more is released than was reserved");
    }
}

/// Whether there is room in the log, and why not. All of it is guarded by the mutex around it.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// The last checkpoint failed.
    pub(crate) blocked: Option<SharedError>,
    /// The file could not be made longer.
    pub(crate) no_growth: bool,
    /// A thread waits for a checkpoint to make room, however little the log has grown.
    pub(crate) wanted: bool,
    /// The log syncer is here: `alarm` is `trigger`, and not zero.
    has_syncer: bool,
}

/// How far the log may go.
///
/// Invariants:
/// * A reservation is granted only if the log ends below `ceiling` with it and all others
///   (`LOG-4`).
/// * `start` only grows, and lies where the log is durable: both superblocks name it (`LOG-5`).
/// * `start`, `ceiling`, `trigger` and `alarm` are changed under `room`, or by the one checkpoint;
///   they are read without.
#[derive(Debug)]
pub(crate) struct Reservations {
    /// The most bytes of one reservation.
    pub(crate) group_max: u64,
    /// Where reservations end: behind the last segment but `SPARE_SEGMENTS`, counted from the one
    /// in which the log starts.
    ceiling: AtomicU64,
    /// Where replay would begin.
    start: AtomicU64,
    /// A checkpoint is wanted when the tail is here. Stored after `start`.
    trigger: AtomicU64,
    /// A thread that reserves at this tail or beyond has somebody to call: `IDLE-1`.
    alarm: AtomicU64,
    pub(crate) room: Mutex<Room>,
    room_changed: Condvar,
    /// How often a change found the log full.
    write_stalls: AtomicU64,
}

impl Reservations {
    pub(crate) fn new(buffer_bytes: u64, space: &LogSpace) -> Reservations {
        let share = lock(&space.segments).header().share();
        Reservations {
            group_max: (buffer_bytes / 2).min((space.limit_segments - SPARE_SEGMENTS) * share / 4),
            ceiling: AtomicU64::new(0),
            start: AtomicU64::new(0),
            trigger: AtomicU64::new(0),
            alarm: AtomicU64::new(0),
            room: Mutex::default(),
            room_changed: Condvar::new(),
            write_stalls: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn ceiling(&self) -> u64 {
        self.ceiling.load(Ordering::Acquire)
    }

    pub(crate) fn start(&self) -> u64 {
        self.start.load(Ordering::Acquire)
    }

    /// Whether a thread that has reserved at this tail has somebody to call (`IDLE-1`).
    #[inline]
    pub(crate) fn is_alarmed(&self, tail: u64) -> bool {
        tail >= self.alarm.load(Ordering::SeqCst)
    }

    /// Whether a checkpoint is wanted when the log ends here.
    pub(crate) fn wants_checkpoint(&self, tail: u64) -> bool {
        tail >= self.trigger.load(Ordering::Relaxed)
    }

    /// `IDLE-1`, of the thread that comes to the alarm: whether it must call the log syncer.
    pub(crate) fn end_rest(&self) -> bool {
        let mut room = lock(&self.room);
        let was_at_rest = !std::mem::replace(&mut room.has_syncer, true);
        self.alarm.store(self.trigger.load(Ordering::Relaxed), Ordering::SeqCst);
        was_at_rest
    }

    /// `IDLE-1`, of a log syncer that would go, or of a thread that could not call it. False: a
    /// thread has reserved, or the log goes on behind `durable`.
    pub(crate) fn begin_rest(&self, tail: &Tail, durable: u64) -> bool {
        let mut room = lock(&self.room);
        self.alarm.store(0, Ordering::SeqCst);
        // In this order: what is not reserved any more was appended.
        if tail.reserved.load(Ordering::SeqCst) != 0 || tail.end.load(Ordering::Acquire) > durable {
            self.alarm.store(self.trigger.load(Ordering::Relaxed), Ordering::SeqCst);
            return false;
        }
        room.has_syncer = false;
        true
    }

    /// `IDLE-1`: the log syncer that was called cannot come.
    pub(crate) fn has_no_syncer(&self) {
        let mut room = lock(&self.room);
        room.has_syncer = false;
        self.alarm.store(0, Ordering::SeqCst);
    }

    /// Most bytes of the log that checkpoints may leave.
    pub(crate) fn target(&self) -> u64 {
        // The start is stored before the trigger.
        let start = self.start();
        2 * self.trigger.load(Ordering::Acquire).saturating_sub(start)
    }

    pub(crate) fn write_stalls(&self) -> u64 {
        self.write_stalls.load(Ordering::Relaxed)
    }

    /// The log begins here from then on: what lies below is free.
    pub(crate) fn set_start(&self, start: u64, space: &LogSpace) {
        debug_assert!(start >= self.start(), "LOG-5: what lies below was given up");
        self.start.store(start, Ordering::Release);
        lock(&space.segments).keep(start, u64::MAX);
        // There may be room on the device by now.
        lock(&self.room).no_growth = false;
        self.set_ceiling(space);
    }

    /// After the start or the number of segments has changed.
    pub(crate) fn set_ceiling(&self, space: &LogSpace) {
        let mut room = lock(&self.room);
        let segments = lock(&space.segments);
        let (share, count) = (segments.header().share(), segments.count());
        drop(segments);
        let start = self.start();
        let begin = start / share * share;
        self.ceiling.store(begin + (count - SPARE_SEGMENTS) * share, Ordering::Release);
        let most = if room.no_growth { count } else { space.limit_segments };
        let half = (most - SPARE_SEGMENTS) * share / 2;
        self.trigger.store(start + half, Ordering::Release);
        if room.has_syncer {
            self.alarm.store(start + half, Ordering::SeqCst);
        }
        room.blocked = None;
        drop(room);
        self.room_changed.notify_all();
    }

    /// Waits a moment for more room. Counts how often a thread does.
    pub(crate) fn await_room(&self, room: MutexGuard<'_, Room>) {
        self.write_stalls.fetch_add(1, Ordering::Relaxed);
        let waited = self.room_changed.wait_timeout(room, Duration::from_millis(100));
        drop(waited.unwrap_or_else(|poisoned| poisoned.into_inner()));
    }

    pub(crate) fn wake_all(&self) {
        self.room_changed.notify_all();
    }
}
