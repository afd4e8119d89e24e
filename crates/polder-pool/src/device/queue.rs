//! Requests of one thread that are under way at once, and come back one by one, in any order.

use std::fmt;

use super::{Batch, Device, Request};

/// Requests of one thread that are under way at once. Each has a number, by which the caller knows it
/// when it comes back.
///
/// * `QUEUE-3` A request that was handed over owns its buffer until it has come back. So a queue that is
///   dropped waits for all of them.
pub trait RequestQueue: fmt::Debug {
    /// Hands over a request. It is under way at the latest when the next one is waited for. Requests
    /// whose bytes in the file overlap are not under way at once, unless all of them read.
    fn push(&mut self, number: u64, request: Request);

    /// Gives back requests that are done; each then says how it went. With `wait`, at least one, unless
    /// none is under way.
    fn reap(&mut self, wait: bool, done: &mut Vec<(u64, Request)>);
}

/// Brings requests into the order of their offsets. There are few, or most are in order; and this is a small
/// part of a program, which a general sort is not.
pub(crate) fn sort_by_offset<R>(requests: &mut [R], offset: impl Fn(&R) -> u64) {
    for sorted in 1..requests.len() {
        let mut at = sorted;
        while at > 0 && offset(&requests[at - 1]) > offset(&requests[at]) {
            requests.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// How often it may be asked for what is done until what was handed over is done: others may wait for
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

impl<D: Device + ?Sized> RequestQueue for Collecting<'_, D> {
    fn push(&mut self, number: u64, request: Request) {
        self.pushed.push((number, request));
    }

    fn reap(&mut self, wait: bool, done: &mut Vec<(u64, Request)>) {
        self.asked += 1;
        if self.pushed.is_empty() || !wait && self.asked < PATIENCE {
            return;
        }
        self.asked = 0;
        sort_by_offset(&mut self.pushed, |(_, request)| request.offset);
        let (mut numbers, requests): (Vec<_>, Vec<_>) = self
            .pushed
            .drain(..)
            .map(|(number, request)| ((number, request.buffer.as_ptr()), request))
            .unzip();
        let batch = self.device.perform(Batch::Many(requests));
        // In whatever order they come back: each owns its buffer alone (QUEUE-3).
        for request in batch.into_requests() {
            let is_its = |(_, at): &(u64, *mut u8)| *at == request.buffer.as_ptr();
            if let Some(place) = numbers.iter().position(is_its) {
                done.push((numbers.remove(place).0, request));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::ptr::NonNull;

    use polder_format::{PageId, PageNo, SpaceId};

    use super::*;
    use crate::device::{Buffer, Direction};

    /// Gives a batch back in an order of its own.
    #[derive(Debug)]
    struct Backwards;

    impl Device for Backwards {
        fn perform(&self, mut batch: Batch) -> Batch {
            batch.requests_mut().reverse();
            batch
        }
        fn allocate(&self, _: u64, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn truncate(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn punch(&self, _: u64, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
        fn len(&self) -> io::Result<u64> {
            Ok(0)
        }
    }

    #[test]
    fn requests_are_known_by_their_numbers_in_whatever_order_they_come_back() {
        let mut memory = [0_u8; 8];
        let mut queue = Collecting::new(&Backwards);
        for (number, at) in memory.iter_mut().enumerate() {
            // SAFETY: nobody reads or writes it.
            let buffer = unsafe { Buffer::new(NonNull::from(at), 1) };
            let page = PageId::new(SpaceId::CATALOGUE, PageNo::MAX);
            let offset = (number as u64 * 3 % 8) * 4096;
            queue.push(number as u64, Request::new(Direction::Read, page, offset, buffer));
        }
        let mut done = Vec::new();
        queue.reap(true, &mut done);
        assert_eq!(done.len(), 8);
        for (number, request) in done {
            assert_eq!(request.offset, (number * 3 % 8) * 4096);
        }
    }
}
