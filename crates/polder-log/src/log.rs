//! The log as its users see it: permits, appending, waiting.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use polder_format::log::{Group, LOG_BLOCK_BYTES, LogSeed};
use polder_format::{Lsn, PageId, PageSize, SpaceId};
use polder_pool::device::Device;
use polder_pool::journal::{Journal, Outgoing, SharedError};
use polder_pool::signal::Signal;

use crate::double::Double;
use crate::error::{LogError, no_memory};
use crate::flush::{Leader, Syncs};
use crate::pace::Pace;
use crate::ring::{Change, Ring};
use crate::segments::{self, Fresh, Segments};
use crate::sync;
use crate::tally::Tally;

/// Segments that permits never count on: one for checkpoints and joints, one because a stretch of
/// the log may begin and end within a segment.
const SPARE_SEGMENTS: u64 = 2;
/// How often a flush that nobody waits for is asked for: each time this part of the ring was filled.
const WAKE_PART: u64 = 8;
/// Nothing stays unsynced for longer, whoever waits.
pub(crate) const LONGEST_PERIOD: Duration = Duration::from_secs(1);
/// The rest of a block that a sync behind a group may fill.
const PAD_BYTES: u64 = LOG_BLOCK_BYTES as u64;

/// How a log is made and kept.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// Bytes that the log may take on the device.
    pub limit: u64,
    /// Bytes of memory for groups that are not written yet: a power of two.
    pub buffer_bytes: u64,
}

impl LogOptions {
    /// The least limit in bytes.
    pub const LEAST_LIMIT: u64 = 4 << 20;

    /// A buffer that suits a memory budget.
    pub fn buffer_for(memory_budget: u64, page_size: PageSize) -> u64 {
        let least = (256 << 10).max(16 * page_size.bytes() as u64);
        (memory_budget / 64).clamp(least, 4 << 20).next_power_of_two()
    }

    /// Bytes of a segment of a new log.
    pub(crate) fn segment_bytes(&self) -> u64 {
        (self.limit / 128).clamp(256 << 10, 16 << 20).next_power_of_two()
    }
}

/// What all writers change, alone on its cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Hot {
    /// A3: where the next group goes.
    tail: sync::AtomicU64,
    /// Bytes of all permits.
    permits: AtomicU64,
}

/// Whether there is room in the log, and why not.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// The last checkpoint failed.
    pub(crate) blocked: Option<SharedError>,
    /// The file could not be made longer.
    pub(crate) no_growth: bool,
    /// Somebody waits for a checkpoint to make room, however little the log has grown.
    pub(crate) wanted: bool,
}

/// The log of an open store.
pub struct Log {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) data: Arc<dyn Device>,
    pub(crate) seed: LogSeed,
    pub(crate) incarnation: u32,
    pub(crate) ring: Ring,
    hot: Hot,
    /// Where permits end.
    ceiling: AtomicU64,
    /// Where replay would begin.
    pub(crate) start: AtomicU64,
    /// A checkpoint is wanted when the tail is here.
    trigger: AtomicU64,
    pub(crate) pace: Pace,
    limit_segments: u64,
    group_max: u64,
    /// The bits of a position that change when the clerk is to be woken.
    wake_mask: u64,
    /// What was written out of the ring; the ring has room for its length from here on.
    pub(crate) written: AtomicU64,
    pub(crate) durable: AtomicU64,
    pub(crate) segments: Mutex<Segments>,
    /// Held while the file is made longer.
    growth: Mutex<()>,
    pub(crate) leader: Mutex<Leader>,
    /// Held while the log is synced, and while the data file is.
    pub(crate) log_sync: Mutex<()>,
    pub(crate) data_sync: Mutex<()>,
    pub(crate) syncs: Mutex<Syncs>,
    pub(crate) synced: Condvar,
    poison: OnceLock<SharedError>,
    pub(crate) poisoned: AtomicBool,
    pub(crate) double: Double,
    pub(crate) room: Mutex<Room>,
    pub(crate) room_changed: Condvar,
    /// How often somebody found the log full.
    stops: AtomicU64,
    /// Somebody has waited for a sync since the last segment was made.
    is_awaited: AtomicBool,
    /// Nanoseconds within which the clerk syncs what was appended.
    pub(crate) period: AtomicU64,
    pub(crate) clerk: Signal,
    pub(crate) syncer: Signal,
    pub(crate) checkpointer: Signal,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Log({}..{})", self.start.load(Ordering::Relaxed), self.end().0)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// With what a log goes on.
