//! References that need no frames: exact LRU, FIFO and random replacement.
//!
//! They count in frames or in bytes. In bytes they do as libCacheSim does: a page that is larger
//! than the cache is never kept, any other one always is, and as many go as are needed for it.

use super::Tally;
use super::trace::{Room, Trace};
use crate::error::BenchError;
use crate::random::{RngExt, stream};

/// Which page goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Order {
    #[strum(to_string = "exact LRU")]
    Lru,
    #[strum(to_string = "FIFO")]
    Fifo,
    Random,
}

/// Pages in the order in which they go, as a ring through number 0; page `p` has number `p + 1`.
struct Ring {
    next: Vec<u32>,
    previous: Vec<u32>,
}

impl Ring {
    fn new(pages: u32) -> Ring {
        let numbers = pages as usize + 1;
        Ring { next: vec![0; numbers], previous: vec![0; numbers] }
    }

    fn push(&mut self, page: u32) {
        let (number, last) = (page + 1, self.previous[0]);
        self.next[last as usize] = number;
        self.previous[number as usize] = last;
        self.next[number as usize] = 0;
        self.previous[0] = number;
    }

    fn remove(&mut self, page: u32) {
        let number = page as usize + 1;
        let (before, after) = (self.previous[number], self.next[number]);
        self.next[before as usize] = after;
        self.previous[after as usize] = before;
    }

    /// Takes the first page out; there must be one.
    fn pop(&mut self) -> u32 {
        let first = self.next[0] - 1;
        self.remove(first);
        first
    }
}

/// Runs through the trace.
pub(super) fn run(order: Order, trace: &Trace, room: &Room<'_>) -> Result<Tally, BenchError> {
    let mut is_resident = vec![false; trace.pages as usize];
    // The resident pages: in the ring, but for random replacement in the list.
    let (mut ring, mut list) = (Ring::new(trace.pages), Vec::new());
    let mut random = stream(1, 0);
    let mut used = 0;
    trace.count(|_, page, dirty| {
        let hit = is_resident[page as usize];
        if hit && order == Order::Lru {
            ring.remove(page);
            ring.push(page);
        }
        if !hit && room.of(page) <= room.all {
            while used + room.of(page) > room.all {
                let gone = match order {
                    Order::Lru | Order::Fifo => ring.pop(),
                    Order::Random => {
                        let drawn = random.random_range(..list.len() as u64);
                        list.swap_remove(drawn as usize)
                    }
                };
                is_resident[gone as usize] = false;
                dirty.evict(gone);
                used -= room.of(gone);
            }
            match order {
                Order::Lru | Order::Fifo => ring.push(page),
                Order::Random => list.push(page),
            }
            is_resident[page as usize] = true;
            used += room.of(page);
        }
        Ok(hit)
    })
}
