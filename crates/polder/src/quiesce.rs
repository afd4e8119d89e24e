//! Quiesce: a writer enters here and leaves again, so that closing and checking a store can wait
//! until no writer is inside.
//!
//! Each thread counts itself in on a cache line of its own, then looks whether the way is open;
//! the thread that closes it sets the state first and then waits for all counts. `SeqCst` on both
//! sides: one of the two sees the other. A thread that is inside is not let in again: an update's
//! closure that writes would wait for itself, or undo for ever what its own update has looked at.
//!
//! To leave is an ordinary store: a locked instruction there would wait until all that
//! the thread has written has reached the cache. Only threads beyond the first few dozen share
//! lines.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use polder_pool::{PoolError, lock, waits};

use crate::error::StoreError;

/// Threads with a line of their own.
const OWN: usize = 48;
/// Lines in all: the others are shared.
const LINES: usize = 64;
const OPEN: u8 = 0;
const PAUSED: u8 = 1;
/// As `OPEN`, but no thread is let in, for good.
const READ_ONLY: u8 = 2;
const CLOSED: u8 = 3;
/// This process is a child of the one that has the store open.
const FORKED: u8 = 4;
/// Stores that a thread may write to at the same time, one in the closure of an update of the
/// other.
const MOST_INSIDE: usize = 8;

/// How long to sleep between looks at what the other side does.
const POLL: Duration = Duration::from_micros(200);

/// How many entries are counted here.
#[derive(Debug)]
#[repr(align(128))]
struct Line(AtomicU64);

/// The way to write.
#[derive(Debug)]
pub(crate) struct Quiesce {
    id: u64,
    /// What the state is when nobody pauses or closes: `OPEN` or `READ_ONLY`.
    at_rest: u8,
    state: AtomicU8,
    lines: [Line; LINES],
}

/// A thread that is inside.
#[derive(Debug)]
pub(crate) struct Entered<'p> {
    quiesce: &'p Quiesce,
    /// Where this thread is counted.
    line: usize,
    /// Goes out in the thread that went in.
    _here: PhantomData<*const ()>,
}

thread_local! {
    /// The stores that this thread is inside of, without gaps; 0 is none. It has no destructor, so
    /// that it is there as long as the thread is, for the destructors of others.
    static INSIDE: [Cell<u64>; MOST_INSIDE] = const { [const { Cell::new(0) }; MOST_INSIDE] };
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

/// Over so many lines threads are spread where they share a counter.
pub(crate) const STRIPES: usize = 16;

/// A number below [`STRIPES`] that spreads threads over shared counters.
pub(crate) fn stripe() -> usize {
    Number::of_this_thread() % STRIPES
}

impl Quiesce {
    pub(crate) fn new() -> Quiesce {
        Quiesce::resting_at(OPEN)
    }

    /// One that lets nobody in.
    pub(crate) fn read_only() -> Quiesce {
        Quiesce::resting_at(READ_ONLY)
    }

    fn resting_at(at_rest: u8) -> Quiesce {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Quiesce {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            at_rest,
            state: AtomicU8::new(at_rest),
            lines: [const { Line(AtomicU64::new(0)) }; LINES],
        }
    }

    /// Whether the store is closed: for readers, which do not enter.
    #[inline(always)]
    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        let state = self.state.load(Ordering::Relaxed);
        if state >= CLOSED {
            return Err(refusal(state));
        }
        Ok(())
    }

    /// Goes in to write; waits while the way is paused.
    pub(crate) fn enter(&self) -> Result<Entered<'_>, StoreError> {
        self.note()?;
        let number = Number::of_this_thread();
        let line = if number < OWN { number } else { OWN + number % (LINES - OWN) };
        loop {
            self.lines[line].0.fetch_add(1, Ordering::SeqCst);
            match self.state.load(Ordering::SeqCst) {
                OPEN => break,
                state => {
                    self.go_out(line);
                    if let Err(error) = self.check_writable(state) {
                        self.forget();
                        return Err(error);
                    }
                    // WAIT-1
                    if waits::refuses() {
                        self.forget();
                        return Err(StoreError::Io { source: PoolError::WouldWait.into() });
                    }
                    thread::sleep(POLL);
                }
            }
        }
        Ok(Entered { quiesce: self, line, _here: PhantomData })
    }

    /// Whether the store can be written, though perhaps not now.
    fn check_writable(&self, state: u8) -> Result<(), StoreError> {
        match state {
            CLOSED.. => Err(refusal(state)),
            _ if self.is_read_only() => Err(StoreError::ReadOnly),
            _ => Ok(()),
        }
    }

    /// Whether no thread is ever let in.
    pub(crate) fn is_read_only(&self) -> bool {
        self.at_rest == READ_ONLY
    }

    /// Whether a thread that writes would be let in, or only had to wait: for what changes no
    /// table.
    pub(crate) fn check_may_write(&self) -> Result<(), StoreError> {
        self.check_writable(self.state.load(Ordering::Relaxed))
    }

    /// Notes that this thread is inside.
    #[inline]
    fn note(&self) -> Result<(), StoreError> {
        INSIDE.with(|inside| {
            for noted in inside {
                match noted.get() {
                    0 => {
                        noted.set(self.id);
                        return Ok(());
                    }
                    id if id == self.id => break,
                    _ => {}
                }
            }
            Err(StoreError::Nested)
        })
    }

    #[inline]
    fn forget(&self) {
        INSIDE.with(|inside| {
            let used = inside.iter().take_while(|noted| noted.get() != 0).count();
            let Some(last) = used.checked_sub(1) else { return };
            if let Some(own) = inside[..used].iter().find(|noted| noted.get() == self.id) {
                own.set(inside[last].get());
                inside[last].set(0);
            }
        });
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
        INSIDE.with(|inside| inside.iter().any(|noted| noted.get() == self.id))
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
            self.state.compare_exchange(self.at_rest, PAUSED, Ordering::SeqCst, Ordering::SeqCst)
        {
            if state >= CLOSED {
                return Err(refusal(state));
            }
            thread::sleep(POLL);
        }
        let pause = Pause(self);
        self.wait_until_empty();
        Ok(pause)
    }

    /// The process is a child of the one that has the store: no thread is let in.
    pub(crate) fn set_forked(&self) {
        self.state.store(FORKED, Ordering::SeqCst);
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FORKED
    }

    /// Keeps all threads out for good. An error if that was done before.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        std::mem::forget(self.pause()?);
        self.state.store(CLOSED, Ordering::SeqCst);
        Ok(())
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.quiesce.forget();
        self.quiesce.go_out(self.line);
    }
}

/// Why no thread is let in.
#[cold]
#[inline(never)]
fn refusal(state: u8) -> StoreError {
    if state == FORKED { StoreError::Forked } else { StoreError::Closed }
}

/// No thread writes.
#[derive(Debug)]
pub(crate) struct Pause<'p>(&'p Quiesce);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.state.store(self.0.at_rest, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