pub(crate) struct Beginning {
    pub(crate) start: Lsn,
    /// A multiple of a block: everything below is durable.
    pub(crate) tail: Lsn,
    pub(crate) incarnation: u32,
    pub(crate) tally: Tally,
    pub(crate) next_slot: u64,
}

impl Log {
    pub(crate) fn begin(
        device: Arc<dyn Device>,
        data: Arc<dyn Device>,
        mut segments: Segments,
        options: LogOptions,
        beginning: Beginning,
    ) -> Result<Arc<Log>, LogError> {
        let Beginning { start, tail, incarnation, tally, next_slot } = beginning;
        segments.keep(start.0, tail.0);
        let header = *segments.header();
        let limit_segments = (options.limit / header.segment_bytes).max(segments.count());
        let log = Log {
            seed: LogSeed::new(header.store_id),
            incarnation,
            ring: Ring::new(options.buffer_bytes).map_err(|_| no_memory(options.buffer_bytes))?,
            hot: Hot { tail: sync::AtomicU64::new(tail.0), permits: AtomicU64::new(0) },
            ceiling: AtomicU64::new(0),
            start: AtomicU64::new(start.0),
            trigger: AtomicU64::new(0),
            pace: Pace::default(),
            limit_segments,
            wake_mask: !(options.buffer_bytes / WAKE_PART - 1),
            group_max: (options.buffer_bytes / 2)
                .min((limit_segments - SPARE_SEGMENTS) * header.share() / 4),
            written: AtomicU64::new(tail.0),
            durable: AtomicU64::new(tail.0),
            leader: Mutex::new(Leader::new(tail.0, tally)),
            log_sync: Mutex::default(),
            data_sync: Mutex::default(),
            double: Double::new(header, next_slot),
            segments: Mutex::new(segments),
            growth: Mutex::default(),
            syncs: Mutex::default(),
            synced: Condvar::new(),
            poison: OnceLock::new(),
            poisoned: AtomicBool::new(false),
            room: Mutex::default(),
            room_changed: Condvar::new(),
            stops: AtomicU64::new(0),
            is_awaited: AtomicBool::new(true),
            period: AtomicU64::new(LONGEST_PERIOD.as_nanos() as u64),
            clerk: Signal::default(),
            syncer: Signal::default(),
            checkpointer: Signal::default(),
            device,
            data,
        };
        log.set_start(start);
        Ok(Arc::new(log))
    }

    /// Replay begins at `start` from now on, as far as both superblocks say; what lies below is
    /// free.
    pub(crate) fn set_start(&self, start: Lsn) {
        self.start.store(start.0, Ordering::Release);
        lock(&self.segments).keep(start.0, u64::MAX);
        // There may be room on the device by now.
        lock(&self.room).no_growth = false;
        self.set_ceiling();
        self.pace.end();
    }

    /// After the start or the number of segments has changed.
    fn set_ceiling(&self) {
        let mut room = lock(&self.room);
        let segments = lock(&self.segments);
        let (share, count) = (segments.header().share(), segments.count());
        drop(segments);
        let start = self.start.load(Ordering::Acquire);
        let begin = start / share * share;
        self.ceiling.store(begin + (count - SPARE_SEGMENTS) * share, Ordering::Release);
        let most = if room.no_growth { count } else { self.limit_segments };
        let half = (most - SPARE_SEGMENTS) * share / 2;
        self.trigger.store(start + half, Ordering::Release);
        room.blocked = None;
        drop(room);
        self.room_changed.notify_all();
    }

