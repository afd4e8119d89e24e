//! Transfers that are under way at once, by threads that make system calls: for those to whom the kernel
//! gives no rings.
//!
//! ```text
//!   a queue --start--> jobs (one list) --a thread takes it, transfers--> the queue's letter box
//! ```
//!
//! Threads start as there are jobs for them, up to a few, and end when there were none for a while.
//!
//! * `QUEUE-4` A job is delivered exactly once, when it is dropped: also if its thread panics, or no thread
//!   is to be had. So whoever waits for one of its own jobs waits for a transfer, or for the jobs before
//!   it.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::calls::Calls;
use super::transfer::{Numbered, Transfer};
use crate::machine::threads_with_room;
use crate::sync::lock;

/// Threads of one file at most.
const MOST: usize = 8;
/// Transfers of one queue that are under way at once.
const DEPTH: usize = 64;
/// A thread ends when it had nothing to do for so long.
const STAY: Duration = Duration::from_secs(1);

/// The threads of a file; dropping this ends them.
pub(super) struct Threads {
    calls: Arc<Calls>,
    work: Arc<Work>,
    started: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Work {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    new: VecDeque<Job>,
    /// Threads that are there, and those of them that wait or have not begun.
    threads: usize,
    idle: usize,
    has_ended: bool,
}

/// A transfer, and where it goes when it is done.
struct Job {
    transfer: Transfer,
    to: Arc<LetterBox>,
}

/// What has come back to a queue.
#[derive(Default)]
struct LetterBox {
    done: Mutex<Vec<Transfer>>,
    changed: Condvar,
}

impl Drop for Job {
    fn drop(&mut self) {
        lock(&self.to.done).push(std::mem::take(&mut self.transfer)); // QUEUE-4
        self.to.changed.notify_one();
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").field("there", &lock(&self.work.jobs).threads).finish()
    }
}

impl Threads {
    pub(super) fn new(calls: &Arc<Calls>) -> Threads {
        Threads { calls: Arc::clone(calls), work: Arc::default(), started: Mutex::default() }
    }

    /// Transfers of one thread.
    pub(super) fn queue(&self) -> Threaded<'_> {
        Threaded { threads: self, letter_box: Arc::default(), under_way: 0, starts: Vec::new() }
    }

    /// Has these jobs done.
    fn add(&self, new: impl Iterator<Item = Job>) {
        lock(&self.work.jobs).new.extend(new);
        while self.work.wants_thread() {
            if self.start_one().is_err() {
                let mut jobs = lock(&self.work.jobs);
                jobs.threads -= 1;
                jobs.idle -= 1;
                break;
            }
        }
        self.work.changed.notify_all();
        let mut jobs = lock(&self.work.jobs);
        if jobs.threads > 0 {
            return;
        }
        // No thread is to be had, nor was for those of others.
        let all = std::mem::take(&mut jobs.new);
        drop(jobs);
        all.into_iter().for_each(|mut job| self.calls.perform_all(&mut job.transfer));
    }

    fn start_one(&self) -> io::Result<()> {
        if threads_with_room(1) == 0 {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let (calls, work) = (Arc::clone(&self.calls), Arc::clone(&self.work));
        let run = move || {
            let _gone = Gone(&work);
            lock(&work.jobs).idle -= 1;
            while let Some(mut job) = work.next() {
                calls.perform_all(&mut job.transfer);
            }
        };
        let started = thread::Builder::new().name("polder-io".into()).spawn(run)?;
        let mut all = lock(&self.started);
        all.retain(|thread| !thread.is_finished());
        all.push(started);
        Ok(())
    }
}

/// A thread ends. If that is by a panic, and it was the last one, what is left for it is delivered as it is.
struct Gone<'w>(&'w Work);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let mut jobs = lock(&self.0.jobs);
            jobs.threads -= 1;
            let left =
                if jobs.threads == 0 { std::mem::take(&mut jobs.new) } else { VecDeque::new() };
            drop(jobs);
            drop(left);
        }
    }
}

impl Work {
    /// Whether one more thread is to be started, which is counted from now on.
    fn wants_thread(&self) -> bool {
        let mut jobs = lock(&self.jobs);
        let wants = jobs.idle < jobs.new.len() && jobs.threads < MOST;
        jobs.threads += usize::from(wants);
        jobs.idle += usize::from(wants);
        wants
    }

    /// For a thread: what it is to do next; none if it is to end, after which it is not counted.
    fn next(&self) -> Option<Job> {
        let mut jobs = lock(&self.jobs);
        loop {
            if let Some(job) = jobs.new.pop_front() {
                return Some(job);
            }
            jobs.idle += 1;
            let waited = self
                .changed
                .wait_timeout_while(jobs, STAY, |jobs| jobs.new.is_empty() && !jobs.has_ended);
            let timeout;
            (jobs, timeout) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
            jobs.idle -= 1;
            if jobs.new.is_empty() && (jobs.has_ended || timeout.timed_out()) {
                jobs.threads -= 1;
                return None;
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        lock(&self.work.jobs).has_ended = true;
        self.work.changed.notify_all();
        for thread in std::mem::take(&mut *lock(&self.started)) {
            // One that panicked has delivered what it had.
            let _ = thread.join();
        }
    }
}

/// Transfers that one thread has under way.
pub(super) struct Threaded<'d> {
    threads: &'d Threads,
    letter_box: Arc<LetterBox>,
    under_way: usize,
    /// Not handed over yet.
    starts: Vec<Transfer>,
}

impl Threaded<'_> {
    pub(super) fn has_room(&self) -> bool {
        self.under_way < DEPTH
    }

    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Starts a transfer, for which there is room. Leaves an empty one there.
    pub(super) fn start(&mut self, transfer: &mut Transfer) {
        self.starts.push(std::mem::take(transfer));
        self.under_way += 1;
    }

