//! Transfers that are under way at once, by the kernel's queues (io_uring).
//!
//! A thread that has transfers takes a ring as long as it has some. It hands over what was started since
//! it came last, by one call, which also waits if that is asked for.
//!
//! * `QUEUE-1` What the kernel was given is awaited before its memory goes back to the caller, whatever
//!   a call says.
//! * `QUEUE-2` A ring serves one thread at a time, and is empty in between.
//!
//! What else a ring can do was tried, and is not done. Completions that wait until the thread comes for them
//! (`IORING_SETUP_DEFER_TASKRUN`) wake it for each one, where a device has many done at once; with
//! `IORING_SETUP_COOP_TASKRUN`, or a registered file, nothing is gained. Registered frames save a part of
//! the processor's work that does not limit a thread, and would keep their memory pinned: holes in it
//! could not be given back, and `RLIMIT_MEMLOCK` would bound the pool.
//!
//! A ring that the kernel takes nothing from any more is used until what it took is done; the rest is
//! transferred by calls. Where the kernel has no rings, or does not let us have one (containers mostly
//! forbid them), that is found out when a file is opened (`threads.rs`). One that has been idle for a
//! while is closed: it costs a file descriptor and memory of the kernel's.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode, types};
use libc::iovec;

use self::staging::{Part, Staging};
use super::calls::Calls;
use super::transfer::{Numbered, READ_MAX, Transfer, is_read, pieces_of};
use crate::device::Direction;

mod staging;

/// Transfers under way at once in one ring.
pub(super) const DEPTH: usize = 64;
/// Rings of one file: one for each thread that has transfers under way.
const MOST: usize = 64;
/// One that nobody has used for so long is closed.
const KEEP: Duration = Duration::from_secs(1);

/// The rings of a file.
#[derive(Default)]
pub(super) struct Rings {
    made: Mutex<Made>,
    /// Relaxed: a stale value costs one more attempt.
    refused: AtomicBool,
    staging: Staging,
}

#[derive(Default)]
struct Made {
    /// The one that was used last at the end.
    idle: Vec<(Instant, IoUring)>,
    in_use: usize,
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rings").field("refused", &self.refused).finish_non_exhaustive()
    }
}

impl Rings {
    /// Whether the kernel lets us have none.
    pub(super) fn are_refused(&self) -> bool {
        self.refused.load(Relaxed)
    }

    /// Finds out whether the kernel lets us have any. Keeps none: its file descriptor may be the last one,
    /// and others need it more.
    pub(super) fn try_first(&self) {
        if self.take().is_some() {
            self.give_back(None);
        }
    }

    /// A ring for transfers of `calls`'s file, if there is one to be had.
    pub(super) fn ring<'d>(&'d self, calls: &'d Calls) -> Option<Ring<'d>> {
        let io = Some(self.take()?);
        let (slots, idle, started, refused) =
            (Vec::new(), Vec::new(), VecDeque::new(), VecDeque::new());
        Some(Ring { calls, rings: self, io, slots, idle, started, refused })
    }

    /// Closes rings that nobody uses.
    pub(super) fn close_idle(&self) {
        let now = Instant::now();
        let mut made = self.made();
        let fresh = made.idle.partition_point(|(since, _)| now.duration_since(*since) >= KEEP);
        let closed: Vec<_> = made.idle.drain(..fresh).collect();
        let are_all_closed = made.idle.is_empty() && made.in_use == 0;
        drop(made);
        drop(closed);
        if are_all_closed {
            self.staging.release();
        }
    }

    fn take(&self) -> Option<IoUring> {
        if self.are_refused() {
            return None;
        }
        let mut made = self.made();
        if made.in_use == MOST {
            return None;
        }
        let io = match made.idle.pop() {
            Some((_, io)) => io,
            None => make().inspect_err(|error| self.note(error)).ok()?,
        };
        made.in_use += 1;
        Some(io)
    }

