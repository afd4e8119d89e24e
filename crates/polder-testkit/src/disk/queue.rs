//! Reads under way at once, which come back in any order.

use std::time::Instant;

use polder_pool::device::{Batch, Request, RequestQueue};

use super::SimDisk;

/// Each read is a batch of its own: it may fail, and wait, by itself. All wait at the same time, from when
/// they were handed over.
#[derive(Debug)]
pub(super) struct Queue<'d> {
    disk: &'d SimDisk,
    under_way: Vec<(u64, Request, Instant)>,
}

impl<'d> Queue<'d> {
    pub(super) fn new(disk: &'d SimDisk) -> Queue<'d> {
        Queue { disk, under_way: Vec::new() }
    }

    fn draw(&self, below: usize) -> usize {
        self.disk.state().plan.random.index(below)
    }
}

impl RequestQueue for Queue<'_> {
    fn push(&mut self, number: u64, read: Request) {
        self.under_way.push((number, read, Instant::now()));
        let counts = &mut self.disk.state().counts;
        counts.most_queued = counts.most_queued.max(self.under_way.len() as u64);
    }

    fn reap(&mut self, wait: bool, done: &mut Vec<(u64, Request)>) {
        let most = self.under_way.len();
        let count = if most == 0 { 0 } else { self.draw(most.min(4) + 1).max(usize::from(wait)) };
        for _ in 0..count {
            let (number, read, since) = self.under_way.swap_remove(self.draw(self.under_way.len()));
            let begun = self.disk.begin(Batch::One(read));
            let batch = self.disk.end(begun, since.elapsed());
            done.extend(batch.into_requests().into_iter().map(|read| (number, read)));
        }
    }
}
