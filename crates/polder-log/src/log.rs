//! The log of an open store: what it is made of. What is done with it stands in files of its own,
//! as `impl Log`.

#![cfg(not(loom))]

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use polder_format::log::{LogSeed, RegionKind};
use polder_format::{Lsn, PageSize, SpaceId};
use polder_pool::device::Device;
use polder_pool::event;
use polder_pool::journal::SharedError;
use polder_pool::worker::Worker;

use crate::error::{LogError, no_memory};
use crate::failure::Failure;
use crate::file::{LogOptions, LogSpace, Segments};
use crate::leader::GroupCommit;
use crate::ring::Buffer;
use crate::room::{Reservations, Tail, own_bytes};
use crate::slots::DoubleWriteBuffer;
use crate::sweep::Sweep;
use crate::sync::lock;
use crate::tally::Tally;
use crate::throttle::Throttle;
use crate::written::{Written, WrittenBytes};

/// By what a group is told from one of another store, or of an earlier incarnation of this one
/// (`LOG-1`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) seed: LogSeed,
    pub(crate) incarnation: u32,
}

/// The log of an open store.
///
/// Positions in it: `start <= durable <= written <= walked <= tail`, and no reservation reaches
/// beyond `ceiling`.
///
/// ```text
/// start    both superblocks name it: replay would begin here      reservations
/// durable  all below is synced                                    commit
/// written  all below was written out of the ring                  buffer
/// walked   all groups below are complete                          commit, the leader's
/// tail     the next group goes here                               tail
/// ```
///
/// Order of locks: log-space reservation < page latches < `growth` < `leader` < `log_sync` <
/// `room` < `segments`; the double-write buffer's `data_sync` < `area`; under `syncs` nothing is
/// locked. The leader takes no page latch, and waits only for groups between A3 and A5, whose
/// threads wait for nothing but the ring in front of them.
pub struct Log {
    /// What each group bears.
    pub(crate) identity: Identity,
    /// The end of the log: the one thing that all writers write to.
    pub(crate) tail: Tail,
    /// What is not written yet.
    pub(crate) buffer: Buffer,
    /// How far the log may go.
    pub(crate) reservations: Reservations,
    /// The file.
    pub(crate) space: LogSpace,
    /// Which thread writes and syncs, and how far that has come.
    pub(crate) commit: GroupCommit,
    /// Why nothing becomes durable any more.
    pub(crate) failure: Failure,
    /// Copies of pages that are on their way into the data file.
    pub(crate) double_write: DoubleWriteBuffer,
    /// Whether a checkpoint has begun that has not written all yet.
    pub(crate) sweep: Sweep,
    /// How long a writer waits for a checkpoint that is behind.
    pub(crate) throttle: Throttle,
    /// What it was opened with.
    limit: u64,
    chosen: bool,
    /// What the file was given.
    pub(crate) written: Written,
    /// Writes the ring out as it fills, and makes the file longer before that is needed.
    pub(crate) wal_writer: Worker,
    pub(crate) checkpointer: Worker,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Log({}..{})", self.reservations.start(), self.tail_at())
    }
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
        page_size: PageSize,
        options: LogOptions,
        beginning: Beginning,
    ) -> Result<Arc<Log>, LogError> {
        let Beginning { start, tail, incarnation, tally, next_slot } = beginning;
        let tables = tally.counts().len();
        segments.go_on(start.0, tail.0);
        // A stretch that cannot be made whole is tried again before the file becomes longer.
        let _ = segments.complete();
        let header = *segments.header();
        let slots = header.of_kind(RegionKind::Slot, segments.file_bytes());
        let space = LogSpace::new(device, segments, options.limit);
        let buffer = Buffer::new(options.buffer_bytes, tail.0);
        let always = options.always_double_write;
        let double_write =
            DoubleWriteBuffer::new(&header, slots, page_size, always, next_slot, data);
        let log = Log {
            identity: Identity { seed: LogSeed::new(header.store_id), incarnation },
            tail: Tail::new(tail.0),
            buffer: buffer.map_err(|_| no_memory(options.buffer_bytes))?,
            reservations: Reservations::new(&options, &space),
            space,
            commit: GroupCommit::new(tail.0, tally),
            failure: Failure::default(),
            double_write,
            sweep: Sweep::default(),
            throttle: Throttle::default(),
            limit: options.limit,
            chosen: options.chosen,
            written: Written::default(),
            wal_writer: Worker::default(),
            checkpointer: Worker::default(),
        };
        log.reservations.keep_for_own(own_bytes(tables));
        log.set_start(start);
        Ok(Arc::new(log))
    }

    /// Replay begins at `start` from now on, as far as both superblocks say; what lies below is
    /// free.
    pub(crate) fn set_start(&self, start: Lsn) {
        debug_assert!(start <= self.durable(), "LOG-5: the start is durable in both superblocks");
        self.reservations.set_start(start.0, &self.space);
        self.throttle.end();
    }

    /// Where the log ends.
    #[inline]
    pub(crate) fn tail_at(&self) -> u64 {
        self.tail.end.load(Ordering::Acquire)
    }

    /// The most bytes that one group may have.
    pub fn group_max(&self) -> u64 {
        self.reservations.group_max
    }

    /// Up to where the log is durable.
    pub fn durable(&self) -> Lsn {
        Lsn(self.commit.durable())
    }

    /// Bytes that would be replayed now.
    pub fn replay_bytes(&self) -> u64 {
        let start = self.reservations.start();
        self.tail_at().saturating_sub(start)
    }

    /// How often a change waited because the log was full; those that waited long count for each
    /// tenth of a second.
    pub fn write_stalls(&self) -> u64 {
        self.reservations.write_stalls()
    }

    /// What the log's file was given since it was opened, by what for.
    pub fn written(&self) -> WrittenBytes {
        self.written.get()
    }

    /// Bytes of the log file.
    pub fn file_bytes(&self) -> u64 {
        lock(&self.space.segments).file_bytes()
    }

    /// Bytes that the log may take on the device.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether the store has chosen that limit.
    pub fn is_limit_chosen(&self) -> bool {
        self.chosen
    }

    /// Whether pages are written twice.
    pub fn is_double_write_needed(&self) -> bool {
        self.double_write.is_needed()
    }

    /// Whether the log can be used.
    ///
    /// # Errors
    /// What made it unusable.
    pub fn check(&self) -> Result<(), SharedError> {
        self.failure.check()
    }

    /// `LOG-6`: nothing becomes durable any more.
    pub fn poison(&self, what: &str, error: &io::Error) -> SharedError {
        let first = self.failure.set(what, error);
        event!(error, what = what, error = error, "nothing becomes durable any more");
        self.commit.wake_all();
        self.reservations.wake_all();
        first
    }

    /// From now on what is appended becomes durable within this time, at least (a second, if nobody
    /// asks for less).
    pub fn sync_within(&self, period: Duration) {
        self.commit.sync_within(period);
    }

    /// Whether so many bytes can be appended now without waiting for the WAL writer, if nobody else appends
    /// meanwhile.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.buffer.has_room(self.tail.end.load(Ordering::Relaxed) + bytes as u64)
    }

    /// Entries of a table that nobody has written since the log was opened.
    pub fn entries(&self, space: SpaceId) -> u64 {
        lock(&self.commit.leader).tally.entries(space)
    }

    /// The table was dropped: checkpoints speak of it no more.
    pub fn forget_table(&self, space: SpaceId) {
        lock(&self.commit.leader).tally.forget(space);
    }
}