    /// Most bytes of the log that checkpoints may leave.
    pub(crate) fn target(&self) -> u64 {
        // The start is stored before the trigger.
        let start = self.start.load(Ordering::Acquire);
        2 * self.trigger.load(Ordering::Acquire).saturating_sub(start)
    }

    /// The most bytes that one group may have.
    pub fn group_max(&self) -> u64 {
        self.group_max
    }

    /// The clerk is asked for each time so much was appended.
    pub(crate) fn wake_bytes(&self) -> u64 {
        !self.wake_mask + 1
    }

    /// Up to where the log is durable.
    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Bytes that would be replayed now.
    pub fn replay_bytes(&self) -> u64 {
        let start = self.start.load(Ordering::Acquire);
        self.end().0.saturating_sub(start)
    }

    /// How often a change waited because the log was full; those that waited long count for each tenth
    /// of a second.
    pub fn stops(&self) -> u64 {
        self.stops.load(Ordering::Relaxed)
    }

    /// Bytes of the log file.
    pub fn file_bytes(&self) -> u64 {
        let segments = lock(&self.segments);
        segments.header().segment_offset(segments.count())
    }

    pub(crate) fn tail(&self) -> &sync::AtomicU64 {
        &self.hot.tail
    }

    /// Whether the log can be used.
    ///
    /// # Errors
    /// What made it unusable.
    pub fn check(&self) -> Result<(), SharedError> {
        if !self.poisoned.load(Ordering::Acquire) {
            return Ok(());
        }
        let unknown = || Arc::new(io::Error::other("the log cannot be used"));
        Err(self.poison.get().cloned().unwrap_or_else(unknown))
    }

    /// `LOG-6`: nothing becomes durable any more.
    pub fn poison(&self, what: &str, error: &io::Error) -> SharedError {
        let first = self.poison.get_or_init(|| {
            let text = format!(
                "{what} failed ({error}); nothing is durable any more: open the store again"
            );
            Arc::new(io::Error::new(error.kind(), text))
        });
        self.poisoned.store(true, Ordering::Release);
        drop(lock(&self.syncs));
        self.synced.notify_all();
        self.room_changed.notify_all();
        Arc::clone(first)
    }

    /// From now on what is appended becomes durable within this time, at least (a second, if nobody
    /// asks for less).
    pub fn sync_within(&self, period: Duration) {
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(100_000);
        if self.period.fetch_min(period, Ordering::Relaxed) > period {
            self.syncer.wake();
        }
    }

    /// Entries of a table that nobody has written since the log was opened.
    pub fn entries(&self, space: SpaceId) -> u64 {
        lock(&self.leader).tally.entries(space)
    }

    /// Waits until the log is durable up to everything that was appended so far.
    ///
    /// # Errors
    /// What made the log unusable.
    pub fn flush(&self) -> Result<(), SharedError> {
        self.await_durable(self.end())
    }

    /// As `await_durable`, where nobody minds how long it takes.
    pub(crate) fn sync_up_to(&self, lsn: Lsn) -> Result<(), SharedError> {
        self.flush_until(|log, _| log.durable.load(Ordering::Acquire) >= lsn.0)
    }

    /// One more segment, if the limit allows it and the device has room. The caller holds `growth`.
    fn grow(&self, fresh: Fresh, meanwhile: &mut dyn FnMut()) -> bool {
        let count = lock(&self.segments).count();
        if count >= self.limit_segments || lock(&self.room).no_growth {
            return false;
        }
        self.add_segment(fresh, meanwhile);
        true
    }

    /// The caller holds `growth`.
    fn add_segment(&self, fresh: Fresh, meanwhile: &mut dyn FnMut()) {
        let (count, header) = {
            let segments = lock(&self.segments);
            (segments.count(), *segments.header())
        };
        match segments::make(&*self.device, &header, count, fresh, meanwhile) {
            // So that nobody who waits for a sync waits for the zeros as well. That it failed is found
            // out by everybody who syncs or asks for room.
            Ok(()) if fresh == Fresh::Written && self.sync_device(0).is_err() => {}
            Ok(()) => lock(&self.segments).add(),
            // The log makes do with what it has.
            Err(_) => lock(&self.room).no_growth = true,
        }
        self.set_ceiling();
    }

