//! The ids of pages that went not long ago: 2Q's A1out.
//!
//! A FIFO queue of ids with a chained hash table beside it, all in arrays; nothing is allocated
//! after `new`.

use std::fmt;

use polder_format::PageId;

use super::queues::{Queue, Queues};

/// Slots that hold an id, the oldest first.
const USED: Queue = Queue(0);
const FREE: Queue = Queue(1);

/// See the module.
pub(super) struct Ghosts {
    /// Slots are numbered from 1; 0 ends a chain.
    slots: Queues<2>,
    pages: Box<[PageId]>,
    chain: Box<[u32]>,
    buckets: Box<[u32]>,
}

/// Not the ids, which are half as many as frames.
impl fmt::Debug for Ghosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ghosts", self.slots.len(USED))
    }
}

impl Ghosts {
    /// A slot in the queue and the chain, an id, and two buckets at most.
    pub(super) const BYTES_PER_GHOST: u64 =
        Queues::<2>::BYTES_PER_NUMBER + size_of::<PageId>() as u64 + 4 + 2 * 4;

    pub(super) fn new(most: u32) -> Ghosts {
        let mut slots = Queues::new(most);
        (1..=most).for_each(|slot| slots.push_back(FREE, slot));
        Ghosts {
            slots,
            pages: vec![PageId::NULL; most as usize + 1].into(),
            chain: vec![0; most as usize + 1].into(),
            buckets: vec![0; most.next_power_of_two() as usize].into(),
        }
    }

    fn bucket(&self, page: PageId) -> usize {
        // The upper bits of a product depend on all bits of the id (Fibonacci hashing).
        let hash = page.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        hash as usize & (self.buckets.len() - 1)
    }

    /// Remembers the page; forgets the oldest one if there is no room.
    pub(super) fn add(&mut self, page: PageId) {
        self.remove(page);
        if self.slots.front(FREE).is_none()
            && let Some(oldest) = self.slots.front(USED)
        {
            self.remove(self.pages[oldest as usize]);
        }
        let Some(slot) = self.slots.front(FREE) else { return };
        self.slots.push_back(USED, slot);
        let bucket = self.bucket(page);
        self.pages[slot as usize] = page;
        self.chain[slot as usize] = self.buckets[bucket];
        self.buckets[bucket] = slot;
    }

    /// Forgets the page. False if it was not known.
    pub(super) fn remove(&mut self, page: PageId) -> bool {
        let bucket = self.bucket(page);
        let (mut before, mut slot) = (0, self.buckets[bucket]);
        while slot != 0 && self.pages[slot as usize] != page {
            (before, slot) = (slot, self.chain[slot as usize]);
        }
        if slot == 0 {
            return false;
        }
        let after = self.chain[slot as usize];
        if before == 0 {
            self.buckets[bucket] = after;
        } else {
            self.chain[before as usize] = after;
        }
        self.slots.push_back(FREE, slot);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::replacement::dice::Dice;
    use crate::replacement::testing::page;

    #[test]
    fn ghosts_are_those_of_a_deque() {
        for most in [1, 7, 64] {
            let mut ghosts = Ghosts::new(most);
            let mut model = VecDeque::new();
            let dice = Dice::new();
            for _ in 0..20_000 {
                let id = page(u64::from(dice.below(3 * most)));
                let known = model.contains(&id);
                model.retain(|&other| other != id);
                if dice.below(3) == 0 {
                    assert_eq!(ghosts.remove(id), known);
                } else {
                    ghosts.add(id);
                    model.push_back(id);
                    if model.len() > most as usize {
                        model.pop_front();
                    }
                }
            }
            for id in (0..3 * most).map(|id| page(u64::from(id))) {
                assert_eq!(ghosts.remove(id), model.contains(&id));
            }
        }
    }
}