    /// As that of a ring.
    pub(super) fn enter(&mut self, wait: bool, done: &mut Vec<Numbered>) {
        if !self.starts.is_empty() {
            self.hand_over();
        }
        let mut come = lock(&self.letter_box.done);
        while wait && come.is_empty() && self.under_way > 0 {
            let waited = self.letter_box.changed.wait(come);
            come = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        self.under_way -= come.len();
        come.drain(..).for_each(|mut transfer| done.append(&mut transfer));
    }

    fn hand_over(&mut self) {
        let jobs = self.starts.drain(..).map(|mut transfer| {
            // What they say if their thread dies.
            let died = || Err(io::Error::other("the thread that made the transfer died"));
            transfer.iter_mut().for_each(|(_, request)| request.outcome = died());
            Job { transfer, to: Arc::clone(&self.letter_box) }
        });
        self.threads.add(jobs);
    }
}

impl Drop for Threaded<'_> {
    fn drop(&mut self) {
        // QUEUE-3
        let mut done = Vec::new();
        while self.under_way > 0 {
            self.enter(true, &mut done);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::ptr::NonNull;

    use polder_format::{PageId, PageNo, SpaceId};

    use super::*;
    use crate::device::{Buffer, Direction, Request};

    fn threads(folder: &tempfile::TempDir) -> Threads {
        let path = folder.path().join("data");
        std::fs::write(&path, [7; 64 * 100]).unwrap();
        Threads::new(&Arc::new(Calls::new(File::open(path).unwrap(), false)))
    }

    /// 64 bytes, each time from elsewhere.
    fn transfer(number: u64, memory: &mut [u8; 64]) -> Transfer {
        let page = PageId::new(SpaceId::CATALOGUE, PageNo::MAX);
        // SAFETY: the memory outlives the request in these tests, and is looked at when that is done.
        let buffer = unsafe { Buffer::new(NonNull::from(memory).cast(), 64) };
        vec![(number, Request::new(Direction::Read, page, number * 64, buffer))]
    }

    /// Several threads have transfers; each gets its own back, and what is behind the end fails.
    #[test]
    fn everybody_gets_what_is_theirs() {
        let folder = tempfile::tempdir().unwrap();
        let threads = threads(&folder);
        thread::scope(|scope| {
            for first in 0..4 {
                let mut queue = threads.queue();
                scope.spawn(move || {
                    let mut memory = [[0; 64]; 30];
                    let (mut done, numbers) = (Vec::new(), first * 25..first * 25 + 30);
                    for (number, memory) in numbers.clone().zip(&mut memory) {
                        queue.start(&mut transfer(number, memory));
                        queue.enter(number % 7 == 0, &mut done);
                    }
                    while queue.under_way() > 0 {
                        queue.enter(true, &mut done);
                    }
                    let mut found: Vec<_> = done.iter().map(|(number, _)| *number).collect();
                    found.sort_unstable();
                    assert_eq!(found, numbers.collect::<Vec<_>>());
                    for (number, read) in done {
                        assert_eq!(read.outcome.is_ok(), number < 100, "{number}");
                    }
                });
            }
        });
        let there = lock(&threads.work.jobs).threads;
        assert!((1..=MOST).contains(&there), "{there} threads");
    }

    /// Nobody starts a thread beside one that waits, or that has not begun.
    #[test]
    fn a_transfer_starts_one_thread() {
        let folder = tempfile::tempdir().unwrap();
        let threads = threads(&folder);
        let mut queue = threads.queue();
        let (mut memory, mut done) = ([0; 64], Vec::new());
        for number in 0..20 {
            queue.start(&mut transfer(number, &mut memory));
            queue.enter(true, &mut done);
            assert!(done.pop().is_some_and(|(_, read)| read.outcome.is_ok()));
            // The thread waits for the next one.
            while lock(&threads.work.jobs).idle == 0 {
                thread::yield_now();
            }
        }
        assert_eq!(lock(&threads.started).len(), 1);
    }

    /// A thread dies, the last one: what it had, and what was left for it, comes back as an error.
    #[test]
    fn what_a_thread_leaves_undone_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let threads = threads(&folder);
        let mut queue = threads.queue();
        let mut memory = [[0; 64]; 2];
        let died = thread::scope(|scope| {
            lock(&threads.work.jobs).threads = 1;
            let [one, two] = &mut memory;
            for (number, memory) in [(0, one), (1, two)] {
                let mut transfer = transfer(number, memory);
                transfer[0].1.outcome = Err(io::ErrorKind::Other.into());
                let job = Job { transfer, to: Arc::clone(&queue.letter_box) };
                lock(&threads.work.jobs).new.push_back(job);
                queue.under_way += 1;
            }
            let dies = scope.spawn(|| {
                let _gone = Gone(&threads.work);
                let _job = threads.work.next();
                panic!("as the test wants it");
            });
            dies.join().is_err()
        });
        let mut done = Vec::new();
        while queue.under_way() > 0 {
            queue.enter(true, &mut done);
        }
        assert!(died && done.len() == 2 && done.iter().all(|(_, read)| read.outcome.is_err()));
        // The next one has a thread again.
        queue.start(&mut transfer(3, &mut memory[0]));
        queue.enter(true, &mut done);
        assert!(done[2].1.outcome.is_ok() && memory[0] == [7; 64]);
    }
}
