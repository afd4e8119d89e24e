//! Who writes passes here, so that closing and checking a store can wait until nobody does.
//!
//! Each thread counts itself in on a cache line of its own, then looks whether the way is open; who
//! closes it sets the state first and then waits for all counts. `SeqCst` on both sides: one of the
//! two sees the other. A thread that is inside already may pass again, or a write from within an
//! update's closure would wait for itself.
//!
//! Going out is a plain store: a locked instruction there would wait until all that the thread has
//! written has reached the cache. Only threads beyond the first few dozen share lines.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::engine::lock;
use crate::error::StoreError;

/// Threads with a line of their own.
const OWN: usize = 48;
/// Lines in all: the others are shared.
const LINES: usize = 64;
const OPEN: u8 = 0;
const PAUSED: u8 = 1;
const CLOSED: u8 = 2;

/// How long to sleep between looks at what the other side does.
const POLL: Duration = Duration::from_micros(200);

/// How many passes lead in here.
#[derive(Debug)]
#[repr(align(128))]
struct Line(AtomicU64);

/// The way to write.
#[derive(Debug)]
pub(crate) struct Passage {
    id: u64,
    state: AtomicU8,
    lines: [Line; LINES],
}

/// A thread that is inside.
#[derive(Debug)]
pub(crate) struct Pass<'p> {
    passage: &'p Passage,
    /// Where this thread is counted; none if it was inside already.
    line: Option<usize>,
    /// Goes out in the thread that went in.
    _here: PhantomData<*const ()>,
}

thread_local! {
    /// The passages that this thread is inside of, the innermost one last.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    static NUMBER: Number = Number::take();
}

/// Numbers of threads that have ended, and the next one.
static NUMBERS: Mutex<(Vec<usize>, usize)> = Mutex::new((Vec::new(), 0));

/// A number that no other running thread has.
struct Number(usize);

impl Number {
    fn take() -> Number {
        let (free, next) = &mut *lock(&NUMBERS);
        Number(free.pop().unwrap_or_else(|| {
            *next += 1;
            *next - 1
        }))
    }

    fn of_this_thread() -> usize {
        // A thread that is ending has none any more.
        NUMBER.try_with(|number| number.0).unwrap_or(OWN)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        lock(&NUMBERS).0.push(self.0);
    }
}

/// A number from 0 to 15 that spreads threads over shared counters.
pub(crate) fn stripe() -> usize {
    Number::of_this_thread() % 16
}

impl Passage {
    pub(crate) fn new() -> Passage {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Passage {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            state: AtomicU8::new(OPEN),
            lines: [const { Line(AtomicU64::new(0)) }; LINES],
        }
    }

    /// Whether the store is closed: for readers, who need no pass.
    #[inline(always)]
    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        if self.state.load(Ordering::Relaxed) == CLOSED {
            return Err(StoreError::Closed);
        }
        Ok(())
    }

    /// Goes in to write; waits while the way is paused.
    pub(crate) fn enter(&self) -> Result<Pass<'_>, StoreError> {
        let pass = |line| Pass { passage: self, line, _here: PhantomData };
        if self.is_inside() {
            INSIDE.with_borrow_mut(|inside| inside.push(self.id));
            return Ok(pass(None));
        }
        let number = Number::of_this_thread();
        let line = if number < OWN { number } else { OWN + number % (LINES - OWN) };
        loop {
            self.lines[line].0.fetch_add(1, Ordering::SeqCst);
            match self.state.load(Ordering::SeqCst) {
                OPEN => break,
                state => {
                    self.go_out(line);
                    if state == CLOSED {
                        return Err(StoreError::Closed);
                    }
                    thread::sleep(POLL);
                }
            }
        }
        INSIDE.with_borrow_mut(|inside| inside.push(self.id));
        Ok(pass(Some(line)))
    }

    fn go_out(&self, line: usize) {
        if line < OWN {
            self.lines[line].0.store(0, Ordering::Release);
        } else {
            self.lines[line].0.fetch_sub(1, Ordering::Release);
        }
    }

    /// Whether this thread is at work in the store: in the closure of an update, say.
    fn is_inside(&self) -> bool {
        INSIDE.with_borrow(|inside| inside.contains(&self.id))
    }

    fn wait_until_empty(&self) {
        let empty = || self.lines.iter().all(|line| line.0.load(Ordering::SeqCst) == 0);
        while !empty() {
            thread::sleep(POLL);
        }
    }

    /// Keeps writers out until the result is dropped.
    pub(crate) fn pause(&self) -> Result<Pause<'_>, StoreError> {
        if self.is_inside() {
            return Err(StoreError::Nested);
        }
        while let Err(state) =
            self.state.compare_exchange(OPEN, PAUSED, Ordering::SeqCst, Ordering::SeqCst)
        {
            if state == CLOSED {
                return Err(StoreError::Closed);
            }
            thread::sleep(POLL);
        }
        let pause = Pause(self);
        self.wait_until_empty();
        Ok(pause)
    }

    /// Keeps everybody out for good. An error if that was done before.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        std::mem::forget(self.pause()?);
        self.state.store(CLOSED, Ordering::SeqCst);
        Ok(())
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(|inside| {
            let at = inside.iter().rposition(|id| *id == self.passage.id);
            at.map(|at| inside.remove(at))
        });
        if let Some(line) = self.line {
            self.passage.go_out(line);
        }
    }
}

/// Nobody writes.
#[derive(Debug)]
pub(crate) struct Pause<'p>(&'p Passage);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.state.store(OPEN, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_pause_waits_for_writers_and_they_for_it() {
        let passage = Passage::new();
        let (inside, passes) = (AtomicU64::new(0), AtomicU64::new(0));
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let _pass = passage.enter().unwrap();
                        let _nested = passage.enter().unwrap();
                        inside.fetch_add(1, Ordering::SeqCst);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        passes.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            for _ in 0..300 {
                // Writers come through in between.
                let before = passes.load(Ordering::SeqCst);
                while passes.load(Ordering::SeqCst) < before + 10 {
                    thread::yield_now();
                }
                let _pause = passage.pause().unwrap();
                let met = (0..50).map(|_| {
                    thread::yield_now();
                    inside.load(Ordering::SeqCst)
                });
                if met.sum::<u64>() > 0 {
                    stop.store(true, Ordering::Relaxed);
                    panic!("somebody is inside");
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        passage.close().unwrap();
        assert!(matches!(passage.close(), Err(StoreError::Closed)));
        assert!(matches!(passage.enter(), Err(StoreError::Closed)));
        assert!(passage.check_open().is_err());
    }

    #[test]
    fn who_is_inside_cannot_wait_until_nobody_is() {
        let (a, b) = (Passage::new(), Passage::new());
        let outer = a.enter().unwrap();
        let other = b.enter().unwrap();
        let nested = a.enter().unwrap();
        assert!(matches!(a.pause(), Err(StoreError::Nested)));
        assert!(matches!(a.close(), Err(StoreError::Nested)));
        drop(nested);
        assert!(matches!(a.close(), Err(StoreError::Nested)));
        drop((outer, other));
        a.close().unwrap();
        b.close().unwrap();
    }
}
