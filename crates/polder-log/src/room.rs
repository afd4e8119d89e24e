//! How much room there is in the log: where it begins and ends, and how much is reserved.
//!
//! * `LOG-4` No thread waits for log space under a latch: an operation reserves the most that it
//!   can append (and the rest of a block, for a sync behind it) before its first latch. The end of
//!   the log plus all reservations never exceeds `ceiling`: where the segments that exist are
//!   full, less what is spared for end-of-recovery records ([`spare_bytes`]) and for the groups of
//!   the next checkpoint (`Room::own`), which are appended without a reservation. An operation
//!   that holds a reservation asks for no other one.
//! * `LOG-7` The log's own groups always find room: before them `ceiling` and what they take must
//!   lie within the segments, or these become more whatever the limit
//!   ([`Log::make_room_for_own`](crate::log::Log::make_room_for_own)); where the device has no
//!   room for that nothing is appended, and the checkpoint or the opening fails. A thread that
//!   reserves adds its bytes first and looks at the ceiling then; one that needs room for an own
//!   group lowers the ceiling first and adds up what is reserved then (SeqCst on all four: what is
//!   granted is among that, or ends below the lower ceiling).
//! * `IDLE-1` No group stays unsynced because the log syncer has gone. It goes only if all of the
//!   log is durable and nothing is reserved: it sets `alarm` to zero first and looks at the
//!   reservations then; a thread that reserves counts itself in first, and compares with `alarm`
//!   then (SeqCst on all four: one of the two sees the other). Whoever comes to the alarm calls the
//!   log syncer, and sets the alarm to where a checkpoint is wanted; if it cannot be started, that
//!   thread stands in for it until the log is at rest again. So a thread that reserves
//!   makes one comparison for both.

#![cfg(not(loom))]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use polder_format::log::{GROUP_HEADER_BYTES, LOG_BLOCK_BYTES, LogHeader, TableCount};
use polder_pool::journal::{SharedError, group_bytes};

use crate::file::{GROUP_BYTES_MAX, LogOptions, LogSpace};
use crate::sync::{self, lock};

/// Bytes that reservations never count on, of so many that all segments have room for, beside those
/// for the next checkpoint: for end-of-recovery records, a block for each opening that was killed
/// before it had made a checkpoint.
pub(crate) fn spare_bytes(capacity: u64, header: &LogHeader) -> u64 {
    const LEAST: u64 = 16 << 10;
    (capacity / 8).clamp(LEAST, header.segment_bytes.max(LEAST))
}

/// Tables in one group of a checkpoint.
pub(crate) const TABLES_A_GROUP: usize = 4096;
/// What the record of a checkpoint has beside its tables, at most.
const COUNTS_BYTES: usize = 32;

/// What the groups of a checkpoint with so many tables take of the log, at most.
pub(crate) fn own_bytes(tables: usize) -> u64 {
    let groups = tables / TABLES_A_GROUP + 1;
    let records = group_bytes(groups, tables * size_of::<TableCount>());
    // A sync may fill up a block in front of each group and behind the last one.
    let pads = (groups + 1) * LOG_BLOCK_BYTES;
    (records + groups * (GROUP_HEADER_BYTES + COUNTS_BYTES) + pads) as u64
}

/// The most bytes of the stream that the log file may have room for, where the groups of a
/// checkpoint take `own` bytes: if those are much (of very many tables), the last one's and the
/// next one's do not count.
pub(crate) fn most_bytes(space: &LogSpace, own: u64) -> u64 {
    let spare = spare_bytes(space.limit_bytes, lock(&space.segments).header());
    space.limit_bytes + 2 * own.saturating_sub(spare)
}

/// The part of the log's limit that one group may take, so that others find room beside it.
pub(crate) const GROUP_PART: u64 = 4;

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

    /// Where the log would end if all reservations were used; some of them may be refused yet.
    pub(crate) fn end_with_reserved(&self) -> u64 {
        // In this order: what is not reserved any more was appended.
        let reserved = self.reserved.load(Ordering::SeqCst);
        self.end.load(Ordering::Acquire) + reserved
    }

    /// The reservation of so many bytes is used up, or not needed.
    #[inline]
    pub(crate) fn release(&self, bytes: u64) {
        let before = self.reserved.fetch_sub(bytes + PAD_BYTES, Ordering::AcqRel);
        debug_assert!(before >= bytes + PAD_BYTES, "LOG-4: more is released than was reserved");
    }

    /// Of a reservation of so many bytes one of `kept` bytes stays.
    pub(crate) fn release_all_but(&self, bytes: u64, kept: u64) {
        let before = self.reserved.fetch_sub(bytes - kept, Ordering::AcqRel);
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
    /// What the groups of the next checkpoint take, at most: `LOG-7`.
    pub(crate) own: u64,
    /// After so many bytes a checkpoint is worth what it writes, if there is room for so many.
    aim: u64,
}