    /// One that was taken is used no more, and empty (`QUEUE-2`); or none, as it is not to be used
    /// again.
    fn give_back(&self, io: Option<IoUring>) {
        let now = Instant::now();
        let mut made = self.made();
        made.in_use -= 1;
        made.idle.extend(io.map(|io| (now, io)));
        let is_old = made.idle.first().is_some_and(|(since, _)| now.duration_since(*since) >= KEEP);
        drop(made);
        if is_old {
            self.close_idle();
        }
    }

    /// A kernel that has no rings, or lets us have none, is not asked again; one that is short of
    /// something may have it later.
    fn note(&self, error: &io::Error) {
        let short = [libc::EAGAIN, libc::EBUSY, libc::EMFILE, libc::ENFILE, libc::ENOMEM];
        if !error.raw_os_error().is_some_and(|code| short.contains(&code)) {
            self.refused.store(true, Relaxed);
        }
    }

    #[cfg(test)]
    pub(super) fn refuse(&self) {
        self.refused.store(true, Relaxed);
        self.made().idle.clear();
    }

    /// Rings that are idle, and in use.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let made = self.made();
        (made.idle.len(), made.in_use)
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn make() -> io::Result<IoUring> {
    // A child of a fork does not have what is the parent's.
    IoUring::builder().dontfork().build(DEPTH as u32)
}

/// A transfer that the kernel knows by the number of its slot.
#[derive(Default)]
struct Slot<'d> {
    /// None: the slot is idle.
    requests: Transfer,
    pieces: Vec<iovec>,
    len: usize,
    /// Where the kernel reads to, unless that is where the requests say.
    part: Option<Part<'d>>,
}

/// A ring that one thread has.
pub(super) struct Ring<'d> {
    calls: &'d Calls,
    rings: &'d Rings,
    /// None once the kernel has refused it.
    io: Option<IoUring>,
    slots: Vec<Slot<'d>>,
    idle: Vec<usize>,
    /// Slots that the kernel has not taken, in the order in which it will.
    started: VecDeque<usize>,
    /// Transfers that are to be made by calls.
    refused: VecDeque<Transfer>,
}

