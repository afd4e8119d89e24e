//! Threads that make for futures what has to wait: a few, which start when they are needed and end when
//! they were not for a while. What each operation does is one job.
//!
//! ```text
//!   queued ---- a thread takes it ----> running ---- it has ended ----> done, the future is woken
//!      |                                   |
//!      +-- the future is dropped: it is    +-- the future is dropped: it goes on to its end, and
//!          passed over                         its result goes
//! ```
//!
//! So an operation whose future is dropped happens whole or not at all. Several threads, because one
//! job may wait for room in the log, or for writers to be let in again, and others need not; few,
//! because what they wait for is mostly the same. After the end of the store jobs are made by whoever
//! brings them, and hear that it is closed.
//!
//! Those that only read have threads of their own: all that write may have to wait, until a lock is gone
//! or the disk has room again, and readers, or who wants to close the store, need not.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use polder_pool::{lock, waits};

/// Threads at most.
const MOST: usize = 4;
/// A thread ends when there was nothing to do for so long.
const STAY: Duration = Duration::from_secs(1);

type Work = Box<dyn FnOnce() + Send>;

/// The threads of one store.
#[derive(Debug, Default)]
pub(crate) struct Helpers {
    /// For what waits for no writer.
    pub(crate) readers: Crew,
    pub(crate) writers: Crew,
}

impl Helpers {
    /// Waits until all that was brought is done.
    pub(crate) fn stop(&self) {
        self.writers.stop();
        self.readers.stop();
    }
}

/// Threads that are alike, and their jobs.
#[derive(Default)]
pub(crate) struct Crew {
    board: Arc<Board>,
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Crew")
    }
}

#[derive(Default)]
struct Board {
    state: Mutex<State>,
    /// With `state`: there is work, or the end has come.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    work: VecDeque<Work>,
    /// Threads that wait for work.
    idle: usize,
    /// Threads that have not ended, and those that have and were not asked since.
    present: usize,
    started: Vec<JoinHandle<()>>,
    has_ended: bool,
}

impl Crew {
    /// Has this done by a thread that may wait.
    pub(crate) fn begin<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Job<R> {
        self.begin_as(true, work)
    }

    /// The same, and it is done even if the future is dropped while it is queued.
    pub(crate) fn begin_surely<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Job<R> {
        self.begin_as(false, work)
    }

    fn begin_as<R: Send + 'static>(
        &self,
        may_be_passed_over: bool,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Job<R> {
        let place = Arc::new(Mutex::new(Progress::Waiting(None)));
        let its = Arc::clone(&place);
        self.give(Box::new(move || carry_out(&its, may_be_passed_over, work)));
        Job { place }
    }

    /// The same, where nobody waits for it.
    pub(crate) fn give(&self, work: Work) {
        let mut state = lock(&self.board.state);
        if state.has_ended {
            drop(state);
            return work();
        }
        state.work.push_back(work);
        if state.work.len() <= state.idle {
            self.board.changed.notify_one();
        } else if state.present < MOST {
            state.started.retain(|thread| !thread.is_finished());
            let theirs = Arc::clone(&self.board);
            let thread = thread::Builder::new().name("polder-helper".to_string());
            match thread.spawn(move || theirs.serve()) {
                Ok(started) => {
                    state.present += 1;
                    state.started.push(started);
                }
                // Rather here than never.
                Err(_) if state.present == 0 => {
                    let work = state.work.pop_back();
                    drop(state);
                    work.into_iter().for_each(|work| work());
                }
                Err(_) => {}
            }
        }
    }

