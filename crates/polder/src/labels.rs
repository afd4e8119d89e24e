//! What all handles of a collection share: which labels were given, and what is known of those before.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Mutex, TryLockError};

/// The labels of a collection, since the store was opened.
#[derive(Debug)]
pub(crate) struct Labels {
    /// The first that was given since. What has one below was there before.
    pub(crate) first: u64,
    next: AtomicU64,
    /// Batches that have begun to make rows or remove them, and those that are through with it.
    begun: AtomicU64,
    ended: AtomicU64,
    /// Whether what was cut off before is settled; held by whoever settles it.
    settling: Mutex<()>,
    is_settled: AtomicBool,
    /// Loads by runs that are not over.
    loads: AtomicUsize,
}

/// When rows were looked at: how many batches had changed some, and how many had begun to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    ended: u64,
    begun: u64,
}

/// A load by runs, until it is over.
#[derive(Debug)]
pub(crate) struct OneLoad<'l>(&'l Labels);

impl Drop for OneLoad<'_> {
    fn drop(&mut self) {
        self.0.loads.fetch_sub(1, AcqRel);
    }
}

impl Labels {
    pub(crate) fn new(first: u64) -> Labels {
        Labels {
            first,
            next: AtomicU64::new(first),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            settling: Mutex::new(()),
            is_settled: AtomicBool::new(false),
            loads: AtomicUsize::new(0),
        }
    }

    /// One that nothing has (`COLL-2`).
    pub(crate) fn give(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// Whether no load by runs is at work.
    pub(crate) fn is_idle(&self) -> bool {
        self.loads.load(Acquire) == 0
    }

    /// A load by runs begins.
    pub(crate) fn begin_load(&self) -> OneLoad<'_> {
        self.loads.fetch_add(1, AcqRel);
        OneLoad(self)
    }

    /// The rows as they are now.
    pub(crate) fn moment(&self) -> Moment {
        let ended = self.ended.load(Acquire);
        Moment { ended, begun: self.begun.load(Acquire) }
    }

    /// Whether rows may have come or gone since then.
    pub(crate) fn have_changed_since(&self, Moment { ended, begun }: Moment) -> bool {
        ended != begun || self.begun.load(Acquire) != begun
    }

    /// A batch begins to make rows or remove them. Before the first of them is seen.
    pub(crate) fn begin_change(&self) {
        self.begun.fetch_add(1, AcqRel);
    }

    /// It is through, whatever came of it: all of them are seen.
    pub(crate) fn end_change(&self) {
        self.ended.fetch_add(1, AcqRel);
    }

    /// Has `settle` settle what was cut off, once; where it fails, whoever comes next tries it again. Waits
    /// for nobody who does.
    pub(crate) fn settle_once<E>(&self, settle: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        if self.is_settled.load(Acquire) {
            return Ok(());
        }
        let _settling = match self.settling.try_lock() {
            Ok(settling) => settling,
            Err(TryLockError::Poisoned(settling)) => settling.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        if !self.is_settled.load(Acquire) {
            settle()?;
            self.is_settled.store(true, Relaxed);
        }
        Ok(())
    }
}