impl Ring<'_> {
    /// Whether one more transfer can be started.
    pub(super) fn has_room(&self) -> bool {
        self.under_way() < DEPTH
    }

    /// Transfers that have not come back.
    pub(super) fn under_way(&self) -> usize {
        self.slots.len() - self.idle.len() + self.refused.len()
    }

    /// Starts a transfer, for which there is room. Leaves an empty one there.
    pub(super) fn start(&mut self, transfer: &mut Transfer) {
        let Some(io) = &mut self.io else {
            return self.refused.push_back(std::mem::take(transfer));
        };
        let number = self.idle.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        let slot = &mut self.slots[number];
        std::mem::swap(&mut slot.requests, transfer);
        slot.len = pieces_of(&slot.requests, &mut slot.pieces);
        if is_read(&slot.requests) && slot.pieces.len() >= staging::FROM && slot.len <= READ_MAX {
            slot.part = self.rings.staging.take();
        }
        if let Some(part) = &slot.part {
            slot.pieces.clear();
            slot.pieces.push(part.piece(slot.len));
        }
        // The kernel that knows reads and writes of one piece of memory, 5.6, says so by this.
        let entry = entry(self.calls, slot, io.params().is_feature_rw_cur_pos());
        // SAFETY: the memory is ours until the requests have come back (QUEUE-3), and they stay in
        // their slot until then, as do the pieces (QUEUE-1); the file is borrowed for longer.
        let is_pushed = unsafe { io.submission().push(&entry.user_data(number as u64)) };
        debug_assert!(is_pushed.is_ok(), "there are as many places as transfers under way");
        self.started.push_back(number);
    }

    /// Gives the kernel what was started, and puts what has come back into `done`; with `wait`, waits for
    /// a transfer, unless none is under way.
    pub(super) fn enter(&mut self, wait: bool, done: &mut Vec<Numbered>) {
        let before = done.len();
        self.take_done(done);
        let lacks = |ring: &Self, done: &[Numbered]| {
            wait && done.len() == before && ring.refused.is_empty() && ring.under_way() > 0
        };
        // Once more if a signal has ended the waiting.
        while lacks(self, done) || !self.started.is_empty() {
            self.call_kernel(lacks(self, done), done);
            self.take_done(done);
        }
        while let Some(mut transfer) = self.refused.pop_front() {
            self.calls.perform_all(&mut transfer);
            done.append(&mut transfer);
        }
    }

    fn call_kernel(&mut self, wait: bool, done: &mut Vec<Numbered>) {
        while let Some(io) = &mut self.io {
            let entered = io.submit_and_wait(usize::from(wait));
            let left = io.submission().len();
            (left..self.started.len()).for_each(|_| _ = self.started.pop_front());
            match entered {
                Ok(_) if left == 0 => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.end(&error, done),
            }
        }
    }

    /// The kernel takes no more: what it took is awaited (`QUEUE-1`), what it did not is transferred by
    /// calls.
    fn end(&mut self, error: &io::Error, done: &mut Vec<Numbered>) {
        self.rings.note(error);
        while let Some(number) = self.started.pop_front() {
            let slot = &mut self.slots[number];
            self.refused.push_back(std::mem::take(&mut slot.requests));
            slot.part = None;
            self.idle.push(number);
        }
        while self.idle.len() < self.slots.len() {
            self.take_done(done);
            thread::yield_now();
        }
        if self.io.take().is_some() {
            self.rings.give_back(None);
        }
    }

    /// What the kernel says is done.
    fn take_done(&mut self, done: &mut Vec<Numbered>) {
        let Some(io) = &mut self.io else { return };
        for entry in io.completion() {
            let number = entry.user_data() as usize;
            let Some(slot) = self.slots.get_mut(number) else { continue };
            self.idle.push(number);
            let part = slot.part.take();
            if usize::try_from(entry.result()) == Ok(slot.len) {
                if let Some(part) = part {
                    part.copy_to(&mut slot.requests);
                }
                slot.requests.iter_mut().for_each(|(_, request)| request.outcome = Ok(()));
            } else {
                self.calls.perform_all(&mut slot.requests); // FILE-3
            }
            done.append(&mut slot.requests);
        }
    }
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        // QUEUE-3
        let mut done = Vec::new();
        while self.under_way() > 0 {
            self.enter(true, &mut done);
        }
        if let Some(io) = self.io.take() {
            self.rings.give_back(Some(io));
        }
    }
}

fn entry(calls: &Calls, slot: &Slot<'_>, knows_single: bool) -> Entry {
    let file = types::Fd(calls.file.as_raw_fd());
    let (direction, offset) = match slot.requests.first() {
        Some((_, first)) => (first.direction, first.offset),
        None => return opcode::Nop::new().build(),
    };
    match (direction, slot.pieces.as_slice()) {
        (Direction::Read, [one]) if knows_single => {
            let (at, len) = (one.iov_base.cast(), one.iov_len as u32);
            opcode::Read::new(file, at, len).offset(offset).build()
        }
        (Direction::Write, [one]) if knows_single => {
            let (at, len) = (one.iov_base.cast_const().cast(), one.iov_len as u32);
            opcode::Write::new(file, at, len).offset(offset).build()
        }
        // At most JOINED_MAX.
        (Direction::Read, pieces) => {
            opcode::Readv::new(file, pieces.as_ptr(), pieces.len() as u32).offset(offset).build()
        }
        (Direction::Write, pieces) => {
            opcode::Writev::new(file, pieces.as_ptr(), pieces.len() as u32).offset(offset).build()
        }
    }
}

#[cfg(test)]
mod tests;
