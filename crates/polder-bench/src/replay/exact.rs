//! References that need no frames: exact LRU, FIFO and random replacement.
//!
//! They count in frames or in bytes. In bytes they do as libCacheSim does: a page that is larger
//! than the cache is never kept, any other one always is, and as many go as are needed for it.

use super::Tally;
use super::trace::{Room, Trace, filled};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
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
    fn new(pages: u32) -> Result<Ring, BenchError> {
        let nobody = || filled(0, pages as usize + 1, "pages");
        Ok(Ring { next: nobody()?, previous: nobody()? })
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

    fn first(&self) -> Option<u32> {
        self.next[0].checked_sub(1)
    }
}

/// Runs through the trace.
pub(super) fn run(
    order: Order,
    trace: &Trace,
    room: &Room<'_>,
    interrupt: &Interrupt,
) -> Result<Tally, BenchError> {
    if order == Order::Random {
        random(trace, room, interrupt)
    } else {
        ring(order, trace, room, interrupt)
    }
}

fn ring(
    order: Order,
    trace: &Trace,
    room: &Room<'_>,
    interrupt: &Interrupt,
) -> Result<Tally, BenchError> {
    let mut ring = Ring::new(trace.pages)?;
    let mut resident = filled(false, trace.pages as usize, "pages")?;
    let mut used = 0;
    trace.count(interrupt, |_, page, dirty| {
        let hit = resident[page as usize];
        if hit && order == Order::Lru {
            ring.remove(page);
            ring.push(page);
        }
        if !hit && room.of(page) <= room.all {
            while used + room.of(page) > room.all {
                let Some(first) = ring.first() else { break };
                ring.remove(first);
                resident[first as usize] = false;
                dirty.evict(first);
                used -= room.of(first);
            }
            ring.push(page);
            resident[page as usize] = true;
            used += room.of(page);
        }
        Ok(hit)
    })
}

fn random(trace: &Trace, room: &Room<'_>, interrupt: &Interrupt) -> Result<Tally, BenchError> {
    let mut random = stream(1, 0);
    let mut resident: Vec<u32> = Vec::new();
    let mut is_resident = filled(false, trace.pages as usize, "pages")?;
    let mut used = 0;
    trace.count(interrupt, |_, page, dirty| {
        let hit = is_resident[page as usize];
        if !hit && room.of(page) <= room.all {
            while used + room.of(page) > room.all {
                let drawn = random.random_range(..resident.len() as u64);
                let gone = resident.swap_remove(drawn as usize);
                is_resident[gone as usize] = false;
                dirty.evict(gone);
                used -= room.of(gone);
            }
            resident.push(page);
            is_resident[page as usize] = true;
            used += room.of(page);
        }
        Ok(hit)
    })
}
