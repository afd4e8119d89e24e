//! Transfers that are under way at once, by the kernel's queues (io_uring).
//!
//! A checkpoint writes pages that lie anywhere: one after the other a device has one request at a
//! time, and each costs a call and a wake-up. Here a batch is handed over by one call, and awaited by
//! the same.
//!
//! * `QUEUE-1` What the kernel was given is awaited before its memory goes back to the caller, whatever
//!   a call says.
//! * `QUEUE-2` A queue serves one batch at a time, and is empty in between.
//!
//! Where the kernel has no queues, or does not let us have one (containers mostly forbid them), nothing
//! is transferred here, and the caller makes its own calls.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode, types};
use libc::iovec;

use super::run::Run;
use crate::device::Direction;

mod reads;

pub(super) use reads::reads;

/// Transfers under way at once in one queue.
pub(super) const DEPTH: usize = 64;

/// The queues of a file for one purpose.
pub(super) struct Queues {
    /// So many at most.
    most: usize,
    made: Mutex<Made>,
    /// Relaxed: a stale value costs one more attempt.
    refused: AtomicBool,
}

#[derive(Default)]
struct Made {
    idle: Vec<IoUring>,
    in_use: usize,
}

impl std::fmt::Debug for Queues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queues").field("refused", &self.refused).finish_non_exhaustive()
    }
}

impl Queues {
    /// At most so many. A thread that comes when all are in use makes calls of its own.
    pub(super) fn at_most(most: usize) -> Queues {
        Queues { most, made: Mutex::default(), refused: AtomicBool::new(false) }
    }

    /// How many bytes each run moved: `None`, or nothing at all for those behind the end, where the
    /// caller must do it. Runs do not overlap.
    pub(super) fn transfer(
        &self,
        file: &File,
        runs: &[Run],
        pieces: &[iovec],
    ) -> Vec<Option<usize>> {
        let Some(queue) = self.take() else { return Vec::new() };
        let mut working = Some(queue);
        let mut moved = Vec::with_capacity(runs.len());
        for part in runs.chunks(DEPTH) {
            let Some(queue) = &mut working else { break };
            let entries = part
                .iter()
                .enumerate()
                .map(|(i, run)| entry(file, run, &pieces[run.pieces.clone()]).user_data(i as u64));
            let begin = moved.len();
            moved.resize(begin + part.len(), None);
            // SAFETY: the pieces name memory of requests that are not complete, so that it is mapped
            // and no other thread writes it (Buffer::new); for a read nobody relies on its contents.
            // `pieces` and `file` are borrowed for longer than this call.
            if let Err(error) = unsafe { go(queue, entries, &mut moved[begin..]) } {
                self.note(&error);
                working = None;
            }
        }
        self.give_back(working);
        moved
    }

    /// One that was taken is used no more, and empty (`QUEUE-2`); or none, as it is not to be used
    /// again.
    pub(super) fn give_back(&self, queue: Option<IoUring>) {
        let mut made = self.made();
        made.in_use -= 1;
        made.idle.extend(queue);
    }

    pub(super) fn take(&self) -> Option<IoUring> {
        if self.refused.load(Relaxed) {
            return None;
        }
        let mut made = self.made();
        if made.in_use == self.most {
            return None;
        }
        let queue = made.idle.pop().map_or_else(|| IoUring::new(DEPTH as u32), Ok);
        match queue {
            Ok(queue) => {
                made.in_use += 1;
                Some(queue)
            }
            Err(error) => {
                self.note(&error);
                None
            }
        }
    }

    /// A kernel that has no queues, or lets us have none, is not asked again; one that is short of
    /// something may have it later.
    pub(super) fn note(&self, error: &io::Error) {
        let short = [libc::EAGAIN, libc::EBUSY, libc::EMFILE, libc::ENFILE, libc::ENOMEM];
        if !error.raw_os_error().is_some_and(|code| short.contains(&code)) {
            self.refused.store(true, Relaxed);
        }
    }

    #[cfg(test)]
    pub(super) fn refuse(&self) {
        self.refused.store(true, Relaxed);
    }

    #[cfg(test)]
    pub(super) fn are_refused(&self) -> bool {
        self.refused.load(Relaxed)
    }

    /// Queues that are idle, and in use.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let made = self.made();
        (made.idle.len(), made.in_use)
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entry(file: &File, run: &Run, pieces: &[iovec]) -> Entry {
    let file = types::Fd(file.as_raw_fd());
    let count = pieces.len() as u32; // at most JOINED_MAX
    match run.direction {
        Direction::Read => {
            opcode::Readv::new(file, pieces.as_ptr(), count).offset(run.offset).build()
        }
        Direction::Write => {
            opcode::Writev::new(file, pieces.as_ptr(), count).offset(run.offset).build()
        }
    }
}

/// Hands over entries, at most [`DEPTH`], whose data is their place in `moved`, and waits for all. An error
/// if the kernel does not take them: then the queue is not to be used again.
///
/// # Safety
/// What the entries name is there and may be read, or written, until this returns.
unsafe fn go(
    queue: &mut IoUring,
    entries: impl Iterator<Item = Entry>,
    moved: &mut [Option<usize>],
) -> io::Result<()> {
    for entry in entries {
        // SAFETY: all that were given to the kernel are awaited below (QUEUE-1); others go with the
        // queue.
        if unsafe { queue.submission().push(&entry) }.is_err() {
            debug_assert!(false, "QUEUE-2");
        }
    }
    let mut left = moved.len();
    let mut refusal = None;
    while left > 0 {
        if refusal.is_none() {
            let submitted = queue.submit_and_wait(left);
            refusal = submitted.err().filter(|error| error.kind() != io::ErrorKind::Interrupted);
        }
        for done in queue.completion() {
            left -= 1;
            if let Some(moved) = moved.get_mut(done.user_data() as usize) {
                *moved = usize::try_from(done.result()).ok();
            }
        }
        if let Some(error) = refusal.take_if(|_| left == queue.submission().len()) {
            // What the kernel has not taken by now it never will.
            return Err(error);
        }
        if left > 0 {
            thread::yield_now();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_passes_and_a_refusal_stays() {
        let queues = Queues::at_most(4);
        for code in [libc::EMFILE, libc::ENOMEM, libc::EAGAIN] {
            queues.note(&io::Error::from_raw_os_error(code));
            assert!(!queues.are_refused());
        }
        queues.note(&io::Error::from_raw_os_error(libc::EPERM));
        assert!(queues.are_refused() && queues.take().is_none());
    }

    #[test]
    fn there_are_only_so_many() {
        let queues = Queues::at_most(4);
        let taken: Vec<_> = (0..5).map(|_| queues.take()).collect();
        assert!(taken[4].is_none());
        let given = taken.iter().flatten().count();
        assert_eq!(queues.counts(), (0, given));
    }
}
