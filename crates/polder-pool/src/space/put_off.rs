//! What is given back by a thread that must not wait: for later.
//!
//! To give a page back takes the space's allocation mutex. Whoever has that may wait for a page, which
//! a thread with open faults may be loading: that of the loader, when it calls a waker, and the task
//! that this belongs to runs within the call, or goes.
//!
//! * `FLIGHT-4` A thread with open faults gives nothing back, but notes it. The loader does it when it
//!   has no fault open, and begins no more until then; so does whoever gives something back next.
//!
//! Nobody misses it meanwhile: a page that was freed stays reserved, one that was lent stays where it is.

#![cfg(not(loom))]

use std::sync::Mutex;

use polder_format::PageId;

use crate::latch::FrameId;
use crate::shared::Shared;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::lock;
use crate::thread::waits;
use crate::translation::Translation;

/// What is to be given back.
#[derive(Debug)]
pub(crate) enum GivenBack {
    /// A page that was freed.
    Page(PageId),
    /// A frame whose page leaves with its last loan, which has ended.
    Frame(FrameId),
}

/// What was put off.
#[derive(Debug, Default)]
pub(crate) struct PutOff {
    /// Looked at before the mutex. What was noted is seen by the thread itself; others do not have to.
    is_any: AtomicBool,
    list: Mutex<Vec<GivenBack>>,
}

impl PutOff {
    /// Notes what this thread must not give back now (`FLIGHT-4`). False: it may.
    pub(super) fn note(&self, what: GivenBack) -> bool {
        let must = waits::has_flights();
        if must {
            lock(&self.list).push(what);
            self.is_any.store(true, Ordering::Relaxed);
        }
        must
    }

    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }
}

impl<T: Translation> Shared<T> {
    /// Gives back what was put off. The caller holds nothing, and has no fault open.
    pub(crate) fn give_back_late(&self) {
        if !self.put_off.is_any() {
            return;
        }
        self.put_off.is_any.store(false, Ordering::Relaxed);
        let list = std::mem::take(&mut *lock(&self.put_off.list));
        for what in list {
            match what {
                GivenBack::Frame(frame) => self.end_leaving(frame),
                GivenBack::Page(id) => {
                    // A space that was dropped took its pages with it.
                    if let Some(space) = self.space(id.space()) {
                        self.free_page(&space, id.page());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Array;
    use crate::sync::lock;
    use crate::testing::{create, pool};
    use crate::thread::waits;

    /// `FLIGHT-4`: what another thread has the mutex for may be a page that this one loads.
    #[test]
    fn a_thread_with_open_faults_gives_nothing_back() {
        let (_dir, pool) = pool::<Array>(4 << 20);
        let space = pool.create_space().unwrap();
        let (page, lent) = (create(&space), create(&space));
        let (shared, core) = (space.shared(), space.space_core());
        let cell = shared.state_of(core, lent).unwrap();
        let meta = shared.core.latches.meta(cell.read().frame());
        assert!(meta.lend(cell, cell.read()));
        space.unlink(&[page, lent]).unwrap();
        space.free(lent);
        assert!(meta.is_leaving());
        let held = lock(&core.alloc);
        waits::count_flights(1);
        // Each would wait for the mutex.
        space.free(page);
        assert!(meta.end_loan());
        shared.end_leaving(cell.read().frame());
        waits::count_flights(-1);
        drop(held);
        assert!(meta.is_leaving() && ![page, lent].contains(&create(&space)));
        let free = pool.stats().frames_free;
        shared.give_back_late();
        assert_eq!(pool.stats().frames_free, free + 1);
        assert_eq!([create(&space), create(&space)], [page, lent]);
    }
}
