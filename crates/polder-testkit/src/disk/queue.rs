//! Reads under way at once, which come back in any order.

use polder_pool::device::{Batch, Device, Request, RequestQueue};

use super::SimDisk;

/// Each read is a batch of its own: it may fail, and wait, by itself.
#[derive(Debug)]
pub(super) struct Queue<'d> {
    disk: &'d SimDisk,
    under_way: Vec<(u64, Request)>,
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
        self.under_way.push((number, read));
        let counts = &mut self.disk.state().counts;
        counts.most_queued = counts.most_queued.max(self.under_way.len() as u64);
    }

    fn reap(&mut self, wait: bool, done: &mut Vec<(u64, Request)>) {
        let most = self.under_way.len();
        let count = if most == 0 { 0 } else { self.draw(most.min(4) + 1).max(usize::from(wait)) };
        for _ in 0..count {
            let (number, read) = self.under_way.swap_remove(self.draw(self.under_way.len()));
            let batch = self.disk.complete(self.disk.submit(Batch::One(read)));
            done.extend(batch.into_requests().into_iter().map(|read| (number, read)));
        }
    }
}
