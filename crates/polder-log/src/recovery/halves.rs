//! Right halves of nodes that were split, on their way from one thread to another.
//!
//! What an [`Operation::RightHalf`] makes its page was a part of another page. The thread that redoes that
//! one, the left page, makes the half of it before it redoes the split, and the thread that redoes the right
//! page waits for it.
//!
//! * `HALF-3` Each thread comes to its records in the order of the log, and in each group makes halves
//!   before it waits for some. So the thread that waits at the lowest position waits for one that does not
//!   wait, and all go on. (A deal is handed to all threads before the next one.)
//!
//! [`Operation::RightHalf`]: polder_format::log::Operation::RightHalf

use std::sync::{Condvar, Mutex};

use polder_format::{Lsn, PageId};
use polder_pool::bytes::PageBuf;

use crate::sync::lock;

/// The halves that one thread has made, and another one has not come for.
#[derive(Default)]
pub(super) struct Halves {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    /// Page, and where the group ends. `None`: the left page is not as it was before the group. There are
    /// few: as many as threads are apart.
    made: Vec<(PageId, Lsn, Option<PageBuf>)>,
    /// A thread has ended before its time.
    is_broken: bool,
}

impl Halves {
    /// A half was made, or cannot be.
    pub(super) fn hand(&self, page: PageId, group: Lsn, half: Option<PageBuf>) {
        lock(&self.state).made.push((page, group, half));
        self.more.notify_all();
    }

    /// Waits for a half. `None`: there is none.
    pub(super) fn take(&self, page: PageId, group: Lsn) -> Option<PageBuf> {
        let mut state = lock(&self.state);
        loop {
            let is_wanted = |made: &(PageId, Lsn, _)| made.0 == page && made.1 == group;
            if let Some(at) = state.made.iter().position(is_wanted) {
                return state.made.swap_remove(at).2;
            }
            if state.is_broken {
                return None;
            }
            state = self.more.wait(state).unwrap_or_else(|broken| broken.into_inner());
        }
    }

    /// For a thread that works: nobody waits for it any more if it ends before it says
    /// [`Working::finish`].
    pub(super) fn begin(&self) -> Working<'_> {
        Working { halves: self, is_done: false }
    }
}

/// A thread that makes halves.
pub(super) struct Working<'h> {
    halves: &'h Halves,
    is_done: bool,
}

impl Working<'_> {
    /// It has come to its last record.
    pub(super) fn finish(mut self) {
        self.is_done = true;
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            lock(&self.halves.state).is_broken = true;
            self.halves.more.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use polder_format::{PageNo, PageSize, SpaceId};

    use super::*;

    fn page(number: u64) -> PageId {
        PageId::new(SpaceId::CATALOGUE, PageNo::new(number).unwrap())
    }

    #[test]
    fn who_waits_gets_the_half_of_its_group() {
        let halves = Halves::default();
        thread::scope(|scope| {
            let waits = scope.spawn(|| halves.take(page(2), Lsn(8)));
            let working = halves.begin();
            halves.hand(page(2), Lsn(16), None);
            halves.hand(page(3), Lsn(8), None);
            halves.hand(page(2), Lsn(8), Some(PageBuf::new(PageSize::MIN)));
            working.finish();
            assert!(waits.join().unwrap().is_some());
        });
        assert!(halves.take(page(2), Lsn(16)).is_none());
    }

    /// Else a recovery in which one thread fails would never end.
    #[test]
    fn nobody_waits_for_a_thread_that_has_ended_before_its_time() {
        let halves = Halves::default();
        thread::scope(|scope| {
            let waits = scope.spawn(|| halves.take(page(2), Lsn(8)));
            drop(halves.begin());
            assert!(waits.join().unwrap().is_none());
        });
    }
}
