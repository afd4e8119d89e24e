//! Group commit: whether a thread is its leader, how many follow, and how far the log is durable.

#![cfg(not(loom))]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use polder_format::log::LOG_BLOCK_BYTES;
use polder_pool::worker::Worker;

use crate::futures::Futures;
use crate::sync::lock;
use crate::tally::Tally;

/// When so much is written and not synced, a sync begins; at twice as much writing waits for it.
pub(crate) const WINDOW_BYTES: u64 = 16 << 20;
/// Nothing stays unsynced for longer, whether anybody waits or not.
pub(crate) const LONGEST_PERIOD: Duration = Duration::from_secs(1);

/// What only the leader knows.
#[derive(Debug)]
pub(crate) struct Leader {
    /// All groups up to here are complete.
    pub(crate) walked: u64,
    /// Entries of all tables at `walked`.
    pub(crate) tally: Tally,
}

/// Whether a thread leads the group commit, and how many syncs there were.
#[derive(Debug, Default)]
pub(crate) struct Syncs {
    pub(crate) leading: bool,
    /// Followers that sleep. (Waking nobody is a system call all the same.)
    pub(crate) waiting: u32,
    /// Syncs that have begun; the number of the last one.
    pub(crate) begun: u64,
    /// The last one that has ended well.
    pub(crate) finished: u64,
}

/// One thread writes and syncs for all.
///
/// Invariants:
/// * While a thread leads `syncs.leading` is set, and it alone takes it back; followers sleep on
///   `synced`.
/// * `durable` only grows, is a multiple of a block, and lies below what was written (`LOG-2`,
///   `LOG-3`).
/// * A sync with a number above `begun`, as it is now, begins later than now: so one can wait for
///   a sync that covers what was written just before (B3).
#[derive(Debug)]
pub(crate) struct GroupCommit {
    /// Held while the log is cut, walked over and written (L1 to L3).
    pub(crate) leader: Mutex<Leader>,
    pub(crate) syncs: Mutex<Syncs>,
    /// Signalled when a sync has ended, or the log has failed.
    pub(crate) synced: Condvar,
    /// Held while the log is synced (L4).
    pub(crate) log_sync: Mutex<()>,
    /// Up to where the log is durable. It only grows.
    durable: AtomicU64,
    /// Somebody has waited for a sync since the last segment was made.
    is_awaited: AtomicBool,
    /// Nanoseconds within which the log syncer syncs what was appended.
    period: AtomicU64,
    pub(crate) log_syncer: Worker,
    /// Those that wait without a thread.
    pub(crate) futures: Futures,
}

impl GroupCommit {
    /// All below `at` is durable.
    pub(crate) fn new(at: u64, tally: Tally) -> GroupCommit {
        GroupCommit {
            leader: Mutex::new(Leader { walked: at, tally }),
            syncs: Mutex::default(),
            synced: Condvar::new(),
            log_sync: Mutex::default(),
            durable: AtomicU64::new(at),
            is_awaited: AtomicBool::new(true),
            period: AtomicU64::new(LONGEST_PERIOD.as_nanos() as u64),
            log_syncer: Worker::default(),
            futures: Futures::default(),
        }
    }

    #[inline]
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// As `durable`, for a caller that wants a lower bound and nothing that comes with it.
    #[inline]
    pub(crate) fn durable_at_least(&self) -> u64 {
        self.durable.load(Ordering::Relaxed)
    }

    /// L4: the log was synced, after all below `cut` was written.
    pub(crate) fn set_durable(&self, cut: u64) {
        debug_assert!(cut.is_multiple_of(LOG_BLOCK_BYTES as u64), "LOG-2: a sync ends at a block");
        self.durable.fetch_max(cut, Ordering::AcqRel);
    }

    #[inline]
    pub(crate) fn note_awaited(&self) {
        self.is_awaited.store(true, Ordering::Relaxed);
    }

    /// Whether somebody has waited for a sync since this was asked last.
    pub(crate) fn take_awaited(&self) -> bool {
        self.is_awaited.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn period(&self) -> Duration {
        Duration::from_nanos(self.period.load(Ordering::Relaxed))
    }

    /// The log syncer syncs within this time from now on, at least.
    pub(crate) fn sync_within(&self, period: Duration) {
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(100_000);
        // Asked for with each write: mostly it is so by now, and nothing is written.
        let is_new = self.period.load(Ordering::Relaxed) > period;
        if is_new && self.period.fetch_min(period, Ordering::Relaxed) > period {
            // If it is not there, it looks when it starts.
            let _ = self.log_syncer.wake();
        }
    }

    /// All followers look again, and futures. (Under the mutex: a thread that has looked sleeps by now.)
    pub(crate) fn wake_all(&self) {
        drop(lock(&self.syncs));
        self.synced.notify_all();
        // DURABLE-3: where it cannot be started no future waits (DURABLE-2).
        let _ = self.log_syncer.wake();
    }
}
