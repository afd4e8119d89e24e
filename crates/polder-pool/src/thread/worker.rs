//! A thread that works behind others: it starts when something is asked of it, and ends when
//! nothing was for a while. So a store without work has no threads. How an asker and a thread that
//! leaves do not miss each other: `duty.rs`.
//!
//! ```
//! use std::sync::{Arc, mpsc};
//! use std::time::Duration;
//!
//! use polder_pool::worker::{Call, Worker};
//!
//! let worker = Arc::new(Worker::default());
//! let (its, (done, results)) = (Arc::clone(&worker), mpsc::channel());
//! worker.arm("example", move || {
//!     loop {
//!         match its.wait(Duration::from_millis(10)) {
//!             Call::Asked => drop(done.send("done")),
//!             Call::Nobody if its.leave() => return, // the next one who asks starts a thread
//!             Call::Nobody => {}
//!             Call::Stop => return,
//!         }
//!     }
//! })?;
//! worker.wake()?;
//! assert_eq!(results.recv(), Ok("done"));
//! worker.stop();
//! # Ok::<(), std::io::Error>(())
//! ```

#![cfg(not(loom))]

use std::fmt;
use std::io;
use std::sync::{Arc, Condvar};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::duty::{Duty, Place};

/// What the thread does: it calls [`Worker::wait`] again and again, and returns when it is told to
/// stop or has left ([`Worker::leave`]).
type Run = Arc<dyn Fn() + Send + Sync>;

/// What is asked of a worker's thread ([`Worker::wait`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Somebody asked.
    Asked,
    /// Nobody asked for as long as it waited.
    Nobody,
    /// It must end.
    Stop,
}

/// By which a thread is asked to work, and told to end. At most one thread works at a time. Before
/// it is armed nobody works, and what is asked is remembered.
#[derive(Default)]
pub struct Worker {
    duty: Duty<Threads>,
    condition: Condvar,
}

#[derive(Default)]
struct Threads {
    name: &'static str,
    /// None: no thread starts yet, or none any more.
    run: Option<Run>,
    /// Those that were started and may not have ended yet: all but the last one have left, and are
    /// at their end.
    started: Vec<JoinHandle<()>>,
    is_stopped: bool,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Worker({})", self.duty.place().more.name)
    }
}

