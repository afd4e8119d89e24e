//! Reads of one thread that are under way at once, in a queue of the kernel's that the thread has as
//! long as it has reads.
//!
//! Reads are given to the kernel when the thread asks what is done, all of them by one call, which
//! also waits if that is asked for. A read that did not fill its buffer is made again by a call of its
//! own (`FILE-3`). A queue that the kernel does not take reads from any more is used until those are
//! done that it took; the others are made by calls.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::thread;

use io_uring::{IoUring, opcode, types};

use super::DEPTH;
use crate::device::file::FileDevice;
use crate::device::{ReadQueue, Request};

/// A queue for reads, where the kernel has one for us. Buffered reads go faster one by one.
pub(in super::super) fn reads(device: &FileDevice) -> Option<Box<dyn ReadQueue + '_>> {
    let ring = device.is_direct().then(|| device.read_queues.take()).flatten()?;
    Some(Box::new(Reads {
        device,
        ring: Some(ring),
        slots: Vec::new(),
        idle: Vec::new(),
        pushed: VecDeque::new(),
        done: Vec::new(),
    }))
}

/// Reads in a queue of the kernel's.
struct Reads<'d> {
    device: &'d FileDevice,
    /// None once the kernel has refused it.
    ring: Option<IoUring>,
    /// Reads that are not done, each in the slot whose number the kernel knows.
    slots: Vec<Option<(u64, Request)>>,
    idle: Vec<usize>,
    /// Slots that the kernel has not taken, in the order in which it will.
    pushed: VecDeque<usize>,
    /// Reads that were made by calls.
    done: Vec<(u64, Request)>,
}

impl fmt::Debug for Reads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reads").field("under_way", &self.under_way()).finish_non_exhaustive()
    }
}

impl ReadQueue for Reads<'_> {
    fn push(&mut self, number: u64, read: Request) {
        if self.ring.is_none() || self.under_way() == DEPTH {
            return self.call(number, read);
        }
        let slot = self.idle.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let file = types::Fd(self.device.file.as_raw_fd());
        let entry = opcode::Read::new(file, read.buffer.as_ptr(), read.buffer.len() as u32)
            .offset(read.offset)
            .build()
            .user_data(slot as u64);
        self.slots[slot] = Some((number, read));
        self.pushed.push_back(slot);
        let Some(ring) = &mut self.ring else { return };
        // SAFETY: the buffer is ours until the read has come back (QUEUE-3), and the read stays in its
        // slot until then (QUEUE-1); the file is borrowed for longer.
        let is_pushed = unsafe { ring.submission().push(&entry) };
        debug_assert!(is_pushed.is_ok(), "there are as many places as reads under way");
    }

    fn reap(&mut self, wait: bool, done: &mut Vec<(u64, Request)>) {
        self.take_done();
        let wait = wait && self.done.is_empty() && self.under_way() > 0;
        if wait || !self.pushed.is_empty() {
            self.enter(wait);
            self.take_done();
        }
        done.append(&mut self.done);
    }
}

impl Reads<'_> {
    fn under_way(&self) -> usize {
        self.slots.len() - self.idle.len()
    }

    /// A read by a call of its own.
    fn call(&mut self, number: u64, mut read: Request) {
        self.device.perform_one(&mut read);
        self.done.push((number, read));
    }

    /// Gives the kernel what was pushed; waits for a read if asked to.
    fn enter(&mut self, wait: bool) {
        while let Some(ring) = &mut self.ring {
            let entered = ring.submit_and_wait(usize::from(wait));
            let left = ring.submission().len();
            self.pushed.drain(..self.pushed.len().saturating_sub(left));
            match entered {
                Ok(_) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.end_ring(&error),
            }
        }
    }

    /// The kernel takes no more: what it took is awaited, what it did not is read by calls.
    fn end_ring(&mut self, error: &io::Error) {
        self.device.read_queues.note(error);
        let refused: Vec<_> = self.pushed.drain(..).collect();
        for slot in refused {
            if let Some((number, read)) = self.slots[slot].take() {
                self.idle.push(slot);
                self.call(number, read);
            }
        }
        while self.under_way() > 0 {
            self.take_done();
            thread::yield_now();
        }
        if self.ring.take().is_some() {
            self.device.read_queues.give_back(None);
        }
    }

    /// What the kernel says is done.
    fn take_done(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        let mut again = Vec::new();
        for entry in ring.completion() {
            let slot = entry.user_data() as usize;
            let Some((number, mut read)) = self.slots.get_mut(slot).and_then(Option::take) else {
                continue;
            };
            self.idle.push(slot);
            if usize::try_from(entry.result()) == Ok(read.buffer.len()) {
                read.outcome = Ok(());
                self.done.push((number, read));
            } else {
                again.push((number, read));
            }
        }
        again.into_iter().for_each(|(number, read)| self.call(number, read));
    }
}

impl Drop for Reads<'_> {
    fn drop(&mut self) {
        // QUEUE-3
        while self.under_way() > 0 {
            self.enter(true);
            self.take_done();
        }
        if let Some(ring) = self.ring.take() {
            self.device.read_queues.give_back(Some(ring));
        }
    }
}