    /// For the joint of a new life there is room whatever the limit, as long as the device has some:
    /// else a full log could be opened only so many times.
    pub(crate) fn make_room_for_joint(&self) {
        let _growing = lock(&self.growth);
        if lock(&self.segments).free() == 0 {
            self.add_segment(Fresh::Allocated, &mut || ());
        }
    }

    /// L4: syncs the log's device, which was written up to `cut` before. One at a time and none behind
    /// one that failed: of several who sync, a kernel tells one that a write was lost, and the others
    /// that all is well.
    pub(crate) fn sync_device(&self, cut: u64) -> Result<(), SharedError> {
        let _one = lock(&self.log_sync);
        self.check()?;
        self.device.sync().map_err(|error| {
            // Before anybody hears of it, and opens the log again.
            self.take_back();
            self.poison("syncing the log", &error)
        })?;
        self.durable.fetch_max(cut, Ordering::AcqRel);
        Ok(())
    }

    /// After a sync that failed, caches may still show what no later sync will bring to the device.
    /// Whoever opens the log before they are empty must not go on behind it: so the log is made to end
    /// where it is durable.
    fn take_back(&self) {
        lock(&self.segments).clear_from(self.durable.load(Ordering::Acquire));
    }

    /// Sees to it that there are free segments before they are needed; made in the best way, if there
    /// is time and somebody who will have something of it.
    pub(crate) fn prepare(&self, has_time: bool) {
        if lock(&self.segments).free() <= SPARE_SEGMENTS {
            let _growing = lock(&self.growth);
            let is_awaited = self.is_awaited.swap(false, Ordering::Relaxed);
            let best = has_time && is_awaited;
            let fresh = if best { Fresh::Written } else { Fresh::Allocated };
            // The ring fills up meanwhile; whoever appends is told if it cannot be written.
            self.grow(fresh, &mut || drop(self.write_complete()));
        }
    }

    /// A1, the slow way: there is no room for `need` bytes, up to `end`.
    #[cold]
    fn make_room(&self, end: u64, need: u64) -> Result<(), SharedError> {
        self.check()?;
        {
            let _growing = lock(&self.growth);
            if end <= self.ceiling.load(Ordering::Acquire) {
                return Ok(());
            }
            if self.grow(Fresh::Allocated, &mut || ()) {
                return Ok(());
            }
        }
        let mut room = lock(&self.room);
        if end <= self.ceiling.load(Ordering::Acquire) {
            return Ok(());
        }
        if room.no_growth && need > self.room_at_least() {
            let text = format!(
                "a change takes {need} bytes of log at once, and the log cannot grow; make room on the device of the log, or the change smaller"
            );
            return Err(Arc::new(io::Error::new(io::ErrorKind::StorageFull, text)));
        }
        room.wanted = true;
        self.checkpointer.wake();
        if let Some(error) = &room.blocked {
            return Err(Arc::clone(error));
        }
        self.stops.fetch_add(1, Ordering::Relaxed);
        let waited = self.room_changed.wait_timeout(room, Duration::from_millis(100));
        drop(waited.unwrap_or_else(|poisoned| poisoned.into_inner()));
        self.check()
    }

    /// What a checkpoint makes room for, with the segments that there are.
    fn room_at_least(&self) -> u64 {
        let segments = lock(&self.segments);
        // The stretch that remains may begin anywhere in its segment.
        (segments.count() - SPARE_SEGMENTS).saturating_sub(1) * segments.header().share()
    }

    /// A3 to A5, without a permit: for what the spare segment is there for.
    pub(crate) fn append_spare(&self, group: &mut Group) -> Lsn {
        let start = self.hot.tail.fetch_add(group.len() as u64, Ordering::AcqRel);
        self.put(group, start)
    }

