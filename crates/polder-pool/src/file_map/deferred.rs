//! What threads that must not wait have given back, until it is done (`FLIGHT-4`).

#![cfg(not(loom))]

use std::sync::Mutex;

use polder_format::PageId;

use crate::latch::FrameId;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::lock;
use crate::thread::waits;

/// What is to be given back.
#[derive(Debug)]
pub(crate) enum GivenBack {
    /// A page that was freed.
    Page(PageId),
    /// A frame whose page leaves with its last loan, which has ended.
    Frame(FrameId),
}

/// What was noted for later.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    /// Looked at before the mutex. What was noted is seen by the thread itself; others do not have to.
    is_any: AtomicBool,
    list: Mutex<Vec<GivenBack>>,
}

impl Deferred {
    /// Notes what this thread must not give back now (`FLIGHT-4`). False: it may.
    pub(crate) fn note(&self, what: GivenBack) -> bool {
        let must = waits::has_flights();
        if must {
            lock(&self.list).push(what);
            self.is_any.store(true, Ordering::Relaxed);
        }
        must
    }

    /// Whether anything was noted.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    /// All of it, which the caller gives back.
    pub(crate) fn take(&self) -> Vec<GivenBack> {
        self.is_any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *lock(&self.list))
    }
}