/// How far the log may go.
///
/// Invariants:
/// * A reservation is granted only if the log ends below `ceiling` with it and all others
///   (`LOG-4`).
/// * `start` only grows, and lies where the log is durable: both superblocks name it (`LOG-5`).
/// * `start`, `ceiling`, `half`, `trigger` and `alarm` are changed under `room`, or by the one checkpoint;
///   they are read without.
#[derive(Debug)]
pub(crate) struct Reservations {
    /// The most bytes of one reservation, and what they come from: a part of the log's limit, and a
    /// share of memory.
    pub(crate) group_max: u64,
    pub(crate) group_max_by_log: u64,
    pub(crate) group_max_by_memory: u64,
    /// Where reservations end: where all segments are full, less what is spared and kept.
    ceiling: AtomicU64,
    /// Where replay would begin.
    start: AtomicU64,
    /// Half of what the log may take at most. Stored after `start`.
    half: AtomicU64,
    /// A checkpoint is wanted when the tail is here.
    trigger: AtomicU64,
    /// A thread that reserves at this tail or beyond has somebody to call: `IDLE-1`.
    alarm: AtomicU64,
    pub(crate) room: Mutex<Room>,
    room_changed: Condvar,
    /// How often a change found the log full.
    write_stalls: AtomicU64,
}

impl Reservations {
    pub(crate) fn new(options: &LogOptions, space: &LogSpace) -> Reservations {
        let most =
            space.limit_bytes - spare_bytes(space.limit_bytes, lock(&space.segments).header());
        let by_log = (most / GROUP_PART).min(GROUP_BYTES_MAX);
        let by_memory = options.group_bytes.max(options.buffer_bytes / 2);
        let aim = if options.chosen { LogOptions::LEAST_AIM } else { u64::MAX };
        Reservations {
            group_max: by_log.min(by_memory),
            group_max_by_log: by_log,
            group_max_by_memory: by_memory,
            ceiling: AtomicU64::new(0),
            start: AtomicU64::new(0),
            half: AtomicU64::new(0),
            trigger: AtomicU64::new(0),
            alarm: AtomicU64::new(0),
            room: Mutex::new(Room { aim, ..Room::default() }),
            room_changed: Condvar::new(),
            write_stalls: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn ceiling(&self) -> u64 {
        self.ceiling.load(Ordering::SeqCst)
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
        if self.alarm.load(Ordering::SeqCst) != 0 {
            return false;
        }
        let mut room = lock(&self.room);
        let was_at_rest = !std::mem::replace(&mut room.has_syncer, true);
        self.alarm.store(self.trigger.load(Ordering::Relaxed), Ordering::SeqCst);
        was_at_rest
    }

    /// `IDLE-1`, of a log syncer that would go, or of a thread that stands in for it. False: a
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

    /// Most bytes of the log that checkpoints may leave.
    pub(crate) fn target(&self) -> u64 {
        2 * self.half.load(Ordering::Acquire)
    }

    /// From now on a checkpoint is wanted after so many bytes of log, or after half of what it may
    /// take if that is less.
    pub(crate) fn aim_at(&self, bytes: u64, space: &LogSpace) {
        let is_new = std::mem::replace(&mut lock(&self.room).aim, bytes) != bytes;
        if is_new {
            self.set_ceiling(space);
        }
    }

    pub(crate) fn write_stalls(&self) -> u64 {
        self.write_stalls.load(Ordering::Relaxed)
    }

    /// The log begins here from then on: what lies below is free.
    pub(crate) fn set_start(&self, start: u64, space: &LogSpace) {
        debug_assert!(start >= self.start(), "LOG-5: what lies below was given up");
        self.start.store(start, Ordering::Release);
        lock(&space.segments).keep(start);
        let mut room = lock(&self.room);
        room.blocked = None;
        // There may be room on the device by now.
        room.no_growth = false;
        drop(room);
        self.set_ceiling(space);
    }

    /// After the start or the number of segments has changed.
    pub(crate) fn set_ceiling(&self, space: &LogSpace) {
        let mut room = lock(&self.room);
        let segments = lock(&space.segments);
        let (header, capacity) = (*segments.header(), segments.capacity());
        let end = segments.end_of_room();
        drop(segments);
        let (start, own) = (self.start(), room.own);
        let ceiling = end.saturating_sub(spare_bytes(capacity, &header) + own);
        if self.ceiling.swap(ceiling, Ordering::SeqCst) < ceiling {
            room.blocked = None;
        }
        let most = most_bytes(space, own).max(capacity);
        let most = if room.no_growth { capacity } else { most };
        // The groups of the last checkpoint lie behind the start, and those of the next one come.
        let half = most.saturating_sub(spare_bytes(most, &header) + 2 * own) / 2;
        self.half.store(own + half, Ordering::Release);
        let trigger = start + (own + half).min(room.aim);
        self.trigger.store(trigger, Ordering::Release);
        if room.has_syncer {
            self.alarm.store(trigger, Ordering::SeqCst);
        }
        drop(room);
        self.room_changed.notify_all();
    }

    /// `LOG-7`: keeps so many bytes for the log's own groups, from now on.
    pub(crate) fn keep_for_own(&self, bytes: u64) {
        lock(&self.room).own = bytes;
    }

    /// What is kept for the log's own groups.
    pub(crate) fn kept_for_own(&self) -> u64 {
        lock(&self.room).own
    }

    /// `LOG-7`: grants nothing beyond `end` from now on.
    pub(crate) fn lower_ceiling(&self, end: u64) {
        self.ceiling.fetch_min(end, Ordering::SeqCst);
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