    /// A4 and A5.
    #[inline]
    fn put(&self, group: &mut Group, start: u64) -> Lsn {
        let end = start + group.len() as u64;
        if end > self.written.load(Ordering::Acquire) + self.ring.len() && !self.await_ring(end) {
            return Lsn(end);
        }
        let lag = start.saturating_sub(self.durable.load(Ordering::Relaxed));
        let lag = u32::try_from(lag).unwrap_or(u32::MAX);
        let change = change_of(group);
        let bytes = group.seal(self.seed, Lsn(start), lag, self.incarnation);
        self.ring.put(start, bytes, change);
        if (start ^ end) & self.wake_mask != 0 {
            self.clerk.wake();
        }
        Lsn(end)
    }

    /// A4. False: the log is dead, and what is appended goes nowhere.
    #[cold]
    fn await_ring(&self, end: u64) -> bool {
        let mut tries = 0u32;
        while end > self.written.load(Ordering::Acquire) + self.ring.len() {
            if self.poisoned.load(Ordering::Acquire) {
                return false;
            }
            self.clerk.urge();
            if tries < 10 {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(50));
            }
            tries += 1;
        }
        true
    }
}

/// How a group changes the numbers of entries.
#[inline]
fn change_of(group: &Group) -> Change {
    match group.counting() {
        None => Change::Nothing,
        Some((space, change @ (1 | -1))) => Change::One(space, change),
        Some(_) => Change::More,
    }
}

impl Journal for Log {
    fn permit(&self, bytes: u64) -> Result<(), SharedError> {
        if self.poisoned.load(Ordering::Acquire) {
            return self.check();
        }
        let need = bytes + PAD_BYTES;
        if bytes > self.group_max {
            let text = format!(
                "a change takes {bytes} bytes of log at once, and {} are the most; make it smaller, or the memory budget or the log's limit larger",
                self.group_max
            );
            return Err(Arc::new(io::Error::new(io::ErrorKind::QuotaExceeded, text)));
        }
        loop {
            let others = self.hot.permits.fetch_add(need, Ordering::AcqRel);
            let tail = self.hot.tail.load(Ordering::Acquire);
            let end = tail + others + need;
            if end <= self.ceiling.load(Ordering::Acquire) {
                // About where the group will go: it is there when it is needed.
                self.ring.prefetch(tail, bytes);
                if tail >= self.trigger.load(Ordering::Relaxed) {
                    self.checkpointer.wake();
                }
                return Ok(());
            }
            self.hot.permits.fetch_sub(need, Ordering::AcqRel);
            self.make_room(end, need)?;
        }
    }

    fn keep_pace(&self, bytes: u64) {
        if let Some(pause) = self.pace.pause_at(|| self.end().0, bytes) {
            std::thread::sleep(pause);
        }
    }

    fn give_back(&self, bytes: u64) {
        self.hot.permits.fetch_sub(bytes + PAD_BYTES, Ordering::AcqRel);
    }

    fn append(&self, group: &mut Group, permitted: u64) -> Lsn {
        let start = self.hot.tail.fetch_add(group.len() as u64, Ordering::AcqRel);
        // Here and not later: an atomic operation waits for all stores before it, and those to the
        // ring and to the pages are slow ones.
        self.give_back(permitted);
        self.put(group, start)
    }

    fn end(&self) -> Lsn {
        Lsn(self.hot.tail.load(Ordering::Acquire))
    }

    fn await_durable(&self, lsn: Lsn) -> Result<(), SharedError> {
        if self.durable.load(Ordering::Acquire) >= lsn.0 {
            return Ok(());
        }
        self.is_awaited.store(true, Ordering::Relaxed);
        self.sync_up_to(lsn)
    }

    fn before_write(&self, pages: &[Outgoing<'_>]) -> Result<u64, SharedError> {
        self.protect(pages)
    }

    fn after_write(&self, ticket: u64, failed: &[PageId]) {
        self.double.placed(ticket, failed);
    }

    fn is_trusted(&self, page: PageId) -> bool {
        !self.poisoned.load(Ordering::Acquire) || self.double.is_synced(page)
    }
}