    /// Waits until all that was brought is done. A thread of these does not wait for itself.
    pub(crate) fn stop(&self) {
        let mut state = lock(&self.board.state);
        state.has_ended = true;
        let started = std::mem::take(&mut state.started);
        drop(state);
        self.board.changed.notify_all();
        for thread in started.into_iter().filter(|it| it.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Board {
    fn serve(&self) {
        let mut state = lock(&self.state);
        loop {
            if let Some(work) = state.work.pop_front() {
                drop(state);
                // Nobody is there to hear of a panic.
                let _ = catch_unwind(AssertUnwindSafe(work));
                state = lock(&self.state);
                continue;
            }
            if state.has_ended {
                return;
            }
            state.idle += 1;
            let waited = self.changed.wait_timeout(state, STAY);
            let (woken, timeout) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.work.is_empty() {
                state.present -= 1;
                return;
            }
        }
    }
}

enum Progress<R> {
    /// It is queued, or running.
    Waiting(Option<Waker>),
    /// Its result, or what it panicked with.
    Done(thread::Result<R>),
    /// Nobody wants the result.
    Dropped,
}

/// What a thread does for a future; dropped, it is not begun any more.
pub(crate) struct Job<R> {
    place: Arc<Mutex<Progress<R>>>,
}

impl<R> Job<R> {
    /// The result; a panic goes on here.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<R> {
        // Wakers are code of users: nothing of them runs under the mutex.
        let new = waker.clone();
        let mut progress = lock(&self.place);
        match std::mem::replace(&mut *progress, Progress::Dropped) {
            Progress::Done(result) => {
                drop(progress);
                Poll::Ready(result.unwrap_or_else(|panic| resume_unwind(panic)))
            }
            Progress::Waiting(old) => {
                *progress = Progress::Waiting(Some(new));
                drop(progress);
                drop(old);
                Poll::Pending
            }
            Progress::Dropped => Poll::Pending,
        }
    }
}

impl<R> Drop for Job<R> {
    fn drop(&mut self) {
        let old = std::mem::replace(&mut *lock(&self.place), Progress::Dropped);
        drop(old);
    }
}

fn carry_out<R>(place: &Mutex<Progress<R>>, may_be_passed_over: bool, work: impl FnOnce() -> R) {
    // WAIT-3: what goes may be the last handle of the store.
    if may_be_passed_over && matches!(*lock(place), Progress::Dropped) {
        waits::without_waiting(false, || drop(work));
        return;
    }
    let result = catch_unwind(AssertUnwindSafe(work));
    let mut progress = lock(place);
    match std::mem::replace(&mut *progress, Progress::Dropped) {
        Progress::Waiting(waker) => {
            *progress = Progress::Done(result);
            drop(progress);
            waker.into_iter().for_each(waits::wake);
        }
        _ => {
            drop(progress);
            waits::without_waiting(false, || drop(result));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_job_that_nobody_waits_for_is_passed_over_unless_it_is_to_be_done_surely() {
        let helpers = Crew::default();
        let (begun, has_begun) = mpsc::channel();
        let gates: Vec<_> = (0..MOST)
            .map(|_| {
                let (begun, (gate, opens)) = (begun.clone(), mpsc::channel::<()>());
                helpers.give(Box::new(move || {
                    begun.send(()).unwrap();
                    let _ = opens.recv();
                }));
                gate
            })
            .collect();
        (0..MOST).for_each(|_| has_begun.recv().unwrap());
        let [passed_over, surely] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let job = |done: &Arc<AtomicBool>| {
            let done = Arc::clone(done);
            move || done.store(true, Ordering::Relaxed)
        };
        drop(helpers.begin(job(&passed_over)));
        drop(helpers.begin_surely(job(&surely)));
        drop(gates);
        helpers.stop();
        assert!(surely.load(Ordering::Relaxed) && !passed_over.load(Ordering::Relaxed));
    }
    /// Writers that wait, all of them, keep no reader waiting.
    #[test]
    fn a_job_that_reads_passes_those_that_write() {
        let helpers = Helpers::default();
        let (gate, opens) = mpsc::channel::<()>();
        let opens = Arc::new(Mutex::new(opens));
        for _ in 0..2 * MOST {
            let opens = Arc::clone(&opens);
            helpers.writers.give(Box::new(move || _ = lock(&opens).recv()));
        }
        let (done, is_done) = mpsc::channel();
        helpers.readers.give(Box::new(move || done.send(()).unwrap()));
        let in_time = is_done.recv_timeout(Duration::from_secs(20));
        drop(gate);
        assert!(in_time.is_ok(), "it waits for the writers");
    }
}
