//! Requests to a file that are under way at once: what was pushed is joined where it follows each other
//! in the file, and goes to an engine that makes transfers, as many at a time as that has room for.

use std::collections::VecDeque;
use std::fmt;

use super::ring::Ring;
use super::threads::Threaded;
use super::transfer::{Numbered, Transfer, is_long_read, joined};
use crate::device::queue::sort_by_offset;
use crate::device::{Request, RequestQueue};

/// What makes transfers.
pub(super) enum Engine<'d> {
    /// The kernel.
    Ring(Box<Ring<'d>>),
    /// Threads.
    Threads(Threaded<'d>),
}

impl Engine<'_> {
    fn has_room(&self) -> bool {
        match self {
            Engine::Ring(ring) => ring.has_room(),
            Engine::Threads(threads) => threads.has_room(),
        }
    }

    fn under_way(&self) -> usize {
        match self {
            Engine::Ring(ring) => ring.under_way(),
            Engine::Threads(threads) => threads.under_way(),
        }
    }

    fn start(&mut self, transfer: &mut Transfer) {
        match self {
            Engine::Ring(ring) => ring.start(transfer),
            Engine::Threads(threads) => threads.start(transfer),
        }
    }

    fn enter(&mut self, wait: bool, done: &mut Vec<Numbered>) {
        match self {
            Engine::Ring(ring) => ring.enter(wait, done),
            Engine::Threads(threads) => threads.enter(wait, done),
        }
    }
}

/// Requests of one thread.
pub(super) struct FileQueue<'d> {
    engine: Engine<'d>,
    pushed: VecDeque<Numbered>,
    /// So many of them, at the front, could not be started before.
    waiting: usize,
    /// Memory of a transfer.
    transfer: Transfer,
}

impl<'d> FileQueue<'d> {
    pub(super) fn new(engine: Engine<'d>) -> FileQueue<'d> {
        FileQueue { engine, pushed: VecDeque::new(), waiting: 0, transfer: Vec::new() }
    }

    /// Starts as many transfers as there is room for. What was pushed first goes first. Long reads are handed
    /// over one by one: the kernel would join neighbours that it is given together (`READ_MAX`).
    fn start(&mut self, done: &mut Vec<Numbered>) {
        let pushed = self.pushed.make_contiguous();
        if pushed.len() > self.waiting + 1 {
            sort_by_offset(&mut pushed[self.waiting..], |(_, request)| request.offset);
        }
        while !self.pushed.is_empty() && self.engine.has_room() {
            let count = joined(self.pushed.make_contiguous());
            self.transfer.extend((0..count).filter_map(|_| self.pushed.pop_front()));
            let is_long = is_long_read(&self.transfer);
            self.engine.start(&mut self.transfer);
            if is_long {
                self.engine.enter(false, done);
            }
        }
        self.waiting = self.pushed.len();
    }
}

impl fmt::Debug for FileQueue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let under_way = self.engine.under_way();
        f.debug_struct("FileQueue").field("under_way", &under_way).finish_non_exhaustive()
    }
}

impl RequestQueue for FileQueue<'_> {
    fn push(&mut self, number: u64, request: Request) {
        self.pushed.push_back((number, request));
    }

    fn reap(&mut self, wait: bool, done: &mut Vec<Numbered>) {
        let before = done.len();
        if !self.pushed.is_empty() {
            self.start(done);
        }
        // Some may have come back while others were handed over.
        self.engine.enter(wait && done.len() == before, done);
    }
}