impl Worker {
    /// From now on a thread starts when it is asked for; now, if it was before. It bears `name`,
    /// without zero bytes, of which the system keeps the first 15, and calls `run`, which is kept
    /// until [`Worker::stop`].
    ///
    /// # Errors
    /// That of starting a thread.
    pub fn arm(
        &self,
        name: &'static str,
        run: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<()> {
        let mut place = self.duty.place();
        place.more.name = name;
        place.more.run = Some(Arc::new(run));
        if self.duty.is_asked() { self.call(&mut place) } else { Ok(()) }
    }

    /// Asks the thread to work, and starts one if there is none. A fence and a load if somebody has
    /// asked already.
    ///
    /// # Errors
    /// That of starting a thread; the next one who asks tries it again.
    #[inline]
    pub fn wake(&self) -> io::Result<()> {
        match self.duty.ask() {
            None => Ok(()),
            Some(mut place) => self.call(&mut place),
        }
    }

    /// Asks as [`Worker::wake`] does, and ends a [rest](Worker::rest) of the thread, too.
    ///
    /// # Errors
    /// As [`Worker::wake`].
    pub fn urge(&self) -> io::Result<()> {
        self.call(&mut self.duty.insist())
    }

    /// Wakes the thread up, or starts one.
    #[cold]
    fn call(&self, place: &mut Place<Threads>) -> io::Result<()> {
        // A thread that has seen that nobody asked sleeps by now.
        self.condition.notify_one();
        if place.is_present {
            return Ok(());
        }
        let Some(run) = place.more.run.clone() else { return Ok(()) };
        // One that has left is at its end, but the asker, which may hold latches, does not wait for
        // that.
        place.more.started.retain(|thread| !thread.is_finished());
        let thread = thread::Builder::new().name(place.more.name.to_string());
        let started = thread.spawn(move || run()).inspect_err(|_| self.duty.forget())?;
        place.more.started.push(started);
        place.is_present = true;
        Ok(())
    }

    /// Whether somebody has asked since the thread last began to work.
    pub fn is_asked(&self) -> bool {
        self.duty.is_asked()
    }

    /// The thread must end, and no other one starts. Waits until it has, and those that left
    /// before: each holds what it works on until its end. If the thread itself calls this, it does not
    /// wait for itself.
    pub fn stop(&self) {
        let mut place = self.duty.place();
        place.more.is_stopped = true;
        let (_run, started) = (place.more.run.take(), std::mem::take(&mut place.more.started));
        self.condition.notify_all();
        drop(place);
        // One that panicked has nothing to say that others would not find out.
        for thread in started.into_iter().filter(|it| it.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }

    /// Whether the thread must end, or must not start.
    pub fn is_stopped(&self) -> bool {
        self.duty.place().more.is_stopped
    }

    /// For the thread: waits to be asked, at most for the time `most`, and says what is asked of
    /// it.
    pub fn wait(&self, most: Duration) -> Call {
        let mut place = self.duty.place();
        if !place.more.is_stopped && !self.duty.is_asked() {
            let waited = self.condition.wait_timeout(place, most);
            place = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        match (place.more.is_stopped, self.duty.take()) {
            (true, _) => Call::Stop,
            (false, true) => Call::Asked,
            (false, false) => Call::Nobody,
        }
    }

    /// For the thread: whether it may return now. If not, somebody has asked, and it goes on.
    pub fn leave(&self) -> bool {
        self.duty.leave()
    }

    /// For the thread: sleeps for this time although somebody asked, unless it is urged or must
    /// end.
    pub fn rest(&self, time: Duration) {
        let place = self.duty.place();
        if !place.more.is_stopped {
            drop(self.condition.wait_timeout(place, time));
        }
    }

    /// As [`Worker::rest`], and goes on by itself as if it had been asked: nobody needs to ask
    /// meanwhile.
    pub fn nap(&self, time: Duration) {
        let place = self.duty.insist();
        if !place.more.is_stopped {
            drop(self.condition.wait_timeout(place, time));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Instant;

    use super::*;

    /// A worker whose thread counts how often it was asked, and stays for so long.
    fn counting(stay: Duration) -> (Arc<Worker>, Arc<AtomicU32>, Arc<AtomicU32>) {
        let (worker, started, asked) =
            (Arc::new(Worker::default()), Arc::default(), Arc::default());
        let (its, starts, asks) = (Arc::clone(&worker), Arc::clone(&started), Arc::clone(&asked));
        let run = move || {
            AtomicU32::fetch_add(&starts, 1, Ordering::Relaxed);
            loop {
                match its.wait(stay) {
                    Call::Asked => _ = AtomicU32::fetch_add(&asks, 1, Ordering::Relaxed),
                    Call::Nobody if its.leave() => return,
                    Call::Nobody => {}
                    Call::Stop => return,
                }
            }
        };
        worker.arm("counting", run).unwrap();
        (worker, started, asked)
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < Duration::from_secs(20), "{what}");
            thread::sleep(Duration::from_micros(100));
        }
    }

    #[test]
    fn a_thread_starts_when_it_is_asked_for_and_leaves_when_it_is_not() {
        let (worker, started, asked) = counting(Duration::from_millis(20));
        assert!(!worker.duty.place().is_present, "it has started without work");
        for round in 1..=3 {
            worker.wake().unwrap();
            until("it was asked in vain", || asked.load(Ordering::Relaxed) >= round);
            until("it has not left", || !worker.duty.place().is_present);
            assert_eq!(started.load(Ordering::Relaxed), round);
        }
        worker.stop();
        worker.wake().unwrap();
        assert!(!worker.duty.place().is_present, "one has started after the end");
    }

    /// Asked about when it leaves, thousands of times: each time somebody comes.
    #[test]
    fn nobody_asks_in_vain_while_the_thread_leaves() {
        let (worker, started, asked) = counting(Duration::from_micros(50));
        for round in 1..=2000 {
            worker.wake().unwrap();
            until("it was asked in vain", || asked.load(Ordering::Relaxed) >= round);
            (0..round % 90).for_each(|_| thread::yield_now());
        }
        worker.stop();
        assert!(started.load(Ordering::Relaxed) >= 1);
    }

    #[test]
    fn what_is_asked_for_before_it_is_armed_is_not_forgotten() {
        let worker = Arc::new(Worker::default());
        worker.wake().unwrap();
        let done = Arc::new(AtomicU32::new(0));
        let (its, count) = (Arc::clone(&worker), Arc::clone(&done));
        let run = move || {
            if its.wait(Duration::MAX) == Call::Asked {
                count.fetch_add(1, Ordering::Relaxed);
            }
            its.leave();
        };
        worker.arm("late", run).unwrap();
        until("it was asked in vain", || done.load(Ordering::Relaxed) == 1);
        worker.stop();
    }
}
