//! Reads of one thread that are under way at once, and come back one by one, in any order.

use std::fmt;

use super::{Batch, Device, Request};

/// Reads of one thread that are under way at once. Each has a number, by which the caller knows it
/// when it comes back.
///
/// * `QUEUE-3` A read that was handed over owns its buffer until it has come back. So a queue that is
///   dropped waits for all of them.
pub trait ReadQueue: fmt::Debug {
    /// Hands over a read. It is under way at the latest when the next one is waited for.
    fn push(&mut self, number: u64, read: Request);

    /// Gives back reads that are done; each then says how it went. With `wait`, at least one, unless
    /// none is under way.
    fn reap(&mut self, wait: bool, done: &mut Vec<(u64, Request)>);
}

/// How often it may be asked for what is done until what was handed over is read: others may wait for
/// it.
const PATIENCE: usize = 256;

/// The queue of a device that has no better one: what was handed over is one batch.
#[derive(Debug)]
pub(super) struct Collecting<'d, D: Device + ?Sized> {
    device: &'d D,
    pushed: Vec<(u64, Request)>,
    asked: usize,
}

impl<'d, D: Device + ?Sized> Collecting<'d, D> {
    pub(super) fn new(device: &'d D) -> Collecting<'d, D> {
        Collecting { device, pushed: Vec::new(), asked: 0 }
    }
}

impl<D: Device + ?Sized> ReadQueue for Collecting<'_, D> {
    fn push(&mut self, number: u64, read: Request) {
        self.pushed.push((number, read));
    }

    fn reap(&mut self, wait: bool, done: &mut Vec<(u64, Request)>) {
        self.asked += 1;
        if self.pushed.is_empty() || !wait && self.asked < PATIENCE {
            return;
        }
        self.asked = 0;
        self.pushed.sort_by_key(|(_, read)| read.offset);
        let (numbers, reads): (Vec<_>, Vec<_>) = self.pushed.drain(..).unzip();
        let batch = self.device.complete(self.device.submit(Batch::Many(reads)));
        done.extend(numbers.into_iter().zip(batch.into_requests()));
    }
}
