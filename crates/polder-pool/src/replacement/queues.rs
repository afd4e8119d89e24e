//! Queues of frames, linked in arrays: what LRU, 2Q, S3-FIFO and the cooling stage are made of.
//!
//! * `LIST-1` A number is in one queue at most, and `place` says in which.
//! * `LIST-2` Each queue is a ring through its own sentinel, so no link is ever missing.
//!
//! Nothing is allocated after `new`, and what is allocated there is all zero, so that memory is taken
//! only for numbers that are used: a pool may have far more frames than its data needs.

use std::fmt;

/// In no queue. (In one: its number, and one more.)
const NOWHERE: u8 = 0;
/// Beside the queue: the number stands where `rotate` has put it.
const ROTATED: u8 = 1 << 6;

/// Which queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Queue(pub(super) u8);

/// `COUNT` queues over the numbers 1 to `numbers`.
pub(super) struct Queues<const COUNT: usize> {
    /// Towards the back; the sentinels lie behind the numbers.
    next: Links,
    /// Towards the front.
    previous: Links,
    place: Box<[u8]>,
    lengths: [u32; COUNT],
    /// Of those, the rotated ones.
    rotated: [u32; COUNT],
    numbers: u32,
}

/// Links from each number to another one, at first to itself.
struct Links(Box<[u32]>);

impl Links {
    fn new(len: usize) -> Links {
        Links(vec![0; len].into())
    }

    fn get(&self, from: u32) -> u32 {
        self.0[from as usize] ^ from
    }

    fn set(&mut self, from: u32, to: u32) {
        self.0[from as usize] = to ^ from;
    }
}

/// Not the links, which are as many as frames.
impl<const COUNT: usize> fmt::Debug for Queues<COUNT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queues of {:?}", self.lengths)
    }
}

impl<const COUNT: usize> Queues<COUNT> {
    /// Memory for each number.
    pub(super) const BYTES_PER_NUMBER: u64 = 4 + 4 + 1;

    /// All empty.
    pub(super) fn new(numbers: u32) -> Queues<COUNT> {
        let links = numbers as usize + COUNT + 1;
        Queues {
            next: Links::new(links),
            previous: Links::new(links),
            place: vec![NOWHERE; numbers as usize + 1].into(),
            lengths: [0; COUNT],
            rotated: [0; COUNT],
            numbers,
        }
    }

    fn sentinel(&self, queue: Queue) -> u32 {
        self.numbers + 1 + u32::from(queue.0)
    }

    /// How many are in the queue.
    pub(super) fn len(&self, queue: Queue) -> u32 {
        self.lengths[usize::from(queue.0)]
    }

    /// In which queue the number is.
    pub(super) fn place(&self, number: u32) -> Option<Queue> {
        let place = self.place[number as usize];
        (place != NOWHERE).then(|| Queue((place & !ROTATED) - 1))
    }

    /// The first in the queue.
    pub(super) fn front(&self, queue: Queue) -> Option<u32> {
        let first = self.next.get(self.sentinel(queue));
        (first <= self.numbers).then_some(first)
    }

    /// Moves the number to the back of the queue, from wherever it is.
    pub(super) fn push_back(&mut self, queue: Queue, number: u32) {
        self.remove(number);
        let last = self.previous.get(self.sentinel(queue));
        self.insert_behind(last, queue, number);
    }

    /// Moves the number to the front of the queue, from wherever it is.
    pub(super) fn push_front(&mut self, queue: Queue, number: u32) {
        self.remove(number);
        self.insert_behind(self.sentinel(queue), queue, number);
    }

    /// For a number that is in no queue (`LIST-1`).
    fn insert_behind(&mut self, before: u32, queue: Queue, number: u32) {
        let after = self.next.get(before);
        self.next.set(before, number);
        self.previous.set(number, before);
        self.next.set(number, after);
        self.previous.set(after, number);
        self.place[number as usize] = queue.0 + 1;
        self.lengths[usize::from(queue.0)] += 1;
    }

    /// Takes the number out of its queue. False if it was in none.
    pub(super) fn remove(&mut self, number: u32) -> bool {
        let Some(queue) = self.place(number) else { return false };
        self.rotated[usize::from(queue.0)] -= u32::from(self.is_rotated(number));
        // LIST-2: there is something on each side, if only the sentinel.
        let (before, after) = (self.previous.get(number), self.next.get(number));
        self.next.set(before, after);
        self.previous.set(after, before);
        self.place[number as usize] = NOWHERE;
        self.lengths[usize::from(queue.0)] -= 1;
        true
    }

    /// Moves the first to the back, and gives it.
    pub(super) fn rotate(&mut self, queue: Queue) -> Option<u32> {
        let first = self.front(queue)?;
        self.push_back(queue, first);
        self.place[first as usize] |= ROTATED;
        self.rotated[usize::from(queue.0)] += 1;
        Some(first)
    }

    /// How many in the queue were in `rotate` and were not moved since.
    pub(super) fn rotated(&self, queue: Queue) -> u32 {
        self.rotated[usize::from(queue.0)]
    }

    /// Whether the number was in `rotate` and was not moved since.
    pub(super) fn is_rotated(&self, number: u32) -> bool {
        let place = self.place[number as usize];
        place != NOWHERE && place & ROTATED != 0
    }

    /// `to`, which is in no queue, takes the place of `from`. False if that has none.
    pub(super) fn replace(&mut self, from: u32, to: u32) -> bool {
        let Some(queue) = self.place(from) else { return false };
        self.remove(to);
        self.insert_behind(from, queue, to);
        self.remove(from)
    }
}

#[cfg(test)]
mod tests;
