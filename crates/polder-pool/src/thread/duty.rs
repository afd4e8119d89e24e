//! Whether a thread is there for what others ask of it: the protocol of [`Worker`](super::Worker),
//! which loom runs.
//!
//! ```text
//!            an asker finds it absent, and starts a thread
//!   absent ------------------------------------------------> present
//!      ^                                                        |
//!      +--------------------------------------------------------+
//!            the thread leaves, as nobody asked
//! ```
//!
//! * `DUTY-1` An asker sets `asked` first and looks then, under the mutex, whether a thread is
//!   there. A thread leaves under the mutex, and only if `asked` is not set. So nothing is asked
//!   for in vain: the thread sees it and stays, or the asker sees that it has left.
//! * `DUTY-2` What an asker wants done is written before `asked` is looked at, and a thread looks
//!   for it after it took `asked`, with a fence between the two on either side. So an asker that
//!   finds `asked` set, by another, leaves its work to a thread that will see it.

use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Mutex, MutexGuard, lock};

/// What is asked for, and whether a thread is there for it.
#[derive(Debug, Default)]
pub(crate) struct Duty<T> {
    /// Somebody asked since the thread last looked. A flag before the mutex, so that asking again
    /// costs a fence and a load.
    asked: AtomicBool,
    place: Mutex<Place<T>>,
}

/// What the mutex guards.
#[derive(Debug, Default)]
pub(crate) struct Place<T> {
    pub(crate) is_present: bool,
    pub(crate) more: T,
}

impl<T> Duty<T> {
    /// Asks. The caller is given the place if nobody has asked before it: it must see to it that
    /// a thread comes, or wakes up.
    #[inline]
    pub(crate) fn ask(&self) -> Option<MutexGuard<'_, Place<T>>> {
        fence(Ordering::SeqCst); // DUTY-2
        let first = !self.asked.load(Ordering::Relaxed) && !self.asked.swap(true, Ordering::AcqRel);
        first.then(|| lock(&self.place))
    }

    /// As `ask`, also if somebody has asked before.
    pub(crate) fn insist(&self) -> MutexGuard<'_, Place<T>> {
        self.asked.store(true, Ordering::Release);
        lock(&self.place)
    }

    /// What was asked for is not done: the next one asks anew.
    pub(crate) fn forget(&self) {
        self.asked.store(false, Ordering::Release);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    pub(crate) fn place(&self) -> MutexGuard<'_, Place<T>> {
        lock(&self.place)
    }

    /// The thread looks: whether somebody asked.
    pub(crate) fn take(&self) -> bool {
        let was_asked = self.asked.swap(false, Ordering::AcqRel);
        fence(Ordering::SeqCst); // DUTY-2
        was_asked
    }

    /// The thread leaves, unless somebody has asked (`DUTY-1`). True: it has left.
    pub(crate) fn leave(&self) -> bool {
        let mut place = lock(&self.place);
        if self.is_asked() {
            return false;
        }
        place.is_present = false;
        true
    }
}
